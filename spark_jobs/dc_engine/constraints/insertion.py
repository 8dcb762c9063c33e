"""Add entries to a list in a YAML text without touching the rest of it. PyYAML is imported only here, and late."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Entries = Sequence[Mapping[str, Any]]
_STEP = 2
_PLAIN = re.compile(r"[A-Za-z_]([A-Za-z0-9_ .,()<>=!+-]*[A-Za-z0-9_)<>=])?")
NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""What YAML takes for something other than text."""


def insert(text: str, path: Sequence[str], entries: Entries) -> str:
    """The text with entries at the end of the list at ``path``; keys of it that are missing are added."""
    import yaml

    return _Edit(text).into(yaml.compose(text, Loader=yaml.SafeLoader), list(path), entries)


class _Edit:
    """One insertion. Nodes are PyYAML's, which know where they begin and end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def into(self, mapping: Any, path: list[str], entries: Entries) -> str:
        """Go down the path as far as it is there, and insert the rest."""
        name, *rest = path
        key, value = next(((key, value) for key, value in mapping.value if key.value == name), (None, None))
        if value is None:
            return self._add_key(mapping, name, _nested(rest, entries))
        if value.id == "scalar" or not value.value:
            return self._fill(key, value, _nested(rest, entries), flow=mapping.flow_style)
        if rest:
            return self.into(value, rest, entries)
        if value.flow_style:
            return self._within(value, _flow(entries)[1:-1])
        return self._after(_last_line(value), _block(entries, value.start_mark.column))

    def _add_key(self, mapping: Any, name: str, content: Any) -> str:
        """A new key at the end of a mapping."""
        if mapping.flow_style:
            return self._within(mapping, _flow({name: content})[1:-1])
        return self._after(_last_line(mapping), _block({name: content}, mapping.start_mark.column))

    def _fill(self, key: Any, value: Any, content: Any, *, flow: bool) -> str:
        """Content for a key that has none: nothing, or an empty list or mapping."""
        start, end = value.start_mark.index, value.end_mark.index
        if not flow and value.start_mark.line == key.end_mark.line:
            head = self.text[:start].rstrip(" ")
            comment, separator, others = self.text[end:].partition(self.newline)
            lines = self._joined(_block(content, key.start_mark.column + _STEP))
            return f"{head}{comment.rstrip()}{self.newline}{lines}{others if separator else ''}"
        if value.id != "scalar":
            return self._within(value, _flow(content)[1:-1])
        return f"{self.text[:start]}{' ' * (start == end)}{_flow(content)}{self.text[end:]}"

    def _within(self, node: Any, added: str) -> str:
        """Something behind the last of what stands in brackets."""
        if not node.value:
            place, comma = node.start_mark.index + 1, ""
        else:
            last = node.value[-1]
            place, comma = (last[1] if node.id == "mapping" else last).end_mark.index, ", "
        return f"{self.text[:place]}{comma}{added}{self.text[place:]}"

    def _after(self, line: int, lines: Sequence[str]) -> str:
        """Lines after a line (the first one is 0)."""
        parts = self.text.splitlines(keepends=True)
        head = "".join(parts[: line + 1])
        if not head.endswith(("\n", "\r")):
            head += self.newline
        return head + self._joined(lines) + "".join(parts[line + 1 :])

    def _joined(self, lines: Sequence[str]) -> str:
        return "".join(f"{line}{self.newline}" for line in lines)


def _nested(path: Sequence[str], entries: Entries) -> Any:
    """Entries below the keys of a path."""
    content: Any = list(entries)
    for name in reversed(path):
        content = {name: content}
    return content


def _last_line(node: Any) -> int:
    """The line on which the last value of a block ends; the block's own mark is behind the comments that follow."""
    while node.id != "scalar" and not node.flow_style:
        last = node.value[-1]
        node = last[1] if node.id == "mapping" else last
    mark = node.end_mark
    return int(mark.line) - (mark.column == 0 and mark.line > node.start_mark.line)


def in_lines(entries: Entries) -> str:
    """Entries as they stand in a list of a file."""
    return "\n".join(_block(entries, 0))


def _block(content: Any, indent: int) -> list[str]:
    """Entries, perhaps below keys, as lines."""
    pad = " " * indent
    if isinstance(content, Mapping):
        return [line for name, value in content.items() for line in (f"{pad}{name}:", *_block(value, indent + _STEP))]
    return [
        f"{pad}{'  ' if place else '- '}{name}: {_value(value)}"
        for entry in content
        for place, (name, value) in enumerate(entry.items())
    ]


def _value(value: str | Sequence[str]) -> str:
    """A text or a list of texts, in quotes where YAML would take them for something else."""
    if not isinstance(value, str):
        return f"[{', '.join(quoted(one) if ',' in one else _value(one) for one in value)}]"
    plain = _PLAIN.fullmatch(value) and value.lower() not in NOT_TEXT
    return value if plain else quoted(value)


def _flow(content: Any) -> str:
    """The same in brackets, as JSON has it."""
    if isinstance(content, str):
        return quoted(content)
    if isinstance(content, Mapping):
        return f"{{{', '.join(f'{quoted(name)}: {_flow(value)}' for name, value in content.items())}}}"
    return f"[{', '.join(map(_flow, content))}]"


def quoted(text: str) -> str:
    """A text in quotes; what does not print is escaped, so that no line breaks."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"
