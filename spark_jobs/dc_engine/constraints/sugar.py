"""Short forms of common constraints, written out as bodies: ``unique``, ``fd``, ``order`` and ``pod``.

An ``fd`` or ``pod`` with several columns on the right stands for one constraint for each, so these give
the bodies by right column.
"""

from __future__ import annotations

from collections.abc import Sequence

from dc_engine.constraints.model import Body, Column, Kind, Op, Predicate
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.printer import print_name
from dc_engine.constraints.tokens import LIST, OPERATORS, Token, syntax_error, tokenize, unquote
from dc_engine.errors import ConstraintError

Bodies = tuple[Body, ...]
_MAX_COLUMNS = 1_000


def parse_columns(text: str) -> list[str]:
    """``a, b``: columns, each once."""
    reader = _ListReader(text)
    names = reader.names()
    reader.expect_end()
    check_distinct(names)
    return names


def unique(columns: Sequence[str]) -> Bodies:
    """No two rows agree on all these columns."""
    return (tuple(_between(name, Op.EQ) for name in columns),)


def fd(text: str) -> dict[str, Bodies]:
    """``a, b -> c, d``: rows that agree on the left agree on the right."""
    reader = _ListReader(text)
    left = reader.names()
    reader.expect_arrow()
    right = reader.names()
    reader.expect_end()
    check_distinct(left)
    check_distinct(right)
    _check_apart(right, left, "stands on both sides: the fd says nothing about it")
    agree = unique(left)[0]
    return {name: ((*agree, _between(name, Op.NE)),) for name in right}


def order(text: str, within: Sequence[str] = ()) -> Bodies:
    """``x -> y``: sorted by x, y is sorted too; no split (x equal, y not) and no swap (x less, y greater)."""
    reader = _ListReader(text)
    left = reader.names()
    reader.expect_arrow()
    right = reader.names()
    reader.expect_end()
    if len(left) > 1 or len(right) > 1:
        raise ConstraintError(
            "an order has one column on each side.",
            hint="Columns to hold fixed go under 'within'; several columns that rise together are a 'pod'.",
        )
    (x,), (y,) = left, right
    _check_apart([y], [x], "stands on both sides: every column is in its own order")
    _check_apart(within, [x, y], "stands in 'within' and in the order")
    same = unique(within)[0]
    split = (*same, _between(x, Op.EQ), _between(y, Op.NE))
    swap = (*same, _between(x, Op.LT), _between(y, Op.GT))
    return split, swap


def pod(text: str, within: Sequence[str] = ()) -> dict[str, Bodies]:
    """``a >, b <= -> c >``: when the left side holds between two rows, so does the right."""
    reader = _ListReader(text)
    left = reader.marked_names()
    reader.expect_arrow()
    right = reader.marked_names()
    reader.expect_end()
    _check_number([name for name, _ in left])
    check_distinct([name for name, _ in right])
    _check_apart(within, [name for name, _ in left + right], "stands in 'within' and in the pod")
    same = unique(within)[0] + tuple(_between(name, op) for name, op in left)
    return {name: (normalise((*same, _between(name, op.negated))),) for name, op in right}


def fits(kind: Kind, bodies: Bodies) -> bool:
    """Whether bodies look like those of this kind (a ``deny`` may look like anything)."""
    if kind == "deny":
        return True
    if not all(_is_between(predicate) for body in bodies for predicate in body):
        return False
    ops = [sorted(one.op.value for one in body if one.op is not Op.EQ) for body in bodies]
    if kind == "unique":
        return ops == [[]]
    if kind == "fd":
        return ops == [["!="]]
    if kind == "order":
        return ops == [["!="], ["<", ">"]]
    return len(bodies) == 1


def check_distinct(names: Sequence[str]) -> None:
    """Refuse a column that is named twice, and more columns than a rule can have."""
    _check_number(names)
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConstraintError(f"column {print_name(name)} is named twice.", hint="Name it once.")
        seen.add(name.lower())


def _check_number(names: Sequence[str]) -> None:
    if len(names) > _MAX_COLUMNS:
        raise ConstraintError(
            f"{len(names):,} columns are named in one place; {_MAX_COLUMNS:,} are allowed.",
            hint="Write several constraints.",
        )


def _check_apart(names: Sequence[str], others: Sequence[str], problem: str) -> None:
    known = {name.lower() for name in others}
    for name in names:
        if name.lower() in known:
            raise ConstraintError(f"column {print_name(name)} {problem}.", hint="Leave it out on one side.")


def _between(name: str, op: Op) -> Predicate:
    return Predicate(Column("t", name), op, Column("s", name))


def _is_between(predicate: Predicate) -> bool:
    left, right = predicate.left, predicate.right
    return isinstance(right, Column) and (left.row, right.row) == ("t", "s") and left.key[1] == right.key[1]


class _ListReader:
    """Reads ``a, b -> c`` and ``a >, b < -> c >``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text, LIST)
        self.position = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def names(self) -> list[str]:
        names = [self.name()]
        while self.accept("comma"):
            names.append(self.name())
        return names

    def marked_names(self) -> list[tuple[str, Op]]:
        marked = [self.marked_name()]
        while self.accept("comma"):
            marked.append(self.marked_name())
        return marked

    def marked_name(self) -> tuple[str, Op]:
        name = self.name()
        token = self.token
        if not self.accept("operator"):
            hint = f"Mark every column with an operator: {print_name(name)} >."
            raise self.unexpected(f"an operator (= != < <= > >=) after {print_name(name)}", hint)
        return name, OPERATORS[token.text]

    def name(self) -> str:
        token = self.token
        if not self.accept("name"):
            raise self.unexpected("a column")
        name = unquote(token.text)
        if not name:
            raise syntax_error("a column without a name", self.text, token)
        return name

    def accept(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.position += 1
        return True

    def expect_arrow(self) -> None:
        if not self.accept("arrow"):
            raise self.unexpected("'->'")

    def expect_end(self) -> None:
        if self.token.kind != "end":
            raise self.unexpected("',' or the end")

    def unexpected(self, expected: str, hint: str = "") -> ConstraintError:
        token = self.token
        if token.kind == "end":
            return syntax_error(f"{expected} is missing", self.text, token, hint=hint)
        problem = f"expected {expected}, found '{token.text}'"
        return syntax_error(problem, self.text, token, hint=hint or self.hint_for(token))

    def hint_for(self, token: Token) -> str:
        previous = self.tokens[self.position - 1].text.lower() if self.position else ""
        if token.text == "." and previous in ("t", "s"):
            return "Name the column alone, without t. or s."
        if token.kind in ("name", "other"):
            return "Put commas between columns, and backticks around a name that is not one word: `first name`."
        if token.kind == "operator":
            return "Only a 'pod' has operators."
        return ""
