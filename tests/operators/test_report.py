"""Verdicts in words."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from airflow_dc_provider.report import short_message, summary, violation_message, warning_message
from dc_engine.cli.arguments import parser
from dc_engine.reporting import (
    MAX_RULES_IN_DETAIL,
    MAX_RULES_IN_TABLE,
    broken_rule_lines,
    facts_line,
    retracting,
    rule_table,
    tolerated,
    verdict_lines,
)
from dc_engine.verdict import Decided, Verdict
from dc_engine.wording import MAX_LINE, example_lines, plain, row_name, wrapped


@pytest.fixture
def verdict(failing):
    return Verdict.from_dict(failing)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        ("", ""),
        (12.5, "12.5"),
        ("München, 東京", "München, 東京"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\x1b[2J\u2028\u202e", "\\x1b[2J\\u2028\\u202e"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 37 + "..."),
        ("\n" * 40, "\\n" * 18 + "\\..."),
    ],
)
def test_plain_values(value, shown):
    assert plain(value) == shown


def test_a_long_value_is_not_escaped_whole():
    assert len(plain("\x00" * 50_000_000)) == 40


def test_a_pair_stands_side_by_side_key_first():
    sample = {
        "t": {"row": {"id": 17}, "values": {"zip": "10115", "city": "Berln"}, "rows": 1},
        "s": {"row": {"id": 3}, "values": {"zip": "10115", "city": "Berlin"}, "rows": 8},
    }
    assert example_lines(sample, "example 1") == [
        "example 1     t      s",
        "  id          17     3",
        "  zip         10115  10115",
        "  city        Berln  Berlin",
        "  rows alike  1      8",
    ]


def test_one_row_stands_alone():
    sample = {"t": {"row": {"id": 17}, "values": {"salary": -5}, "rows": 1}, "s": None}
    assert example_lines(sample, "example 1") == ["example 1  t", "  id       17", "  salary   -5"]


def test_rows_are_named_by_their_key():
    assert row_name({"id": 17, "day": "a\nb"}) == "id=17, day=a\\nb"
    assert row_name({}) == "a row without a key"


def test_the_table_has_broken_rules_first_and_an_end(verdict, failing):
    assert [line.split()[0] for line in rule_table(verdict)] == [
        "rule",
        "zip_decides_city",
        "salary_is_positive",
    ]
    clean = failing["constraints"][1]
    failing["constraints"] += [{**clean, "name": f"rule_{number}"} for number in range(100)]
    lines = rule_table(Verdict.from_dict(failing))
    assert len(lines) == 1 + MAX_RULES_IN_TABLE + 1
    assert lines[-1] == "... and 62 more rules, 0 of them broken"


def test_facts(verdict, failing):
    assert facts_line(verdict, "/state/tax") == (
        "Load 2026-01-03 of table tax: FAIL; rows: 1,000 inserted, 22,000 in all; snapshot 3 of /state/tax; 1.4 s"
    )
    again = Verdict.from_dict({**failing, "replayed": True, "rows": {"inserted": 1, "deleted": 2, "total": 3}})
    assert facts_line(again, "/state/tax") == (
        "Load 2026-01-03 of table tax: FAIL; rows: 1 inserted, 2 deleted, 3 in all; "
        "snapshot 3 of /state/tax; "
        "applied before with the same rows: this is the stored verdict"
    )


def test_facts_of_deletes_replacement_and_discarding(failing):
    failing |= {"replaced": True, "discarded": True}
    failing["rows"] |= {"deleted": 2, "missing_deletes": 1_000, "replaced_keys": 3}
    assert facts_line(Verdict.from_dict(failing), "/state/tax") == (
        "Load 2026-01-03 of table tax: FAIL; rows: 1,000 inserted, 2 deleted, 1,000 to delete not found, "
        "3 replaced by key, 22,000 in all; snapshot 3 of /state/tax; "
        "it replaces an earlier attempt with other rows; discarded: its rows are not in the state; 1.4 s"
    )


def test_removed_violations_have_a_column_when_there_are_any(failing):
    assert "removed" not in rule_table(Verdict.from_dict(failing))[0]
    failing["constraints"][1]["removed_violations"] = 12
    assert rule_table(Verdict.from_dict(failing)) == [
        "rule                severity  new  removed  total  violating rows  decision",
        "zip_decides_city    error      31        0     40               4  FAIL",
        "salary_is_positive  warn        0       12      0               0  pass",
    ]


def test_quarantined_rows_are_told_of(failing, quarantined):
    quarantined |= {"violating_rows": 1, "clean": "/quarantine/3/clean\nforged"}
    assert verdict_lines(Verdict.from_dict(failing), "/state")[:2] == [
        "Quarantine: 1 violating row (Parquet) in /quarantine/3/violating",
        "Quarantine: 996 clean rows (Parquet) in /quarantine/3/clean\\nforged",
    ]


RETRACT = "DcRetractLoadOperator(load_id='2026-01-03', state='/state/tax')"


@pytest.mark.parametrize("discarded", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("retried", [False, True])
@pytest.mark.parametrize("clean_rows", [None, 0, 996])
def test_the_advice_at_a_closed_gate_is_right_whatever_the_arguments(
    failing, quarantined, discarded, replayed, retried, clean_rows
):
    quarantine = None if clean_rows is None else {**quarantined, "clean_rows": clean_rows}
    facts = {**failing, "discarded": discarded, "replayed": replayed, "quarantine": quarantine}
    said = violation_message(Verdict.from_dict(facts), "/state/tax", retried=retried)
    steps = [line for line in said.splitlines() if line.startswith("  - ")]
    kinds = [line.removeprefix("  - ").split(":")[0] for line in steps]
    advice = dict(zip(kinds, steps, strict=True))

    assert ("wait for the next retry" in advice["The data is wrong"]) is retried
    assert ("run this task again under the same load_id" in advice["The data is wrong"]) is not retried
    assert ("The fixed rows replace these" in advice["The data is wrong"]) is not discarded, "there are none to replace"
    assert f"take it out of the state with {RETRACT} and run this task again" in advice["The rule is too strict"]
    assert ("unless a retry opens it" in said) is retried
    assert ("this is the stored verdict" in said) is replayed
    assert (f"in {quarantined['violating']}" in said) is (clean_rows is not None)
    if discarded:
        assert "the state is as it was without it" in said
        assert "The load should not be in the table" not in kinds, "it never got there"
        assert "It is known and the DAG must go on" not in kinds, "what is published then, the state would never get"
        publish = advice["It is known and the load must go to the table anyway"]
        assert "do not mark this task as success yet" in publish
        assert RETRACT in publish
        assert publish.index("rejected_load='keep'") < publish.index("mark it as success then")
    else:
        assert RETRACT in advice["The load should not be in the table"]
        assert "mark this task as success" in advice["It is known and the DAG must go on"]
    assert said.splitlines()[-1] == "  dcgate retract 2026-01-03 --state /state/tax", "for those who have a shell"
    clean = "The clean rows should go to the table without the others"
    assert (clean in kinds) is (discarded and bool(clean_rows)), "kept rows are all in the table"
    assert clean not in kinds or "/quarantine/3/clean" in advice[clean]


@pytest.mark.parametrize("discarded", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
def test_an_open_gate_says_what_became_of_the_rows(failing, discarded, replayed):
    said = warning_message(Verdict.from_dict({**failing, "discarded": discarded, "replayed": replayed}))
    assert "The gate stays open." in said
    assert ("must not add them to the table" in said) is discarded
    assert ("this is the stored verdict" in said) is replayed


def test_a_load_is_named_whole_so_that_the_advice_can_be_copied(failing):
    load_id = "manual__2026-11-17T09:04:17.734638+00:00-" + "1" * 200
    verdict = Verdict.from_dict({**failing, "load_id": load_id})
    assert f"Load {load_id} of table tax" in facts_line(verdict, "/state")
    assert f"DcRetractLoadOperator(load_id='{load_id}'" in violation_message(verdict, "/state")


@pytest.mark.parametrize("load_id", ["monday", "it's wed", "-1", "--state"])
def test_the_command_that_takes_a_load_out_means_that_load(failing, load_id):
    program, *words = shlex.split(retracting(Verdict.from_dict({**failing, "load_id": load_id}), "/state/the tax"))
    given = parser().parse_args(words)
    assert (program, given.command, given.load_id, given.state) == ("dcgate", "retract", load_id, "/state/the tax")


def test_notes_are_logged(failing):
    failing["notes"] = ["Constraint 'x' was removed."]
    assert verdict_lines(Verdict.from_dict(failing), "/state")[0] == "Note: Constraint 'x' was removed."


@pytest.mark.parametrize(
    ("tolerance", "words"),
    [
        ({"max_new_violations": 0}, "0 new violations"),
        ({"max_new_violations": 1}, "1 new violation"),
        ({"max_new_violations": None, "max_violating_rows": 5}, "5 violating rows"),
        ({"max_new_violations": None, "max_violating_rows": "0.1%"}, "violations by 0.1% of the load's rows"),
    ],
)
def test_tolerances(failing, tolerance, words):
    failing["constraints"][0] |= tolerance
    assert tolerated(Verdict.from_dict(failing).constraints[0].tolerance) == words


def test_a_rule_without_examples_is_still_told(failing):
    failing["constraints"][0] |= {
        "samples": [],
        "worst_rows": [],
        "violations": None,
        "violating_rows_listed": [],
    }
    lines = broken_rule_lines(Verdict.from_dict(failing).constraints[0], 1000)
    assert lines[0].startswith("zip_decides_city (error): 31 new violations by 4 of the load's 1,000 rows")
    assert len(lines) == 3


def test_many_broken_rules_make_no_endless_message(failing):
    first = failing["constraints"][0]
    failing["constraints"] = [{**first, "name": f"rule_{number}"} for number in range(300)]
    message = violation_message(Verdict.from_dict(failing), "/state")
    assert message.count("worst rows:") == MAX_RULES_IN_DETAIL
    assert len(message) < 10_000


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (
            Decided("approved", "Ada (ada)", "noon", "a typo\nof ours"),
            "Approved by Ada (ada) at noon: a typo\\nof ours",
        ),
        (Decided("rejected", "Ada", "noon"), "Rejected by Ada at noon"),
        (Decided("rejected", at="noon"), "Rejected, because nobody answered in time, at noon"),
    ],
)
def test_who_decided_is_told_last(verdict, decided, words):
    assert verdict_lines(replace(verdict, decided=decided), "/state")[-1] == words
    assert f" {words}. The gate is closed." in short_message(replace(verdict, decided=decided))


def test_long_lines_are_wrapped_but_not_within_a_path():
    path = "/state/" + "x" * 200
    lines = wrapped(["  - word " * 30, path, "", "short"]).splitlines()
    assert max(len(line) for line in lines if path not in line) <= MAX_LINE
    assert [line for line in lines if path in line] == [path]
    assert all(line.startswith("      ") for line in lines[1 : lines.index(path)])
    assert lines[-2:] == ["", "short"]


def test_the_summary_holds_no_value_of_the_data(verdict):
    assert "Berl" not in json.dumps(summary(verdict, "/state"))
