"""The allocation of a claim as the API has it: results, configurations, node selector.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, createNodeSelector).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mooring.dra.capacity import consumed_amount
from mooring.dra.devices import SliceDevice
from mooring.dra.errors import AllocationError
from mooring.dra.ledger import Taken
from mooring.dra.requests import Choice, PreparedClaim
from mooring.objects.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceList,
)
from mooring.objects.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from mooring.objects.selectors import NODE_NAME_FIELD


def allocation_result(
    claim: PreparedClaim,
    choices: Sequence[Choice],
    taken: Sequence[Taken],
    node_name: str,
    share_id: Callable[[], str],
) -> AllocationResult:
    """Returns the allocation of a claim.

    Args:
        claim: The claim.
        choices: Of each of its requests, the choice that was made.
        taken: The devices, in order.
        node_name: The node for which they were allocated.
        share_id: Returns a new ID for a share of a device.

    Raises:
        AllocationError: a node selector has several terms, which the API forbids.
    """
    results = tuple(_result(entry, share_id) for entry in taken)
    try:
        selector = _node_selector([entry.device for entry in taken], node_name)
    except AllocationError as error:
        name = claim.claim.metadata.name
        raise AllocationError(f"create NodeSelector for claim {name}: {error}") from error
    config = (*_class_config(choices), *_claim_config(claim, choices))
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=config), node_selector=selector
    )


def _result(taken: Taken, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    choice, device, _ = taken
    consumed: ResourceList = {}
    if device.is_shared:
        consumed = {
            name: str(consumed_amount(capacity, choice.capacity.get(name)))
            for name, capacity in device.capacity.items()
        }
    return DeviceRequestAllocationResult(
        request=choice.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if choice.is_admin else None,
        tolerations=choice.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=share_id() if device.is_shared else None,
        consumed_capacity=consumed,
    )


def _class_config(choices: Sequence[Choice]) -> list[DeviceAllocationConfiguration]:
    """Returns the configurations of the classes, each once, with the requests of its class."""
    requests_of: dict[str, list[str]] = {}
    classes = {}
    for choice in choices:
        assert choice.device_class is not None
        if choice.device_class.spec.config:
            name = choice.device_class.metadata.name
            classes[name] = choice.device_class
            requests_of.setdefault(name, []).append(choice.full_name)
    return [
        DeviceAllocationConfiguration(
            source="FromClass", requests=tuple(requests), opaque=entry.opaque
        )
        for name, requests in requests_of.items()
        for entry in classes[name].spec.config
    ]


def _claim_config(
    claim: PreparedClaim, choices: Sequence[Choice]
) -> list[DeviceAllocationConfiguration]:
    """Returns the configurations of the claim: each once per request that it names."""
    configurations = []
    for entry in claim.claim.spec.devices.config:
        times = 1
        if entry.requests:
            times = sum(
                choice.parent in entry.requests or choice.full_name in entry.requests
                for choice in choices
            )
        configuration = DeviceAllocationConfiguration(
            source="FromClaim", requests=entry.requests, opaque=entry.opaque
        )
        configurations += [configuration] * times
    return configurations


def _node_selector(devices: Iterable[SliceDevice], node_name: str) -> NodeSelector | None:
    """Returns the nodes that can use all of the devices; None = all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in devices:
        owner = device.device if device.reach is not None else device.slice.obj.spec
        if owner.node_name is not None or device.binds_to_node:
            only = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        terms = owner.node_selector.node_selector_terms if owner.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _add(fields, term.match_fields)
            _add(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add(
    requirements: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]
) -> None:
    """Adds requirements, unless there is one with equal key, operator and set of values."""
    for requirement in more:
        if not any(_is_same(requirement, other) for other in requirements):
            requirements.append(requirement)


def _is_same(a: NodeSelectorRequirement, b: NodeSelectorRequirement) -> bool:
    return (a.key, a.operator, set(a.values)) == (b.key, b.operator, set(b.values))
