"""Maintain a table's state: compact, clean up, check, rebuild, describe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_dc_provider.arguments import check_choice, settled
from airflow_dc_provider.exceptions import DcStateError
from airflow_dc_provider.operators.base import DcStateOperator
from dc_engine.request import read_source

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

ACTIONS = ("compact", "vacuum", "verify", "rebuild", "describe")
_READS_THE_TABLE = ("verify", "rebuild")
_MAX_PROBLEMS = 40


class DcMaintainOperator(DcStateOperator):
    """
    Maintain a table's state.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param action: ``compact`` (fewer, larger files), ``vacuum`` (remove what no kept snapshot needs), ``verify``
        (check every file, the violations, and with ``table`` the rows; fails when the state is not sound),
        ``rebuild`` (make new indexes) or ``describe``.
    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param table: Where the whole table is, in the form of a gate's ``changes``; for ``verify`` and ``rebuild``.
        (templated)
    :param totals: Whether ``verify`` recounts all violations, which takes about as long as checking
        the whole table as one load; without it only files and rows are checked.
    :param keep_snapshots: How many snapshots ``vacuum`` keeps.
    :param grace_hours: How old a file must be for ``vacuum`` to remove it: a younger one may be a running load's.
    :param mask: Columns whose values must not appear in the log, besides those that the newest load of the state
        masks. Which these are is known only to the job, so lines of Spark are not shown, unless this is ``[]``.
        (templated)
    :param max_wait_seconds: How long to keep trying while others commit to the same state first; 0: try once.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param conn_id: The Spark connection.
    """

    template_fields: Sequence[str] = ("table", *DcStateOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"table": "json"}

    def __init__(
        self,
        *,
        action: str,
        table: Mapping[str, Any] | None = None,
        totals: bool = True,
        keep_snapshots: int = 10,
        grace_hours: float = 24,
        name: str = "dc_maintain",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.action = action
        self.table = table
        self.totals = totals
        self.keep_snapshots = keep_snapshots
        self.grace_hours = grace_hours
        check_choice("action", action, ACTIONS)
        if table is not None:
            if action not in _READS_THE_TABLE:
                raise ValueError(f"'{action}' reads no table: leave 'table' out, or use one of {_READS_THE_TABLE}.")
            read_source("table", settled(table))
        if not isinstance(keep_snapshots, int) or keep_snapshots < 1:
            raise ValueError(f"keep_snapshots is {keep_snapshots!r}, and must be a whole number of at least 1.")
        if not isinstance(grace_hours, int | float) or not 0 <= grace_hours < math.inf:
            raise ValueError(f"grace_hours is {grace_hours!r}, and must be a number of at least 0.")

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the action, and fail when a verified state is not sound."""
        result = self.run_action(context, self.action, self._details())
        if result.get("sound", True):
            return result
        # Before it is raised: a failed task keeps what it has pushed.
        context["ti"].xcom_push(key="result", value=result)
        message = unsound(self.state, result["problems"])
        self.log.error("%s", message)
        raise DcStateError(message, result["problems"])

    def _details(self) -> dict[str, Any]:
        if self.action == "vacuum":
            return {"keep_snapshots": self.keep_snapshots, "grace_hours": self.grace_hours}
        details = {"table": self.table} if self.action in _READS_THE_TABLE else {}
        return {**details, "totals": self.totals} if self.action == "verify" else details


def unsound(state: str, problems: Sequence[str]) -> str:
    """What is wrong with a state, and what to do about it."""
    from dc_engine.errors import counted
    from dc_engine.wording import MAX_TEXT, plain

    rest = len(problems) - _MAX_PROBLEMS
    return "\n".join(
        [
            f"The state {plain(state, MAX_TEXT)} is not sound: {counted(len(problems), 'problem')}.",
            *(f"  - {plain(problem, MAX_TEXT)}" for problem in problems[:_MAX_PROBLEMS]),
            *([f"  - and {counted(rest, 'more problem')}, all of them in XCom"] if rest > 0 else []),
            "What to do: restore the files that are named from a copy, if there is one: no file ever changes. "
            "Otherwise DcMaintainOperator(action='rebuild', ...) makes new indexes, with table= from the table.",
        ]
    )
