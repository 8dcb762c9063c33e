"""What a context with our checkpoints imports when it is opened: an entry among its stores names this module.

Great Expectations drops expectations whose class it does not know, and a checkpoint without them passes. So the
context imports them here; where this package is missing, it does not open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from great_expectations.data_context.store.store import Store

from airflow_dc_provider.checkpoints import expectations  # noqa: F401  (registers them)

PREFIX = "dcgate."
FOLDER = "dcgate"
STORE = "dcgate"
CONFIGURATION = {"class_name": "GateStore", "module_name": __name__}


class GateStore(Store):
    """Stores nothing. Tells a context where its verdicts are, even after its folder was moved or copied."""

    def __init__(self, store_name: str = STORE, data_context: Any = None, root_directory: Any = None) -> None:
        super().__init__(store_name=store_name)
        self._config = {**CONFIGURATION, "store_name": store_name}
        for datasource in data_context.fluent_config.datasources if root_directory else ():
            before = Path(getattr(datasource, "base_directory", ""))
            if before.parent.name == FOLDER and datasource.name == f"{PREFIX}{before.name}":
                datasource.base_directory = Path(root_directory) / FOLDER / before.name

    @property
    def config(self) -> dict[str, Any]:
        """How the context's configuration names it."""
        return self._config
