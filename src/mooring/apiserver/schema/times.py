"""Timestamps of objects: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def _of_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(wall_s: float) -> str:
    """Returns a wall clock time (seconds since 1970) as a timestamp.

    Example:
        >>> timestamp(1_767_225_600.9)
        '2026-01-01T00:00:00Z'
    """
    return _of_second(int(wall_s // 1))


def seconds_of(text: str) -> float:
    """Returns the seconds since 1970 of a timestamp."""
    return datetime.fromisoformat(text).timestamp()
