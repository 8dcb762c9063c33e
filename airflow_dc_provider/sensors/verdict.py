"""Waiting for the verdict of a load: the gate is in another DAG, or somewhere else altogether."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import PokeReturnValue

from airflow_dc_provider.arguments import check_choice, check_folder, is_open, load_name
from airflow_dc_provider.exceptions import DcViolationError
from airflow_dc_provider.links.review import VerdictLink
from airflow_dc_provider.pages.recorded import record_state
from airflow_dc_provider.sensors.base import DcSensor
from dc_engine.request import check_load_id, read_names

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context

    from airflow_dc_provider.triggers.looking import DcVerdictTrigger

_DECISIONS = ("pass", "warn", "fail")


class DcVerdictSensor(DcSensor):
    """
    Wait until a load was judged; succeed when it passed, fail when it did not.

    Also takes everything that Airflow's sensors take: ``soft_fail`` skips instead of failing, ``timeout`` says for how
    long to wait.

    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param load_id: The load to wait for. (templated)
    :param accept: The decisions with which the task succeeds: some of ``pass``, ``warn`` and ``fail``.
    :param wait_for_pass: Also wait while the load is rejected: it may be mended, or a person may approve it.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param deferrable: Wait in the triggerer and take no slot meanwhile. The default is Airflow's ``[operators]
        default_deferrable``; otherwise ``mode`` says how to wait.
    """

    template_fields: Sequence[str] = ("state", "load_id")
    operator_extra_links: ClassVar[tuple[BaseOperatorLink, ...]] = (VerdictLink(),)

    def __init__(
        self,
        *,
        state: str,
        load_id: str,
        accept: Sequence[str] = ("pass", "warn"),
        wait_for_pass: bool = False,
        state_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state = state
        self.load_id = load_id
        self.accept = (accept,) if isinstance(accept, str) else read_names("accept", accept, "decisions")
        self.wait_for_pass = wait_for_pass
        self.state_conn_id = state_conn_id
        if not self.accept:
            raise ValueError("accept is empty: no verdict would ever do. Leave it out, or name some decisions.")
        for one in self.accept:
            check_choice("accept", one, _DECISIONS)
        if not is_open(state):
            check_folder("state", state)
        if not is_open(load_id):
            check_load_id(load_name(load_id))

    def look(self, context: Context) -> PokeReturnValue:
        """Look for the verdict, and judge by it."""
        from airflow_dc_provider.brief import closed_lines
        from airflow_dc_provider.looks import VerdictLook, is_accepted, is_answer
        from airflow_dc_provider.report import summary
        from dc_engine.reporting import verdict_lines
        from dc_engine.wording import MAX_TEXT, plain

        check_folder("state", self.state)
        check_load_id(load_name(self.load_id))
        verdict = VerdictLook(self.state, str(self.load_id), self.state_conn_id)()
        if verdict is None or not is_answer(verdict, self.accept, wait_for_pass=self.wait_for_pass):
            news = "has no verdict yet" if verdict is None else "was rejected, and is waited for"
            self.log.info("Load %s %s in %s.", self.load_id, news, plain(self.state, MAX_TEXT))
            return PokeReturnValue(is_done=False)
        result = summary(verdict, self.state)
        # Before anything is raised: a failed task keeps what it has pushed.
        record_state(context, self.state, self.state_conn_id)
        context["ti"].xcom_push(key="verdict", value=result)
        for line in verdict_lines(verdict, self.state):
            self.log.info("%s", line)
        if not is_accepted(verdict, self.accept):
            message = "\n".join(closed_lines(result))
            self.log.error("%s", message)
            raise DcViolationError(message, result)
        return PokeReturnValue(is_done=True, xcom_value=result)

    def trigger(self) -> DcVerdictTrigger:
        """What waits in the triggerer."""
        from airflow_dc_provider.triggers.looking import DcVerdictTrigger

        return DcVerdictTrigger(
            state=self.state,
            load_id=str(self.load_id),
            state_conn_id=self.state_conn_id,
            accept=self.accept,
            wait_for_pass=self.wait_for_pass,
            poke_interval=self.poke_interval,
        )
