"""``make demo``: three loads of the example DAG in real Airflow on local Spark, and what became of them.

After the first load another DAG discovers what holds in the table, so that the gate can say what the third one lost.

Not a DAG. Everything is written below one folder; the output of Airflow and Spark goes to a log file there, so
that the terminal has one line per step and a summary.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dc_engine.errors import StateError, counted
from dc_engine.reporting import broken_rule_lines
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import LostDependency, Verdict
from dc_engine.wording import align, example_lines

if TYPE_CHECKING:
    from airflow.sdk import DAG

HERE = Path(__file__).resolve().parent
EXPECTED = {
    "monday": {"load": "success", "gate": "success", "publish": "success", "data_docs": "success"},
    "tuesday": {"load": "success", "gate": "success", "publish": "success", "data_docs": "success"},
    "wednesday": {"load": "success", "gate": "failed", "publish": "upstream_failed", "data_docs": "success"},
}
BROKEN_ON_PURPOSE = {"phone_is_unique", "zip_decides_city", "rate_follows_salary"}
LOST_ON_PURPOSE = "state, marital_status -> single_exemp"
_MOST_INSTEAD = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run of the DAG."""

    load: str
    run_id: str
    tasks: Mapping[str, str]
    verdict: Verdict | None
    seconds: float
    state: str = ""

    @property
    def in_words(self) -> str:
        """The colours of the tasks that matter."""
        gate = {"success": "gate green", "failed": "gate RED"}.get(self.tasks.get("gate", ""), "no gate")
        return f"{gate}, {'published' if self.tasks.get('publish') == 'success' else 'not published'}"

    @property
    def as_told(self) -> bool:
        """Whether it went as the demo says it should."""
        broken = {rule.name for rule in self.verdict.broken} if self.verdict else None
        wednesday = self.load == "wednesday"
        due = BROKEN_ON_PURPOSE if wednesday else set()
        lost = {one.text for one in self.lost}
        return self.tasks == EXPECTED[self.load] and broken == due and (LOST_ON_PURPOSE in lost) == wednesday

    @property
    def lost(self) -> list[LostDependency]:
        """The watched dependencies that the load broke."""
        return [one for one in self.verdict.dependencies.invalidated if one.watched] if self.verdict else []


def airflow_environment(output: Path) -> dict[str, str]:
    """An Airflow of its own below ``output``, with the example DAGs and Spark on this machine."""
    return {
        "AIRFLOW_HOME": str(output / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "TAX_GATE_HOME": str(output / "data"),
    }


def example_dag(name: str = "tax_gate") -> DAG:
    """An example DAG, read from its file as Airflow reads it. Needs the environment to be set."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(HERE / f"{name}.py")
    if bag.import_errors:
        raise RuntimeError(f"The example DAG cannot be imported: {bag.import_errors}")
    return bag.dags[name]


def run_discovery(dag: DAG) -> str:
    """One run of the discovery; what became of it, in words."""
    run = dag.test()
    return "done" if str(run.state) == "success" else f"{run.state}, which should not be"


def run_load(dag: DAG, load: str, output: Path) -> Outcome:
    """One run of the DAG, task by task, with Airflow's own machinery."""
    start = time.monotonic()
    run = dag.test(run_conf={"load": load})
    tasks = {task.task_id: str(task.state) for task in run.get_task_instances()}
    verdict = stored_verdict(output / "data" / "state" / "tax", load)
    return Outcome(load, run.run_id, tasks, verdict, time.monotonic() - start, str(run.state))


def stored_verdict(state: Path, load_id: str) -> Verdict | None:
    """The verdict of a load, from the state; None when the load was never applied."""
    try:
        return read_verdict(Storage(str(state)), load_id)
    except StateError:
        return None


def summary_lines(outcomes: list[Outcome]) -> list[str]:
    """Each load's decision; for each broken rule the counts, the worst rows and two examples."""
    cells = [["load", "rows", "rows in all", "rules broken", "decision"]]
    for one in outcomes:
        rows = one.verdict.rows if one.verdict else {}
        broken = str(len(one.verdict.broken)) if one.verdict else "?"
        counts = [f"{rows.get(name, 0):,}" for name in ("inserted", "total")]
        cells.append([one.load, *counts, broken, one.in_words])
    lines = align(cells, right=(1, 2, 3))
    for one in outcomes:
        if one.verdict and one.verdict.broken:
            lines += ["", f"Why the gate closed on {one.load}:"]
            for rule in one.verdict.broken:
                lines += ["", *broken_rule_lines(rule, one.verdict.rows["inserted"])]
        if one.lost:
            lines += ["", *lost_lines(one)]
    return lines


def lost_lines(outcome: Outcome) -> list[str]:
    """What nobody had written down and no longer holds: one of it in full."""
    shown = next((one for one in outcome.lost if one.text == LOST_ON_PURPOSE), outcome.lost[0])
    instead = [one["text"] for one in shown.instead[:_MOST_INSTEAD]]
    more = len(shown.instead) - len(instead)
    number = "?" if shown.violations is None else f"{shown.violations:,}"
    return [
        f"{counted(len(outcome.lost), 'watched dependency', 'watched dependencies')} no longer held after "
        f"{outcome.load}. One of them, which was found in the data and which no rule says:",
        "",
        f"{shown.text} (held since {shown.since}; now {number} pairs of rows violate it)",
        *(f"  {line}" for line in (example_lines(shown.example, "example") if shown.example else [])),
        f"  what holds instead: {'; '.join(instead) or 'nothing of its kind'}"
        + (f"; and {more:,} more" if more > 0 else ""),
    ]


def main(output: Path) -> int:
    """Run the three loads and report on them; 0 when all went as expected."""
    for folder in ("airflow", "data"):
        shutil.rmtree(output / folder, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    log = output / "demo.log"
    say = _silence(log)
    print("Three loads of a tax table through one gate: real Airflow, Spark on this machine.", file=say)
    print(f"Output of Airflow and Spark: {log}\n", file=say)
    print("  setting up Airflow ... ", end="", flush=True, file=say)
    start = time.monotonic()
    os.environ.update(airflow_environment(output))
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True)
    dag, discovery = example_dag(), example_dag("tax_discovery")
    print(f"done ({time.monotonic() - start:.0f} s)", file=say)
    outcomes = []
    for load in EXPECTED:
        print(f"  {load}: load, gate, publish, Data Docs ... ", end="", flush=True, file=say)
        outcomes.append(run_load(dag, load, output))
        print(f"{outcomes[-1].in_words} ({outcomes[-1].seconds:.0f} s)", file=say)
        if load == "monday":
            start = time.monotonic()
            print("  night: discover what holds in the table ... ", end="", flush=True, file=say)
            print(f"{run_discovery(discovery)} ({time.monotonic() - start:.0f} s)", file=say)
    print("", *summary_lines(outcomes), sep="\n", file=say)
    well = all(one.as_told for one in outcomes)
    print("", *_closing_lines(output, log, well), sep="\n", file=say)
    return 0 if well else 1


def _silence(log: Path) -> TextIO:
    """Send all output of this process and its children to a log file; returns the terminal."""
    terminal = os.fdopen(os.dup(1), "w", buffering=1)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    return terminal


def _closing_lines(output: Path, log: Path, well: bool) -> list[str]:
    verdict = (
        "This is what should happen: wednesday was broken on purpose, so its gate is red, "
        "and its 'publish' did not run."
        if well
        else f"This is NOT what should happen. The reason is in {log}."
    )
    data = output / "data"
    site = data / "quality" / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html"
    places = [
        ["Data Docs: open in a browser", site.as_uri()],
        ["loads as they came", str(data / "landing")],
        ["loads that were published", str(data / "published")],
        ["the gate's state", str(data / "state" / "tax")],
        ["rules, DAGs", f"{HERE / 'constraints' / 'tax.yml'}, {HERE / 'tax_gate.py'}, tax_discovery.py"],
        ["Airflow's home", str(output / "airflow")],
        ["log", str(log)],
    ]
    return [verdict, "", "Where everything is:", *(f"  {line}" for line in align(places))]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
