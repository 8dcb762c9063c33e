"""Which of the dependencies that were found are worth a rule, which are doubtful, and what names a row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dc_engine.detection.comparable import Family, family
from dc_engine.discovery.boxes import Box, equalities, follow, said
from dc_engine.discovery.listing import Dependency
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.terms import Outcome, Terms
from dc_engine.discovery.wording import Wording, worded
from dc_engine.errors import counted

MOST_RULES = 20
MOST_DOUBTFUL = 10
_LOOKED_AT = 500
"""So many of the best are looked at."""
_FEW_ROWS = 50
_BY_CHANCE = 20.0
"""From so many violations on that one would expect, it is no chance that there is none."""
_LONG = 3
_MOST_LONG = 3
_EQUAL = int(Outcome.EQUAL)
_IDS = ("id", "key", "uuid", "guid")
_NUMBERS = (*_IDS, "no", "nr", "num", "number", "code", "sku", "isbn", "iban", "reference", "ref")
_NAMES = (Family.INTEGER, Family.STRING, Family.BINARY)
"""Types of which keys are made."""
_PARTS = (*_NAMES, Family.DATE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A dependency as a rule."""

    dependency: Dependency
    wording: Wording
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is suggested."""

    key: tuple[str, ...] = ()
    why: str = ""
    """Why this is the key, or why there is none."""
    rules: list[Rule] = field(default_factory=list)
    doubtful: list[Rule] = field(default_factory=list)
    further: int = 0
    """How many more there are."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a choice is made from."""

    rows: int
    types: Mapping[str, str]
    with_nulls: Collection[str]
    dates: Collection[str]
    terms: Terms
    scales: Scales
    dependencies: Sequence[Dependency]
    """Each once, best first."""

    def columns(self, box: Box) -> list[str]:
        """The columns that a box is about."""
        names = (name for place in said(box) for name in (self.terms.terms[place].left, self.terms.terms[place].right))
        return list(dict.fromkeys(names))


def chosen(found: Found, most: int = MOST_RULES) -> Choice:
    """The best dependencies as rules, without those that follow from them; beside them what is doubtful."""
    key, why = _key(found)
    rules: list[Rule] = []
    doubtful: list[Rule] = []
    further = max(len(found.dependencies) - _LOOKED_AT, 0)
    for one in found.dependencies[:_LOOKED_AT]:
        if one.kind == "unique" and set(found.columns(one.box)) == set(key):
            continue
        if _follows(found, one, [rule.dependency for rule in rules]):
            continue
        rule = Rule(one, worded(found.terms, one.box, one.kind, found.dates))
        doubt = _doubt(found, rule)
        if not doubt and len(rules) < most:
            rules.append(rule)
        elif doubt and one.support and len(doubtful) < MOST_DOUBTFUL and not _is_one_too_long(one, doubtful):
            doubtful.append(Rule(one, rule.wording, doubt))
        else:
            further += 1
    doubtful = [rule for rule in doubtful if not _follows(found, rule.dependency, [one.dependency for one in rules])]
    return Choice(key, why, rules, doubtful, further)


def _is_one_too_long(one: Dependency, doubtful: Sequence[Rule]) -> bool:
    """Whether it is long, and enough long ones are there."""
    long = [rule for rule in doubtful if len(said(rule.dependency.box)) > _LONG]
    return len(said(one.box)) > _LONG and len(long) >= _MOST_LONG


def _doubt(found: Found, rule: Rule) -> str:
    """Why a dependency is not suggested as a rule; nothing if it is."""
    one = rule.dependency
    size = len(said(one.box))
    expected = found.scales.weigh(one.kind, [one.box])[one.box].expected
    if found.rows < _FEW_ROWS:
        return f"the table has only {counted(found.rows, 'row')}"
    if one.kind in ("fd", "od") and size == 1:
        return "so far there is one value, which the next load may change"
    if expected < _BY_CHANCE:
        return f"may be chance: about {expected:.1f} pairs of rows would break it if it were not so"
    if one.kind == "unique" and size == 1 and family(found.types[found.columns(one.box)[0]]) not in _NAMES:
        return "numbers and times may be different only so far"
    if size > _LONG:
        return f"long: {size} comparisons"
    return "" if rule.wording.sentence else "hard to say in words"


def _follows(found: Found, one: Dependency, rules: Sequence[Dependency]) -> bool:
    """Whether some rules imply another: what agrees on the left of an ``fd`` agrees on its right too.

    Not through a column with NULLs: two NULLs agree on nothing.
    """
    box = list(one.box)
    lefts = [(rule, equalities(rule.box)) for rule in rules if rule.kind == "fd"]
    decided = [(left, right) for rule, left in lefts if left for right in set(said(rule.box)) - left]
    growing = True
    while growing:
        growing = False
        agreeing = equalities(tuple(box))
        for left, right in decided:
            nullable = {found.terms.terms[place].left for place in (right, *left)} & set(found.with_nulls)
            if left <= agreeing and right not in agreeing and not nullable:
                box[right] &= _EQUAL
                growing = bool(box[right])
                if not growing:
                    return True
    return bool(follow(found.terms, [tuple(box)], [rule.box for rule in rules])[0])


def ends_in(name: str, words: Sequence[str]) -> bool:
    """Whether the last word of a column's name is one of these: ``order_id``, ``orderId``, but not ``paid``."""
    last = re.split(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])", name.strip("_ "))[-1]
    return last.lower() in words


# the key


def _key(found: Found) -> tuple[tuple[str, ...], str]:
    """How people recognise a row, and why; nothing if no column looks like it."""
    if found.rows < 2:
        return (), "there are too few rows to tell"
    uniques = [found.columns(one.box) for one in found.dependencies if one.kind == "unique"]
    if not uniques:
        return (), "no columns have different values in every row"
    for names in sorted(_candidates(found, uniques), key=lambda names: (len(names), _likeness(found, names))):
        rows = f"different in all {found.rows:,} rows and never NULL"
        if len(names) == 1:
            said_of = "its name is that of an id" if ends_in(names[0], _NUMBERS) else "it is the first column"
            return tuple(names), f"{names[0]} is {rows}, and {said_of}"
        return tuple(names), f"{' and '.join(names)} together are {rows}, and one is named like an id"
    return (), "what is different in every row has NULLs, or does not look like an id"


def _candidates(found: Found, uniques: Sequence[list[str]]) -> Iterator[list[str]]:
    first = next(iter(found.types))
    for names in uniques:
        if not set(found.with_nulls).isdisjoint(names):
            continue
        families = {family(found.types[name]) for name in names}
        named = any(ends_in(name, _NUMBERS) for name in names)
        alone = len(names) == 1 and families <= set(_NAMES) and (named or names[0] == first)
        if alone or (1 < len(names) <= _LONG and families <= set(_PARTS) and named):
            yield names


def _likeness(found: Found, names: Sequence[str]) -> tuple[bool, bool, int]:
    order = list(found.types)
    ids, numbers = (any(ends_in(name, words) for name in names) for words in (_IDS, _NUMBERS))
    return (not ids, not numbers, min(order.index(name) for name in names))
