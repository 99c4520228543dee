"""Counts calls of functions, for tests about how much work something is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(action: Callable[[], object]) -> int:
    """Returns how many functions of Python an action calls."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
