"""One mapping of a constraint file: typed access to its keys, with errors that say where and what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from dc_engine.constraints.building import check_distinct
from dc_engine.constraints.sugar import parse_columns
from dc_engine.constraints.tokens import check_unicode, unquote
from dc_engine.errors import ConstraintError, clipped, did_you_mean

MAX_NAME = 200
_TYPES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
}


class Section:
    """A mapping, the source it came from, and what messages call it (``constraint 'x'``)."""

    def __init__(self, source: str, mapping: Mapping[str, Any], label: str = "") -> None:
        self.source = source
        self.mapping = mapping
        self.label = label

    def error(self, message: str, *, key: str = "", hint: str = "") -> ConstraintError:
        """An error about a key, or about the whole mapping: ``file:line: constraint 'x': message``."""
        lines = getattr(self.mapping, "lines", {})
        line = lines.get(key, getattr(self.mapping, "line", None))
        where = self.source if line is None else f"{self.source}:{line}"
        label = f"{self.label}: " if self.label else ""
        return ConstraintError(f"{where}: {label}{clipped(message)}", hint=hint)

    def wrong_type(self, key: str, expected: str, value: Any, *, hint: str = "") -> ConstraintError:
        """An error about the type of a value."""
        return self.error(f"'{key}' has to be {expected}, not {describe(value)}.", key=key, hint=hint)

    def only(self, keys: Iterable[str]) -> None:
        """Refuse keys that are not among these."""
        known = list(keys)
        for key in self.mapping:
            if key not in known:
                raise self.error(f"unknown key '{key}'.", key=key, hint=did_you_mean(str(key), known))

    def text(self, key: str) -> str:
        """A text that is not empty."""
        value = self.mapping[key]
        if not isinstance(value, str):
            raise self.wrong_type(key, "text", value, hint="Put it in quotes." if value is not None else "")
        if not value.strip():
            raise self.error(f"'{key}' is empty.", key=key, hint="Give it a value, or leave it out.")
        try:
            check_unicode(value)
        except ConstraintError as error:
            raise self.error(f"'{key}': {error.message}", key=key, hint=error.hint) from None
        return value

    def name(self, key: str) -> str:
        """A text that can name something in logs and pages."""
        return self.checked_name(self.text(key), key)

    def checked_name(self, name: str, key: str) -> str:
        """The name, if it can be shown in logs and pages."""
        if len(name) > MAX_NAME:
            hint = "Name it by fewer: a 'description' has room for more."
            raise self.error(f"'{key}' has {len(name)} characters; {MAX_NAME} are allowed.", key=key, hint=hint)
        if not name.isprintable() or name != name.strip():
            problem = "has control characters, or spaces at its ends"
            raise self.error(f"'{key}' {problem}: {name!r}.", key=key, hint="Use letters, digits, - and _.")
        return name

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """One of a few words."""
        value = self.mapping.get(key, default)
        if value not in allowed:
            words = " or ".join(f"'{word}'" for word in allowed)
            found = f"'{value}'" if isinstance(value, str) else describe(value)
            hint = did_you_mean(value, allowed, otherwise=" ") if isinstance(value, str) else ""
            raise self.error(f"'{key}' has to be {words}, not {found}.", key=key, hint=hint.strip())
        return str(value)

    def count(self, key: str) -> int:
        """A whole number, 0 or more."""
        value = self.mapping[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong_type(key, "a whole number", value)
        if value < 0:
            raise self.error(f"'{key}' is negative ({value}).", key=key, hint="0 allows none.")
        return value

    def share(self, key: str) -> Decimal:
        """``"0.1%"`` as 0.001."""
        value = self.mapping[key]
        number = value[:-1].strip() if isinstance(value, str) and value.strip().endswith("%") else ""
        digits = number.replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20) or Decimal(number) > 100:
            raise self.error(
                f'\'{key}\' has to be a whole number or a percentage from "0%" to "100%", not {shown(value)}.',
                key=key,
                hint='Write 5 for five rows, or "0.1%" for one in a thousand of the load\'s rows.',
            )
        return Decimal(number) / 100

    def columns(self, key: str) -> list[str]:
        """Columns, each once: a list of names, or a text like ``a, b``."""
        value = self.mapping[key]
        if not isinstance(value, str):
            self._check_list(key, value)
        try:
            if isinstance(value, str):
                return parse_columns(value)
            names = [unquote(name) if name[0] == name[-1] == "`" else name for name in value]
            check_unicode("".join(names))
            check_distinct(names)
        except ConstraintError as error:
            raise self.error(f"'{key}': {error.message}", key=key, hint=error.hint) from None
        return names

    def _check_list(self, key: str, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise self.wrong_type(key, "a list of columns", value)
        if not value:
            raise self.error(f"'{key}' is an empty list.", key=key, hint="Name at least one column.")
        for item in value:
            if not isinstance(item, str) or not _names_something(item):
                hint = "Put the name in quotes: YAML reads no, on, off and numbers as something else."
                raise self.wrong_type(key, "a list of columns", [item], hint=hint)


def _names_something(item: str) -> bool:
    """Whether this is a column's name; of backticks alone it is one if they are quoted, as `` ```` `` is for one."""
    return bool(item.strip("`")) or (len(item) >= 4 and len(item) % 2 == 0)


def shown(value: Any) -> str:
    """A value that is not allowed, for a message."""
    return repr(value) if isinstance(value, str | int | float) else describe(value)


def describe(value: Any) -> str:
    """A value of the wrong type, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple) and len(value) == 1:
        return f"a list with {describe(value[0])}"
    kind = next((word for type_, word in _TYPES.items() if isinstance(value, type_)), type(value).__name__)
    return f"{kind} ({value!r})" if isinstance(value, bool | int | float) else kind
