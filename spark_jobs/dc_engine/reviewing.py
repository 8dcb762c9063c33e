"""What people look at in a state, in parts of bounded size: some loads, some pairs of rows, the dependencies.

Light to import, as ``stored`` is. Files of a state never change, so what was made of one is remembered.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.naming import id_of, meaning_in
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load, load_from
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.stored import verdict_of
from dc_engine.threads import side_by_side
from dc_engine.verdict import MASKED

if TYPE_CHECKING:
    import pyarrow as pa

    from dc_engine.discovery.listing import Dependency

_SIDES = ("t", "s")
_AT_ONCE = 8
"""How many small files are read side by side: on an object store each takes its time."""
MOST_COUNTED = 1_000_000
"""Up to so many violating rows it is told how violations spread over them."""
Found = TypeVar("Found")


class _Remembered(Generic[Found]):
    """What was made of files; what was not asked for the longest is forgotten."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._kept: OrderedDict[tuple[str, ...], Found] = OrderedDict()

    def get(self, key: tuple[str, ...], made: Callable[[], Found]) -> Found:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = made()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class Line:
    """A load in numbers."""

    load_id: str
    snapshot: int
    decision: str
    answer: str
    """``approved`` or ``rejected``, where a person decided; otherwise empty."""
    discarded: bool
    rows: Mapping[str, int]
    new: Mapping[str, int]
    """New violations by rule, of the rules that have some."""
    broken: tuple[str, ...]
    lost: int
    """How many dependencies it invalidated, watched or not; their texts, of all lines remembered, would be too much."""
    gained: int
    seconds: float | None

    @property
    def violations(self) -> int:
        """New ones, of all rules."""
        return sum(self.new.values())


@dataclass(frozen=True, slots=True)
class Known:
    """The dependencies of a table."""

    holding: Sequence[Dependency]
    """Those that hold, each once, best first."""
    lost: Sequence[Dependency]
    """Those that held once, the last lost first; those that one load broke in several classes in the simplest."""
    because: str
    """Why these are not all; empty if they are."""


@dataclass(frozen=True, slots=True)
class Closest:
    """Pairs of rows that come closest to breaking a dependency."""

    pairs: Sequence[tuple[Mapping[str, Any], str]]
    """Each as a verdict's samples, with the comparison that it does not satisfy; without one it breaks it."""
    why: str
    """Why there are none; empty if there are some."""


_LINES: _Remembered[Line] = _Remembered(20_000)
_KNOWN: _Remembered[Known] = _Remembered(8)


def prepare() -> None:
    """Import what these functions read with, for a process in which nobody should have to wait for it."""
    import fsspec
    import pyarrow as pa

    from dc_engine.detection import listing  # noqa: F401
    from dc_engine.discovery import nearest, reading  # noqa: F401
    from dc_engine.state import archive  # noqa: F401

    fsspec.url_to_fs("/")
    pa.array([0])  # the first array imports pandas, where it is installed


def load_ids(storage: Storage, snapshot: Snapshot) -> list[str]:
    """The ids of all loads, in the order of the history."""
    from dc_engine.state.archive import in_order

    return in_order(storage, snapshot.files_of(FileKind.LOADS), snapshot.recent, "load_id").to_pylist()


def loads_between(storage: Storage, snapshot: Snapshot, first: int, end: int) -> list[Line]:
    """The loads at some places of the history, in its order, in numbers."""
    from dc_engine.state.archive import in_order

    records = in_order(storage, snapshot.files_of(FileKind.LOADS), snapshot.recent, "record")[first:end]
    loads = [load_from(json.loads(one)) for one in records.to_pylist()]
    return side_by_side(lambda load: _line(storage, load), loads, _AT_ONCE)


def _line(storage: Storage, load: Load) -> Line:
    paths = [one.path for one in load.files if one.kind in (FileKind.VERDICT, FileKind.DECISION)]
    return _LINES.get((storage.uri, *paths), lambda: _in_numbers(storage, load))


def _in_numbers(storage: Storage, load: Load) -> Line:
    verdict = verdict_of(storage, load)
    return Line(
        load_id=load.load_id,
        snapshot=load.number,
        decision=verdict.decision,
        answer=verdict.decided.answer if verdict.decided else "",
        discarded=verdict.discarded,
        rows=verdict.rows,
        new={one.name: one.new_violations for one in verdict.constraints if one.new_violations},
        broken=tuple(one.name for one in verdict.broken),
        lost=len(verdict.dependencies.invalidated),
        gained=len(verdict.dependencies.added),
        seconds=verdict.seconds.get("total"),
    )


def some_violations(
    storage: Storage, snapshot: Snapshot, load: Load, constraint: str, first: int, most: int, mask: Collection[str] = ()
) -> tuple[list[dict[str, Any]], int]:
    """Some of the listed violations of a constraint by a load, as a verdict's samples, and how many are listed.

    A side says too which load brought its row (``load``), and whether it is the one that was judged (``new``). Without
    the values that the newest load asked to mask, or ``mask`` does.
    """
    from dc_engine.detection.listing import masked
    from dc_engine.state.parquet import Reader

    hidden = sorted({name.lower() for name in (*snapshot.mask, *load.mask, *mask)})
    listed, tables = 0, []
    for file in _listed(load, FileKind.VIOLATIONS, constraint):
        low, high = max(first - listed, 0), min(first + most - listed, file.rows)
        listed += file.rows
        if low < high:
            tables.append(masked(_lines(Reader(storage, file), low, high), hidden))
    pairs = [one for table in tables for one in _pairs(table)]
    _name_rows(storage, snapshot, pairs, hidden)
    return pairs, listed


def listed_of(load: Load, constraint: str) -> int:
    """How many violations of a constraint by a load are listed."""
    return sum(one.rows for one in _listed(load, FileKind.VIOLATIONS, constraint))


def _listed(load: Load, kind: FileKind, constraint: str) -> list[DataFile]:
    return [one for one in load.files if one.kind is kind and one.owner == constraint]


def _lines(reader: Any, low: int, high: int) -> pa.Table:
    """Some lines of a file; only their row groups are read."""
    import numpy as np

    starts = reader.group_starts
    groups = np.flatnonzero((starts[:-1] < high) & (starts[1:] > low))
    return reader.read(groups, reader.schema.names).slice(low - int(starts[groups[0]]), high - low)


def _pairs(table: pa.Table) -> Iterator[dict[str, Any]]:
    from dc_engine.detection.codes import whole
    from dc_engine.detection.shown import json_rows

    sides = {}
    for side in _SIDES:
        if side in table.column_names:
            values = whole(table.column(side))
            sides[side] = json_rows({field.name: values.field(field.name) for field in values.type})
    rest = table.drop_columns(list(sides)).to_pylist()
    for place, line in enumerate(rest):
        yield {
            "pairs": line["pairs"],
            **{
                side: {
                    "values": values[place],
                    "rows": line[f"{side}_rows"],
                    "new": line[f"{side}_new"],
                    "id": line[f"{side}_row_ids"][0],
                }
                for side, values in sides.items()
            },
        }


def _name_rows(
    storage: Storage, snapshot: Snapshot, pairs: Sequence[Mapping[str, Any]], hidden: Collection[str]
) -> None:
    """Give sides the keys of their rows (as far as the state still has them) and the loads that brought these."""
    import numpy as np

    from dc_engine.detection.rows import ROW_ID, find_rows, load_of
    from dc_engine.detection.shown import json_rows

    sides = [pair[side] for pair in pairs for side in _SIDES if side in pair]
    if not sides:
        return
    ids = np.unique(np.array([side["id"] for side in sides], np.int64))
    loads = snapshot.loads(storage).ids_of({load_of(int(one)) for one in ids})
    key = load_constraints(snapshot.constraints).key if snapshot.constraints else ()
    spelled = {name.lower(): name for name in snapshot.schema}
    columns = [spelled[name.lower()] for name in key if name.lower() in spelled]
    found = find_rows(storage, snapshot.files_of(FileKind.ROWS), ids, columns) if columns else None
    keys: dict[int, dict[str, Any]] = {}
    if found is not None:
        rows = json_rows({name: found.column(name).combine_chunks() for name in columns})
        shown = [{name: MASKED if name.lower() in hidden else row[name] for name in columns} for row in rows]
        keys = dict(zip(found.column(ROW_ID).to_pylist(), shown, strict=True))
    for side in sides:
        row_id = side.pop("id")
        side |= {"row": keys.get(row_id), "load": loads.get(load_of(row_id), "")}


def spread_over_rows(storage: Storage, load: Load, constraint: str) -> list[tuple[int, int]]:
    """How the violations of a constraint spread over the load's rows: how many rows have at least 1, 10, 100 ..., each
    less than the next; nothing where very many rows violate it.
    """
    import numpy as np

    from dc_engine.state.parquet import Reader

    files = _listed(load, FileKind.VIOLATING_ROWS, constraint)
    if not files or sum(one.rows for one in files) > MOST_COUNTED:
        return []
    readers = [Reader(storage, one) for one in files]
    counts = np.concatenate(
        [reader.read(range(len(reader.group_starts) - 1), ["violations"]).column(0).to_numpy() for reader in readers]
    )
    powers = np.bincount(np.searchsorted(10 ** np.arange(1, 19), counts, side="right"))
    return [(10**power, int(rows)) for power, rows in enumerate(powers)]


def known_dependencies(storage: Storage, snapshot: Snapshot) -> Known | None:
    """The dependencies of a table; None where none are kept."""
    facts = snapshot.facts.get("dependencies")
    if facts is None:
        return None
    return _KNOWN.get((storage.uri, facts["set"], facts["because"]), lambda: _known(storage, snapshot))


def _known(storage: Storage, snapshot: Snapshot) -> Known:
    from dc_engine.discovery.listing import once
    from dc_engine.discovery.reading import holding_among, kept
    from dc_engine.discovery.space import Space

    facts = snapshot.facts["dependencies"]
    every = kept(storage, facts, snapshot.files_of(FileKind.DEPENDENCIES))
    found, because = holding_among(every, facts, "merged")
    space, lost = Space.from_dict(facts["space"]), defaultdict[str, list["Dependency"]](list)
    for one in every:
        if one.until is not None:
            lost[one.until].append(one)
    return Known(found, [one for some in lost.values() for one in once(some, space)], because)


def marked(storage: Storage, snapshot: Snapshot) -> dict[str, str]:
    """What people made of dependencies, by what these mean: ``constraint zip_is_unique``, ``pinned``, ``watched``."""
    newest = snapshot.loads(storage).last(1)
    watched = verdict_of(storage, newest[0]).dependencies.watched if newest else []
    marks = {meaning_in(one.id): "watched" for one in watched}
    if snapshot.constraints:
        rules = load_constraints(snapshot.constraints)
        marks |= {meaning_in(id_of(one)): "pinned" for one in rules.dependencies.pinned}
        marks |= {meaning_in(id_of(one)): f"constraint {one.name}" for one in rules.constraints}
    return marks


def closest(storage: Storage, snapshot: Snapshot, dependency: Dependency) -> Closest:
    """Pairs of rows of the table that come closest to breaking a dependency that holds, as far as the state has some.

    Without the values that the newest load asked to mask.
    """
    from dc_engine.discovery.nearest import nearest

    found = nearest(storage, snapshot.facts["dependencies"], snapshot.files, dependency.box)
    hidden = {name.lower() for name in snapshot.mask}
    pairs = [
        {
            side: {
                "id": row.row_id,
                "values": {name: MASKED if name.lower() in hidden else value for name, value in row.values.items()},
            }
            for side, row in near.sides.items()
        }
        for near in found.pairs
    ]
    _name_rows(storage, snapshot, pairs, hidden)
    return Closest(list(zip(pairs, (near.lacks for near in found.pairs), strict=True)), found.why)
