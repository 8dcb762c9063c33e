"""Patterns, dependencies and codes as files of a state."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.rows import ROW_ID
from dc_engine.discovery.coding import Coding
from dc_engine.discovery.known import COUNTED, Known
from dc_engine.discovery.listing import Dependency
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import Store, joined, laid_out
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import Builder, parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.storage import Storage

_LARGER = 4
_DEPENDENCIES = pa.schema(
    [
        ("id", pa.string()),
        ("class", pa.string()),
        ("text", pa.string()),
        ("formula", pa.string()),
        ("box", pa.binary()),
        ("shown", pa.bool_()),
        ("error", pa.float64()),
        ("support", pa.int64()),
        ("rank", pa.int64()),
        ("since", pa.string()),
        ("origin", pa.string()),
        ("parents", pa.list_(pa.string())),
        ("until", pa.string()),
    ]
)


def _owner(space: Space, mode: str, nullable: Collection[str]) -> str:
    """What files of patterns belong to: their space and mode, and the columns for whose NULLs they have bits."""
    flags = sum(1 << place for place, name in enumerate(space.columns) if name in nullable)
    return f"{space.id}-{mode}-{flags:x}"


def is_run_of(file: DataFile, space: Space, mode: str) -> bool:
    """Whether a file has patterns of a space in a mode."""
    return file.kind is FileKind.PATTERNS and file.owner.startswith(f"{space.id}-{mode}-")


def small_runs(files: Sequence[DataFile]) -> list[DataFile]:
    """The smallest files, up to the first that has over four times as many lines as all of them together."""
    ordered = sorted(files, key=lambda file: file.rows)
    lines = np.cumsum([file.rows for file in ordered])
    large = [place for place in range(2, len(ordered)) if ordered[place].rows > _LARGER * lines[place - 1]]
    return ordered[: min(large, default=len(ordered))]


def write_patterns(storage: Storage, space: Space, known: Known, load: int, store: Store) -> list[DataFile]:
    """A run of patterns: numbers of pairs to be added, or witnesses; nothing if there are none."""
    if not len(store):
        return []
    words = {f"w{place}": pa.array(store.patterns[:, place]) for place in range(store.patterns.shape[1])}
    pairs = pa.array(store.pairs) if known.mode == COUNTED else pa.nulls(len(store), pa.int64())
    table = pa.table({**words, "pairs": pairs, "t_row": pa.array(store.t), "s_row": pa.array(store.s)})
    path = f"{FileKind.PATTERNS.folder}/{load:08d}-{uuid.uuid4().hex}.parquet"
    owner, data = _owner(space, known.mode, known.nullable), parquet_bytes(table)
    return [store_parquet(storage, path, data, kind=FileKind.PATTERNS, load=load, rows=len(store), owner=owner)]


def read_patterns(
    storage: Storage, space: Space, nullable: Collection[str], mode: str, files: Sequence[DataFile]
) -> tuple[Store, ...]:
    """All runs, in the layout that has room for NULLs in these columns; each is remembered with its file."""
    layout = Layout(space.terms(frozenset(nullable)))

    def run(file: DataFile) -> Store:
        shelf = storage.shelf([file], layout.terms.nullable)
        return shelf.recall("run", lambda: _read(space, layout, file, Reader(storage, file)), lambda one: one.nbytes)

    return tuple(run(file) for file in files if is_run_of(file, space, mode)) or (Store.empty(layout),)


def some_patterns(
    storage: Storage, space: Space, nullable: Collection[str], mode: str, files: Sequence[DataFile], most: int
) -> tuple[Store, int]:
    """About so many lines of all runs, those of the newest loads first, and how many there are."""
    layout = Layout(space.terms(frozenset(nullable)))
    runs = sorted((file for file in files if is_run_of(file, space, mode)), key=lambda file: -file.load)
    parts, left = [Store.empty(layout)], most
    for file in runs:
        if left > 0:
            parts.append(_read(space, layout, file, Reader(storage, file), left))
            left -= len(parts[-1])
    return joined(parts), sum(file.rows for file in runs)


def _read(space: Space, layout: Layout, file: DataFile, reader: Reader, most: int | None = None) -> Store:
    flags = int(file.owner.rpartition("-")[2], 16)
    own = Layout(space.terms(frozenset(name for place, name in enumerate(space.columns) if flags >> place & 1)))
    names = [*(f"w{place}" for place in range(own.words)), "pairs", "t_row", "s_row"]
    starts = reader.group_starts
    table = reader.read(range(len(starts) - 1 if most is None else int(np.searchsorted(starts[:-1], most))), names)
    words = np.stack([table.column(f"w{place}").to_numpy() for place in range(own.words)], axis=1)
    pairs = table.column("pairs").fill_null(0).to_numpy()
    return Store(
        laid_out(own, layout, words), pairs, table.column("t_row").to_numpy(), table.column("s_row").to_numpy()
    )


def codes_owners(space: Space) -> tuple[str, str]:
    """What the file of codes and that of their values belong to."""
    mine = space.id
    return mine, f"{mine}-values"


def write_codes(storage: Storage, space: Space, ids: np.ndarray, coding: Coding) -> list[DataFile]:
    """The codes of some rows, by their ids, which ascend; and the values of the codes, which are numbers of lines."""
    codes = pa.table({ROW_ID: ids, **{name: np.concatenate(some) for name, some in coding.codes.items()}})
    values = {one.name: coding.values(one.name) for one in space.order_classes}
    most = max(map(len, values.values()))
    builder = Builder(pa.schema([(name, some.type) for name, some in values.items()]))
    for first in range(0, max(most, 1), SIZES.row_group):
        size = min(SIZES.row_group, most - first)
        builder.add(pa.table({name: _padded(some[first : first + size], size) for name, some in values.items()}))
    data = (parquet_bytes(codes, row_group=len(ids), delta=[ROW_ID]), builder.finish())
    return [
        store_parquet(
            storage,
            f"{FileKind.CODES.folder}/{uuid.uuid4().hex}.parquet",
            content,
            kind=FileKind.CODES,
            load=0,
            rows=lines,
            owner=owner,
            bounds=bounds,
        )
        for content, lines, owner, bounds in zip(
            data, (len(ids), most), codes_owners(space), ((int(ids[0]), int(ids[-1])), None), strict=True
        )
    ]


def _padded(some: pa.Array, size: int) -> pa.Array:
    return pa.concat_arrays([some, pa.nulls(size - len(some), some.type)])


@dataclass(frozen=True, slots=True)
class Kept:
    """Codes that were kept, and the ids of their rows, which ascend."""

    ids: np.ndarray
    coding: Coding


def read_codes(storage: Storage, space: Space, files: Sequence[DataFile]) -> Kept | None:
    """The codes that were kept, if there are some; this process then has them in memory."""
    by_owner = {file.owner: file for file in files}
    owners = codes_owners(space)
    if not by_owner.keys() >= set(owners):
        return None
    reader = Reader(storage, by_owner[owners[0]], keep=True)
    known = cache(lambda: Reader(storage, by_owner[owners[1]]))
    shelf = storage.shelf([by_owner[owner] for owner in owners])
    groups, names = np.arange(len(reader.group_starts) - 1), [*space.columns]
    ids = reader.made(groups, [ROW_ID], "ids", lambda table: whole(table.column(ROW_ID)).to_numpy(), _nbytes)

    def lines() -> np.ndarray:
        return reader.made(groups, names, "lines", lambda table: _stacked(table, names), _nbytes, threads=True)

    codes = _Codes(names, lines)

    def values(name: str) -> pa.Array:
        def make() -> pa.Array:
            members = next(one.members for one in space.order_classes if one.name == name)
            count = 1 + max(int(codes[member][0].max(initial=-1)) for member in members)
            mine = range(int(np.searchsorted(known().group_starts[:-1], count)))
            return whole(known().read(mine, [name]).column(0))[:count]

        return shelf.recall(("values", name), make, _nbytes)

    return Kept(ids, Coding(codes, values))


class _Codes(Mapping[str, Sequence[np.ndarray]]):
    """The codes of columns, which are the lines of one array: read when one of them is asked for."""

    def __init__(self, names: Sequence[str], lines: Callable[[], np.ndarray]) -> None:
        self._places, self._read = {name: place for place, name in enumerate(names)}, lines

    @cached_property
    def _lines(self) -> np.ndarray:
        return self._read()

    def __getitem__(self, name: str) -> Sequence[np.ndarray]:
        return [self._lines[self._places[name]]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _stacked(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    codes = np.empty((len(names), table.num_rows), np.int32)
    for line, name in zip(codes, names, strict=True):
        np.concatenate([chunk.to_numpy() for chunk in table.column(name).chunks], out=line)
    return codes


def _nbytes(some: np.ndarray | pa.Array) -> int:
    return int(some.nbytes)


def write_dependencies(storage: Storage, load: int, dependencies: Sequence[Dependency]) -> DataFile:
    """The whole set, those that hold and those that did."""
    columns: dict[str, list[Any]] = {field.name: [] for field in _DEPENDENCIES}
    for one in dependencies:
        facts = {
            **{name: getattr(one, name) for name in Dependency.__slots__},
            "class": one.kind,
            "box": bytes(one.box),
        }
        for name, values in columns.items():
            values.append(facts[name])
    table = pa.table([pa.array(columns[field.name], field.type) for field in _DEPENDENCIES], schema=_DEPENDENCIES)
    path = f"{FileKind.DEPENDENCIES.folder}/{load:08d}-{uuid.uuid4().hex}.parquet"
    return store_parquet(
        storage, path, parquet_bytes(table), kind=FileKind.DEPENDENCIES, load=load, rows=len(dependencies)
    )


def read_dependencies(storage: Storage, file: DataFile) -> list[Dependency]:
    """The set of a file."""
    reader = Reader(storage, file)
    rows = reader.read(range(len(reader.group_starts) - 1), _DEPENDENCIES.names).to_pylist()
    return [
        Dependency(kind=row.pop("class"), box=tuple(row.pop("box")), parents=tuple(row.pop("parents")), **row)
        for row in rows
    ]
