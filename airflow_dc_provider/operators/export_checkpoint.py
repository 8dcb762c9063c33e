"""A gate's verdict, for those who review quality in Great Expectations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_dc_provider.arguments import check_folder, is_open, load_name
from airflow_dc_provider.exceptions import DcGateError, engine_errors_told
from airflow_dc_provider.links.data_docs import DATA_DOCS, DataDocsLink
from airflow_dc_provider.mapping import LOAD_OF_THE_RUN
from airflow_dc_provider.pages.recorded import DOCS, SITE
from dc_engine.request import check_load_id, read_names

# What only a running task needs is imported by it, above all Great Expectations, which takes seconds.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context

    from airflow_dc_provider.checkpoints.export import Exported


class DcExportCheckpointOperator(BaseOperator):
    """
    Run the checkpoint ``dcgate.<table>`` over the stored verdict of a load, and update Data Docs for this run.

    It reports what the gate decided and decides nothing itself: it succeeds even when the checkpoint does not pass.
    With ``trigger_rule="all_done"`` behind a gate it runs whether the gate is green or red.

    :param state: The folder of the table's state. (templated)
    :param load_id: The load whose verdict is exported; by default the DAG run's id, with the map index of a
        mapped task. (templated)
    :param context_folder: The folder of a Great Expectations file context, an absolute path or an fsspec URI; made
        when missing. (templated)
    :param docs_url: Where the folder of Data Docs' start page is served, for the link on the task; without it Airflow
        itself shows the page. (templated)
    :param mask: Columns whose values must not be shown, besides those that the newest load of the state masks.
        (templated)
    :param keep_runs: The most checkpoint runs of the table that the context keeps.
    :param keep_days: The most days that it keeps a checkpoint run.
    :param export_builtin: Write the rules that built-in expectations express without loss as the suite
        ``dcgate_builtin.<table>`` too.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param context_conn_id: The Airflow connection with the credentials of the context's filesystem.
    """

    template_fields: Sequence[str] = ("state", "load_id", "context_folder", "docs_url", "mask")
    operator_extra_links: ClassVar[tuple[BaseOperatorLink, ...]] = (DataDocsLink(),)

    def __init__(
        self,
        *,
        state: str,
        context_folder: str,
        load_id: str = LOAD_OF_THE_RUN,
        docs_url: str | None = None,
        mask: Sequence[str] = (),
        keep_runs: int | None = 50,
        keep_days: float | None = None,
        export_builtin: bool = False,
        state_conn_id: str | None = None,
        context_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state = state
        self.load_id = load_id
        self.context_folder = context_folder
        self.docs_url = docs_url
        self.mask = mask
        self.keep_runs = keep_runs
        self.keep_days = keep_days
        self.export_builtin = export_builtin
        self.state_conn_id = state_conn_id
        self.context_conn_id = context_conn_id
        for name in ("state", "context_folder"):
            if not is_open(getattr(self, name)):
                check_folder(name, getattr(self, name))
        if not is_open(mask):
            read_names("mask", mask)
        if not is_open(load_id):
            check_load_id(load_name(load_id))
        for name, kind, least in (("keep_runs", int, 1), ("keep_days", (int, float), 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or value < least):
                raise ValueError(f"{name} is {value!r}, and must be at least {least}, or None.")

    def execute(self, context: Context) -> dict[str, Any]:
        """Export, log what the checkpoint found, and push the page's address."""
        with engine_errors_told():
            exported = self._export()
        for line in exported.lines:
            self.log.info("%s", line)
        outcome = "passes" if exported.success else "does not pass"
        again = "; it had been exported before, so if the gate failed just now this is an earlier attempt's verdict"
        again = again if exported.repeated else ""
        self.log.info("Checkpoint %s, run %s: %s%s.", exported.checkpoint, exported.run, outcome, again)
        page = page_address(exported.docs, exported.index, self.docs_url)
        self.log.info("Data Docs: %s", page)
        context["ti"].xcom_push(key=DATA_DOCS, value=page)
        self._record(context, exported)
        return {
            "checkpoint": exported.checkpoint,
            "run": exported.run,
            "success": exported.success,
            "repeated": exported.repeated,
            "data_docs": page,
        }

    def _record(self, context: Context, exported: Exported) -> None:
        """Tell the pages of Airflow where these Data Docs are, unless they are at a place of their own."""
        site = f"{exported.folder}/{SITE}/"
        page = (exported.docs or "").removeprefix("file://")
        if page.startswith(site):
            where = {"folder": exported.folder, "docs_conn_id": self.context_conn_id}
            context["ti"].xcom_push(key=DOCS, value={**where, "page": unquote(page.removeprefix(site))})

    def _export(self) -> Exported:
        from airflow_dc_provider.credentials import state_access
        from dc_engine.state.storage import Storage
        from dc_engine.stored import find_load, verdict_of

        for name in ("state", "context_folder"):
            check_folder(name, getattr(self, name))
        load_id, mask = load_name(self.load_id), read_names("mask", self.mask)
        check_load_id(load_id)
        storage = Storage(self.state, state_access(self.state_conn_id).options)
        snapshot, load = find_load(storage, str(load_id))
        return _exporter()(
            verdict_of(storage, load),
            self.context_folder,
            newest=snapshot.loads(storage).last(1) == [load],
            mask=[*snapshot.mask, *mask],
            keep_runs=self.keep_runs,
            keep_days=self.keep_days,
            export_builtin=self.export_builtin,
            storage_options=state_access(self.context_conn_id).options,
        )


def page_address(page: str | None, index: str | None, docs_url: str | None) -> str | None:
    """Where people find a page: below ``docs_url``, as it lies below the start page."""
    if page is None or index is None or docs_url is None:
        return page
    return f"{docs_url.rstrip('/')}/{page.removeprefix(index.rpartition('/')[0]).lstrip('/')}"


def _exporter() -> Any:
    import logging

    logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it logs every file that it reads
    try:
        from airflow_dc_provider.checkpoints.export import export_checkpoint
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "great_expectations":
            raise
        raise DcGateError(
            "Great Expectations 1.24 or later is not installed where this task runs.",
            hint="pip install 'airflow-dc-provider[gx]'",
        ) from error
    return export_checkpoint
