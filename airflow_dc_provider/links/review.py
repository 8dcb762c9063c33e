"""The link from a gate to its page in the Airflow UI."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from airflow_dc_provider.pages.recorded import VERDICT_ROUTE

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, TaskInstanceKey


class VerdictLink(BaseOperatorLink):
    """What the load broke and lost: the tab of the task."""

    name = "Gate verdict"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The tab of this try's task instance."""
        names = [quote(one, safe="") for one in (ti_key.dag_id, ti_key.run_id, ti_key.task_id)]
        mapped = f"/mapped/{ti_key.map_index}" if ti_key.map_index >= 0 else ""
        return f"{base_path()}/dags/{names[0]}/runs/{names[1]}/tasks/{names[2]}{mapped}/plugin/{VERDICT_ROUTE}"


def base_path() -> str:
    """The path below which Airflow itself is; empty where it is at the root."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
