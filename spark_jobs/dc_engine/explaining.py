"""Orders of lists, explained: which of their parts hold, and two rows where one does not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.constraints.naming import order_text
from dc_engine.constraints.sugar import parse_order
from dc_engine.detection.codes import whole
from dc_engine.detection.fetched import Columns
from dc_engine.detection.shown import json_rows
from dc_engine.discovery.coded import encoded
from dc_engine.discovery.lists import Explained, explained
from dc_engine.discovery.space import Asked, Space, space_of
from dc_engine.errors import RequestError
from dc_engine.verdict import MASKED

Read = Callable[[Mapping[str, str]], Columns]
"""Gives columns, asked for by name with their types, of all rows."""
_MOST_REMOVED = 20
"""Of the rows that have to go so many are shown."""


def check_orders(orders: Sequence[str], types: Mapping[str, str]) -> None:
    """Refuse orders by columns that are not there, or by which nothing can be sorted: before anything is changed."""
    if orders:
        _space(orders, types)


def orders_of(orders: Sequence[str], types: Mapping[str, str], read: Read, mask: Collection[str]) -> dict[str, Any]:
    """What an answer says of orders that a request wants explained, in rows with columns of these types."""
    if not orders:
        return {}
    space = _space(orders, types)
    columns = read(space.columns)
    codes = encoded(space, columns, np.arange(columns.rows)).codes
    answers = []
    for text in orders:
        parts = explained(codes, *parse_order(text))
        holds = all(one.example is None for one in parts)
        answers.append({"text": text, "holds": holds, "parts": [_part(one, columns, mask) for one in parts]})
    return {"orders": answers}


def _space(orders: Sequence[str], types: Mapping[str, str]) -> Space:
    """The columns that orders name, with those that compare: all have an order, NULLs first."""
    names = [name for text in orders for side in parse_order(text) for name in side]
    space = space_of(Asked(classes=("od",), columns=tuple(dict.fromkeys(names))), types, {})
    for name, reason in space.left_out.items():
        raise RequestError(f"Nothing can be sorted by column '{name}': {reason}.", hint="Leave it out of the order.")
    return space


def _part(one: Explained, columns: Columns, mask: Collection[str]) -> dict[str, Any]:
    """A part as an answer has it: where it fails with two rows that show it, and with the fewest that have to go."""
    text = order_text(one.part.body)
    if one.example is None:
        return {"text": text, "holds": True}
    spelled, hidden = {name.lower(): name for name in columns}, {name.lower() for name in mask}
    names = [spelled[name.lower()] for name in (*one.part.context, *one.part.columns)]
    places = pa.array([*one.example, *one.removed[:_MOST_REMOVED].tolist()])
    rows = json_rows({name: whole(columns[name].take(places)) for name in names})
    shown = [{name: MASKED if name.lower() in hidden else value for name, value in row.items()} for row in rows]
    error = len(one.removed) / columns.rows
    example = dict(zip("ts", shown[:2], strict=True))
    return {"text": text, "holds": False, "example": example, "error": error, "remove": shown[2:]}
