"""The commands on a small state, without Spark: what they print, and by which exit code a script knows how it went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dc_engine.cli import main
from dc_engine.cli.arguments import COMMANDS, parser
from dc_engine.deciding import record_decision
from dc_engine.state.storage import Storage
from dc_engine.verdict import Decided
from tests.cli.conftest import Dcgate


def test_show_prints_the_verdict_what_matters_last_and_says_by_its_code_whether_the_load_passed(dcgate: Dcgate) -> None:
    passed = dcgate("show", "mon", "--state", "state")
    assert (passed.code, passed.err) == (0, "")
    assert passed.out.startswith("Load mon of table orders: PASS; rows: 2 inserted, 2 in all; snapshot 1 of /")
    failed = dcgate("show", "tue", "--state", "state")
    assert failed.code == 1
    assert failed.out.startswith("Load tue of table orders broke 2 of 2 rules.\n\none_amount (error): 1 new violation")
    assert failed.out.splitlines()[-3:] == [
        "rule        severity  new  total  violating rows  decision",
        "one_amount  error       1      1               1  FAIL",
        "positive    warn        1      1               1  WARN",
    ]


def test_show_gives_the_document_and_masks_what_is_asked_for(dcgate: Dcgate) -> None:
    done = dcgate("show", "tue", "--state", "state", "--json", "--mask", "customer")
    verdict = json.loads(done.out)
    assert (done.code, verdict["decision"], verdict["load_id"]) == (1, "fail", "tue")
    assert {side["values"]["customer"] for one in verdict["constraints"][0]["samples"] for side in one.values()} == {
        "***"
    }
    assert "'a'" not in done.out


def test_a_load_that_a_person_approved_passes(dcgate: Dcgate, folder: Path) -> None:
    storage = Storage(str(folder / "state"))
    record_decision(storage, "tue", 2, Decided("approved", "ada", "2026-01-01T00:00:00+00:00", "known"))
    assert dcgate("show", "tue", "--state", "state").code == 0


def test_describe_shows_rules_violations_and_loads(dcgate: Dcgate) -> None:
    done = dcgate("describe", "--state", "state")
    assert (done.code, done.err) == (0, "")
    assert "1  one_amount: not (t.customer = s.customer and t.amount != s.amount)" in done.out
    assert json.loads(dcgate("describe", "--state", "state", "--json").out)["rows"] == 4


def test_verify_finds_damage_and_says_so_by_its_code(dcgate: Dcgate, folder: Path) -> None:
    sound = dcgate("verify", "--state", "state")
    assert (sound.code, sound.out.splitlines()[-1]) == (0, "sound")
    assert dcgate("verify", "--state", "state", "--no-totals").code == 0
    damaged = next((folder / "state" / "index").rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-3])
    found = dcgate("verify", "--state", "state", "--json")
    assert (found.code, json.loads(found.out)["sound"]) == (1, False)
    told = dcgate("verify", "--state", "state").out.splitlines()
    assert "Restore the files that are named from a copy" in told[-3]
    assert told[-1] == f"  dcgate rebuild --state {folder / 'state'}"
    assert "text" not in json.loads(found.out)


def test_a_state_is_maintained(dcgate: Dcgate, folder: Path) -> None:
    gone = dcgate("retract", "tue", "--state", "state")
    assert gone.code == 0
    assert "Load tue was taken out: 4 -> 2 rows; snapshot 3; violations now: one_amount 0, positive 0" in gone.out
    assert dcgate("compact", "--state", "state").code == 0
    assert "removed" in dcgate("vacuum", "--state", "state", "--keep-snapshots", "1", "--grace-hours", "0").out
    rebuilt = dcgate("rebuild", "--state", f"file://{folder}/state", "--json")
    assert json.loads(rebuilt.out)["total_violations"] == {"one_amount": 0, "positive": 0}
    assert dcgate("verify", "--state", "state").code == 0


def test_a_request_says_all_and_options_win_over_it(dcgate: Dcgate, folder: Path) -> None:
    (folder / "r.json").write_text(json.dumps({"state": "nowhere", "load_id": "tue"}))
    assert "Load tue was taken out" in dcgate("retract", "--request", "r.json", "--state", "state").out
    assert "Load mon was taken out" in dcgate("retract", "mon", "--request", "r.json", "--state", "state").out
    (folder / "r.json").write_text("[]")
    assert dcgate("describe", "--request", "r.json").err == "dcgate: The request r.json is not a JSON object.\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"space": None, "limits": None}, "'max_terms' in 'limits' must be a whole number of at least 1, not 0."),
        ({"space": [1]}, "'space' in the request must be an object, not [1]."),
        ({"limits": 3}, "'limits' in the request must be an object, not 3."),
    ],
)
def test_options_are_added_to_what_a_request_may_say(
    dcgate: Dcgate, folder: Path, asked: dict[str, Any], said: str
) -> None:
    (folder / "r.json").write_text(json.dumps({"state": "state", **asked}))
    done = dcgate("discover", "--request", "r.json", "--exclude", "id", "--max-terms", "0")
    assert (done.code, done.err) == (2, f"dcgate: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "wed", "--state", "state"], "has no verdict of load 'wed'.\nHint: The newest load is 'tue'."),
        (["describe", "--state", "nowhere"], "There is no state in "),
        (["describe"], "--state must be given, on the command line or in a --request."),
        (["retract", "--state", "state"], "LOAD must be given"),
        (["show", "monday", "--state", ""], "--state must be given"),
        (["check", "."], "the constraint file cannot be read"),
        (["apply", "--state", "state"], "--load-id, --changes and --constraints must be given"),
        (["apply", "--request", "no.json"], "There is no request no.json.\nHint: A request is one JSON object, for"),
        (["discover"], "discover needs --table, --state or --request."),
        (["discover", "--state", "state", "--suggest", "-"], "--suggest goes with --table alone"),
        (["discover", "--table", "order.csv"], "There is no file order.csv.\nHint: Did you mean 'orders.csv'?"),
        (["verify", "--state", "state", "--table", "rules.yml"], "The name of rules.yml does not tell the format"),
        (["verify", "--state", "state", "--table", "orders.csv", "--option", "x"], "Write --option NAME=VALUE."),
        (["describe", "--state", "state", "--conf", "x"], "Write --conf NAME=VALUE."),
        (["describe", "--state", "state", "--master", "a", "--remote", "b"], "Both --master and --remote are given."),
        (["check", "rule.yml"], "there is no such constraint file.\nHint: Did you mean 'rules.yml'?"),
        (["check", "rules.yml", "--sample", "orders.csv", "--schema", "a INT"], "needs Spark"),
        (["check", "rules.yml", "--sample", "orders.csv", "--option", "dateFormat=y"], "needs Spark"),
        (["check", "rules.yml", "--sample", "orders.csv", "--option", "sep=;;"], "needs Spark"),
        (["check", "rules.yml", "--sample", "orders.csv", "--option", "quote="], "needs Spark"),
        (["check", "rules.yml", "--sample", "rules.yml", "--format", "orc"], "needs Spark"),
        (["check", "rules.yml", "--sample", "rules.yml", "--format", "parquet"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_a_hint_and_code_2(dcgate: Dcgate, arguments: list[str], said: str) -> None:
    done = dcgate(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dcgate: ")
    assert said in done.err
    assert len(done.err.splitlines()) <= 2
    document = json.loads(dcgate(*arguments, "--json").out)
    assert document["error"]["message"] in done.err.replace("\n", " ")


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time32("ms"), pa.float16(), pa.decimal256(50, 2)])
def test_a_sample_with_a_type_that_spark_does_not_read_fits_no_rules(
    dcgate: Dcgate, folder: Path, kind: pa.DataType
) -> None:
    pq.write_table(pa.table({"id": [1], "odd": pa.array([None], kind)}), folder / "odd.parquet")
    done = dcgate("check", "rules.yml", "--sample", "odd.parquet")
    assert done.code == 2
    assert f"the type {kind} in column 'odd', which Spark does not read" in done.err


def test_wrong_usage_is_code_2_too(dcgate: Dcgate, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["aply"], ["show"], ["vacuum", "--keep-snapshots", "many"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
    assert "invalid choice: 'aply'" in capsys.readouterr().err


def test_an_unforeseen_error_is_a_sentence_and_only_with_debug_a_traceback(
    dcgate: Dcgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dc_engine.maintain.describe", lambda *_: 1 // 0)
    done = dcgate("describe", "--state", "state")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "dcgate: An unexpected error: ZeroDivisionError: integer division or modulo by zero.\n"
        "Hint: --debug shows where it happened.\n"
    )
    masked = dcgate("describe", "--state", "state", "--mask", "customer")
    assert "modulo" not in masked.err
    told = dcgate("describe", "--state", "state", "--debug")
    assert told.code == 2, "1 would say that rules are broken"
    assert "ZeroDivisionError: integer division" in told.err.split("Traceback", 1)[1]


def test_debug_shows_where_an_error_comes_from(dcgate: Dcgate) -> None:
    assert "Traceback" in dcgate("show", "wed", "--state", "state", "--debug").err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_an_example_that_can_be_parsed(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    examples = capsys.readouterr().out.partition("example:\n")[2].splitlines()
    words = [one.split("   ")[0].split() for one in examples if "..." not in one]
    assert words
    for _, *arguments in words:
        assert parser().parse_args(arguments).command == command


def test_alone_it_says_how_it_is_used(dcgate: Dcgate) -> None:
    done = dcgate()
    assert (done.code, done.out) == (2, "")
    assert "dcgate check rules.yml --sample orders.csv" in done.err


def test_it_says_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    import airflow_dc_provider

    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"dcgate {airflow_dc_provider.__version__}\n"


class TestCheck:
    def test_good_rules_are_listed(self, dcgate: Dcgate) -> None:
        done = dcgate("check", "rules.yml")
        assert done.code == 0
        assert done.out.splitlines() == [
            "rules.yml: 2 rules for table orders, key id",
            "one_amount  error  not (t.customer = s.customer and t.amount != s.amount)",
            "positive    warn   not (t.amount <= 0)",
        ]
        document = json.loads(dcgate("check", "rules.yml", "--json").out)
        assert (document["valid"], document["key"], len(document["constraints"])) == (True, ["id"], 2)

    def test_a_mistake_is_an_answer_with_its_line(self, dcgate: Dcgate, folder: Path) -> None:
        (folder / "bad.yml").write_text((folder / "rules.yml").read_text().replace("<=", "=<"))
        done = dcgate("check", "bad.yml")
        assert (done.code, done.err) == (1, "")
        assert done.out.startswith("bad.yml:8: constraint 'positive': 'deny': expected")
        assert done.out.endswith("Hint: Write '<='.\n")
        assert json.loads(dcgate("check", "bad.yml", "--json").out)["valid"] is False

    def test_rules_fit_a_sample_or_what_does_not_is_named(self, dcgate: Dcgate, folder: Path) -> None:
        done = dcgate("check", "rules.yml", "--sample", "orders.csv")
        assert done.code == 0
        assert done.out.endswith("They fit orders.csv: id bigint, customer string, amount bigint\n")
        (folder / "other.csv").write_text("id;customer;amount\n1;a;x\n")
        done = dcgate("check", "rules.yml", "--sample", "other.csv")
        assert done.code == 1
        assert "There is one column, 'id;customer;amount': add the option sep=;." in done.out
        done = dcgate("check", "rules.yml", "--sample", "other.csv", "--option", "sep=;")
        assert done.code == 1
        assert "Constraint 'positive' compares a column of type string with a number (0)." in done.out
        (folder / "bare.csv").write_text("1,a,7\n")
        done = dcgate("check", "rules.yml", "--sample", "bare.csv", "--option", "header=false")
        assert (done.code, "header=true" in done.out) == (1, True)

    def test_rows_that_are_not_there_do_not_end_the_process(self, dcgate: Dcgate, folder: Path) -> None:
        (folder / "rows.json").write_bytes(b'\xef\xbb\xbfnull\n null\n{"id": 1, "customer": "a", "amount": 2}\nnull\n')
        done = dcgate("check", "rules.yml", "--sample", "rows.json")
        assert (done.code, done.out.splitlines()[-1]) == (
            0,
            "They fit rows.json: id bigint, customer string, amount bigint",
        )
        (folder / "none.json").write_text("null\n")
        assert dcgate("check", "rules.yml", "--sample", "none.json").out.startswith("Column id, which the key needs")
