"""Discover dependencies: in a table, or in the rows of a state, which then keeps them exact with every load.

``discover(spark, request)`` is the function; as an application: ``python -m dc_engine.discover --request asked.json``,
or with a table and no request ``--table orders.csv --suggest rules.yml``, as ``dcgate discover`` takes them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.apply_load import apply_load
from dc_engine.changing import caught_up
from dc_engine.constraints.files import load_constraints, to_mapping
from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.fetched import Columns, Measured
from dc_engine.detection.planning import make_plan
from dc_engine.discovery.asking import Discovery
from dc_engine.discovery.space import Space
from dc_engine.engines.base import Engine
from dc_engine.engines.spark import engine_of
from dc_engine.errors import RequestError, StateError, counted
from dc_engine.explaining import check_orders, orders_of
from dc_engine.finding import answer_of, comparable_columns, in_table, make_space
from dc_engine.job import Clock, State, run
from dc_engine.maintained.base import Ground
from dc_engine.maintained.columns import with_columns
from dc_engine.maintained.continuity import DEPENDENCIES, check_mask, check_table, rules_of
from dc_engine.maintained.dependencies import Dependencies
from dc_engine.maintained.everything import recognises
from dc_engine.maintained.reading import living_columns
from dc_engine.maintained.resting import resting
from dc_engine.maintained.stored import read_set
from dc_engine.masking import without_values
from dc_engine.request import Request
from dc_engine.sizes import SIZES
from dc_engine.state.files import Action
from dc_engine.state.snapshots import Snapshot, advance, read_current
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.suggesting import answer_for_people
from dc_engine.table_files import discovery_options, table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def discover(
    session: SparkSession | Callable[[], SparkSession] | Engine,
    request: Discovery | Mapping[str, Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The dependencies of a table; with a state they are kept in it from now on."""
    asked = request if isinstance(request, Discovery) else Discovery.from_mapping(request)
    engine, clock = engine_of(session, asked.engine), Clock()
    with without_values(asked.mask):
        if asked.state is None:
            orders = _orders_in_table(engine, asked)  # first: what is refused needs no search
            return {**in_table(engine, asked, clock).answer(asked, clock), **orders}
        storage = Storage(asked.state, storage_options)
        storage.check_exclusive()
        current = take_turns(
            storage,
            "discover",
            lambda: _begun(engine, storage, asked, clock),
            max_wait_seconds=asked.max_wait_seconds,
        )
        if current is None:
            _first_load(engine, asked, storage_options)
            with clock.step("read"):
                current = read_current(storage)
        assert current is not None
        answer = answer_of(asked, current.facts[DEPENDENCIES], read_set(storage, current), current.rows, clock)
        return {**answer, **_orders_in_state(storage, current, asked)}


def _orders_in_table(engine: Engine, asked: Discovery) -> dict[str, Any]:
    if (source := asked.table) is None or not asked.explain:
        return {}
    rows = engine.read(source, "table", mask=asked.mask)

    def read(columns: Mapping[str, str]) -> Columns:
        return engine.fetch(rows, columns, source, mask=asked.mask)

    return orders_of(asked.explain, engine.types(rows, source), read, asked.mask)


# with a state


def _orders_in_state(storage: Storage, current: Snapshot, asked: Discovery) -> dict[str, Any]:
    def read(columns: Mapping[str, str]) -> Columns:
        return living_columns(storage, current, list(columns))

    return orders_of(asked.explain, current.schema, read, (*current.mask, *asked.mask))


def _begun(engine: Engine, storage: Storage, asked: Discovery, clock: Clock) -> Snapshot | None:
    """The state with the dependencies of its rows, committed; nothing if it has no rows yet."""
    current = read_current(storage)
    ground = Ground(engine, storage, mask=(*current.mask, *asked.mask) if current else asked.mask)
    with without_values(ground.mask), ground.drafts.removed_on_failure(storage):
        if current is None or _without_loads(storage, current):
            _prepared(ground, asked, current)
            return None
        with clock.step("read"):
            rules = _rules(asked, current)
            space, base = _widened(ground, asked, current, rules)
        with clock.step("search"):
            things = [Dependencies(space, asked.mode, rules)]
            bare = replace(base, facts={name: fact for name, fact in base.facts.items() if name != DEPENDENCIES})
            after = caught_up(ground, bare, things)
        with clock.step("commit"):
            snapshot = advance(current, after, Action.DISCOVER)
            ground.drafts.commit(storage, snapshot)
    return snapshot


def _without_loads(storage: Storage, current: Snapshot) -> bool:
    """Whether no load was ever kept, or none is any more: one that was discarded left no row."""
    return not current.rows and all(one.discarded for one in current.loads(storage).since())


def _rules(asked: Discovery, current: Snapshot) -> ConstraintSet:
    """The constraints in force; a discovery changes none of them."""
    rules = rules_of(current)
    if asked.constraints is not None:
        check_table(current, load_constraints(asked.constraints), state=asked.state or "")
    return rules


def _widened(ground: Ground, asked: Discovery, current: Snapshot, rules: ConstraintSet) -> tuple[Space, Snapshot]:
    """The space, and the state with all its columns."""
    types = dict(current.schema)
    if asked.table is not None:
        known = {name.lower() for name in types}
        given = ground.engine.types(ground.engine.read(asked.table, "table", mask=ground.mask), asked.table)
        types |= {name: spark_type for name, spark_type in given.items() if name.lower() not in known}
    lacking = f"neither the state nor the table ({asked.table}) has" if asked.table else "the state does not have"
    check_mask(asked.mask, [*types, *current.mask], lacking=lacking)
    _check_known(asked, types, current)
    wanted = comparable_columns(asked.asked, types)
    plan = make_plan(rules, types, wanted)
    check_orders(asked.explain, plan.schema)
    if recognises(current):
        plan = plan.recognising()
    base = with_columns(ground, current, plan, rules, [], asked.table)
    base = replace(base, schema=plan.schema)
    names = list(wanted)
    if ground.engine.has_workers and base.rows * len(names) > SIZES.large_cells:
        afar = resting(ground.engine, ground.storage, base)
        measured = afar.measured(names)
        return make_space(asked.asked, types, measured, lambda: Columns.of(afar.sample(names))), base
    columns = living_columns(ground.storage, base, names)
    return make_space(asked.asked, types, Measured.of(columns), lambda: columns), base


def _check_known(asked: Discovery, types: Mapping[str, str], current: Snapshot) -> None:
    """Refuse columns that the state does not have, if no table is given that has them."""
    known = {name.lower() for name in types}
    unknown = [f"column '{name}'" for name in asked.asked.names() if name.lower() not in known]
    if (unknown or not types) and asked.table is None:
        raise RequestError(
            f"The state does not have {unknown[0] if unknown else 'any column'} of its {counted(current.rows, 'row')}.",
            hint="Give the whole table as 'table' in the request.",
        )


def _prepared(ground: Ground, asked: Discovery, current: Snapshot | None) -> None:
    """Commit a state without rows that knows what to look for; its first load then finds it."""
    if asked.table is None:
        raise StateError(
            f"There is no load in {ground.storage.uri} whose rows could be looked at.",
            hint="Give the table as 'table' in the request: it becomes the first load.",
        )
    rows = ground.engine.read(asked.table, "table", mask=asked.mask)
    types = ground.engine.types(rows, asked.table)
    check_mask(asked.mask, types, lacking=f"the table ({asked.table}) does not have")
    wanted = comparable_columns(asked.asked, types)
    given = (rows, wanted, asked.table)
    measured = ground.engine.measure(*given, mask=asked.mask)
    space = make_space(asked.asked, types, measured, lambda: ground.engine.fetch(*given, mask=asked.mask))
    rules = load_constraints(_constraints(asked))
    read = {
        name.lower() for name in (*space.columns, *rules.key, *(name for one in rules.rules for name in one.columns))
    }
    check_orders(asked.explain, {name: kind for name, kind in types.items() if name.lower() in read})
    empty = current or Snapshot(number=0, parent=None, table=rules.table)
    check_table(empty, rules, state=asked.state or "")
    bare = replace(empty, constraints=to_mapping(rules), schema=space.columns, facts={})
    after = caught_up(ground, bare, [Dependencies(space, asked.mode, rules)])
    ground.drafts.commit(ground.storage, advance(empty, replace(after, constraints={}), Action.DISCOVER))


def _constraints(asked: Discovery) -> str | Mapping[str, Any]:
    """The constraints for a new state: those given, or none."""
    if asked.constraints is not None:
        return asked.constraints
    source = asked.table
    name = (source.table or table_name(source.path or "")) if source else "table"
    return {"version": 1, "table": name, "constraints": []}


def _first_load(engine: Engine, asked: Discovery, storage_options: Mapping[str, Any] | None) -> None:
    assert asked.table is not None
    assert asked.state is not None
    request = Request(
        state=asked.state,
        load_id=asked.load_id,
        changes=asked.table,
        constraints=_constraints(asked),
        mask=asked.mask,
        engine=asked.engine,
        max_wait_seconds=asked.max_wait_seconds,
    )
    verdict = apply_load(engine, request, storage_options=storage_options)
    if verdict.replayed and verdict.discarded:
        raise StateError(
            f"Load '{asked.load_id}' was discarded, so its rows are not in the state {asked.state}.",
            hint="Take it out first (retract), or give another 'load_id'.",
        )


def main(arguments: list[str] | None = None) -> int:
    """The application: a request or a table in, the dependencies (or an error document) out."""
    parser = argparse.ArgumentParser(description="Discover the dependencies of a table.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--request", help="path or URI of the request document, or - for standard input")
    discovery_options(parser, source)
    parser.add_argument("--mask", action="append", metavar="COLUMN", help="no error shows its values")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON, not as text")

    def act(options: argparse.Namespace, state: State) -> dict[str, Any]:
        if options.table is not None:
            return answer_for_people(state.spark(), options)
        return discover(state.spark(), state.read(options.request), storage_options=state.options)

    return run("discover", parser, arguments, act)


if __name__ == "__main__":
    sys.exit(main())
