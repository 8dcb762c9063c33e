"""What every task does to run a job of the engine: connection, exchange of documents, submission, cleanup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException

from airflow_dc_provider.arguments import check_folder, is_open
from airflow_dc_provider.exceptions import DcGateError, engine_errors_told
from airflow_dc_provider.pages.recorded import record_state
from dc_engine.request import MAX_WAIT_SECONDS, check_load_id, check_number, read_names

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.common.compat.sdk import Connection, Context

    from airflow_dc_provider.connect import Driver
    from airflow_dc_provider.runs import Run
    from airflow_dc_provider.spark_log import SparkLog

QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
# Spark's warnings and errors quote values of the data.
SILENT = {**QUIET, "spark.log.level": "FATAL"}
# A driver that lives for seconds starts faster without the optimising compiler and a parallel collector, and its
# heap need not grow far beyond what is in it.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25"
_SET_BY_THE_OPERATOR = ("application", "application_args", "java_class", "durable", "reconnect_on_retry")
_NOT_SET: tuple[Any, ...] = (None, "", (), [], {})
_LAST_LINES = 20
_LEFT_OUT = "its last lines are left out, because {} and Spark's errors quote values."


class DcSparkOperator(SparkSubmitOperator):
    """
    Run one job of the engine on a table's state.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem. They go to the
        driver in a file that only this user can read and that the driver removes once it has read it, and
        from there in Spark's tasks to the workers, which open the state themselves. No process has them in its
        arguments or its environment.
    :param max_wait_seconds: How long to keep trying while others commit to the same state first; 0: try once.
    :param conn_id: The Spark connection: of type ``spark``, to submit the job with ``spark-submit``; or of type
        ``spark_connect``, to run it on a Spark Connect server.
    """

    template_fields: Sequence[str] = ("state", *SparkSubmitOperator.template_fields)
    answer: ClassVar[str] = "result"
    """What messages call the document that the job leaves."""
    mask: Sequence[str] | None = ()
    """Columns whose values must not be shown; ``None``: only the state knows which."""
    # What the operator adds to; mypy does not see the parent's own.
    conf: dict[Any, Any] | None
    env_vars: dict[str, Any] | None
    py_files: str | None

    def __init__(
        self,
        *,
        state: str,
        state_conn_id: str | None = None,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
        conn_id: str = "spark_default",
        **kwargs: Any,
    ) -> None:
        for own in _SET_BY_THE_OPERATOR:
            if kwargs.pop(own, None):
                raise ValueError(f"{type(self).__name__} sets '{own}' itself: leave it out.")
        # A driver that a retry reattached to would write its result where the first try looked for it.
        super().__init__(conn_id=conn_id, durable=False, **kwargs)
        self.state = state
        self.state_conn_id = state_conn_id
        self.max_wait_seconds = max_wait_seconds
        self._credentials: Path | None = None
        self._address: Path | None = None
        self._driver: Driver | None = None
        self._said: SparkLog | None = None
        self._run: Run | None = None
        self._killed = False
        check_number("max_wait_seconds", max_wait_seconds, 0)
        if not is_open(state):
            check_folder("state", state)

    def _do_render_template_fields(self, parent: Any, template_fields: Any, *given: Any, **named: Any) -> None:
        """Render, and list only what is set under Rendered Templates: ``SparkSubmitOperator`` has many more."""
        super()._do_render_template_fields(parent, template_fields, *given, **named)
        if parent is self:
            self.after_rendering()
            self.template_fields = [name for name in template_fields if getattr(self, name) not in _NOT_SET]

    def after_rendering(self) -> None:
        """What else to make of arguments that are rendered now, before they are shown."""

    @property
    def hidden(self) -> str:
        """Why no line of Spark is shown; nothing when they are."""
        if self.mask is None:
            return "columns may be masked in the state (with mask=[] all lines are shown)"
        return "columns are masked" if self.mask else ""

    @property
    def _program(self) -> str:
        """What messages call that which runs the job."""
        return "spark-submit" if self._driver is None else self._driver.name

    def run_job(
        self, context: Context, request: Mapping[str, Any], *, job: str, arguments: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Submit a job with a request, and return the document that it answers with."""
        import tempfile

        from airflow_dc_provider.credentials import state_access
        from airflow_dc_provider.preflight import is_connect, spark_connection
        from airflow_dc_provider.runs import exchange
        from dc_engine.shipping import application, build_engine_zip

        record_state(context, self.state, self.state_conn_id)
        connection = spark_connection(self._conn_id)
        self._prepare_spark(connection)
        access = state_access(self.state_conn_id)
        with exchange(self.state, request, access.options) as run, tempfile.TemporaryDirectory() as folder:
            self._run = run
            self._credentials = access.hand_over(Path(folder))
            given = [*arguments, "--request", run.request, "--result", run.result]
            if self._credentials is not None:
                given += ["--state-options", str(self._credentials)]
            if is_connect(connection):
                self._driver = self._driver_of(connection, job, given, Path(folder))
            else:
                self.application, self.application_args = application(job), given
                self.py_files = ",".join(filter(None, [self.py_files, str(build_engine_zip(Path(folder)))]))
            failure = self._submit(context)
            document = run.read_result()
        return self._read(document, failure)

    def _submit(self, context: Context) -> Exception | None:
        """Run spark-submit, or the driver of a Spark Connect server, to its end; the failure that it had, if any."""
        failure: Exception | None = None
        self.log.info("::group::Spark")
        try:
            if self._killed:
                pass
            elif self._driver is not None:
                self._driver.run()
            else:
                super().execute(context)
        except (AirflowException, RuntimeError) as error:
            failure = error
        except BaseException:
            # A timeout, an interrupt: what was started must not go on while the next try runs.
            self._end_spark()
            raise
        finally:
            if self._said is not None:
                self._said.close()
            self.log.info("::endgroup::")
        if self._killed:
            raise DcGateError(f"The task was killed, and with it {self._program} and all that it had started.")
        return failure

    def _read(self, document: dict[str, Any] | None, failure: Exception | None) -> dict[str, Any]:
        """The job's document, checked; if there is none, raises its error or what Spark logged last."""
        from dc_engine.verdict import SCHEMA_VERSION
        from dc_engine.wording import plain

        if document is None:
            # Without its cause: that quotes spark-submit's last lines as they are.
            raise no_answer(self.answer, failure, self.hidden, self._program) from None
        if error := document.get("error"):
            raise DcGateError.told(error.get("message", "The job failed."), error.get("hint", ""))
        if document.get("schema_version") != SCHEMA_VERSION:
            raise DcGateError(
                f"The job's {self.answer} has schema version {document.get('schema_version')!r}; "
                f"this provider reads {SCHEMA_VERSION}.",
                hint="An engine other than this provider's ran: look for another dc_engine in py_files.",
            )
        if failure is not None:
            said = _LEFT_OUT.format(self.hidden) if self.hidden else plain(str(failure), 500)
            self.log.warning("%s failed after the job had written its %s: %s", self._program, self.answer, said)
        return document

    def _prepare_spark(self, connection: Connection) -> None:
        """Quiet settings, and for Spark on this machine an environment in which it starts, and starts fast."""
        from airflow_dc_provider.connect import check_arguments
        from airflow_dc_provider.preflight import check_the_driver_is_here, is_connect, is_local, local_environment

        if is_connect(connection):
            check_arguments(self, self._conn_id)
            return
        settings = dict(SILENT if self.hidden else QUIET)
        extra = connection.extra_dejson
        if is_local(connection):
            binary = self._spark_binary or extra.get("spark-binary") or "spark-submit"
            env_vars = {name: str(value) for name, value in (self.env_vars or {}).items()}
            self.env_vars = {**env_vars, **local_environment(binary, env_vars)}
            if not self.properties_file:
                settings["spark.driver.extraJavaOptions"] = SHORT_LIVED
        self.conf = {**settings, **(self.conf or {})}
        if self.state_conn_id is not None:
            named = self._deploy_mode or extra.get("deploy-mode")
            check_the_driver_is_here(named or self.conf.get("spark.submit.deployMode"))

    def _driver_of(self, connection: Connection, job: str, given: Sequence[str], folder: Path) -> Driver:
        """The driver of a job on a Spark Connect server."""
        from airflow_dc_provider.connect import Driver, hand_over, remote, with_session
        from airflow_dc_provider.credentials import hidden_variables
        from airflow_dc_provider.spark_log import SparkLog

        address = with_session(remote(self._conn_id, connection))
        self._address = hand_over(folder, address, self.conf or {})
        self._said = SparkLog(self.log, hidden=self.hidden)
        environment = {name: str(value) for name, value in (self.env_vars or {}).items()}
        environment |= hidden_variables(self.state_conn_id) | hidden_variables(self._conn_id)
        return Driver(job, [*given, "--connect", str(self._address)], environment, self._said, address)

    def _get_hook(self) -> SparkSubmitHook:
        """The hook that submits: with a log that nothing can forge, and without a connection in its environment."""
        from airflow_dc_provider.credentials import hidden_variables
        from airflow_dc_provider.spark_log import SparkLog

        hook = super()._get_hook()
        self._said = SparkLog(hook.log, hidden=self.hidden)
        hook._log = self._said
        hidden = hidden_variables(self.state_conn_id)
        build = hook._build_spark_submit_command

        def build_then_hide(application: str) -> list[str]:
            # Not as env_vars: for YARN and Kubernetes those become arguments.
            command = build(application)
            if hidden:
                hook._env = {**(hook._env or {}), **hidden}
            return command

        hook._build_spark_submit_command = build_then_hide
        return hook

    def on_kill(self) -> None:
        """End what was started, and leave nothing behind for the next try to stumble over."""
        self._killed = True
        try:
            self._end_spark()
        finally:
            for path in filter(None, (self._credentials, self._address)):
                path.unlink(missing_ok=True)
            if self._run is not None:
                self._run.remove()

    def _end_spark(self) -> None:
        """End spark-submit, its driver and their workers here; elsewhere, what the parent class or a server ends."""
        from airflow_dc_provider.processes import end_descendants

        if self._driver is not None:
            self._driver.end()
        if self._hook is None:
            return
        process = self._hook._submit_sp
        if process is not None and process.poll() is None:
            end_descendants(process.pid)
        try:
            super().on_kill()
        finally:
            if process is not None:
                process.kill()


class DcStateOperator(DcSparkOperator):
    """
    Run one action on a state as it is, without a load.

    :param mask: Columns whose values must not appear in the log, besides those that the newest load of the state
        masks. Which these are is known only to the job, so lines of Spark are not shown, unless this is ``[]``.
        (templated)
    """

    template_fields: Sequence[str] = ("mask", *DcSparkOperator.template_fields)

    def __init__(self, *, mask: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask = mask
        if not is_open(mask):
            self._own_mask()

    def _own_mask(self) -> list[str]:
        return list(read_names("mask", () if self.mask is None else self.mask))

    def run_action(self, context: Context, action: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Submit the action, log its text for people, and return the rest of its result."""
        from dc_engine.wording import MAX_TEXT, plain

        with engine_errors_told():
            check_folder("state", self.state)
            if "load_id" in details:
                check_load_id(details["load_id"])
            mask = {"mask": own} if (own := self._own_mask()) else {}
        request = {"state": self.state, "max_wait_seconds": self.max_wait_seconds, **mask, **details}
        result = self.run_job(context, request, job="maintain", arguments=(action,))
        for line in result.pop("text", "").splitlines():
            self.log.info("%s", plain(line, MAX_TEXT))
        return result


def no_answer(answer: str, failure: Exception | None, hidden: str = "", program: str = "spark-submit") -> DcGateError:
    """The error for a job that left nothing: what Spark said last, unless ``hidden`` says why that is not shown."""
    from dc_engine.wording import plain

    if failure is None:
        return DcGateError(
            f"{program} succeeded, but the job left no {answer}.",
            hint="Airflow's worker and Spark's driver must see the same state folder.",
        )
    if hidden:
        return DcGateError(
            f"{program} failed before the job could say why; {_LEFT_OUT.format(hidden)}",
            hint="Look into Spark's own logs, where it has some; or run the task once with mask=[] where its log may "
            "show values.",
        )
    lines = [plain(line, 300) for line in str(failure).splitlines() if line.strip()][-_LAST_LINES:]
    return DcGateError(f"{program} failed before the job could say why. Its last lines:\n" + "\n".join(lines))
