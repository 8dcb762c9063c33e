"""Triggers in tests: made again as the triggerer makes them, and run for real."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any


def again(trigger: Any) -> Any:
    """The trigger as another triggerer makes it, from what Airflow keeps of it."""
    path, facts = trigger.serialize()
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)(**json.loads(json.dumps(facts)))


async def event_of(trigger: Any) -> Any:
    """What it says in the end."""
    async for event in trigger.run():
        return event.payload
    raise AssertionError("a trigger that says nothing")
