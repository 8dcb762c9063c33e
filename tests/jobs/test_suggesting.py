"""From a table without a rule to a constraint file: what is suggested, what is doubtful, and that it can be used."""

from __future__ import annotations

import csv
import json
from argparse import Namespace
from datetime import date, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import yaml

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.discover import main
from dc_engine.errors import RequestError
from dc_engine.suggesting import answer_for_people
from dc_engine.table_files import source_of, table_name
from tests.inprocess import Session, Source

TYPES = {
    "order_id": "bigint",
    "zip": "int",
    "city": "string",
    "amount": "int",
    "fee": "int",
    "ordered": "date",
    "shipped": "date",
    "country": "string",
    "note": "string",
}
OPTIONS = {
    "format": None,
    "option": [],
    "schema": None,
    "where": None,
    "suggest": "-",
    "overwrite": False,
    "rules": 20,
    "max_terms": 4,
    "exclude": [],
    "mask": [],
}
CSV = {"header": "true", "inferSchema": "true", "escape": '"'}
ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32()}


def orders(number: int, seed: int = 3) -> dict[str, list[Any]]:
    random = Random(seed)
    zips = [random.randrange(1000, 1030) for _ in range(number)]
    amounts = [random.randrange(1, 500) for _ in range(number)]
    ordered = [date(2026, 1, 1) + timedelta(random.randrange(300)) for _ in range(number)]
    return {
        "order_id": list(range(1, number + 1)),
        "zip": zips,
        "city": [f"city {one * 7 % 11}" for one in zips],
        "amount": amounts,
        "fee": [one // 50 for one in amounts],
        "ordered": ordered,
        "shipped": [None if random.random() < 0.2 else one + timedelta(random.randrange(9)) for one in ordered],
        "country": ["DE"] * number,
        "note": [random.choice([None, "a", "b"]) for _ in range(number)],
    }


def suggest(columns: dict[str, list[Any]], types: dict[str, str] = TYPES, **options: Any) -> tuple[dict[str, Any], Any]:
    """The answer, and the session that has the table."""
    table = pa.table({name: pa.array(values, ARROW[types[name]]) for name, values in columns.items()})
    session = Session({"orders.parquet": Source(table, dict(types))})
    return answer_for_people(session, Namespace(table="orders.parquet", **OPTIONS | options)), session


def rules_of(text: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in yaml.safe_load(text)["constraints"]}


def test_the_best_dependencies_become_rules_with_a_sentence_each():
    text = suggest(orders(400))[0]["suggested"]
    rules = rules_of(text)
    assert rules["zip_decides_city"] == {
        "name": "zip_decides_city",
        "fd": "zip -> city",
        "description": "Rows with the same zip have the same city.",
    }
    assert rules["fee_follows_amount"]["description"] == "A row with the same or a higher amount never has a lower fee."
    assert "pairs of rows support it" in text.split("zip_decides_city")[0].splitlines()[-2]
    assert "# error 0; " in text


def test_numbers_that_are_names_have_no_order():
    answer = suggest(orders(400))[0]
    assert "zip" not in answer["space"]["ordered"]
    assert "amount" in answer["space"]["ordered"]


def test_the_key_is_what_looks_like_one_and_the_file_says_why():
    text = suggest(orders(400))[0]["suggested"]
    document = yaml.safe_load(text)
    assert document["key"] == ["order_id"]
    assert "order_id is different in all 400 rows and never NULL, and its name is that of an id." in text
    assert "order_id_is_unique" not in rules_of(text)


def test_without_anything_like_an_id_there_is_no_key():
    columns = {name: values for name, values in orders(400).items() if name != "order_id"}
    text = suggest(columns, {name: kind for name, kind in TYPES.items() if name != "order_id"})[0]["suggested"]
    assert "key" not in yaml.safe_load(text)
    assert "# No key: " in text


def test_dates_that_follow_each_other_become_a_rule():
    rule = rules_of(suggest(orders(400))[0]["suggested"])["ordered_not_after_shipped"]
    assert rule["deny"] == "t.ordered > t.shipped"
    assert rule["description"] == "In every row ordered is not after shipped."


def test_what_is_doubtful_stands_as_a_comment_that_can_be_used():
    text = suggest(orders(400))[0]["suggested"]
    before, _, doubtful = text.partition("# Doubtful.")
    assert "  # - name: country_is_constant" in doubtful
    assert "so far there is one value, which the next load may change" in doubtful
    entries = [line for line in doubtful.splitlines()[1:] if line.startswith(("  # - ", "  #   "))]
    used = before + "\n".join(["", *(f"  {line[4:]}" for line in entries)])
    assert len(rules_of(used)) > len(rules_of(text))
    load_constraints(yaml.safe_load(used))


def test_of_a_few_rows_everything_is_doubtful(tmp_path):
    target = tmp_path / "rules.yml"
    answer = suggest(orders(12), suggest=str(target))[0]
    assert yaml.safe_load(answer["suggested"])["constraints"] == []
    assert "the table has only 12 rows" in answer["suggested"]
    assert f"{target} has no rules: what holds may do so by chance" in answer["text"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_of_almost_no_rows_a_file_is_made_too(number):
    text = suggest(orders(number))[0]["suggested"]
    assert load_constraints(yaml.safe_load(text)).constraints == ()


def test_rules_that_follow_from_others_are_left_out():
    columns = {name: list(range(400)) for name in ("order_id",)}
    random = Random(1)
    columns["zip"] = [random.randrange(40) for _ in range(400)]
    columns["city"] = [f"c{one // 3}" for one in columns["zip"]]
    columns["note"] = [f"n{one // 9}" for one in columns["zip"]]
    types = {name: TYPES[name] for name in columns}
    rules = rules_of(suggest(columns, types)[0]["suggested"])
    assert {"zip_decides_city", "city_decides_note"} <= set(rules)
    assert "zip_decides_note" not in rules


@pytest.mark.parametrize("seed", range(4))
def test_a_gate_over_the_same_table_is_green(tmp_path, seed):
    answer, session = suggest(orders(300, seed))
    rules = tmp_path / "rules.yml"
    rules.write_text(answer["suggested"])
    changes = {"path": "orders.parquet"}
    request = {"state": str(tmp_path / "state"), "load_id": "1", "changes": changes, "constraints": str(rules)}
    verdict = apply_load(session, request)
    assert verdict.decision == "pass"
    assert len(verdict.constraints) >= 4
    assert all(one.total_violations == 0 for one in verdict.constraints)


NAMES = ["a b", "`c`", "d: e", "# f", "g\nh", '"i"', "yes", "müll", "t", "and", "_change_type", "\x7f", "'j", "- k"]


def test_names_of_any_kind_are_written_so_that_they_are_read_again(tmp_path):
    random = Random(5)
    base = [random.randrange(20) for _ in range(300)]
    columns: dict[str, list[Any]] = {"id": list(range(300))}
    for place, name in enumerate(NAMES):
        columns[name] = [one // (1 + place % 3) + place for one in base]
    types = dict.fromkeys(columns, "int") | {"id": "bigint"}
    answer = suggest(columns, types, rules=200)[0]
    rules = load_constraints(yaml.safe_load(answer["suggested"]))
    named = {name for one in rules.constraints for name in one.columns}
    assert named - {"id"} == set(NAMES) - {"_change_type"}
    assert "\nh" not in answer["suggested"]


class TestCommand:
    def test_a_file_is_written_and_not_overwritten(self, tmp_path):
        target = tmp_path / "rules.yml"
        answer = suggest(orders(100), suggest=str(target))[0]
        assert target.read_text() == answer["suggested"]
        assert f"written to {target}" in answer["text"]
        with pytest.raises(RequestError, match="is there already") as caught:
            suggest(orders(100), suggest=str(target))
        assert "--overwrite" in caught.value.hint
        suggest(orders(120), suggest=str(target), overwrite=True)
        assert "120 rows" in target.read_text()

    @pytest.mark.parametrize(
        ("target", "message"),
        [(".", "is a folder"), ("nowhere/rules.yml", "There is no folder .*nowhere for the rules")],
    )
    def test_a_place_for_no_file_is_refused_before_the_search(self, tmp_path, target, message):
        with pytest.raises(RequestError, match=message):
            answer_for_people(Session(), Namespace(**OPTIONS | {"suggest": str(tmp_path / target), "overwrite": True}))

    def test_what_cannot_be_written_is_a_sentence(self):
        with pytest.raises(RequestError, match=r"The rules cannot be written to /dev/full: No space left on device\."):
            suggest(orders(100), suggest="/dev/full", overwrite=True)

    @pytest.mark.parametrize(
        ("path", "name"), [("/x/orders .csv", "orders"), ("a\tb.csv", "a b"), ("/x/.csv", "table")]
    )
    def test_a_table_is_called_by_its_file_as_a_constraint_file_may_have_it(self, path, name):
        assert table_name(path) == name

    def test_the_text_has_the_best_and_says_what_was_looked_at(self):
        text = suggest(orders(200), suggest=None, exclude=["note"])[0]["text"]
        assert "200 rows, " in text
        assert "not complete: only dependencies of up to 4 comparisons are looked for" in text
        assert "left out: note: excluded" in text
        assert "unique [order_id]" in text
        assert "\n  10  " in text
        assert "\n  11  " not in text

    @pytest.mark.parametrize(
        ("name", "source"),
        [
            ("a.parquet", {"format": "parquet", "path": "a.parquet"}),
            ("a.json", {"format": "json", "path": "a.json"}),
            ("a.jsonl.gz", {"format": "json", "path": "a.jsonl.gz"}),
            ("s3://lake/a/", {"format": "parquet", "path": "s3://lake/a/"}),
            ("A.CSV", {"format": "csv", "path": "A.CSV", "options": {**CSV, "multiLine": "true"}}),
        ],
    )
    def test_the_suffix_tells_the_format(self, name, source):
        assert source_of(name) == source

    def test_a_list_of_objects_is_json_too(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text(json.dumps([{"a": 1}]))
        assert source_of(str(path))["options"] == {"multiLine": "true"}

    @pytest.mark.parametrize(("value", "more"), [('"a""b"', {}), ('"a\nb"', {"multiLine": "true"})])
    def test_a_csv_file_is_cut_at_line_breaks_where_no_value_has_one(self, tmp_path, value, more):
        path = tmp_path / "a.csv"
        path.write_text(f"a,b\n1,{value}\n")
        assert source_of(str(path))["options"] == {**CSV, **more}

    def test_an_unknown_format_and_a_request_beside_a_table_are_refused(self, tmp_path, capsys):
        assert main(["--table", "a.xlsx", "--result", str(tmp_path / "result")]) == 1
        error = json.loads((tmp_path / "result").read_text())["error"]
        assert error["message"] == "The name of a.xlsx does not tell the format of the table."
        with pytest.raises(SystemExit):
            main(["--table", "a.csv", "--request", "-"])


@pytest.mark.xdist_group("spark")
def test_a_csv_file_becomes_a_green_gate_on_spark(spark, tmp_path, capsys):
    columns = orders(300)
    lines = [",".join(columns)]
    lines += [",".join("" if one is None else str(one) for one in row) for row in zip(*columns.values(), strict=True)]
    path, rules = tmp_path / "orders.csv", tmp_path / "rules.yml"
    path.write_text("\n".join(lines))
    assert main(["--table", str(path), "--suggest", str(rules)]) == 0
    assert "rules written to" in capsys.readouterr().out
    assert {"zip_decides_city", "ordered_not_after_shipped"} <= set(rules_of(rules.read_text()))
    request = {
        "state": str(tmp_path / "state"),
        "load_id": "1",
        "changes": source_of(str(path)),
        "constraints": str(rules),
    }
    assert apply_load(spark, request).decision == "pass"


@pytest.mark.xdist_group("spark")
def test_a_csv_file_has_the_values_that_were_written(spark, tmp_path):
    path = tmp_path / "said.csv"
    rows = [(place, f'he said "{place % 4}", twice', f"a\nb\\{place % 3}", " x", "it's") for place in range(12)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "quoted", "lines", "space", "mark"), *rows])
    source = source_of(str(path))
    read = spark.read.format(source["format"]).options(**source["options"]).load(source["path"])
    assert [tuple(row) for row in read.orderBy("id").collect()] == rows


@pytest.mark.xdist_group("spark")
def test_a_file_without_anything_has_no_columns(spark, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("")
    with pytest.raises(RequestError, match=r"^The table has no columns\."):
        answer_for_people(spark, Namespace(table=str(path), **OPTIONS))
