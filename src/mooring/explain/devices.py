"""Finds why the devices of one node do not suffice for the claims of a pod.

The causes are tried in order, and the first one counts::

    SHORT        a request alone has too few devices: each device is counted by what excludes it
    REQUESTS     each request has enough devices, but together they need more than there are
    CONSTRAINT   the devices suffice, but no choice of them satisfies a constraint
    CLAIMS       each claim can be allocated alone, but not all of them together

The allocator itself decides about the last three: it is called for one claim, with and without its
constraints. Not here: the text (``claims``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mooring.dra import (
    AllocatedState,
    AllocationError,
    Allocator,
    InvalidPools,
    NodePools,
    PreparedClaim,
    Selectors,
    TargetNode,
)
from mooring.dra.capacity import consumed_amount, has_capacity
from mooring.dra.counters import AvailableCounters
from mooring.dra.devices import PoolKey, SliceDevice
from mooring.dra.ledger import tolerates
from mooring.dra.requests import Choice
from mooring.objects.quantity import BINARY_SI, Quantity
from mooring.objects.resource import Device, DeviceTaint

FREE: Final = "free"
TAKEN: Final = "taken"
TAINTED: Final = "tainted"
NOT_SELECTED: Final = "excluded by selectors"
NO_CAPACITY: Final = "with too little capacity"
NO_COUNTERS: Final = "with too few counters"
FAILED: Final = "failing a selector"

SHORT: Final = "short"
REQUESTS: Final = "requests"
CONSTRAINT: Final = "constraint"
CLAIMS: Final = "claims"
UNKNOWN: Final = "unknown"

#: The time limit of a search, in checks of its deadline (256 steps each): a second at most.
CHECKS_MAX: Final = 200


class Verdict(NamedTuple):
    """The reason why a request can or cannot have a device.

    Attributes:
        kind: FREE, TAKEN, TAINTED and so on.
        detail: The selector, the taint, or the capacity or counter that is missing.
        error: The text of a selector that failed.
    """

    kind: str
    detail: str = ""
    error: str = ""


class DeviceVerdict(NamedTuple):
    """A device of the class of a request."""

    device: SliceDevice
    verdict: Verdict


class RequestFinding(NamedTuple):
    """A request, or one of its alternatives, on one node.

    Attributes:
        choice: The request or alternative.
        devices: The devices of its class, in the order of allocation.
    """

    choice: Choice
    devices: tuple[DeviceVerdict, ...]

    def count(self, kind: str) -> int:
        """Returns the number of devices with a verdict."""
        return sum(entry.verdict.kind == kind for entry in self.devices)

    @property
    def needed(self) -> int:
        """The number of devices that the request needs."""
        if not self.choice.wants_all:
            return self.choice.count
        return len(self.devices) - self.count(NOT_SELECTED)

    @property
    def is_short(self) -> bool:
        """True if the node has too few devices for this request alone."""
        return self.count(FREE) < max(1, self.needed)


class Cause(NamedTuple):
    """The first cause that was found on a node.

    Attributes:
        kind: SHORT, REQUESTS, CONSTRAINT, CLAIMS; UNKNOWN = none was found.
        claim: The position of the claim, for REQUESTS and CONSTRAINT.
        constraints: The positions of the constraints without which the claim could be allocated.
        requests: Claim and request that are short.
    """

    kind: str
    claim: int = 0
    constraints: tuple[int, ...] = ()
    requests: tuple[tuple[int, int], ...] = ()


class NodeExamination:
    """The claims of a pod on one node.

    Attributes:
        node: The node.
        pools: Its pools.
        claims: The claims that are to be allocated.

    Args:
        rule_of: See ``SlicesWithRules.rule_of``.
    """

    def __init__(
        self,
        node: TargetNode,
        pools: NodePools,
        claims: Sequence[PreparedClaim],
        allocated: AllocatedState,
        selectors: Selectors,
        rule_of: Callable[[DeviceTaint, Device, PoolKey], str] = lambda *_: "",
    ) -> None:
        self._rule_of = rule_of
        self.node = node
        self.pools = pools
        self.claims = claims
        self._allocated = allocated
        self._selectors = selectors
        self._available = AvailableCounters(allocated)
        self._findings: dict[tuple[int, int], list[RequestFinding]] = {}

    def findings(self, claim: int, request: int) -> list[RequestFinding]:
        """Returns a finding for the request, or for each of its alternatives."""
        findings = self._findings.get((claim, request))
        if findings is None:
            findings = self._findings[claim, request] = [
                RequestFinding(choice, tuple(self._verdicts(choice)))
                for choice in self.claims[claim].requests[request].choices
            ]
        return findings

    def cause(self) -> Cause:
        """Returns the first cause."""
        short = tuple(
            (index, number)
            for index, claim in enumerate(self.claims)
            for number in range(len(claim.requests))
            if all(finding.is_short for finding in self.findings(index, number))
        )
        if short:
            return Cause(SHORT, requests=short)
        for index, claim in enumerate(self.claims):
            if self._is_impossible([replace(claim, constraints=())]):
                return Cause(REQUESTS, index)
            if self._is_impossible([claim]):
                return Cause(CONSTRAINT, index, self._guilty(claim))
        return Cause(CLAIMS if self._is_impossible(self.claims) else UNKNOWN)

    def _guilty(self, claim: PreparedClaim) -> tuple[int, ...]:
        """Returns the constraints of which each alone prevents the allocation; else all."""
        constraints = claim.constraints
        guilty = tuple(
            index
            for index in range(len(constraints))
            if not self._is_impossible(
                [replace(claim, constraints=(*constraints[:index], *constraints[index + 1 :]))]
            )
        )
        return guilty or tuple(range(len(constraints)))

    def _is_impossible(self, claims: Sequence[PreparedClaim]) -> bool:
        """Returns whether the allocator finds nothing; an error or a timeout is no answer."""
        allocator = Allocator(self._allocated, self._selectors)
        try:
            solution = allocator.allocate(self.node, self.pools, claims, deadline=_checks())
        except InvalidPools:
            return True
        except AllocationError as error:
            return "claim constraint would not be satisfied" in str(error)
        return solution is None

    def _verdicts(self, choice: Choice) -> list[DeviceVerdict]:
        verdicts = []
        for device in self.pools.devices:
            if not device.is_on(self.node) or not device.is_selectable or device.is_blocked:
                continue
            verdict = self._selected(choice, device)
            if verdict is None:
                continue
            if verdict.kind == FREE:
                verdict = self._usable(choice, device)
            verdicts.append(DeviceVerdict(device, verdict))
        return verdicts

    def _selected(self, choice: Choice, device: SliceDevice) -> Verdict | None:
        """Returns what the selectors say; None = the device is not of the class."""
        for condition in choice.conditions:
            answer = self._selectors.answer(condition.expression, device)
            if isinstance(answer, str):
                return Verdict(FAILED, condition.expression, answer)
            if not answer:
                is_of_class = condition.owner.startswith("class ")
                return None if is_of_class else Verdict(NOT_SELECTED, condition.expression)
        return Verdict(FREE)

    def _usable(self, choice: Choice, device: SliceDevice) -> Verdict:
        """Returns what prevents the use of a device that the selectors choose."""
        if not choice.is_admin and device.id in self._allocated.dedicated:
            return Verdict(TAKEN)
        for taint in device.taints:
            if not any(tolerates(toleration, taint) for toleration in choice.tolerations):
                rule = self._rule_of(taint, device.device, device.pool_key)
                of_rule = f" of DeviceTaintRule {rule}" if rule else ""
                return Verdict(TAINTED, taint_text(taint) + of_rule)
        missing = self._missing_capacity(choice, device)
        if missing:
            return Verdict(NO_CAPACITY, missing)
        missing = self._missing_counter(device)
        if missing:
            return Verdict(NO_COUNTERS, missing)
        return Verdict(FREE)

    def _missing_capacity(self, choice: Choice, device: SliceDevice) -> str:
        """Returns the first capacity that does not suffice, in words; "" = all do."""
        consumed = self._allocated.consumed.get(device.id, {})
        for name in choice.capacity:
            if name not in device.capacity:
                return f"{name} is requested, {device.id} has none"
        for name, capacity in device.capacity.items():
            requested = {key: raw for key, raw in choice.capacity.items() if key == name}
            if has_capacity({name: capacity}, requested, (consumed,)):
                continue
            left = Quantity(capacity.value.nanos - consumed.get(name, 0), capacity.value.format)
            amount = consumed_amount(capacity, choice.capacity.get(name))
            text = f"{amount} of {name} needed, {device.id} has {left} of {capacity.value} left"
            return text if amount > left else f"{text}, but its policy does not allow the amount"
        return ""

    def _missing_counter(self, device: SliceDevice) -> str:
        """Returns the first counter that does not suffice, in words; "" = all do."""
        if not device.consumption or (device.is_shared and device.id in self._allocated.consumed):
            return ""
        pool = self.pools.by_key[device.pool_key]
        needed = dict(device.consumption)
        for (counter_set, name), left in self._available.of(pool).items():
            amount = needed.get((counter_set, name), 0)
            if left < amount:
                text = f"{_amount(amount)} of {counter_set}/{name} needed"
                return f"{text}, pool {pool.name} has {_amount(left)} left"
        return ""


def taint_text(taint: DeviceTaint) -> str:
    """Returns a taint as ``key=value:effect``.

    Example:
        >>> taint_text(DeviceTaint(key="broken", effect="NoSchedule"))
        'broken:NoSchedule'
    """
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _amount(nanos: int) -> str:
    return str(Quantity(nanos, BINARY_SI))


def _checks() -> Callable[[], bool]:
    """Returns a deadline that is up after so many checks."""
    left = iter(range(CHECKS_MAX))
    return lambda: next(left, None) is None
