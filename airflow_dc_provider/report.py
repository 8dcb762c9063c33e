"""A verdict for Airflow: for XCom, and for the person whom a closed gate wakes at night.

Pure functions. What any reader of a verdict is told, with or without Airflow, is in ``dc_engine.reporting``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dc_engine.errors import counted, escaped
from dc_engine.lost import dependency_summary, lost_advice, lost_watched
from dc_engine.reporting import MAX_RULES_IN_DETAIL, broke, decided_line, detail_lines, quarantine_lines, retracting
from dc_engine.verdict import Verdict
from dc_engine.wording import MAX_TEXT, plain


def summary(verdict: Verdict, state: str) -> dict[str, Any]:
    """What goes to XCom: counts and the decision, never a value of the data."""
    return {
        "table": verdict.table,
        "load_id": verdict.load_id,
        "snapshot": verdict.snapshot,
        "replayed": verdict.replayed,
        "replaced": verdict.replaced,
        "discarded": verdict.discarded,
        "decision": verdict.decision,
        "decided": verdict.decided and asdict(verdict.decided),
        "rows": dict(verdict.rows),
        "constraints": {
            rule.name: {
                "new_violations": rule.new_violations,
                "removed_violations": rule.removed_violations,
                "total_violations": rule.total_violations,
                "violating_rows": rule.violating_rows,
                "passed": rule.passed,
                "severity": rule.severity,
            }
            for rule in verdict.constraints
        },
        "dependencies": dependency_summary(verdict),
        "quarantine": verdict.quarantine,
        "state": state,
        "seconds": dict(verdict.seconds),
    }


def short_message(verdict: Verdict, then: str = "The gate is closed.") -> str:
    """The failure in one line, for who sees nothing else: a notification, the end of a traceback."""
    rules = [f"{plain(one.name, 60)} ({counted(one.new_violations, 'new violation')})" for one in verdict.broken]
    rules += [f"{plain(one.text, 60)} (lost)" for one in lost_watched(verdict)]
    named = rules[:MAX_RULES_IN_DETAIL]
    more = [f"and {len(rules) - len(named):,} more"] if len(rules) > len(named) else []
    why = f" {decided_line(verdict.decided)}." if verdict.decided else ""
    return f"{broke(verdict).removesuffix('.')}: {', '.join([*named, *more])}.{why} {then}"


def closing_lines(verdict: Verdict, *, retried: bool = False) -> list[str]:
    """The last lines of a closed gate's log: the decision, and in short what to do."""
    again = "wait for the next retry" if retried else "run this task again under the same load_id"
    known = (
        "  Is it known? The load was discarded: how to let it in after all stands above."
        if verdict.discarded
        else "  Is it known? Mark this task as success, and the tasks behind it run."
    )
    return [
        f"{broke(verdict)} {_closed(retried)}",
        f"  Is the data wrong? Fix it at the source, and {again}.",
        known,
        "  Examples, where the violations are listed, and all that can be done: above.",
    ]


def violation_message(verdict: Verdict, state: str, *, retried: bool = False) -> str:
    """What is wrong, with examples, where the rest is, and what to do: all that a person needs at night."""
    lines = [f"{broke(verdict)} {_closed(retried)}", *_stored(verdict), *detail_lines(verdict)]
    apart = quarantine_lines(verdict)
    return "\n".join(lines + apart + [""] * bool(apart) + next_steps(verdict, state, retried=retried))


def warning_message(verdict: Verdict, then: str = "The gate stays open.") -> str:
    """What is wrong, although the gate does not close."""
    lines = [f"{broke(verdict)} {then}", *_stored(verdict)]
    if verdict.discarded:
        lines.append(
            "The load was discarded anyway: the state does not have its rows, so tasks behind the gate must not "
            "add them to the table. With rejected_load='keep' the state would have them."
        )
    return "\n".join([*lines, *detail_lines(verdict)])


def _stored(verdict: Verdict) -> list[str]:
    if not verdict.replayed:
        return []
    return [
        "It was applied before with the same rows: this is the stored verdict, even if rules or arguments have changed."
    ]


def _closed(retried: bool) -> str:
    return "The gate is closed: tasks behind it do not run" + (", unless a retry opens it." if retried else ".")


def next_steps(verdict: Verdict, state: str, *, retried: bool = False) -> list[str]:
    """What a person can do about a closed gate; ``retried``: whether Airflow retries it by itself."""
    retract = f"DcRetractLoadOperator(load_id={escaped(verdict.load_id)!r}, state={plain(state, MAX_TEXT)!r})"
    again = "wait for the next retry of this task" if retried else "run this task again under the same load_id"
    fix = f"  - The data is wrong: fix it at the source, and {again}."
    strict = [
        "  - The rule is too strict: give it a tolerance (max_new_violations, max_violating_rows) or severity: warn. "
        "That applies from the next load on; to have this one judged again, take it out of the state with "
        f"{retract} and run this task again."
    ]
    lost = [lost_advice(retract)] if lost_watched(verdict) else []
    strict = [*(strict if verdict.broken or not lost else ()), *lost]
    if not verdict.discarded:
        steps = [
            "What to do:",
            f"{fix} The fixed rows replace these, as if these had never been there.",
            f"  - The load should not be in the table: take it out there, and out of the state with {retract}.",
            *strict,
            "  - It is known and the DAG must go on: mark this task as success, and the tasks behind it run. The state "
            "has the rows.",
        ]
    else:
        steps = [
            "What to do (the load was discarded: the state is as it was without it):",
            fix,
            *strict,
            "  - It is known and the load must go to the table anyway: do not mark this task as success yet, or the "
            f"state will lack rows of the table. Take the load out of the state with {retract}, run this task again "
            "with rejected_load='keep', and mark it as success then.",
            *_clean_rows(verdict),
        ]
    return [*steps, "Where there is a shell, no DAG is needed to take it out:", f"  {retracting(verdict, state)}"]


def _clean_rows(verdict: Verdict) -> list[str]:
    if verdict.quarantine is None or not verdict.quarantine["clean_rows"]:
        return []
    folder = plain(verdict.quarantine["clean"], MAX_TEXT)
    return [
        "  - The clean rows should go to the table without the others: give them to a second gate as its changes, "
        f"under a load_id of their own, so that the state has them too: {folder}"
    ]
