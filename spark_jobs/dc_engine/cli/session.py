"""Spark for a command: on this machine, on a cluster, or behind Spark Connect; started only when it is needed."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dc_engine.cli.progress import Progress
from dc_engine.connecting import Server, ends_with_sigterm
from dc_engine.engines.reach import NONE, Later, later
from dc_engine.errors import RequestError, SparkError
from dc_engine.java import HOW_TO_GET_ONE, java_problem
from dc_engine.masking import told
from dc_engine.shipping import build_engine_zip
from dc_engine.wording import MAX_TEXT, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


@dataclass
class Sessions:
    """Starts the session that a command's options ask for, and ends it."""

    progress: Progress
    master: str | None = None
    remote: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    debug: bool = False
    _begun: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        if self.master and self.remote:
            raise RequestError("Both --master and --remote are given.", hint="A session is of one of them.")

    def spark(self) -> Later:
        """Spark, to be started when it is needed: files on this machine are read without it."""
        if self.remote:
            return Later(self.start, NONE, "")
        given = [*shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")), *self.conf]
        return later(self.start, ["--master", self.master or "local[*]", *given])

    def start(self) -> SparkSession:
        """The session."""
        session = self._remote(self.remote) if self.remote else self._classic(self.master or "local[*]")
        self.progress.doing("")
        self._begun.callback(session.stop)
        return session

    def stop(self) -> None:
        """End the session, if one was started."""
        self._begun.close()

    def _remote(self, url: str) -> SparkSession:
        self.progress.doing("connecting to Spark")
        session = Server(url, self.conf).session("dcgate")
        ends_with_sigterm(session.stop)  # the server would go on without us
        return session

    def _classic(self, master: str) -> SparkSession:
        problem = java_problem()
        if problem:
            raise SparkError(problem, hint=f"{HOW_TO_GET_ONE} Or use a Spark Connect server: --remote sc://host.")
        if master.partition("[")[0] == "local":
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        else:  # executors have no engine of their own
            folder = self._begun.enter_context(tempfile.TemporaryDirectory())
            archive = shlex.quote(str(build_engine_zip(Path(folder))))
            given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"--py-files {archive} {given}"
        self.progress.doing(f"starting Spark on {plain(self.master or 'this machine', MAX_TEXT)}")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("dcgate")
        for name, value in {**({} if self.debug else _QUIET), **self.conf}.items():
            builder = builder.config(name, value)
        with _ended_on_failure(), contextlib.nullcontext() if self.debug else _streams_apart() as said:
            try:
                return builder.getOrCreate()
            except Exception as error:
                raise SparkError(
                    f"Spark cannot be started: {plain(_reason(error, said), MAX_TEXT)}",
                    hint="--debug shows all that Spark says.",
                ) from error


def _reason(error: Exception, said: Path | None) -> str:
    """What Spark said before it gave up: the Python side often knows only that it did."""
    lines = said.read_text(errors="replace").splitlines() if said else []
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    return telling[0] if telling else told(error)


@contextlib.contextmanager
def _ended_on_failure() -> Iterator[None]:
    """End what was started meanwhile if that fails or is stopped: a JVM whose Python went too early lives for ever."""
    import psutil  # type: ignore[import-untyped]

    own = psutil.Process()
    before = set(own.children(recursive=True))
    try:
        yield
    except BaseException:
        for one in set(own.children(recursive=True)) - before:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        raise


@contextlib.contextmanager
def _streams_apart() -> Iterator[Path]:
    """Let a JVM that is started meanwhile have a file for its output, all its life: ours is for people and scripts."""
    with tempfile.TemporaryDirectory() as folder:
        path, ours = Path(folder) / "spark.log", {number: os.dup(number) for number in (1, 2)}
        with path.open("wb") as file:
            for number in ours:
                os.dup2(file.fileno(), number)
        try:
            yield path
        finally:
            for number, own in ours.items():
                os.dup2(own, number)
                os.close(own)
