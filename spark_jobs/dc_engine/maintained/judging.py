"""From what the workers report to the verdict: add up, look up the users' keys, judge against the tolerances."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from dc_engine.constraints.model import Constraint, ConstraintSet
from dc_engine.constraints.printer import formula
from dc_engine.detection.documents import Document, Effect, Listed, Pairs, SkippedRows, Spent, ViolatingRows, Written
from dc_engine.detection.shown import MOST_OF_VERDICT
from dc_engine.errors import counted
from dc_engine.maintained.naming import RowNames
from dc_engine.state.files import DataFile, FileKind
from dc_engine.verdict import ConstraintVerdict

_INDENT = 4
"""How far the lines of a sample are indented in a stored verdict."""


@dataclass(slots=True)
class Findings:
    """What a load did to one constraint, added up over all workers."""

    twice: dict[Effect, int] = field(default_factory=lambda: dict.fromkeys(Effect, 0))
    """Twice the number of pairs that come and go."""
    violating_rows: int = 0
    skipped_null_rows: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    worst: list[dict[str, int]] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    @property
    def new_violations(self) -> int:
        """Pairs of rows (or rows) that began to violate the constraint with this load."""
        return _halved(self.twice[Effect.NEW])

    @property
    def removed_violations(self) -> int:
        """Pairs of rows (or rows) that no longer violate the constraint, because of the load's deletes."""
        return _halved(self.twice[Effect.REMOVED])

    @property
    def undone(self) -> int:
        """Violations that came (or, below zero, went) when an earlier attempt of the load was undone."""
        return _halved(self.twice[Effect.BACK] - self.twice[Effect.AWAY])

    @property
    def balance(self) -> int:
        """How many more (or fewer) violations the constraint has."""
        return self.undone + self.new_violations - self.removed_violations

    def files_of(self, kind: FileKind) -> list[DataFile]:
        """The files of one kind that were written for people."""
        return [file for file in self.files if file.kind is kind]


def _halved(twice: int) -> int:
    pairs, rest = divmod(twice, 2)
    assert not rest, "pairs among changed rows are found from both ends"
    return pairs


def add_up(documents: Iterable[Document], constraints: int) -> tuple[list[Findings], list[DataFile]]:
    """The findings for each constraint, and the index files that were written."""
    findings = [Findings() for _ in range(constraints)]
    index_files = []
    for one in documents:
        match one:
            case Pairs():
                findings[one.constraint].twice[one.effect] += one.twice
            case ViolatingRows():
                own = findings[one.constraint]
                own.violating_rows += one.count
                own.worst += one.worst
                own.files.append(one.file)
            case Listed():
                own = findings[one.constraint]
                own.samples += one.samples
                own.files += [one.file] if one.file else []
            case SkippedRows():
                for number, rows in one.rows:
                    findings[number].skipped_null_rows += rows
            case Written():
                index_files.append(one.file)
            case Spent():
                pass  # added up elsewhere
            case _:
                raise AssertionError(f"a check reports {one}, which nobody waits for")
    return findings, sorted(index_files, key=lambda file: file.path)


def judge(
    constraint_set: ConstraintSet,
    findings: Sequence[Findings],
    carried: Mapping[str, int],
    load_rows: int,
    max_samples: int,
    names: RowNames,
) -> list[ConstraintVerdict]:
    """The verdict on each constraint; ``carried`` is how many violations it had before.

    After the findings of the constraints come those of the pinned dependencies.
    """
    return [
        _judge_one(constraint, found, carried.get(constraint.name, 0), load_rows, max_samples, names)
        for constraint, found in zip(constraint_set.constraints, findings, strict=False)
    ]


def bounded(
    verdicts: list[ConstraintVerdict], most: int = MOST_OF_VERDICT
) -> tuple[list[ConstraintVerdict], list[str]]:
    """The verdicts, with fewer samples each if together they are too large, and a note that says so."""
    sizes: dict[int, int] = defaultdict(int)
    for one in verdicts:
        for rank, shown in [*enumerate(one.samples), *enumerate(one.worst_rows)]:
            sizes[rank] += _size(shown)
    fit = sum(size <= most for size in accumulate(sizes[rank] for rank in range(len(sizes))))
    if fit == len(sizes):
        return verdicts, []
    fewer = [replace(one, samples=one.samples[:fit], worst_rows=one.worst_rows[:fit]) for one in verdicts]
    note = (
        f"At most {counted(fit, 'sample')} and as many worst rows are shown per constraint: {len(sizes):,} of each "
        f"would exceed {most / 2**20:g} MiB. Counts are complete, and so are the files of violations."
    )
    return fewer, [note]


def _size(shown: Mapping[str, Any]) -> int:
    """How many bytes a sample has in a stored verdict."""
    text = json.dumps(shown, ensure_ascii=False, indent=1)
    return len(text.encode()) + _INDENT * (text.count("\n") + 1) + len(",\n")


def _judge_one(
    constraint: Constraint, findings: Findings, before: int, load_rows: int, max_samples: int, names: RowNames
) -> ConstraintVerdict:
    tolerance: dict[str, Any] = constraint.tolerance.written
    worst = sorted(findings.worst, key=lambda one: (-one["violations"], one["row_id"]))[:max_samples]
    samples = findings.samples[:max_samples]
    ids = [one["row_id"] for one in worst] + [side["row_id"] for pair in samples for side in pair.values()]
    row_names = names.look_up(ids)
    return ConstraintVerdict(
        name=constraint.name,
        kind=constraint.kind,
        formula=formula(constraint),
        severity=constraint.severity,
        passed=constraint.tolerance.allows(
            new_violations=findings.new_violations,
            violating_rows=findings.violating_rows,
            load_rows=load_rows,
        ),
        new_violations=findings.new_violations,
        removed_violations=findings.removed_violations,
        total_violations=before + findings.balance,
        violating_rows=findings.violating_rows,
        skipped_null_rows=findings.skipped_null_rows,
        max_new_violations=tolerance.get("max_new_violations"),
        max_violating_rows=tolerance.get("max_violating_rows"),
        nulls=constraint.nulls,
        description=constraint.description,
        samples=[shown_pair(pair, constraint, row_names) for pair in samples],
        worst_rows=[{"row": row_names[one["row_id"]], "violations": one["violations"]} for one in worst],
        violations=next((names.storage.locate(file.path) for file in findings.files_of(FileKind.VIOLATIONS)), None),
        violating_rows_listed=[names.storage.locate(file.path) for file in findings.files_of(FileKind.VIOLATING_ROWS)],
    )


def shown_pair(
    pair: Mapping[str, Any], constraint: Constraint, row_names: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """A pair of rows (or a row) as a verdict shows it."""
    return {
        name: {
            "row": row_names[side["row_id"]],
            "values": _in_reading_order(side["values"], constraint),
            "rows": side["rows"],
        }
        for name, side in pair.items()
    }


def _in_reading_order(values: Mapping[str, Any], constraint: Constraint) -> dict[str, Any]:
    """A sample's values in the order in which the rule names their columns."""
    order = [name.lower() for name in constraint.columns]
    return dict(sorted(values.items(), key=lambda item: order.index(item[0].lower())))
