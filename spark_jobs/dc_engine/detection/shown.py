"""Values as people see them in verdicts and errors: as JSON can carry them, readable, and bounded.

Values are handled one by one, and only the part of a long one that is shown is converted. Python's dates end at the
year 9999, its texts must be UTF-8, and a value of a table may be anything: nothing here goes through either unchecked.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.errors import counted

MOST_OF_VALUE = 1_000
"""How many characters of a value are shown."""
MOST_OF_ROW = 8_000
"""How many characters of all the values of a row are shown."""
MOST_OF_NAME = 1_000
"""The same where an error names a row."""
MOST_OF_VERDICT = 4 * 2**20
"""How many bytes the samples and worst rows of all constraints take in a verdict."""

_DAYS_IN_400_YEARS = 146_097  # after which the calendar repeats
_MICROS_IN_A_DAY = 86_400_000_000


def json_rows(columns: Mapping[str, pa.Array], most: int = MOST_OF_ROW) -> list[dict[str, Any]]:
    """Rows of values as JSON can carry them; a row of more than ``most`` characters gets a share for each value."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, _shown_row(row, most), strict=True)) for row in rows]


def _shown_row(row: tuple[pa.Scalar, ...], most: int) -> list[Any]:
    shown = [_shown(value, min(most, MOST_OF_VALUE)) for value in row]
    if sum(size for _, size in shown) > most:
        shown = [_shown(value, max(most // len(row), 1)) for value in row]
    return [value for value, _ in shown]


def _shown(value: pa.Scalar, room: int) -> tuple[Any, int]:
    """A value within about ``room`` characters, and how many it took."""
    kind = value.type
    if not value.is_valid:
        return None, 4
    if pa.types.is_struct(kind):
        return _struct(value, room)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(value.values, room)
    plain = _plain(value, room)
    return plain, len(str(plain))


def _list(values: pa.Array, room: int) -> tuple[list[Any], int]:
    shown: list[Any] = []
    used = 2
    for value in values:
        if used >= room:
            shown.append(f"… ({counted(len(values), 'item')} in all)")
            break
        item, size = _shown(value, room - used)
        shown.append(item)
        used += size + 2
    return shown, used


def _struct(value: pa.StructScalar, room: int) -> tuple[dict[str, Any], int]:
    shown: dict[str, Any] = {}
    used = 2
    for place, field in enumerate(value.type):
        if used >= room:
            shown["…"] = f"({counted(value.type.num_fields, 'field')} in all)"
            break
        shown[field.name], size = _shown(value[place], room - used)
        used += len(field.name) + size + 4
    return shown, used


def _plain(value: pa.Scalar, room: int) -> Any:
    """A value that is not nested."""
    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(value.as_buffer(), room)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        data = value.as_buffer()
        end = f"… ({counted(data.size, 'byte')} in all)" if 2 * data.size > room else ""
        return bytes(data[: room // 2 if end else data.size]).hex() + end
    if pa.types.is_date(kind):
        return _day(value.value)
    if pa.types.is_timestamp(kind):
        days, micros = divmod(value.value, _MICROS_IN_A_DAY)
        clock = f"{_clock(micros // 10**6)}.{micros % 10**6:06d}"
        return f"{_day(days)} {clock}{'' if kind.tz is None else 'Z'}"
    if pa.types.is_time(kind):
        return value.cast(pa.string()).as_py()
    if pa.types.is_duration(kind):
        return f"{'-' * (value.value < 0)}{timedelta(microseconds=abs(value.value))}"
    number = value.as_py()
    if isinstance(number, float):
        return number if math.isfinite(number) else str(number)
    return number if isinstance(number, bool | int) else str(number)


def _text(data: pa.Buffer, room: int) -> str:
    """A text, cut between characters; bytes that are not UTF-8 as ``\\xff``."""
    start = bytes(data[: 4 * room]) if data.size > 4 * room else data.to_pybytes()  # no character has more bytes
    text = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(start, final=len(start) == data.size)
    if len(start) == data.size and len(text) <= room:
        return text
    characters = int(np.count_nonzero(np.frombuffer(data, np.uint8) & 0xC0 != 0x80))
    return f"{text[:room]}… ({counted(characters, 'character')} in all)"


def _day(days: int) -> str:
    """A day of any year, by its number since 1970-01-01."""
    cycles, rest = divmod(days, _DAYS_IN_400_YEARS)
    day = date(1970, 1, 1) + timedelta(rest)
    year = day.year + 400 * cycles
    return f"{'-' * (year < 0)}{abs(year):04d}-{day:%m-%d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
