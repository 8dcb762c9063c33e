"""Data Docs through Airflow: the pages that an export task recorded, for those who may see what the task left.

A task records the folder of a Great Expectations context; pages are read only from the place below it where Great
Expectations keeps its site, and only files of the kinds that a site has. So whatever is written to XCom, no other
file of this server can be asked for.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from airflow_dc_provider.arguments import check_folder
from airflow_dc_provider.credentials import state_access
from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.pages.access import Name, ReadableDag, recorded_by
from airflow_dc_provider.pages.patience import in_time
from airflow_dc_provider.pages.recorded import SITE
from airflow_dc_provider.pages.rendering import page as rendered
from airflow_dc_provider.pages.site_pages import served
from dc_engine.errors import DcError
from dc_engine.state.storage import Storage

router = APIRouter()
MapIndex = Annotated[int, Field(ge=-1, lt=2**31)]
MOST_BYTES = 16 * 1024 * 1024
"""The largest file that is served."""
_HTML = "text/html"
# No scripts: those of the pages are not theirs.
_KINDS = {
    ".html": _HTML,
    ".css": "text/css",
    ".png": "image/png",
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".ico": "image/x-icon",
    ".otf": "font/otf",
    ".ttf": "font/ttf",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
# Great Expectations sets the look of single cells by style attributes.
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_POLICY_OF_FILES = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"
_DEPTH = 5
"""How many folders of the address are in front of a path: ``docs`` and what names the task instance."""


@dataclass(frozen=True, slots=True)
class _Site:
    """What a task recorded about its Data Docs."""

    folder: str
    docs_conn_id: str | None
    page: str

    @classmethod
    def of(cls, docs: Mapping[str, Any]) -> _Site | None:
        """Nothing, where that is not what an export task records."""
        folder, conn_id, page = (docs.get(name) for name in ("folder", "docs_conn_id", "page"))
        if not isinstance(folder, str) or not isinstance(page, str) or not isinstance(conn_id, str | None):
            return None
        return None if "\0" in folder or "::" in folder else cls(folder, conn_id, page)

    def read(self, path: str) -> bytes | None:
        """A file of the site; nothing when it is not there."""
        check_folder("folder", self.folder)
        if "://" in self.folder and not self.folder.startswith("file://"):
            return self._read_there(path)
        context = Path(os.path.realpath(self.folder.removeprefix("file://")))
        if not context.is_dir():
            raise DcGateError(f"There is no folder {self.folder} on the machine of Airflow's API server.")
        file = Path(os.path.realpath(context / SITE / path))
        if not file.is_relative_to(context / SITE) or not file.is_file():
            return None
        _check_size(file.stat().st_size)
        return file.read_bytes()

    def _read_there(self, path: str) -> bytes | None:
        storage = Storage(f"{self.folder}/{SITE}", state_access(self.docs_conn_id).options, noun="folder of Data Docs")
        storage.refuse_unknown()
        size = storage.size(path)
        if size is None:
            return None
        _check_size(size)
        return storage.read(path)


@router.get("/docs/{dag_id}/{task_id}/{run_id}/{map_index}/{path:path}")
def data_docs(
    request: Request, dag_id: ReadableDag, task_id: Name, run_id: Name, map_index: MapIndex, path: str
) -> Response:
    """A file of the Data Docs that a task wrote; without a path, the page of its run."""
    recorded = recorded_by(dag_id, task_id, run_id, map_index)
    if recorded is None:
        raise HTTPException(404, "Airflow knows no such task instance.")
    site = _Site.of(recorded.docs)
    if site is None:
        return _no_docs(request)
    if not path:
        path = _checked(site.page)
        return RedirectResponse(quote(path), 302)
    try:
        checked = _checked(path)
        content = in_time(site.folder, lambda: site.read(checked))
    except (DcError, DcGateError, OSError) as error:
        return _unreachable(request, site, error)
    if content is None:
        return _gone(request)
    kind = _KINDS[PurePosixPath(path).suffix.lower()]
    if kind != _HTML:
        headers = {"Content-Security-Policy": _POLICY_OF_FILES, "Cache-Control": "private, max-age=3600"}
        return Response(content, media_type=kind, headers=headers)
    nonce, above = secrets.token_urlsafe(16), "../" * path.count("/")
    html = served(content.decode(errors="replace"), up=above + "../" * _DEPTH, site=above, nonce=nonce)
    return Response(html, media_type=_HTML, headers={"Content-Security-Policy": _POLICY.format(nonce=nonce)})


def _checked(path: str) -> str:
    """A path that stays in its folder, and is of a kind that a site has; 404 for any other."""
    parts = path.split("/")
    is_plain = path.isprintable() and not set(path) & set("\\%*?[]")
    if not is_plain or any(part.startswith(".") or not part for part in parts):
        raise HTTPException(404, "Data Docs have no such page.")
    if PurePosixPath(path).suffix.lower() not in _KINDS:
        raise HTTPException(404, "Data Docs have no files of this kind.")
    return path


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise HTTPException(413, f"This page is larger than {MOST_BYTES // 2**20} MB, and is not shown here.")


def _no_docs(request: Request) -> Response:
    return rendered(
        request,
        "nothing.html",
        status=404,
        title="No Data Docs here",
        why="This task has recorded no page of Data Docs: it has not exported a verdict, or its Data Docs are at a "
        "place of their own.",
        what_to_do="Open Data Docs from the link of a task that exports a verdict to Great Expectations and has "
        "succeeded. Data Docs at a place of their own are found by the task's docs_url.",
    )


def _gone(request: Request) -> Response:
    return rendered(
        request,
        "nothing.html",
        status=404,
        title="This page is gone",
        why="Data Docs no longer have this page. Of each table the newest runs are kept (keep_runs, keep_days).",
        what_to_do="Clear the task that exports the verdict: it writes the page again from the stored verdict.",
    )


def _unreachable(request: Request, site: _Site, error: Exception) -> Response:
    said = getattr(error, "message", None) or str(error)
    credentials = f" with the connection '{site.docs_conn_id}'" if site.docs_conn_id else ""
    return rendered(
        request,
        "nothing.html",
        status=502,
        title="Data Docs cannot be read",
        why=f"Airflow's API server cannot read {site.folder}{credentials}: {said}",
        what_to_do="Give the API server access to that folder (a disk that it shares with the workers, or an object "
        "store), or serve Data Docs elsewhere and name their address in the task's docs_url.",
    )
