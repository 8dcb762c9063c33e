"""What gates left in a state, for people's own tasks: as plain data, as Arrow tables or as pandas' data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

from airflow_dc_provider.arguments import check_choice, check_folder, load_name
from airflow_dc_provider.exceptions import engine_errors_told
from dc_engine.errors import RequestError
from dc_engine.request import check_load_id, read_names

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    import pyarrow as pa

    from dc_engine.state.loads import Load
    from dc_engine.state.storage import Storage
    from dc_engine.verdict import Verdict

FORMS = ("plain", "arrow", "pandas")
_AT_ONCE = 1_000
"""How many lines become Arrow together."""


class DcStateHook(BaseHook):
    """
    Read what gates left in a table's state. No Spark is needed.

    Every method takes ``as_``: ``plain`` gives dictionaries, one at a time (a state may have very many loads, and only
    what is asked for is read), ``arrow`` a ``pyarrow.Table``, ``pandas`` a data frame. Values of columns that the
    newest load masks are ``***``.

    :param state: The folder of the table's state: an absolute path or an fsspec URI.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param mask: More columns whose values must not be shown.
    """

    def __init__(
        self, state: str, state_conn_id: str | None = None, *, mask: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.state = state
        self.state_conn_id = state_conn_id
        with engine_errors_told():
            check_folder("state", state)
            self.mask = read_names("mask", mask)

    @cached_property
    def storage(self) -> Storage:
        """The state's folder."""
        from airflow_dc_provider.credentials import state_access
        from dc_engine.state.storage import Storage

        with engine_errors_told():
            return Storage(self.state, state_access(self.state_conn_id).options)

    def get_conn(self) -> Storage:
        """The state's folder."""
        return self.storage

    def verdict(self, load_id: str) -> dict[str, Any]:
        """The verdict of one load, as its document."""
        from dc_engine.stored import read_verdict

        with engine_errors_told():
            return read_verdict(self.storage, _named(load_id), self.mask).to_dict()

    def verdicts(self, last: int | None = None, *, as_: str = "plain") -> Any:
        """The verdicts of all loads, or of the last ones, in the order of the history.

        Plain, each is the whole document. As a table, each is one line of counts, with a list of the constraints.
        """
        from dc_engine.stored import each_verdict

        check_choice("as_", as_, FORMS)
        with engine_errors_told():
            found = each_verdict(self.storage, _most(last), self.mask)
        if as_ == "plain":
            return _lazily(one.to_dict() for one in found)
        return _as_table(_lazily(map(_line, found)), _verdict_columns(), as_)

    def history(self, last: int | None = None, *, as_: str = "plain") -> Any:
        """The loads of the state, or the last ones, in the order of the history; no verdict is read for it."""
        from dc_engine.stored import current_of

        check_choice("as_", as_, FORMS)
        with engine_errors_told():
            loads = current_of(self.storage).loads(self.storage).each(_most(last))
        rows = _lazily(map(self._load, loads))
        return rows if as_ == "plain" else _as_table(rows, _load_columns(), as_)

    def violations(self, load_id: str, constraint: str, *, as_: str = "plain") -> Any:
        """The listed violations of a constraint by a load, those that stand for the most pairs of rows first.

        The columns are those of ``violations/`` in the description of the state's format.
        """
        import pyarrow as pa

        from dc_engine.stored import read_violations

        check_choice("as_", as_, FORMS)
        with engine_errors_told():
            parts = read_violations(self.storage, _named(load_id), constraint, self.mask)
        if as_ == "plain":
            return _lazily(row for part in parts for batch in part.to_batches(_AT_ONCE) for row in batch.to_pylist())
        listed = list(_lazily(parts))
        table = pa.concat_tables(listed) if listed else pa.table({"pairs": pa.array([], pa.int64())})
        return table.to_pandas() if as_ == "pandas" else table

    def dependencies(self, view: str = "merged", *, as_: str = "plain") -> Any:
        """The dependencies that hold, best first: ``merged`` has each once, ``complete`` every class as a whole."""
        import pyarrow as pa

        from dc_engine.stored import read_dependencies

        check_choice("as_", as_, FORMS)
        with engine_errors_told():
            found = read_dependencies(self.storage, view)
        if as_ == "plain":
            return iter(found)
        implied = pa.list_(pa.struct({"id": pa.string(), "text": pa.string()}))
        texts = dict.fromkeys(("id", "class", "text", "formula", "since"), pa.string())
        numbers = {"error": pa.float64(), "support": pa.int64(), "rank": pa.int64()}
        return _as_table(found, pa.schema({**texts, **numbers, "implies": implied}), as_)

    def _load(self, load: Load) -> dict[str, Any]:
        return {
            "load_id": load.load_id,
            "snapshot": load.number,
            "inserted": load.inserted,
            "deleted": load.deleted,
            "discarded": load.discarded,
            "settled": load.settled,
            "verdict": self.storage.locate(load.verdict),
        }


def _lazily(found: Iterable[Any]) -> Iterator[Any]:
    with engine_errors_told():
        yield from found


def _named(load_id: Any) -> str:
    """A load's name, which may be given as a date or a number."""
    check_load_id(named := load_name(load_id))
    return str(named)


def _most(last: Any) -> int | None:
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise RequestError(f"'last' is {last!r}, and must be a whole number of at least 1, or None for all loads.")
    return last


def _as_table(rows: Iterable[dict[str, Any]], schema: pa.Schema, as_: str) -> Any:
    import pyarrow as pa

    rows, batches = iter(rows), []
    while some := list(islice(rows, _AT_ONCE)):
        batches.append(pa.RecordBatch.from_pylist(some, schema))
    table = pa.Table.from_batches(batches, schema)
    return table.to_pandas() if as_ == "pandas" else table


_COUNTS = ("new_violations", "removed_violations", "total_violations", "violating_rows")


def _line(verdict: Verdict) -> dict[str, Any]:
    return {
        "load_id": verdict.load_id,
        "snapshot": verdict.snapshot,
        "decision": verdict.decision,
        "discarded": verdict.discarded,
        **{name: verdict.rows.get(name, 0) for name in ("inserted", "deleted", "total")},
        "new_violations": sum(one.new_violations for one in verdict.constraints),
        "broken": [one.name for one in verdict.broken],
        "lost": [one.text for one in verdict.dependencies.invalidated if one.watched],
        "constraints": [
            {name: getattr(one, name) for name in ("name", "severity", "passed", *_COUNTS)}
            for one in verdict.constraints
        ],
        "seconds": verdict.seconds.get("total"),
    }


def _verdict_columns() -> pa.Schema:
    import pyarrow as pa

    texts, numbers = pa.list_(pa.string()), pa.int64()
    rule = {"name": pa.string(), "severity": pa.string(), "passed": pa.bool_(), **dict.fromkeys(_COUNTS, numbers)}
    return pa.schema(
        {
            "load_id": pa.string(),
            "snapshot": numbers,
            "decision": pa.string(),
            "discarded": pa.bool_(),
            **dict.fromkeys(("inserted", "deleted", "total", "new_violations"), numbers),
            "broken": texts,
            "lost": texts,
            "constraints": pa.list_(pa.struct(rule)),
            "seconds": pa.float64(),
        }
    )


def _load_columns() -> pa.Schema:
    import pyarrow as pa

    numbers = dict.fromkeys(("snapshot", "inserted", "deleted"), pa.int64())
    marks = dict.fromkeys(("discarded", "settled"), pa.bool_())
    return pa.schema({"load_id": pa.string(), **numbers, **marks, "verdict": pa.string()})
