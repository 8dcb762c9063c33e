"""All that is maintained: list a new thing here, and every change, retraction, rebuild and check includes it."""

from __future__ import annotations

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.plan import Plan, identity_group, make_plan
from dc_engine.maintained.base import Maintained
from dc_engine.maintained.violations import Violations
from dc_engine.request import Request
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot


def everything(plan: Plan, rules: ConstraintSet, request: Request | None = None) -> list[Maintained]:
    """All that a load, or (without a request) maintenance, has to maintain."""
    return [Violations(plan, rules, request)]


def everything_of(snapshot: Snapshot) -> list[Maintained]:
    """All that is kept up in a state as it is."""
    return everything(plan_of(snapshot), load_constraints(snapshot.constraints))


def plan_of(snapshot: Snapshot, *, recognise: bool = False) -> Plan:
    """The plan by which the indexes of a snapshot were made."""
    plan = make_plan(load_constraints(snapshot.constraints), snapshot.schema)
    return plan.recognising() if recognise or recognises(snapshot) else plan


def recognises(snapshot: Snapshot) -> bool:
    """Whether the state has the index that recognises rows without a key."""
    index = identity_group((), {}, 0).indexes[0].id
    return bool(snapshot.files_of(FileKind.INDEX, index))
