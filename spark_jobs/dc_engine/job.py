"""What every job does as an application: a request in, a result or an error document out, a log for people."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_engine.connecting import Server, ends_with_sigterm
from dc_engine.engines.reach import NONE, Later, command_of_submit, later
from dc_engine.errors import DcError, RequestError, UnexpectedError, escaped
from dc_engine.masking import told
from dc_engine.verdict import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUEST_HINT = 'A request is one JSON object, for instance {"state": "...", "load_id": "...", "changes": {...}, ...}.'
_QUIET = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@dataclass(slots=True)
class Clock:
    """How long each step took."""

    started: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step, and log that it is done."""
        begun = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + round(time.monotonic() - begun, 3)
        done = {"step": name}  # for those who draw how far it is
        logging.getLogger(__name__).info("%s: done in %.2f s", name, self.seconds[name], extra=done)

    @property
    def total(self) -> dict[str, float]:
        """All steps and their total."""
        return {**self.seconds, "total": round(time.monotonic() - self.started, 3)}


class OneLine(logging.Formatter):
    """A record on one line, so that no load id, path or error text can forge another record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is logging's)
        """The record with what does not print escaped."""
        return escaped(super().formatMessage(record))


def run(
    job: str, parser: argparse.ArgumentParser, arguments: list[str] | None, act: Callable[[Any, State], dict[str, Any]]
) -> int:
    """Run a job: ``act`` takes the options and how to reach the state's filesystem, and returns the result."""
    parser.add_argument("--result", help="path or URI for the result or the error document; else standard output")
    parser.add_argument(
        "--state-options",
        metavar="FILE",
        help="file with the fsspec options of the state's filesystem, a JSON object; read once and removed",
    )
    parser.add_argument(
        "--connect",
        metavar="FILE",
        help='file that says on which Spark Connect server to run, a JSON object: {"remote": "sc://host:port", "conf": '
        "{...}}; read once and removed (without a token, the variable SPARK_REMOTE does the same)",
    )
    parser.add_argument(
        "--parent",
        type=int,
        metavar="PID",
        help="on a Spark Connect server: end when the parent is not PID any more",
    )
    options = parser.parse_args(arguments)
    _own_process()
    _part_stderr_from_stdout()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    state = State(job)
    try:
        return _run(options, state, act)
    finally:
        state.release()


def _run(options: Any, state: State, act: Callable[[Any, State], dict[str, Any]]) -> int:
    try:
        state.options = state_options(options.state_options)
        state.server = _server(options.connect)
        if state.server is not None:
            ends_with_sigterm(state.release, options.parent)
        document = act(options, state)
    except DcError as error:
        _answer({"schema_version": SCHEMA_VERSION, "error": error.to_dict()}, options.result, state)
        logging.getLogger(state.job).error("%s", error)
        return 1
    except Exception as error:
        text = f"{type(error).__name__}: {told(error)}"
        unexpected = UnexpectedError(text, hint="The Spark log has the details.")
        _answer({"schema_version": SCHEMA_VERSION, "error": unexpected.to_dict()}, options.result, state)
        raise
    if options.result is not None:
        _answer(document, options.result, state)
        return 0
    as_text = "text" in document and not options.json
    sys.stdout.write((document["text"] if as_text else json.dumps(document, ensure_ascii=False)) + "\n")
    return 0 if document.get("sound", True) else 1


def _own_process() -> None:
    """Spare a process that is the job's alone what the job never uses."""
    from dc_engine.detection.light import without_linear_algebra, without_pandas

    without_pandas()
    without_linear_algebra()


@dataclass(slots=True)
class State:
    """How an application reaches the state's filesystem, and Spark."""

    job: str
    options: dict[str, Any] = field(default_factory=dict)
    server: Server | None = None
    """The Spark Connect server to run on, if it is one."""
    _remote: SparkSession | None = None

    def read(self, source: str) -> Any:
        """A JSON document from a path, a URI, or ``-`` for standard input."""
        try:
            text = sys.stdin.read() if source == "-" else self._open(source, "rt")
        except FileNotFoundError:
            raise RequestError(f"There is no request {source}.", hint=_REQUEST_HINT) from None
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(
                f"The request {source} cannot be read: {error}.",
                hint="Check the path, and who may read it; a URI needs the fsspec package of its filesystem.",
            ) from error
        try:
            return json.loads(text)
        except RecursionError:
            raise RequestError(f"The request {source} is nested too deeply.", hint=_REQUEST_HINT) from None
        except ValueError as error:  # also for a number of thousands of digits
            raise RequestError(f"The request {source} is not JSON: {error}.", hint=_REQUEST_HINT) from error

    def _open(self, source: str, mode: str) -> str:
        import fsspec

        with fsspec.open(source, mode, encoding="utf-8", **self.options_of(source)) as file:
            return file.read()

    def options_of(self, uri: str) -> dict[str, Any]:
        """The options for a document that may lie beside the state, or on this machine."""
        return self.options if "://" in uri and not uri.startswith("file:") else {}

    def spark(self) -> Later:
        """Spark, to be started when it is needed: files on this machine are read without it."""
        if self.server is not None:
            return Later(self.session, NONE, "")
        if "pyspark" in sys.modules:  # there may be a session already
            return Later(self.session)
        given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        by_itself = ["--master", os.environ.get("MASTER", "local[*]"), *given]
        return later(self.session, command_of_submit() if "PYSPARK_GATEWAY_PORT" in os.environ else by_itself)

    def session(self) -> SparkSession:
        """The session on a Spark Connect server, or that which ``spark-submit`` provides, or a quiet one here."""
        from pyspark.sql import SparkSession

        name = f"airflow-dc-provider: {self.job}"
        if self.server is not None:
            self._remote = self.server.session(name)
            return self._remote
        builder = SparkSession.builder.appName(name)
        if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkSession.getActiveSession() is None:
            for key, value in _QUIET.items():
                builder = builder.config(key, value)
        return builder.getOrCreate()

    def release(self) -> None:
        """End the session on a server, and all that it still does there; another one ends with this process."""
        if self._remote is not None:
            self._remote.stop()


def state_options(path: str | None) -> dict[str, Any]:
    """The options of the state's filesystem, from a file."""
    return _read_once(path, "options of the state's filesystem") or {}


def _server(path: str | None) -> Server | None:
    """The Spark Connect server that a file names, or the environment."""
    if (given := _read_once(path, "address of the Spark Connect server")) is not None:
        return Server.from_mapping(given)
    remote = os.environ.get("SPARK_REMOTE", "")
    return Server(remote) if remote.startswith("sc:") else None


def _read_once(path: str | None, what: str) -> dict[str, Any] | None:
    """A document that may hold secrets; its file is removed at once, so that only this process has them."""
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"The file {path} with the {what} cannot be read: {type(error).__name__}.",
            hint="It must be on the machine of Spark's driver: with deploy mode 'cluster' leave it out (in Airflow: "
            "state_conn_id), and give the cluster access of its own.",
        ) from error
    try:
        Path(path).unlink()
    except OSError as error:
        logging.getLogger(__name__).warning("%s, which may hold credentials, cannot be removed: %s", path, error)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RequestError(f"The file {path} with the {what} is not a JSON object.", hint='Write {"name": "value"}.')
    return document


def _answer(document: Mapping[str, Any], result: str | None, state: State) -> None:
    if result is None:
        return
    import fsspec

    with fsspec.open(result, "wt", encoding="utf-8", **state.options_of(result)) as file:
        json.dump(document, file, ensure_ascii=False, indent=1)


def _part_stderr_from_stdout() -> None:
    """``spark-submit`` joins a Python driver's two streams into its standard output: separate stderr again.

    Where that is not possible (no /proc, or a stderr that cannot be opened again) the log stays on standard output.
    """
    joined = "PYSPARK_GATEWAY_PORT" in os.environ and os.path.samestat(os.fstat(1), os.fstat(2))
    outer = f"/proc/{os.getppid()}/fd/2"
    if joined and os.access(outer, os.W_OK):
        with contextlib.suppress(OSError):
            os.dup2(os.open(outer, os.O_WRONLY | os.O_APPEND), 2)
