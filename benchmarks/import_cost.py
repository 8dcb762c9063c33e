"""What a DAG file pays for its gate: importing the provider and building a DAG with one gate.

On top of importing ``SparkSubmitOperator``, in processes of their own; the smallest of some rounds counts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROUNDS = 7
RULES = Path(__file__).resolve().parents[1] / "dags_examples" / "constraints" / "tax.yml"

PARENT = "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator"
GATE = f"""
from airflow.sdk import DAG
from airflow_dc_provider.operators.gate import DcGateOperator
with DAG("d", schedule=None):
    DcGateOperator(task_id="gate", constraints={str(RULES)!r}, changes={{"path": "/landing"}}, state="/state")
"""
# Each step is timed apart, so that Airflow's seconds do not drown our milliseconds.
TIMED = """
import time
start = time.perf_counter()
{parent}
imported = time.perf_counter()
from airflow.sdk import DAG
DAG("empty", schedule=None)
ready = time.perf_counter()
{gate}
done = time.perf_counter()
print((imported - start) * 1000, (ready - imported) * 1000, (done - ready) * 1000)
"""


def measure(rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Milliseconds of the parent's import, of Airflow's first empty DAG, and of what the gate adds."""
    script = TIMED.format(parent=PARENT, gate=GATE)
    found = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found.append(tuple(float(word) for word in done.stdout.split()[-3:]))
    parent, empty, added = (min(column) for column in zip(*found, strict=True))
    return parent, empty, added


def main() -> None:
    parent, empty, added = measure()
    print("what                                              ms")
    print(f"importing SparkSubmitOperator                 {parent:6.0f}")
    print(f"Airflow's own: the first DAG, empty           {empty:6.0f}")
    print(f"ours: the provider, and a DAG with one gate   {added:6.0f}")
    print(f"both, over importing SparkSubmitOperator      {empty + added:6.0f}   (limit 150)")


if __name__ == "__main__":
    main()
