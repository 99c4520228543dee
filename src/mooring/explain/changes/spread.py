"""Changes of PodTopologySpread: the topology key, the labels of nodes, the constraint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from mooring.explain.changes.change import EDIT_NODE, EDIT_POD, OBJECT, SuggestedChange
from mooring.explain.reasons.case import Case
from mooring.explain.reasons.spread import Spread, failing, similar_key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY


def for_spread(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields another topology key, the label that a node lacks, and weaker constraints."""
    unmet = failing(case, node)
    missing = [spread for spread in unmet if spread.domain_of(node) is None]
    if missing and len(missing) == len(unmet):
        keys = [spread.constraint.topology_key for spread in missing]
        near = {key: similar_key(case, key) for key in keys}
        if all(name in node.metadata.labels for name in near.values()):
            yield tuple(_other_key(key, name) for key, name in near.items() if name is not None)
        yield tuple(_label(spread, node) for spread in missing)
    own = _indexes(case.pod, [spread.constraint.topology_key for spread in unmet])
    if unmet and own:
        yield tuple(_weaker(case.pod, index) for index in own)


def _indexes(pod: Pod, keys: Iterable[str]) -> list[int]:
    """Returns the pod's own constraints over these topology keys that reject nodes."""
    constraints = pod.spec.topology_spread_constraints
    return [
        index
        for index, constraint in enumerate(constraints)
        if constraint.when_unsatisfiable == DO_NOT_SCHEDULE and constraint.topology_key in keys
    ]


def _changed(pod: Pod, index: int, **fields: Any) -> Pod:
    constraints = list(pod.spec.topology_spread_constraints)
    constraints[index] = replace(constraints[index], **fields)
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=tuple(constraints)))


def _other_key(old: str, new: str) -> SuggestedChange:
    def edit(pod: Pod) -> Pod:
        for index in _indexes(pod, [old]):
            pod = _changed(pod, index, topology_key=new)
        return pod

    text = f"spread over {new} in the pod (instead of {old})"
    return SuggestedChange(text, EDIT_POD, f"topology key {old}", edit)


def _label(spread: Spread, node: Node) -> SuggestedChange:
    """Returns the label of the smallest domain; a new domain if there are too few."""
    name, key, counts = node.metadata.name, spread.constraint.topology_key, spread.counts
    value = min(counts, key=lambda item: (counts[item], item), default=name)
    if len(counts) < spread.constraint.min_domains and name not in counts:
        value = name

    def update(node: Node) -> Node:
        labels = {**node.metadata.labels, key: value}
        return replace(node, metadata=replace(node.metadata, labels=labels))

    text = f"set the label {key}={value} on node {name}"
    return SuggestedChange(text, EDIT_NODE, f"label {key}", updates={name: update})


def _weaker(pod: Pod, index: int) -> SuggestedChange:
    """Returns a constraint that does not reject nodes."""

    def edit(pod: Pod) -> Pod:
        return _changed(pod, index, when_unsatisfiable=SCHEDULE_ANYWAY)

    key = pod.spec.topology_spread_constraints[index].topology_key
    text = f"set whenUnsatisfiable: {SCHEDULE_ANYWAY} for the spread over {key} in the pod"
    return SuggestedChange(text, OBJECT, f"spread {key}", edit)
