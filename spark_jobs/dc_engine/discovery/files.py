"""Patterns and dependencies as files of a state."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.discovery.keeping import COUNTED, Known
from dc_engine.discovery.listing import Dependency
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import Store, added_up, laid_out, lines_of
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader, parquet_bytes, store_parquet
from dc_engine.state.storage import Storage

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
) -> Store:
    """All runs as one store, in the layout that has room for NULLs in these columns."""
    layout = Layout(space.terms(frozenset(nullable)))
    parts = [_read(storage, space, layout, file) for file in files if is_run_of(file, space, mode)]
    if mode == COUNTED:
        return added_up(layout, [lines_of(one) for one in parts])
    everything = [Store.empty(layout), *parts]
    return Store(*(np.concatenate([getattr(one, name) for one in everything]) for name in Store.__slots__))


def _read(storage: Storage, space: Space, layout: Layout, file: DataFile) -> Store:
    flags = int(file.owner.rpartition("-")[2], 16)
    own = Layout(space.terms(frozenset(name for place, name in enumerate(space.columns) if flags >> place & 1)))
    reader = Reader(storage, file)
    names = [*(f"w{place}" for place in range(own.words)), "pairs", "t_row", "s_row"]
    table = reader.read(range(len(reader.group_starts) - 1), names)
    words = np.stack([table.column(f"w{place}").to_numpy() for place in range(own.words)], axis=1)
    pairs = table.column("pairs").fill_null(0).to_numpy()
    return Store(
        laid_out(own, layout, words), pairs, table.column("t_row").to_numpy(), table.column("s_row").to_numpy()
    )


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
