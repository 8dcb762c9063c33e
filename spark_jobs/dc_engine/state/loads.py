"""The loads of a history, however many there are.

The newest are in the snapshot itself. The others are in files of records, each sorted by the hash of the load's id,
so that one load is found by reading small parts of few files. What happens to an old load later (it is replaced, taken
out, its deletes find other rows) is a newer record for the same place: the newest record of a place counts. Files are
merged so that their number grows with the logarithm of the number of loads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dc_engine.state.files import DataFile, data_file
from dc_engine.state.storage import Storage


@dataclass(frozen=True, slots=True)
class Load:
    """A load that was applied."""

    number: int
    """The number of the snapshot that brought it as it is now; its rows' ids begin with it."""
    place: int
    """Its place in the history: a load that replaces an earlier attempt keeps that attempt's place."""
    load_id: str
    fingerprint: str = ""
    inserted: int = 0
    deleted: int = 0
    recorded: int = 0
    """How many lines its deletes have in the state, including those that found no row."""
    records: int = 0
    """The number of the snapshot that wrote these lines: those of an older one no longer count."""
    verdict: str = ""
    """The path of its verdict within the state."""
    files: list[DataFile] = field(default_factory=list)
    """What was written for people about this load: its verdict, its violations and violating rows."""
    discarded: bool = False
    """Whether it was rejected, and only its verdict kept."""
    settled: bool = False
    """Whether its rows can no longer be told from those of other loads, because the state was rebuilt."""
    missing_deletes: str = "error"
    duplicate_keys: str = "error"
    key: list[str] = field(default_factory=list)
    """The key by which its deletes found their rows: empty where that was the whole row."""
    mask: list[str] = field(default_factory=list)
    """The columns whose values were hidden in what was written about it."""
    gone: bool = False
    """Whether it was taken out: the record only hides older ones for its place."""

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form, without default values."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["files"] = [one.to_dict() for one in self.files]
        return {name: value for name, value in facts.items() if value or name in ("number", "place", "load_id")}


def load_from(document: Mapping[str, Any]) -> Load:
    """A load from its JSON form."""
    return Load(**{**document, "files": [data_file(one) for one in document.get("files", ())]})


def id_hash(load_id: str) -> int:
    """A signed 64-bit hash of a load's id."""
    return int.from_bytes(hashlib.sha256(load_id.encode()).digest()[:8], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads of one snapshot, read as far as needed."""

    storage: Storage
    recent: Sequence[Load]
    files: Sequence[DataFile]
    """The files of older records, oldest first."""
    cache: dict[str, list[Load]] = field(default_factory=dict)
    """Whole files already read."""

    def find(self, load_id: str) -> Load | None:
        """The load of this id, if there is one."""
        for records in self._sources(lambda file: self._records_of(file, load_id)):
            mine = [one for one in records if one.load_id == load_id]
            if mine:  # when it was taken out and came again, both are here
                return next((one for one in reversed(mine) if not one.gone), None)
        return None

    def since(self, place: int = 0) -> list[Load]:
        """All loads from a place in the history on, in its order."""
        found: dict[int, Load] = {}
        for records in self._sources(lambda file: self._records(file) if _reaches(file, place) else ()):
            for one in reversed(list(records)):
                found.setdefault(one.place, one)
        return [found[at] for at in sorted(found) if at >= place and not found[at].gone]

    def last(self, most: int) -> list[Load]:
        """The last loads of the history, from the snapshot if it holds enough of them, otherwise from all records."""
        mine = self.since(min((one.place for one in self.recent), default=0))
        return (mine if len(mine) >= most or not self.files else self.since())[-most:]

    def each(self, most: int | None = None) -> Iterator[Load]:
        """All loads, or the last ones, in the order of the history, one at a time: records stay packed until then."""
        from dc_engine.state.archive import in_order

        records = in_order(self.storage, self.files, self.recent, "record")
        for text in records if most is None else records[max(len(records) - most, 0) :]:
            yield load_from(json.loads(text.as_py()))

    def ids(self) -> frozenset[str]:
        """The ids of all loads."""
        from dc_engine.state.archive import in_order

        return frozenset(in_order(self.storage, self.files, self.recent, "load_id").to_pylist())

    def ids_of(self, numbers: Iterable[int]) -> dict[int, str]:
        """The ids of the loads with some numbers, including those replaced or taken out since."""
        wanted = set(numbers)
        found = {one.number: one.load_id for one in self.recent if one.number in wanted}
        for file in reversed(self.files):
            if wanted <= found.keys():
                break
            from dc_engine.state.archive import read_ids

            found |= read_ids(self.storage, file, wanted - found.keys())
        return found

    def _sources(self, read: Callable[[DataFile], Iterable[Load]]) -> Iterator[Iterable[Load]]:
        """The newest records first."""
        yield self.recent
        for file in reversed(self.files):
            yield read(file)

    def _records(self, file: DataFile) -> list[Load]:
        from dc_engine.state.archive import read_records

        if file.path not in self.cache:
            self.cache[file.path] = read_records(self.storage, file)
        return self.cache[file.path]

    def _records_of(self, file: DataFile, load_id: str) -> list[Load]:
        from dc_engine.state.archive import read_records

        return read_records(self.storage, file, id_hash(load_id))


def _reaches(file: DataFile, place: int) -> bool:
    return file.bounds is not None and file.bounds[1] >= place
