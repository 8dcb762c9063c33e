"""What waits in the triggerer: each looks, by cheap listings in a thread, and wakes its task when there is news.

A trigger holds names and connection ids, never a credential, and nothing that it could not find out again: after a
restart of the triggerer it just looks anew.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.looks import FilesLook, PendingLook, VerdictLook, is_answer
from dc_engine.errors import DcError


class LookTrigger(BaseTrigger):
    """Looks again and again, until there is news or an error; the task is told which."""

    def __init__(self, *, poke_interval: float, **facts: Any) -> None:
        super().__init__()
        self.poke_interval = poke_interval
        self._facts = facts

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments."""
        name = type(self)
        return f"{name.__module__}.{name.__qualname__}", {**self._facts, "poke_interval": self.poke_interval}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, wait, look."""
        # In a thread of its own, which Airflow's own calls for a connection find back from.
        look = sync_to_async(self.look, thread_sensitive=False)
        while True:
            try:
                found = await look()
            except (DcError, DcGateError) as error:
                yield TriggerEvent({"error": error.message, "hint": error.hint})
                return
            if found:
                yield TriggerEvent({"error": ""})
                return
            await asyncio.sleep(self.poke_interval)

    @abstractmethod
    def look(self) -> bool:
        """Whether there is news; may block."""


class DcVerdictTrigger(LookTrigger):
    """Waits for the verdict of a load."""

    def __init__(
        self,
        *,
        state: str,
        load_id: str,
        state_conn_id: str | None,
        accept: Sequence[str],
        wait_for_pass: bool,
        poke_interval: float,
    ) -> None:
        facts = {"state": state, "load_id": load_id, "state_conn_id": state_conn_id}
        super().__init__(poke_interval=poke_interval, accept=list(accept), wait_for_pass=wait_for_pass, **facts)
        self._accept, self._wait_for_pass = accept, wait_for_pass
        self._verdict = VerdictLook(state, load_id, state_conn_id)

    def look(self) -> bool:
        """Whether there is a verdict that the task can decide by."""
        return is_answer(self._verdict(), self._accept, wait_for_pass=self._wait_for_pass)


class DcPendingLoadTrigger(LookTrigger):
    """Waits for loads that a state does not have."""

    def __init__(self, *, min_loads: int, poke_interval: float, **facts: Any) -> None:
        super().__init__(poke_interval=poke_interval, min_loads=min_loads, **facts)
        self._min_loads = min_loads
        self._pending = PendingLook(**facts)

    def look(self) -> bool:
        """Whether there are enough of them."""
        return len(self._pending(self._min_loads)) >= self._min_loads


class DcChangesTrigger(LookTrigger):
    """Waits until files have changed, and are at rest again; without a path just for a while."""

    def __init__(self, *, path: str | None, conn_id: str | None, seen: str | None, poke_interval: float) -> None:
        super().__init__(poke_interval=poke_interval, path=path, conn_id=conn_id, seen=seen)
        self._files = FilesLook(path, conn_id, seen)

    def look(self) -> bool:
        """Whether the files have changed, and not since the last look."""
        return self._files()
