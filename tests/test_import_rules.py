"""Who may import whom: data flows one way, and a room knows the rooms below it, never above."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

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


def room(path: Path) -> str:
    """``detection`` of dc_engine/detection/plan.py, ``errors`` of dc_engine/errors.py."""
    return path.relative_to(REPOSITORY / ENGINE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


def imports(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """The modules that a file imports: everywhere, or only what runs when it is imported itself."""
    for node in ast.walk(tree(path)) if everywhere else at_import(tree(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def at_import(whole: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(whole):
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not checking and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from at_import(node)


def tops(path: Path, *, everywhere: bool = True) -> set[str]:
    """The packages that a file imports something of."""
    return {name.partition(".")[0] for name in imports(path, everywhere=everywhere)}


def engine_parts(path: Path) -> set[str]:
    """What a file imports of the engine: rooms, and modules beside them."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("dc_engine.")}


def too_much(paths: Iterable[Path], found: Callable[[Path], Collection[str]]) -> dict[str, list[str]]:
    """The files in which something is found that should not be there, each with that."""
    return {str(path.relative_to(REPOSITORY)): sorted(wrong) for path in paths if (wrong := found(path))}


def test_the_engine_knows_nothing_of_airflow():
    foreign = {"airflow", "airflow_dc_provider", "great_expectations"}
    assert not too_much(sources(ENGINE), lambda path: tops(path) & foreign)


def test_a_room_knows_only_the_rooms_below():
    rooms = [path for path in sources(ENGINE) if room(path) in ROOMS_BELOW]
    assert {room(path) for path in rooms} == set(ROOMS_BELOW)
    assert not too_much(rooms, lambda path: engine_parts(path) - ROOMS_BELOW[room(path)])


def test_no_job_and_no_history_names_what_is_kept_up_but_the_one_that_begins_it():
    apart = [one for one in sources(ENGINE) if room(one) not in ("maintained", "discover", "stored")]

    def parts(path: Path) -> set[str]:
        known = {name.split(".")[2] for name in imports(path) if name.startswith("dc_engine.maintained.")}
        return known - {"base", "columns", "continuity", "everything", "naming"}

    assert not too_much(apart, parts)


def test_the_engine_keeps_to_the_dataframe_api_and_never_pickles():
    def beyond(path: Path) -> set[str]:
        nodes = list(ast.walk(tree(path)))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name)}
        of_spark = {"rdd", "sparkContext", "SparkContext", "_jdf", "_jvm", "_sc", "toLocalIterator"}
        return names & of_spark | tops(path) & {"pickle", "cloudpickle", "marshal", "shelve"}

    assert not too_much(sources(ENGINE), beyond)


def test_the_provider_uses_only_the_light_parts_of_the_engine():
    def heavy(path: Path) -> set[str]:
        others = {name for name in imports(path) if not name.startswith("dc_engine.discovery.asking.")}
        return {name.split(".")[1] for name in others if name.startswith("dc_engine.")} - LIGHT

    assert not too_much(sources("airflow_dc_provider"), heavy)


def test_the_provider_imports_nothing_heavy_when_a_dag_is_parsed():
    def heavy(path: Path) -> set[str]:
        ours = {name for name in imports(path, everywhere=False) if name.startswith("airflow_dc_provider.checkpoints")}
        return tops(path, everywhere=False) & HEAVY | ours

    assert not too_much(OUTSIDE_CHECKPOINTS, heavy)


def test_only_the_checkpoints_know_great_expectations():
    assert not too_much(OUTSIDE_CHECKPOINTS, lambda path: tops(path) & {"great_expectations"})


def test_the_checkpoints_know_nothing_of_airflow():
    """So that whoever has the package can run one again, without an Airflow of their own."""

    def beyond(path: Path) -> set[str]:
        ours = {name.rpartition(".")[0] for name in imports(path) if name.startswith("airflow_dc_provider.")}
        return tops(path) & {"airflow", "pyspark"} | {one for one in ours if "checkpoints" not in one}

    assert not too_much(sources("airflow_dc_provider/checkpoints"), beyond)


def test_the_language_is_pure_python():
    outside = HEAVY | {"yaml", "fsspec"}
    assert not too_much(sources(f"{ENGINE}/constraints"), lambda path: tops(path, everywhere=False) & outside)
