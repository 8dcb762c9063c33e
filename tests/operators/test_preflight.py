"""What must be there before a job is submitted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dc_provider import preflight
from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.preflight import is_connect, is_local, local_environment, spark_connection
from dc_engine.java import java_problem, java_version


@pytest.fixture
def gate(rules: dict[str, Any], tmp_path: Path) -> DcGateOperator:
    return DcGateOperator(
        task_id="gate",
        constraints=rules,
        changes={"path": "/landing"},
        state=str(tmp_path / "state"),
        load_id="one",
    )


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestConnection:
    def test_a_missing_one_is_refused_with_the_command_that_makes_it(self, gate, fake_spark, ti, monkeypatch):
        monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
        with pytest.raises(DcGateError) as caught:
            gate.execute({"ti": ti})
        assert "no Airflow connection 'spark_default'" in str(caught.value)
        assert "airflow connections add spark_default --conn-type spark --conn-host 'local[2]'" in str(caught.value)
        assert not fake_spark.was_called

    def test_one_of_another_type_is_refused(self, monkeypatch):
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", '{"conn_type": "http", "host": "x"}')
        with pytest.raises(DcGateError, match="'other' is of type 'http'"):
            spark_connection("other")

    @pytest.mark.parametrize(
        "made", ['{"conn_type": "spark_connect", "host": "x"}', "spark-connect://x", "sc://x:15002"]
    )
    def test_a_spark_connect_server_is_known_however_it_is_written(self, monkeypatch, made):
        monkeypatch.setenv("AIRFLOW_CONN_SERVER", made)
        assert is_connect(spark_connection("server"))

    def test_two_versions_of_pyspark_in_one_place_are_refused(self, monkeypatch):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
        monkeypatch.setattr(preflight, "version", {"pyspark": "4.1.3", "pyspark-client": "4.2.0"}.get)
        with pytest.raises(DcGateError, match=r"pyspark 4\.1\.3 and pyspark-client 4\.2\.0 are installed") as caught:
            spark_connection("spark_default")
        assert "--no-deps 'pyspark==4.1.*' 'pyspark-client==4.1.*'" in caught.value.hint
        monkeypatch.setattr(preflight, "version", {"pyspark": "4.2.1", "pyspark-client": "4.2.0"}.get)
        spark_connection("spark_default")

    @pytest.mark.parametrize(
        ("host", "local"),
        [
            ("local", True),
            ("local[2]", True),
            ("local[*]", True),
            ("local-cluster[2,1,1024]", True),
            ("localhost", False),
            ("yarn", False),
            ("spark://localhost:7077", False),
            (None, False),
        ],
    )
    def test_knows_a_local_master(self, host, local):
        assert is_local(SimpleNamespace(conn_type="spark", host=host)) is local


class TestJava:
    @pytest.mark.parametrize(
        ("said", "version"),
        [
            ('openjdk version "17.0.15" 2025-04-15', 17),
            ('openjdk version "21" 2023-09-19', 21),
            ('java version "1.8.0_392"', 8),
            ("no such thing", None),
        ],
    )
    def test_reads_the_version(self, said, version):
        assert java_version(said) == version

    def test_a_new_one_is_fine(self, tmp_path):
        program(tmp_path, "java", "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
        assert java_problem({"PATH": str(tmp_path)}) == ""

    def test_an_old_one_is_named(self, tmp_path):
        program(tmp_path, "java", "echo 'openjdk version \"11.0.1\" 2018-10-16' >&2")
        assert java_problem({"PATH": str(tmp_path)}).endswith(f"{tmp_path}/java is Java 11.")

    def test_java_home_comes_first(self, tmp_path):
        program(tmp_path, "java", "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
        environment = {"PATH": str(tmp_path), "JAVA_HOME": "/not/here"}
        assert "there is no java in JAVA_HOME (/not/here)" in java_problem(environment)

    def test_something_else_named_java_is_not_one(self, tmp_path):
        program(tmp_path, "java", "echo please install java")
        assert "please install java" in java_problem({"PATH": str(tmp_path)})

    def test_the_gate_says_how_to_get_one(self, gate, fake_spark, ti, monkeypatch):
        monkeypatch.setenv("PATH", str(fake_spark.folder))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(DcGateError, match=r"(?s)no java on PATH.*apt-get install openjdk-17"):
            gate.execute({"ti": ti})
        assert not fake_spark.was_called


class TestSparkSubmit:
    @pytest.fixture(autouse=True)
    def _java(self, tmp_path, monkeypatch):
        program(tmp_path / "java", "java", "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
        monkeypatch.setenv("PATH", str(tmp_path / "java"))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    def test_one_beside_this_python_is_found_without_path(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
        program(tmp_path / "venv", "spark-submit", "")
        added = local_environment("spark-submit", {})
        assert added["PATH"] == f"{tmp_path}/venv:{tmp_path}/java"
        assert added["PYSPARK_PYTHON"] == sys.executable

    def test_a_missing_one_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
        with pytest.raises(DcGateError, match=r"(?s)'spark3-submit' is neither on PATH.*pip install pyspark"):
            local_environment("spark3-submit", {})
