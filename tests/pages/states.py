"""States for the pages, made by the engine without Spark: a table whose second load is bad, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

Row = Mapping[str, Any]
_TYPES = {int: ("bigint", pa.int64()), str: ("string", pa.string()), float: ("double", pa.float64())}
RULES: dict[str, Any] = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [
        {"name": "one_city", "fd": "zip -> city", "description": "A zip code lies in one city."},
        {"name": "pay_grows", "deny": "t.age > s.age and t.pay < s.pay"},
        {"name": "paid", "deny": "t.pay <= 1.0", "severity": "warn"},
        {"name": "grown_up", "deny": "t.age < 18"},
    ],
    "dependencies": {"watch": "all"},
}
MONDAY = [
    {"id": number, "zip": f"z{number // 2}", "city": f"City {number // 2}", "age": 20 + number, "pay": 100.0 + number}
    for number in range(8)
]
TUESDAY = [
    {"id": 100, "zip": "z0", "city": "Elsewhere", "age": 60, "pay": 1.0},
    {"id": 101, "zip": "z0", "city": "Elsewhere", "age": 21, "pay": 101.5},
    {"id": 102, "zip": "z9", "city": "City 9", "age": 22, "pay": 102.5},
]


@dataclass
class Table:
    """A table and the state of its gate."""

    state: str
    rules: dict[str, Any] = field(default_factory=lambda: RULES)
    session: Session = field(default_factory=Session)

    @property
    def storage(self) -> Storage:
        return Storage(self.state)

    def load(self, load_id: str, rows: Sequence[Row], **more: Any) -> Verdict:
        """Apply a load."""
        types = {name: _TYPES[type(value)] for name, value in rows[0].items()}
        columns = {name: pa.array([row[name] for row in rows], arrow) for name, (_, arrow) in types.items()}
        self.session.sources[load_id] = Source(pa.table(columns), {name: spark for name, (spark, _) in types.items()})
        asked = {"state": self.state, "load_id": load_id, "changes": {"path": load_id}, "constraints": self.rules}
        return apply_load(self.session, {**asked, **more})

    def discover(self, *classes: str) -> None:
        """Keep its dependencies from now on."""
        discover(self.session, {"state": self.state, "classes": list(classes or ("unique", "fd"))})

    def verdict(self, load_id: str = "tuesday") -> Verdict:
        return read_verdict(self.storage, load_id)


def red(state: str, **more: Any) -> Table:
    """A table of which the second load breaks rules and loses dependencies."""
    made = Table(state)
    made.load("monday", MONDAY, **more)
    made.discover()
    made.load("tuesday", TUESDAY, **more)
    return made
