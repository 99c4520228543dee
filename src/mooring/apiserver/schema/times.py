"""Timestamps of objects: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from datetime import datetime


def seconds_of(text: str) -> float:
    """Returns the seconds since 1970 of a timestamp."""
    return datetime.fromisoformat(text).timestamp()
