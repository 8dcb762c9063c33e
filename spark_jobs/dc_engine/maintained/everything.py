"""All that is maintained: list a new thing here, and every change, retraction, rebuild and check includes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.plan import Plan, identity_group
from dc_engine.detection.planning import make_plan
from dc_engine.maintained.base import Maintained
from dc_engine.maintained.continuity import DEPENDENCIES, discovered, rules_of
from dc_engine.maintained.violations import Violations
from dc_engine.request import Request
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot


def everything(
    plan: Plan, rules: ConstraintSet, facts: Mapping[str, Any], request: Request | None = None
) -> list[Maintained]:
    """All that a load, or (without a request) maintenance, has to maintain: ``facts`` are those of the state so far."""
    things: list[Maintained] = [Violations(plan, rules, request)]
    if DEPENDENCIES in facts:
        from dc_engine.maintained.dependencies import Dependencies  # only where there is something of it to keep

        things.append(Dependencies.of(facts[DEPENDENCIES], rules, request))
    return things


def everything_of(snapshot: Snapshot) -> list[Maintained]:
    """All that is kept up in a state as it is."""
    return everything(plan_of(snapshot), rules_of(snapshot), snapshot.facts)


def plan_of(snapshot: Snapshot, *, recognise: bool = False) -> Plan:
    """The plan by which the indexes of a snapshot were made."""
    also = [name for columns in further_columns(snapshot.facts).values() for name in columns]
    plan = make_plan(rules_of(snapshot), snapshot.schema, also)
    plan = plan.keeping(further_indexes(snapshot.facts))
    return plan.recognising() if recognise or recognises(snapshot) else plan


def further_columns(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Columns that are kept for something else than constraints, by what messages call it."""
    columns = list(discovered(facts))
    return {"the discovery of dependencies": columns} if columns else {}


def further_indexes(facts: Mapping[str, Any]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Indexes that are kept for something else than constraints: the key and the columns of each."""
    covers = facts.get(DEPENDENCIES, {}).get("covers", ())
    return [(tuple(one["key"] or one["columns"]), tuple(one["columns"])) for one in covers]


def recognises(snapshot: Snapshot) -> bool:
    """Whether the state has the index that recognises rows without a key."""
    index = identity_group((), {}, 0).indexes[0].id
    return bool(snapshot.files_of(FileKind.INDEX, index))
