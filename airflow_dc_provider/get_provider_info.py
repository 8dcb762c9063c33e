"""What Airflow learns about this provider. Every Airflow process imports it, so it imports nothing."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, by Airflow's ``provider_info`` schema."""
    return {
        "package-name": "airflow-dc-provider",
        "name": "Denial constraints",
        "description": "Tasks that are quality gates on rules between rows: exact, incremental, on Spark.",
        "integrations": [{"integration-name": "Denial constraints", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": "Denial constraints",
                "python-modules": [
                    "airflow_dc_provider.operators.branch",
                    "airflow_dc_provider.operators.discover",
                    "airflow_dc_provider.operators.export_checkpoint",
                    "airflow_dc_provider.operators.gate",
                    "airflow_dc_provider.operators.maintain",
                    "airflow_dc_provider.operators.retract",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": "Denial constraints",
                "python-modules": [
                    "airflow_dc_provider.sensors.gate",
                    "airflow_dc_provider.sensors.pending",
                    "airflow_dc_provider.sensors.verdict",
                ],
            }
        ],
        "hooks": [{"integration-name": "Denial constraints", "python-modules": ["airflow_dc_provider.hooks.state"]}],
        "triggers": [
            {"integration-name": "Denial constraints", "python-modules": ["airflow_dc_provider.triggers.looking"]}
        ],
        "notifications": ["airflow_dc_provider.notifications.failure.DcFailureNotifier"],
        "extra-links": [
            "airflow_dc_provider.links.data_docs.DataDocsLink",
            "airflow_dc_provider.links.review.VerdictLink",
        ],
    }
