"""Pinned dependencies: rules that people expect to hold, judged by the exact number of their violations.

Their violations are counted with those of the constraints. One that had none without a load and has some with it is
lost by that load, and reported once. One that was violated before is neither lost nor watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dc_engine.constraints.model import Constraint
from dc_engine.constraints.naming import class_of, id_of, text_of
from dc_engine.constraints.printer import formula
from dc_engine.errors import capital, counted
from dc_engine.maintained.judging import Findings, shown_pair
from dc_engine.maintained.naming import RowNames
from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pinned dependency, and how many violations it has without a load and with it."""

    rule: Constraint
    before: int
    after: int
    findings: Findings = field(default_factory=Findings)

    @property
    def lost(self) -> bool:
        """Whether the load broke it."""
        return not self.before and self.after > 0

    @property
    def described(self) -> DependencyVerdict:
        """What a verdict says about it."""
        rule = self.rule
        return DependencyVerdict(
            id_of(rule), class_of(rule.bodies), text_of(rule.bodies), formula(rule), severity=rule.severity
        )


def judge_pinned(dependencies: Dependencies, pinned: Sequence[Pinned], names: RowNames) -> Dependencies:
    """The dependencies of a verdict with those that people pinned."""
    lost = [
        LostDependency(**asdict(one.described), violations=one.after, example=_example(one, names))
        for one in pinned
        if one.lost
    ]
    holding = [one.described for one in pinned if not one.after]
    return replace(
        dependencies,
        watched=[*dependencies.watched, *holding],
        invalidated=[*dependencies.invalidated, *lost],
    )


def without_load(dependencies: Dependencies, still: Sequence[Pinned]) -> Dependencies:
    """The same for a load that is not kept: those hold that hold in the state that stays, and were not lost by it."""
    lost = {one.id for one in dependencies.invalidated}
    own = {one.described.id for one in still}
    holding = [one.described for one in still if not one.after]
    others = [one for one in dependencies.watched if one.id not in own]
    return replace(dependencies, watched=[*others, *(one for one in holding if one.id not in lost)])


def does_not_hold(pinned: Sequence[Pinned]) -> list[str]:
    """A sentence for each that was violated already, and is still."""
    return [f"{_beginning(one)} {counted(one.after, 'violation')}." for one in pinned if one.after and not one.lost]


def corrected(notes: Sequence[str], still: Sequence[Pinned], *, told: bool) -> list[str]:
    """The notes of a load that is not kept, with the numbers of the state that stays."""
    stale = tuple(map(_beginning, still))
    return [*(note for note in notes if not note.startswith(stale)), *(does_not_hold(still) if told else ())]


def _beginning(pinned: Pinned) -> str:
    return f"{capital(pinned.rule.called)} does not hold:"


def _example(pinned: Pinned, names: RowNames) -> dict[str, Any] | None:
    """A pair of rows that violates it, as in the samples of a constraint."""
    for pair in pinned.findings.samples[:1]:
        return shown_pair(pair, pinned.rule, names.look_up(side["row_id"] for side in pair.values()))
    return None
