"""The task that discovers dependencies: what it asks for, what it refuses at parse, what it logs and returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.discover import DcDiscoverOperator
from dc_engine.discovery.asking import Discovery
from dc_engine.errors import RequestError
from dc_engine.state.storage import Storage
from dc_engine.stored import read_dependencies


@pytest.fixture
def discover(state: Path, fake_spark: Any) -> Any:
    def build(**arguments: Any) -> DcDiscoverOperator:
        return DcDiscoverOperator(**{"task_id": "discover", "state": str(state), **arguments})

    return build


@pytest.fixture
def answer() -> dict[str, Any]:
    """An answer as the job writes it."""
    found = [
        {
            "class": "fd" if place else "unique",
            "id": f"x-{place}",
            "text": f"a{place} -> b\t" if place else "unique [id]",
            "formula": "not (...)",
            "error": 0.0,
            "support": None if place == 3 else 1000 - place,
            "rank": place + 1,
            "since": "initial",
            "implies": [],
        }
        for place in range(12)
    ]
    space = {"columns": {"id": "bigint", "zip": "string"}, "ordered": ["id"], "cross": [], "nulls": "ignore"}
    return {
        "schema_version": 1,
        "rows": 400,
        "space": {**space, "classes": ["unique", "fd"], "left_out": {"note": "only NULLs"}},
        "mode": "counted",
        "complete": True,
        "because": "",
        "dependencies": found,
        "seconds": {"total": 1.5},
    }


def test_numbers_and_the_best_are_returned_and_logged(discover, fake_spark, ti, answer, state, capfd):
    fake_spark.answers(answer)
    returned = discover(table={"path": "/lake/tax"}).execute({"ti": ti})
    assert returned["valid"] == {"unique": 1, "fd": 11}
    assert returned["best"] == answer["dependencies"][:10]
    assert returned["state"] == str(state)
    assert {name: returned[name] for name in ("rows", "mode", "complete", "because")} == {
        "rows": 400,
        "mode": "counted",
        "complete": True,
        "because": "",
    }
    json.dumps(returned)
    log = capfd.readouterr().out
    for line in (
        "12 dependencies (1 unique, 11 fd), complete",
        "a1 -> b\\t",
        "left out: note: only NULLs",
        "and 2 more",
    ):
        assert line in log
    assert "discover.py" in " ".join(fake_spark.call["arguments"])


def test_an_incomplete_set_is_a_warning(discover, fake_spark, ti, answer, capfd):
    fake_spark.answers({**answer, "complete": False, "because": "the search took more than 600 s"})
    assert discover().execute({"ti": ti})["complete"] is False
    assert "These are not all dependencies: the search took more than 600 s." in capfd.readouterr().out


def test_everything_is_asked_for_as_given(discover, fake_spark, ti, answer, state, rules):
    fake_spark.answers(answer)
    given = {
        "table": {"format": "parquet", "path": "/lake/tax"},
        "classes": ["fd"],
        "space": {"exclude": ["note"]},
        "mode": "witnessed",
        "view": "complete",
        "max_error": 0.01,
        "limits": {"max_terms": 3},
        "engine": "local",
        "load_id": "first",
        "mask": ["ssn"],
    }
    discover(**given, constraints=rules).execute({"ti": ti})
    asked = fake_spark.call["request"]
    constraints = asked.pop("constraints")
    assert [one["name"] for one in constraints["constraints"]] == [one["name"] for one in rules["constraints"]]
    assert asked == {**given, "state": str(state), "max_wait_seconds": 3600}
    Discovery.from_mapping(asked)


def test_a_request_without_more_is_only_the_state(discover, fake_spark, ti, answer, state):
    fake_spark.answers(answer)
    discover().execute({"ti": ti})
    asked = fake_spark.call["request"]
    assert asked["state"] == str(state)
    assert "table" not in asked
    assert Discovery.from_mapping(asked).asked == Discovery.from_mapping({"state": "/x"}).asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": ["fds"]}, "There is no class 'fds'"),
        ({"classes": "fd"}, "'classes' in the request must be a list of classes, not 'fd'"),
        ({"mode": "some"}, "'mode' in the request is 'some'"),
        ({"view": "all"}, "'view' in the request is 'all'"),
        ({"space": {"column": ["a"]}}, "Unknown key 'column' in space"),
        ({"limits": {"max_terms": 0}}, "'max_terms' in 'limits' must be a whole number"),
        ({"max_error": 2}, "'max_error' must be a share"),
        ({"table": {"pat": "/lake"}}, "pat"),
        ({"load_id": ""}, "'load_id' in request"),
        ({"state": "state/tax"}, "must be an absolute path"),
        ({"mask": "ssn"}, "'mask' in the request must be a list"),
    ],
)
def test_mistakes_are_found_when_the_dag_is_parsed(discover, arguments, message):
    with pytest.raises(RequestError, match=message):
        discover(**arguments)


def test_what_is_rendered_is_checked_when_the_task_runs(discover, fake_spark, ti, answer, tmp_path):
    fake_spark.answers(answer)
    operator = discover(
        state=f"{tmp_path}/{{{{ name }}}}",
        table={"path": "/lake/{{ ds }}"},
        space={"columns": ["{{ column }}"]},
        load_id="{{ ds }}",
        mask=["{{ column }}"],
    )
    operator.render_template_fields({"name": "tax", "ds": "2026-01-01", "column": "zip"})
    operator.execute({"ti": ti})
    asked = fake_spark.call["request"]
    assert (asked["state"], asked["load_id"], asked["mask"]) == (f"{tmp_path}/tax", "2026-01-01", ["zip"])
    assert (asked["table"], asked["space"]) == ({"path": "/lake/2026-01-01"}, {"columns": ["zip"]})
    broken = discover(load_id="{{ nothing }}")
    broken.load_id = ""
    with pytest.raises(DcGateError, match="'load_id' in request"):
        broken.execute({"ti": ti})


def test_an_error_of_the_job_is_the_tasks(discover, fake_spark, ti):
    error = {"type": "StateError", "message": "There is no load.", "hint": "Give the table."}
    fake_spark.answers({"schema_version": 1, "error": error}, exit_code=1)
    with pytest.raises(DcGateError, match=r"(?s)There is no load\..*Give the table\."):
        discover().execute({"ti": ti})


@pytest.mark.xdist_group("submit")
def test_with_a_real_spark_submit_the_state_has_what_was_found(tmp_path, monkeypatch, state, ti):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    zips = [place * 7 % 30 for place in range(200)]
    rows = {"id": list(range(200)), "zip": [f"{one:05}" for one in zips], "city": [f"city {one // 3}" for one in zips]}
    pq.write_table(pa.table(rows), tmp_path / "people.parquet")
    operator = DcDiscoverOperator(task_id="discover", state=str(state), table={"path": f"{tmp_path}/people.parquet"})
    returned = operator.execute({"ti": ti})
    assert {one["text"] for one in returned["best"]} >= {"unique [id]", "zip -> city"}
    assert read_dependencies(Storage(str(state)))[:10] == returned["best"]
    assert not list((state / "runs").iterdir())
