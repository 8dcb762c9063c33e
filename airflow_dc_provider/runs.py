"""The exchange folder of one try: the request goes in, the result comes out, and nothing of it stays.

It lies beside the state, because that is the one place which Airflow's worker and Spark's driver both reach.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import fsspec

from airflow_dc_provider.exceptions import DcGateError


@dataclass(frozen=True, slots=True)
class Run:
    """Where one try's documents are."""

    request: str
    result: str

    def read_result(self) -> dict[str, Any] | None:
        """The document that the job left, or None when it left none."""
        try:
            with fsspec.open(self.result, "rt", encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        try:
            document = json.loads(text)
        except json.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise DcGateError(f"The job left a result that cannot be read as a JSON object: {text[:200]!r}.")
        return document


@contextmanager
def exchange(state: str, request: Mapping[str, Any]) -> Iterator[Run]:
    """Write a request beside the state, under a name that no other try has; remove the folder at the end."""
    folder = f"{state.rstrip('/')}/runs/{uuid.uuid4().hex}"
    run = Run(request=f"{folder}/request.json", result=f"{folder}/result.json")
    try:
        _write(folder, run.request, request)
        yield run
    finally:
        # Whatever happened, a leftover folder must not hide it.
        with suppress(Exception):
            filesystem, path = fsspec.url_to_fs(folder)
            filesystem.rm(path, recursive=True)


def _write(folder: str, target: str, request: Mapping[str, Any]) -> None:
    try:
        filesystem, path = fsspec.url_to_fs(folder)
        filesystem.makedirs(path, exist_ok=True)
        with fsspec.open(target, "wt", encoding="utf-8") as file:
            json.dump(request, file)
    except Exception as error:
        # Every filesystem has exceptions of its own; what a person needs to know is the same.
        state = folder.rpartition("/runs/")[0]
        raise DcGateError(
            f"The state folder {state} cannot be written: {type(error).__name__}: {error}",
            hint="The gate keeps its indexes there. Check that Airflow's worker and Spark may write to it "
            "and that the fsspec package of its filesystem (s3fs, gcsfs, adlfs ...) is installed.",
        ) from error
