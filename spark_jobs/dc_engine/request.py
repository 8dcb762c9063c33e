"""The request of one load: what a job is asked to do, checked before anything is read or written."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dc_engine.errors import RequestError, did_you_mean, escaped

MAX_LOAD_ID = 300
"""Room for a DAG run's id, of at most 250 characters, and a map index."""
MAX_WAIT_SECONDS = 3_600
_SOURCES = ("path", "table", "sql")
_CHOICES = {
    "rejected_load": ("keep", "discard"),
    "missing_deletes": ("error", "ignore"),
    "duplicate_keys": ("error", "replace"),
    "engine": ("auto", "spark", "local"),
}
_MOST = 10**15
"""No count is as large."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Where the rows of a load come from: one of ``path`` (with ``format`` and more), ``table`` or ``sql``."""

    path: str | None = None
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """Columns and types of the files, as Spark's DDL writes them: ``id BIGINT, amount DECIMAL(10,2)``."""
    table: str | None = None
    sql: str | None = None
    where: str | None = None

    def __str__(self) -> str:
        """How messages name this source."""
        if self.path is not None:
            return f"{self.format} at {self.path}"
        return f"table {self.table}" if self.table is not None else "the given sql"


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's approval of a load that was discarded: of the attempt that ``snapshot`` brought."""

    snapshot: int
    by: str
    at: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One load to apply: the document that ``apply_load.py --request`` takes."""

    state: str
    load_id: str
    changes: Changes
    constraints: str | Mapping[str, Any]
    max_listed: int = 10_000
    max_samples: int = 20
    mask: tuple[str, ...] = ()
    rejected_load: str = "keep"
    """Whether the rows of a load that fails stay in the state: ``keep`` or ``discard``."""
    missing_deletes: str = "error"
    """A delete of a row that is not there: ``error``, or ``ignore`` (counted in the verdict)."""
    duplicate_keys: str = "error"
    """An insert of a key that is present: ``error``, or ``replace`` (an update)."""
    table: Changes | None = None
    """The whole table as it was before this load, for constraints whose columns the state does not have."""
    engine: str = "auto"
    """Where a load is processed: ``spark``: by workers; ``local``: in the driver; ``auto``: by its size."""
    max_wait_seconds: float = MAX_WAIT_SECONDS
    """How long to keep trying while others commit to the same state first."""
    quarantine: str | None = None
    """The folder for two Parquet outputs: the load's violating rows, and the clean rest."""
    approved: Approval | None = None
    """What a person has approved: if it is this load with these rows, and was discarded, its rows are kept now."""

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Request:
        """Check a request document and make it a request."""
        if not isinstance(document, Mapping):
            raise RequestError(f"A request is a JSON object, not {type(document).__name__}.")
        facts = dict(document)
        if facts.pop("dependencies", None):
            raise RequestError(
                "The request has 'dependencies', which belong to the constraints.",
                hint="Make them a section of the constraint file.",
            )
        _check_keys("request", facts, cls.__slots__)
        _check_text("request", "state", facts.get("state"))
        check_load_id(facts.get("load_id"))
        check_constraints(facts.get("constraints"))
        facts["changes"] = read_source("changes", facts.get("changes"))
        if facts.get("table") is not None:
            facts["table"] = read_source("table", facts["table"])
        for name, least in (("max_listed", 0), ("max_samples", 0)):
            _check_count(name, facts.get(name, least), least)
        check_number("max_wait_seconds", facts.get("max_wait_seconds", 0), 0)
        facts["mask"] = read_names("mask", facts.get("mask", ()))
        for name, known in _CHOICES.items():
            _check_choice(name, facts.get(name, known[0]), known)
        if facts.get("quarantine") is not None:
            _check_text("request", "quarantine", facts["quarantine"])
        if facts.get("approved") is not None:
            facts["approved"] = _approval(facts["approved"])
        return cls(**facts)

    def to_dict(self) -> dict[str, Any]:
        """The request document."""
        return asdict(self)


def check_load_id(value: Any) -> None:
    """Refuse a load id that would not fit in every log, document and page for ever."""
    _check_text("request", "load_id", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        problem = "cannot be written as UTF-8"
    else:
        if not value.isprintable():
            problem = "has line breaks or other unprintable characters"
        elif len(value) > MAX_LOAD_ID:
            problem = f"has {len(value):,} characters, more than the {MAX_LOAD_ID} allowed"
        else:
            return
    shown = escaped(value[:60]) + ("..." if len(value) > 60 else "")
    raise RequestError(
        f"The load_id '{shown}' {problem}.", hint="Name the load by a short text on one line, such as 2026-01-31."
    )


def read_source(name: str, value: Any) -> Changes:
    """A source of rows from its JSON form; ``name`` is what the request calls it."""
    if isinstance(value, str):
        raise RequestError(
            f"'{name}' is a text, and must be an object that says where the rows are.",
            hint=f'Write {{"path": "{escaped(value[:200])}"}}, with a "format" unless it is parquet.',
        )
    if not isinstance(value, Mapping):
        raise RequestError(
            f"The request has no '{name}' object that says where the rows are.",
            hint='For instance {"format": "parquet", "path": "..."}.',
        )
    given = {key: item for key, item in value.items() if item is not None}
    _check_keys(name, given, Changes.__slots__)
    sources = [key for key in _SOURCES if key in given]
    if len(sources) != 1:
        raise RequestError(
            f"'{name}' gives {' and '.join(sources) or 'no source'}; exactly one of {', '.join(_SOURCES)} is needed.",
            hint="" if sources else 'A file or folder: {"path": "/landing/monday.csv", "format": "csv"}.',
        )
    for key in set(given) - {"options"}:
        _check_text(name, key, given[key])
    of_files = [key for key in ("format", "options", "schema") if given.get(key) not in (None, {}, "parquet")]
    if "path" not in given and of_files:
        raise RequestError(f"'{name}' gives {' and '.join(of_files)} for a {sources[0]}; that goes with 'path' only.")
    options = given.get("options", {})
    if not isinstance(options, Mapping):
        raise RequestError(f"'options' in '{name}' is not an object of reader options.")
    given["options"] = {str(key): _option(item) for key, item in options.items()}
    return Changes(**given)


def _approval(value: Any) -> Approval:
    if not isinstance(value, Mapping):
        raise RequestError(f"'approved' in the request is not an object: {value!r}.")
    _check_keys("approved", value, Approval.__slots__)
    _check_count("snapshot", value.get("snapshot"), 1)
    for name in ("by", "at"):
        _check_text("approved", name, value.get(name))
    if not isinstance(value.get("reason", ""), str):
        raise RequestError(f"'reason' in approved must be a text, not {value['reason']!r}.")
    return Approval(**value)


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_keys(where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise RequestError(f"Unknown key '{name}' in {where}.", hint=did_you_mean(str(name), known))


def _check_text(where: str, name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise RequestError(f"'{name}' in {where} must be a non-empty text, not {value!r}.")


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MOST:
        raise RequestError(f"'{name}' in the request must be a whole number of at least {least}, not {value!r}.")


def check_number(name: str, value: Any, least: float) -> None:
    """Refuse what is not a number of at least ``least``, or larger than numbers are."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= sys.float_info.max:
        raise RequestError(f"'{name}' must be a number of at least {least}, not {value!r}.")


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise RequestError(
            f"'{name}' in the request is {value!r}, and must be one of {', '.join(known)}.",
            hint=did_you_mean(str(value), known, otherwise=" ").strip(),  # all of them are named anyway
        )


def check_constraints(value: Any) -> None:
    if not (isinstance(value, str) and value.strip()) and not (isinstance(value, Mapping) and value):
        raise RequestError("'constraints' in the request must be the path of a constraint file or its parsed mapping.")


def read_names(name: str, value: Any, what: str = "column names") -> tuple[str, ...]:
    """A list of names, of columns unless ``what`` says of what else."""
    listed = isinstance(value, Collection) and not isinstance(value, str)
    if not listed or not all(isinstance(item, str) for item in value):
        hint = f"Write [{value!r}]." if isinstance(value, str) and value else ""
        raise RequestError(f"'{name}' in the request must be a list of {what}, not {value!r}.", hint=hint)
    return tuple(value)
