"""A process that is the engine's alone does not import what it never uses, and whoever needs it there still gets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
import numpy as np
import pyarrow as pa
from dc_engine.detection.light import OnWorker

def step(batches):
    for batch in batches:
        pa.array(np.arange(3)).to_numpy()
        yield pa.RecordBatch.from_pydict({"one": batch.column(0).fill_null(0)})

batch = pa.RecordBatch.from_arrays([pa.nulls(2, pa.int64())], names=["one"])
(found,) = OnWorker(step)(iter([batch]))
print("pandas" in sys.modules, found.column(0).to_pylist(), found.to_pandas()["one"].tolist(), "pandas" in sys.modules)
import pandas as pd
print(pa.array(pd.Series(["a", None])).to_pylist(), pa.Table.from_pandas(pd.DataFrame({"x": [1]})).num_rows)
"""


def test_pandas_is_imported_only_by_what_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False [0, 0] [0, 0] True", "['a', None] 1"]


_KERNEL = """
import sys
import numpy as np
from dc_engine.detection.light import without_linear_algebra
without_linear_algebra()
from dc_engine.kernels.groups import grouped
print([one.tolist() for one in grouped(np.array([1, 0, -1, 1], np.int32), 2)], "scipy.linalg" in sys.modules)
import scipy.linalg
print(scipy.linalg.det([[2.0]]))
"""


def test_linear_algebra_is_imported_only_by_what_needs_it() -> None:
    pytest.importorskip("scipy")
    done = subprocess.run([sys.executable, "-c", _KERNEL], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[[1, 0, 3], [0, 1, 3]] False", "2.0"]
