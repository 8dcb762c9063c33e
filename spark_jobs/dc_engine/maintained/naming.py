"""How people recognise rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dc_engine.detection.codes import whole
from dc_engine.detection.rows import load_of, take_rows
from dc_engine.detection.shown import json_rows
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage
from dc_engine.verdict import MASKED


class RowNames:
    """How people recognise rows: by their key, or by load and row id when no key is declared."""

    def __init__(
        self,
        storage: Storage,
        files: Sequence[DataFile],
        key: Sequence[str],
        loads: Callable[[Iterable[int]], Mapping[int, str]],
        mask: Sequence[str],
    ) -> None:
        self.storage, self._files, self._key, self._loads = storage, files, key, loads
        self._masked = {name.lower() for name in mask}

    def look_up(self, row_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The names of some rows, read from the staged rows of their loads."""
        wanted = sorted(set(row_ids))
        if not self._key or not wanted:
            load_ids = self._loads({load_of(one) for one in wanted}) if wanted else {}
            return {one: {"_load_id": load_ids.get(load_of(one), ""), "_row_id": one} for one in wanted}
        found = take_rows(self.storage, self._files, np.array(wanted, np.int64), self._key, keep=True)
        rows = json_rows({name: whole(found.column(name)) for name in self._key})
        return {
            one: {name: self._shown(name, value) for name, value in row.items()}
            for one, row in zip(wanted, rows, strict=True)
        }

    def values_of(self, row_id: int, columns: Sequence[str]) -> dict[str, Any]:
        """Some values of a row, as they may be shown."""
        found = take_rows(self.storage, self._files, np.array([row_id], np.int64), columns)
        (row,) = json_rows({name: whole(found.column(name)) for name in columns})
        return {name: self._shown(name, value) for name, value in row.items()}

    def _shown(self, name: str, value: Any) -> Any:
        return MASKED if name.lower() in self._masked else value


def named(rows: Sequence[Mapping[str, Any]], mask: Collection[str]) -> str:
    """Some rows as an error names them."""
    hidden = {name.lower() for name in mask}
    texts = [
        ", ".join(f"{name}={MASKED if name.lower() in hidden else value}" for name, value in row.items())
        for row in rows[:3]
    ]
    return "; ".join(texts)
