"""What a job says of a request document that it cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dc_engine.apply_load import main
from dc_engine.errors import RequestError
from dc_engine.request import Request


@pytest.mark.parametrize(
    ("request_document", "message"),
    [
        (b"[" * 100_000, "is nested too deeply."),
        (b'{"state": ' * 100_000, "is nested too deeply."),
        (b'{"max_listed": ' + b"1" * 5_000 + b"}", "is not JSON: Exceeds the limit"),
        (b"{", "is not JSON: Expecting property name"),
        (b"", "is not JSON: Expecting value"),
        (b"\xff\xfe", "cannot be read: 'utf-8' codec"),
    ],
)
def test_a_request_that_is_no_json_is_one_error_that_names_it(
    request_document: bytes, message: str, tmp_path: Path
) -> None:
    path, result = tmp_path / "request.json", tmp_path / "result.json"
    path.write_bytes(request_document)
    assert main(["--request", str(path), "--result", str(result)]) == 1
    error = json.loads(result.read_text())["error"]
    assert error["type"] == "RequestError"
    assert error["message"].startswith(f"The request {path} {message}")


@pytest.mark.parametrize("options", ["[" * 100_000, "1" * 5_000, "{", "[]"])
def test_options_of_the_state_that_are_no_json_object_are_an_error(options: str, tmp_path: Path) -> None:
    path, result = tmp_path / "options.json", tmp_path / "result.json"
    path.write_text(options)
    assert main(["--request", "-", "--state-options", str(path), "--result", str(result)]) == 1
    assert json.loads(result.read_text())["error"]["message"].endswith("is not a JSON object.")


@pytest.mark.parametrize("value", [-1, "60", True, None, float("nan"), float("inf"), 10**400])
def test_a_time_to_wait_that_is_no_number_is_refused(value: Any) -> None:
    request = {"state": "s", "load_id": "l", "changes": {"path": "p"}, "constraints": "c.yml"}
    assert Request.from_mapping(request).max_wait_seconds == 3600
    assert Request.from_mapping(request | {"max_wait_seconds": 0.5}).max_wait_seconds == 0.5
    with pytest.raises(RequestError, match="'max_wait_seconds' must be a number of at least 0"):
        Request.from_mapping(request | {"max_wait_seconds": value})
