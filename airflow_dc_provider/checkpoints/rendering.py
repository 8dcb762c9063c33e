"""How the expectations are shown: in Data Docs, in Great Expectations' atomic form, and as text.

Everything that comes from data passes through ``plain`` (one line, cut) and becomes a parameter of a template, never
a part of one: Great Expectations escapes parameters, once, and does not look for parameters in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from great_expectations.render import RenderedStringTemplateContent, RenderedTableContent
from great_expectations.render.renderer_configuration import RendererValueType

from airflow_dc_provider.checkpoints.batch import is_own
from dc_engine.errors import counted
from dc_engine.reporting import decided_line
from dc_engine.verdict import Decided
from dc_engine.wording import MAX_TEXT, plain, row_name

WHAT_IS_JUDGED = (
    "This judges the verdict that the gate stored for this load. Running the checkpoint again judges that verdict "
    "again, without looking at the table."
)
Pieces = Sequence[tuple[str, str]]
"""Texts, each with the style it is shown in."""
_MAX_PIECE = 4 * MAX_TEXT
_MAX_LOAD = 100
_STYLES: dict[str, dict[str, Any]] = {
    "name": {"tag": "strong", "classes": ["mr-2"]},
    "badge": {"classes": ["badge", "badge-warning"]},
    "sentence": {"classes": ["d-block"]},
    "formula": {"tag": "code", "classes": ["d-block"]},
    "plain": {"tag": "small", "classes": ["d-block", "text-muted"]},
    "note": {"classes": ["d-block", "alert", "alert-info", "px-2", "py-1", "mt-2", "mb-0"]},
    "fact": {"tag": "strong", "classes": ["d-block"]},
    "problem": {"tag": "strong", "classes": ["d-block", "mt-2", "text-danger"]},
    "column": {"tag": "small", "classes": ["d-block", "px-1", "text-muted"]},
    "value": {},
    "differs": {"tag": "strong"},
}
_TABLE = {"body": {"classes": ["table", "table-bordered", "table-sm", "w-auto", "mt-2", "mb-0"]}}
_PARTED = {"border-left": "3px solid #adb5bd"}
_MAX_UNBROKEN = 24


def counts(rule: Mapping[str, Any], load_rows: int) -> list[str]:
    """What a load did to a rule."""
    return [
        counted(rule["new_violations"], "new violation"),
        f"by {rule['violating_rows']:,} of the load's {counted(load_rows, 'row')}",
        f"{rule['removed_violations']:,} removed",
        f"{rule['total_violations']:,} in all",
    ]


def run_facts(run: Mapping[str, Any]) -> list[str]:
    """What was decided, over how many rules and rows."""
    inserted, deleted, total = (run.get("rows", {}).get(name, 0) for name in ("inserted", "deleted", "total"))
    watched = run.get("dependencies", 0)
    dependencies = f", {counted(watched, 'watched dependency', 'watched dependencies')}" if watched else ""
    facts = [
        f"{counted(run.get('constraints', 0), 'rule')}{dependencies}, decision {run.get('decision')}",
        f"rows: {inserted:,} inserted, {deleted:,} deleted, {total:,} in all",
    ]
    if run.get("replaced"):
        facts.append("it replaced an earlier attempt")
    if run.get("discarded"):
        facts.append("discarded: its rows are not in the state")
    if decided := run.get("decided"):
        known: dict[str, Any] = {name: str(decided.get(name, "")) for name in Decided.__slots__}
        facts.append(decided_line(Decided(**known)))
    return facts


def where(run: Mapping[str, Any]) -> str:
    """Which load, which snapshot."""
    return f"load {plain(run.get('load_id'), _MAX_LOAD)}, snapshot {run.get('snapshot')}"


def atomic(configuration: Any, pieces: Pieces) -> Any:
    """The pieces as one template with parameters."""
    shown = _named(pieces)
    for name, (_, text) in shown.items():
        configuration.add_param(name=name, param_type=RendererValueType.STRING, value=text)
    configuration.template_str = _template(shown)
    return configuration


def prescription(pieces: Pieces) -> list[RenderedStringTemplateContent]:
    """What is expected, as one block: a list of expectations turns each block into an item."""
    return [_block(pieces)]


def observed(result: Any) -> Any:
    """What was found, with the load and the snapshot."""
    details = result.result.get("details")
    if details is None:
        return "--"
    first, *more = details.get("facts") or [result.result["observed_value"]]
    pieces = [("fact", first), *(("sentence", fact) for fact in more), ("plain", where(details))]
    return _block(pieces, own={"min-width": "11em"})


def statement(result: Any) -> list[RenderedStringTemplateContent]:
    """Why it failed, the worst rows, where the rest is, and other notes."""
    details = result.result.get("details")
    if details is None:
        raised = _exception(result.exception_info)
        return [_block([("problem", f"It could not be judged: {raised}")])] if raised else []
    pieces = [("problem", details["problem"] or "")]
    if details.get("worst_rows"):
        worst = (f"{row_name(one['row'])} ({counted(one['violations'], 'violation')})" for one in details["worst_rows"])
        pieces.append(("plain", f"Worst rows: {'; '.join(worst)}"))
    if details.get("skipped_null_rows"):
        pieces.append(("plain", f"Skipped because of a NULL: {counted(details['skipped_null_rows'], 'row')}"))
    if details.get("violations"):
        pieces.append(("plain", f"Violations (Parquet): {plain(details['violations'], MAX_TEXT)}"))
    pieces += [("sentence", f"Note: {plain(note, MAX_TEXT)}") for note in details.get("notes") or ()]
    return [_block(pieces)] if any(text for _, text in pieces) else []


def packed(samples: Sequence[Mapping[str, Any]]) -> str:
    """Examples as results keep them: as one text, because results sort names and are slow when deeply nested."""
    return json.dumps([{side: _listed(one) for side, one in sample.items() if one} for sample in samples])


def examples(result: Any) -> list[RenderedTableContent] | None:
    """The example violations: one line each, the two rows side by side, differences in bold."""
    samples = json.loads((result.result.get("details") or {}).get("samples", "[]"))
    if not samples:
        return None
    sides = [side for side in ("t", "s") if any(side in one for one in samples)]
    alike = any(row["rows"] > 1 for one in samples for row in one.values())
    header: list[Any] = []
    table: list[list[Any]] = [[] for _ in samples]
    for side in sides:
        rows = [one[side] for one in samples if side in one]
        columns = list(dict.fromkeys(name for row in rows for name, _ in (*row["row"], *row["values"])))
        titles = [f"{side}.{plain(column)}" for column in columns] + [f"rows like {side}"] * alike
        header += [_cell(("column", title)) for title in titles]
        for line, one in zip(table, samples, strict=True):
            first, *more = _row(one, side, columns)[: len(titles)]
            line += [_cell(first, parted=bool(line)), *map(_cell, more)]
    about = ": the rows t and s of a violation side by side, differences in bold" if len(sides) > 1 else ""
    title = _block([("plain", f"{counted(len(samples), 'example')}{about}")])
    return [RenderedTableContent(header=title, header_row=header, table=table, styling=_TABLE)]


def text_lines(results: Sequence[Any]) -> list[str]:
    """Validation results for a terminal or a log: what was expected, what was found, why it failed."""
    lines = []
    for result in results:
        config, details = result.expectation_config, result.result.get("details")
        if details is not None:
            name = config.kwargs.get("constraint") or _of_dependency(config.kwargs) or "the verdict"
            mark = "ok  " if result.success else "FAIL"
            lines.append(f"{mark} {plain(name, 60)}: {result.result['observed_value']}")
            if details["problem"]:
                lines.append(f"     {plain(details['problem'], MAX_TEXT)}")
        elif not result.success and (not is_own(config) or _exception(result.exception_info)):
            said = _exception(result.exception_info) or result.result.get("observed_value", "it does not hold")
            lines.append(f"FAIL {config.type}: {plain(said, MAX_TEXT)}")
    return lines


def _of_dependency(kwargs: Mapping[str, Any]) -> str | None:
    """What people call a dependency: its text."""
    return kwargs.get("sentence") or kwargs.get("dependency") if "dependency" in kwargs else None


def _exception(info: Mapping[str, Any]) -> str:
    """What was raised, here or by metrics; Great Expectations itself would show it without escaping it."""
    all_info = [info] if "raised_exception" in info else list(info.values())
    raised = (str(one.get("exception_message")) for one in all_info if one.get("raised_exception"))
    return "; ".join(dict.fromkeys(raised))


def _listed(row: Mapping[str, Any]) -> dict[str, Any]:
    parts = {part: list((row.get(part) or {}).items()) for part in ("row", "values")}
    return {**parts, "rows": row.get("rows") or 1}


def _row(sample: Mapping[str, Any], side: str, columns: Sequence[str]) -> list[tuple[str, str]]:
    """One row of an example, and how many are like it; values that the rule reads may differ, keys always do."""
    row = sample.get(side, {"row": [], "values": [], "rows": 0})
    shown, read = dict([*row["row"], *row["values"]]), dict(row["values"])
    others = [dict(one["values"]) for one in sample.values()]
    differing = {name for name in read if any(name in one and one[name] != read[name] for one in others)}
    cells = [
        ("differs" if column in differing else "value", plain(shown[column]) if column in shown else "")
        for column in columns
    ]
    return [*cells, ("value", f"{row['rows']:,}")]


def _cell(piece: tuple[str, str], *, parted: bool = False) -> RenderedStringTemplateContent:
    """A name or value of an example; short ones stay on one line, and a border separates the two rows."""
    own = {"white-space": "nowrap"} if len(piece[1]) <= _MAX_UNBROKEN else {"min-width": "8em"}
    return _block([piece], own=own, cell=_PARTED if parted else None)


def _named(pieces: Pieces) -> dict[str, tuple[str, str]]:
    """The pieces that are not empty, each with a name that a template can refer to."""
    return {f"{style}_{place}": (style, plain(text, _MAX_PIECE)) for place, (style, text) in enumerate(pieces) if text}


def _template(names: Iterable[str]) -> str:
    return " ".join(f"${name}" for name in names)


def _block(
    pieces: Pieces, *, own: Mapping[str, str] | None = None, cell: Mapping[str, str] | None = None
) -> RenderedStringTemplateContent:
    """The pieces as Data Docs show them, with styles for the block and for the table cell around it."""
    shown = _named(pieces)
    return RenderedStringTemplateContent(
        string_template={
            "template": _template(shown),
            "params": {name: text for name, (_, text) in shown.items()},
            "tag": "div",
            "styling": {
                "params": {name: _STYLES[style] for name, (style, _) in shown.items()},
                "styles": {"overflow-wrap": "anywhere", **(own or {})},
            },
        },
        styling={"parent": {"styles": cell}} if cell else None,
    )
