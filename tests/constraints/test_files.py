from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.files import check_columns, load_constraints, to_mapping
from dc_engine.constraints.model import Constraint, ConstraintSet, Tolerance
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.printer import formula
from dc_engine.errors import ConstraintError, SchemaError
from tests.constraints.documents import one, refusal, write
from tests.constraints.strategies import any_body, any_name

TAX = """\
version: 1
table: tax
key: [id]
constraints:
  - name: phone_is_unique
    unique: [area_code, phone]
  - name: zip_decides_city
    fd: zip -> city
  - name: rate_follows_salary
    deny: t.state = s.state and t.salary > s.salary and t.rate < s.rate
    max_new_violations: 3
    severity: warn
    nulls: equal
    description: Within a state nobody earns more and pays a lower rate.
  - name: rate_ordered_by_salary
    order: salary -> rate      # no swap and no split
    within: [state]
  - name: better_exams_better_grade
    pod: midterm >, final > -> grade >
    max_violating_rows: "0.1%"
  - name: salary_is_positive
    deny: t.salary <= 0
    max_violating_rows: 5
"""


class TestReading:
    def test_a_file_becomes_a_constraint_set(self, tmp_path: Path) -> None:
        tax = load_constraints(write(tmp_path, TAX))
        assert (tax.table, tax.key) == ("tax", ("id",))
        assert [(one.name, one.kind, formula(one)) for one in tax.constraints] == [
            ("phone_is_unique", "unique", "not (t.area_code = s.area_code and t.phone = s.phone)"),
            ("zip_decides_city", "fd", "not (t.zip = s.zip and t.city != s.city)"),
            (
                "rate_follows_salary",
                "deny",
                "not (t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
            ),
            (
                "rate_ordered_by_salary",
                "order",
                "not (t.state = s.state and t.salary = s.salary and t.rate != s.rate)"
                " and not (t.state = s.state and t.salary < s.salary and t.rate > s.rate)",
            ),
            (
                "better_exams_better_grade",
                "pod",
                "not (t.midterm > s.midterm and t.final > s.final and t.grade <= s.grade)",
            ),
            ("salary_is_positive", "deny", "not (t.salary <= 0)"),
        ]

    def test_options_are_read_and_have_defaults(self, tmp_path: Path) -> None:
        unique, _, deny, _, pod, positive = load_constraints(write(tmp_path, TAX)).constraints
        assert (unique.nulls, unique.severity, unique.tolerance) == ("ignore", "error", Tolerance(0))
        assert (deny.nulls, deny.severity, deny.tolerance) == ("equal", "warn", Tolerance(3))
        assert deny.description == "Within a state nobody earns more and pays a lower rate."
        assert pod.tolerance == Tolerance(None, max_violating_share=Decimal("0.001"))
        assert positive.tolerance == Tolerance(None, max_violating_rows=5)

    def test_path_text_uri_and_mapping_give_the_same(self, tmp_path: Path) -> None:
        path = write(tmp_path, TAX)
        import yaml

        sources = [
            path,
            str(path),
            f"file://{path}",
            yaml.safe_load(TAX),
            json.loads(json.dumps(yaml.safe_load(TAX))),
        ]
        assert len({load_constraints(source) for source in sources}) == 1

    def test_a_json_file_and_a_byte_order_mark_are_read_too(self, tmp_path: Path) -> None:
        path = tmp_path / "tax.json"
        path.write_text("\ufeff" + json.dumps(one(fd="zip -> city"), indent=1), encoding="utf-8")
        assert load_constraints(path).constraints[0].kind == "fd"

    def test_an_fd_with_several_right_columns_is_one_constraint_for_each(self) -> None:
        constraints = load_constraints(one(fd="zip -> city, `the state`", severity="warn")).constraints
        assert [(each.name, each.severity) for each in constraints] == [
            ("x.city", "warn"),
            ("x.the state", "warn"),
        ]

    def test_columns_are_a_list_or_a_text(self) -> None:
        listed = load_constraints(one(unique=["area_code", "`the phone`", "a b"]))
        assert listed == load_constraints(one(unique="area_code, `the phone`, `a b`"))

    def test_a_formula_can_be_pasted(self) -> None:
        pasted = load_constraints(one(formula="not (t.zip = s.zip and t.city != s.city)")).constraints[0]
        assert pasted.kind == "deny"
        assert pasted.bodies == load_constraints(one(fd="zip -> city")).constraints[0].bodies

    def test_bodies_are_normalised(self) -> None:
        constraint = load_constraints(one(deny="s.a < t.b and t.b > s.a")).constraints[0]
        assert formula(constraint) == "not (t.b > s.a)"

    def test_a_percentage_may_be_bare(self, tmp_path: Path) -> None:
        text = TAX.replace('"0.1%"', "12.5 %")
        assert load_constraints(write(tmp_path, text)).constraints[4].tolerance.max_violating_share == Decimal("0.125")

    def test_the_examples_of_the_documentation_are_read(self, tmp_path: Path) -> None:
        page = Path(__file__).parents[2] / "docs" / "constraints.md"
        whole, entry, section, *_ = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        assert len(load_constraints(write(tmp_path, whole)).constraints) == 6
        assert load_constraints(write(tmp_path, TAX + entry.replace("zip_decides", "pasted"))).table == "tax"
        assert len(load_constraints(write(tmp_path, whole + section)).dependencies.pinned) == 3


class TestMapping:
    def test_a_constraint_set_survives_json(self, tmp_path: Path) -> None:
        tax = load_constraints(write(tmp_path, TAX))
        assert load_constraints(json.loads(json.dumps(to_mapping(tax)))) == tax

    @given(
        st.lists(any_body, min_size=1, max_size=3),
        st.lists(any_name.filter(lambda name: name.strip("`")), max_size=2, unique_by=str.casefold),
        st.sampled_from(
            [
                Tolerance(),
                Tolerance(7),
                Tolerance(None, max_violating_rows=3),
                Tolerance(None, max_violating_share=Decimal("0.00001")),
                Tolerance(None, max_violating_share=Decimal(1)),
            ]
        ),
    )
    def test_any_constraint_survives_json(self, bodies: list, key: list[str], tolerance: Tolerance) -> None:
        constraints = []
        for number, body in enumerate(map(normalise, bodies)):
            try:
                check_bodies((body,))
            except ConstraintError:
                continue
            constraints.append(Constraint(f"c{number}", "deny", (body,), "equal", "warn", tolerance, "Why not?"))
        if constraints:
            whole = ConstraintSet("tax", tuple(key), tuple(constraints))
            assert load_constraints(json.loads(json.dumps(to_mapping(whole)))) == whole

    def test_a_kind_that_its_formula_does_not_fit_is_refused(self) -> None:
        error = refusal(one(formula="not (t.a = s.a)", kind="fd"))
        assert error.message == "constraints: constraint 'x': its formula is not that of kind 'fd'."


class TestFiles:
    def test_a_missing_file_is_named_with_the_nearest_one(self, tmp_path: Path) -> None:
        write(tmp_path, TAX)
        error = refusal(tmp_path / "taxes.yml")
        assert error.message == f"{tmp_path}/taxes.yml: there is no such constraint file."
        assert error.hint == "Did you mean 'tax.yml'?"

    def test_a_missing_file_that_no_other_is_like_is_told_what_is_in_its_folder(self, tmp_path: Path) -> None:
        assert refusal(tmp_path / "tax.yml").hint == f"The folder {tmp_path} has no YAML or JSON file."
        for name in "abcdef":
            write(tmp_path, TAX).rename(tmp_path / f"{name}.yml")
        shown = "a.yml, b.yml, c.yml, d.yml, e.yml, ..."
        assert refusal(tmp_path / "something.yml").hint == f"The folder {tmp_path} has {shown}."
        assert refusal(tmp_path / "no" / "tax.yml").hint.startswith(f"There is no folder {tmp_path}/no: ")

    def test_a_missing_folder_a_folder_and_an_unknown_scheme_are_refused(self, tmp_path: Path) -> None:
        assert "no such constraint file" in refusal(tmp_path / "no" / "tax.yml").message
        assert "cannot be read" in refusal(tmp_path).message
        assert "cannot be read" in refusal("nonsense://bucket/tax.yml").message
        assert "no such constraint file" in refusal("memory://nowhere/tax.yml").message

    def test_a_file_that_is_not_utf8_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "tax.yml"
        path.write_bytes("table: Größe".encode("latin-1"))
        assert "is not UTF-8 text" in refusal(path).message

    def test_a_file_in_a_filesystem_of_fsspec_is_read(self) -> None:
        import fsspec

        with fsspec.open("memory://constraints/tax.yml", "w") as file:
            file.write(TAX)
        assert load_constraints("memory://constraints/tax.yml").table == "tax"

    def test_importing_the_language_imports_neither_yaml_nor_fsspec(self) -> None:
        code = "import sys, dc_engine.constraints.files; print({'yaml', 'fsspec'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "set()"


class TestColumns:
    tax = load_constraints({**one(fd="Zip -> city"), "key": ["id"]})

    def test_columns_are_found_whatever_their_case(self) -> None:
        check_columns(self.tax, ["ID", "ZIP", "City", "other"], source="the changes")

    def test_a_missing_column_is_named_with_its_constraint_and_the_nearest_one(self) -> None:
        with pytest.raises(SchemaError) as caught:
            check_columns(self.tax, ["id", "zip", "citty"], source="parquet at /load")
        assert caught.value.message == "Column city, which constraint 'x' needs, is not in parquet at /load."
        assert caught.value.hint == "Did you mean 'citty'?"

    def test_a_missing_key_column_is_named(self) -> None:
        with pytest.raises(SchemaError, match="Column id, which the key needs, is not in the changes"):
            check_columns(self.tax, ["zip", "city"], source="the changes")

    def test_two_columns_that_differ_only_by_case_are_ambiguous_where_one_is_needed(self) -> None:
        with pytest.raises(SchemaError, match=r"Column Zip, .* is ambiguous in the changes: it has zip and ZIP"):
            check_columns(self.tax, ["id", "zip", "ZIP", "city"], source="the changes")
        check_columns(self.tax, ["id", "zip", "city", "x", "X"], source="the changes")
