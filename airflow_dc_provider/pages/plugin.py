"""The pages as a plugin of Airflow. Every Airflow process imports it: what pages need, only the API server does."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, cached_property
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from airflow_dc_provider.pages.recorded import PREFIX, VERDICT_ROUTE

if TYPE_CHECKING:
    from fastapi import FastAPI

_OF_DAG = "dag_id={DAG_ID}"
_OF_TASK = f"{_OF_DAG}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}"


@cache
def _pages() -> FastAPI:
    from airflow_dc_provider.pages.app import pages

    return pages()


def _prepare() -> None:
    """Import all that pages need: the first one would take seconds otherwise."""
    import gc

    from airflow_dc_provider.pages.rendering import prepare as prepare_templates
    from dc_engine.reviewing import prepare as prepare_reading

    _pages()
    prepare_templates()
    prepare_reading()
    gc.collect()  # or it looks through all that was imported while the first large page is made: 0.2 s


@asynccontextmanager
async def _prepared(_: FastAPI) -> AsyncIterator[None]:
    """Airflow's server has started: from now on it answers, and a thread makes ready what the first page needs.

    Of no lower priority than others: while it has Python's lock, they wait for it.
    """
    Thread(target=_prepare, name="dc-pages", daemon=True).start()
    yield


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request, the first ones as soon as all is imported; Airflow goes on meanwhile."""
    await (await to_thread(_pages))(scope, receive, send)


class DcPagesPlugin(AirflowPlugin):
    """A tab on every task instance and DAG, and an entry in the navigation."""

    name = "airflow_dc_provider"
    # Addresses are relative, so that they are right below a base path too.
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Gate verdict",
            "href": f"{PREFIX}/verdict?{_OF_TASK}",
            "destination": "task_instance",
            "url_route": VERDICT_ROUTE,
        },
        {"name": "Gates", "href": f"{PREFIX}/dag?{_OF_DAG}", "destination": "dag", "url_route": "dc-history"},
        {"name": "Data gates", "href": f"{PREFIX}/gates", "destination": "nav", "url_route": "dc-gates"},
    ]

    @cached_property
    def fastapi_apps(self) -> list[Any]:
        """The pages, behind an application that is there at once; only an API server asks for them."""
        from fastapi import FastAPI

        # Airflow's server tells applications of FastAPI, and no others, that it has started.
        front = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_prepared)
        front.mount("/", _answer)
        return [{"app": front, "url_prefix": f"/{PREFIX}", "name": "Data gates"}]
