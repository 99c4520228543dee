"""The request that follows a failed one of a reservation, or of a removal of a user, and its wait.

A conflict is followed by a read after 10 ms; a request without an answer, or a refusal that may be
caused by one, after a wait that doubles from 100 ms to 5 s; a write that the server failed at once.
The waits of a removal are five times as long each time, up to 5 s; it reads the claim before the
next patch exactly if it is not certain whether the last one was stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

ROUNDING_S: Final = 1e-6
CONFLICT: Final = 409
CONFLICTS_MAX: Final = 5
FAILED: Final = 500
TRIES_MAX: Final = 4
#: After such errors of a patch it is not certain what is stored; after these it is sent again.
UNCERTAIN: Final = ("409", "exists", "no answer", "failed")
RETRIED: Final = (*UNCERTAIN, "unreachable", "500", "429")
REQUESTED_S: Final = 2.0
#: A patch without an answer may arrive so long after it was sent.
ARRIVES_S: Final = 120.0
LONGER_S: Final = 10.0


class Sent(NamedTuple):
    """A request: its method, when it was sent and has ended, and its error; "" = none."""

    method: str
    begun_s: float
    ended_s: float
    error: str = ""


def reservation_waits(answers: list[Any], times: list[tuple[float, float]]) -> Iterator[str]:
    """Yields what is wrong with the waits of a reservation.

    Args:
        answers: To its requests: each with a request and a status.
        times: When each was sent, and answered.
    """
    tries = conflicts = 0
    for (before, (_, ended_s)), (answer, (begun_s, _)) in pairwise(
        zip(answers, times, strict=True)
    ):
        wait_s, is_write = begun_s - ended_s, before.request.method == "PUT"
        least_s = most_s = 0.0
        if answer.request.method == "PUT" or (is_write and before.status >= FAILED):
            pass
        elif is_write and before.status == CONFLICT:
            conflicts += 1
            if conflicts < CONFLICTS_MAX:
                least_s, most_s = 0.01, 0.011
        else:
            tries += 1
            least_s = min(0.1 * 2 ** (tries - 1), 5.0)
            most_s = 2 * least_s
        if not least_s - ROUNDING_S <= wait_s <= most_s + ROUNDING_S:
            yield (
                f"{answer.request.method} follows {before.request.method} with {before.status} "
                f"after {wait_s:.4f} s, not {least_s} to {most_s} s; it is try {tries}"
            )


def removal_problems(sent: list[Sent]) -> Iterator[str]:
    """Yields what is wrong with the order and the waits of the requests of a removal."""
    tries, is_certain, arrives_s, patched_s = 0, True, -math.inf, -math.inf
    for number, request in enumerate(sent):
        due = "PATCH" if is_certain else "GET"
        if request.method != due:
            yield f"request {number + 1} of {sent} is not a {due}"
        is_last = number == len(sent) - 1
        patched_s = request.begun_s if request.method == "PATCH" else patched_s
        least_s = most_s = 0.0
        if request.error:
            tries += 1
            least_s = min(0.01 * 5 ** (tries - 1), 5.0)
            most_s = 1.1 * least_s
            if request.error == "429":
                least_s, most_s = max(least_s, REQUESTED_S), max(most_s, 1.1 * REQUESTED_S)
            is_certain = is_certain and request.error not in UNCERTAIN
            if request.error == "no answer":
                arrives_s = patched_s + ARRIVES_S
            is_over = request.error not in RETRIED or tries >= TRIES_MAX
            is_over = is_over and is_certain and request.ended_s >= arrives_s
            # It may wait for a late request a little longer than that takes.
            is_either = arrives_s <= request.ended_s <= arrives_s + LONGER_S
            ends = is_over or request.error in ("404", "lease")
            if is_last is not ends and not is_either:
                yield f"it ends or goes on after {tries} tries: {sent[: number + 1]}"
        else:
            is_certain = True
        wait_s = 0.0 if is_last else sent[number + 1].begun_s - request.ended_s
        if not is_last and not least_s - ROUNDING_S <= wait_s <= most_s + ROUNDING_S:
            yield f"after {request} it waits for {wait_s:.4f} s, not {least_s} to {most_s} s"
