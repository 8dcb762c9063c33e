"""What tasks know of the pages: what they record for them in XCom, and where these are.

Pages read no state that no task has recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

PREFIX = "dc"
"""Where the pages are, below Airflow's own address."""
STATE = "dc_state"
"""The key of the state's folder and of the connection with its credentials."""
VERDICT = "verdict"
"""The key of the verdict's summary."""
DOCS = "dc_docs"
"""The key of the folder of a Great Expectations context, the connection with its credentials, and the run's page."""
SITE = "uncommitted/data_docs/local_site"
"""Where a context has its Data Docs; the pages show them from nowhere else, whatever a task records."""

VERDICT_ROUTE = "dc-verdict"
"""The tab of a task instance, in its address."""


def record_state(context: Context, state: str, state_conn_id: str | None) -> None:
    """Tell the pages where the state is; before the job, so that one that fails is found too."""
    context["ti"].xcom_push(key=STATE, value={"state": state, "state_conn_id": state_conn_id})
