"""Generated stock prices: seven columns, of which five have an order that means something.

Prices go their random ways; what holds on every day is that nothing is above the day's high or below its low.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def stock_prices(rows: int, seed: int) -> pa.Table:
    """So many rows, a day of a stock each, stock by stock."""
    chance = np.random.default_rng(seed)
    days = max(rows // 300, 1)
    place = np.arange(rows)
    ticker, day = place // days, place % days
    steps = chance.normal(0, 0.02, rows)
    walk = np.exp(np.cumsum(steps) - np.repeat(np.cumsum(steps)[::days], days)[:rows]) * (5 + ticker % 97)
    open_, close = np.round(walk, 2), np.round(walk * (1 + chance.normal(0, 0.01, rows)), 2)
    high = np.round(np.maximum(open_, close) * (1 + abs(chance.normal(0, 0.005, rows))), 2)
    low = np.round(np.minimum(open_, close) * (1 - abs(chance.normal(0, 0.005, rows))), 2)
    dates = np.datetime64("2000-01-03") + day.astype("timedelta64[D]")
    return pa.table(
        {
            "date": pa.array(dates.astype(str).tolist()),
            "ticker": pa.array([f"T{one:05d}" for one in ticker.tolist()]),
            "open": open_,
            "high": high,
            "low": low,
            "close": close,
            "volume": chance.integers(100, 5_000_000, rows),
        }
    )
