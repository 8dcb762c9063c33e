"""The command as people start it: a process of its own, in a terminal or in a pipe."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import RULES

COMMAND = [sys.executable, "-m", "dc_engine.cli"]
SEEN = """
import json, sys
from dc_engine.cli import main
try:
    code = main({arguments})
except SystemExit as ended:
    code = ended.code
print(json.dumps([code, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def in_terminal(arguments: list[str]) -> tuple[str, int]:
    """All that a terminal of 100 columns was sent, and the exit code."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ["COLUMNS"] = "100"
        os.execv(sys.executable, [*COMMAND, *arguments])
    sent = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        sent += part
    os.close(terminal)
    return sent.decode(), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.xdist_group("submit")
def test_in_a_terminal_a_bar_shows_how_far_a_load_is_and_makes_room_for_the_verdict(folder: Path) -> None:
    (folder / "wed.csv").write_text("id,customer,amount\n5,a,9\n")
    request = ["--state", "state", "--constraints", "rules.yml", "--load-id", "it's wed"]
    rows = ["--changes", "wed.csv", "--schema", "id BIGINT, customer STRING, amount BIGINT"]
    sent, code = in_terminal(["apply", *request, *rows])
    assert code == 1, sent
    *drawn, rest = sent.split("\r\x1b[K")
    bars = "".join(drawn).split("\r")
    assert any("starting Spark on this machine" in one for one in bars)
    assert any(one.startswith("[####....") and "2/6 stage" in one for one in bars), "a step of six is done"
    assert all(len(one.removesuffix("\x1b[K")) < 100 for one in bars)
    lines = rest.splitlines()
    assert lines[0] == "Load it's wed of table orders broke 1 of 2 rules."
    assert lines[-1].strip() == f"""dcgate retract 'it'"'"'s wed' --state {folder}/state"""
    assert not any("WARN" in one and "log4j" in one for one in lines), "Spark's own log is kept away"


@pytest.mark.xdist_group("submit")
def test_a_command_that_is_stopped_while_spark_starts_leaves_no_process_behind(folder: Path) -> None:
    discover = [*COMMAND, "discover", "--table", "orders.csv"]
    running = subprocess.Popen(
        discover,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background of a shell ignore it
    )
    assert running.stderr is not None
    assert running.stderr.readline() == "starting Spark on this machine\n"
    own, until = psutil.Process(running.pid), time.monotonic() + 100
    while not (begun := own.children(recursive=True)) and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=100)
    assert (running.returncode, out) == (130, "")
    assert err == "dcgate: stopped; what was not committed did not happen.\n"
    assert begun
    assert not psutil.wait_procs(begun, timeout=100)[1]


def test_in_a_pipe_progress_is_plain_lines_on_standard_error(folder: Path) -> None:
    arguments = [*COMMAND, "rebuild", "--state", "state"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stdout.startswith("Rebuilt from the rows in the state: 4 rows")
    assert "indexing 4 rows for what was added to the constraints" in done.stderr.splitlines()
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    quiet = subprocess.run([*arguments, "--quiet"], capture_output=True, text=True, timeout=120)
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "spared"),
    [
        (["--help"], 0, {"pyspark", "numba", "numpy", "pyarrow", "pandas", "yaml", "fsspec"}),
        (["check", "rules.yml"], 0, {"pyspark", "numba", "numpy", "pyarrow", "pandas"}),
        (["check", "rules.yml", "--sample", "orders.csv"], 0, {"pyspark", "numba", "pandas"}),
        (["show", "tue", "--state", "state"], 1, {"pyspark", "numba", "numpy", "pyarrow", "pandas"}),
        (["describe", "--state", "state"], 0, {"pyspark", "numba"}),
    ],
)
def test_what_needs_no_spark_imports_none_and_so_starts_at_once(
    folder: Path, arguments: list[str], code: int, spared: set[str]
) -> None:
    script = SEEN.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    ended, modules = json.loads(done.stdout.splitlines()[-1])
    assert ended == code
    assert not spared & set(modules)
    assert not {"airflow", "airflow_dc_provider", "great_expectations"} & set(modules)


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m dc_engine.cli describe --state state | head -n 0",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_what_an_encoding_lacks_is_escaped_and_breaks_no_rules(folder: Path, arguments: list[str]) -> None:
    (folder / "rules.yml").write_text(RULES.replace("positive", "größer"), encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "check", "rules.yml", *arguments],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    name = json.loads(done.stdout)["constraints"][1]["name"] if arguments else done.stdout
    assert ("größer" if arguments else r"gr\xf6\xdfer") in name


def test_a_result_that_cannot_be_written_is_an_error_and_not_the_code_of_broken_rules(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "show", "mon", "--state", "state", "--json"], stdout=full, stderr=subprocess.PIPE, timeout=120
        )
    said = "dcgate: The work is done, but its result cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr.decode()) == (2, said)
