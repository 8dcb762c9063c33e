"""The pages as a web application: every route is behind Airflow's authorisation, and says what may run on its page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHttpError

from airflow_dc_provider.pages import data_docs, routes, site_pages
from airflow_dc_provider.pages.access import signed_in
from airflow_dc_provider.pages.rendering import page

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STATIC = {
    "review.css": "text/css",
    "review.js": "text/javascript",
    **dict.fromkeys(site_pages.STYLES, "text/css"),
    site_pages.SCRIPT: "text/javascript",
}
_SAID = {
    401: "You are not logged in.",
    403: "You may not see this page.",
    405: "This page is only for reading.",
}
_NO_PAGE = "There is no such page."
_WHAT_TO_DO = {
    401: "Log in to Airflow, and open this page again.",
    403: "Ask for the right to read this DAG: pages show what its tasks left to those who may read its XComs.",
    404: "Go back, and open the page from a task, a DAG or the list of gates.",
    422: "Open the page from a task, a DAG or the list of gates: its address is not whole.",
}


def pages() -> FastAPI:
    """The application, to be mounted by Airflow's API server."""
    made = FastAPI(title="Data gates", docs_url=None, redoc_url=None, openapi_url=None)
    made.middleware("http")(_with_headers)
    made.add_exception_handler(AnyHttpError, _told)
    made.add_exception_handler(RequestValidationError, _told)
    made.add_exception_handler(Exception, _told)
    made.get("/static/{name}", dependencies=[Depends(signed_in)])(static)
    made.include_router(routes.router)
    made.include_router(data_docs.router)
    return made


def static(name: str) -> Response:
    """A style sheet or a script; they hold no data."""
    if name not in _STATIC:
        raise HTTPException(404, "There is no such file.")
    content = files("airflow_dc_provider.pages").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "private, max-age=3600"})


async def _with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    return _headed(await answer(request))


def _headed(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _told(request: Request, error: Exception) -> Response:
    """An error as a page that says what to do; what was not foreseen is in the server's log, not on the page."""
    status = 500
    said = "This page could not be made."
    if isinstance(error, AnyHttpError):
        status = error.status_code
        said = _SAID.get(status) or (_NO_PAGE if status == 404 and error.detail == "Not Found" else str(error.detail))
    elif isinstance(error, RequestValidationError):
        status, said = 422, "Something is missing in the address of this page, or cannot be read."
    cure = _WHAT_TO_DO.get(status, "Open the page again; if that does not help, look at the log of the API server.")
    title = HTTPStatus(status).phrase
    return _headed(page(request, "nothing.html", status=status, title=title, why=said, what_to_do=cure))
