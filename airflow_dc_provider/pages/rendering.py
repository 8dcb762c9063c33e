"""Templates: every value is escaped, and none is used that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_dc_provider.pages import shown
from dc_engine.errors import counted


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("airflow_dc_provider.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(shown, name) for name in ("number", "text", "seconds", "share", "size")}
    made.globals |= {"link": link, "counted": counted}
    return made


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A page; addresses in it are relative to the folder of the pages, wherever Airflow itself is."""
    up = "../" * request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/").count("/")
    html = _environment().get_template(template).render(up=up, **values)
    return Response(html, status_code=status, media_type="text/html")


def prepare() -> None:
    """Compile the templates, which is much of what a first page costs."""
    for name in _environment().list_templates():
        _environment().get_template(name)


def link(name: str, ids: Mapping[str, Any], **more: Any) -> str:
    """The address of another page; what is no text (half a character) leads nowhere."""
    given = {**ids, **{key: value for key, value in more.items() if value is not None}}
    return f"{name}?{urlencode(given, errors='replace')}"
