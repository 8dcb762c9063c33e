"""A table of whole numbers, texts and times whose state knows dependencies, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.maintained.stored import read_set
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Dependencies, Verdict
from tests.discovery.widening import widen
from tests.inprocess import Session, Source

Rows = Sequence[tuple[Any, ...]]
ARROW = {"int": pa.int32(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}


class Table:
    """A state on disk. A row is a tuple of the values of ``columns``."""

    def __init__(self, folder: Path, columns: str = "a b", watch: str = "all", **types: str) -> None:
        self.spark, self.state = Session(widens=widen), str(folder / "state")
        self.types = {name: types.get(name, "int") for name in columns.split()}
        deny = " and ".join(f"t.{name} != s.{name}" for name in self.types)
        keeps_all = {"name": "keeps all columns", "deny": deny, "severity": "warn"}
        self.rules = {
            "version": 1,
            "table": "made_up",
            "constraints": [keeps_all],
            "dependencies": {"watch": watch},
        }

    def source(self, path: str, rows: Rows, deletes: Rows = ()) -> dict[str, str]:
        """Rows to be read by the path that is returned."""
        lines = [*rows, *deletes]
        columns = {
            name: pa.array([row[place] for row in lines], ARROW[kind])
            for place, (name, kind) in enumerate(self.types.items())
        }
        kinds = pa.array(["insert"] * len(rows) + ["delete"] * len(deletes), pa.string())
        whole = pa.table({**columns, "_change_type": kinds})
        self.spark.sources[path] = Source(whole, {**self.types, "_change_type": "string"})
        return {"path": path}

    def apply(self, load_id: str, *rows: tuple[Any, ...], deletes: Rows = (), **more: Any) -> Verdict:
        request = {"state": self.state, "load_id": load_id, "constraints": self.rules}
        return apply_load(self.spark, {**request, "changes": self.source(load_id, rows, deletes), **more})

    def told(self, load_id: str, *rows: tuple[Any, ...], deletes: Rows = (), **more: Any) -> Dependencies:
        """What the verdict of a load says about dependencies."""
        return self.apply(load_id, *rows, deletes=deletes, **more).dependencies

    def discover(self, mode: str = "auto", **more: Any) -> list[str]:
        """The texts of what is found."""
        answer = discover(self.spark, {"state": self.state, "mode": mode, "view": "complete", **more})
        return [one["text"] for one in answer["dependencies"]]

    def listed(self) -> list[dict[str, Any]]:
        """All dependencies of every class that the state knows to hold."""
        return [one.to_dict() for one in read_set(self.storage, self.snapshot) if one.until is None]

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.spark, action, {"state": self.state, **more})

    @property
    def problems(self) -> list[str]:
        """What a check of the state finds."""
        return self.maintain("verify")["problems"]

    @property
    def storage(self) -> Storage:
        return Storage(self.state)

    @property
    def snapshot(self) -> Snapshot:
        current = read_current(self.storage)
        assert current is not None
        return current

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self.snapshot.facts[DEPENDENCIES])

    @property
    def formulas(self) -> set[tuple[str, str]]:
        """Class and formula of all that hold, also of those that nobody sees."""
        holding = [one for one in read_set(self.storage, self.snapshot) if one.until is None]
        return {(one.kind, one.formula) for one in holding}
