"""Mapped gates: each has a load of its own, or the DAG is refused."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import pytest
from airflow.sdk import DAG, task, task_group
from hypothesis import given
from hypothesis import strategies as st

from airflow_dc_provider.mapping import LOAD_OF_THE_RUN
from airflow_dc_provider.operators.gate import DcGateOperator
from dc_engine.errors import RequestError

A, B = {"path": "/landing/a"}, {"path": "/landing/b"}


@task
def tell(value: Any = None) -> Any:
    return value


@pytest.fixture
def fixed(rules: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": "gate", "constraints": rules, "state": "/state/tax"}


@pytest.fixture
def dag():
    with DAG("d", schedule=None) as dag:
        yield dag


@pytest.fixture
def in_group(fixed, dag):
    """A gate in a mapped task group, some of its arguments those of the group."""

    def build(mapped: dict[str, Any], **arguments: Any) -> None:
        @task_group
        def day(**given: Any) -> None:
            own = {
                name: given.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()
            }
            DcGateOperator(**{**fixed, "changes": A, **own})

        day.expand(**mapped)

    return build


SAME = pytest.raises(RequestError, match=r"Gate '.*' is mapped, but all .* have the load_id .*map_index \}\}")
TWICE = pytest.raises(RequestError, match=r"its map indexes 0 and \d both have the load_id")


@pytest.mark.usefixtures("dag")
class TestExpand:
    @pytest.mark.parametrize(
        "load_id",
        [
            "2026-01-03",
            "{{ ds }}",
            "{{ run_id }}",
            "{{ ti.run_id }}-{{ task.task_id }}",
            "{% if params.full %}all{% else %}{{ var.value.day }}{% endif %}",
            "{% set day = data_interval_start | string %}{{ day }}",
        ],
    )
    @pytest.mark.parametrize("changes", [[A, B], [A]])
    def test_one_load_id_for_all_is_refused(self, fixed, load_id, changes):
        with SAME:
            DcGateOperator.partial(**fixed, load_id=load_id).expand(changes=changes)

    @pytest.mark.parametrize(
        "load_id",
        [
            "{{ ds }}-{{ ti.map_index }}",
            "{{ task_instance.map_index }}",
            "{{ task.changes['path'] }}",
            "{% set own = ti %}{{ own.map_index }}",
            "{{ my_macro(1) }}",
            "{{ ti.xcom_pull('tell', map_indexes=ti.map_index) }}",
        ],
    )
    def test_a_template_that_may_vary_is_let_pass(self, fixed, load_id):
        DcGateOperator.partial(**fixed, load_id=load_id).expand(changes=[A, B])

    def test_the_default_varies(self, fixed):
        DcGateOperator.partial(**fixed).expand(changes=tell())

    def test_the_result_of_a_task_is_one_for_all(self, fixed):
        with SAME:
            DcGateOperator.partial(**fixed, load_id=tell()).expand(changes=[A, B])

    def test_params_vary_when_they_are_mapped(self, fixed):
        DcGateOperator.partial(**fixed, changes=A, load_id="{{ params.day }}").expand(params=[{"day": 1}, {"day": 2}])

    def test_defaults_of_the_dag_count(self, rules):
        with DAG("other", schedule=None, default_args={"load_id": "{{ ds }}", "state": "/state/tax"}), SAME:
            DcGateOperator.partial(task_id="gate", constraints=rules).expand(changes=[A, B])

    def test_each_may_have_a_state_of_its_own(self, fixed):
        del fixed["state"]
        tables = [{"state": f"/state/{name}", "changes": {"table": name}} for name in ("tax", "pay")]
        DcGateOperator.partial(**fixed, load_id="{{ ds }}").expand_kwargs(tables)

    def test_each_may_be_given_its_own(self, fixed):
        DcGateOperator.partial(**fixed, changes=A).expand(load_id=["x", "y"])
        given = [{"changes": A, "load_id": "x"}, {"changes": B}]
        DcGateOperator.partial(**{**fixed, "task_id": "b"}).expand_kwargs(given)
        DcGateOperator.partial(**{**fixed, "task_id": "c"}).expand_kwargs(tell())
        DcGateOperator.partial(**{**fixed, "task_id": "d"}, load_id="x").expand_kwargs(tell(), strict=False)

    def test_arguments_that_cannot_have_a_load_id_are_refused(self, fixed):
        with SAME:
            DcGateOperator.partial(**fixed, load_id="x").expand_kwargs(tell())
        with SAME:
            DcGateOperator.partial(**{**fixed, "task_id": "b"}, load_id="x").expand_kwargs([{"changes": A}])

    @pytest.mark.parametrize(
        "mapped",
        [
            {"load_id": ["x", "x"]},
            {"changes": [A, B], "load_id": ["x", "y"]},
            {"load_id": ["x", "y"], "max_samples": [1, 2]},
        ],
    )
    def test_the_same_twice_is_refused(self, fixed, mapped):
        with TWICE:
            DcGateOperator.partial(**{"changes": A, **fixed} if "changes" not in mapped else fixed).expand(**mapped)

    def test_the_same_twice_in_a_list_is_refused(self, fixed):
        given = [{"changes": A, "load_id": "x"}, {"changes": A}, {"changes": B, "load_id": "x"}]
        with TWICE:
            DcGateOperator.partial(**fixed).expand_kwargs(given)

    def test_a_mapped_gate_survives_serialisation(self, fixed, dag):
        from airflow.serialization.serialized_objects import DagSerialization

        DcGateOperator.partial(**fixed).expand(changes=[A, B])
        again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        assert again.get_task("gate").task_type == "DcGateOperator"


LOAD_IDS = {"x": "x", "y": "y", "{{ ds }}": "D", "{{ ti.map_index }}": None, LOAD_OF_THE_RUN: None}
"""Load ids, and what they come to; None: another one for each map index."""
STATES = ["/state/a", "/state/b"]
MAPPED = {"load_id": list(LOAD_IDS), "state": STATES, "max_samples": [1, 2]}


def few(name: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(MAPPED[name]), min_size=1, max_size=3)


@given(
    st.sets(st.sampled_from(list(MAPPED)), min_size=1).flatmap(
        lambda names: st.fixed_dictionaries({name: few(name) for name in sorted(names)})
    ),
    st.sampled_from(list(LOAD_IDS)),
    st.booleans(),
)
def test_a_mapping_is_refused_just_when_two_gates_would_share_a_load(mapped, load_id, in_a_list):
    own = {"load_id": load_id, "state": STATES[0]}
    fixed = {name: value for name, value in own.items() if name not in mapped}
    tasks = [dict(zip(mapped, one, strict=True)) for one in itertools.product(*mapped.values())]
    loads = [{**own, **one} for one in tasks]
    names = [(one["state"], LOAD_IDS[one["load_id"]] or index) for index, one in enumerate(loads)]
    cannot_vary = not {"load_id", "state"} & set(mapped) and LOAD_IDS[load_id] is not None
    refused = cannot_vary or len(set(names)) < len(names)
    rules = {"version": 1, "table": "t", "constraints": [{"name": "a", "unique": ["b"]}]}
    with DAG("d", schedule=None):
        partial = DcGateOperator.partial(task_id="gate", constraints=rules, changes=A, **fixed)
        with pytest.raises(RequestError, match="is mapped, but") if refused else nullcontext():
            partial.expand_kwargs(tasks) if in_a_list else partial.expand(**mapped)


class TestGroup:
    def test_one_load_id_for_all_is_refused(self, in_group):
        with SAME:
            in_group({"one": [A, B]}, changes="one", load_id="{{ ds }}")

    def test_the_result_of_a_task_outside_is_one_for_all(self, in_group, dag):
        outside = tell()
        with SAME:
            in_group({"one": [A, B]}, changes="one", load_id=outside)

    @pytest.mark.parametrize("load_id", ["{{ ti.map_index }}", "{{ task.changes.path }}", "one"])
    def test_what_may_vary_is_let_pass(self, in_group, load_id):
        in_group({"one": ["x", "y"]}, load_id=load_id)

    def test_the_default_varies(self, in_group):
        in_group({"one": [A, B]}, changes="one")

    def test_each_may_have_a_state_of_its_own(self, in_group):
        in_group({"one": ["/state/tax", "/state/pay"]}, state="one", load_id="{{ ds }}")

    def test_every_combination_gives_the_same_twice(self, in_group):
        with TWICE:
            in_group({"one": [A, B], "name": ["x", "y"]}, changes="one", load_id="name")

    def test_arguments_of_the_group_may_stand_for_any_argument(self, in_group):
        names = ("changes", "state", "table", "quarantine", "mask", "constraints")
        in_group({"one": [A, B]}, **dict.fromkeys(names, "one"))

    def test_a_group_that_is_not_mapped_is_none_of_this(self, fixed, dag):
        @task_group
        def day() -> None:
            DcGateOperator(**fixed, changes=A, load_id="{{ ds }}")

        day()


def gates(found: dict[str, Any]) -> set[str]:
    """What became of the gates of a run."""
    return {state for task_id, state in found["tasks"].items() if "gate" in task_id}


@pytest.mark.xdist_group("airflow")
class TestInAirflow:
    @pytest.mark.parametrize(
        ("dag_id", "loads"),
        [
            ("not_mapped", {"RUN": "/landing/a"}),
            ("expanded", {"RUN-0": "/landing/a", "RUN-1": "/landing/b"}),
            ("in_a_group", {"RUN-0": "/landing/a", "RUN-1": "/landing/b"}),
            ("by_index", {"day-0": "/landing/a", "day-1": "/landing/b"}),
            ("by_path", {"/landing/a": "/landing/a", "/landing/b": "/landing/b"}),
            ("by_kwargs", {"x": "/landing/a", "y": "/landing/b"}),
            ("group_argument", {"x": "/a", "y": "/b"}),
            ("task_in_the_group", {"x": "/landing/a", "y": "/landing/a"}),
        ],
    )
    def test_each_gate_has_a_load_of_its_own(self, outcomes, dag_id, loads):
        found = outcomes[f"{dag_id}, clean"]
        due = [[name.replace("RUN", found["run_id"]), path] for name, path in loads.items()]
        assert sorted(found["loads"]) == sorted(due)
        assert gates(found) == {"success"}

    @pytest.mark.parametrize(
        "dag_id", ["twice_the_same_by_results", "every_combination_of_results", "group_argument_by_results"]
    )
    def test_what_only_results_show_to_be_the_same_is_refused_before_spark_starts(self, outcomes, dag_id):
        found = outcomes[f"{dag_id}, clean"]
        assert found["loads"] == []
        assert gates(found) == {"failed"}
        assert "map indexes 0 and 1 both have the load_id 'x'" in outcomes["said"]
