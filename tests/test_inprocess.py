"""The stand-ins for Spark's part reach every module, and leave none behind."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType

from tests.inprocess import STAND_INS, engine_modules, without_spark


def held() -> set[tuple[str, str]]:
    """Where the engine has Spark's part by name."""
    return {
        (module.__name__, name)
        for module in engine_modules()
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value in STAND_INS
    }


def test_every_module_has_the_stand_ins_inside_and_sparks_part_outside():
    before = held()
    assert ("dc_engine.rebuilding", "read_changes") in before
    with without_spark():
        assert not held()
    assert held() == before


def test_modules_that_are_first_imported_by_a_job_have_sparks_part_afterwards():
    program = (
        "from tests.inprocess import without_spark\n"
        "with without_spark():\n"
        "    import dc_engine.rebuilding, dc_engine.changing\n"
        "from dc_engine import changing, rebuilding\n"
        "from dc_engine.detection import sources\n"
        "assert rebuilding.read_changes.__module__ == sources.__name__, rebuilding.read_changes\n"
        "assert changing.instant_in.__module__ == sources.__name__, changing.instant_in\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
