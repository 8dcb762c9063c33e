"""Rows that are in a state's files but no longer count: a Roaring bitmap of their ids.

Each change writes one small file with the ids that it turns over, from living to dead or back. The dead ones are those
that were turned over an odd number of times, so the files may be combined in any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import numpy as np
from pyroaring import BitMap64

from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.storage import Storage


def read_dead(storage: Storage, files: Iterable[DataFile]) -> BitMap64:
    """The ids of the dead rows."""
    dead = BitMap64()
    for file in files:
        dead ^= BitMap64.deserialize(storage.read(file.path, expected=file))
    return dead


def write_dead(storage: Storage, load: int, turned: BitMap64 | np.ndarray) -> list[DataFile]:
    """Record the ids that a change turns over; nothing if there are none."""
    bitmap = turned if isinstance(turned, BitMap64) else BitMap64(turned.astype(np.uint64))
    if not bitmap:
        return []
    bitmap.run_optimize()
    stored = storage.write(f"{FileKind.DEAD.folder}/{load:08d}-{uuid.uuid4().hex}.roaring", bitmap.serialize())
    return [DataFile(stored.path, FileKind.DEAD, "", load, stored.size, stored.sha256, len(bitmap))]


def is_alive(ids: np.ndarray, dead: BitMap64) -> np.ndarray:
    """Which of some ids belong to rows that count."""
    if not len(ids) or not dead:
        return np.ones(len(ids), bool)
    found = np.array((dead & BitMap64(ids.astype(np.uint64))).to_array(), np.int64)
    return ~np.isin(ids, found) if len(found) else np.ones(len(ids), bool)
