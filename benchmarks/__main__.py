"""``make bench``: every benchmark there is."""

import sys

from benchmarks.gate import main
from benchmarks.scale import main as scale

sys.exit(main() or scale([]))
