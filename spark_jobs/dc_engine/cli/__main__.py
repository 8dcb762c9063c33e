"""``python -m dc_engine.cli`` is ``dcgate`` for those who have not installed the command."""

import sys

from dc_engine.cli.main import main

sys.exit(main())
