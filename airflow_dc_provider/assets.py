"""Assets behind a gate: their events carry the verdict, and consumers can ask for what they rely on.

A gate tells of an asset through an alias (``AssetAlias``) among its outlets: an asset among them would get an event
from every gate that is green, also from one that only warns or branches, and without a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSkipException,
    Asset,
    AssetAlias,
    BaseOperator,
)

from airflow_dc_provider.arguments import check_choice
from dc_engine.errors import counted, did_you_mean

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_OTHERWISE = ("fail", "skip")


def gated(asset: Asset) -> AssetAlias:
    """The alias by which gates tell of an asset."""
    return AssetAlias(f"gated {asset.name}")


def with_alias(outlets: Any, asset: Asset) -> list[Any]:
    """A gate's outlets with the alias of its asset; refuses the asset itself among them."""
    listed = list(outlets) if isinstance(outlets, list | tuple) else [] if outlets is None else [outlets]
    if asset in listed:
        raise ValueError(
            f"The asset '{asset.name}' is in 'outlets' too: it would get an event from every gate that is green, "
            "whatever the verdict. Name it as 'asset' alone."
        )
    alias = gated(asset)
    return listed if alias in listed else [*listed, alias]


def check_asset(asset: Any) -> None:
    """Refuse what is not an asset."""
    if asset is not None and not isinstance(asset, Asset):
        raise TypeError(f"asset is {asset!r}, and must be an Asset, for instance Asset('tax').")


def require_constraints(
    asset: Asset,
    *constraints: str,
    max_age: timedelta | None = None,
    in_table: bool = False,
    otherwise: str = "fail",
    task_id: str | None = None,
    **kwargs: Any,
) -> BaseOperator:
    """
    A task that lets a DAG go on only if what it relies on holds, by the newest event of a gated asset.

    :param asset: The asset that a gate tells of.
    :param constraints: The names of the rules that must have passed; by default all rules of the verdict. That a
        person approved the load does not make them pass.
    :param max_age: How old the event may be at most.
    :param in_table: Ask for more: no violation of these rules may be left in the whole table, by any load.
    :param otherwise: ``fail`` the task, or ``skip`` it, and what is behind it.
    """
    check_asset(asset)
    name = task_id or re.sub(r"[^\w.-]+", "_", f"require_{asset.name}")
    return _RequireConstraints(
        task_id=name,
        asset=asset,
        constraints=constraints,
        max_age=max_age,
        in_table=in_table,
        otherwise=otherwise,
        **kwargs,
    )


class _RequireConstraints(BaseOperator):
    """What ``require_constraints`` makes."""

    def __init__(
        self,
        *,
        asset: Asset,
        constraints: Sequence[str],
        max_age: timedelta | None,
        in_table: bool,
        otherwise: str,
        **kwargs: Any,
    ) -> None:
        if not all(isinstance(one, str) for one in constraints):
            raise ValueError(f"constraints are {constraints!r}, and must be names of rules: 'one', 'another'.")
        check_choice("otherwise", otherwise, _OTHERWISE)
        if max_age is not None and not isinstance(max_age, timedelta):
            raise ValueError(f"max_age is {max_age!r}, and must be a timedelta: timedelta(days=1).")
        super().__init__(**{**kwargs, "inlets": [asset]})
        self.asset = asset
        self.constraints = constraints
        self.max_age = max_age
        self.in_table = in_table
        self.otherwise = otherwise

    def execute(self, context: Context) -> dict[str, Any]:
        """Look at the newest event."""
        from dc_engine.wording import wrapped

        # One alone: an asset may have years of events, each with a verdict.
        event: Any = next(iter(context["inlet_events"][self.asset].ascending(False).limit(1)), None)
        problems = missing(event, self.asset.name, self.constraints, self.max_age, datetime.now(UTC), self.in_table)
        if not problems:
            verdict = event.extra
            self.log.info("Load %s of table %s has what is required.", verdict["load_id"], verdict["table"])
            return verdict
        self.log.error("%s", wrapped([f"Asset '{self.asset.name}' does not have what is required:", *problems]))
        raise (AirflowSkipException if self.otherwise == "skip" else AirflowFailException)(" ".join(problems))


def missing(
    event: Any, asset: str, constraints: Collection[str], max_age: timedelta | None, now: datetime, in_table: bool
) -> list[str]:
    """What a consumer requires and the newest event of an asset does not have, in sentences."""
    from dc_engine.wording import plain

    if event is None:
        return [f"The asset '{asset}' has no event yet: no load has passed its gate."]
    verdict = event.extra
    rules = verdict.get("constraints") if isinstance(verdict, Mapping) else None
    if not isinstance(rules, Mapping) or "load_id" not in verdict:
        return [f"The newest event of the asset '{asset}' has no verdict: it does not come from a gate."]
    load = f"Load {plain(verdict['load_id'], 300)}"
    problems = []
    if max_age is not None and now - event.timestamp > max_age:
        problems.append(f"{load} passed at {event.timestamp:%Y-%m-%d %H:%M} UTC, longer ago than {max_age}.")
    for name in constraints or rules:
        rule = rules.get(name)
        if rule is None:
            hint = did_you_mean(name, list(rules))
            problems.append(f"{load} was not judged by a rule '{plain(name)}'. {hint}".rstrip())
        elif not rule["passed"]:
            problems.append(f"{load} broke {plain(name)}: {counted(rule['new_violations'], 'new violation')}.")
        elif in_table and rule["total_violations"]:
            problems.append(f"The table has {counted(rule['total_violations'], 'violation')} of {plain(name)}.")
    return problems
