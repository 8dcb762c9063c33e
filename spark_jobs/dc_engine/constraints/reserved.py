"""Columns that are not the table's: those of a change data feed, and those with the gate's own names."""

from __future__ import annotations

CHANGE_TYPE = "_change_type"
FEED_COLUMNS = (CHANGE_TYPE, "_commit_version", "_commit_timestamp")
"""The columns that a change data feed adds to those of the table: no hash of a row and no fingerprint has them."""
_OWN = "_dc_"


def is_own(column: str) -> bool:
    """Whether a name is one of the gate's own."""
    return column.lower().startswith(_OWN)


def is_reserved(column: str) -> bool:
    """Whether a column belongs to a change data feed or to the gate, and not to the table."""
    return column.lower() in FEED_COLUMNS or is_own(column)


def owner_of(column: str) -> str:
    """Whose such a column is, in words."""
    return "the gate" if is_own(column) else "the change data feed"
