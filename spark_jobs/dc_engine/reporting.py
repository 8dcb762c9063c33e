"""A verdict in words, for the log of a gate and for people at a terminal.

Pure functions from a verdict to text. Everything that comes from data passes through ``plain``, so that no
value can forge a line of the log. How values are written is in ``wording``, dependencies are in ``lost``.
"""

from __future__ import annotations

import shlex

from dc_engine.constraints.model import Tolerance
from dc_engine.errors import counted
from dc_engine.lost import dependency_lines, lost_detail_lines, lost_of, lost_watched
from dc_engine.verdict import ConstraintVerdict, Decided, Verdict
from dc_engine.wording import MAX_TEXT, align, example_lines, plain, row_name

MAX_RULES_IN_TABLE = 40
MAX_RULES_IN_DETAIL = 5
MAX_EXAMPLES = 2
MAX_WORST_ROWS = 3


def verdict_lines(verdict: Verdict, state: str) -> list[str]:
    """The verdict for the log: notes, where rows went, dependencies; then facts and a table of the rules.

    Airflow's log page opens at its end, so what matters most stands last.
    """
    lines = [f"Note: {plain(note, MAX_TEXT)}" for note in verdict.notes]
    lines += [*quarantine_lines(verdict), *dependency_lines(verdict), facts_line(verdict, state), *rule_table(verdict)]
    return [*lines, decided_line(verdict.decided)] if verdict.decided else lines


def decided_line(decided: Decided) -> str:
    """Who decided about a load, when and why: ``Approved by Ada at 2026-01-03T04:05:06+00:00: a known typo``."""
    who = f"{decided.answer.capitalize()} by {plain(decided.by, MAX_TEXT)}"
    if not decided.by:
        who = f"{decided.answer.capitalize()}, because nobody answered in time,"
    why = f": {plain(decided.reason, MAX_TEXT)}" if decided.reason else ""
    return f"{who} at {plain(decided.at, MAX_TEXT)}{why}"


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


def broke(verdict: Verdict) -> str:
    """``Load 2026-01-01 of table tax broke 1 of 3 rules.``"""
    load = f"Load {plain(verdict.load_id, MAX_TEXT)} of table {plain(verdict.table, MAX_TEXT)}"
    lost = [f"lost {lost_of(verdict)}"] if lost_watched(verdict) else []
    broke = [f"broke {len(verdict.broken):,} of {counted(len(verdict.constraints), 'rule')}"]
    return f"{load} {' and '.join([*(broke if verdict.broken or not lost else ()), *lost])}."


def retracting(verdict: Verdict, state: str) -> str:
    """The command that takes the load out."""
    name, of = verdict.load_id, ["--state", state]
    words = [*of, "--", name] if name.startswith("-") else [name, *of]  # else it would be read as an option
    return plain(shlex.join(["dcgate", "retract", *words]), MAX_TEXT)


def detail_lines(verdict: Verdict) -> list[str]:
    """What was broken and lost, each with examples."""
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
