"""Pods of workloads: made from templates, claimed, counted, and ordered for deletion.

Source: pkg/controller/controller_utils.go, pkg/controller/controller_ref_manager.go,
pkg/api/v1/pod/util.go.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from datetime import datetime
from functools import cmp_to_key, lru_cache
from typing import TYPE_CHECKING, Final

from mooring.objects.meta import controller_of
from mooring.objects.pod import FINISHED_PHASES
from mooring.simulation.controllers.objects import (
    Create,
    Delete,
    Json,
    SetController,
    Workload,
    Write,
    owner_reference,
    selector_of,
)

if TYPE_CHECKING:
    from mooring.clock import Rng
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.cluster import ControlledObjects

#: The letters and digits of generated names: no vowels, so no words.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
#: A pod's name is cut so that the suffix still has room in 63 characters.
PREFIX_MAX: Final = 63 - SUFFIX_LENGTH
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


def random_suffix(rng: Rng) -> str:
    """Returns the random end of a generated name."""
    return "".join(ALPHABET[rng.randrange(len(ALPHABET))] for _ in range(SUFFIX_LENGTH))


def template_hash(template: Json) -> str:
    """Returns the hash of a pod template, as a label value.

    *Differs:* kube-controller-manager hashes Go's memory layout, so the letters are others.
    """
    number = _FNV_OFFSET
    for byte in json.dumps(template, sort_keys=True, separators=(",", ":")).encode():
        number = (number ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))


def new_pod(
    owner: Workload, name: str, template: Json | None = None, *, generated_from: str = ""
) -> Create:
    """Returns the write that creates a pod of a template, by default that of the owner.

    Args:
        owner: Becomes the controller of the pod.
        name: The pod's name.
        template: Its template.
        generated_from: The prefix that the name was generated from; "" = the name is fixed.
    """
    template = owner.spec["template"] if template is None else template
    metadata = template.get("metadata", {})
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    new: Json = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "ownerReferences": [owner_reference(owner)],
    }
    if generated_from:
        new["generateName"] = generated_from
    if labels:
        new["labels"] = dict(labels)
    if annotations:
        new["annotations"] = dict(annotations)
    if metadata.get("finalizers"):
        new["finalizers"] = list(metadata["finalizers"])
    spec = deepcopy(template["spec"])
    return Create({"apiVersion": "v1", "kind": "Pod", "metadata": new, "spec": spec})


def generated_pod_name(base: str, suffix: Callable[[], str], taken: Iterable[str]) -> str:
    """Returns a name that no pod of the namespace has."""
    names = set(taken)
    while True:
        name = base[:PREFIX_MAX] + suffix()
        if name not in names:
            return name


def delete_pod(pod: Pod) -> Delete:
    """Returns the write that deletes a pod."""
    metadata = pod.metadata
    return Delete("Pod", metadata.namespace, metadata.name, metadata.uid)


# -- owners ---------------------------------------------------------------------------------------


def claim_pods(
    workload: Workload, cluster: ControlledObjects, *, adopts: bool = True
) -> tuple[list[Pod], list[Write]]:
    """Returns the pods of a workload, and the writes that adopt and release pods.

    Orphans that match the selector are adopted; own pods that do not match any more are released.
    """
    selector = selector_of(workload)
    claimed: list[Pod] = []
    writes: list[Write] = []
    for pod in cluster.pods_of(workload):
        if selector.matches(pod.metadata.labels) or not adopts:
            claimed.append(pod)
        elif not workload.is_deleted and pod.metadata.deletion_timestamp is None:
            writes.append(_set_controller(pod, workload, None))
    if adopts and not workload.is_deleted and not selector.selects_everything:
        for pod in cluster.orphans(workload.metadata.namespace):
            if is_active(pod) and selector.matches(pod.metadata.labels):
                claimed.append(pod)
                writes.append(_set_controller(pod, workload, owner_reference(workload)))
    return claimed, writes


def _set_controller(pod: Pod, workload: Workload, owner: Json | None) -> SetController:
    metadata = pod.metadata
    return SetController(
        "Pod", metadata.namespace, metadata.name, metadata.uid, workload.metadata.uid, owner
    )


# -- states ---------------------------------------------------------------------------------------


def is_active(pod: Pod) -> bool:
    """Returns whether a pod has not finished and is not being deleted."""
    return pod.status.phase not in FINISHED_PHASES and pod.metadata.deletion_timestamp is None


def ready_since(pod: Pod) -> str | None:
    """Returns when a pod became ready; None if it is not ready, "" if that is not known."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.last_transition_time or "" if condition.status == "True" else None
    return None


def is_ready(pod: Pod) -> bool:
    """Returns whether a pod is ready."""
    return ready_since(pod) is not None


def available_in_s(pod: Pod, min_ready_s: int, now_s: float) -> float | None:
    """Returns in how many seconds a pod is available: 0 = it is; None = it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    if not min_ready_s:
        return 0.0
    return max(0.0, seconds_of(since) + min_ready_s - now_s)


def next_available_s(pods: Sequence[Pod], min_ready_s: int, now_s: float) -> float | None:
    """Returns in how many seconds the next ready pod becomes available; None = none will."""
    if not min_ready_s:
        return None
    waits = [available_in_s(pod, min_ready_s, now_s) for pod in pods]
    return min((wait for wait in waits if wait), default=None)


@lru_cache(maxsize=4096)
def seconds_of(text: str) -> float:
    """Returns a time of the API as seconds since 1970; 0 if there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


# -- which pods are deleted first -----------------------------------------------------------------


def first_to_delete(
    pods: Sequence[Pod], related: Sequence[Pod], count: int, now_s: float
) -> list[Pod]:
    """Returns the pods that a scale-down deletes.

    Args:
        pods: The pods of the workload.
        related: The active pods of all workloads with the same owner: where several are on one
            node, one of them goes first.
        count: How many pods to delete.
        now_s: The wall clock.

    *Differs:* restarts of containers are not compared; simulated containers never restart.
    """
    if count >= len(pods):
        return list(pods)
    on_node = Counter(pod.spec.node_name for pod in related)

    def compare(first: Pod, second: Pod) -> int:
        starts = _start(first, on_node), _start(second, on_node)
        if starts[0] != starts[1]:
            return -1 if starts[0] < starts[1] else 1
        ages = _ages(first, second, now_s), _ages(second, first, now_s)
        return (ages[0] > ages[1]) - (ages[0] < ages[1])

    return sorted(pods, key=cmp_to_key(compare))[:count]


def _start(pod: Pod, on_node: Counter[str]) -> tuple[float, ...]:
    """Returns the criteria before the ages."""
    try:
        cost = int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        cost = 0
    phase = _PHASE_ORDER.get(pod.status.phase, 0)
    node_name = pod.spec.node_name
    return (bool(node_name), phase, is_ready(pod), cost, -on_node[node_name])


def _ages(pod: Pod, other: Pod, now_s: float) -> tuple[tuple[float, str], ...]:
    """Returns the ages of a pod in steps of powers of two; the UID decides within a step."""
    pairs = (
        (ready_since(pod) or "", ready_since(other) or ""),
        (pod.metadata.creation_timestamp or "", other.metadata.creation_timestamp or ""),
    )
    return tuple(
        (_step(own, now_s), pod.metadata.uid) if own != others else (0.0, "")
        for own, others in pairs
    )


def _step(text: str, now_s: float) -> float:
    age_ns = (now_s - seconds_of(text)) * 1e9
    return math.floor(math.log2(age_ns)) if age_ns > 1 else -1.0


def related_pods(workload: Workload, cluster: ControlledObjects) -> list[Pod]:
    """Returns the active pods of all ReplicaSets with the same controller."""
    owner = controller_of(workload.metadata)
    siblings = [workload]
    if owner is not None:
        siblings = [
            other
            for other in cluster.workloads_in(workload.kind, workload.metadata.namespace)
            if (its := controller_of(other.metadata)) is not None and its.uid == owner.uid
        ]
    return [pod for other in siblings for pod in cluster.pods_of(other) if is_active(pod)]
