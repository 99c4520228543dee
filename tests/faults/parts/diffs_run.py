"""Updates of pods and nodes of which a few fields change, as the events that requeue other pods.

Old and new objects are plain documents. The reference compares their fields one by one.

Source: pkg/scheduler/framework/events.go (PodSchedulingPropertiesChange,
NodeSchedulingPropertiesChange).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from mooring.queue.event_diff import node_changes, pod_changes
from mooring.state import PodInfo

UPDATES: Final = 40
#: How an amount is written, and its number.
AMOUNTS: Final = {
    "1": Decimal(1),
    "1000m": Decimal(1),
    "1.0": Decimal(1),
    "2": Decimal(2),
    "1Ki": Decimal(1024),
    "1024": Decimal(1024),
    "0": Decimal(0),
}
Change = Callable[[Rng], Any]


def _labels(rng: Rng) -> Any:
    return rng.choice(({}, {"a": "b"}, {"a": "c"}, {"b": "b"}, {"a": "b", "b": "b"}))


def _amounts(rng: Rng) -> dict[str, str]:
    names = ("cpu", "memory", "example.com/a")
    return {name: rng.choice(tuple(AMOUNTS)) for name in names if rng.random() < 0.6}


def _containers(rng: Rng) -> Any:
    return [{"name": "a", "resources": {"requests": _amounts(rng)}}]


def _conditions(rng: Rng) -> Any:
    return [
        {"type": name, "status": rng.choice(("True", "False")), "message": rng.choice(("a", "b"))}
        for name in rng.sample(("Ready", "DiskPressure"), rng.randrange(3))
    ]


def _taints(rng: Rng) -> Any:
    taints = ({"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"})
    return rng.sample(taints, rng.randrange(3))


def _tolerations(rng: Rng) -> Any:
    return [{"key": "a"}, {"key": "b"}][: rng.randrange(3)]


def _statuses(rng: Rng) -> Any:
    return rng.choice(([], [{"name": "a", "resourceClaimName": "b"}], [{"name": "a"}]))


def _extended(rng: Rng) -> Any:
    return rng.choice((None, {"resourceClaimName": "b", "requestMappings": []}))


#: Where each field is, and what it may be.
POD_FIELDS: Final[dict[str, Change]] = {
    "metadata.labels": _labels,
    "metadata.annotations": _labels,
    "spec.containers": _containers,
    "spec.schedulingGates": lambda rng: [{"name": "a"}, {"name": "b"}][: rng.randrange(3)],
    "spec.tolerations": _tolerations,
    "spec.nodeName": lambda rng: rng.choice(("", "a")),
    "status.resourceClaimStatuses": _statuses,
    "status.extendedResourceClaimStatus": _extended,
    "status.phase": lambda rng: rng.choice(("Pending", "Running")),
}
NODE_FIELDS: Final[dict[str, Change]] = {
    "spec.unschedulable": lambda rng: rng.random() < 0.5,
    "status.allocatable": _amounts,
    "status.capacity": _amounts,
    "metadata.labels": _labels,
    "spec.taints": _taints,
    "status.conditions": _conditions,
    "metadata.annotations": _labels,
    "status.declaredFeatures": lambda rng: rng.choice(([], ["A"], ["B"], ["A", "B"])),
}


def _drawn(rng: Rng, fields: dict[str, Change], before: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields, of which a few are others than before."""
    is_changed = rng.choice((0.0, 0.15, 0.5)) if before else 1.0
    return {
        name: draw(rng) if rng.random() < is_changed else before[name]
        for name, draw in fields.items()
    }


def _object(kind: str, fields: dict[str, Any]) -> Any:
    document: dict[str, Any] = {"metadata": {"name": "a", "namespace": "shop", "uid": "1-2"}}
    for place, value in fields.items():
        part, name = place.split(".")
        if value is not None:
            document.setdefault(part, {})[name] = value
    if kind == "Node":
        del document["metadata"]["namespace"]
    return decode(json.dumps(document).encode(), kind_named(kind))


def _numbers(amounts: dict[str, str]) -> dict[str, Decimal]:
    return {name: AMOUNTS[text] for name, text in amounts.items()}


def _pod_events(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    prefix = "AssignedPod" if new["spec.nodeName"] else "UnschedulablePod"
    requests = [
        _numbers(fields["spec.containers"][0]["resources"]["requests"]) for fields in (old, new)
    ]
    claims = "status.resourceClaimStatuses", "status.extendedResourceClaimStatus"
    changed = {
        "UpdatePodLabel": old["metadata.labels"] != new["metadata.labels"],
        "UpdatePodScaleDown": any(
            amount > requests[1].get(name, -1) for name, amount in requests[0].items()
        ),
        "UpdatePodSchedulingGatesEliminated": bool(old["spec.schedulingGates"])
        and not new["spec.schedulingGates"],
        "UpdatePodToleration": len(old["spec.tolerations"]) != len(new["spec.tolerations"]),
        "UpdatePodGeneratedResourceClaim": any(old[name] != new[name] for name in claims),
    }
    names = [name for name, is_changed in changed.items() if is_changed]
    return [f"{prefix}{name}" for name in names or ["Update"]]


def _node_events(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    amounts = [_numbers(fields["status.allocatable"]) for fields in (old, new)]
    conditions = [
        {it["type"]: it["status"] for it in fields["status.conditions"]} for fields in (old, new)
    ]
    changed = [
        ("UpdateNodeTaint", old["spec.unschedulable"] and not new["spec.unschedulable"]),
        ("UpdateNodeAllocatable", amounts[0] != amounts[1]),
        ("UpdateNodeLabel", old["metadata.labels"] != new["metadata.labels"]),
        ("UpdateNodeTaint", old["spec.taints"] != new["spec.taints"]),
        ("UpdateNodeCondition", conditions[0] != conditions[1]),
        ("UpdateNodeAnnotation", old["metadata.annotations"] != new["metadata.annotations"]),
        (
            "UpdateNodeDeclaredFeature",
            old["status.declaredFeatures"] != new["status.declaredFeatures"],
        ),
    ]
    return [f"Node{name}" for name, is_changed in changed if is_changed]


def _names(events: Any) -> list[str]:
    return [event.label for event in events]


def run_diffs(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an update is another event than the reference says.
    """
    rng = seeded_random(seed)
    for _ in range(UPDATES):
        old = _drawn(rng, POD_FIELDS, {})
        new = _drawn(rng, POD_FIELDS, old)
        pods = [PodInfo(_object("Pod", fields)) for fields in (old, new)]
        real, expected = _names(pod_changes(*pods)), _pod_events(old, new)
        assert real == expected, f"{old} -> {new}: {real}, not {expected}"
        old = _drawn(rng, NODE_FIELDS, {})
        new = _drawn(rng, NODE_FIELDS, old)
        nodes = [_object("Node", fields) for fields in (old, new)]
        real, expected = _names(node_changes(*nodes)), _node_events(old, new)
        assert real == expected, f"{old} -> {new}: {real}, not {expected}"
