"""A table like the census data that papers on discovery use: many rows, few values, columns that depend on others."""

from __future__ import annotations

import numpy as np

from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import EQUALITY, SIX, Term, Terms

ORDERED = ("age", "weight", "years", "gain", "loss", "hours")


def census(rows: int, seed: int) -> dict[str, np.ndarray]:
    """The codes of 15 columns."""
    chance = np.random.default_rng(seed)

    def skewed(values: int, share: float) -> np.ndarray:
        """Values of which the first has a share, the others less and less."""
        odds = np.concatenate([[share], (1 - share) * (part := 1 / np.arange(1, values)) / part.sum()])
        return chance.choice(values, rows, p=odds)

    age = np.clip(chance.gamma(6, 6.5, rows), 17, 90).astype(np.int64) - 17
    education, sex = skewed(16, 0.32), skewed(2, 0.67)
    marital = np.where(age < 8, 1, skewed(7, 0.45))
    relation = np.where(marital == 0, sex, 2 + chance.integers(0, 4, rows) % (1 + marital % 4))
    gain, loss = (
        np.where(chance.random(rows) < 0.92, 0, skewed(119, 0.03)),
        np.where(chance.random(rows) < 0.95, 0, skewed(92, 0.03)),
    )
    return {
        "age": age,
        "work": skewed(9, 0.7),
        "weight": np.minimum(chance.gamma(3, 4_000, rows), 21_000).astype(np.int64),
        "education": education,
        "years": (education * 5) % 16,
        "marital": marital,
        "occupation": (skewed(15, 0.13) + education) % 15,
        "relation": relation,
        "race": skewed(5, 0.85),
        "sex": sex,
        "gain": gain,
        "loss": np.where(gain > 0, 0, loss),
        "hours": np.where(chance.random(rows) < 0.46, 40, np.clip(chance.normal(40, 12, rows), 1, 99)).astype(np.int64),
        "country": skewed(42, 0.9),
        "income": (chance.random(rows) < 0.1 + 0.03 * education).astype(np.int64),
    }


def census_layout() -> Layout:
    """Numbers are compared by all operators, the other columns by equality."""
    names = census(1, 0)
    terms = [Term(name, name, SIX if name in ORDERED else EQUALITY, name in ORDERED) for name in names]
    return Layout(Terms(tuple(terms)))
