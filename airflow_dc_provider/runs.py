"""The exchange folder of one try: the request goes in, the result comes out, and nothing stays behind.

It lies in the state's folder, the one place that Airflow's worker and Spark's driver both reach.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import fsspec

from airflow_dc_provider.exceptions import DcGateError


@dataclass(frozen=True, slots=True)
class Run:
    """The exchange folder of one try."""

    folder: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How fsspec opens the filesystem: may hold credentials."""

    @property
    def request(self) -> str:
        """The document that the job reads."""
        return f"{self.folder}/request.json"

    @property
    def result(self) -> str:
        """The document that the job leaves."""
        return f"{self.folder}/result.json"

    def write_request(self, request: Mapping[str, Any]) -> None:
        """Write what the job is asked to do."""
        filesystem, path = self._place(self.folder)
        filesystem.makedirs(path, exist_ok=True)
        filesystem.pipe_file(f"{path}/request.json", json.dumps(request).encode())

    def read_result(self) -> dict[str, Any] | None:
        """The document that the job left, or None when it left none."""
        filesystem, path = self._place(self.result)
        try:
            text = filesystem.cat_file(path)
        except FileNotFoundError:
            return None
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise DcGateError(f"The job left a result that cannot be read as a JSON object: {text[:200]!r}.")
        return document

    def remove(self) -> None:
        """Remove the folder. A failure to do so must not hide whatever happened before."""
        with suppress(Exception):
            filesystem, path = self._place(self.folder)
            filesystem.rm(path, recursive=True)

    def _place(self, uri: str) -> tuple[Any, str]:
        # A listing from before the job ran would not have its result.
        return fsspec.url_to_fs(uri, **{**self.options, "use_listings_cache": False})


@contextmanager
def exchange(state: str, request: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Iterator[Run]:
    """Write a request to an exchange folder with a name that no other try has; remove the folder at the end."""
    run = Run(f"{state.rstrip('/')}/runs/{uuid.uuid4().hex}", options or {})
    try:
        try:
            run.write_request(request)
        except Exception as error:
            # Every filesystem has its own exceptions; what a person needs to know is the same.
            raise _not_writable(state, error) from error
        yield run
    finally:
        run.remove()


def _not_writable(state: str, error: Exception) -> DcGateError:
    return DcGateError.told(
        f"The state folder {state} cannot be written: {type(error).__name__}: {error}",
        "The gate keeps its indexes there. Check that Airflow's worker and Spark may write to it (state_conn_id "
        "gives them credentials), and that the fsspec package of its filesystem (s3fs, gcsfs, adlfs ...) is installed.",
    )
