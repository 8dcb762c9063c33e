"""Bodies and formulas from text, by recursive descent."""

# formula     = "not" "(" conjunction ")" { "and" "not" "(" conjunction ")" }
# conjunction = member { "and" member }
# member      = "(" conjunction ")" | operand operator operand
# operand     = column | constant        (at most one constant in a predicate)

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

from dc_engine.constraints.model import Body, Column, Constant, ConstantValue, Predicate
from dc_engine.constraints.tokens import BODY, OPERATORS, TURNED, Token, syntax_error, tokenize, unquote
from dc_engine.errors import ConstraintError

_MAX_DEPTH = 50
_MAX_PREDICATES = 3_000  # more than the longest short form has when written out
_MAX_BODIES = 100  # every two of them are compared
_MAX_DIGITS = 100
_MAX_EXPONENT = 400  # beyond every double and every decimal; keeps exact arithmetic on constants cheap

_OR_HINT = "Write one constraint for each side of 'or': both together deny the same."
_NOT_HINT = "Invert the operator instead: 'not t.a < s.a' is 't.a >= s.a'."
_NULL_HINT = "Every predicate with a NULL is false, so none can test for NULL; see the option 'nulls'."
_AND_HINT = "Predicates are joined with 'and'."
_ARITHMETIC_HINT = "There is no arithmetic: compare columns and constants, or add a column with the result."
_WORD_HINTS = {
    "not": _NOT_HINT,
    "null": _NULL_HINT,
    "is": _NULL_HINT,
    "between": "Write both bounds: t.a >= 1 and t.a <= 9.",
    "in": "Write one constraint for each value, with '='.",
    "like": "The only operators are = != < <= > >=.",
}
_OTHER_HINTS = {
    "'": "The quote is never closed. Double a quote inside a text; in YAML ' #' starts a comment, "
    "so put the whole value in quotes.",
    "`": "The backtick is never closed. Double a backtick inside a name.",
    ",": _AND_HINT,
    "&": _AND_HINT,
    ";": _AND_HINT,
    "|": _OR_HINT,
    "!": _NOT_HINT,
} | dict.fromkeys("+-*/%", _ARITHMETIC_HINT)
_OTHER_HINTS['"'] = _OTHER_HINTS["'"]


def parse_body(text: str) -> Body:
    """The predicates of a ``deny`` text, in reading order."""
    parser = _Parser(text)
    body = parser.conjunction()
    parser.expect_end()
    return tuple(body)


def parse_formula(text: str) -> tuple[Body, ...]:
    """The bodies of ``not (...)`` or ``not (...) and not (...)``, in reading order."""
    parser = _Parser(text)
    bodies = parser.formula()
    parser.expect_end()
    return tuple(bodies)


class _Parser:
    """A text and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text, BODY)
        self.position = 0
        self.predicates = 0
        if len(self.tokens) == 1:
            raise ConstraintError("the text is empty.", hint="Write predicates such as t.zip = s.zip.")

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def next(self) -> Token:
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def at_word(self, word: str) -> bool:
        token = self.token
        return token.kind == "word" and token.text.lower() == word

    def error(self, problem: str, token: Token, hint: str = "") -> ConstraintError:
        return syntax_error(problem, self.text, token, hint=hint)

    def expect_end(self) -> None:
        if self.token.kind != "end":
            raise self.unexpected("'and' or the end")

    def unexpected(self, expected: str) -> ConstraintError:
        token = self.token
        if token.kind == "end":
            return self.error(f"{expected} is missing", token)
        if self.at_word("or"):
            return self.error("'or' is not allowed in a body", token, _OR_HINT)
        return self.error(f"expected {expected}, found '{token.text}'", token, self.hint_for(token))

    def hint_for(self, token: Token) -> str:
        """What people mean when they write this where it is not allowed."""
        follows = self.tokens[self.position - 1] if self.position else None
        if token.text.startswith(".") and follows is not None and follows.kind == "column":
            return f"Quote a name that contains a dot with backticks: {follows.text[0]}.`a.b`."
        if follows is not None and (meant := TURNED.get(follows.text + token.text)):
            return f"Write '{meant}'."
        if token.kind == "word":
            return _WORD_HINTS.get(token.text.lower(), _AND_HINT)
        if token.kind in ("number", "arrow") and token.text[0] in "+-":
            return _ARITHMETIC_HINT
        if token.kind in ("open", "close"):
            return "Parentheses come in pairs, around predicates."
        return _OTHER_HINTS.get(token.text, _AND_HINT)

    def formula(self) -> list[Body]:
        bodies: list[Body] = []
        while True:
            if not self.at_word("not"):
                raise self.error(
                    "expected 'not'",
                    self.token,
                    "A formula is 'not (...)' or 'not (...) and not (...)'; a bare body goes under 'deny'.",
                )
            self.next()
            if self.token.kind != "open":
                raise self.unexpected("'(' after 'not'")
            if len(bodies) == _MAX_BODIES:
                raise self.error(f"more than {_MAX_BODIES} bodies", self.token, "Write several constraints.")
            bodies.append(tuple(self.group(1)))
            if not self.at_word("and"):
                return bodies
            self.next()

    def conjunction(self, depth: int = 0) -> list[Predicate]:
        predicates = self.member(depth)
        while self.at_word("and"):
            self.next()
            predicates += self.member(depth)
        return predicates

    def member(self, depth: int) -> list[Predicate]:
        return self.group(depth + 1) if self.token.kind == "open" else [self.predicate()]

    def group(self, depth: int) -> list[Predicate]:
        opened = self.next()
        if depth > _MAX_DEPTH:
            raise self.error(
                f"more than {_MAX_DEPTH} nested parentheses", opened, "Leave them out: all is joined by 'and'."
            )
        predicates = self.conjunction(depth)
        if self.token.kind != "close":
            raise self.unexpected("'and' or ')'")
        self.next()
        return predicates

    def predicate(self) -> Predicate:
        start = self.token
        self.predicates += 1
        if self.predicates > _MAX_PREDICATES:
            raise self.error(f"more than {_MAX_PREDICATES:,} predicates", start, "Write several constraints.")
        left = self.operand()
        if self.token.kind != "operator":
            raise self.unexpected("an operator (= != < <= > >=)")
        op = OPERATORS[self.next().text]
        right = self.operand()
        if isinstance(left, Column):
            return Predicate(left, op, right)
        if isinstance(right, Column):
            return Predicate(right, op.flipped, left)
        raise self.error("two constants are compared", start, "One side of a predicate has to be a column.")

    def operand(self) -> Column | Constant:
        token = self.token
        if token.kind == "column":
            return self.column()
        if token.kind == "number":
            self.next()
            return Constant(self.number(token))
        if token.kind == "string":
            self.next()
            return Constant(_unquoted_text(token))
        if token.kind == "word":
            return Constant(self.word())
        raise self.unexpected("a column or a constant")

    def column(self) -> Column:
        token = self.next()
        name = unquote(token.text.split(".", 1)[1].lstrip())
        if not name:
            raise self.error("a column without a name", token, "Write its name between the backticks.")
        return Column("t" if token.text[0] in "tT" else "s", name)

    def number(self, token: Token) -> int | Decimal:
        text = token.text
        if sum(map(str.isdigit, text)) > _MAX_DIGITS:
            raise self.error(f"a number of more than {_MAX_DIGITS} digits", token, "No column can hold it.")
        if text.lstrip("+-").isdecimal():
            return int(text)
        number = Decimal(text)
        if abs(number.adjusted()) > _MAX_EXPONENT:
            raise self.error("a number out of range", token, "No column can hold it.")
        return number

    def word(self) -> ConstantValue:
        token = self.token
        word = token.text.lower()
        if word in ("true", "false"):
            self.next()
            return word == "true"
        follower = self.tokens[self.position + 1]
        if word in ("date", "timestamp") and follower.kind == "string":
            self.position += 2
            return self.moment(word, follower)
        if word == "null":
            raise self.error("NULL cannot be compared", token, _NULL_HINT)
        if word == "not":
            raise self.error("'not' is not allowed in a body", token, _NOT_HINT)
        if follower.text == "." and word in ("t", "s"):
            hint = "Put a name that is not one word in backticks: t.`first name`."
            raise self.error(f"no column name follows '{token.text}.'", token, hint)
        if follower.text == ".":
            raise self.error(f"there is no row '{token.text}'", token, "The two rows are called t and s.")
        hint = f"Write t.{token.text} or s.{token.text} for a column, '{token.text}' in quotes for a text."
        raise self.error(f"'{token.text}' is neither a column nor a constant", token, hint)

    def moment(self, word: str, token: Token) -> date | datetime:
        text = _unquoted_text(token)
        try:
            return _date(text) if word == "date" else _timestamp(text)
        except ValueError:
            example = "2026-01-31" if word == "date" else "2026-01-31 12:00:00.5+02:00"
            raise self.error(f"'{text}' is not a {word}", token, f"Write {word} '{example}'.") from None


def _unquoted_text(token: Token) -> str:
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _date(text: str) -> date:
    """Exactly ``YYYY-MM-DD``: the standard library would take week dates and more."""
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        raise ValueError(text)
    return date(_digits(text[:4]), _digits(text[5:7]), _digits(text[8:]))


def _timestamp(text: str) -> datetime:
    """``YYYY-MM-DD hh:mm:ss[.f][Z|+hh:mm[:ss]]``, a ``T`` between date and time allowed."""
    day, clock, rest = _date(text[:10]), text[10:19], text[19:]
    if len(clock) != 9 or clock[0] not in " T" or clock[3] != ":" or clock[6] != ":":
        raise ValueError(text)
    zone = None
    if rest.endswith("Z"):
        zone, rest = UTC, rest[:-1]
    elif sign := max(rest.find("+"), rest.find("-")) + 1:
        zone, rest = _zone(rest[sign - 1], rest[sign:].split(":")), rest[: sign - 1]
    if rest and (rest[0] != "." or not 2 <= len(rest) <= 7):
        raise ValueError(text)
    microsecond = _digits(rest[1:].ljust(6, "0")) if rest else 0
    hour, minute, second = _digits(clock[1:3]), _digits(clock[4:6]), _digits(clock[7:9])
    return datetime(day.year, day.month, day.day, hour, minute, second, microsecond, zone)


def _zone(sign: str, parts: list[str]) -> timezone:
    """An offset of hours and minutes; historical ones have seconds."""
    if len(parts) not in (2, 3) or any(len(part) != 2 for part in parts):
        raise ValueError(parts)
    hours, minutes, seconds = map(_digits, [*parts, "00"][:3])
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if sign == "-" else offset)


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
