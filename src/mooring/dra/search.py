"""The search for devices of one node: depth first over claims, requests and devices.

The first complete solution is taken. Each choice is a generator that yields what has to be chosen
next, and receives how that failed. They are on a stack of their own, so that the depth (up to 32
devices for each of any number of claims) does not meet Python's recursion limit::

    claim 1, request a: device 0 ──▶ device 3 ──▶ claim 1, request b: device 1 ──▶ claim 2 ...
                          ▲             │ failure: release it, take the next
                          └─────────────┘

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(allocateOne).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Sequence
from typing import Final

from mooring.dra.candidates import Candidates
from mooring.dra.errors import AllocationTimeout
from mooring.dra.ledger import Ledger
from mooring.dra.pools import NodePools
from mooring.dra.requests import RESULTS_MAX, Choice, PreparedClaim

#: The deadline is checked once in so many steps: a step takes microseconds.
STEPS_PER_CHECK: Final = 256


class Failure(enum.Enum):
    """The reason why a choice cannot be completed."""

    NO_DEVICE = "no device"
    #: A claim would get more than 32 devices: other devices for the choice before do not help.
    TOO_MANY = "too many"


#: Yields the next choice, None = the solution is complete. Receives and returns a failure.
Step = Generator["Step | None", Failure, Failure]


class Search:
    """One search on one node; it is used once.

    Attributes:
        chosen: (claim, request) -> the index of the alternative that was chosen.
        steps: The number of steps, upstream's ``NumAllocateOneInvocations``.
    """

    def __init__(
        self,
        claims: Sequence[PreparedClaim],
        pools: NodePools,
        candidates: Candidates,
        ledger: Ledger,
        deadline: Callable[[], bool],
    ) -> None:
        """Prepares a search; ``deadline`` returns whether the time is up."""
        self.chosen: dict[tuple[int, int], int] = {}
        self.steps = 0
        self._claims = claims
        self._pools = pools
        self._candidates = candidates
        self._ledger = ledger
        self._deadline = deadline

    def run(self) -> bool:
        """Returns whether all claims got their devices; the ledger has them.

        Raises:
            AllocationError: the claims cannot be allocated on any node.
            AllocationTimeout: the deadline has passed.
        """
        stack: list[Step] = []
        following = self._begin(0, 0)
        while following is not None:
            stack.append(following)
            failure: Failure | None = None
            while True:
                if not stack:
                    return False
                try:
                    # A generator starts with None.
                    following = stack[-1].send(failure)  # type: ignore[arg-type]
                    break
                except StopIteration as stop:
                    stack.pop()
                    failure = stop.value
        return True

    def _count_step(self) -> None:
        self.steps += 1
        if self.steps % STEPS_PER_CHECK == 0 and self._deadline():
            raise AllocationTimeout("timed out trying to allocate devices")

    def _begin(self, claim: int, request: int) -> Step | None:
        """Returns the step for a request; None = all claims are complete."""
        if claim == len(self._claims):
            self._count_step()
            return None
        requests = self._claims[claim].requests
        if request == len(requests):
            return self._next_claim(claim)
        if requests[request].has_alternatives:
            return self._first_available(claim, request)
        return self._devices(claim, request, requests[request].choices[0])

    def _devices(self, claim: int, request: int, choice: Choice) -> Step:
        if choice.wants_all:
            return self._all(claim, request, choice, 0)
        return self._exactly(claim, request, choice, 0, 0)

    def _next_claim(self, claim: int) -> Step:
        self._count_step()
        yield self._begin(claim + 1, 0)
        # A later claim may get fewer devices with other alternatives of this one.
        return Failure.NO_DEVICE

    def _first_available(self, claim: int, request: int) -> Step:
        self._count_step()
        failures = set()
        for index, choice in enumerate(self._claims[claim].requests[request].choices):
            self.chosen[claim, request] = index
            failures.add((yield self._devices(claim, request, choice)))
        return Failure.TOO_MANY if failures == {Failure.TOO_MANY} else Failure.NO_DEVICE

    def _all(self, claim: int, request: int, choice: Choice, count: int) -> Step:
        """Takes the devices of a request for all of them; there is only one way to do so."""
        self._count_step()
        devices = self._candidates.of_all[choice]
        if not devices:
            return Failure.NO_DEVICE
        if count == len(devices):
            return (yield self._begin(claim, request + 1))
        if self._exceeds_limit(claim, len(devices) - count):
            return Failure.TOO_MANY
        device = devices[count]
        if self._ledger.is_in_use(claim, choice, device):
            return Failure.NO_DEVICE
        if not self._ledger.take(claim, choice, device):
            return Failure.NO_DEVICE
        failure = yield self._all(claim, request, choice, count + 1)
        self._ledger.release(claim)
        return failure

    def _exactly(self, claim: int, request: int, choice: Choice, count: int, start: int) -> Step:
        """Takes the remaining devices of a request, from the device number ``start`` on."""
        self._count_step()
        if count >= choice.count:
            return (yield self._begin(claim, request + 1))
        if self._exceeds_limit(claim, choice.count - count):
            return Failure.TOO_MANY
        candidates, ledger, devices = self._candidates, self._ledger, self._pools.devices
        for index in range(start, len(devices)):
            device = devices[index]
            # A device in use is not evaluated, so its selectors cannot fail.
            if (
                ledger.is_in_use(claim, choice, device)
                or not candidates.matches(choice, device)
                or not ledger.has_capacity(choice, device)
                or not ledger.take(claim, choice, device)
            ):
                continue
            failure = yield self._exactly(claim, request, choice, count + 1, index + 1)
            ledger.release(claim)
            if failure is Failure.TOO_MANY:
                return failure
        return Failure.NO_DEVICE

    def _exceeds_limit(self, claim: int, more: int) -> bool:
        return len(self._ledger.taken[claim]) + more > RESULTS_MAX
