"""Recomputes the devices in use, the pools and the signatures of nodes, from the objects alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mooring.dra import DeviceID, NodePools
from mooring.objects.meta import key
from mooring.objects.quantity import Quantity
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.changes import DeviceChanges
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.state.devices.devices import Devices
from mooring.state.devices.signatures import UNSHARED, NodeSignatures
from mooring.state.devices.taint_rules import with_taints
from mooring.state.tables.nodes import NodeTable


def audit_devices(devices: Devices) -> list[str]:
    """Returns the differences between the indexes of devices and the objects as texts.

    A device that several claims have is not compared: which of them ended last decides about it.

    Complexity: O(claims + slices + nodes with devices x their slices).
    """
    return [
        *_audit_in_use(devices),
        *_audit_taint_rules(devices),
        *_audit_pools(devices),
        *_audit_owners(devices),
    ]


def audit_signatures(devices: Devices, nodes: NodeTable) -> list[str]:
    """Compares which nodes share a signature with signatures that are computed anew.

    The column is brought up to date first: a change that its log lacks is found here.
    """
    if not len(devices.signatures.column):
        return []
    devices.signatures.refresh(nodes)
    fresh = NodeSignatures(devices.slices, devices.allocated, DeviceChanges())
    fresh.read(devices.signatures.names)
    fresh.refresh(nodes)
    problems = []
    pairs: dict[tuple[str, int], tuple[int, str]] = {}
    for row in range(nodes.size):
        if nodes.objects[row] is None:
            continue
        name = nodes.names[row]
        actual, expected = int(devices.signatures.column[row]), int(fresh.column[row])
        if (actual == UNSHARED) != (expected == UNSHARED):
            problems.append(f"node {name}: signature is {actual}, should be like {expected}")
        for side, number, other in (("actual", actual, expected), ("fresh", expected, actual)):
            counterpart, first = pairs.setdefault((side, number), (other, name))
            if counterpart != other:
                problems.append(f"nodes {first} and {name}: they share a signature, or should")
    return problems


def _audit_in_use(devices: Devices) -> list[str]:
    dedicated: Counter[tuple[str, ...]] = Counter()
    shares: Counter[tuple[str, ...]] = Counter()
    consumed: dict[tuple[str, ...], Counter[str]] = {}
    for result in _results([*devices.claims.all(), *devices.in_use.all_in_flight()]):
        device = (result.driver, result.pool, result.device)
        if result.share_id is None or not devices.features.is_shareable:
            dedicated[device] += 1
            continue
        shares[*device, result.share_id] += 1
        if result.consumed_capacity:
            amounts = consumed.setdefault(device, Counter())
            for name, raw in result.consumed_capacity.items():
                amounts[name] += Quantity.from_wire(raw).nanos
    state = devices.allocated
    contested = {device for device, count in dedicated.items() if count > 1}
    contested |= {share[:3] for share, count in shares.items() if count > 1}
    pairs: list[tuple[str, Any, Any]] = [
        ("devices in use", set(state.dedicated), set(dedicated)),
        ("shared devices in use", set(state.shared), {share[:3] for share in shares}),
        (
            "devices with consumed capacity",
            {device for device, amounts in state.consumed.items() if any(amounts.values())},
            {device for device, amounts in consumed.items() if any(amounts.values())},
        ),
    ]
    problems = [
        f"{what} are {sorted(actual)}, should be {sorted(expected)}"
        for what, actual, expected in pairs
        if actual - contested != expected - contested
    ]
    for shared, amounts in consumed.items():
        actual = state.consumed.get(DeviceID(*shared), {})
        if shared not in contested and +Counter(actual) != +amounts:
            problems.append(f"device {shared}: consumed is {actual}, should be {dict(amounts)}")
    return problems


def _results(claims: Iterable[ResourceClaim]) -> list[Any]:
    return [
        result
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    ]


def _audit_taint_rules(devices: Devices) -> list[str]:
    """Audits the slices against the published ones with the taints of all rules."""
    rules = devices.taint_rules.rules
    slices = [with_taints(obj, rules) for obj in devices.taint_rules.published]
    expected = {obj.metadata.name: obj for obj in slices}
    actual = {obj.metadata.name: obj for obj in devices.slices.objects()}
    return [
        f"slice {name} does not have the taints of its DeviceTaintRules"
        for name in sorted(expected.keys() | actual.keys())
        if expected.get(name) != actual.get(name)
    ]


def _audit_pools(devices: Devices) -> list[str]:
    """Audits the cached pools of each node."""
    problems = []
    for node, cached in devices.slices.cached():
        actual, expected = _summary(cached), _summary(devices.slices.gather(node))
        if actual != expected:
            problems.append(f"pools of node {node.name} are {actual}, should be {expected}")
    return problems


def _summary(pools: NodePools) -> list[tuple[str, str, list[str]]]:
    return [
        (pool.name, pool.state, [device.id.device for device in pool.devices])
        for pool in pools.pools
    ]


def _audit_owners(devices: Devices) -> list[str]:
    """Audits the index of claims that were made for extended resources."""
    expected = {
        owner.uid: key(claim)
        for claim in devices.claims.all()
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true"
        for owner in claim.metadata.owner_references
        if owner.controller
    }
    actual = devices.claims.owners()
    if actual != set(expected):
        return [f"pods with claims for extended resources are {actual}, should be {set(expected)}"]
    return []
