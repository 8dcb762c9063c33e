"""The pages of gates: the verdict of a load, its violations, the history and the dependencies of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from airflow_dc_provider.pages import looking
from airflow_dc_provider.pages.access import MaySee, Name, ReadableDag, Recorded, newest_gates, recorded_by
from airflow_dc_provider.pages.plots import heat_map
from airflow_dc_provider.pages.rendering import page
from dc_engine.constraints.editing import as_constraint
from dc_engine.constraints.naming import meaning_in
from dc_engine.errors import ConstraintError

router = APIRouter()
PAIRS, LOADS, DEPENDENCIES = 20, 50, 50
"""How many there are on a page."""
_UNFINISHED = {
    "awaiting_input": "The gate waits for a person.",
    "failed": "The task failed before there was a verdict: its log says why.",
    "up_for_retry": "The task failed before there was a verdict, and will be tried again: its log says why.",
}
_MENDED = "Mend what the log says, and clear the task: it runs again, and its verdict is here."
_SHOWN = ("holding", "marked", "lost")
_CLASSES = {
    "unique": "No two rows agree on all of these columns.",
    "fd": "Rows that agree on the columns at the left agree on the one at the right (a functional dependency).",
    "od": "Where the columns at the left grow, those at the right do not fall (an order dependency).",
    "pod": "Two rows that compare so in the columns at the left compare so in the one at the right.",
    "dc": "No two rows satisfy all comparisons of the formula (a denial constraint).",
}
_WORDS = {
    "t, s": "The two rows that a formula compares.",
    "support": "How many pairs of rows agree on all that it asks to be equal: the more, the less it holds by chance.",
    "error": "The share of pairs of rows (of an od: of rows) that break it, where a few are allowed to.",
    "watched": "Gates tell, or fail, when a load breaks it.",
}
"""What is written on the page of dependencies, and what it means."""
_SORTED = {
    "best": "rank",
    "kind": "class",
    "support": "support",
    "error": "error",
    "since": "since when",
    "lost": "lost when",
    "text": "text",
}
"""What dependencies are sorted by, as the address has it, and as people read it."""

PageNumber = Annotated[int, Query(ge=0, le=10**9)]


@router.get("/verdict")
def verdict(
    request: Request,
    dag_id: ReadableDag,
    task_id: Name,
    run_id: Name,
    map_index: Name = "",
    load_id: Name | None = None,
) -> Response:
    """What a load broke and lost; by default the load of the task."""
    recorded = _recorded(dag_id, task_id, run_id, map_index)
    if not recorded.state:
        return _nothing(request, recorded, *_no_gate(recorded))
    own = str(recorded.verdict.get("load_id") or "")
    chosen = load_id or own
    if not chosen:
        why = _UNFINISHED.get(recorded.task_state, "The gate has no verdict yet: its job has not finished.")
        cure = _MENDED if recorded.task_state == "failed" else "Open this page again when the task has ended."
        return _nothing(request, recorded, "No verdict yet", why, cure)
    try:
        _, found = looking.look(recorded, lambda state: looking.judged(state, chosen))
    except looking.UnreadableError as error:
        return _unread(request, recorded, error, of_task=chosen == own)
    return page(
        request,
        "verdict.html",
        recorded=recorded,
        found=found,
        verdict=found.verdict,
        load_id=chosen,
        other_attempt=chosen == own and recorded.verdict.get("snapshot") not in (None, found.verdict.snapshot),
        waiting=chosen == own and recorded.task_state == "awaiting_input",
    )


@router.get("/pairs")
def pairs(
    request: Request,
    dag_id: ReadableDag,
    task_id: Name,
    run_id: Name,
    load_id: Name,
    constraint: Name,
    map_index: Name = "",
    number: PageNumber = 0,
) -> Response:
    """The stored violations of a rule, page by page."""
    recorded = _gate(dag_id, task_id, run_id, map_index)
    try:
        _, found = looking.look(recorded, lambda state: looking.pairs(state, load_id, constraint, number, PAIRS))
    except looking.UnreadableError as error:
        return _unread(request, recorded, error)
    if found is None:
        raise HTTPException(404, "This load was not judged by such a rule.")
    return page(
        request,
        "pairs.html",
        recorded=recorded,
        found=found,
        load_id=load_id,
        first=found.number * PAIRS,
    )


@router.get("/history")
def history(
    request: Request, dag_id: ReadableDag, task_id: Name, run_id: Name, map_index: Name = "", number: PageNumber = 0
) -> Response:
    """The loads of a table, the newest on the first page."""
    return _history(request, _gate(dag_id, task_id, run_id, map_index), number)


@router.get("/dependencies")
def dependencies(
    request: Request,
    dag_id: ReadableDag,
    task_id: Name,
    run_id: Name,
    map_index: Name = "",
    search: Name = "",
    kind: Name = "",
    show: Name = "holding",
    sort: Name = "best",
    number: PageNumber = 0,
) -> Response:
    """The dependencies of a table: those that hold, those that were lost."""
    recorded = _gate(dag_id, task_id, run_id, map_index)
    try:
        state, (known, marks, places) = looking.look(recorded, looking.dependencies)
    except looking.UnreadableError as error:
        return _unread(request, recorded, error)
    if known is None:
        why = f"No dependencies are kept in {recorded.state}."
        cure = "Run a DcDiscoverOperator on this state once: every load keeps them from then on."
        return _nothing(request, recorded, "No dependencies", why, cure)
    kinds = sorted({one.kind for one in (*known.holding, *known.lost)})
    show, sort = show if show in _SHOWN else _SHOWN[0], sort if sort in _SORTED else "best"
    every = known.lost if show == "lost" else known.holding
    if show == "marked":
        every = [one for one in every if meaning_in(one.id) in marks]
    chosen = _searched(every, kind, search.lower().split())
    last = max(len(chosen) - 1, 0) // DEPENDENCIES
    number = min(number, last)
    part = sorted(chosen, key=_key(sort, places))[number * DEPENDENCIES :][:DEPENDENCIES]
    return page(
        request,
        "dependencies.html",
        recorded=recorded,
        table=state.snapshot.table,
        because=known.because,
        kinds=kinds,
        meanings=[*((kind, _CLASSES[kind]) for kind in kinds), *_WORDS.items()],
        asked={"search": search, "kind": kind, "show": show, "sort": sort},
        sorts=_SORTED,
        total=len(every),
        chosen=len(chosen),
        number=number,
        last=last,
        lines=_dependency_lines(part, marks),
    )


@router.get("/dependency")
def dependency(
    request: Request, dag_id: ReadableDag, task_id: Name, run_id: Name, dependency_id: Name, map_index: Name = ""
) -> Response:
    """A dependency of a table, with pairs of rows that come closest to breaking it."""
    recorded = _gate(dag_id, task_id, run_id, map_index)
    try:
        state, found = looking.look(recorded, lambda state: looking.dependency(state, dependency_id))
    except looking.UnreadableError as error:
        return _unread(request, recorded, error)
    if found is None:
        raise HTTPException(404, "The state knows no such dependency.")
    return page(
        request,
        "dependency.html",
        recorded=recorded,
        table=state.snapshot.table,
        found=found,
        pasted=_pasted(found.known),
    )


@router.get("/dag")
def dag(request: Request, dag_id: ReadableDag, may_see: MaySee) -> Response:
    """The gates of a DAG; the history of its table where there is one."""
    gates = _one_each(newest_gates(may_see, dag_id))
    if len(gates) == 1:
        return _history(request, gates[0], 0)
    return page(request, "gates.html", gates=gates, of_dag=dag_id)


@router.get("/gates")
def gates(request: Request, may_see: MaySee) -> Response:
    """All gates that one who asks may see, each with its newest verdict."""
    return page(request, "gates.html", gates=_one_each(newest_gates(may_see)), of_dag="")


def _one_each(recorded: Sequence[Recorded]) -> list[Recorded]:
    """Of the tasks of a DAG that share a state one: the newest that has a verdict, if there is one."""
    chosen: dict[tuple[str, str], Recorded] = {}
    for one in sorted(recorded, key=lambda one: not one.verdict):
        chosen.setdefault((one.dag_id, one.state), one)
    return [one for one in recorded if chosen[one.dag_id, one.state] is one]


def _recorded(dag_id: str, task_id: str, run_id: str, map_index: str) -> Recorded:
    place = int(map_index) if map_index.isascii() and map_index.isdigit() and len(map_index) < 10 else -1
    found = recorded_by(dag_id, task_id, run_id, place)
    if found is None:
        raise HTTPException(404, "Airflow knows no such task in such a run of this DAG.")
    return found


def _gate(dag_id: str, task_id: str, run_id: str, map_index: str) -> Recorded:
    found = _recorded(dag_id, task_id, run_id, map_index)
    if not found.state:
        raise HTTPException(404, "This task has recorded no state.")
    return found


def _history(request: Request, recorded: Recorded, number: int) -> Response:
    try:
        state, (lines, total) = looking.look(recorded, lambda state: looking.history(state, number, LOADS))
    except looking.UnreadableError as error:
        return _unread(request, recorded, error)
    last = max(total - 1, 0) // LOADS
    return page(
        request,
        "history.html",
        recorded=recorded,
        snapshot=state.snapshot,
        lines=lines,
        plot=heat_map(lines),
        total=total,
        number=min(number, last),
        last=last,
    )


def _searched(every: Sequence[Any], kind: str, words: Sequence[str]) -> list[Any]:
    """The dependencies of a class, if one is asked for, that have all of some words."""
    return [
        one
        for one in every
        if (not kind or one.kind == kind) and all(word in f"{one.text} {one.formula}".lower() for word in words)
    ]


def _key(sort: str, places: Mapping[str | None, int]) -> Callable[[Any], Any]:
    """What to sort dependencies by; ``places`` are those of loads in the history."""
    keys: dict[str, Callable[[Any], Any]] = {
        "kind": lambda one: one.kind,
        "support": lambda one: -(one.support or 0),
        "error": lambda one: -one.error,
        "since": lambda one: -places.get(one.since, -1),
        "lost": lambda one: -places.get(one.until, -1),
        "text": lambda one: one.text.lower(),
    }
    return keys.get(sort, lambda _: 0)


def _dependency_lines(found: Sequence[Any], marks: Mapping[str, str]) -> list[tuple[Any, str, str]]:
    return [(one, marks.get(meaning_in(one.id), ""), _pasted(one)) for one in found]


def _pasted(dependency: Any) -> str:
    try:
        return as_constraint({"class": dependency.kind, "text": dependency.text, "formula": dependency.formula})
    except ConstraintError:  # what no constraint can say; the formula is shown in any case
        return ""


def _no_gate(recorded: Recorded) -> tuple[str, str, str]:
    if recorded.task_state in ("", "None", "scheduled", "queued", "running"):
        return "No verdict here", "This task is no gate, or it has not begun.", "If it is a gate, open this page later."
    cure = "Verdicts are on the tasks that are gates: DcGateOperator, DcBranchOperator, DcGateSensor, DcVerdictSensor."
    return "No verdict here", "This task is no gate, or it ended before its job was started.", cure


def _nothing(request: Request, recorded: Recorded, title: str, why: str, what_to_do: str) -> Response:
    return page(request, "nothing.html", title=title, why=why, what_to_do=what_to_do, recorded=recorded)


def _unread(request: Request, recorded: Recorded, error: looking.UnreadableError, *, of_task: bool = True) -> Response:
    """What XCom knows, where the state cannot be read."""
    summary = recorded.verdict if of_task else {}
    rules = looking.rules_of(summary)
    return page(
        request, "unread.html", status=error.status, recorded=recorded, error=error, summary=summary, rules=rules
    )
