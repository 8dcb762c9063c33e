"""How much work there is, and into how many tasks and units it is cut."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from dc_engine.detection.encode import Spread, columns_of, together
from dc_engine.detection.plan import Group, Plan
from dc_engine.detection.slicing import Changed, large_blocks, slices_of, table_slices
from dc_engine.detection.work import NOTHING_UNDONE, Undone, Work
from dc_engine.request import Request
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import bytes_a_row
from dc_engine.state.storage import Storage


def spread_of(
    storage: Storage,
    groups: Sequence[Group],
    files: Mapping[int, Sequence[DataFile]],
    changed: Changed,
) -> Spread:
    """Cut groups whose rows travel together: a probe gets a bounded number of rows and entries, and of their bytes.

    It looks at one group after the other.
    """
    entries = max(sum(file.rows for file in files[group.number]) for group in groups)
    width = _width(groups, changed.row_bytes) / SIZES.unit_bytes
    by_rows = math.ceil(max(changed.rows, 1) * max(1 / SIZES.unit_rows, width))
    weight = max(1 / SIZES.sliced_rows, width)
    if not groups[0].indexes:
        return Spread(by_rows)
    if groups[0].indexes[0].key:
        most = SIZES.unit_entries if changed.rows > SIZES.few_rows else SIZES.few_rows_entries
        slices = tuple(large_blocks(storage, groups, changed, weight)) if changed.rows * weight > 1 else ()
        return Spread(max(by_rows, math.ceil(entries / most)), slices)
    own = files[groups[0].number]
    stored = _width(groups, bytes_a_row(storage, own, keep=True))
    few = 4 if groups[0].indexes[0].ordered and changed.rows <= SIZES.few_rows else 1  # which read little of a share
    shares = math.ceil(entries * max(1 / (few * SIZES.share_entries), stored / (few * SIZES.share_bytes)))
    return Spread(0, table_slices(storage, groups[0], own, changed, shares, slices_of(changed.rows * weight)))


def _width(groups: Sequence[Group], bytes_a_row: Mapping[str, float]) -> float:
    """How many bytes a row takes in the columns of some groups."""
    return sum(bytes_a_row.get(name, 0) for name in columns_of(groups))


def make_work(
    storage: Storage,
    plan: Plan,
    load: int,
    index_files: Mapping[str, tuple[DataFile, ...]],
    request: Request | None,
    *,
    inserts: Sequence[DataFile] = (),
    deletes: Sequence[DataFile] = (),
    undone: Undone = NOTHING_UNDONE,
    dead: Sequence[DataFile] = (),
    writes: Collection[str] | None = None,
    runs_of: int | None = None,
) -> Work:
    """What the workers need to know, with the work cut up by its size.

    Without a request nothing is listed; ``writes`` are the indexes to write, if not all.
    """
    changed = Changed.of(storage, (*inserts, *deletes, *undone.inserts, *undone.deletes))
    rows = changed.rows
    files = {
        group.number: [one for index in group.indexes for one in index_files.get(index.id, ())] for group in plan.groups
    }
    sent = together(plan)
    spread = {number: spread_of(storage, groups, files, changed) for number, groups in sent.items()}
    units = sum(one.units for one in spread.values())
    entries = sum(file.rows for files in index_files.values() for file in files)
    added = rows * len(plan.groups)
    added_bytes = rows * sum(_width(groups, changed.row_bytes) for groups in sent.values())
    probe_tasks = math.ceil(max((entries + added) / SIZES.probe_rows, added_bytes / SIZES.probe_bytes, 1))
    return Work(
        storage=storage,
        plan=plan,
        load=load,
        runs_of=load if runs_of is None else runs_of,
        inserts=tuple(inserts),
        deletes=tuple(deletes),
        undone=undone,
        dead=tuple(dead),
        index_files=index_files,
        spread=spread,
        first_units=_first_units(plan, spread),
        writers=_writers(plan, writes),
        probe_tasks=min(units, max([probe_tasks, *(len(one.slices) for one in spread.values())])),
        report_tasks=math.ceil(max(added / SIZES.report_rows, len(plan.constraints) / SIZES.report_constraints, 1)),
        max_listed=request.max_listed if request else 0,
        max_samples=request.max_samples if request else 0,
        mask=request.mask if request else (),
        lists=request is not None,
    )


def _first_units(plan: Plan, spread: Mapping[int, Spread]) -> dict[int, int]:
    """The number of the first unit of each. A unit of a group without a key is the longest: it is the first to run."""
    turns = sorted(spread, key=lambda number: all(index.key for index in plan.groups[number].indexes))
    return dict(zip(turns, accumulate((spread[number].units for number in turns), initial=0), strict=False))


def _writers(plan: Plan, writes: Collection[str] | None) -> dict[str, int]:
    """The group that writes each index that is to be written: the first that has all of its columns."""
    writers: dict[str, int] = {}
    for group in plan.groups:
        for index in group.indexes:
            if index.columns == group.columns and (writes is None or index.id in writes):
                writers.setdefault(index.id, group.number)
    return writers


def encoders(work: Work) -> int:
    """How many tasks read the rows that come and go."""
    return min(sum(math.ceil(file.rows / SIZES.staged_group) for file, _ in work.changed), SIZES.encoders)


def size_of(work: Work) -> tuple[int, int]:
    """How many rows come and go, and about how many bytes of indexes may have to be read for them."""
    rows = sum(file.rows for file, _ in work.changed)
    near = {index.id for group in work.plan.groups for index in group.indexes if index.key or index.ordered}
    return rows, sum(_read(files, rows if name in near else None) for name, files in work.index_files.items())


def _read(files: Sequence[DataFile], rows: int | None) -> int:
    """About how many bytes of an index some rows ask for: by key or place, each of them asks for a row group."""
    size, entries = (sum(getattr(file, name) for file in files) for name in ("size", "rows"))
    return size if rows is None else min(size, rows * SIZES.run_group * size // max(entries, 1))
