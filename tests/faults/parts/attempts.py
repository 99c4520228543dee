"""Readings of an attempt, for several runs."""

from __future__ import annotations

from mooring.framework import Attempt


def totals_of(attempt: Attempt) -> dict[str, int]:
    """Returns the total score of each node that was scored."""
    assert attempt.total is not None
    rows = range(len(attempt.total)) if attempt.rows is None else attempt.rows.tolist()
    names = [attempt.snapshot.nodes.names[row] for row in rows]
    return dict(zip(names, attempt.total.tolist(), strict=True))
