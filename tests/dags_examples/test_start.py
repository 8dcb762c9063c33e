"""``make airflow``: where it listens."""

from __future__ import annotations

from pathlib import Path

from dags_examples.start import environment


def test_it_listens_on_this_machine_alone_and_every_address_has_the_port():
    made = environment(Path("/home/of/it"), 8123)
    assert made["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert made["AIRFLOW__API__PORT"] == "8123"
    addresses = [made[f"AIRFLOW__{name}"] for name in ("API__BASE_URL", "CORE__EXECUTION_API_SERVER_URL")]
    assert addresses == ["http://127.0.0.1:8123", "http://127.0.0.1:8123/execution/"]
    assert made["AIRFLOW_HOME"] == "/home/of/it"
