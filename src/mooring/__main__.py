"""``python -m mooring`` is ``mooring``."""

from __future__ import annotations

import sys

from mooring.cli import main

if __name__ == "__main__":
    sys.exit(main())
