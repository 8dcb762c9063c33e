"""``make bench``: every benchmark there is."""

import sys

from benchmarks.gate import main

sys.exit(main())
