"""Where contexts lie: on object stores, in somebody's own project, in folders that are damaged or cannot be written."""

from __future__ import annotations

import builtins
import errno
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import great_expectations as gx
import pytest

from airflow_dc_provider.checkpoints import contexts, definitions
from airflow_dc_provider.checkpoints.contexts import LOCK, opened
from airflow_dc_provider.checkpoints.export import Exported, export_checkpoint
from dc_engine.errors import StateError
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.checkpoints.conftest import files_of
from tests.checkpoints.verdicts import verdict
from tests.faults.states import at_once
from tests.s3 import S3Server, s3_server

pytestmark = pytest.mark.xdist_group("gx")
BROKEN = {"zip_decides_city": 31}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["s3", "memory"])
def there(request: pytest.FixtureRequest, s3: S3Server) -> There:
    uri = s3.uri()
    return There(uri, s3.options) if request.param == "s3" else There(uri.replace("s3://", "memory://"), {})


class There:
    """A folder elsewhere, in which a context comes to be."""

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        self.uri, self.options = uri, options
        self.storage = Storage(uri, options)

    def export(self, given: Verdict, **more: Any) -> Exported:
        return export_checkpoint(given, self.uri, storage_options=self.options, **more)

    def files(self) -> dict[str, bytes]:
        """The content of every file but locks."""
        paths = (one.path for one in self.storage.files())
        return {path: self.storage.read(path) for path in paths if f"{LOCK}/" not in path}

    def locks(self) -> list[str]:
        return self.storage.names(f"gx/{LOCK}")

    def copied_to(self, folder: Path) -> Any:
        """The context as somebody has it who copied the folder."""
        for path, content in self.files().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return gx.get_context(mode="file", project_root_dir=folder)


@pytest.fixture
def on_s3(s3: S3Server) -> There:
    return There(s3.uri(), s3.options)


def told(s3: S3Server, error: BaseException) -> str:
    """What people see of an error, which is no secret."""
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert s3.secret not in text
    assert s3.key not in text
    return text


class TestElsewhere:
    def test_loads_come_and_go_as_in_a_folder_here(self, there: There, s3: S3Server, tmp_path: Path) -> None:
        first = there.export(verdict(broken=BROKEN), keep_runs=2)
        assert (first.success, first.repeated) == (False, False)
        assert first.index == f"{there.uri}/gx/uncommitted/data_docs/local_site/index.html"
        page = there.storage.read(first.docs.removeprefix(f"{there.uri}/"))
        assert b"zip_decides_city" in page
        assert there.export(verdict(broken=BROKEN), keep_runs=2) == Exported(
            **{name: getattr(first, name) for name in Exported.__slots__} | {"repeated": True}
        )
        there.export(verdict("tuesday", 2), keep_runs=2)
        there.export(verdict(table="people"))
        third = there.export(verdict("wednesday", 3), keep_runs=2)
        assert third.success
        files = there.files()
        assert first.docs.removeprefix(f"{there.uri}/") not in files
        assert "gx/dcgate/tax/monday.jsonl" not in files
        index = files["gx/uncommitted/data_docs/local_site/index.html"].decode()
        assert "wednesday_v3" in index
        assert "monday_v1" in index
        context = there.copied_to(tmp_path / "copy")
        assert sorted(one.name for one in context.checkpoints.all()) == ["dcgate.people", "dcgate.tax"]
        assert context.checkpoints.get("dcgate.tax").run(batch_parameters={"path": "tuesday.jsonl"}).success
        assert len(there.locks()) == 2
        secrets = (s3.key.encode(), s3.secret.encode())
        assert not [path for path, content in files.items() if any(secret in content for secret in secrets)]

    def test_only_what_changed_travels(self, on_s3: There, s3: S3Server) -> None:
        on_s3.export(verdict())
        on_s3.export(verdict("tuesday", 2))
        before = on_s3.files()
        s3.requests.clear()
        on_s3.export(verdict("wednesday", 3, broken=BROKEN), keep_runs=2)
        asked = [(method, path) for method, path, _ in s3.requests if LOCK not in path]
        after = on_s3.files()
        root = f"/{on_s3.uri.removeprefix('s3://')}/"
        written = [path.removeprefix(root) for method, path in asked if method == "PUT"]
        assert sorted(written) == sorted(path for path in after if after[path] != before.get(path))
        assert len(written) == 6
        assert written[-2].endswith("/index.html")
        assert written[-1].startswith("gx/uncommitted/validations/")
        removed = [path.removeprefix(root) for method, path in asked if method == "DELETE"]
        assert sorted(removed) == sorted(before.keys() - after.keys())
        assert len(removed) == 3

    def test_a_folder_may_be_named_by_its_configuration(self, on_s3: There) -> None:
        on_s3.export(verdict())
        inner = There(f"{on_s3.uri}/gx", on_s3.options)
        assert inner.export(verdict()).repeated
        assert inner.export(verdict("tuesday", 2)).docs.startswith(f"{on_s3.uri}/gx/uncommitted/data_docs/")
        assert len(on_s3.locks()) == 2

    def test_an_export_that_fails_leaves_everything_as_it_was(
        self, on_s3: There, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_s3.export(verdict())
        before = on_s3.files()

        def fail(*_: Any) -> None:
            raise StateError("no checkpoint today", hint="")

        with monkeypatch.context() as patch:
            patch.setattr(definitions, "checkpoint", fail)
            with pytest.raises(StateError, match="no checkpoint today"):
                on_s3.export(verdict("tuesday", 2, broken=BROKEN))
        assert on_s3.files() == before
        assert not on_s3.export(verdict("tuesday", 2, broken=BROKEN)).repeated

    def test_an_export_that_breaks_off_on_the_way_back_is_done_again(
        self, on_s3: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_s3.export(verdict(table="people"))
        real = Storage.write
        for number, last in enumerate(("validation_definitions/", "index.html", "uncommitted/validations/")):

            def write(self: Storage, path: str, data: bytes, last: str = last) -> Any:
                if last in path and LOCK not in path:
                    raise StateError("the line is dead", hint="")
                return real(self, path, data)

            given = verdict(f"load {number}", number + 1)
            with monkeypatch.context() as patch:
                patch.setattr(Storage, "write", write)
                with pytest.raises(StateError, match="the line is dead"):
                    on_s3.export(given)
            assert not on_s3.export(given).repeated
        context = on_s3.copied_to(tmp_path / "copy")
        assert context.checkpoints.get("dcgate.tax").run().success
        pages = [path for path in on_s3.files() if "local_site/validations/dcgate/tax" in path]
        assert len(pages) == 3

    def test_of_several_at_once_each_has_its_way(self, on_s3: There, tmp_path: Path) -> None:
        given = [verdict(), verdict("tuesday", 2, broken=BROKEN), verdict(table="people")]
        results = at_once([lambda one=one: on_s3.export(one) for one in given])
        assert all(isinstance(one, Exported) for one in results), results
        assert [one.success for one in results] == [True, False, True]
        files = on_s3.files()
        for one in results:
            assert one.docs.removeprefix(f"{on_s3.uri}/") in files
        context = on_s3.copied_to(tmp_path / "copy")
        assert [context.checkpoints.get(f"dcgate.{table}").run().success for table in ("tax", "people")] == [
            False,
            True,
        ]
        assert len(on_s3.locks()) == 2


class TestLocksElsewhere:
    def test_one_that_is_held_is_waited_for_until_it_is_stale(
        self, there: There, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        there.export(verdict())
        monkeypatch.setattr(contexts, "PATIENCE", 0)
        with ExitStack() as late:
            place = late.enter_context(opened(there.uri, there.options))
            (place.folder / "late").write_text("late")
            with pytest.raises(StateError, match=r"in use by process \d+ on ") as caught:
                there.export(verdict("tuesday", 2))
            assert f"{there.uri}/gx" in str(caught.value)
            monkeypatch.setattr(contexts, "STALE", timedelta(days=-1))
            there.export(verdict("tuesday", 2))
            before = there.files()
            with pytest.raises(StateError, match=r"took so long that another one took its place; nothing was written"):
                late.close()
        assert there.files() == before
        monkeypatch.setattr(contexts, "STALE", timedelta(minutes=30))
        there.export(verdict("wednesday", 3))
        assert len(there.locks()) == 2


class TestNoAccess:
    def test_credentials_in_the_address(self, s3: S3Server) -> None:
        address = s3.uri().replace("s3://", f"s3://{s3.key}:{s3.secret}@")
        with pytest.raises(StateError, match="carries credentials") as caught:
            export_checkpoint(verdict(), address, storage_options=s3.options)
        assert s3.key not in str(caught.value)

    def test_credentials_that_are_wrong(self, s3: S3Server, on_s3: There) -> None:
        others = There(on_s3.uri, {**s3.options, "key": "KEY-of-nobody"})
        with pytest.raises(StateError, match=f"The context folder {on_s3.uri}") as caught:
            others.export(verdict())
        assert others.options["key"] not in told(s3, caught.value)
        assert not on_s3.files()

    def test_a_bucket_that_is_not_there(self, s3: S3Server) -> None:
        with pytest.raises(StateError, match="The context folder s3://no-such-bucket") as caught:
            export_checkpoint(verdict(), "s3://no-such-bucket/quality", storage_options=s3.options)
        told(s3, caught.value)

    def test_a_filesystem_without_exclusive_files(self) -> None:
        with pytest.raises(StateError, match="filesystem 'ftp' cannot create a file exclusively"):
            export_checkpoint(verdict(), "ftp://nobody.invalid/quality")

    def test_a_server_without_exclusive_files(self) -> None:
        with s3_server() as server:
            server.heeds_conditions = False
            with pytest.raises(StateError, match="accepted a second file of the same name"):
                export_checkpoint(verdict(), server.uri(), storage_options=server.options)


class TestAFolderHere:
    @pytest.mark.parametrize("damage", [b"", b"stores: [", b"just some text", b"\xff\xfe\x00", 0.3, 0.9])
    def test_a_damaged_configuration_is_said(self, folder: Path, damage: bytes | float) -> None:
        export_checkpoint(verdict(), folder)
        path = folder / "gx" / "great_expectations.yml"
        whole = path.read_bytes()
        path.write_bytes(damage if isinstance(damage, bytes) else whole[: int(len(whole) * damage)])
        before = files_of(folder)
        with pytest.raises(StateError) as caught:
            export_checkpoint(verdict("tuesday", 2), folder)
        assert f"the context in {folder}: " in caught.value.message
        assert "\n" not in caught.value.message
        assert "great_expectations.yml" in caught.value.hint
        assert files_of(folder) == before

    def test_a_damaged_configuration_elsewhere_is_said(self, on_s3: There) -> None:
        on_s3.export(verdict())
        on_s3.storage.write("gx/great_expectations.yml", b"stores: [")
        before = on_s3.files()
        with pytest.raises(StateError, match=f"cannot work with the context in {on_s3.uri}: "):
            on_s3.export(verdict("tuesday", 2))
        assert on_s3.files() == before

    def test_a_folder_that_cannot_be_made_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(
            StateError, match=f"The context in {tmp_path}/file/quality cannot be written: .*Not a directory"
        ):
            export_checkpoint(verdict(), tmp_path / "file" / "quality")

    def test_a_disk_that_is_full_leaves_the_configuration_whole(
        self, folder: Path, open_context: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        export_checkpoint(verdict(), folder)
        configuration = folder / "gx" / "great_expectations.yml"
        before = configuration.read_bytes()

        real = builtins.open

        def full(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            opened_file = real(file, mode, *more, **named)
            if mode == "w" and configuration.name in str(file):
                opened_file.close()
                raise OSError(errno.ENOSPC, "No space left on device", str(file))
            return opened_file

        with monkeypatch.context() as patch:
            patch.setattr(builtins, "open", full)
            with pytest.raises(StateError, match=f"{folder} cannot be written: .*No space left on device"):
                export_checkpoint(verdict(table="people"), folder)
        assert configuration.read_bytes() == before
        assert open_context().checkpoints.get("dcgate.tax").run().success
        assert export_checkpoint(verdict(table="people"), folder).success

    def test_a_project_of_others_goes_on_working(self, folder: Path, open_context: Callable[[], Any]) -> None:
        context = open_context()
        data = folder / "data"
        data.mkdir()
        (data / "people.csv").write_text("a\n1\n2\n")
        batch = (
            context.data_sources.add_pandas_filesystem("dcgate.theirs", base_directory=data)
            .add_csv_asset("people")
            .add_batch_definition_path("all", path="people.csv")
        )
        suite = context.suites.add(gx.ExpectationSuite("theirs", [gx.expectations.ExpectColumnToExist(column="a")]))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name="theirs", data=batch, suite=suite))
        context.checkpoints.add(gx.Checkpoint(name="theirs", validation_definitions=[definition]))
        (folder / "gx" / "great_expectations.yml").chmod(0o664)
        before = files_of(folder)
        assert export_checkpoint(verdict(), folder).success
        assert not export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder / "gx").success
        after = files_of(folder)
        changed = {name for name in before if after.get(name) != before[name]}
        assert changed == {"gx/great_expectations.yml"}
        assert (folder / "gx" / "great_expectations.yml").stat().st_mode & 0o777 == 0o664
        context = open_context()
        assert sorted(one.name for one in context.checkpoints.all()) == ["dcgate.tax", "theirs"]
        assert context.checkpoints.get("theirs").run().success
        assert not context.checkpoints.get("dcgate.tax").run().success
