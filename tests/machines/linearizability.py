"""Decides whether a recorded history of concurrent requests is linearizable.

A search for an order of the operations that respects real time (one that ended before another began
comes first) and in which a sequential model gives every recorded result. A state that was
visited with the same operations done is not visited twice.

Source: Wing and Gong, Testing and verifying concurrent objects (1993), with the memory of Lowe's
refinement. Exponential in the number of concurrent operations, so histories are short.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """A request: when it began and ended, and its result; ``UNKNOWN`` if no answer came."""

    began: int
    ended: float
    request: Hashable
    result: Hashable


#: The result of a request whose answer was lost: it may have been done, or may be done later.
UNKNOWN = "unknown"

#: (state, request) -> (next state, result); states are hashable.
Model = Callable[[Any, Any], tuple[Any, Hashable]]


def is_linearizable(history: Sequence[Operation], initial: Hashable, model: Model) -> bool:
    """Returns whether some order of the operations explains all results."""
    everything = frozenset(range(len(history)))
    required = frozenset(i for i in everything if history[i].result != UNKNOWN)
    visited: set[tuple[frozenset[int], Hashable]] = set()
    stack: list[tuple[frozenset[int], Hashable]] = [(frozenset(), initial)]
    while stack:
        done, state = stack.pop()
        if required <= done:
            return True
        if (done, state) in visited:
            continue
        visited.add((done, state))
        for index in _next(history, everything - done):
            following, result = model(state, history[index].request)
            if history[index].result in (result, UNKNOWN):
                stack.append((done | {index}, following))
    return False


def _next(history: Sequence[Operation], remaining: frozenset[int]) -> Iterator[int]:
    """Yields the operations that may be next: no remaining one ended before they began."""
    first_end = min(history[index].ended for index in remaining)
    for index in sorted(remaining):
        if history[index].began <= first_end:
            yield index
