"""The gate: one task that applies a load to the table's state and lets the DAG go on, or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, XComArg

from airflow_dc_provider.exceptions import DcGateError, DcViolationError, DcViolationRetryError
from spark_jobs.constraints.files import load_constraints, to_mapping
from spark_jobs.errors import DcError, RequestError, did_you_mean
from spark_jobs.request import Request

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection, Context

    from airflow_dc_provider.runs import Run
    from spark_jobs.verdict import Verdict

_ON_VIOLATION = ("fail", "warn")
_LATER = ("skip", "ask")
_SET_BY_THE_GATE = ("application", "application_args", "java_class", "durable", "reconnect_on_retry")
_QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
# A driver that lives for seconds starts faster without the optimising compiler and a parallel collector.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LAST_LINES = 20


class DcGateOperator(SparkSubmitOperator):
    """
    Check a load against the rules of its table and all rows loaded before; fail when it breaks one.

    Everything that ``SparkSubmitOperator`` takes is taken too, except the application and its arguments.

    :param constraints: The constraint file (a relative path starts at the DAG file's folder), or its content
        as a mapping. (templated)
    :param changes: Where the load's rows are: ``path`` (with ``format`` and ``options``), ``table`` or
        ``sql``, and ``where``. (templated)
    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param load_id: The load's name for ever; the same name with the same rows gives the stored verdict.
        (templated)
    :param on_violation: ``fail`` closes the gate on a broken rule of severity error, ``warn`` only says so.
    :param conn_id: The Spark connection.
    :param max_listed: How many violations a rule and load are listed at most; counts are always exact.
    :param max_samples: How many examples a rule are in the verdict at most.
    :param mask: Columns whose values must not appear in verdict, samples and logs. (templated)
    :param retry_on_violation: Let Airflow retry a closed gate: something else may mend the data meanwhile.
    """

    template_fields: Sequence[str] = (
        "constraints",
        "changes",
        "state",
        "load_id",
        "mask",
        *SparkSubmitOperator.template_fields,
    )
    # What the gate adds to; mypy does not see the parent's own.
    conf: dict[Any, Any] | None
    env_vars: dict[str, Any] | None
    py_files: str | None

    template_fields_renderers: ClassVar[dict[str, str]] = {"constraints": "yaml", "changes": "json"}

    def __init__(
        self,
        *,
        constraints: str | Mapping[str, Any],
        changes: Mapping[str, Any],
        state: str,
        load_id: str = "{{ run_id }}",
        on_violation: str = "fail",
        conn_id: str = "spark_default",
        max_listed: int = 10_000,
        max_samples: int = 20,
        mask: Sequence[str] = (),
        retry_on_violation: bool = False,
        name: str = "dc_gate",
        **kwargs: Any,
    ) -> None:
        for own in _SET_BY_THE_GATE:
            if kwargs.pop(own, None):
                raise ValueError(f"DcGateOperator sets '{own}' itself: leave it out.")
        # A driver found again by a retry would write its verdict where the first try looked for it.
        super().__init__(conn_id=conn_id, name=name, durable=False, **kwargs)
        self.constraints = constraints
        self.changes = changes
        self.state = state
        self.load_id = load_id
        self.on_violation = on_violation
        self.max_listed = max_listed
        self.max_samples = max_samples
        self.mask = mask
        self.retry_on_violation = retry_on_violation
        self._check_what_is_known()

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, say what it found, and raise when the gate is closed."""
        import tempfile

        from airflow_dc_provider.preflight import spark_connection
        from airflow_dc_provider.report import summary, verdict_lines, violation_message, warning_message
        from airflow_dc_provider.runs import exchange

        connection = spark_connection(self._conn_id)
        request = self._request()
        self._prepare_spark(connection)
        with exchange(request.state, request.to_dict()) as run, tempfile.TemporaryDirectory() as folder:
            verdict = self._submit(context, run, Path(folder))
        result = summary(verdict, request.state)
        # Before anything is raised: a failed task keeps what it has pushed.
        context["ti"].xcom_push(key="verdict", value=result)
        for line in verdict_lines(verdict, request.state):
            self.log.info("%s", line)
        if closes(verdict, self.on_violation):
            message = violation_message(verdict, request.state)
            # Airflow's log page keeps the lines of a record, but runs those of an exception together.
            self.log.error("%s", message)
            raise (DcViolationRetryError if self.retry_on_violation else DcViolationError)(message, result)
        if verdict.decision != "pass":
            self.log.warning("%s", warning_message(verdict))
        return result

    def _submit(self, context: Context, run: Run, folder: Path) -> Verdict:
        """Run the job and read its verdict; the job's error, or what Spark said last, when there is none."""
        from airflow_dc_provider.report import plain
        from spark_jobs.shipping import application, build_engine_zip

        self.application = application()
        self.application_args = ["--request", run.request, "--result", run.result]
        self.py_files = ",".join(filter(None, [self.py_files, str(build_engine_zip(folder))]))
        failure: Exception | None = None
        self.log.info("::group::Spark")
        try:
            super().execute(context)
        except (AirflowException, RuntimeError) as error:
            failure = error
        finally:
            self.log.info("::endgroup::")
        document = run.read_result()
        if document is None:
            raise no_verdict(failure) from failure
        if failure is not None and "error" not in document:
            self.log.warning("spark-submit failed after the job had written its verdict: %s", plain(str(failure), 500))
        return read_verdict(document)

    def _prepare_spark(self, connection: Connection) -> None:
        """Quiet settings, and for Spark on this machine an environment in which it starts, and fast."""
        from airflow_dc_provider.preflight import is_local, local_environment

        settings = dict(_QUIET)
        if is_local(connection):
            binary = self._spark_binary or connection.extra_dejson.get("spark-binary") or "spark-submit"
            env_vars = {name: str(value) for name, value in (self.env_vars or {}).items()}
            self.env_vars = {**env_vars, **local_environment(binary, env_vars)}
            if not self.properties_file:
                settings["spark.driver.extraJavaOptions"] = _SHORT_LIVED
        self.conf = {**settings, **(self.conf or {})}

    def _request(self) -> Request:
        """The request, once all is rendered; constraints go by value, so Spark needs no constraint file."""
        try:
            check_state(self.state)
            rules = to_mapping(load_constraints(self._constraint_source()))
            return Request.from_mapping({**self._document(), "constraints": rules})
        except DcError as error:
            raise DcGateError(error.message, hint=error.hint) from error

    def _document(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "load_id": str(self.load_id),
            "changes": self.changes,
            "constraints": self.constraints,
            "max_listed": self.max_listed,
            "max_samples": self.max_samples,
            "mask": self.mask,
        }

    def _constraint_source(self) -> str | Mapping[str, Any]:
        if not isinstance(self.constraints, str) or "://" in self.constraints:
            return self.constraints
        folder = Path(self.dag.fileloc).parent if self.has_dag() else Path()
        return str(folder / self.constraints)

    def _check_what_is_known(self) -> None:
        """At DAG parse: refuse what cannot become right by rendering."""
        check_on_violation(self.on_violation)
        if not is_open(self.state):
            check_state(self.state)
        changes = {"path": "later"} if isinstance(self.changes, XComArg) else settled(self.changes)
        later: dict[str, Any] = {"changes": changes}
        for name, stand_in in (("state", "later"), ("constraints", "later"), ("mask", ())):
            if isinstance(getattr(self, name), XComArg):
                later[name] = stand_in
        Request.from_mapping({**self._document(), **later})
        if not is_open(self.constraints):
            source = self._constraint_source()
            if not isinstance(source, str) or Path(source).exists():
                load_constraints(source)


def closes(verdict: Verdict, on_violation: str) -> bool:
    """Whether a verdict closes the gate."""
    return verdict.decision == "fail" and on_violation == "fail"


def check_on_violation(value: str) -> None:
    """Refuse what the gate does not know."""
    if value in _LATER:
        raise ValueError(f"on_violation='{value}' comes in a later version; today it is one of {_ON_VIOLATION}.")
    if value not in _ON_VIOLATION:
        hint = did_you_mean(str(value), _ON_VIOLATION)
        raise ValueError(f"on_violation is {value!r}, and must be one of {_ON_VIOLATION}. {hint}")


def check_state(value: Any) -> None:
    """Refuse a relative path: it would be another, empty state wherever a worker happens to start."""
    if not isinstance(value, str) or not ("://" in value or Path(value).is_absolute()):
        raise RequestError(f"state is {value!r}, and must be an absolute path or a URI such as s3://bucket/state/tax.")


def is_open(value: Any) -> bool:
    """Whether a value is known only once the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_open(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(is_open(one) for one in value)
    return isinstance(value, XComArg)


def settled(value: Any) -> Any:
    """A value with a text in place of each result of another task, so that its form can be checked."""
    if isinstance(value, Mapping):
        return {name: settled(one) for name, one in value.items()}
    return "later" if isinstance(value, XComArg) else value


def read_verdict(document: dict[str, Any]) -> Verdict:
    """The verdict in a result document; raises the job's own error when it holds one."""
    from spark_jobs.verdict import SCHEMA_VERSION, Verdict

    if error := document.get("error"):
        raise DcGateError(error.get("message", "The job failed."), hint=error.get("hint", ""))
    if document.get("schema_version") != SCHEMA_VERSION:
        raise DcGateError(
            f"The job's verdict has schema version {document.get('schema_version')!r}; "
            f"this provider reads {SCHEMA_VERSION}.",
            hint="Another engine ran than this provider's: look for another spark_jobs in py_files.",
        )
    return Verdict.from_dict(document)


def no_verdict(failure: Exception | None) -> DcGateError:
    """The error for a job that left nothing: what Spark said last."""
    from airflow_dc_provider.report import plain

    if failure is None:
        return DcGateError(
            "spark-submit succeeded, but the job left no verdict.",
            hint="Airflow's worker and Spark's driver must see the same state folder.",
        )
    lines = [plain(line, 300) for line in str(failure).splitlines() if line.strip()][-_LAST_LINES:]
    return DcGateError("spark-submit failed before the job could say why. Its last lines:\n" + "\n".join(lines))
