"""The preparation of a new pod, besides its defaults and its priority.

All functions change the pod that they are given, a dict with defaults filled in.

Source: pkg/registry/core/pod/strategy.go, plugin/pkg/admission/{defaulttolerationseconds,
podtopologylabels}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.objects.defaulting.app_armor import set_annotated_profiles
from mooring.objects.types import Object

#: Toleration time of a pod for an unreachable node.
NOT_READY_TOLERATION_SECONDS: Final = 300
LOST_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
#: Labels that a pod gets from the node that it is bound to.
TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
#: Replaces a negative grace period: the shortest one that does not kill the pod at once.
_SHORTEST_GRACE_PERIOD_SECONDS: Final = 1


def is_stored(obj: Object) -> bool:
    """Returns whether an API server has stored the object before: only a server sets both."""
    metadata = obj["metadata"]
    return bool(metadata.get("uid") and metadata.get("creationTimestamp"))


def add_default_tolerations(pod: Object) -> None:
    """Tolerates lost nodes for a while, unless the pod says for how long itself."""
    tolerations = pod["spec"].get("tolerations", [])
    tolerated = {
        item.get("key", "") for item in tolerations if item.get("effect", "") in ("NoExecute", "")
    }
    missing = [taint for taint in LOST_NODE_TAINTS if not tolerated & {taint, ""}]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": NOT_READY_TOLERATION_SECONDS,
            }
            for taint in missing
        ]


def topology_labels(node_labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels that a pod gets from a node with these labels."""
    return {name: node_labels[name] for name in TOPOLOGY_LABELS if name in node_labels}


def add_topology_labels(pod: Object, labels: Mapping[str, str]) -> None:
    """Adds the labels of the pod's node, which replace those of the same name."""
    if labels:
        pod["metadata"].setdefault("labels", {}).update(labels)


def prepare_spec(pod: Object) -> None:
    """Completes the spec of a new pod: grace period, selectors with label keys, profiles."""
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = _SHORTEST_GRACE_PERIOD_SECONDS
    labels = pod["metadata"].get("labels")
    if labels:
        merge_label_keys(spec, labels)
    set_annotated_profiles(pod)


def prepare_stored_spec(pod: Object) -> None:
    """Does for a pod that was stored before what ``prepare_spec`` does for a new one.

    Conditions that are in a selector already are not added again, so pods of this version of
    Kubernetes stay as they are, and those of versions that did not merge label keys get them.
    """
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = _SHORTEST_GRACE_PERIOD_SECONDS
    labels = pod["metadata"].get("labels")
    if not labels:
        return
    for selector, conditions in _label_key_conditions(spec, labels):
        present = selector.get("matchExpressions", [])
        _extend(selector, [item for item in conditions if item not in present])


def merge_label_keys(spec: Object, labels: Mapping[str, str]) -> None:
    """Turns matchLabelKeys and mismatchLabelKeys into conditions of the selectors beside them."""
    for selector, conditions in _label_key_conditions(spec, labels):
        _extend(selector, conditions)


def _label_key_conditions(
    spec: Object, labels: Mapping[str, str]
) -> Iterator[tuple[Object, list[Object]]]:
    """Yields item selector with the conditions that its label keys stand for."""
    for term in (*_pod_affinity_terms(spec), *spec.get("topologySpreadConstraints", ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue  # selects no pod, and must go on selecting none
        yield (
            selector,
            [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
                for key in term.get(name, ())
                if key in labels
            ],
        )


def _extend(selector: Object, conditions: list[Object]) -> None:
    if conditions:
        selector["matchExpressions"] = selector.get("matchExpressions", []) + conditions


def _pod_affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind, {})
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield weighted["podAffinityTerm"]
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution", ())
