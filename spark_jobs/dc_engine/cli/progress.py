"""How far a job is: one line that is drawn again and again on a terminal, plain lines elsewhere.

Jobs know nothing of it. They log what they do, and a record may say which ``step`` is done, or which ``share`` of one.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

from dc_engine.wording import MAX_TEXT, plain

_LOGGERS = ("airflow_dc_provider", "dc_engine")
_WIDTH = 24
_PULSE = 6
_SECONDS = 0.2
"""Between two drawings."""


class Progress(logging.Handler):
    """What the jobs log, as progress; ``steps`` are those that the job will take, as far as that is known."""

    def __init__(self, stream: TextIO, steps: Sequence[str] = (), *, quiet: bool = False) -> None:
        super().__init__(logging.WARNING if quiet else logging.INFO)
        self._stream, self._steps = stream, list(steps)
        self._drawn = stream.isatty() and not quiet
        self._done, self._share, self._text = 0, 0.0, ""
        self._started, self._over = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._draw_on, daemon=True)

    def __enter__(self) -> Progress:
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.setLevel(logging.INFO)
            logger.addHandler(self)
            logger.propagate = False
        if self._drawn:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.propagate = True
        if self._drawn:
            self._over.set()
            self._thread.join()
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def doing(self, text: str) -> None:
        """Say what begins now, if it has a name."""
        if self._drawn:
            self._text = text
        elif text and self.level <= logging.INFO:
            self._line(text)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        text = plain(record.getMessage(), MAX_TEXT)
        if not self._drawn or record.levelno > logging.INFO:
            self._line(text)
            return
        step = getattr(record, "step", None)
        self._share = 0.0 if step else getattr(record, "share", self._share)
        if step in self._steps:
            self._done = self._steps.index(step) + 1
        self._text = "" if step else text

    def _line(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}\n" if self._drawn else f"{text}\n")
        self._stream.flush()

    def _draw_on(self) -> None:
        while not self._over.wait(_SECONDS):
            seconds = time.monotonic() - self._started
            line = drawn(self._steps, self._done, self._share, self._text, seconds)
            self._stream.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
            self._stream.flush()


def drawn(steps: Sequence[str], done: int, share: float, text: str, seconds: float) -> str:
    """``[######......]   4 s  3/6 probe: 12 of 40 parts done``; where the steps are not known, a pulse that moves."""
    now = steps[done] if done < len(steps) else ""
    if done or share:
        full = round(_WIDTH * min(1.0, (done + share) / max(len(steps), 1)))
        bar = "#" * full + "." * (_WIDTH - full)
    else:
        at = int(seconds / _SECONDS) % (_WIDTH - _PULSE + 1)
        bar = "." * at + "#" * _PULSE + "." * (_WIDTH - _PULSE - at)
    place = f"{done + 1}/{len(steps)} {now}" if now else ""
    words = ": ".join(one for one in (place, text) if one)
    return f"[{bar}] {seconds:3.0f} s  {words}".rstrip()
