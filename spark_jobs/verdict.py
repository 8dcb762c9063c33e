"""The verdict: the answer for one load. Facts, their JSON form, and the decision that follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from spark_jobs.constraints.model import Nulls, Severity, Tolerance
from spark_jobs.errors import StateError

SCHEMA_VERSION = 1
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
    """Rows of this load that can take part in none, because of a NULL."""
    max_new_violations: int | None
    max_violating_rows: int | str | None = None
    nulls: Nulls = "ignore"
    description: str = ""
    samples: list[dict[str, Any]] = field(default_factory=list)
    """Pairs that violate it: ``{"t": side, "s": side}``, a side is ``{"row": key, "values": {...}, "rows": n}``."""
    worst_rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows of this load with most new violations first: ``{"row": key, "violations": n}``."""
    violations: str | None = None
    """Where the listed violations are, as Parquet."""
    violating_rows_listed: list[str] = field(default_factory=list)
    """Where each violating row of the load is, with its number of violations, as Parquet files."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one load."""

    table: str
    load_id: str
    snapshot: int
    replayed: bool
    decision: Decision
    rows: dict[str, int]
    constraints: list[ConstraintVerdict]
    dependencies: dict[str, Any]
    seconds: dict[str, float]
    notes: list[str] = field(default_factory=list)
    """What a reader should know besides: constraints that were added or removed, tolerances that changed."""
    replaced: bool = False
    """Whether an earlier attempt of this load, with other changes, was taken out."""
    discarded: bool = False
    """Whether the load was rejected and its rows are not in the state."""
    columns: dict[str, str] = field(default_factory=dict)
    """The columns that are read of the table, with their Spark types."""
    quarantine: dict[str, Any] | None = None
    """Where the violating rows and the clean rest were written, and how many: ``violating``, ``clean``, ..."""

    def to_dict(self) -> dict[str, Any]:
        """The verdict document."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

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
        return cls(**facts)

    @property
    def broken(self) -> list[ConstraintVerdict]:
        """The constraints beyond their tolerance, errors first, most new violations first."""
        failed = [one for one in self.constraints if not one.passed]
        return sorted(failed, key=lambda one: (one.severity != "error", -one.new_violations))


def within(tolerance: Tolerance, *, new_violations: int, violating_rows: int, load_rows: int) -> bool:
    """Whether a constraint's new violations are within its tolerance."""
    if tolerance.max_violating_rows is not None:
        return violating_rows <= tolerance.max_violating_rows
    if tolerance.max_violating_share is not None:
        return violating_rows <= tolerance.max_violating_share * load_rows
    return new_violations <= (tolerance.max_new_violations or 0)


def decide(constraints: list[ConstraintVerdict]) -> Decision:
    """``fail`` when a constraint of severity error is broken, ``warn`` when only others are."""
    broken = {one.severity for one in constraints if not one.passed}
    if "error" in broken:
        return "fail"
    return "warn" if broken else "pass"


def masked(verdict: Verdict, columns: Iterable[str]) -> Verdict:
    """The same verdict without the values of some columns, whatever was shown when it was stored."""
    hidden = {name.lower() for name in columns}
    if not hidden:
        return verdict
    constraints = [
        replace(
            one,
            samples=[{name: side and _masked_row(side, hidden) for name, side in pair.items()} for pair in one.samples],
            worst_rows=[_masked_row(row, hidden) for row in one.worst_rows],
        )
        for one in verdict.constraints
    ]
    return replace(verdict, constraints=constraints)


def _masked_row(row: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """A side of a sample, or one of the worst rows: ``row`` and ``values`` hold values by column."""
    shown = dict(row)
    for part in ("row", "values"):
        if shown.get(part):
            shown[part] = {name: MASKED if name.lower() in hidden else value for name, value in shown[part].items()}
    return shown
