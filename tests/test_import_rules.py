"""Who may import whom: data flows one way, and a room knows the rooms below it, never above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LIGHT = {
    *("constraints", "deciding", "errors", "java", "lost", "reporting", "request", "reviewing", "shipping", "state"),
    *("stored", "telling", "threads", "verdict", "wording"),
}
FACTS = {"errors", "masking", "request", "sizes", "threads", "verdict"}
ROOMS_BELOW = {
    "kernels": {"kernels", "settling"},
    "constraints": {"constraints", "errors"},
    "state": {"state", "errors", "sizes", "threads"},
    "detection": {"detection", "constraints", "state", "kernels", *FACTS},
    "discovery": {"discovery", "detection", "constraints", "state", "kernels", *FACTS},
    "engines": {"engines", "discovery", "detection", "constraints", "state", "shipping", *FACTS},
    "history": {"history", "engines", "detection", "constraints", "state", *FACTS},
    "maintained": {"maintained", "discovery", "history", "engines", "detection", "constraints", "state", *FACTS},
}
HEAVY = {"pyspark", "numba", "pyarrow", "pandas", "numpy", "great_expectations"}


ENGINE = "spark_jobs/dc_engine"


def sources(folder: str) -> list[Path]:
    return sorted((REPOSITORY / folder).rglob("*.py"))


OUTSIDE_CHECKPOINTS = [path for path in sources("airflow_dc_provider") if path.parent.name != "checkpoints"]


def named(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def room(path: Path) -> str:
    """``detection`` of dc_engine/detection/plan.py, ``errors`` of dc_engine/errors.py."""
    return path.relative_to(REPOSITORY / ENGINE).parts[0].removesuffix(".py")


def imports(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """The modules that a file imports: everywhere, or only what runs when it is imported itself."""
    nodes = ast.walk(ast.parse(path.read_text())) if everywhere else at_import(ast.parse(path.read_text()))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not checking and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from at_import(node)


def top(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("path", sources(ENGINE), ids=named)
def test_the_engine_knows_nothing_of_airflow(path):
    assert not {top(name) for name in imports(path)} & {"airflow", "airflow_dc_provider", "great_expectations"}


@pytest.mark.parametrize("path", sources(ENGINE), ids=named)
def test_a_room_knows_only_the_rooms_below(path):
    allowed = ROOMS_BELOW.get(room(path))
    known = {name.split(".")[1] for name in imports(path) if name.startswith("dc_engine.")}
    assert allowed is None or known <= allowed


APART = [one for one in sources(ENGINE) if room(one) not in ("maintained", "discover", "stored")]


@pytest.mark.parametrize("path", APART, ids=named)
def test_no_job_and_no_history_names_what_is_kept_up_but_the_one_that_begins_it(path):
    parts = {name.split(".")[2] for name in imports(path) if name.startswith("dc_engine.maintained.")}
    assert parts <= {"base", "columns", "continuity", "everything", "naming"}


@pytest.mark.parametrize("path", sources(ENGINE), ids=named)
def test_the_engine_keeps_to_the_dataframe_api_and_never_pickles(path):
    tree = ast.parse(path.read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"rdd", "sparkContext", "SparkContext", "_jdf", "_jvm", "_sc", "toLocalIterator"}
    assert not {top(name) for name in imports(path)} & {"pickle", "cloudpickle", "marshal", "shelve"}


@pytest.mark.parametrize("path", sources("airflow_dc_provider"), ids=named)
def test_the_provider_uses_only_the_light_parts_of_the_engine(path):
    others = [name for name in imports(path) if not name.startswith("dc_engine.discovery.asking.")]
    known = {name.split(".")[1] for name in others if name.startswith("dc_engine.")}
    assert known <= LIGHT


@pytest.mark.parametrize("path", OUTSIDE_CHECKPOINTS, ids=named)
def test_the_provider_imports_nothing_heavy_when_a_dag_is_parsed(path):
    found = set(imports(path, everywhere=False))
    assert not {top(name) for name in found} & HEAVY
    assert not [name for name in found if name.startswith("airflow_dc_provider.checkpoints")]


@pytest.mark.parametrize("path", OUTSIDE_CHECKPOINTS, ids=named)
def test_only_the_checkpoints_know_great_expectations(path):
    assert "great_expectations" not in {top(name) for name in imports(path)}


@pytest.mark.parametrize("path", sources("airflow_dc_provider/checkpoints"), ids=named)
def test_the_checkpoints_know_nothing_of_airflow(path):
    """So that whoever has the package can run one again, without an Airflow of their own."""
    ours = {name.rpartition(".")[0] for name in imports(path) if name.startswith("airflow_dc_provider.")}
    assert not {top(name) for name in imports(path)} & {"airflow", "pyspark"}
    assert not {one for one in ours if "checkpoints" not in one}


@pytest.mark.parametrize("path", sources(f"{ENGINE}/constraints"), ids=named)
def test_the_language_is_pure_python(path):
    outside = {top(name) for name in imports(path, everywhere=False)} - {"dc_engine"}
    assert not outside & (HEAVY | {"yaml", "fsspec"})
