"""The link from a task to the page of its run in Data Docs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

from airflow_dc_provider.pages.recorded import DOCS, PREFIX

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, TaskInstanceKey

DATA_DOCS = "data_docs"
"""The key under which the task pushes the page's address to XCom."""


class DataDocsLink(BaseOperatorLink):
    """The page of this run in Great Expectations' Data Docs."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address that the task pushed if browsers can open it, otherwise Airflow's own page; empty before it ran.

        Airflow's UI drops links that are not of the web. It resolves relative ones against its own address, so they
        are right below a base path too.
        """
        address = XCom.get_value(ti_key=ti_key, key=DATA_DOCS) or ""
        if address.startswith(("http://", "https://")) or not XCom.get_value(ti_key=ti_key, key=DOCS):
            return address
        names = (ti_key.dag_id, ti_key.task_id, ti_key.run_id, str(ti_key.map_index))
        return f"{PREFIX}/docs/{'/'.join(quote(name, safe='') for name in names)}/"
