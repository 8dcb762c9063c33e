"""The request of a discovery: what is asked for, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dc_engine.constraints.building import order_parts
from dc_engine.constraints.model import Op
from dc_engine.constraints.sugar import parse_order
from dc_engine.discovery.space import CLASSES, DEFAULT_CLASSES, MODES, NULLS, Asked, Limits
from dc_engine.errors import ConstraintError, RequestError, did_you_mean
from dc_engine.request import (
    MAX_WAIT_SECONDS,
    Changes,
    check_constraints,
    check_load_id,
    check_number,
    read_names,
    read_source,
)

VIEWS = ("merged", "complete")
_SPACE = ("columns", "exclude", "ordered", "unordered", "cross", "descending", "nulls")
_ORDER_HINT = "For instance 'year, salary -> year, bin'."
_CROSS = ("none", "one", "both")


@dataclass(frozen=True, slots=True)
class Discovery:
    """One discovery: the document that ``python -m dc_engine.discover --request`` takes."""

    asked: Asked
    table: Changes | None = None
    mode: str = "auto"
    view: str = "merged"
    explain: tuple[str, ...] = ()
    """Orders of lists to be explained: ``year, salary -> year, bin``."""
    state: str | None = None
    load_id: str = "initial"
    constraints: str | Mapping[str, Any] | None = None
    mask: tuple[str, ...] = ()
    engine: str = "auto"
    max_wait_seconds: float = MAX_WAIT_SECONDS

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Discovery:
        """Check a request document and make it a request."""
        if not isinstance(document, Mapping):
            raise RequestError(f"A request is a JSON object, not {type(document).__name__}.")
        given = {name: value for name, value in document.items() if value is not None}
        own = tuple(name for name in cls.__slots__ if name != "asked")
        _only("request", given, (*own, "classes", "space", "max_error", "limits"))
        facts = {name: given[name] for name in own if name in given}
        if "table" in facts:
            facts["table"] = read_source("table", facts["table"])
        if "table" not in facts and "state" not in facts:
            raise RequestError(
                "The request gives neither 'table' nor 'state', so there are no rows to look at.",
                hint='For instance {"table": {"format": "parquet", "path": "..."}}.',
            )
        for name, known in (("mode", MODES), ("view", VIEWS), ("engine", ("auto", "spark", "local"))):
            _choice(name, facts.get(name, known[0]), known)
        if "state" in facts and not (isinstance(facts["state"], str) and facts["state"].strip()):
            raise RequestError(f"'state' in the request must be a non-empty text, not {facts['state']!r}.")
        check_load_id(facts.get("load_id", "initial"))
        if "constraints" in facts:
            check_constraints(facts["constraints"])
        check_number("max_wait_seconds", facts.get("max_wait_seconds", 0), 0)
        facts["mask"] = read_names("mask", facts.get("mask", ()))
        facts["explain"] = _orders(facts.get("explain", ()))
        return cls(asked_of(given), **facts)


def _orders(given: Any) -> tuple[str, ...]:
    """Orders of lists, as texts."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise RequestError(f"'explain' in the request must be a list of orders, not {given!r}.", hint=_ORDER_HINT)
    for text in texts:
        try:
            order_parts(*parse_order(text))
        except ConstraintError as error:
            message = f"'explain' in the request: {error.message}"
            raise RequestError(message, hint=error.hint or _ORDER_HINT) from None
    return tuple(texts)


def asked_of(given: Mapping[str, Any]) -> Asked:
    """What is looked for: ``classes``, ``space``, ``max_error`` and ``limits`` of a request."""
    space = given.get("space", {})
    if not isinstance(space, Mapping):
        raise RequestError(f"'space' in the request must be an object, not {space!r}.")
    space = {name: value for name, value in space.items() if value is not None}
    _only("space", space, _SPACE)
    classes = _names("classes", given.get("classes", DEFAULT_CLASSES), "classes")
    for name in classes:
        if name not in CLASSES:
            raise RequestError(f"There is no class '{name}'.", hint=did_you_mean(name, CLASSES))
    if not classes:
        raise RequestError("'classes' is empty, so nothing is looked for.", hint=f"Known are {', '.join(CLASSES)}.")
    _choice("nulls", space.get("nulls", "ignore"), NULLS)
    check_number("max_error", given.get("max_error", 0), 0)
    if given.get("max_error", 0) >= 1:
        raise RequestError(f"'max_error' must be a share of all pairs or rows, below 1, not {given['max_error']!r}.")
    if not isinstance(space.get("descending", False), bool):
        raise RequestError(f"'descending' in the request must be true or false, not {space['descending']!r}.")
    if space.get("descending") and "od" not in classes:
        raise RequestError(
            "'descending' in the request is about class 'od', which is not asked for.",
            hint=f"Leave it out, or name the class: {[*classes, 'od']}.",
        )
    lists = {
        name: _names(name, space[name]) for name in ("columns", "exclude", "ordered", "unordered") if name in space
    }
    return Asked(
        classes=classes,
        cross=_cross(space.get("cross", "none")),
        nulls=space.get("nulls", "ignore"),
        max_error=float(given.get("max_error", 0)),
        limits=_limits(given.get("limits", {})),
        descending=space.get("descending", False),
        **lists,
    )


def _limits(given: Any) -> Limits:
    if not isinstance(given, Mapping):
        raise RequestError(f"'limits' in the request must be an object, not {given!r}.")
    limits = {name: value for name, value in given.items() if value is not None}
    _only("limits", limits, Limits.__slots__)
    for name, value in limits.items():
        if name != "seconds" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise RequestError(f"'{name}' in 'limits' must be a whole number of at least 1, not {value!r}.")
    check_number("seconds", limits.get("seconds", 0), 0)
    return Limits(**limits)


def _cross(given: Any) -> str | tuple[tuple[str, str, tuple[str, ...]], ...]:
    """``none``, ``one``, ``both``, or pairs of columns, each perhaps with its operators."""
    if isinstance(given, str):
        _choice("cross", given, _CROSS)
        return given
    if not isinstance(given, Sequence):
        raise RequestError(f"'cross' must be one of {', '.join(_CROSS)}, or a list of column pairs, not {given!r}.")
    pairs = []
    for one in given:
        named = isinstance(one, Sequence) and not isinstance(one, str) and len(one) in (2, 3)
        if not named or not all(isinstance(name, str) for name in one[:2]):
            raise RequestError(f"'cross' has {one!r}, which is not a pair of columns.", hint='Write ["a", "b"].')
        pairs.append((one[0], one[1], _operators(one[2]) if len(one) == 3 else ()))
    return tuple(pairs)


def _operators(given: Any) -> tuple[str, ...]:
    known = {op.value for op in Op}
    for one in _names("cross", given, "operators"):
        if one not in known:
            raise RequestError(f"'cross' has the operator {one!r}.", hint=f"Known are {', '.join(sorted(known))}.")
    return tuple(dict.fromkeys(given))


def _names(name: str, value: Any, what: str = "column names") -> tuple[str, ...]:
    return tuple(dict.fromkeys(read_names(name, value, what)))


def _only(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise RequestError(f"Unknown key '{name}' in {where}.", hint=did_you_mean(str(name), known))


def _choice(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise RequestError(
            f"'{name}' in the request is {value!r}, and must be one of {', '.join(known)}.",
            hint=did_you_mean(str(value), known),
        )
