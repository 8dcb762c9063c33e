"""Terms: two columns that are compared, and the outcomes that a comparison can have."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from dc_engine.constraints.model import Op


class Outcome(enum.IntFlag):
    """How t's value compares with s's; a set of outcomes is what an operator admits."""

    LESS = 1
    EQUAL = 2
    GREATER = 4


ADMITS = {
    Op.LT: Outcome.LESS,
    Op.LE: Outcome.LESS | Outcome.EQUAL,
    Op.EQ: Outcome.EQUAL,
    Op.GE: Outcome.GREATER | Outcome.EQUAL,
    Op.GT: Outcome.GREATER,
    Op.NE: Outcome.LESS | Outcome.GREATER,
}
ALL = Outcome.LESS | Outcome.EQUAL | Outcome.GREATER
EQUALITY = (Op.EQ, Op.NE)
INEQUALITIES = (Op.LT, Op.LE, Op.GE, Op.GT)
SIX = (Op.LT, Op.LE, Op.EQ, Op.GE, Op.GT, Op.NE)


@dataclass(frozen=True, slots=True)
class Term:
    """t's ``left`` compared with s's ``right``, and the operators that dependencies may use on it.

    A term without operators is there because another one is its mirror image, or for order dependencies alone.
    """

    left: str
    right: str
    ops: tuple[Op, ...]
    ordered: bool
    first: bool = False
    """Whether NULLs are values, equal to each other and before all others, as order dependencies read them."""

    @property
    def own(self) -> bool:
        """Whether it compares a column with itself."""
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class Literal:
    """Something that a dependency may exclude: outcomes of a term.

    ``vital`` are those for which it is worth its while: without them a weaker literal of the term would do.
    """

    term: int
    excludes: Outcome
    vital: Outcome


@dataclass(frozen=True)
class Terms:
    """The terms of a space, in the order in which patterns have them."""

    terms: tuple[Term, ...]
    nullable: frozenset[str] = frozenset()
    descending: bool = False
    """Whether order dependencies may have one column descend while the other ascends."""

    @cached_property
    def mirror(self) -> tuple[int, ...]:
        """For each term the place of the one that has its columns exchanged."""
        places = {(one.left, one.right, one.first): place for place, one in enumerate(self.terms)}
        return tuple(places[one.right, one.left, one.first] for one in self.terms)

    @cached_property
    def own(self) -> dict[str, int]:
        """The place of the term that compares a column with itself."""
        return {one.left: place for place, one in enumerate(self.terms) if one.own and not one.first}

    @cached_property
    def first(self) -> dict[str, int]:
        """The same as order dependencies read it: NULLs, if there are any, come first."""
        return {**self.own, **{one.left: place for place, one in enumerate(self.terms) if one.first}}

    @cached_property
    def compared(self) -> int:
        """How many terms are comparisons of their own; those after them read the NULLs of one of these otherwise."""
        return sum(not one.first or one.left not in self.own for one in self.terms)

    @cached_property
    def by_column(self) -> tuple[int, ...]:
        """The places of all terms, those of the same columns side by side, so that no NULL changes the order."""
        places = {(one.left, one.right): place for place, one in reversed([*enumerate(self.terms)])}
        columns = [places[one.left, one.right] for one in self.terms]
        return tuple(sorted(range(len(self.terms)), key=columns.__getitem__))

    @cached_property
    def literals(self) -> tuple[Literal, ...]:
        """All literals, term by term."""
        return tuple(literal for place, term in enumerate(self.terms) for literal in _literals(place, term))

    @cached_property
    def most(self) -> tuple[int, ...]:
        """How many literals of each term can be chosen together."""
        return tuple(2 if set(term.ops) == set(SIX) else 1 for term in self.terms)

    @cached_property
    def symmetric(self) -> bool:
        """Whether all that can be said of t and s can be said with the two exchanged."""
        return all(term.own for term in self.terms)

    @cached_property
    def admitted(self) -> tuple[frozenset[int], ...]:
        """For each term the sets of outcomes that its operators admit, and that of all of them."""
        return tuple(frozenset({int(ALL), *(int(ADMITS[op]) for op in term.ops)}) for term in self.terms)

    def is_nullable(self, place: int) -> bool:
        """Whether a NULL, that compares with nothing, can stand on either side of a term."""
        term = self.terms[place]
        return not term.first and not self.nullable.isdisjoint((term.left, term.right))


def _literals(place: int, term: Term) -> list[Literal]:
    """The literals of a term: single outcomes where every operator is there, else what each operator excludes."""
    ops = set(term.ops)
    if ops == set(SIX):
        return [Literal(place, one, one) for one in (Outcome.LESS, Outcome.EQUAL, Outcome.GREATER)]
    excluded = sorted({ALL & ~ADMITS[op] for op in ops}, key=int)
    literals = []
    for one in excluded:
        weaker = [other for other in excluded if other != one and other & one == other]
        if len(weaker) > 1:
            raise AssertionError(f"operators {sorted(op.value for op in ops)} of a term have no literals")
        literals.append(Literal(place, one, one & ~weaker[0] if weaker else one))
    return literals


def op_of(admitted: Outcome) -> Op:
    """The operator that admits these outcomes."""
    return next(op for op, outcomes in ADMITS.items() if outcomes == admitted)
