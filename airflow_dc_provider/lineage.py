"""A verdict for OpenLineage: what was asserted about the load's rows, and how many there were.

Imported only when Airflow's OpenLineage provider asks for it. Names and counts, never a value of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset
from openlineage.client.facet_v2 import data_quality_assertions_dataset, data_quality_metrics_input_dataset

from dc_engine.reporting import tolerated
from dc_engine.verdict import ConstraintVerdict, LostDependency, Verdict

_SPARK = "spark"
"""The namespace of tables and queries: only Spark knows where they are."""
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "": "file"}


def gate_lineage(changes: Mapping[str, Any], verdict: Verdict) -> OperatorLineage:
    """The load as a dataset that was read, with the facets of data quality."""
    lost = [one for one in verdict.dependencies.invalidated if one.watched]
    assertions = [*map(_of_constraint, verdict.constraints), *map(_of_lost, lost)]
    facets = {
        "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions),
        "dataQualityMetrics": data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
            columnMetrics={}, rowCount=verdict.rows.get("inserted", 0)
        ),
    }
    namespace, name = dataset_name(changes, verdict.table)
    return OperatorLineage(inputs=[InputDataset(namespace=namespace, name=name, inputFacets=facets)])


def dataset_name(changes: Mapping[str, Any], table: str) -> tuple[str, str]:
    """Namespace and name of a load's rows, as OpenLineage names files; a query has the name of the gated table."""
    if "path" not in changes:
        return _SPARK, str(changes.get("table") or table)
    address = urlsplit(str(changes["path"]))
    scheme = _SAME_STORE.get(address.scheme, address.scheme)
    if scheme == "file":
        return scheme, address.path.rstrip("/") or "/"
    return f"{scheme}://{address.netloc}", address.path.strip("/") or "/"


def _of_constraint(rule: ConstraintVerdict) -> Any:
    return _assertion(
        rule.name,
        assertion=rule.kind,
        success=rule.passed,
        severity=rule.severity,
        description=rule.description or None,
        expected=f"at most {tolerated(rule.tolerance)}",
        actual=str(rule.new_violations),
        content=rule.formula,
        contentType="expression",
    )


def _of_lost(lost: LostDependency) -> Any:
    return _assertion(
        lost.text,
        assertion=f"dependency ({lost.kind})",
        success=False,
        severity=lost.severity,
        actual=None if lost.violations is None else str(lost.violations),
        content=lost.formula,
        contentType="expression",
    )


def _assertion(name: str, **facts: Any) -> Any:
    """An assertion with those facts that the installed client knows; where it knows no names, they are its kind."""
    known = {one.name for one in attr.fields(data_quality_assertions_dataset.Assertion)}
    if "name" in known:
        facts["name"] = name
    else:
        facts["assertion"] = name
    return data_quality_assertions_dataset.Assertion(**{key: one for key, one in facts.items() if key in known})
