"""All classes of dependencies from the same patterns, as boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from dc_engine.discovery.boxes import Box, agreeing, of_literals
from dc_engine.discovery.classes import fds, raw_dcs, uniques
from dc_engine.discovery.patterns import Layout

Sets = Mapping[str, Sequence[Box]]
"""The dependencies of each class; of ``dc`` all that are minimal, mirror images too."""
Enumerate = Callable[[np.ndarray], Sets]


def enumerator(layout: Layout, classes: Iterable[str], max_terms: int | None) -> Enumerate:
    """A function that finds the dependencies of up to so many terms that some patterns leave."""
    terms, chosen = layout.terms, tuple(classes)

    def enumerate_(patterns: np.ndarray) -> Sets:
        sets: dict[str, list[Box]] = {}
        for name in chosen:
            if name == "unique":
                sides = uniques(layout, patterns, max_columns=max_terms).left[""]
                sets[name] = [agreeing(terms, one) for one in sides]
            elif name == "fd":
                most = None if max_terms is None else max_terms - 1  # the right side is one of them
                left = fds(layout, patterns, max_columns=most).left if most != -1 else {}
                sets[name] = [agreeing(terms, one, right) for right, sides in left.items() for one in sides]
            else:
                sets[name] = [of_literals(terms, one) for one in raw_dcs(layout, patterns, max_terms=max_terms).sets]
        return sets

    return enumerate_
