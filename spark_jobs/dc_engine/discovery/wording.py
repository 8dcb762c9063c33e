"""Dependencies in sentences, and the names and rules that a constraint file has for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dc_engine.constraints.model import Nulls, Op
from dc_engine.constraints.naming import pod_text
from dc_engine.constraints.printer import print_body, print_name
from dc_engine.discovery.boxes import Box, body_of, said
from dc_engine.discovery.ranking import right_side
from dc_engine.discovery.terms import Outcome, Term, Terms, op_of
from dc_engine.errors import escaped

_LONGEST_NAME = 80
_AMOUNTS = {Op.LT: "a lower", Op.LE: "the same or a lower", Op.GT: "a higher", Op.GE: "the same or a higher"}
_TIMES = {Op.LT: "an earlier", Op.LE: "the same or an earlier", Op.GT: "a later", Op.GE: "the same or a later"}


@dataclass(frozen=True, slots=True)
class Wording:
    """A dependency for people."""

    sentence: str
    """Nothing if the formula says it better."""
    name: str
    rule: str
    """Which form of a rule it has in a constraint file: ``unique``, ``fd``, ``order``, ``pod`` or ``deny``."""
    value: str | list[str]
    within: tuple[str, ...] = ()
    """The columns that are the same where an ``order`` holds."""
    nulls: Nulls = "ignore"
    """The reading of NULLs that comes nearest: no rule can say that NULL is less than a value."""


@dataclass(frozen=True, slots=True)
class _Said:
    term: Term
    op: Op

    @property
    def name(self) -> str:
        return escaped(self.term.left)

    @property
    def turned(self) -> _Said:
        """The same with the two rows exchanged."""
        return _Said(self.term, self.op.flipped)


def worded(terms: Terms, box: Box, kind: str, dates: Collection[str]) -> Wording:
    """A dependency in words; ``dates`` are the columns with dates or times."""
    parts = [_Said(terms.terms[place], op_of(Outcome(box[place]))) for place in said(box)]
    equal = [one for one in parts if one.op is Op.EQ and one.term.own]
    others = [one for one in parts if one not in equal]
    if kind == "unique":
        names = [one.term.left for one in equal]
        sentence = f"No two rows have the same {_listed(equal)}."
        return Wording(sentence, _slug(*names, "is_unique"), "unique", names)
    if kind == "fd" or (kind == "od" and len(others) == 1):
        wording = _fd(equal, others[0])
    else:
        sentence, name = _in_words(terms, box, equal, others, dates)
        name, body = name or _slug("rule_about", *(one.term.left for one in parts)), body_of(terms, box)
        wording = Wording(sentence, name, "deny", print_body(body))
        if kind == "pod" and (order := _order(others)):
            wording = replace(wording, rule="order", value=order, within=tuple(one.term.left for one in equal))
        elif kind == "pod" and (text := pod_text(body)):
            wording = replace(wording, rule="pod", value=text)
    if any(one.term.first for one in parts):
        sentence = f"{wording.sentence} A NULL counts as a value, the first of its column."
        return replace(wording, sentence=sentence, nulls="equal")
    return wording


def _order(others: Sequence[_Said]) -> str:
    """What is ordered by what, if nothing else is said: by the one of which equality counts too."""
    ops = {frozenset({Op.GE, Op.LT}), frozenset({Op.LE, Op.GT})}
    if len(others) != 2 or frozenset(one.op for one in others) not in ops:
        return ""
    by, ordered = sorted(others, key=lambda one: one.op in (Op.LT, Op.GT))
    return f"{print_name(by.term.left)} -> {print_name(ordered.term.left)}"


def _fd(equal: Sequence[_Said], right: _Said) -> Wording:
    if not equal:
        sentence = f"All rows have the same {right.name}."
        column = print_name(right.term.left)
        return Wording(sentence, _slug(right.term.left, "is_constant"), "deny", f"t.{column} != s.{column}")
    left = [one.term.left for one in equal]
    sentence = f"Rows with the same {_listed(equal)} have the same {right.name}."
    rule = f"{', '.join(map(print_name, left))} -> {print_name(right.term.left)}"
    return Wording(sentence, _slug(*left, "decides", right.term.left), "fd", rule)


def _in_words(
    terms: Terms, box: Box, equal: Sequence[_Said], others: Sequence[_Said], dates: Collection[str]
) -> tuple[str, str]:
    """A sentence and a name for the shapes that people know; nothing for others."""
    if len(others) not in (2, 3) or not all(one.term.own for one in others):
        return "", ""
    within = [one.term.left for one in equal]
    unequal = [one for one in others if one.op is Op.NE]
    if len(unequal) == len(others) == 2:
        start = f"Two rows with the same {_listed(equal)}" if equal else "Any two rows"
        sentence = f"{start} have the same {others[0].name} or the same {others[1].name}."
        return sentence, _slug(*within, "decides", others[0].term.left, "or", others[1].term.left)
    if unequal:
        return "", ""
    last = terms.terms[right_side(box)].left
    *first, right = sorted(others, key=lambda one: one.term.left == last)
    if first[0].op in (Op.LT, Op.LE):  # the other way round: people begin with what is higher
        first, right = [one.turned for one in first], right.turned
    start = f"Among rows with the same {_listed(equal)}, a row" if equal else "A row"
    higher = " and ".join(_compared(one, dates) for one in first)
    sentence = f"{start} with {higher} never has {_compared(right, dates)}."
    relation = "follows" if right.op in (Op.LT, Op.LE) else "falls_with"
    names = [one.term.left for one in first]
    return sentence, _slug(right.term.left, relation, *names, *(["within", *within] if within else []))


def _compared(one: _Said, dates: Collection[str]) -> str:
    return f"{(_TIMES if one.term.left in dates else _AMOUNTS)[one.op]} {one.name}"


def _listed(parts: Sequence[_Said]) -> str:
    names = [one.name for one in parts]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _slug(*words: str) -> str:
    """A name of letters, digits and underscores."""
    return re.sub(r"\W+", "_", "_".join(words)).strip("_")[:_LONGEST_NAME].strip("_") or "rule"
