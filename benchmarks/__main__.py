"""``make bench``: every benchmark there is, but for workers of their own (``python -m benchmarks.scale out``)."""

import sys

from benchmarks.gate import main
from benchmarks.scale import main as scale

sys.exit(main() or scale(["first", "table", "rules", "damage", "skew"]))
