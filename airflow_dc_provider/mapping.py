"""Mapped gates: two map indexes with the same load_id for one state would be one load, each replacing the other.

What is certain to do that is refused: when the DAG is parsed or, where results of other tasks decide, before
Spark starts. What may turn out right is let through.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import XComArg

from dc_engine.errors import RequestError

LOAD_OF_THE_RUN = "{{ run_id }}{{ '-%d' % ti.map_index if ti.map_index is number and ti.map_index >= 0 else '' }}"
"""The default of ``load_id``: the DAG run's id, with the map index of a mapped task."""
_HINT = (
    "Leave load_id out (it is then the DAG run's id and the map index), put {{ ti.map_index }} into it, or give each "
    "task its own with expand_kwargs([{'load_id': ..., 'changes': ...}, ...])."
)
# What a template may name that is the same for all map indexes of a task.
# fmt: off
_OF_THE_RUN = frozenset((
    "conf", "conn", "dag", "dag_run", "data_interval_end", "data_interval_start", "ds", "ds_nodash",
    "expanded_ti_count", "logical_date", "params", "partition_date", "partition_key",
    "prev_data_interval_end_success", "prev_data_interval_start_success", "prev_end_date_success",
    "prev_start_date_success", "run_id", "task_instance_key_str", "test_mode", "triggering_asset_events", "ts",
    "ts_nodash", "ts_nodash_with_tz", "var",
))
# fmt: on
_TASK = ("ti", "task", "task_instance")
_SAME_OF_A_TASK = ("dag_id", "run_id", "task_id")


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that the mapping gives to each map index under a key."""

    key: str
    otherwise: Any = None


def is_known_later(value: Any) -> bool:
    """Whether a value is the result of another task, or an argument of a mapped task group."""
    return isinstance(value, XComArg) or callable(getattr(value, "iter_references", None))


def check_mapping(task: Any, resolve: Callable[[Any], Any] | None = None) -> None:
    """Refuse a mapped task in which two map indexes would have the same load_id for one state.

    ``resolve`` gives the results of other tasks, once they exist.
    """
    group = None if task.is_mapped else task.get_closest_mapped_task_group()
    if task.is_mapped:
        source = task.expand_input.value
        *identity, params = _of_expansion(task, source)
    elif group is not None:
        source = group._expand_input.value
        identity, params = _of_group(task), False
    else:
        return
    if not any(_may_vary(value, task, params=params) for value in identity):
        raise RequestError(
            f"Gate '{task.task_id}' is mapped, but all its map indexes have the load_id {str(identity[1])!r} for one "
            "state: each would replace the load before it.",
            hint=_HINT,
        )
    if any(_may_vary(value, task, params=params) for value in identity if not isinstance(value, _Given)):
        return
    first: dict[Any, int] = {}
    for index, given in enumerate(_expanded(source, resolve)):
        own = tuple(given.get(one.key, one.otherwise) if isinstance(one, _Given) else one for one in identity)
        if not all(isinstance(one, str | int) and not _may_vary(one, task, params=params) for one in own):
            continue
        if own in first:
            raise RequestError(
                f"Gate '{task.task_id}' is mapped, but its map indexes {first[own]} and {index} both have the load_id "
                f"{str(own[1])!r} for one state: one would replace the load of the other.",
                hint=f"{_HINT} Note that expand() makes a task for every combination of its arguments.",
            )
        first[own] = index


def _of_expansion(task: Any, source: Any) -> list[Any]:
    """State and load_id of a task that was mapped with ``partial(...).expand(...)``, and whether params vary."""
    defaults: dict[str, Any] = {"load_id": LOAD_OF_THE_RUN}
    for holder in (task.dag, task.task_group):
        defaults |= getattr(holder, "default_args", None) or {}
    if isinstance(source, Mapping):
        given = set(source)
    elif isinstance(source, Sequence) and all(isinstance(one, Mapping) for one in source):
        given = set().union(*source)
    else:
        fixed = task.partial_kwargs if task._disallow_kwargs_override else ()
        given = {"state", "load_id", "params"}.difference(fixed)
    own = {**defaults, **task.partial_kwargs}
    values = [_Given(name, own.get(name)) if name in given else own.get(name) for name in ("state", "load_id")]
    return [*values, "params" in given]


def _of_group(task: Any) -> list[Any]:
    """State and load_id of a task in a mapped task group; arguments of the group are given by its mapping."""
    values = (task.state, task.load_id)
    return [_Given(one._key) if not isinstance(one, XComArg) and is_known_later(one) else one for one in values]


def _may_vary(value: Any, task: Any, *, params: bool) -> bool:
    """Whether a value may differ between map indexes; ``params``: whether the parameters may."""
    if isinstance(value, str):
        return bool(_named(value) - (_OF_THE_RUN - {"params"} if params else _OF_THE_RUN))
    if isinstance(value, XComArg):
        # A result of a task in the same mapped group is that of the same map index; any other is the same for all.
        groups = list(task.iter_mapped_task_groups())
        tasks = [one for one, _ in value.iter_references()]
        return any(group in groups for one in tasks for group in one.iter_mapped_task_groups())
    return isinstance(value, _Given)


def _named(template: str) -> set[str]:
    """The variables that a template names."""
    if "{" not in template:
        return set()
    from jinja2 import Environment, TemplateSyntaxError, meta, nodes

    try:
        tree = Environment(extensions=["jinja2.ext.do"]).parse(template)  # noqa: S701  (parsed, never rendered)
    except TemplateSyntaxError:
        return {"what Airflow will complain of"}
    for node in tree.find_all(nodes.Getattr):
        if isinstance(node.node, nodes.Name) and node.node.name in _TASK and node.attr in _SAME_OF_A_TASK:
            node.node.name = "run_id"
    return meta.find_undeclared_variables(tree)


def _expanded(source: Any, resolve: Callable[[Any], Any] | None) -> Iterator[Mapping[str, Any]]:
    """What the mapping gives to each map index, in order; nothing while a result of another task is missing."""

    def known(value: Any) -> Any:
        return resolve(value) if resolve is not None and is_known_later(value) else value

    if isinstance(source, Mapping):
        lists = {name: known(value) for name, value in source.items()}
        if not any(map(is_known_later, lists.values())):
            combinations = itertools.product(*map(_elements, lists.values()))
            yield from (dict(zip(lists, one, strict=True)) for one in combinations)
        return
    source = known(source)
    if not is_known_later(source):
        for one in map(known, _elements(source)):
            yield {"load_id": one, "state": one} if is_known_later(one) else one


def _elements(value: Any) -> list[Any]:
    from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence

    if isinstance(value, LazyXComSequence):
        return list(value[:])  # one by one, each would be a request to Airflow
    return list(value.items()) if isinstance(value, Mapping) else list(value)
