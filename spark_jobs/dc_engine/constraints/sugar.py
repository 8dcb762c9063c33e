"""Short forms of common constraints, read from text: ``unique``, ``fd``, ``order`` and ``pod``.

An ``fd`` or ``pod`` with several columns on the right stands for one constraint per column, and an ``order`` of lists
for one per part, so these give the bodies by right column or part.
"""

from __future__ import annotations

from collections.abc import Sequence

from dc_engine.constraints import building
from dc_engine.constraints.building import Bodies, check_distinct
from dc_engine.constraints.model import Op
from dc_engine.constraints.printer import print_name
from dc_engine.constraints.tokens import LIST, OPERATORS, TURNED, Token, syntax_error, tokenize, unquote
from dc_engine.errors import ConstraintError


def parse_columns(text: str) -> list[str]:
    """``a, b``: columns, each once."""
    reader = _ListReader(text)
    names = reader.names()
    reader.expect_end()
    check_distinct(names)
    return names


def fd(text: str) -> dict[str, Bodies]:
    """``a, b -> c, d``: rows that agree on the left agree on the right."""
    reader = _ListReader(text)
    left = reader.names()
    reader.expect_arrow()
    right = reader.names()
    reader.expect_end()
    check_distinct(left)
    check_distinct(right)
    return {name: building.fd(left, name) for name in right}


def parse_order(text: str) -> tuple[list[str], list[str]]:
    """``[a, b] -> [c, d]``: the two lists, with brackets or without."""
    reader = _ListReader(text)
    left = reader.listed_names()
    reader.expect_arrow()
    right = reader.listed_names()
    reader.expect_end()
    return left, right


def order(text: str, within: Sequence[str] = ()) -> dict[str, Bodies]:
    """``x -> y``: sorted by x, y is sorted too; ``[a, b] -> [c, d]``: sorted by a, then b, it is by c, then d."""
    left, right = parse_order(text)
    if len(left) == len(right) == 1:
        return {right[0]: building.order(left[0], right[0], within)}
    return {part.name: (part.body,) for part in building.order_parts(left, right, within)}


def pod(text: str, within: Sequence[str] = ()) -> dict[str, Bodies]:
    """``a >, b <= -> c >``: when the left side holds between two rows, so does the right."""
    reader = _ListReader(text)
    left = reader.marked_names()
    reader.expect_arrow()
    right = reader.marked_names()
    reader.expect_end()
    check_distinct([name for name, _ in right])
    return {one[0]: building.pod(left, one, within) for one in right}


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

    def listed_names(self) -> list[str]:
        """Names, perhaps in brackets."""
        opened = self.accept("other", "[")
        names = self.names()
        if opened and not self.accept("other", "]"):
            raise self.unexpected("',' or ']'")
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
            raise syntax_error(
                "a column without a name", self.text, token, hint="Write its name between the backticks."
            )
        return name

    def accept(self, kind: str, text: str | None = None) -> bool:
        if self.token.kind != kind or text not in (None, self.token.text):
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
        if meant := TURNED.get(previous + token.text):
            return f"Write '{meant}'."
        if token.text == "=" and self.tokens[self.position + 1].text == ">":
            return "Write the arrow as '->'."
        if token.text == "." and previous in ("t", "s"):
            return "Name the column alone, without t. or s."
        if token.kind in ("name", "other"):
            return "Put commas between columns, and backticks around a name that is not one word: `first name`."
        if token.kind == "operator":
            return "Only a 'pod' has operators."
        return ""
