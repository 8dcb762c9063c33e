"""A gate that is about to be mapped: the one moment at which a DAG file's mapping can be checked."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_dc_provider.arguments import check_constraints, check_load_is_named
from airflow_dc_provider.mapping import check_mapping


class GatePartial(OperatorPartial):
    """What ``DcGateOperator.partial`` returns."""

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Map over every combination of some arguments."""
        return _checked(super().expand(**mapped_kwargs))

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """Map over a list of mappings of arguments."""
        return _checked(super().expand_kwargs(kwargs, strict=strict))


def _checked(mapped: MappedOperator) -> MappedOperator:
    fixed = mapped.partial_kwargs
    if "load_id" in fixed:
        check_load_is_named(fixed["load_id"])
    check_mapping(mapped)
    if "constraints" in fixed:
        check_constraints(mapped, fixed["constraints"])
    return mapped
