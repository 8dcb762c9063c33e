"""Discovering the dependencies of a table, which its gate then keeps exact and watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_dc_provider.arguments import check_folder, constraint_source, is_open, load_name, settled
from airflow_dc_provider.exceptions import engine_errors_told
from airflow_dc_provider.operators.base import DcStateOperator
from dc_engine.constraints.files import load_constraints, to_mapping
from dc_engine.discovery.asking import Discovery

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_BEST = 10


class DcDiscoverOperator(DcStateOperator):
    """
    Discover the dependencies of a table and keep them in its state: every later load keeps them exact.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param state: The folder of the table's state, the gate's: an absolute path or an fsspec URI. (templated)
    :param table: Where the table is, in the form of a gate's ``changes``. Needed when the state has no rows yet (the
        table becomes its first load) or lacks columns that are looked at. (templated)
    :param classes: Which dependencies to look for: some of ``unique``, ``fd``, ``od``, ``pod``, ``dc``. By default
        ``unique``, ``fd`` and ``dc``.
    :param space: What to look at: ``columns`` or ``exclude``, ``ordered`` and ``unordered``, ``cross``,
        ``descending``, ``nulls``. (templated)
    :param mode: How patterns are kept: ``counted``, ``witnessed``, or ``auto``: whichever fits the size of the table.
    :param view: ``merged`` shows a dependency once, in its simplest class; ``complete`` shows the whole set of each.
    :param explain: Orders of lists (``year, salary -> year, bin``): which of their parts hold, and where one does not.
    :param max_error: The share of all pairs of rows that may violate a dependency; of an order dependency the share of
        rows without which it holds.
    :param limits: Where the search ends: ``max_terms``, ``max_dependencies``, ``seconds``; ``min_support``, of how many
        pairs of rows it is about at least; ``top``, how many are shown.
    :param load_id: What the table's rows are called if they become the first load. (templated)
    :param constraints: The constraint file for a state that is new (a relative path starts in the DAG file's folder),
        or its content as a mapping. (templated)
    :param engine: Where a first load is processed: ``auto``, ``spark`` or ``local``, as in the gate.
    :param mask: Columns whose values must not appear in the log, besides those that the newest load of the state
        masks. Which these are is known only to the job, so lines of Spark are not shown, unless this is ``[]``.
        (templated)
    :param max_wait_seconds: How long to keep trying while others commit to the same state first; 0: try once.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param conn_id: The Spark connection.
    """

    template_fields: Sequence[str] = ("table", "space", "load_id", "constraints", *DcStateOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"table": "json", "space": "json", "constraints": "yaml"}
    answer: ClassVar[str] = "list of dependencies"

    def __init__(
        self,
        *,
        table: Mapping[str, Any] | None = None,
        classes: Sequence[str] | None = None,
        space: Mapping[str, Any] | None = None,
        mode: str = "auto",
        view: str = "merged",
        explain: Sequence[str] | None = None,
        max_error: float = 0,
        limits: Mapping[str, Any] | None = None,
        load_id: str = "initial",
        constraints: str | Mapping[str, Any] | None = None,
        engine: str = "auto",
        name: str = "dc_discover",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.table = table
        self.classes = classes
        self.space = space
        self.mode = mode
        self.view = view
        self.explain = explain
        self.max_error = max_error
        self.limits = limits
        self.load_id = load_id
        self.constraints = constraints
        self.engine = engine
        self._check_what_is_known()

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, log the best of what it found, and return numbers and the best."""
        from dc_engine.telling import answer_lines
        from dc_engine.wording import MAX_TEXT, plain

        answer = self.run_job(context, self._request(), job="discover")
        for line in answer_lines(answer):
            self.log.info("%s", plain(line, MAX_TEXT))
        if not answer["complete"]:
            self.log.warning("These are not all dependencies: %s.", plain(answer["because"], MAX_TEXT))
        return summary(answer, self.state)

    def _request(self) -> dict[str, Any]:
        """The request, once everything is rendered; constraints go by value, so Spark needs no constraint file."""
        with engine_errors_told():
            check_folder("state", self.state)
            document = self._document(self._own_mask())
            if self.constraints is not None:
                document["constraints"] = to_mapping(load_constraints(constraint_source(self, self.constraints)))
            Discovery.from_mapping(document)
        return {name: value for name, value in document.items() if value is not None}

    def _document(self, mask: Sequence[str]) -> dict[str, Any]:
        return {
            "state": self.state,
            "table": self.table,
            "classes": self.classes,
            "space": self.space,
            "mode": self.mode,
            "view": self.view,
            "explain": self.explain,
            "max_error": self.max_error,
            "limits": self.limits,
            "load_id": load_name(self.load_id),
            "constraints": self.constraints,
            "mask": mask,
            "engine": self.engine,
            "max_wait_seconds": self.max_wait_seconds,
        }

    def _check_what_is_known(self) -> None:
        """At DAG parse: refuse what rendering cannot make right."""
        later: dict[str, Any] = {"table": settled(self.table)}
        for name in ("state", "load_id"):
            if is_open(getattr(self, name)):
                later[name] = "later"
        for name in ("space", "constraints"):
            if is_open(getattr(self, name)):
                later[name] = None
        given = self._document(() if is_open(self.mask) else self._own_mask())
        Discovery.from_mapping({**given, **later})


def summary(answer: Mapping[str, Any], state: str) -> dict[str, Any]:
    """What goes to XCom: how many dependencies of each class, whether these are all, and the best."""
    found = answer["dependencies"]
    return {
        "state": state,
        "rows": answer["rows"],
        "mode": answer["mode"],
        "complete": answer["complete"],
        "because": answer["because"],
        "valid": {name: sum(one["class"] == name for one in found) for name in answer["space"]["classes"]},
        "best": found[:_BEST],
        "left_out": answer["space"]["left_out"],
        "seconds": answer["seconds"],
    }
