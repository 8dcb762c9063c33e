"""Suggested rules as a constraint file that people read, change and use."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dc_engine.constraints.insertion import NOT_TEXT, quoted
from dc_engine.constraints.model import Nulls
from dc_engine.constraints.printer import print_name, quote_name
from dc_engine.discovery.choosing import Choice, Rule
from dc_engine.discovery.dates import Before
from dc_engine.discovery.space import Space
from dc_engine.errors import counted, escaped

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_.,'<>=! `()-]*")
_WIDTH = 116
_FEW = 50
"""Rows that have both dates, below which an order between them is doubtful."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What rules were found in."""

    table: str
    source: Mapping[str, Any]
    rows: int
    space: Space
    because: str


def rules_text(origin: Origin, choice: Choice, befores: Sequence[Before]) -> str:
    """The file."""
    names = _Names()
    sure = [one for one in befores if one.rows >= _FEW]
    entries = [_entry(_rule(rule, names), _known(rule)) for rule in choice.rules]
    entries += [_entry(_before(one, names), [_rows(one)]) for one in sure]
    doubtful = [_commented(_entry(_rule(rule, names), [f"{rule.doubt}; {_support(rule)}"])) for rule in choice.doubtful]
    doubtful += [_commented(_entry(_before(one, names), [_rows(one)])) for one in befores if one not in sure]
    lines = [*_head(origin), "version: 1", f"table: {_scalar(origin.table)}", "", *_key(choice), ""]
    lines += ["constraints:"] if entries else ["constraints: []  # to add one, take the [] away"]
    for entry in entries:
        lines += [*entry, ""]
    lines += _doubts(choice, doubtful)
    return "\n".join(lines).rstrip("\n") + "\n"


def _head(origin: Origin) -> Iterator[str]:
    rows, columns = counted(origin.rows, "row"), counted(len(origin.space.columns), "column")
    yield from _comment(
        f"Rules suggested for {origin.source['path']}: {rows}, {columns}. All of them hold in every row today; whether "
        "they are meant to hold is yours to say. Remove what is only so by chance, give what may be broken at times "
        "'severity: warn' or a tolerance, and let a gate check every load:"
    )
    yield "#   " + escaped(f"changes={json.dumps(dict(origin.source), ensure_ascii=False)}")  # in a line, to be copied
    for name, reason in origin.space.left_out.items():
        yield from _comment(f"Not looked at: {name} ({reason}).")
    if origin.because:
        yield from _comment(f"There may be more: {origin.because}.")


def _key(choice: Choice) -> Iterator[str]:
    if choice.key:
        yield from _comment(f"How people recognise a row: {choice.why}.")
        yield f"key: [{', '.join(map(_item, choice.key))}]"
    else:
        yield from _comment(f"No key: {choice.why}. With one (key: [id]) verdicts name rows by it.")


def _doubts(choice: Choice, doubtful: Sequence[list[str]]) -> Iterator[str]:
    if doubtful:
        yield from _comment('Doubtful. To use one, take the "# " in front of its lines away.', "  # ")
    for entry in doubtful:
        yield from ("", *entry)
    if choice.further:
        yield ""
        yield from _comment(f"{choice.further:,} more hold that are longer, weaker or less supported.", "  # ")


@dataclass(frozen=True, slots=True)
class _Written:
    name: str
    rule: str
    value: str | list[str]
    description: str
    nulls: Nulls = "ignore"
    within: Sequence[str] = ()


class _Names:
    """Gives every rule a name of its own."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, wanted: str) -> str:
        """A name as wanted, or with a number."""
        name, number = wanted, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name.lower())
        return name


def _rule(rule: Rule, names: _Names) -> _Written:
    worded = rule.wording
    return _Written(names.new(worded.name), worded.rule, worded.value, worded.sentence, worded.nulls, worded.within)


def _before(one: Before, names: _Names) -> _Written:
    name = re.sub(r"\W+", "_", f"{one.first}_not_after_{one.second}")[:80]
    sentence = f"In every row {escaped(one.first)} is not after {escaped(one.second)}."
    return _Written(names.new(name), "deny", f"t.{print_name(one.first)} > t.{print_name(one.second)}", sentence)


def _known(rule: Rule) -> list[str]:
    return [f"error {rule.dependency.error:g}; {_support(rule)}"]


def _support(rule: Rule) -> str:
    support = rule.dependency.support
    if support is None:
        return "support not known"
    return f"{counted(support, 'pair')} of rows {'supports' if support == 1 else 'support'} it"


def _rows(one: Before) -> str:
    return f"error 0; {counted(one.rows, 'row')} with both, different in {one.apart:,}"


def _entry(rule: _Written, comments: Iterable[str]) -> list[str]:
    value = _scalar(rule.value) if isinstance(rule.value, str) else f"[{', '.join(map(_item, rule.value))}]"
    return [
        *(line for comment in comments for line in _comment(comment, "  # ")),
        f"  - name: {_scalar(rule.name)}",
        f"    {rule.rule}: {value}",
        *([f"    within: [{', '.join(map(_item, rule.within))}]"] if rule.within else []),
        *([f"    nulls: {rule.nulls}"] if rule.nulls != "ignore" else []),
        *([f"    description: {_scalar(rule.description)}"] if rule.description else []),
    ]


def _commented(entry: Sequence[str]) -> list[str]:
    """An entry as a comment that becomes an entry again when its first two characters are taken away."""
    return [line if line.startswith("  # ") else f"  # {line[2:]}" for line in entry]


def _comment(text: str, start: str = "# ") -> list[str]:
    lines = textwrap.wrap(escaped(text), _WIDTH - len(start), break_long_words=False, break_on_hyphens=False)
    return [f"{start}{line}" for line in lines]


def _item(name: str) -> str:
    """A column in a list."""
    written = quote_name(name) if name[0] == name[-1] == "`" else name
    return written if _WORD.fullmatch(written) and written.lower() not in NOT_TEXT else quoted(written)


def _scalar(text: str) -> str:
    """A text as YAML, without quotes where it needs none."""
    plain = _TEXT.fullmatch(text) and text == text.strip() and text.lower() not in NOT_TEXT
    return text if plain else quoted(text)
