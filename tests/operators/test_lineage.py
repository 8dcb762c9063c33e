"""What OpenLineage gets of a verdict."""

from __future__ import annotations

import json

import attr
import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.providers.openlineage.extractors.manager import ExtractorManager

from airflow_dc_provider.exceptions import DcViolationError
from airflow_dc_provider.lineage import dataset_name


@pytest.fixture
def lineage(gate, fake_spark, ti):
    """What the provider extracts from a gate that has ended."""

    def extracted(answer, **arguments):
        fake_spark.answers(answer)
        task = gate(**arguments)
        try:
            task.execute({"ti": ti})
        except DcViolationError:
            return DefaultExtractor(task).extract_on_failure(None)
        return DefaultExtractor(task).extract_on_complete(None)

    return extracted


def test_airflows_provider_asks_the_gate_itself(gate):
    assert ExtractorManager().get_extractor_class(gate()) is DefaultExtractor


def test_each_rule_is_an_assertion_on_the_rows_of_the_load(lineage, failing):
    failing["dependencies"] = {
        "invalidated": [
            {
                "id": "fd-1",
                "class": "fd",
                "text": "zip -> state",
                "formula": "not (...)",
                "violations": 3,
                "watched": True,
            },
            {"id": "fd-2", "class": "fd", "text": "id -> state", "formula": "not (...)", "watched": False},
        ]
    }
    (dataset,) = lineage(failing, changes={"path": "s3a://lake/landing/wednesday/"}).inputs
    assert (dataset.namespace, dataset.name) == ("s3://lake", "landing/wednesday")
    assertions = dataset.inputFacets["dataQualityAssertions"].assertions
    assert [(one.name, one.success, one.severity, one.actual) for one in assertions] == [
        ("zip_decides_city", False, "error", "31"),
        ("salary_is_positive", True, "warn", "0"),
        ("zip -> state", False, "warn", "3"),
    ]
    assert assertions[0].content == "not (t.zip = s.zip and t.city != s.city)"
    assert assertions[0].expected == "at most 0 new violations"
    assert dataset.inputFacets["dataQualityMetrics"].rowCount == 1000


def test_no_value_of_the_data_is_in_it(lineage, failing):
    told = json.dumps([attr.asdict(one) for one in lineage(failing).inputs], default=str)
    assert not [value for value in ("Berln", "10115", "Hambrg") if value in told]


def test_a_gate_that_never_got_a_verdict_has_nothing_to_tell(gate):
    assert DefaultExtractor(gate()).extract_on_complete(None) is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"path": "/landing/monday.parquet"}, ("file", "/landing/monday.parquet")),
        ({"path": "file:///landing/monday"}, ("file", "/landing/monday")),
        ({"path": "gs://lake/landing/monday"}, ("gs://lake", "landing/monday")),
        ({"path": "abfss://files@lake.dfs.core.windows.net/x"}, ("abfss://files@lake.dfs.core.windows.net", "x")),
        ({"table": "lake.tax"}, ("spark", "lake.tax")),
        ({"sql": "select 1"}, ("spark", "tax")),
    ],
)
def test_datasets_are_named_as_openlineage_names_them(changes, name):
    assert dataset_name(changes, "tax") == name
