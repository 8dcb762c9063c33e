"""The space of a discovery: which columns are compared, how, and which classes are asked for.

It is fixed when a discovery is asked for and never derived again: sets of different loads could not be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from dc_engine.constraints.model import Nulls, Op
from dc_engine.constraints.reserved import is_reserved, owner_of
from dc_engine.detection.comparable import Family, common_family, family
from dc_engine.discovery.terms import EQUALITY, SIX, Term, Terms
from dc_engine.errors import RequestError, did_you_mean

CLASSES = ("unique", "fd", "od", "pod", "dc")
"""From the simplest to the most general."""
DEFAULT_CLASSES = ("unique", "fd", "dc")
NULLS = ("ignore", "equal")
MODES = ("auto", "counted", "witnessed")
_ORDERED = (Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
"""What has an order that means something to people."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a search ends before it is complete."""

    max_terms: int | None = None
    """The most comparisons in a dependency: ``a, b -> c`` has three."""
    max_dependencies: int = 100_000
    seconds: float = 600
    min_support: int | None = None
    """The fewest pairs of rows that have to support a dependency: those that agree on all that it asks to be equal."""
    top: int | None = None
    """How many are shown, the best; all are kept."""


@dataclass(frozen=True, slots=True)
class Cross:
    """t's ``left`` compared with s's ``right``."""

    left: str
    right: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrderClass:
    """Columns that are compared with each other, so that they need codes in one order, if their values have one."""

    members: Sequence[str]
    family: str
    ordered: bool

    @property
    def name(self) -> str:
        """That of the first column."""
        return self.members[0]


@dataclass(frozen=True)
class Space:
    """What is looked for, and where."""

    columns: Mapping[str, str]
    """The columns, with their Spark types, in the order of the table."""
    ordered: tuple[str, ...] = ()
    cross: tuple[Cross, ...] = ()
    nulls: Nulls = "ignore"
    classes: tuple[str, ...] = DEFAULT_CLASSES
    max_error: float = 0
    limits: Limits = field(default_factory=Limits)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Columns that are not looked at, each with the reason."""
    descending: bool = False
    """Whether in class ``od`` one column may descend while another ascends."""

    @cached_property
    def id(self) -> str:
        """The same for the same terms, reading of NULLs and classes: what the stored patterns depend on."""
        return hashlib.sha256(json.dumps(self._document, sort_keys=True).encode()).hexdigest()[:16]

    def terms(self, nullable: Collection[str] = ()) -> Terms:
        """The terms; ``nullable`` are the columns in which there are NULLs.

        In class ``od`` every column has an order, and NULLs are its first values. Where other classes ignore NULLs, a
        column that has some has a second term for that.
        """
        ignored = frozenset() if self.nulls == "equal" else frozenset(nullable)
        if self.classes == ("od",):
            firsts = tuple(Term(name, name, (), True, first=True) for name in self.columns)
            return Terms(firsts, ignored, self.descending)
        ordered, od = set(self.ordered) if {"pod", "dc"} & set(self.classes) else set(), "od" in self.classes
        made = [Term(name, name, SIX if name in ordered else EQUALITY, od or name in ordered) for name in self.columns]
        crossed = {(one.left, one.right): tuple(map(Op, one.ops)) for one in self.cross if "dc" in self.classes}
        for left, right in list(crossed):
            crossed.setdefault((right, left), ())
        for (left, right), ops in crossed.items():
            compared = set(ops) | set(crossed[right, left])
            made.append(Term(left, right, ops, bool(compared - set(EQUALITY))))
        made += [Term(name, name, (), True, first=True) for name in self.columns if od and name in ignored]
        return Terms(tuple(made), ignored, self.descending)

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form. What earlier versions did not know is there only if it is asked for."""
        return dict(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        document = json.loads(json.dumps(asdict(self)))
        if not self.descending:
            del document["descending"]
        for name in ("min_support", "top"):
            if document["limits"][name] is None:
                del document["limits"][name]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Space:
        """The inverse of ``to_dict``."""
        crossed = tuple(Cross(one["left"], one["right"], tuple(one["ops"])) for one in document["cross"])
        lists = {name: tuple(document[name]) for name in ("ordered", "classes")}
        return cls(**{**document, **lists, "cross": crossed, "limits": Limits(**document["limits"])})

    @property
    def in_order(self) -> set[str]:
        """Columns that are compared by order, with themselves or with others."""
        if "od" in self.classes:
            return set(self.columns)
        crossed = [one for one in self.cross if set(one.ops) - {op.value for op in EQUALITY}]
        return {*self.ordered, *(name for one in crossed for name in (one.left, one.right))}

    @cached_property
    def order_classes(self) -> list[OrderClass]:
        """All columns, in such classes."""
        leader = {name: name for name in self.columns}

        def find(name: str) -> str:
            return name if leader[name] == name else find(leader[name])

        for one in self.cross:
            leader[find(one.left)] = find(one.right)
        classes: dict[str, list[str]] = {}
        for name in self.columns:
            classes.setdefault(find(name), []).append(name)
        return [self._order_class(members) for members in classes.values()]

    def _order_class(self, members: Sequence[str]) -> OrderClass:
        common = common_family({family(self.columns[name]) or "" for name in members})
        assert common is not None, "columns that are compared have one family"
        return OrderClass(members, common, bool(self.in_order & set(members)))


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a request that says what to look for; what is not said gets a default that fits the table."""

    classes: tuple[str, ...] = DEFAULT_CLASSES
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    ordered: tuple[str, ...] | None = None
    unordered: tuple[str, ...] = ()
    cross: str | tuple[tuple[str, str, tuple[str, ...]], ...] = "none"
    nulls: Nulls = "ignore"
    max_error: float = 0
    limits: Limits = field(default_factory=Limits)
    descending: bool = False

    def names(self) -> list[str]:
        """All columns that it names."""
        crossed = [] if isinstance(self.cross, str) else [name for one in self.cross for name in one[:2]]
        return [*(self.columns or ()), *self.exclude, *(self.ordered or ()), *self.unordered, *crossed]


def space_of(asked: Asked, types: Mapping[str, str], useless: Mapping[str, str]) -> Space:
    """The space for a table with these columns; ``useless`` are those that have nothing to compare, with the reason."""
    if not types:
        raise RequestError("The table has no columns.", hint="Is it empty, or in another format?")
    known = {name.lower(): name for name in types}
    for name in asked.names():
        if name.lower() not in known:
            raise RequestError(f"The table has no column '{name}'.", hint=did_you_mean(name, types))

    def spelled(names: Iterable[str]) -> list[str]:
        return [known[name.lower()] for name in names]

    wanted, excluded = spelled(asked.columns if asked.columns is not None else types), set(spelled(asked.exclude))
    left_out: dict[str, str] = {}
    for name in wanted:
        if name in excluded:
            left_out[name] = "excluded"
        elif is_reserved(name):
            left_out[name] = f"it belongs to {owner_of(name)} and not to the table"
        elif family(types[name]) is None or "<" in types[name]:
            left_out[name] = f"type {types[name]} is not compared"
        elif name in useless:
            left_out[name] = useless[name]
    columns = {name: types[name] for name in types if name in wanted and name not in left_out}
    if not columns:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise RequestError(f"No column is left to look at ({reasons}).", hint="Name other columns in 'columns'.")
    ordered = _ordered(asked, columns, spelled)
    return Space(
        columns,
        tuple(name for name in columns if name in ordered),
        _crossed(asked, columns, ordered, spelled),
        asked.nulls,
        tuple(name for name in CLASSES if name in asked.classes),
        asked.max_error,
        asked.limits,
        left_out,
        asked.descending and "od" in asked.classes,
    )


def _ordered(asked: Asked, columns: Mapping[str, str], spelled: Any) -> set[str]:
    if asked.nulls == "equal":
        if asked.ordered:
            raise _without_order("'ordered'")
        return set()
    by_default = {name for name, spark_type in columns.items() if family(spark_type) in _ORDERED}
    unordered = set(spelled(asked.unordered))
    for name in spelled(asked.ordered or ()):
        if name in unordered:
            raise RequestError(
                f"Column '{name}' is both in 'ordered' and in 'unordered'.", hint="Name it in one of them."
            )
    chosen = by_default if asked.ordered is None else set(spelled(asked.ordered))
    return (chosen & set(columns)) - unordered


def _crossed(asked: Asked, columns: Mapping[str, str], ordered: Collection[str], spelled: Any) -> tuple[Cross, ...]:
    """The column pairs that were given, each in the direction given, and once with all operators given for it."""
    if isinstance(asked.cross, str):
        return ()
    crossed: dict[tuple[str, str], dict[str, None]] = {}
    for left, right, ops in asked.cross:
        one, two = spelled([left, right])
        if one not in columns or two not in columns or one == two:
            raise RequestError(
                f"'cross' names the pair {left}, {right}, which are not two columns that are looked at.",
                hint=f"Leave the pair out, or name two of {', '.join(columns)}.",
            )
        if common_family({family(columns[name]) or "" for name in (one, two)}) is None:
            raise RequestError(
                f"'cross' compares column '{one}' of type {columns[one]} with column '{two}' of type {columns[two]}.",
                hint="Leave the pair out, or cast one of them in the table (for instance with 'sql').",
            )
        if asked.nulls == "equal" and set(ops) - {op.value for op in EQUALITY}:
            raise _without_order("the order of 'cross'")
        crossed.setdefault((one, two), {}).update(dict.fromkeys(ops or default_ops(one, two, ordered)))
    return tuple(Cross(one, two, tuple(ops)) for (one, two), ops in crossed.items())


def _without_order(what: str) -> RequestError:
    return RequestError(
        "With nulls 'equal' columns have no order: NULL equals NULL, and is neither less nor greater.",
        hint=f"Leave {what} out, or read NULLs with 'ignore'.",
    )


def default_ops(left: str, right: str, ordered: Collection[str]) -> tuple[str, ...]:
    """All operators that two columns can be compared by."""
    return tuple(op.value for op in (SIX if left in ordered and right in ordered else EQUALITY))


def with_cross(space: Space, pairs: Sequence[tuple[str, str]], *, both: bool) -> Space:
    """The space with column pairs, in one direction or in both."""
    directed = [way for one in pairs for way in ([one, one[::-1]] if both else [one])]
    crossed = tuple(Cross(left, right, default_ops(left, right, space.ordered)) for left, right in directed)
    return replace(space, cross=crossed)
