"""What discovery costs where everything is in memory: pairs of rows compared, and dependencies found in their patterns.

``python -m benchmarks.discovery_kernels`` prints its table. Processor time is measured, the least of several runs:
other work on the machine changes how long a run takes, but not much what it costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from benchmarks.census import census, census_layout
from benchmarks.lines import Line, say
from dc_engine.discovery.bits import packed
from dc_engine.discovery.classes import fds, raw_dcs, uniques
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.partitions import Partitions, Question
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Problem, problem_of
from dc_engine.discovery.scan import Counted, Rows, rows_of, scan
from dc_engine.discovery.terms import EQUALITY, SIX, Term, Terms
from dc_engine.discovery.upkeep import after_gone, after_new

NANOSECONDS = 3.0
CLASS_NANOSECONDS = 60
VALUES = (2, 5, 9, 16, 40, 100, 7, 1_000, 1_000, 30_000, 3)
MIXED = (False, False, True, True, False, False, False, True, False, True, True)
RUNS = 3
T = TypeVar("T")


def discovery_kernels(seed: int, share: float = 1) -> list[Line]:
    """Lines of the table, with a share of the rows."""
    compiled(seed)
    return [
        *_pairs(seed, int(16_384 * share)),
        *_classes(seed, int(1_000_000 * share)),
        *_census(seed, int(24_000 * share)),
    ]


def compiled(seed: int) -> None:
    """Run everything once on few rows, so that no compilation is timed."""
    layout, rows = census_layout(), census(400, seed)
    patterns = scan(layout, rows_of(layout, rows)).patterns
    problem = problem_of(layout, patterns)
    half = np.arange(len(problem.points)) < len(problem.points) - 5
    few = Problem(problem.points[half], problem.vital[half], problem.term_of, problem.most_of, problem.weaker)
    sets = minimal_hitting_sets(few, max_terms=4, threads=2).sets
    after_new(sets, problem, problem.points[~half], max_terms=4)
    after_gone(sets, few, problem.points[~half], max_terms=4)
    fds(layout, patterns)
    uniques(layout, patterns)
    raw_dcs(layout, patterns, max_terms=2)
    codes, questions = _class_questions(seed, 400)
    Partitions(codes).answers(list(questions.values()))


def timed(work: Callable[[], T], runs: int = RUNS) -> tuple[T, float]:
    """What work gives, and the least processor time that it took."""
    least = float("inf")
    for _ in range(runs):
        started = time.process_time()
        result = work()
        least = min(least, time.process_time() - started)
    return result, least


def _pairs(seed: int, rows: int) -> list[Line]:
    """Eleven columns, some ordered, without and with a few NULLs; and eleven ordered ones."""
    lines = []
    cases = {
        "11 columns, 5 ordered": (MIXED, 0.0, NANOSECONDS),
        "11 columns, 5 ordered, 3 with 1 % NULLs": (MIXED, 0.01, NANOSECONDS),
        "11 ordered columns (22 bits)": ((True,) * 11, 0.0, 2 * NANOSECONDS),
    }
    for what, (ordered, nulls, limit) in cases.items():
        layout, some = _columns(np.random.default_rng(seed), rows, ordered, nulls)
        found, seconds = timed(lambda layout=layout, some=some: scan(layout, some, threads=1))  # type: ignore[misc]
        nanoseconds = seconds * 1e9 / (rows * (rows - 1) / 2)
        say(f"pairs: {what}: {nanoseconds:.2f} ns")
        measured = f"{rows:,} rows, seed {seed}: {len(found.patterns):,} patterns"
        result = f"{nanoseconds:.1f} ns a pair and core"
        lines.append(Line(f"pairs: {what}", measured, result, f"{limit:.0f} ns", nanoseconds <= limit))
    return lines


def _classes(seed: int, rows: int) -> list[Line]:
    """Classes of rows that agree, whether a column is constant in them, and whether two go together: linear in rows."""
    codes, questions = _class_questions(seed, rows)
    lines = []
    for what, question in questions.items():
        ((pairs, _),), seconds = timed(lambda question=question: Partitions(codes, threads=1).answers([question]))  # type: ignore[misc]
        nanoseconds = seconds * 1e9 / rows
        say(f"classes: {what}: {nanoseconds:.1f} ns")
        measured = f"{rows:,} rows, seed {seed}: {'does not hold' if len(pairs) else 'holds'}"
        result, met = f"{nanoseconds:.0f} ns a row", nanoseconds <= CLASS_NANOSECONDS
        lines.append(Line(f"classes: {what}", measured, result, f"{CLASS_NANOSECONDS} ns", met))
    return lines


def _class_questions(seed: int, rows: int) -> tuple[np.ndarray, dict[str, Question]]:
    """A table of codes, and what is asked of it: all of it holds."""
    chance = np.random.default_rng(seed)
    state, salary = chance.integers(0, 50, rows), chance.integers(0, rows // 4 + 1, rows)
    codes = np.array([state, salary, salary // 3, chance.integers(0, 1_000, rows)], np.int32)
    return codes, {
        "two columns go together": Question(frozenset(), (1, 2)),
        "two columns go together within 50 groups": Question(frozenset({0}), (1, 2)),
        "two columns go together within many groups": Question(frozenset({3}), (1, 2)),
        "a column is constant within many groups": Question(frozenset({0, 1}), (2,)),
    }


def _columns(chance: np.random.Generator, rows: int, ordered: tuple[bool, ...], nulls: float) -> tuple[Layout, Rows]:
    names = [f"c{place}" for place in range(len(ordered))]
    codes = {
        name: np.minimum(chance.geometric(2 / max(values, 4), rows), values) - 1
        for name, values in zip(names, VALUES, strict=True)
    }
    nullable = names[:3] if nulls else []
    for name in nullable:
        codes[name] = np.where(chance.random(rows) < nulls, -1, codes[name])
    ops = {name: SIX if is_ordered else EQUALITY for name, is_ordered in zip(names, ordered, strict=True)}
    terms = tuple(Term(name, name, some, some == SIX) for name, some in ops.items())
    layout = Layout(Terms(terms, frozenset(nullable)))
    return layout, rows_of(layout, codes)


def _census(seed: int, rows: int) -> list[Line]:
    """All dependencies of a table like the census, and after a load."""
    layout, codes = census_layout(), census(rows, seed)

    load = rows // 11  # a tenth of what is there before; the last ones come first, as ``scan`` has it
    codes = {name: np.roll(one, load) for name, one in codes.items()}
    before = rows_of(layout, {name: one[load:] for name, one in codes.items()})
    old, seconds = timed(lambda: scan(layout, before), 1)
    data = f"{rows:,} census rows x 15 columns, seed {seed}"
    lines = [_line(f"{data}: all patterns", f"{len(old.patterns):,} patterns", seconds, 2.0)]
    more, seconds = timed(lambda: scan(layout, rows_of(layout, codes), load), 1)
    lines.append(_line(f"{data}: patterns of 10% more rows", f"{len(more.patterns):,} patterns", seconds, 1.0))
    return [*lines, *_dependencies(layout, data, old, more)]


def _dependencies(layout: Layout, data: str, old: Counted, more: Counted) -> list[Line]:
    first = problem_of(layout, old.patterns)
    then = problem_of(layout, np.concatenate([old.patterns, more.patterns]))
    known = set(map(bytes, packed(first.points)))
    new = then.points[[bytes(point) not in known for point in packed(then.points)]]
    five, five_seconds = timed(lambda: minimal_hitting_sets(first, max_terms=5))
    everything, seconds = timed(lambda: minimal_hitting_sets(first))
    came, came_seconds = timed(lambda: after_new(everything.sets, then, new))
    assert came is not None
    went, went_seconds = timed(lambda: after_gone(came, first, new))
    before, after = set(everything.sets), set(came)
    assert went is not None
    assert set(went) == before
    sides, side_seconds = timed(lambda: (fds(layout, old.patterns), uniques(layout, old.patterns)))
    number = sum(map(len, sides[0].left.values())) + len(sides[1].left[""])
    changed = f"{len(new):,} points came, {len(before - after):,} DCs fell, {len(after - before):,} are new"
    return [
        _line(f"{data}: DCs of up to 5 terms", f"{len(five.sets):,} sets", five_seconds, 2.0),
        _line(f"{data}: all DCs", f"{len(everything.sets):,} sets, {everything.nodes:,} nodes", seconds, 6.0),
        _line(f"{data}: DCs after 10% more rows", changed, came_seconds, 2.0),
        _line(f"{data}: DCs after these went again", f"{len(new):,} points went", went_seconds, 3.0),
        _line(f"{data}: FDs and keys", f"{number:,} dependencies", side_seconds, 0.2),
    ]


def _line(what: str, measured: str, seconds: float, limit: float) -> Line:
    say(f"{what}: {seconds:.2f} s ({measured})")
    return Line(what, measured, f"{seconds:.2f} s of processor time", f"{limit:g} s", seconds <= limit)


if __name__ == "__main__":
    table = discovery_kernels(seed=7)
    print("\n".join(map(str, table)))
    sys.exit(not all(line.met for line in table))
