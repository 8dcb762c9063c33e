"""The command ``dcgate``: parse, do, print, and say by the exit code how it went."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from dc_engine.cli.arguments import parser
from dc_engine.cli.commands import STEPS, Answer, run
from dc_engine.errors import DcError, UnexpectedError, escaped

if TYPE_CHECKING:
    import argparse

PASSED, BROKEN, FAILED, STOPPED = 0, 1, 2, 130
"""Exit codes: as it should be; rules broken or problems found; an error; stopped by Ctrl-C, as shells have it."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser().print_help(sys.stderr)
        return FAILED
    options = parser().parse_args(given)
    try:
        answer = _done(options)
    except DcError as error:
        return _failed(error, options)
    except KeyboardInterrupt:
        sys.stderr.write("dcgate: stopped; what was not committed did not happen.\n")
        return STOPPED
    except Exception as error:  # noqa: BLE001 (as a traceback it would end with the code of broken rules)
        from dc_engine.masking import told

        text = f"An unexpected error: {type(error).__name__}: {told(error, options_mask(options))}"
        unexpected = UnexpectedError(text, hint="--debug shows where it happened.")
        unexpected.__cause__ = error
        return _failed(unexpected, options)
    return _printed(answer, options)


def options_mask(options: argparse.Namespace) -> tuple[str, ...]:
    """The columns whose values no error may show."""
    return tuple(getattr(options, "mask", None) or ())


def _done(options: argparse.Namespace) -> Answer:
    from dc_engine.cli.progress import Progress
    from dc_engine.cli.session import Sessions
    from dc_engine.table_files import settings

    steps = STEPS.get(options.command, ())
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(_stderr())
        progress = stack.enter_context(Progress(stream, steps, quiet=options.quiet))
        conf = settings("--conf", getattr(options, "conf", []))
        master, remote = (getattr(options, name, None) for name in ("master", "remote"))
        sessions = Sessions(progress, master, remote, conf, debug=options.debug)
        stack.callback(sessions.stop)
        return run(options, sessions)


@contextlib.contextmanager
def _stderr() -> Any:
    """Standard error for the progress, also while that of the process belongs to a JVM that is being started."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (AttributeError, io.UnsupportedOperation):  # not a real file, as in tests
        yield sys.stderr
        return
    with os.fdopen(number, "w", encoding=sys.stderr.encoding, errors="backslashreplace") as stream:
        yield stream


def _printed(answer: Answer, options: argparse.Namespace) -> int:
    text = json.dumps(answer.document) if options.json else answer.text
    try:
        _write(sys.stdout, text)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries once more when it ends
        _write(sys.stderr, f"dcgate: The work is done, but its result cannot be written: {error.strerror}.")
        return FAILED
    return PASSED if answer.passed else BROKEN


def _failed(error: DcError, options: argparse.Namespace) -> int:
    from dc_engine.verdict import SCHEMA_VERSION

    if options.json:
        _write(sys.stdout, json.dumps({"schema_version": SCHEMA_VERSION, "error": error.to_dict()}))
    _write(sys.stderr, f"dcgate: {escaped(error.message)}" + (f"\nHint: {escaped(error.hint)}" if error.hint else ""))
    if options.debug:
        import traceback

        _write(sys.stderr, "".join(traceback.format_exception(error)).rstrip())
    return FAILED


def _write(stream: TextIO, text: str) -> None:
    """Write a text; what the stream's encoding does not have is escaped: by now the work is done."""
    encoding = stream.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    with contextlib.suppress(BrokenPipeError):  # the reader, such as head, has seen enough
        stream.write(f"{text}\n")
        stream.flush()
