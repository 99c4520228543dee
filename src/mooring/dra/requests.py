"""The requests of claims in the form in which the search reads them, prepared once per attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mooring.dra.features import ALL_FEATURES, DeviceFeatures
from mooring.dra.selectors import Condition
from mooring.objects.meta import key
from mooring.objects.quantity import Quantity
from mooring.objects.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

EXACT_COUNT: Final = "ExactCount"
ALL_DEVICES: Final = "All"

#: The most devices of one claim (AllocationResultsMaxSize of resource.k8s.io/v1).
RESULTS_MAX: Final = 32

#: Returns the class with this name, or None.
ClassLookup = Callable[[str], DeviceClass | None]


@dataclass(slots=True, eq=False)
class Choice:
    """A request without alternatives, or one of its alternatives. Never change it.

    Attributes:
        parent: The name of the request.
        sub: The name of the alternative; "" if the request has none.
        where: The claim and the name for messages: "claim ns/name, request r".
        problem: The message of the error that ends the attempt; "" = none.
        device_class: The class; None if there is a problem.
        conditions: The selectors, those of the class first.
        tolerations: The tolerated taints of devices.
        capacity: The requested amount by capacity name.
        is_admin: Whether devices in use may be taken, for administration.
        wants_all: Whether all matching devices are requested.
        count: The number of devices, unless all are requested.
    """

    parent: str
    sub: str
    where: str
    problem: str
    device_class: DeviceClass | None
    conditions: tuple[Condition, ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity: dict[str, Quantity]
    is_admin: bool
    wants_all: bool
    count: int

    @property
    def full_name(self) -> str:
        """``request`` or ``request/alternative``, as results name it."""
        return f"{self.parent}/{self.sub}" if self.sub else self.parent


@dataclass(slots=True, eq=False)
class PreparedRequest:
    """A request: its only choice, or its alternatives in order of preference. Never change it."""

    choices: tuple[Choice, ...]
    has_alternatives: bool


@dataclass(slots=True, eq=False)
class PreparedClaim:
    """A claim that is to be allocated.

    Never change it. These are made for each pod or template, so no class here is ``frozen``, which
    would take twice as long.

    Attributes:
        claim: The API object.
        key: ``namespace/name`` for messages.
        requests: The requests.
        constraints: Their constraints.
        constraint_problem: The message of an error in the constraints; "" = none.
    """

    claim: ResourceClaim
    key: str
    requests: tuple[PreparedRequest, ...]
    constraints: tuple[DeviceConstraint, ...]
    constraint_problem: str

    def of_claim(self, claim: ResourceClaim) -> PreparedClaim:
        """Returns another claim with an equal spec; its requests keep their texts of errors."""
        return PreparedClaim(
            claim, key(claim), self.requests, self.constraints, self.constraint_problem
        )


def prepare_claim(
    claim: ResourceClaim,
    class_named: ClassLookup,
    features: DeviceFeatures = ALL_FEATURES,
) -> PreparedClaim:
    """Returns the claim in prepared form; its problems are messages, reported per node in order.

    Source: structured/internal/incubating/allocator_incubating.go (Allocate,
    validateDeviceRequest).
    """
    devices = claim.spec.devices
    claim_key = key(claim)
    problem = ""
    for index, constraint in enumerate(devices.constraints):
        distinct = None if features.is_stable else constraint.distinct_attribute
        if constraint.match_attribute is None and distinct is None:
            problem = (
                f"claim {claim_key}, constraint #{index}: "
                "empty constraint (unsupported constraint type?)"
            )
            break
    prepare = _Preparation(claim_key, class_named, features)
    requests = tuple(map(prepare.request, devices.requests))
    return PreparedClaim(claim, claim_key, requests, devices.constraints, problem)


class _Preparation:
    """Prepares the requests of one claim."""

    def __init__(self, claim_key: str, class_named: ClassLookup, features: DeviceFeatures) -> None:
        self._claim_key = claim_key
        self._class_named = class_named
        self._features = features

    def request(self, request: DeviceRequest) -> PreparedRequest:
        """Returns a request with its choices."""
        problem = self._capacity_problem(request)
        if not request.first_available:
            exact = request.exactly or ExactDeviceRequest()
            return PreparedRequest((self._choice(request.name, "", exact, problem),), False)
        choices = tuple(
            self._choice(request.name, alternative.name, alternative, problem)
            for alternative in request.first_available
        )
        return PreparedRequest(choices, True)

    def _capacity_problem(self, request: DeviceRequest) -> str:
        """Returns the message if a request has capacities while no device can be shared."""
        if self._features.is_shareable or self._features.is_stable:
            return ""
        text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            return f"claim {self._claim_key}, request {request.name}: {text}"
        for alternative in request.first_available:
            if alternative.capacity is not None:
                return f"claim {self._claim_key}, subrequest {alternative.name}: {text}"
        return ""

    def _choice(
        self, parent: str, sub: str, spec: ExactDeviceRequest | DeviceSubRequest, problem: str
    ) -> Choice:
        where = f"claim {self._claim_key}, request {sub or parent}"
        device_class = self._class_named(spec.device_class_name)
        conditions: tuple[Condition, ...] = ()
        if device_class is not None:
            conditions = (
                *_conditions(f"class {device_class.metadata.name}", device_class.spec.selectors),
                *_conditions(f"claim {self._claim_key}", spec.selectors),
            )
        requests = {}
        if spec.capacity is not None and self._features.is_shareable:
            requests = spec.capacity.requests
        return Choice(
            parent=parent,
            sub=sub,
            where=where,
            problem=problem or _problem(where, spec, device_class),
            device_class=device_class,
            conditions=conditions,
            tolerations=spec.tolerations,
            capacity={name: Quantity.from_wire(raw) for name, raw in requests.items()},
            is_admin=isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access),
            wants_all=spec.allocation_mode == ALL_DEVICES,
            count=spec.count,
        )


def _problem(
    where: str, spec: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None
) -> str:
    for index, selector in enumerate(spec.selectors):
        if selector.cel is None:
            return f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
    name = spec.device_class_name
    if not name:
        return f"{where}: missing device class name (unsupported request type?)"
    if device_class is None:
        return (
            f"{where}: could not retrieve device class {name}: "
            f'deviceclass.resource.k8s.io "{name}" not found'
        )
    if spec.allocation_mode not in (EXACT_COUNT, ALL_DEVICES):
        return f"{where}: unsupported count mode {spec.allocation_mode}"
    return ""


def _conditions(owner: str, selectors: tuple[DeviceSelector, ...]) -> list[Condition]:
    return [
        Condition(f"{owner}: selector #{index}: ", selector.cel.expression if selector.cel else "")
        for index, selector in enumerate(selectors)
    ]
