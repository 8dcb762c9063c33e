"""A process that is the engine's alone does not import pandas, and whoever needs it there still gets it."""

from __future__ import annotations

import subprocess
import sys

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
