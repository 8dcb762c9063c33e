"""Progress, and where Spark is started."""

from __future__ import annotations

import io
import logging
import time
from typing import Any

import pytest

from dc_engine.cli.commands import STEPS
from dc_engine.cli.progress import Progress, drawn
from dc_engine.cli.session import Sessions
from dc_engine.errors import RequestError, SparkError
from dc_engine.job import Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_grows_with_the_steps_and_their_shares() -> None:
    steps = ("read", "search")
    assert drawn(steps, 0, 0, "starting", 3) == "[...............######...]   3 s  1/2 read: starting"
    assert drawn(steps, 1, 0, "", 10) == "[############............]  10 s  2/2 search"
    assert drawn(steps, 1, 0.5, "3 of 6", 11) == "[##################......]  11 s  2/2 search: 3 of 6"
    assert drawn(steps, 2, 0, "", 12) == "[########################]  12 s"
    assert drawn((), 0, 0, "checked", 0) == "[######..................]   0 s  checked"


def test_on_a_terminal_the_jobs_log_moves_the_bar_and_warnings_stay() -> None:
    stream, log = Terminal(), logging.getLogger("airflow_dc_provider.engine")
    with Progress(stream, STEPS["apply"]):
        with Clock().step("read"):
            pass
        log.warning("odd\nline")
        log.info("%s parts", 3, extra={"share": 0.5})
        end = time.monotonic() + 60  # another thread draws
        while "3 parts" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
    sent = stream.getvalue()
    assert "2/6 stage: 3 parts" in sent
    assert "\r\x1b[Kodd\\nline\n" in sent
    assert sent.endswith("\r\x1b[K")
    log.info("no longer shown")
    assert stream.getvalue() == sent


@pytest.mark.parametrize(("quiet", "lines"), [(False, ["starting", "x: done", "odd"]), (True, ["odd"])])
def test_elsewhere_there_are_plain_lines(quiet: bool, lines: list[str]) -> None:
    stream = io.StringIO()
    with Progress(stream, quiet=quiet) as progress:
        progress.doing("starting")
        progress.doing("")
        logging.getLogger("dc_engine.job").info("x: done", extra={"step": "x"})
        logging.getLogger("dc_engine.job").warning("odd")
    assert stream.getvalue().splitlines() == lines


def sessions(**more: Any) -> Sessions:
    return Sessions(Progress(io.StringIO()), **more)


def test_without_java_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkError) as caught:
        sessions().start()
    assert caught.value.message == "Spark needs Java 17 or newer, and there is no java in JAVA_HOME (/nowhere)."
    assert "Or use a Spark Connect server" in caught.value.hint


@pytest.mark.parametrize("url", ["host", "http://host", "sc://", "sc://host:port"])
def test_a_remote_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(RequestError, match=r"form sc://HOST:PORT"):
        sessions(remote=url).start()


def test_a_server_that_is_not_there_is_named_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dc_engine.connecting.PATIENCE", 0.5)
    with pytest.raises(SparkError) as caught:
        sessions(remote="sc://127.0.0.1:1/;token=secret").start()
    assert caught.value.message.startswith("There is no Spark Connect server at 127.0.0.1:1: ")
    assert "secret" not in str(caught.value)
