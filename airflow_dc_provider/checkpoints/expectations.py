"""The expectations over a stored verdict: a rule holds, a dependency holds, the run is complete.

They judge what the gate counted and never look at the table. What they cannot find in the verdict, or find there in
a form other than the suite's, fails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType
from great_expectations.render.renderer.renderer import renderer

from airflow_dc_provider.checkpoints import rendering
from airflow_dc_provider.checkpoints.batch import StoredVerdict, read_records
from dc_engine.constraints.model import Tolerance
from dc_engine.errors import counted
from dc_engine.reporting import tolerated

METRIC = "table.dcgate.verdict"


class TableDcgateVerdict(TableMetricProvider):
    """The verdict that a batch holds, read once for all expectations of a suite."""

    metric_name = METRIC

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805  (the decorator makes it a class method)
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],  # noqa: ARG002  (Great Expectations calls it by these names)
        metrics: dict[str, Any],  # noqa: ARG002
        runtime_configuration: dict[str, Any],  # noqa: ARG002
    ) -> StoredVerdict:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return read_records(frame.to_dict("records"))


class StoredVerdictExpectation(BatchExpectation, ABC):
    """What the three have in common: one look at the verdict, and how they are shown."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)

    @abstractmethod
    def judge(self, verdict: StoredVerdict) -> dict[str, Any]:
        """The details of the result: ``observed`` in words, optionally as ``facts`` too; ``problem`` when it fails."""

    @classmethod
    @abstractmethod
    def prescribe(cls, kwargs: dict[str, Any]) -> list[tuple[str, str]]:
        """What is expected: pieces of text, each with the style it is shown in."""

    @classmethod
    def _pieces(cls, configuration: Any) -> list[tuple[str, str]]:
        """What is expected, and that a failure is only a warning."""
        name, *rest = cls.prescribe(configuration.kwargs)
        return [name, ("badge", "severity warn" if configuration.severity == FailureSeverity.WARNING else ""), *rest]

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,  # noqa: ARG002  (called by these names)
        execution_engine: Any = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        verdict = metrics[METRIC]
        details = self.judge(verdict)
        judged = {name: verdict.run.get(name) for name in ("load_id", "snapshot")}
        observed = details.pop("observed")
        return {
            "success": details["problem"] is None,
            "result": {"observed_value": observed, "details": {**judged, **details}},
        }

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: Any) -> Any:
        """The atomic form, which is also the text form."""
        given = renderer_configuration.configuration or renderer_configuration.result.expectation_config
        return rendering.atomic(renderer_configuration, cls._pieces(given))

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any]:
        given = configuration if configuration is not None else result.expectation_config
        return rendering.prescription(cls._pieces(given))

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> Any:  # noqa: ARG003
        return rendering.observed(result)

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> Any:  # noqa: ARG003
        return rendering.statement(result)

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _diagnostic_unexpected_table_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> Any:  # noqa: ARG003
        return rendering.examples(result)


class ExpectDenialConstraintToHold(StoredVerdictExpectation):
    """A load brought no more new violations of a rule than are tolerated."""

    constraint: str
    formula: str
    kind: str = "deny"
    nulls: str = "ignore"
    sentence: str = ""
    max_new_violations: int | None = None
    max_violating_rows: int | str | None = None
    """A number of rows, or a share of the load's as text: ``4%``."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    success_keys: ClassVar[tuple[str, ...]] = (
        "constraint",
        "formula",
        "nulls",
        "max_new_violations",
        "max_violating_rows",
    )

    def judge(self, verdict: StoredVerdict) -> dict[str, Any]:
        """The rule's counts against the tolerance."""
        rule = verdict.constraints.get(self.constraint)
        if rule is None:
            return _missing(f"The verdict says nothing about the rule '{self.constraint}'.")
        if (rule["formula"], rule["nulls"]) != (self.formula, self.nulls):
            return _missing(f"It is about another rule of this name: {rule['formula']}, nulls: {rule['nulls']}.")
        load_rows = verdict.run.get("rows", {}).get("inserted", 0)
        counts = {name: rule[name] for name in ("new_violations", "violating_rows")}
        facts = rendering.counts(rule, load_rows)
        tolerance = Tolerance.of(self.max_new_violations, self.max_violating_rows)
        held = tolerance.allows(**counts, load_rows=load_rows)
        problem = None if held else f"Beyond what is tolerated: {tolerated(tolerance)}."
        shown = ("new_violations", "removed_violations", "total_violations", "violating_rows", "skipped_null_rows")
        return {
            "observed": f"{facts[0]} {', '.join(facts[1:])}",
            "facts": facts,
            "problem": problem,
            **{name: rule[name] for name in shown},
            "samples": rendering.packed(rule["samples"]),
            "worst_rows": rule["worst_rows"][:3],
            "violations": rule["violations"],
        }

    @classmethod
    def prescribe(cls, kwargs: dict[str, Any]) -> list[tuple[str, str]]:
        """Name, sentence, formula, tolerance."""
        nulls = "; NULL equals NULL" if kwargs.get("nulls") == "equal" else ""
        tolerance = Tolerance.of(kwargs.get("max_new_violations"), kwargs.get("max_violating_rows"))
        return [
            ("name", kwargs.get("constraint", "")),
            ("sentence", kwargs.get("sentence", "")),
            ("formula", kwargs.get("formula", "")),
            ("plain", f"Tolerated per load: {tolerated(tolerance)}{nulls}."),
        ]


class ExpectDependencyToHold(StoredVerdictExpectation):
    """A watched dependency still holds after a load."""

    dependency: str
    dependency_class: str
    formula: str
    sentence: str = ""
    since: str = ""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    success_keys: ClassVar[tuple[str, ...]] = ("dependency", "formula")

    def judge(self, verdict: StoredVerdict) -> dict[str, Any]:
        """Whether the verdict has it among those that hold."""
        found = verdict.dependencies.get(self.dependency)
        if found is None:
            return _missing(f"The verdict says nothing about the dependency '{self.dependency}'.")
        if found["formula"] != self.formula:
            return _missing(f"It is about another dependency of this name: {found['formula']}.")
        if "violations" not in found:
            return {"observed": "holds", "problem": None}
        instead = ", ".join(one["text"] for one in found["instead"])
        return {
            "observed": f"no longer holds: {counted(found['violations'], 'violation')}",
            "problem": f"The load invalidated it.{f' What holds instead: {instead}.' if instead else ''}",
            "samples": rendering.packed([found["example"]] if found["example"] else []),
        }

    @classmethod
    def prescribe(cls, kwargs: dict[str, Any]) -> list[tuple[str, str]]:
        """Name, class, formula, since when."""
        since = f" It has held since load {kwargs['since']}." if kwargs.get("since") else ""
        return [
            ("name", kwargs.get("dependency", "")),
            ("sentence", kwargs.get("sentence", "")),
            ("formula", kwargs.get("formula", "")),
            ("plain", f"A watched dependency of class {kwargs.get('dependency_class', '')}.{since}"),
        ]


class ExpectGateRunToBeComplete(StoredVerdictExpectation):
    """There is one whole verdict, of this table, with as many rules as the suite."""

    table_name: str
    rules: int
    dependencies: int = 0

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    success_keys: ClassVar[tuple[str, ...]] = ("table_name", "rules", "dependencies")

    def judge(self, verdict: StoredVerdict) -> dict[str, Any]:
        """Everything that can be wrong with a verdict as a whole."""
        run, problems = verdict.run, list(verdict.problems)
        if run and run.get("table") != self.table_name:
            problems.append(f"It is the verdict of another table: '{run.get('table')}'.")
        if len(verdict.constraints) != self.rules:
            problems.append(f"It has {counted(len(verdict.constraints), 'rule')}, the suite {self.rules:,}.")
        if len(verdict.dependencies) != self.dependencies:
            problems.append(f"It has {_dependencies(len(verdict.dependencies))}, the suite {self.dependencies:,}.")
        facts = rendering.run_facts(run) if run else ["no verdict"]
        observed = "; ".join([rendering.where(run), *facts] if run else facts)
        known = {name: run.get(name) for name in ("decision", "rows", "replaced", "discarded", "decided", "notes")}
        return {"observed": observed, "facts": facts, "problem": " ".join(problems) or None, **known}

    @classmethod
    def prescribe(cls, kwargs: dict[str, Any]) -> list[tuple[str, str]]:
        """What a complete verdict has, and what this checkpoint judges."""
        rules = counted(kwargs.get("rules", 0), "rule")
        dependencies = f" and {_dependencies(kwargs['dependencies'])}" if kwargs.get("dependencies") else ""
        return [
            ("name", "The verdict is complete"),
            ("plain", f"A verdict of table {kwargs.get('table_name')} over {rules}{dependencies}."),
            ("note", rendering.WHAT_IS_JUDGED),
        ]


def _dependencies(number: int) -> str:
    return counted(number, "dependency", "dependencies")


def _missing(problem: str) -> dict[str, Any]:
    return {"observed": "not in the verdict", "problem": problem}
