"""The waits of a binding, in their order between its requests.

A try without an answer is followed by a read of the pod, and that by another try, after a wait that
doubles from 100 ms to 5 s from try to try. A read that fails is repeated after such a wait, which
begins anew with each try. Once no try may follow, the pod is read every 5 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

FIRST_S: Final = 0.1
LONGEST_S: Final = 5.0
#: A wait is up to twice as long, but for the one between two reads that were answered.
JITTER: Final = 1.0
ROUNDING_S: Final = 1e-6
BINDING: Final = "POST"
OK: Final = 200
#: The client sends a request so often by itself.
TRIES_OF_CALL: Final = 10
#: The server may ask to wait longer by these.
ASKING: Final = (429, 500, 502, 503, 504)

#: A wait in seconds, or an answer with a request and a status; 0 = none.
Step = Any


class Sleeps:
    """The steps of bindings by task: what ``Heard`` notes of it, with the waits."""

    def __init__(self) -> None:
        self.steps: dict[object, list[Step]] = {}

    async def sleep(self, delay_s: float) -> None:
        """Waits, and notes how long."""
        self.note(delay_s)
        await asyncio.sleep(delay_s)

    def note(self, step: Step) -> None:
        """Notes a wait or an answer of this task."""
        self.steps.setdefault(asyncio.current_task(), []).append(step)


def binding_wait_problems(steps: Sequence[Step]) -> Iterator[str]:
    """Yields what is wrong with the waits of one binding."""
    tries = reads = of_call = posted = 0
    wait_s: float | None = None
    before: Any = None
    for step in steps:
        if isinstance(step, float):
            if wait_s is not None:
                yield f"a binding waits twice: {wait_s} and {step} s"
            wait_s = step
            continue
        is_binding = step.request.method == BINDING
        is_alike = before is not None and before.request.method == step.request.method
        was_answered = before is not None and before.status == OK
        of_call = of_call + 1 if is_alike and wait_s is None and not was_answered else 1
        if of_call > TRIES_OF_CALL:
            yield f"{step.request.method} is sent {of_call} times without a wait"
        due: tuple[float, float] | None = None
        if of_call > 1 or before is None:
            pass
        elif before.request.method == BINDING:
            reads = 0
        elif is_binding:
            tries += 1
            due = _doubled(tries, posted)
        elif was_answered:
            due, reads = (LONGEST_S, LONGEST_S), 0
        else:
            reads += 1
            due = _doubled(reads, before.status)
        if is_binding:
            posted = step.status
        if not _is_due(wait_s, due):
            yield f"{step.request.method} of try {tries + 1} follows a wait of {wait_s}, not {due}"
        before, wait_s = step, None


def _is_due(wait_s: float | None, due: tuple[float, float] | None) -> bool:
    """Returns whether a wait is between two limits, or there is none at all."""
    if wait_s is None or due is None:
        return wait_s is None and due is None
    return due[0] - ROUNDING_S <= wait_s <= due[1] + ROUNDING_S


def _doubled(tries: int, status: int) -> tuple[float, float]:
    least_s = min(FIRST_S * 2 ** (tries - 1), LONGEST_S)
    return least_s, float("inf") if status in ASKING else least_s * (1 + JITTER)
