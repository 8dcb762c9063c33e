"""Patterns: how a pair of rows compares in every term, packed into words of 64 bits.

An ordered term has two bits, *not greater* and *not less*; an unordered one has one, *equal*. A term whose columns can
be NULL has one more: a NULL is involved. The bits of order are those of values among which NULL is the first, so that a
term that reads NULLs so needs no bits of its own. A pair of rows has one pattern, up to the exchange of the two: the
smaller is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dc_engine.discovery.terms import Outcome, Terms

_WORD = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the bits of a term are: two of order or one of equality, then perhaps one for NULL."""

    word: int
    shift: int
    ordered: bool
    null: int | None
    """The place of the bit for NULL within the word."""


@dataclass(frozen=True)
class Layout:
    """How the patterns of a space are packed."""

    terms: Terms

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Where each term is."""
        slots: list[Slot] = []
        word, shift = 0, 0
        for place, term in enumerate(self.terms.terms):
            if place >= self.terms.compared:
                slots.append(replace(slots[self.terms.own[term.left]], null=None))
                continue
            bits = 2 if term.ordered else 1
            nullable = self.terms.is_nullable(place)
            if shift + bits + nullable > _WORD:
                word, shift = word + 1, 0
            slots.append(Slot(word, shift, term.ordered, shift + bits if nullable else None))
            shift += bits + nullable
        return tuple(slots)

    @cached_property
    def words(self) -> int:
        """How many words a pattern has."""
        return 1 + max((slot.word for slot in self.slots), default=0)

    @cached_property
    def bits(self) -> int:
        """How many bits a pattern has, from the first to the last one used."""
        if self.words > 1:
            return _WORD * self.words
        return max((1 + max(slot.shift + slot.ordered, slot.null or 0) for slot in self.slots), default=0)

    def outcomes(self, patterns: np.ndarray, place: int) -> np.ndarray:
        """The outcome of one term in each pattern: 0 where a NULL is involved, less *and* greater for unequal ones."""
        slot = self.slots[place]
        bits = patterns[:, slot.word] >> np.uint64(slot.shift)
        if slot.ordered:
            known = np.array([0, Outcome.LESS, Outcome.GREATER, Outcome.EQUAL], np.uint8)[bits & np.uint64(3)]
        else:
            other = Outcome.LESS | Outcome.GREATER
            known = np.array([other, Outcome.EQUAL], np.uint8)[bits & np.uint64(1)]
        return np.where(self.involves_null(patterns, place), 0, known).astype(np.uint8)

    def involves_null(self, patterns: np.ndarray, place: int) -> np.ndarray:
        """Where a NULL stands in a term."""
        slot = self.slots[place]
        if slot.null is None:
            return np.zeros(len(patterns), bool)
        return (patterns[:, slot.word] >> np.uint64(slot.null)) & np.uint64(1) != 0

    @cached_property
    def _exchanged(self) -> np.ndarray | None:
        """The bits of *not greater* in each word, where terms compare columns with themselves; else nothing."""
        if any(place != other for place, other in enumerate(self.terms.mirror)):
            return None
        marks = np.zeros(self.words, np.uint64)
        for slot in self.slots:
            marks[slot.word] |= np.uint64(slot.ordered << slot.shift)
        return marks

    @property
    def is_symmetric(self) -> bool:
        """Whether every pattern is its own mirror image."""
        return self._exchanged is not None and not self._exchanged.any()

    def mirrored(self, patterns: np.ndarray) -> np.ndarray:
        """The patterns of the same pairs with t and s exchanged."""
        if (low := self._exchanged) is not None:
            one, high = np.uint64(1), low << np.uint64(1)
            return patterns & ~(low | high) | (patterns & low) << one | (patterns & high) >> one
        result = np.zeros_like(patterns)
        for slot, other in zip(self.slots, self.terms.mirror, strict=True):
            source = self.slots[other]
            bits = patterns[:, source.word] >> np.uint64(source.shift)
            if slot.ordered:
                turned = ((bits & np.uint64(1)) << np.uint64(1)) | ((bits >> np.uint64(1)) & np.uint64(1))
            else:
                turned = bits & np.uint64(1)
            result[:, slot.word] |= turned << np.uint64(slot.shift)
            if slot.null is not None:
                assert source.null is not None
                flag = (patterns[:, source.word] >> np.uint64(source.null)) & np.uint64(1)
                result[:, slot.word] |= flag << np.uint64(slot.null)
        return result

    def canonical(self, patterns: np.ndarray) -> np.ndarray:
        """Of each pattern and its mirror image the smaller one."""
        if self.is_symmetric:
            return patterns
        return np.where(_less(patterns, other := self.mirrored(patterns))[:, None], patterns, other)

    def pack(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        """The patterns of pairs of rows, from the codes of t and of s in each term; NULL is -1."""
        result = np.zeros((len(left[0]) if left else 0, self.words), np.uint64)
        for slot, one, two in zip(self.slots, left, right, strict=True):
            if slot.ordered:
                bits = (one <= two).astype(np.uint64) | (one >= two).astype(np.uint64) << np.uint64(1)
            else:
                bits = (one == two).astype(np.uint64)
            result[:, slot.word] |= bits << np.uint64(slot.shift)
            if slot.null is not None:
                result[:, slot.word] |= ((one < 0) | (two < 0)).astype(np.uint64) << np.uint64(slot.null)
        return result


def _less(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Whether rows of words come before others, word by word."""
    less = np.zeros(len(one), bool)
    equal = np.ones(len(one), bool)
    for word in range(one.shape[1]):
        less |= equal & (one[:, word] < two[:, word])
        equal &= one[:, word] == two[:, word]
    return less
