"""What numba compiled for a kernel is kept for other processes, which take turns at it."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from dc_engine.kernels import compiling

_SOURCE = """
from dc_engine.kernels.compiling import kernel


@kernel
def total(values):
    found = values[0]
    for one in values[1:]:
        found += one
    return found
"""


@pytest.fixture
def module(tmp_path: Path) -> Any:
    """A kernel in a file of its own, with nothing kept for it."""
    path = tmp_path / "totals.py"
    path.write_text(_SOURCE)
    return _imported(path)


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("totals", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_kernel_that_was_compiled_for_some_types_is_found_again(module: Any) -> None:
    assert module.total(np.array([1, 2])) == 3
    assert module.total(np.array([0.5, 1.0])) == 1.5
    again = _imported(Path(module.__file__))
    assert again.total(np.array([1, 2])) == 3
    assert again.total(np.array([0.5, 1.0])) == 1.5
    assert sum(again.total.stats.cache_hits.values()) == 2
    assert not again.total.stats.cache_misses


def compiled(module: Any) -> bool:
    """Whether a kernel was compiled to add two numbers; else it was found."""
    assert module.total(np.array([1, 2])) == 3
    return bool(module.total.stats.cache_misses)


def test_a_kernel_is_compiled_again_when_another_has_changed_whose_code_it_may_have(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(module)
    assert not compiled(_imported(Path(module.__file__)))
    monkeypatch.setattr(compiling, "_all_sources", lambda: "others")
    assert compiled(_imported(Path(module.__file__)))
    assert not compiled(_imported(Path(module.__file__)))


def test_code_from_before_a_change_is_not_taken_for_new_code_that_could_not_be_written(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert compiled(module)
    monkeypatch.setattr(compiling, "_all_sources", lambda: "others")
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_save_data", full)
        assert compiled(_imported(Path(module.__file__)))
    assert compiled(_imported(Path(module.__file__)))
    assert not compiled(_imported(Path(module.__file__)))


def test_all_kernels_are_among_those_that_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Path(compiling.__file__).parent
    before, plain = compiling._all_sources(), Path.read_bytes
    for file in ("groups.py", "packing.py"):
        monkeypatch.setattr(Path, "read_bytes", lambda one, it=kernels / file: b"" if one == it else plain(one))
        assert compiling._all_sources.__wrapped__() != before


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 100])
def test_what_is_left_of_a_kernel_that_was_compiled_is_no_error(module: Any, suffix: str, left: int) -> None:
    assert compiled(module)
    (file,) = (Path(module.__file__).parent / "__pycache__").glob(f"*.{suffix}")
    file.write_bytes(file.read_bytes()[:left])
    assert compiled(_imported(Path(module.__file__)))
    assert not compiled(_imported(Path(module.__file__)))


def test_a_kernel_that_cannot_be_kept_is_compiled_each_time(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Path(module.__file__).parent / "__pycache__"
    shutil.rmtree(kept)
    kept.write_text("no folder")
    assert compiled(module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    again = _imported(Path(module.__file__))
    assert again.total(np.array([1, 2])) == 3


_PROCESS = """
import sys
import numpy as np
from dc_engine.kernels.compiling import kernel
from totals import total

@kernel
def repeated(values, times):
    more = np.empty(values.size, values.dtype)
    more[:] = values
    return times * total(more)

for known in (lambda some: total(some), lambda some: repeated(some, eval(sys.argv[1]))):
    print(known(np.array([1, 2])), "numba.np.linalg" in sys.modules)
"""


def test_a_process_imports_what_compiles_kernels_only_for_one_that_is_not_there(module: Any) -> None:
    script = Path(module.__file__).with_name("process.py")
    script.write_text(_PROCESS)

    def said(times: str) -> list[str]:
        done = subprocess.run([sys.executable, script, times], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert said("2") == ["3 True", "6 True"]
    assert said("2") == ["3 False", "6 False"]
    assert said("0.5") == ["3 False", "1.5 True"], "it calls one that was found"


def test_nobody_keeps_or_reads_code_of_kernels_while_another_process_does(module: Any, tmp_path: Path) -> None:
    kept = tmp_path / "__pycache__"
    kept.mkdir(exist_ok=True)
    found: list[int] = []
    with (kept / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: found.append(module.total(np.array([1, 2]))))
        waiting.start()
        waiting.join(1)
        assert not found
        assert not list(kept.glob("*.nb?"))
    waiting.join(60)
    assert found == [3]
    assert len(list(kept.glob("*.nbi"))) == 1
