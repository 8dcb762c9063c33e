"""A verdict in words: for the log, for XCom, and for the person whom a closed gate wakes at night.

Pure functions from a verdict to text. Everything that comes from data passes through ``plain``, so that no
value can forge a line of the log. How values are written is in ``wording``, dependencies are in ``lost``.
"""

from __future__ import annotations

from typing import Any

from airflow_dc_provider.lost import (
    dependency_lines,
    dependency_summary,
    lost_advice,
    lost_detail_lines,
    lost_of,
    lost_watched,
)
from airflow_dc_provider.wording import MAX_TEXT, align, example_lines, plain, row_name
from dc_engine.constraints.model import Tolerance
from dc_engine.errors import counted, escaped
from dc_engine.verdict import ConstraintVerdict, Verdict

MAX_RULES_IN_TABLE = 40
MAX_RULES_IN_DETAIL = 5
MAX_EXAMPLES = 2
MAX_WORST_ROWS = 3


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


def verdict_lines(verdict: Verdict, state: str) -> list[str]:
    """The verdict for the log: one line of facts, a table of the rules, dependencies, where rows went, and notes."""
    lines = [facts_line(verdict, state), *rule_table(verdict), *dependency_lines(verdict), *quarantine_lines(verdict)]
    lines += [f"Note: {plain(note, MAX_TEXT)}" for note in verdict.notes]
    return lines


def facts_line(verdict: Verdict, state: str) -> str:
    """Load, decision, rows, snapshot, time."""
    rows = verdict.rows
    changed = [f"{rows.get('inserted', 0):,} inserted"]
    for name, words in (
        ("deleted", "deleted"),
        ("missing_deletes", "to delete not found"),
        ("replaced_keys", "replaced by key"),
    ):
        if rows.get(name):
            changed.append(f"{rows[name]:,} {words}")
    facts = [
        f"Load {plain(verdict.load_id, MAX_TEXT)} of table {plain(verdict.table, MAX_TEXT)}: "
        f"{verdict.decision.upper()}",
        f"rows: {', '.join(changed)}, {rows.get('total', 0):,} in all",
        f"snapshot {verdict.snapshot} of {plain(state, MAX_TEXT)}",
    ]
    if verdict.replaced:
        facts.append("it replaces an earlier attempt with other rows")
    if verdict.discarded:
        facts.append("discarded: its rows are not in the state")
    if verdict.replayed:
        facts.append("applied before with the same rows: this is the stored verdict")
    elif "total" in verdict.seconds:
        facts.append(f"{verdict.seconds['total']:.1f} s")
    return "; ".join(facts)


def rule_table(verdict: Verdict) -> list[str]:
    """One line per rule, broken ones first."""
    clean = [rule for rule in verdict.constraints if rule.passed]
    ordered = verdict.broken + sorted(clean, key=lambda rule: -rule.new_violations)
    if not ordered:
        return []
    counts = {"new": "new_violations", "removed": "removed_violations"}
    if not any(rule.removed_violations for rule in ordered):
        del counts["removed"]
    counts |= {"total": "total_violations", "violating rows": "violating_rows"}
    cells = [["rule", "severity", *counts, "decision"]]
    for rule in ordered[:MAX_RULES_IN_TABLE]:
        decision = "pass" if rule.passed else ("FAIL" if rule.severity == "error" else "WARN")
        numbers = (f"{getattr(rule, name):,}" for name in counts.values())
        cells.append([plain(rule.name, 60), rule.severity, *numbers, decision])
    lines = align(cells, right=range(2, 2 + len(counts)))
    if len(ordered) > MAX_RULES_IN_TABLE:
        rest = ordered[MAX_RULES_IN_TABLE:]
        broken = sum(not rule.passed for rule in rest)
        lines.append(f"... and {counted(len(rest), 'more rule')}, {broken:,} of them broken")
    return lines


def quarantine_lines(verdict: Verdict) -> list[str]:
    """Where the load's rows were quarantined, if they were."""
    if verdict.quarantine is None:
        return []
    return [
        f"Quarantine: {counted(verdict.quarantine[f'{part}_rows'], f'{part} row')} (Parquet) in "
        f"{plain(verdict.quarantine[part], MAX_TEXT)}"
        for part in ("violating", "clean")
    ]


def violation_message(verdict: Verdict, state: str, *, retried: bool = False) -> str:
    """What is wrong, with examples, where the rest is, and what to do: all that a person needs at night."""
    closed = "The gate is closed: tasks behind it do not run" + (", unless a retry opens it." if retried else ".")
    lines = [f"{_broke(verdict)} {closed}", *_stored(verdict), *_detail_lines(verdict)]
    apart = quarantine_lines(verdict)
    return "\n".join(lines + apart + [""] * bool(apart) + next_steps(verdict, state, retried=retried))


def warning_message(verdict: Verdict) -> str:
    """What is wrong, although the gate stays open."""
    lines = [f"{_broke(verdict)} The gate stays open.", *_stored(verdict)]
    if verdict.discarded:
        lines.append(
            "The load was discarded anyway: the state does not have its rows, so tasks behind the gate must not "
            "add them to the table. With rejected_load='keep' the state would have them."
        )
    return "\n".join([*lines, *_detail_lines(verdict)])


def _stored(verdict: Verdict) -> list[str]:
    if not verdict.replayed:
        return []
    return [
        "It was applied before with the same rows: this is the stored verdict, even if rules or arguments have changed."
    ]


def _broke(verdict: Verdict) -> str:
    load = f"Load {plain(verdict.load_id, MAX_TEXT)} of table {plain(verdict.table, MAX_TEXT)}"
    lost = [f"lost {lost_of(verdict)}"] if lost_watched(verdict) else []
    broke = [f"broke {len(verdict.broken):,} of {counted(len(verdict.constraints), 'rule')}"]
    return f"{load} {' and '.join([*(broke if verdict.broken or not lost else ()), *lost])}."


def _detail_lines(verdict: Verdict) -> list[str]:
    broken = verdict.broken
    lines = [""]
    for rule in broken[:MAX_RULES_IN_DETAIL]:
        lines += [*broken_rule_lines(rule, verdict.rows.get("inserted", 0)), ""]
    if len(broken) > MAX_RULES_IN_DETAIL:
        names = ", ".join(plain(rule.name) for rule in broken[MAX_RULES_IN_DETAIL:MAX_RULES_IN_TABLE])
        lines += [f"Also broken (counts in the table above and in XCom): {names}", ""]
    return [*lines, *lost_detail_lines(verdict)]


def broken_rule_lines(rule: ConstraintVerdict, load_rows: int) -> list[str]:
    """One broken rule: what it says, how badly it is broken, the worst of it, where the rest is."""
    lines = [
        f"{plain(rule.name, 60)} ({rule.severity}): {counted(rule.new_violations, 'new violation')} by "
        f"{rule.violating_rows:,} of the load's {counted(load_rows, 'row')}; tolerated: {tolerated(rule.tolerance)}",
    ]
    if rule.description:
        lines.append(f"  {plain(rule.description, MAX_TEXT)}")
    lines.append(f"  {plain(rule.formula, MAX_TEXT)}")
    if rule.worst_rows:
        worst = (
            f"{row_name(one.get('row'))} ({counted(one['violations'], 'violation')})"
            for one in rule.worst_rows[:MAX_WORST_ROWS]
        )
        lines.append(f"  worst rows: {'; '.join(worst)}")
    for number, sample in enumerate(rule.samples[:MAX_EXAMPLES], start=1):
        lines += [f"  {line}" for line in example_lines(sample, f"example {number}")]
    if rule.violations:
        lines.append(f"  violations (Parquet): {plain(rule.violations, MAX_TEXT)}")
    if rule.violating_rows_listed:
        first, *more = rule.violating_rows_listed
        others = f" and {counted(len(more), 'more file')}" if more else ""
        lines.append(f"  violating rows (Parquet): {plain(first, MAX_TEXT)}{others}")
    return lines


def tolerated(tolerance: Tolerance) -> str:
    """A tolerance in words."""
    ((name, value),) = tolerance.written.items()
    if isinstance(value, str):
        return f"violations by {value} of the load's rows"
    return counted(value, "new violation" if name == "max_new_violations" else "violating row")


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
        return [
            "What to do:",
            f"{fix} The fixed rows replace these, as if these had never been there.",
            f"  - The load should not be in the table: take it out there, and out of the state with {retract}.",
            *strict,
            "  - It is known and the DAG must go on: mark this task as success, and the tasks behind it run. The state "
            "has the rows.",
        ]
    return [
        "What to do (the load was discarded: the state is as it was without it):",
        fix,
        *strict,
        "  - It is known and the load must go to the table anyway: do not mark this task as success yet, or the state "
        f"will lack rows of the table. Take the load out of the state with {retract}, run this task again with "
        "rejected_load='keep', and mark it as success then.",
        *_clean_rows(verdict),
    ]


def _clean_rows(verdict: Verdict) -> list[str]:
    if verdict.quarantine is None or not verdict.quarantine["clean_rows"]:
        return []
    folder = plain(verdict.quarantine["clean"], MAX_TEXT)
    return [
        "  - The clean rows should go to the table without the others: give them to a second gate as its changes, "
        f"under a load_id of their own, so that the state has them too: {folder}"
    ]
