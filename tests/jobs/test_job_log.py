"""What a job says as a program: load ids that it refuses, and a log in which nothing can forge a line."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.errors import RequestError, escaped
from dc_engine.job import OneLine
from dc_engine.maintain import Maintenance, main
from dc_engine.masking import told
from dc_engine.request import MAX_LOAD_ID, Request, check_load_id

CHARACTERS = st.characters() | st.sampled_from("\n\r\x1b\x00\u2028\u202e\ud800\udfff\x85 a")


def apply_request(load_id: Any) -> dict[str, Any]:
    rules = {"version": 1, "table": "t", "constraints": [{"name": "a", "unique": ["b"]}]}
    return {"state": "/state", "load_id": load_id, "changes": {"path": "/x"}, "constraints": rules}


@given(st.text(CHARACTERS, max_size=MAX_LOAD_ID + 5))
def test_a_load_id_is_taken_just_when_it_prints_on_one_line_and_is_not_too_long(load_id):
    fits = load_id.strip() != "" and load_id.isprintable() and len(load_id) <= MAX_LOAD_ID
    checks = (
        lambda: check_load_id(load_id),
        lambda: Request.from_mapping(apply_request(load_id)),
        lambda: Maintenance.from_mapping("retract", {"state": "/state", "load_id": load_id}),
    )
    for check in checks:
        if fits:
            check()
        else:
            with pytest.raises(RequestError) as caught:
                check()
            assert str(caught.value).isprintable(), "the refusal shows it escaped"
            assert len(str(caught.value)) < 1000, "and cut"


@pytest.mark.parametrize("load_id", [None, 7, ["a"], ""])
def test_a_load_id_that_is_no_text_is_refused(load_id):
    with pytest.raises(RequestError, match="'load_id' in request must be a non-empty text"):
        Request.from_mapping(apply_request(load_id))


@given(st.text(CHARACTERS))
def test_an_escaped_text_is_one_line_that_can_be_written(text):
    shown = escaped(text)
    assert shown.isprintable()
    assert len(shown.encode()) >= len(text)
    assert (shown == text) == text.isprintable()


@given(st.text(CHARACTERS), st.text(CHARACTERS))
def test_a_record_of_the_log_is_one_line_whatever_it_quotes(load_id, error):
    record = logging.LogRecord("apply_load", logging.INFO, "x.py", 1, "load %s: %s", (load_id, error), None)
    line = OneLine("%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S").format(record)
    assert line.isprintable()
    assert line.endswith(f"apply_load load {escaped(load_id)}: {escaped(error)}")


def test_the_program_says_its_error_on_one_line(tmp_path: Path, capfd, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    result = tmp_path / "result.json"
    assert main(["describe", "--state", f"{tmp_path}/a\n12:00:00 maintain sound", "--result", str(result)]) == 1
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "There is no state in" in line and "a\\n12:00:00 maintain sound" in line]
    assert not [line for line in said if line.startswith("12:00:00 maintain sound")]
    assert "\n12:00:00" in json.loads(result.read_text())["error"]["message"], "the document has it as it is"


def test_a_lone_surrogate_in_a_request_is_one_sentence_and_no_traceback(tmp_path: Path):
    request, result = tmp_path / "request.json", tmp_path / "result.json"
    request.write_text(json.dumps({"state": str(tmp_path / "state"), "load_id": "\ud800"}))
    assert main(["retract", "--request", str(request), "--result", str(result)]) == 1
    error = json.loads(result.read_text())["error"]
    assert error["message"] == "The load_id '\\ud800' cannot be written as UTF-8."


JAVA = """An error occurred while calling o83.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading a.csv.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:940)
Caused by: org.apache.spark.SparkException: Malformed records are detected: [1,null].
\tat org.apache.spark.sql.catalyst.util.FailureSafeParser.parse(FailureSafeParser.scala:83)
\t... 18 more
Caused by: java.lang.NumberFormatException: For input string:
 "much"
\tat java.base/java.lang.Integer.parseInt(Integer.java:668)
\t... 26 more
"""
CONNECT = """(org.apache.spark.SparkClassNotFoundException) [DATA_SOURCE_NOT_FOUND] Failed to find: cvs. SQLSTATE: 42K02

JVM stacktrace:
org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find: cvs. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:790)
"""
PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'pyarrow'

JVM stacktrace:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""
RPC = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = X\n\tdetails = "Invalid token"\n\tdebug_error_string'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "ValueError."),
        ("two words;", "two words."),
        ("[CAST] Bad. SQLSTATE: 42 (line 1)\n\n== SQL ==\nselect", "[CAST] Bad."),
        (JAVA, '[FAILED_READ_FILE.NO_HINT] Encountered error while reading a.csv: For input string: "much".'),
        (CONNECT, "[DATA_SOURCE_NOT_FOUND] Failed to find: cvs."),
        (PYTHON, "ModuleNotFoundError: No module named 'pyarrow'."),
        (RPC, "Invalid token."),
    ],
)
def test_what_spark_raises_is_told_by_its_cause(text, sentence):
    assert told(ValueError(text)) == sentence
    assert told(ValueError(text), ["column"]).startswith("ValueError (its text is left out")
