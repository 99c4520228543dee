"""``python -m bench``: the ladder."""

from __future__ import annotations

import sys

from bench.ladder import main

sys.exit(main(sys.argv[1:]))
