"""How the expectations are shown: in Data Docs, in Great Expectations' atomic form, and as text.

Everything that comes from data passes through ``plain`` (one line, cut) and is escaped exactly once: cells of a table
here, because Great Expectations shows them as they are; parameters of a template by Great Expectations.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from great_expectations.render import RenderedStringTemplateContent, RenderedTableContent
from great_expectations.render.renderer_configuration import RendererValueType

from airflow_dc_provider.report import MAX_TEXT, counted, plain, row_name

WHAT_IS_JUDGED = (
    "Judged is the verdict that the gate stored for this load. To run the checkpoint again judges that verdict again, "
    "and does not look at the table."
)
_STYLES: dict[str, dict[str, Any]] = {
    "name": {"tag": "strong", "styling": {"classes": ["d-block"]}},
    "sentence": {"tag": "span", "styling": {"classes": ["d-block"]}},
    "formula": {"tag": "code", "styling": {"classes": ["d-block"], "styles": {"white-space": "pre-wrap"}}},
    "plain": {"tag": "small", "styling": {"classes": ["d-block", "text-muted"]}},
    "problem": {"tag": "strong", "styling": {"classes": ["d-block", "mt-2", "text-danger"]}},
}
_TABLE = {"body": {"classes": ["table", "table-bordered", "table-sm", "mt-2"]}}


def tolerated(expected: Mapping[str, Any]) -> str:
    """The tolerance of an expectation in words."""
    if expected.get("mostly") is not None:
        share = (1 - Decimal(str(expected["mostly"]))) * 100
        return f"violations by {share.normalize():f}% of its rows"
    if expected.get("max_violating_rows") is not None:
        return counted(expected["max_violating_rows"], "violating row")
    return counted(expected.get("max_new_violations") or 0, "new violation")


def counts(rule: Mapping[str, Any], load_rows: int) -> str:
    """What a load did to a rule, in one line."""
    return (
        f"{counted(rule['new_violations'], 'new violation')} by {rule['violating_rows']:,} of the load's "
        f"{counted(load_rows, 'row')}, {rule['removed_violations']:,} removed, {rule['total_violations']:,} in all"
    )


def run_facts(run: Mapping[str, Any]) -> str:
    """Which load, which snapshot, how many rules, what was decided."""
    inserted, deleted, total = (run.get("rows", {}).get(name, 0) for name in ("inserted", "deleted", "total"))
    facts = [
        f"load {plain(run.get('load_id'))}, snapshot {run.get('snapshot')}",
        f"{counted(run.get('constraints', 0), 'rule')}, decision {run.get('decision')}",
        f"rows: {inserted:,} inserted, {deleted:,} deleted, {total:,} in all",
    ]
    if run.get("replaced"):
        facts.append("it replaced an earlier attempt")
    if run.get("discarded"):
        facts.append("discarded: its rows are not in the state")
    return "; ".join(facts)


def atomic(configuration: Any, pieces: Sequence[tuple[str, str]]) -> Any:
    """The pieces as one template with parameters."""
    shown = [(f"{style}_{place}", text) for place, (style, text) in enumerate(pieces) if text]
    for name, text in shown:
        configuration.add_param(name=name, param_type=RendererValueType.STRING, value=text)
    configuration.template_str = " ".join(f"${name}" for name, _ in shown)
    return configuration


def prescription(pieces: Sequence[tuple[str, str]]) -> list[RenderedStringTemplateContent]:
    """The pieces, each on a line of its own."""
    return [_text(text, style) for style, text in pieces if text]


def observed(result: Any) -> Any:
    """What was found, with the load and the snapshot."""
    details = result.result.get("details")
    if details is None:
        return "--"
    where = f"Load {plain(details.get('load_id'))}, snapshot {details.get('snapshot')}"
    return [_text(str(result.result["observed_value"]), "sentence"), _text(where, "plain")]


def statement(result: Any) -> list[RenderedStringTemplateContent]:
    """Why it failed, the worst rows, where the rest is, what else is to be known."""
    details = result.result["details"]
    lines = [_text(details["problem"], "problem")] if details["problem"] else []
    if details.get("worst_rows"):
        worst = (
            f"{row_name(one['row'])} ({counted(one['violations'], 'violation')})" for one in details["worst_rows"][:3]
        )
        lines.append(_text(f"Worst rows: {'; '.join(worst)}", "plain"))
    if details.get("violations"):
        lines.append(_text(f"Violations (Parquet): {plain(details['violations'], MAX_TEXT)}", "plain"))
    lines += [_text(plain(note, MAX_TEXT), "plain") for note in details.get("notes") or ()]
    return lines


def ordered(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Examples as results keep them: key first, then what the rule reads; in lists, since results sort names."""
    return [
        {
            side: {"cells": [*(one.get("row") or {}).items(), *(one.get("values") or {}).items()], "rows": one["rows"]}
            for side, one in sample.items()
            if one
        }
        for sample in samples
    ]


def examples(result: Any) -> list[RenderedTableContent] | None:
    """The example violations: a line each, the two rows side by side, what differs in bold."""
    samples = (result.result.get("details") or {}).get("samples")
    if not samples:
        return None
    sides = [side for side in ("t", "s") if any(side in one for one in samples)]
    columns = {
        side: list(dict.fromkeys(name for one in samples if side in one for name, _ in one[side]["cells"]))
        for side in sides
    }
    header = [_escaped(f"{side}.{column}") for side in sides for column in columns[side]]
    alike = any(one[side]["rows"] > 1 for one in samples for side in sides if side in one)
    if alike:
        header += [f"rows like {side}" for side in sides]
    table = []
    for sample in samples:
        values = {side: dict(sample[side]["cells"]) if side in sample else {} for side in sides}
        cells = [_cell(values, side, column) for side in sides for column in columns[side]]
        if alike:
            cells += [f"{sample[side]['rows']:,}" if side in sample else "" for side in sides]
        table.append(cells)
    return [RenderedTableContent(content_block_type="table", header_row=header, table=table, styling=_TABLE)]


def text_lines(results: Sequence[Any]) -> list[str]:
    """Validation results for a terminal or a log: what was expected, what was found, why it failed."""
    lines = []
    for result in results:
        details = result.result.get("details")
        if details is None:
            continue
        name = result.expectation_config.kwargs.get("constraint") or result.expectation_config.kwargs.get("dependency")
        mark = "ok  " if result.success else "FAIL"
        lines.append(f"{mark} {plain(name or 'the run', 60)}: {result.result['observed_value']}")
        if details["problem"]:
            lines.append(f"     {plain(details['problem'], MAX_TEXT)}")
    return lines


def _cell(values: Mapping[str, Mapping[str, Any]], side: str, column: str) -> str:
    if column not in values[side]:
        return ""
    value = values[side][column]
    differs = any(column in other and other[column] != value for other in values.values())
    text = _escaped(value)
    return f"<strong>{text}</strong>" if differs else text


def _escaped(value: Any) -> str:
    return html.escape(plain(value))


def _text(text: str, style: str) -> RenderedStringTemplateContent:
    return RenderedStringTemplateContent(
        content_block_type="string_template",
        string_template={"template": "$text", "params": {"text": text}, **_STYLES[style]},
    )
