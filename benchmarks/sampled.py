"""Where the seconds of a load go: every millisecond it is noted what its threads are doing.

As a program it is a job for ``spark-submit``, which imports nothing before it looks: ``sampled.py SEEN JOB ARGUMENTS``
runs a job of the engine, and writes what it saw.
"""

from __future__ import annotations

import time

BEGUN = time.time()  # before anything else is imported

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from types import FrameType  # noqa: E402

EVERY = 0.001
PARTS: Mapping[str, tuple[str, ...]] = {
    "planning": ("constraints", "preparing", "reach", "planning", "plan", "bodies", "order", "sizing", "slicing"),
    "reading": ("files", "direct", "staging", "request"),
    "hashing": ("row_hashes", "value_hash", "hashing"),
    "encoding": ("codes", "encode", "frames", "work"),
    "look-up": ("runs", "old", "screen", "partners", "rows", "dead"),
    "decoding": ("parquet", "parts", "memory"),
    "counting": ("kernels", "counting", "probe", "unit", "consumers", "listing"),
    "writing": ("packing", "writing", "storage", "report"),
    "judging": ("maintained", "verdict", "apply_load", "changing", "history"),
    "commit": ("drafts", "snapshots", "archive", "loads", "turns"),
}
"""What modules and rooms of the engine are about; of those that are being run the one that was called last counts."""
_ABOUT = {name: part for part, names in PARTS.items() for name in names}
_WAITING = ("threading.py", "queue.py", "selectors.py", "concurrent/futures/thread.py", "concurrent/futures/_base.py")


class Watched:
    """Looks at all threads but its own while a block is run."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        """What was seen, in seconds of all threads together."""
        self._ended, self._interval = threading.Event(), sys.getswitchinterval()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Watched:
        sys.setswitchinterval(EVERY / 2)  # else a thread that computes goes on for five times as long
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def _look_on(self) -> None:
        before = time.perf_counter()
        while not self._ended.wait(EVERY):
            now, me = time.perf_counter(), threading.get_ident()
            parts = [part_of(frame) for number, frame in sys._current_frames().items() if number != me]
            for part in list(filter(None, parts)) or ["waiting"]:
                self.seconds[part] += now - before  # type: ignore[assignment]
            before = now


def part_of(frame: FrameType | None) -> str:
    """What a thread is about; nothing if it only waits, or has nothing to do with the load."""
    called = []
    while frame:
        called.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    files = [file for file, _ in called]
    if any(file.startswith("<frozen importlib") for file in files):
        return "imports"
    if not any("/dc_engine/" in file for file in files):  # threads of Spark, which wait for it
        return ""
    if any(file.endswith("pyspark/sql/session.py") and name == "getOrCreate" for file, name in called):
        return "session"
    if files[0].endswith(_WAITING):
        return ""
    for file in files:
        if "/py4j/" in file or "/pyspark/" in file:
            return "Spark"
        _, engine, path = file.rpartition("/dc_engine/")
        for name in reversed(path.removesuffix(".py").split("/")) if engine else ():
            if name in _ABOUT:
                return _ABOUT[name]
    return "other"


def born() -> float:
    """When this process began."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def main(seen: str, job: str, *arguments: str) -> int:
    """Run a job of the engine, look at it, and write down what was seen and when it began and ended."""
    with Watched() as watched:
        code = import_module(f"dc_engine.{job}").main(list(arguments))
    told = {"born": born(), "begun": BEGUN, "ended": time.time(), "seconds": watched.seconds}
    Path(seen).write_text(json.dumps(told))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
