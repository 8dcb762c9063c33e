"""The verdict: the answer for one load. Facts, their JSON form, and the decision that follows from them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal

from dc_engine.constraints.model import Nulls, Severity, Tolerance
from dc_engine.errors import StateError

SCHEMA_VERSION = 1
_DEPTH = 2
"""So deep the parts of a verdict have lines of their own."""
_AS_JSON = json.JSONEncoder(ensure_ascii=False).encode
MASKED = "***"
"""What stands for a value that must not be shown."""
Decision = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class ConstraintVerdict:
    """What a load did to one constraint."""

    name: str
    kind: str
    formula: str
    severity: Severity
    passed: bool
    new_violations: int
    removed_violations: int
    total_violations: int
    violating_rows: int
    """Rows of this load that take part in a new violation."""
    skipped_null_rows: int
    """Rows of this load that cannot take part in any, because of a NULL."""
    max_new_violations: int | None
    max_violating_rows: int | str | None = None
    nulls: Nulls = "ignore"
    description: str = ""
    samples: list[dict[str, Any]] = field(default_factory=list)
    """Pairs that violate it: ``{"t": side, "s": side}``, a side is ``{"row": key, "values": {...}, "rows": n}``."""
    worst_rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows of this load, those with the most new violations first: ``{"row": key, "violations": n}``."""
    violations: str | None = None
    """Where the listed violations are, as Parquet."""
    violating_rows_listed: list[str] = field(default_factory=list)
    """Where each violating row of the load is, with its number of violations, as Parquet files."""

    @property
    def tolerance(self) -> Tolerance:
        """How much was tolerated."""
        return Tolerance.of(self.max_new_violations, self.max_violating_rows)

    @property
    def outcome(self) -> Decision:
        """What it means for the decision."""
        return "pass" if self.passed else _lost(self.severity)


@dataclass(frozen=True, slots=True)
class DependencyVerdict:
    """A dependency: a rule that was found in the data. In the document its ``kind`` is called ``class``."""

    id: str
    kind: str
    text: str
    """The short form, for people."""
    formula: str
    """The rule in full; it can be pasted into a constraint file."""
    severity: Severity = "warn"
    """What losing it means."""
    rank: int | None = None
    error: float = 0
    """The share of all pairs of rows that violate it."""
    since: str = ""
    """The load since which it has held."""

    @property
    def outcome(self) -> Decision:
        """What it means for the decision."""
        return "pass"


@dataclass(frozen=True, slots=True)
class LostDependency(DependencyVerdict):
    """A dependency that a load invalidated."""

    watched: bool = True
    """Whether it counts: one that nobody watches is only reported."""
    violations: int | None = 0
    """How many pairs of rows violate it now; None where that was not counted."""
    error_now: float | None = None
    """The share of all pairs that they are; ``error`` is what it was before."""
    example: dict[str, Any] | None = None
    """A pair of rows that violates it, in the form of a constraint's samples."""
    instead: list[dict[str, Any]] = field(default_factory=list)
    """What holds in its place, each by ``id`` and ``text``."""

    @property
    def outcome(self) -> Decision:
        """What it means for the decision."""
        return _lost(self.severity) if self.watched else "pass"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a load did to the maintained dependencies."""

    complete: bool = True
    """Whether all dependencies that hold are known; ``because`` says why not."""
    because: str = ""
    valid: dict[str, int] = field(default_factory=dict)
    """How many hold, by class."""
    watched: list[DependencyVerdict] = field(default_factory=list)
    """Those that count when they fall, and still hold."""
    invalidated: list[LostDependency] = field(default_factory=list)
    added: list[DependencyVerdict] = field(default_factory=list)
    """Those that hold since this load, and are not what is left of one that fell."""
    generalised: list[dict[str, Any]] = field(default_factory=list)
    """Those that still hold, but follow from a new one: ``{"id": ..., "text": ..., "by": ..., "by_text": ...}``."""
    seconds: float = 0

    def to_dict(self) -> dict[str, Any]:
        """The part of the verdict document."""
        lists = {name: [_named_class(one) for one in getattr(self, name)] for name in _DEPENDENCIES}
        return {**_values(self), **lists}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Dependencies:
        """The inverse of ``to_dict``."""
        lists = {
            name: [made(**{"kind" if key == "class" else key: value for key, value in one.items()}) for one in found]
            for name, made in _DEPENDENCIES.items()
            if (found := document.get(name)) is not None
        }
        return cls(**{**document, **lists})


_DEPENDENCIES = {"watched": DependencyVerdict, "invalidated": LostDependency, "added": DependencyVerdict}


def _named_class(one: DependencyVerdict) -> dict[str, Any]:
    return {"class" if name == "kind" else name: value for name, value in _values(one).items()}


def _values(one: Any) -> dict[str, Any]:
    """A fact by its fields. They are plain already: ``asdict`` would copy each of some hundred dependencies deeply."""
    return {name: getattr(one, name) for name in _names_in(one.__class__)}


@cache
def _names_in(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


def _lost(severity: Severity) -> Decision:
    return "fail" if severity == "error" else "warn"


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person decided about a load that the rules would stop."""

    answer: Literal["approved", "rejected"]
    by: str = ""
    """Who; empty when nobody answered in time."""
    at: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one load."""

    table: str
    load_id: str
    snapshot: int
    replayed: bool = False
    decision: Decision = "pass"
    rows: dict[str, int] = field(default_factory=dict)
    constraints: list[ConstraintVerdict] = field(default_factory=list)
    dependencies: Dependencies = field(default_factory=Dependencies)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What else a reader should know: constraints that were added or removed, tolerances that changed."""
    replaced: bool = False
    """Whether an earlier attempt of this load, with other changes, was taken out."""
    discarded: bool = False
    """Whether the load was rejected and its rows are not in the state."""
    columns: dict[str, str] = field(default_factory=dict)
    """The columns that are read from the table, with their Spark types."""
    quarantine: dict[str, Any] | None = None
    """Where the violating rows and the clean rest were written, and how many: ``violating``, ``clean``, ..."""
    decided: Decided | None = None
    """What a person decided about it since; the rules' own ``decision`` stays as it is."""

    def to_dict(self) -> dict[str, Any]:
        """The verdict document."""
        parts = {
            "constraints": [_values(one) for one in self.constraints],
            "dependencies": self.dependencies.to_dict(),
            "decided": self.decided and _values(self.decided),
        }
        return {"schema_version": SCHEMA_VERSION, **_values(self), **parts}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Verdict:
        """The inverse of ``to_dict``."""
        if document.get("schema_version") != SCHEMA_VERSION:
            raise StateError(
                f"The verdict has schema version {document.get('schema_version')!r}; this version reads "
                f"{SCHEMA_VERSION}.",
                hint="Upgrade airflow-dc-provider.",
            )
        facts = {name: value for name, value in document.items() if name != "schema_version"}
        facts["constraints"] = [ConstraintVerdict(**one) for one in document["constraints"]]
        facts["dependencies"] = Dependencies.from_dict(document["dependencies"])
        if document.get("decided") is not None:
            facts["decided"] = Decided(**document["decided"])
        return cls(**facts)

    @property
    def approved(self) -> bool:
        """Whether a person let it pass."""
        return self.decided is not None and self.decided.answer == "approved"

    @property
    def broken(self) -> list[ConstraintVerdict]:
        """The constraints beyond their tolerance, errors first, most new violations first."""
        failed = [one for one in self.constraints if not one.passed]
        return sorted(failed, key=lambda one: (one.severity != "error", -one.new_violations))


def decide(constraints: Iterable[ConstraintVerdict], dependencies: Dependencies) -> Decision:
    """``fail`` when a constraint or a watched dependency of severity error is lost, ``warn`` when only others are."""
    return worst({one.outcome for one in constraints} | {one.outcome for one in dependencies.invalidated})


def worst(outcomes: Collection[str]) -> Decision:
    """The decision that follows from single outcomes."""
    if "fail" in outcomes:
        return "fail"
    return "warn" if "warn" in outcomes else "pass"


def masked(verdict: Verdict, columns: Iterable[str]) -> Verdict:
    """The same verdict without the values of some columns, whatever was shown when it was stored."""
    hidden = {name.lower() for name in columns}
    if not hidden:
        return verdict
    constraints = [
        replace(
            one,
            samples=[_masked_pair(pair, hidden) for pair in one.samples],
            worst_rows=[_masked_row(row, hidden) for row in one.worst_rows],
        )
        for one in verdict.constraints
    ]
    found = verdict.dependencies
    lost = [replace(one, example=one.example and _masked_pair(one.example, hidden)) for one in found.invalidated]
    return replace(verdict, constraints=constraints, dependencies=replace(found, invalidated=lost))


def _masked_pair(pair: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    return {name: side and _masked_row(side, hidden) for name, side in pair.items()}


def _masked_row(row: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """A side of a sample, or one of the worst rows: ``row`` and ``values`` hold values by column."""
    shown = dict(row)
    for part in ("row", "values"):
        if shown.get(part):
            shown[part] = {name: MASKED if name.lower() in hidden else value for name, value in shown[part].items()}
    return shown


def as_lines(value: Any, depth: int = 0) -> str:
    """A document as JSON that people can read and that is fast to write: each entry of a list is a line."""
    pad, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()) and depth < _DEPTH:
        fields = [f"{_AS_JSON(name)}: {as_lines(one, depth + 1)}" for name, one in value.items()]
        return f"{{{pad}{f',{pad}'.join(fields)}{end}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{pad}{f',{pad}'.join(map(_AS_JSON, value))}{end}]"
    return _AS_JSON(value)
