"""What Airflow makes of each verdict, by ``dag.test``: the state of the gate, and of the tasks behind it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.xdist_group("airflow")

GREEN = {"gate": "success", "publish": "success"}
RED = {"gate": "failed", "publish": "upstream_failed"}


def states(outcomes, run: str) -> dict[str, str]:
    return {name.removesuffix("[-1]"): state for name, state in outcomes[run]["tasks"].items()}


@pytest.mark.parametrize(
    ("run", "due"),
    [
        ("fail, clean", GREEN),
        ("fail, broken", RED),
        ("fail, lost", RED),
        ("warn, clean", GREEN),
        ("warn, broken", GREEN),
        ("warn, lost", RED),
        ("skip, clean", GREEN),
        ("skip, broken", {"gate": "skipped", "publish": "skipped"}),
        ("skip, lost", RED),
    ],
)
def test_a_gate_opens_closes_or_is_skipped(outcomes, run, due):
    assert states(outcomes, run) == due


@pytest.mark.parametrize(("verdict", "followed"), [("clean", "pass"), ("broken", "violated"), ("lost", "invalidated")])
def test_a_branch_follows_one_task_and_skips_the_others(outcomes, verdict, followed):
    due = {"gate": "success", "pass": "skipped", "violated": "skipped", "invalidated": "skipped"}
    assert states(outcomes, f"branch, {verdict}") == {**due, followed: "success"}
