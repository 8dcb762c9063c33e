"""A session that applies load after load under other and other rules finds what a new one would find."""

from __future__ import annotations

from itertools import count, product
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.sizes import other_sizes
from tests.inprocess import Session, Source
from tests.jobs.histories import Row, on_disk, violations

OPERATORS = ("<", "<=", ">", ">=")
RULES = [
    {"name": f"rule {number}", "deny": f"{block}t.age {age} s.age and t.pay {pay} s.pay"}
    for number, (block, age, pay) in enumerate(product(("", "t.zip = s.zip and "), OPERATORS, OPERATORS))
]
"""All of a block share one index, and each asks something else of it."""
READS_ALL = {"name": "all", "unique": ["zip", "age", "pay"]}
"""While it is there, no other needs the table."""
TYPES = {"zip": ("int", pa.int32()), "age": ("int", pa.int32()), "pay": ("double", pa.float64())}
ROWS = st.fixed_dictionaries(
    {"zip": st.integers(0, 1), "age": st.integers(0, 3) | st.none(), "pay": st.sampled_from([0.0, 1.0, 2.0, None])}
)
LOADS = st.tuples(st.sets(st.sampled_from(range(len(RULES))), min_size=1, max_size=2), st.lists(ROWS, max_size=3))


@given(st.lists(LOADS, min_size=2, max_size=5))
def test_what_is_kept_for_some_rules_does_not_answer_others(loads: list[tuple[set[int], list[Row]]]) -> None:
    session, rows, numbers = Session(), [], count()
    types = {name: spark_type for name, (spark_type, _) in TYPES.items()}
    with on_disk() as state, other_sizes(screened_entries=0):
        for chosen, inserts in loads:
            path, rows = f"load {next(numbers)}", [*rows, *inserts]
            columns = {name: pa.array([row[name] for row in inserts], one) for name, (_, one) in TYPES.items()}
            session.sources[path] = Source(pa.table(columns), types)
            rules: dict[str, Any] = {
                "version": 1,
                "table": "people",
                "constraints": [READS_ALL, *(RULES[one] for one in chosen)],
            }
            request = {"state": state, "load_id": path, "changes": {"path": path}, "constraints": rules}
            verdict = apply_load(session, request)
            expected = [violations(one, rows) for one in load_constraints(rules).constraints]
            assert [one.total_violations for one in verdict.constraints] == expected
