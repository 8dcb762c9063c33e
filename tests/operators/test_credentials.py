"""Credentials of the state's filesystem: where they go, and everywhere that they do not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_dc_provider.credentials import state_access
from airflow_dc_provider.exceptions import DcGateError, DcViolationError

SECRET = 'wJalrXUtnFEMI/K7"MDENG'
TOKEN = "IQoJb3JpZ2luX2VjEK"
AWS = {
    "conn_type": "aws",
    "login": "AKIAIOSFODNN7",
    "password": SECRET,
    "extra": {"aws_session_token": TOKEN, "endpoint_url": "http://minio:9000", "region_name": "eu-central-1"},
}
OPTIONS = {
    "key": "AKIAIOSFODNN7",
    "secret": SECRET,
    "token": TOKEN,
    "endpoint_url": "http://minio:9000",
    "client_kwargs": {"region_name": "eu-central-1"},
}


def shows(text: Any) -> bool:
    """Whether a secret is in a text, as it is or as JSON writes it."""
    return any(secret in str(text) for secret in (SECRET, json.dumps(SECRET)[1:-1], TOKEN))


def path_of_options(fake_spark: Any) -> str:
    arguments = fake_spark.call["arguments"]
    return arguments[arguments.index("--state-options") + 1]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def add(document: dict[str, Any], conn_id: str = "lake") -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(document))

    return add


@pytest.fixture
def unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow masks nothing, so that a leak cannot hide behind three stars."""
    from airflow.sdk._shared.secrets_masker import SecretsMasker

    monkeypatch.setattr(SecretsMasker, "add_mask", lambda *_: None)


class TestConnections:
    def test_an_aws_connection_gives_the_options_of_s3fs(self, connect):
        connect(AWS)
        assert state_access("lake").options == OPTIONS

    def test_s3fs_takes_them(self, connect):
        connect(AWS)
        filesystem, _ = fsspec.url_to_fs("s3://bucket/state", **state_access("lake").options)
        assert (filesystem.key, filesystem.secret, filesystem.token) == ("AKIAIOSFODNN7", SECRET, TOKEN)
        assert filesystem.endpoint_url == "http://minio:9000"

    def test_an_aws_connection_may_leave_the_keys_to_the_machine(self, connect):
        connect({"conn_type": "aws", "extra": {"region_name": "eu-central-1"}})
        assert state_access("lake").options == {"client_kwargs": {"region_name": "eu-central-1"}}

    @pytest.mark.parametrize("kind", ["wasb", "generic", "aws"])
    def test_storage_options_are_taken_as_they_are(self, connect, kind):
        options = {"account_name": "lake", "account_key": SECRET, "anon": False}
        connect({"conn_type": kind, "login": "ignored", "extra": {"storage_options": options}})
        assert state_access("lake").options == options

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            ({"conn_type": "ftp", "host": "x", "password": SECRET}, "of type 'ftp' does not say how"),
            ({"conn_type": "generic", "extra": {"storage_options": SECRET}}, "is not a JSON object"),
            ({**AWS, "extra": {"role_arn": "arn:aws:iam::1:role/x"}}, "asks for 'role_arn', which is not supported"),
        ],
    )
    def test_any_other_is_refused_with_how_to_write_it(self, connect, document, message):
        connect(document)
        with pytest.raises(DcGateError, match=rf'(?s){message}.*"storage_options": {{"account_name"') as caught:
            state_access("lake")
        assert not shows(caught.value)

    def test_a_missing_one_is_refused_with_the_command_that_makes_it(self):
        with pytest.raises(DcGateError, match="airflow connections add nowhere --conn-type aws"):
            state_access("nowhere")

    def test_every_secret_is_masked(self, connect):
        from airflow.sdk.log import redact

        connect({"conn_type": "generic", "extra": {"storage_options": {"a": {"b": ["deeply hidden"]}, "c": SECRET}}})
        access = state_access("lake")
        assert redact(f"one deeply hidden, two {SECRET}") == "one ***, two ***"
        assert not shows(redact(json.dumps(access.options))), "also as JSON writes them"

    def test_the_options_do_not_print(self, connect):
        connect(AWS)
        assert not shows(repr(state_access("lake")))


class TestWhereTheyGo:
    def test_the_driver_finds_them_in_a_file_that_only_this_user_can_read(self, gate, fake_spark, ti, passing, connect):
        connect(AWS)
        fake_spark.answers(passing)
        gate(state_conn_id="lake", env_vars={"MINE": "kept"}).execute({"ti": ti})
        assert fake_spark.call["state_options"] == OPTIONS
        assert fake_spark.call["modes"] == ["600", "700"]
        assert not Path(path_of_options(fake_spark)).parent.exists()
        assert fake_spark.call["environment"]["MINE"] == "kept"
        assert not shows(fake_spark.call["environment"]), "not even the connection, where it is a variable"
        assert "AIRFLOW_CONN_LAKE" in os.environ

    def test_without_a_connection_there_is_nothing_to_hand_on(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        assert "--state-options" not in fake_spark.call["arguments"]

    def test_a_job_that_dies_at_once_leaves_no_file(self, gate, fake_spark, ti, connect):
        connect(AWS)
        fake_spark.answers(None, exit_code=1)
        with pytest.raises(DcGateError):
            gate(state_conn_id="lake").execute({"ti": ti})
        assert not Path(path_of_options(fake_spark)).exists()

    def test_the_exchange_folder_is_opened_with_them(self, gate, fake_spark, ti, passing, connect, monkeypatch):
        opened = []
        monkeypatch.setattr(LocalFileSystem, "__init__", lambda self, **options: opened.append(options))
        connect({"conn_type": "generic", "extra": {"storage_options": {"auto_mkdir": True, "mine": "x"}}})
        with pytest.raises(DcGateError, match="cannot be written"):
            gate(state_conn_id="lake", state="local:///nowhere/at/all").execute({"ti": ti})
        assert opened[0]["mine"] == "x"

    @pytest.mark.parametrize("host", ["yarn", "spark://host:7077"])
    def test_a_driver_beside_the_task_gets_them_whatever_the_master(
        self, gate, fake_spark, ti, passing, connect, host, unmasked
    ):
        connect(AWS)
        connect({"conn_type": "spark", "host": host, "extra": {"deploy-mode": "client"}}, "cluster")
        fake_spark.answers(passing)
        gate(state_conn_id="lake", conn_id="cluster", env_vars={"HADOOP_CONF_DIR": "/x"}).execute({"ti": ti})
        assert fake_spark.call["state_options"] == OPTIONS
        assert not shows(fake_spark.call["arguments"])
        assert not shows(fake_spark.call["environment"])

    @pytest.mark.parametrize(
        ("extra", "arguments"),
        [
            ({"deploy-mode": "cluster"}, {}),
            ({}, {"deploy_mode": "cluster"}),
            ({}, {"conf": {"spark.submit.deployMode": "cluster"}}),
        ],
    )
    def test_a_driver_elsewhere_is_refused(self, gate, fake_spark, ti, connect, extra, arguments):
        connect(AWS)
        connect({"conn_type": "spark", "host": "yarn", "extra": extra}, "cluster")
        with pytest.raises(DcGateError, match=r"(?s)deploy mode 'cluster'.*the driver runs on another.*instance role"):
            gate(state_conn_id="lake", conn_id="cluster", **arguments).execute({"ti": ti})
        assert not fake_spark.was_called


class TestWhereTheyDoNotGo:
    @pytest.mark.parametrize("ending", ["pass", "fail", "error", "crash"])
    def test_no_log_argument_template_xcom_message_or_file_has_them(
        self, gate, fake_spark, ti, passing, connect, unmasked, capfd, caplog, tmp_path, ending
    ):
        from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

        connect(AWS)
        error = {"type": "StateError", "message": "The state is damaged.", "hint": ""}
        answers = {
            "pass": passing,
            "fail": {**passing, "decision": "fail"},
            "error": {"schema_version": 1, "error": error},
            "crash": None,
        }
        fake_spark.answers(answers[ending], exit_code=0 if ending in ("pass", "fail") else 1)
        operator = gate(state_conn_id="lake", verbose=True)
        operator.render_template_fields({})
        before = _serialize_rendered_fields(operator)
        raised = ""
        try:
            operator.execute({"ti": ti})
        except (DcGateError, DcViolationError) as problem:
            raised = str(problem)
        assert bool(raised) == (ending != "pass")
        said = capfd.readouterr()
        assert "Spark-Submit cmd" in said.out
        assert fake_spark.call["state_options"] == OPTIONS
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "call.json"]
        for place in (
            raised,
            said.out,
            said.err,
            caplog.text,
            fake_spark.call["arguments"],
            fake_spark.call["request"],
            fake_spark.call["environment"],
            before,
            _serialize_rendered_fields(operator),
            ti.pushed,
            vars(operator),
            vars(operator._hook)["_env_vars"],
            *(path.read_bytes().decode(errors="replace") for path in files),
        ):
            assert not shows(place)

    def test_the_exchange_folder_has_them_at_no_time(self, gate, fake_spark, ti, passing, connect, state: Path):
        connect(AWS)
        copy = fake_spark.folder / "exchange"
        fake_spark.does_first(f"cp -r {state}/runs {copy}")
        fake_spark.answers(passing)
        gate(state_conn_id="lake").execute({"ti": ti})
        files = [path for path in copy.rglob("*") if path.is_file()]
        assert [path.name for path in files] == ["request.json"]
        assert not shows(files[0].read_text())


class TestTheJob:
    """What a job makes of the file, called as a program by whomever."""

    @pytest.fixture
    def described(self, tmp_path: Path) -> Any:
        from dc_engine.maintain import main

        def run(options: Path) -> tuple[int, dict[str, Any]]:
            result = tmp_path / "result.json"
            arguments = ["describe", "--state", f"{tmp_path}/no-state", "--result", str(result)]
            code = main([*arguments, "--state-options", str(options)])
            return code, json.loads(result.read_text())

        return run

    def test_reads_it_once_and_removes_it(self, described, tmp_path):
        path = tmp_path / "options.json"
        path.write_text(json.dumps({"auto_mkdir": False, "secret": SECRET}))
        code, document = described(path)
        assert not path.exists()
        assert (code, document["error"]["type"]) == (1, "StateError"), "there is no state, but the options were taken"

    def test_one_that_is_not_there_is_named(self, described, tmp_path):
        code, document = described(tmp_path / "elsewhere.json")
        assert code == 1
        assert f"{tmp_path}/elsewhere.json with the options of the state's filesystem cannot be read" in str(document)
        assert "deploy mode 'cluster'" in document["error"]["hint"]

    @pytest.mark.parametrize("text", [SECRET, f'["{TOKEN}"]', ""])
    def test_what_is_no_object_is_refused_without_being_shown(self, described, tmp_path, text):
        path = tmp_path / "options.json"
        path.write_text(text)
        code, document = described(path)
        assert (code, path.exists()) == (1, False)
        assert "is not a JSON object" in document["error"]["message"]
        assert not shows(document)

    def test_one_that_cannot_be_removed_is_told_of(self, described, tmp_path, monkeypatch, caplog):
        path = tmp_path / "options.json"
        path.write_text("{}")

        def refuse(self: Path, missing_ok: bool = False) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "unlink", refuse)
        described(path)
        assert f"{path}, which may hold credentials, cannot be removed" in caplog.text
