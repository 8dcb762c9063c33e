"""One line of a benchmark's table, and one of its progress."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    measured: str
    result: str
    limit: str
    met: bool

    def __str__(self) -> str:
        return f"| {self.what} | {self.measured} | {self.result} | {self.limit} | {'yes' if self.met else 'NO'} |"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
