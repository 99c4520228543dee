"""Checks that a look at all unconfirmed bindings reads each pod that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

ROUNDING_S: Final = 1e-6


def check_looks(
    verifier: Any,
    tracked: Mapping[str, list[float]],
    is_assumed: Callable[[str], bool],
    report: Callable[[str], None],
) -> set[str]:
    """Checks the looks of a verifier.

    Args:
        verifier: Looks at all bindings now and then.
        tracked: UID -> the time of the next check, in a list of its own for each binding.
        is_assumed: Returns whether a pod is assumed.
        report: Called with each problem.

    Returns:
        The UIDs of the pods that the current look has read, to be filled by the caller.
    """
    read: set[str] = set()
    real_look = verifier.check_overdue

    async def look() -> None:
        now_s = asyncio.get_running_loop().time()
        due = {
            uid: it
            for uid, it in tracked.items()
            if it[0] <= now_s - ROUNDING_S and is_assumed(uid)
        }
        read.clear()
        await real_look()
        for uid, it in due.items():
            if tracked.get(uid) is it and is_assumed(uid) and uid not in read:
                report(f"{uid} is not read, though it is due since {it[0]:.1f} s")

    verifier.check_overdue = look
    return read
