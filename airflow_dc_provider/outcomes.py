"""What a verdict means for a task: pure functions of the verdict and of what the task was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dc_engine.verdict import Decision, Verdict

Outcome = Literal["pass", "warn", "skip", "ask", "fail"]
ON_VIOLATION = ("fail", "warn", "skip", "ask")
_OUTCOMES: dict[str, Decision] = {"fail": "fail", "warn": "warn", "ignore": "pass"}
ON_INVALIDATED = ("severity", *_OUTCOMES)


def outcome_of(verdict: Verdict, on_violation: str, on_invalidated: str | None) -> Outcome:
    """What a verdict means for the task: ``fail`` closes the gate, ``warn`` is only reported."""
    from dc_engine.verdict import worst

    if verdict.approved:
        return "pass"
    rules, lost = outcomes_of(verdict, on_invalidated)
    if rules == "fail" and on_violation == "warn":
        rules = "warn"
    if rules == "fail" and on_violation == "skip" and lost != "fail":
        return "skip"
    outcome = worst({rules, lost})
    return "ask" if outcome == "fail" and on_violation == "ask" else outcome


def outcomes_of(verdict: Verdict, on_invalidated: str | None) -> tuple[Decision, Decision]:
    """What the rules say of a load, and what the watched dependencies that it lost mean."""
    from dc_engine.verdict import worst

    rules = worst({one.outcome for one in verdict.constraints})
    lost = worst({one.outcome for one in verdict.dependencies.invalidated if one.watched})
    if worst({rules, lost}) != verdict.decision:  # for a reason that is not known here: it counts all the same
        rules = verdict.decision
    if on_invalidated not in (None, "severity") and any(one.watched for one in verdict.dependencies.invalidated):
        lost = _OUTCOMES[on_invalidated]
    return rules, lost


def lets_pass(verdict: Verdict, on_invalidated: str | None) -> bool:
    """Whether a load passed or was approved, whatever ``on_violation`` lets through besides."""
    return not verdict.discarded and outcome_of(verdict, "fail", on_invalidated) != "fail"
