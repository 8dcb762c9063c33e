"""Apply one load: check it against every row loaded before, commit the new state, answer with a verdict.

``apply_load(spark, request)`` is the function; as an application: ``spark-submit apply_load.py --request load.json``.
Read it top to bottom: read, stage, probe, judge, commit.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.constraints.files import check_columns, load_constraints, to_mapping
from spark_jobs.constraints.model import ConstraintSet
from spark_jobs.constraints.normalise import meaning
from spark_jobs.continuity import carried_totals, changed_rules, check_continuity, check_table
from spark_jobs.detection.sources import first_line
from spark_jobs.errors import ChangesError, DcError, RequestError
from spark_jobs.request import Request
from spark_jobs.state.snapshots import DataFile, Load, Snapshot, commit, read_current
from spark_jobs.state.storage import Storage
from spark_jobs.verdict import SCHEMA_VERSION, Verdict, decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.detection.plan import Plan
    from spark_jobs.detection.staging import StagedLoad

log = logging.getLogger("airflow_dc_provider.apply_load")


@dataclass(slots=True)
class Clock:
    """How long each step took."""

    started: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step, and say in the log that it is done."""
        begun = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + round(time.monotonic() - begun, 3)
        log.info("%s: done in %.2f s", name, self.seconds[name])

    @property
    def total(self) -> dict[str, float]:
        """All steps and their total."""
        return {**self.seconds, "total": round(time.monotonic() - self.started, 3)}


def apply_load(spark: SparkSession, request: Request | Mapping[str, Any]) -> Verdict:
    """Apply a load, or return the stored verdict when the same changes were applied under this load id before."""
    if not isinstance(request, Request):
        request = Request.from_mapping(request)
    from spark_jobs.detection.plan import make_plan
    from spark_jobs.detection.sources import column_types, instant_in, read_changes
    from spark_jobs.detection.spark import fingerprint_load, stage_load
    from spark_jobs.shipping import ship_engine

    ship_engine(spark)
    clock = Clock()
    storage = Storage(request.state)
    constraint_set = load_constraints(request.constraints)
    with clock.step("read"):
        before = read_current(storage) or Snapshot(number=0, parent=None, table=constraint_set.table)
        changes = read_changes(spark, request.changes)
        types = column_types(changes, request.changes)
        check_table(before, constraint_set, state=request.state)
        applied = before.find_load(request.load_id)
        if applied is not None:
            return _replay(storage, applied, fingerprint_load(changes, request.changes, storage, types), request)
        check_columns(constraint_set, types, source=f"the changes ({request.changes})")
        check_continuity(before, constraint_set, types, state=request.state)
        plan = make_plan(constraint_set, _as_in_state(types, before), instant=instant_in(spark))
        staged = stage_load(changes, request.changes, storage, before.number + 1, plan, types)
    log.info("load %s: %s rows, on %s rows loaded before", request.load_id, staged.rows, before.rows)
    try:
        verdict, snapshot = _check(spark, request, constraint_set, plan, staged, before, storage, clock)
    except BaseException:
        for file in staged.files:
            storage.remove(file.path)
        raise
    with clock.step("commit"):
        commit(storage, snapshot)
    return replace(verdict, seconds=clock.total)


def _as_in_state(types: Mapping[str, str], snapshot: Snapshot) -> dict[str, str]:
    """Column types under the names that the state uses, which may differ in case from those of this load."""
    known = {name.lower(): name for name in snapshot.schema}
    return {known.get(name.lower(), name): spark_type for name, spark_type in types.items()}


def _replay(storage: Storage, applied: Load, staged: StagedLoad, request: Request) -> Verdict:
    """The stored verdict of a load that was applied before; nothing is written."""
    if staged.fingerprint != applied.fingerprint:
        raise ChangesError(
            f"Load '{request.load_id}' was applied before with other changes ({applied.inserted} rows then, "
            f"{staged.rows} now); this version does not replace a load.",
            hint="Give the new changes a load_id of their own.",
        )
    log.info("load %s was applied before with the same changes: nothing to do", request.load_id)
    return replace(Verdict.from_dict(json.loads(storage.read(applied.verdict))), replayed=True)


def _check(
    spark: SparkSession,
    request: Request,
    constraint_set: ConstraintSet,
    plan: Plan,
    staged: StagedLoad,
    before: Snapshot,
    storage: Storage,
    clock: Clock,
) -> tuple[Verdict, Snapshot]:
    """Find what the load violates, judge it, and make the snapshot that is to be committed."""
    from spark_jobs.detection.spark import detect, make_work
    from spark_jobs.judging import RowNames, add_up, judge

    if staged.not_inserts:
        raise ChangesError(
            f"Load '{request.load_id}' has {staged.not_inserts} rows whose _change_type is not 'insert'; this version "
            "takes inserts only.",
            hint="Give only the inserted rows, for instance with 'where'.",
        )
    number = before.number + 1
    kept = {index_id: tuple(before.files_of("index", index_id)) for index_id in plan.indexes}
    with clock.step("probe"):
        work = make_work(storage, plan, number, staged, kept, request)
        findings, index_files = add_up(detect(spark, work), len(constraint_set.constraints))
    rows_files = [*before.files_of("rows"), *staged.files]
    with clock.step("judge"):
        load_ids = {one.number: one.load_id for one in before.loads} | {number: request.load_id}
        names = RowNames(storage, rows_files, plan.key, load_ids, request.mask)
        carried = carried_totals(before, constraint_set)
        constraints = judge(constraint_set, findings, carried, staged.rows, request.max_samples, names)
    verdict = Verdict(
        table=constraint_set.table,
        load_id=request.load_id,
        snapshot=number,
        replayed=False,
        decision=decide(constraints),
        rows={"inserted": staged.rows, "deleted": 0, "total": before.rows + staged.rows},
        constraints=constraints,
        dependencies={"invalidated": [], "added": [], "valid": 0},
        seconds=clock.total,
        notes=changed_rules(before, constraint_set),
    )
    load = _stored_load(storage, verdict, staged, [file for found in findings for file in found.files])
    files = [*rows_files, *(file for files in kept.values() for file in files), *index_files]
    return verdict, _next_snapshot(before, constraint_set, plan, verdict, load, files)


def _stored_load(storage: Storage, verdict: Verdict, staged: StagedLoad, files: list[DataFile]) -> Load:
    """Write the verdict, and say in which load it belongs."""
    document = json.dumps(verdict.to_dict(), ensure_ascii=False, indent=1).encode()
    stored = storage.write(f"verdicts/{verdict.snapshot:020d}-{uuid.uuid4().hex}.json", document)
    return Load(
        number=verdict.snapshot,
        load_id=verdict.load_id,
        fingerprint=staged.fingerprint,
        inserted=staged.rows,
        deleted=0,
        verdict=stored.path,
        files=files,
    )


def _next_snapshot(
    before: Snapshot,
    constraint_set: ConstraintSet,
    plan: Plan,
    verdict: Verdict,
    load: Load,
    files: list[DataFile],
) -> Snapshot:
    meanings = "\n".join(sorted(meaning(one) for one in constraint_set.constraints))
    return Snapshot(
        number=load.number,
        parent=before.number or None,
        table=constraint_set.table,
        load_id=load.load_id,
        constraints=to_mapping(constraint_set),
        constraints_fingerprint=hashlib.sha256(meanings.encode()).hexdigest(),
        schema=dict(zip(plan.columns, plan.types, strict=True)),
        rows=verdict.rows["total"],
        totals={one.name: one.total_violations for one in verdict.constraints},
        loads=[*before.loads, load],
        files=files,
    )


def main(arguments: list[str] | None = None) -> int:
    """The application: a request in, a verdict (or an error document) out."""
    parser = argparse.ArgumentParser(description="Apply one load and print its verdict.")
    parser.add_argument("--request", required=True, help="path or URI of the request document, or - for standard input")
    parser.add_argument(
        "--result",
        help="path or URI for the verdict or the error document; without it the verdict goes to standard output",
    )
    options = parser.parse_args(arguments)
    _part_stderr_from_stdout()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        request = Request.from_json(_read(options.request), source=options.request)
        verdict = apply_load(_session(), request)
    except DcError as error:
        _answer({"schema_version": SCHEMA_VERSION, "error": error.to_dict()}, options.result)
        log.error("%s", error)
        return 1
    except Exception as error:
        text = f"{type(error).__name__}: {first_line(error)}"
        unexpected = {"type": "UnexpectedError", "message": text, "hint": "The Spark log has the details."}
        _answer({"schema_version": SCHEMA_VERSION, "error": unexpected}, options.result)
        raise
    if options.result is not None:
        _answer(verdict.to_dict(), options.result)
    else:
        sys.stdout.write(json.dumps(verdict.to_dict(), ensure_ascii=False) + "\n")
    return 0


def _part_stderr_from_stdout() -> None:
    """``spark-submit`` joins a Python driver's two streams into its standard output: give stderr its place back.

    Where that is not possible (no /proc, or a stderr that cannot be opened again) the log stays on standard output.
    """
    joined = "PYSPARK_GATEWAY_PORT" in os.environ and os.path.samestat(os.fstat(1), os.fstat(2))
    outer = f"/proc/{os.getppid()}/fd/2"
    if joined and os.access(outer, os.W_OK):
        with contextlib.suppress(OSError):
            os.dup2(os.open(outer, os.O_WRONLY | os.O_APPEND), 2)


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("airflow-dc-provider: apply_load").getOrCreate()


def _read(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    import fsspec

    try:
        with fsspec.open(source, "rt", encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise RequestError(f"The request {source} cannot be read: {error}.") from error


def _answer(document: Mapping[str, Any], result: str | None) -> None:
    if result is None:
        return
    import fsspec

    with fsspec.open(result, "wt", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    sys.exit(main())
