"""Taking a load out of a table's state again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dc_provider.arguments import is_open, load_name
from airflow_dc_provider.operators.base import DcStateOperator
from dc_engine.request import check_load_id

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class DcRetractLoadOperator(DcStateOperator):
    """
    Take a load out of the state: what remains is the state of a history without it.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param load_id: The load to take out. (templated)
    :param mask: Columns whose values must not appear in the log, besides those that the newest load of the state
        masks. Which these are is known only to the job, so lines of Spark are not shown, unless this is ``[]``.
        (templated)
    :param max_wait_seconds: How long to keep trying while others commit to the same state first; 0: try once.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param conn_id: The Spark connection.
    """

    template_fields: Sequence[str] = ("load_id", *DcStateOperator.template_fields)

    def __init__(self, *, load_id: str, name: str = "dc_retract_load", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.load_id = load_id
        if not is_open(load_id):
            check_load_id(load_name(load_id))

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the load out."""
        return self.run_action(context, "retract", {"load_id": load_name(self.load_id)})
