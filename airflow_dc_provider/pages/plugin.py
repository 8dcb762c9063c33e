"""The pages as a plugin of Airflow. Every Airflow process imports it: what pages need comes with the first."""

from __future__ import annotations

from asyncio import to_thread
from functools import cache
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


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request."""
    await (await to_thread(_pages))(scope, receive, send)  # imports take seconds, for which Airflow goes on


class DcPagesPlugin(AirflowPlugin):
    """A tab on every task instance and DAG, and an entry in the navigation."""

    name = "airflow_dc_provider"
    fastapi_apps: ClassVar[list[Any]] = [{"app": app, "url_prefix": f"/{PREFIX}", "name": "Data gates"}]
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
