"""Dependencies in words and tables, for people at a terminal or in front of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dc_engine.errors import counted
from dc_engine.wording import MAX_TEXT, plain

BEST = 10
"""So many are shown."""
_WIDTH = 110


def best_lines(dependencies: Sequence[Mapping[str, Any]]) -> list[str]:
    """The best dependencies, one a line, with the pairs of rows that could have violated each."""
    if not dependencies:
        return []
    shown = dependencies[:BEST]
    supports = ["?" if one["support"] is None else f"{one['support']:,}" for one in shown]
    width = max(map(len, [*supports, "support"]))
    kinds = max(len(one["class"]) for one in shown)
    lines = [f"rank  {'support'.rjust(width)}  {'class'.ljust(max(kinds, 5))}  dependency"]
    for one, support in zip(shown, supports, strict=True):
        text = plain(one["text"], _WIDTH) + _implied(one["implies"])
        lines.append(f"{one['rank']:>4}  {support.rjust(width)}  {one['class'].ljust(max(kinds, 5))}  {text}")
    if len(dependencies) > BEST:
        lines.append(f"... and {len(dependencies) - BEST:,} more")
    return lines


def _implied(others: Sequence[Mapping[str, Any]]) -> str:
    """What follows from a dependency, in brackets: the best of it."""
    if not others:
        return ""
    more = " and others" if len(others) > 1 else ""
    return f" (implies {plain(others[0]['text'], _WIDTH)}{more})"


def number_lines(valid: Mapping[str, int], because: str, mode: str) -> list[str]:
    """How many hold, by class, whether these are all, and how they are known."""
    numbers = ", ".join(f"{number:,} {name}" for name, number in valid.items())
    whether = f"not complete: {because}" if because else "complete"
    return [f"{counted(sum(valid.values()), 'dependency', 'dependencies')} ({numbers}), {whether}; patterns {mode}"]


def space_lines(space: Mapping[str, Any]) -> list[str]:
    """What was looked at: columns, which of them have an order, what is left out and why."""
    ordered, lines = set(space["ordered"]), []
    for title, by_order in (("compared by order", True), ("by equality", False)):
        if names := [name for name in space["columns"] if (name in ordered) == by_order]:
            lines.append(f"{title}: {plain(', '.join(names), MAX_TEXT)}")
    if space["cross"]:
        pairs = ", ".join(f"{one['left']} with {one['right']}" for one in space["cross"])
        lines.append(f"across columns: {plain(pairs, MAX_TEXT)}")
    lines.append(f"NULLs: {'equal each other' if space['nulls'] == 'equal' else 'compare with nothing'}")
    if "od" in space["classes"]:
        lines.append("in class od all columns are compared by order, NULLs being the first values")
    for name, reason in space["left_out"].items():
        lines.append(f"left out: {plain(name, MAX_TEXT)}: {plain(reason, MAX_TEXT)}")
    return lines


def answer_lines(answer: Mapping[str, Any]) -> list[str]:
    """The answer of a discovery."""
    dependencies = answer["dependencies"]
    valid = {name: sum(one["class"] == name for one in dependencies) for name in answer["space"]["classes"]}
    return [
        f"{counted(answer['rows'], 'row')}, {answer['seconds']['total']:.1f} s",
        *number_lines(valid, answer["because"], answer["mode"]),
        *space_lines(answer["space"]),
        *map(_order_line, answer.get("orders", ())),
        *(["", *best_lines(dependencies)] if dependencies else []),
    ]


def _order_line(order: Mapping[str, Any]) -> str:
    """Whether an order of lists holds, and which parts of it do not."""
    failing = [one["text"] for one in order["parts"] if not one["holds"]]
    holds = f"does not hold: {plain('; '.join(failing), MAX_TEXT)}" if failing else "holds"
    return f"order {plain(order['text'], MAX_TEXT)}: {holds}"
