"""Text to tokens, for bodies (``t.a < s.b and ...``) and for column lists (``a, b -> c``)."""

from __future__ import annotations

import re
from typing import NamedTuple

from dc_engine.constraints.model import Op
from dc_engine.errors import ConstraintError

KEYWORDS = frozenset({"and", "or", "not", "true", "false", "null", "is", "in", "between", "like"})
"""Words that are printed in backticks when they name a column (``date`` is special only before a string)."""

TURNED = {"=>": ">=", "=<": "<=", "=!": "!="}
"""Operators as people may write them, and as they are."""
OPERATORS = {op.value: op for op in Op} | {"==": Op.EQ, "<>": Op.NE}

# Alternatives with a repeated group are written so that unclosed text fails in linear time.
_QUOTED_NAME = r"`[^`]*(?:``[^`]*)*`"
_OPERATOR = r"<=|>=|<>|!=|==|=|<|>"
BODY = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<column>[tTsS]\s*\.\s*(?:{_QUOTED_NAME}|\w+))
    | (?P<word>[^\W\d]\w*)
    | (?P<arrow>->)
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<operator>{_OPERATOR})
    | (?P<string>'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*")
    | (?P<open>\()
    | (?P<close>\))
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
LIST = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<name>{_QUOTED_NAME}|\w+)
    | (?P<arrow>->)
    | (?P<operator>{_OPERATOR})
    | (?P<comma>,)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text; ``kind`` is a group of the pattern, or ``end`` after the last piece."""

    kind: str
    text: str
    at: int


def tokenize(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """The tokens of a text, spaces left out, an ``end`` token last."""
    check_unicode(text)
    tokens = [
        Token(match.lastgroup, match.group(), match.start())
        for match in pattern.finditer(text)
        if match.lastgroup is not None and match.lastgroup != "space"
    ]
    tokens.append(Token("end", "", len(text)))
    return tokens


def check_unicode(text: str) -> None:
    """Refuse halves of surrogate pairs: they come from broken JSON and no column or value can hold them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConstraintError(
            f"character {error.start + 1} is not valid Unicode.",
            hint="Was it saved in a wrong encoding?",
        ) from None


def unquote(name: str) -> str:
    """A column's name without its backticks."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def syntax_error(problem: str, text: str, token: Token, *, hint: str = "") -> ConstraintError:
    """An error that says where in the text it is."""
    if token.kind == "end":
        return ConstraintError(f"{problem} at the end of the text.", hint=hint)
    near = text[token.at : token.at + 30].replace("\n", " ").rstrip()
    more = "..." if token.at + 30 < len(text.rstrip()) else ""
    return ConstraintError(f"{problem} at character {token.at + 1}, near “{near}{more}”.", hint=hint)
