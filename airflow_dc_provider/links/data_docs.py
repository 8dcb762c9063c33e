"""The link from a task to the page of its run in Data Docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, TaskInstanceKey

DATA_DOCS = "data_docs"
"""The key under which the task pushes the page's address to XCom."""


class DataDocsLink(BaseOperatorLink):
    """The page of this run in Great Expectations' Data Docs."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address that the task pushed; empty before it ran."""
        return XCom.get_value(ti_key=ti_key, key=DATA_DOCS) or ""
