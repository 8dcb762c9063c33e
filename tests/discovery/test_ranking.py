"""The rules that a table was made by are among the best ten dependencies that are found in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_examples.tax_data import tax_table
from dc_engine.discover import discover
from dc_engine.discovery import ranking
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.ranking import Scales, spread
from dc_engine.discovery.space import Space
from tests.inprocess import Session, Source

_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.string(): "string",
    pa.float64(): "double",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def _orders() -> pa.Table:
    """Orders with a surrogate id; a customer numbers his own, a product and a country have names and prices."""
    random, rows = np.random.default_rng(1), 4_000
    customers = random.integers(0, rows // 8, rows)
    countries = random.integers(0, 12, rows // 8)[customers]
    products = random.integers(0, 300, rows)
    numbers, so_far = [], dict.fromkeys(range(rows), 0)
    for one in customers.tolist():
        so_far[one] += 1
        numbers.append(so_far[one])
    return pa.table(
        {
            "order_id": np.arange(rows) + 100_000,
            "customer_id": customers,
            "order_number": numbers,
            "email": [f"c{one}@example.org" for one in customers],
            "country": [f"C{one:02}" for one in countries],
            "currency": [("EUR", "USD", "GBP", "SEK")[one % 4] for one in countries],
            "sku": [f"S{one:04}" for one in products],
            "category": [f"category {one % 14}" for one in products],
            "price": np.round(5 + random.random(300) * 200, 2)[products],
            "quantity": random.integers(1, 9, rows),
            "status": [("new", "paid", "sent", "back")[one] for one in random.integers(0, 4, rows)],
        }
    )


def _readings() -> pa.Table:
    """Readings of meters whose counters never go back."""
    random, rows = np.random.default_rng(5), 4_000
    meters, minutes = random.integers(0, 40, rows), random.permutation(rows)
    counters, totals = np.zeros(rows), np.zeros(40)
    for row in np.argsort(minutes):
        totals[meters[row]] += random.integers(0, 300)
        counters[row] = totals[meters[row]] / 100
    times = np.datetime64("2026-01-01T00:00:00", "us") + minutes.astype("timedelta64[m]")
    return pa.table(
        {
            "meter": [f"M{one:03}" for one in meters],
            "read_at": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "counter": counters,
            "site": [f"site {one // 4}" for one in meters],
            "city": [f"city {one // 12}" for one in meters],
            "unit": ["kWh" if one % 3 else "m3" for one in meters],
            "temperature": np.round(random.normal(15, 8, rows), 1),
            "battery": random.integers(0, 100, rows),
        }
    )


PLANTED = [
    (
        lambda: tax_table(20_000),
        {
            "unique [phone]",
            "zip -> city",
            "state, has_child -> child_exemp",
            "not (t.state = s.state and t.salary <= s.salary and t.rate > s.rate)",
        },
    ),
    (
        _orders,
        {
            "unique [customer_id, order_number]",
            "customer_id -> email",
            "customer_id -> country",
            "country -> currency",
            "sku -> category",
            "sku -> price",
        },
    ),
    (
        _readings,
        {
            "meter -> site",
            "meter -> unit",
            "site -> city",
            "not (t.meter = s.meter and t.read_at <= s.read_at and t.counter > s.counter)",
        },
    ),
]


@pytest.mark.parametrize(("made", "planted"), PLANTED, ids=["tax", "orders", "readings"])
def test_the_rules_that_a_table_was_made_by_are_in_the_top_ten(made: Callable[[], pa.Table], planted: set[str]) -> None:
    table = made()
    session = Session({"table": Source(table, {one.name: _TYPES[one.type] for one in table.schema})})
    answer = discover(session, {"table": {"path": "table"}, "limits": {"max_terms": 4}})
    best = [one["text"] for one in answer["dependencies"][:10]]
    assert planted <= set(best), best


def test_what_says_the_same_again_comes_later() -> None:
    """Of four ``fd`` one is about the same columns as the best, and one follows from two others."""
    equal, not_equal, any_ = 2, 5, 7
    a_b, b_c, a_c = (equal, not_equal, any_, any_), (any_, equal, not_equal, any_), (equal, any_, not_equal, any_)
    b_d = (any_, equal, any_, not_equal)
    assert spread({a_b: 4.0, b_c: 3.9, a_c: 3.8, b_d: 2.5}) == [a_b, b_c, b_d, a_c]


def test_all_boxes_are_placed_once() -> None:
    boxes = {(1 + n % 6, 1 + n // 6 % 6, 1 + n // 36 % 6, n // 216): float(n % 17) for n in range(1_500)}
    placed = spread(boxes)
    assert len(placed) == len(boxes)
    assert set(placed) == set(boxes)


@given(st.integers(0, 9), st.integers(0, 2**32), st.booleans())
def test_pairs_that_agree_are_counted_as_they_are_whatever_was_counted_before(rows, seed, forgets):
    chance = np.random.default_rng(seed)
    sizes = zip("abcd", (1, 2, 3, 9), strict=True)
    codes = {name: chance.integers(-1, size, rows).astype(np.int32) for name, size in sizes}
    space = Space(dict.fromkeys(codes, "int"), classes=("fd",))
    with pytest.MonkeyPatch.context() as patch:
        if forgets:
            patch.setattr(ranking, "_REMEMBERED", 0)
        scales = Scales(Coded(np.arange(rows), codes).table(space, frozenset(codes)))
        for key in [key for size in range(5) for key in itertools.combinations(range(4), size)]:
            agreeing = sum(
                all(codes["abcd"[place]][t] == codes["abcd"[place]][s] >= 0 for place in key)
                for t, s in itertools.combinations(range(rows), 2)
            )
            assert scales.pairs_agreeing(key) == agreeing
