"""Tests in a random order, to find those that need another one: ``pytest -p tests.shuffled``; SHUFFLE sets the seed."""

from __future__ import annotations

import os
import random

import pytest

_SEED = os.environ.get("SHUFFLE") or str(random.randrange(10**6))


def pytest_report_header() -> str:
    return f"shuffled: SHUFFLE={_SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in a random order, and the tests in each of them."""
    chance = random.Random(_SEED)
    files = sorted({item.path for item in items})
    chance.shuffle(files)
    order = {path: place for place, path in enumerate(files)}
    chance.shuffle(items)
    items.sort(key=lambda item: order[item.path])
