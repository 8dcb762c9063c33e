"""A browser that is logged in to a running Airflow, and notes whatever happens on its pages that no one sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints.test_browser import ARGUMENTS, CHROMIUM
from tests.end_to_end.airflow_running import RunningAirflow

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium: apt-get install chromium")
_PATIENCE = 60_000
"""Milliseconds: the machine may be busy with other tests."""


class Browser:
    """Pages of one Airflow, as one user sees them."""

    def __init__(self, context: Any, url: str) -> None:
        self.context, self.url = context, url
        self.page = context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.noted: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.noted.append(f"error: {error.message}"))

    def _note(self, said: Any) -> None:
        """What Airflow's own pages say is not ours, nor is the frame; that a page does not exist, it says itself."""
        ours = "/dc/" in (said.location or {}).get("url", "") and not re.search("sandbox|status of 404", said.text)
        if ours or "Content Security Policy" in said.text:
            self.noted.append(f"{said.type}: {said.text}")

    def open(self, path: str) -> Any:
        """A page by its path below Airflow's address."""
        self.page.goto(f"{self.url}{path}")
        return self.page

    @property
    def frame(self) -> Any:
        """What Airflow shows in a tab."""
        return self.page.frame_locator("iframe")


@contextmanager
def browser(airflow: RunningAirflow, user: str, folder: Path) -> Iterator[Browser]:
    """A browser with a user's session."""
    from playwright.sync_api import sync_playwright

    airflow.request("GET", "version", user=user)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=CHROMIUM, args=ARGUMENTS, viewport={"width": 1280, "height": 900}
        )
        context.add_cookies([{"name": "_token", "value": airflow.tokens[user], "url": airflow.url}])
        yield Browser(context, airflow.url)
        context.close()
