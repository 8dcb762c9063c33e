"""A closed gate in a few lines, from the summary that is in XCom: counts and names, never a value of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_engine.errors import counted
from dc_engine.wording import MAX_TEXT, align, plain

_MOST_RULES = 10
_NAME = 60


def closed_lines(summary: Mapping[str, Any]) -> list[str]:
    """What a load broke and lost, the worst first."""
    rules = summary.get("constraints") or {}
    broken = sorted(
        ((name, facts) for name, facts in rules.items() if not facts["passed"]),
        key=lambda one: (one[1]["severity"] != "error", -one[1]["new_violations"]),
    )
    lost = [one for one in (summary.get("dependencies") or {}).get("invalidated", ()) if one.get("watched")]
    did = [f"broke {len(broken):,} of {counted(len(rules), 'rule')}"] if broken or not lost else []
    did += [f"lost {counted(len(lost), 'watched dependency', 'watched dependencies')}"] if lost else []
    lines = [f"Load {_of(summary, 'load_id')} of table {_of(summary, 'table')} {' and '.join(did)}."]
    if broken:
        lines += align(
            [
                ["rule", "severity", "new violations", "violating rows"],
                *(
                    [plain(name, _NAME), *(f"{facts[one]:,}" if one != "severity" else facts[one] for one in _COLUMNS)]
                    for name, facts in broken[:_MOST_RULES]
                ),
            ],
            right=(2, 3),
        )
        lines += _more(len(broken), "broken rule")
    lines += [f"lost: {plain(one['text'], _NAME)} ({one['severity']})" for one in lost[:_MOST_RULES]]
    lines += _more(len(lost), "lost dependency", "lost dependencies")
    if summary.get("discarded"):
        lines.append("The load was discarded: the state does not have its rows.")
    return [*lines, f"State: {_of(summary, 'state')}, snapshot {plain(summary.get('snapshot'))}"]


_COLUMNS = ("severity", "new_violations", "violating_rows")


def _of(summary: Mapping[str, Any], name: str) -> str:
    return plain(summary.get(name), MAX_TEXT)


def _more(number: int, thing: str, things: str = "") -> list[str]:
    rest = number - _MOST_RULES
    return [f"... and {counted(rest, f'more {thing}', f'more {things}' if things else '')}"] if rest > 0 else []
