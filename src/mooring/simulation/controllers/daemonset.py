"""The DaemonSet controller: one pod on each eligible node.

A node is eligible if the pod's node selector and affinity match and it tolerates the NoSchedule and
NoExecute taints. The scheduler binds the pod: its node affinity names the node.

Source: pkg/controller/daemon/daemon_controller.go, update.go, util/daemonset_util.go.
Differs: ControllerRevisions are not read; ``maxSurge`` counts as 0, so old pods go first; a failed
pod is replaced without backoff.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Final

from mooring.objects.codec.decode import convert
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.selectors import required_node_affinity
from mooring.objects.tolerations import is_tolerated
from mooring.simulation.controllers.deployment.limits import scaled
from mooring.simulation.controllers.objects import (
    Json,
    Result,
    Turn,
    Workload,
    Write,
    status_write,
)
from mooring.simulation.controllers.workload_pods import (
    available_in_s,
    claim_pods,
    delete_pod,
    generated_pod_name,
    is_ready,
    new_pod,
    next_available_s,
    template_hash,
)

if TYPE_CHECKING:
    from mooring.simulation.controllers.cluster import ControlledObjects

REVISION_LABEL: Final = "controller-revision-hash"
GENERATION_LABEL: Final = "pod-template-generation"
GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
NAME_FIELD: Final = "metadata.name"

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def sync_daemon_set(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a DaemonSet."""
    pods, writes = claim_pods(workload, cluster)
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(target_node(pod), []).append(pod)
    eligible = cluster.eligible_nodes(workload, _eligible)
    revision = template_hash(workload.spec["template"])
    if not workload.is_deleted:
        changes = _manage(workload, cluster, by_node, eligible, revision, turn)
        writes += changes or _update(workload, by_node, eligible, revision, turn)
    writes += status_write(workload, _status(workload, by_node, eligible, revision, turn))
    return Result(writes, next_available_s(pods, workload.min_ready_s, turn.now_s))


def daemon_template(workload: Workload) -> Json:
    """Returns the template with the tolerations of all daemon pods."""
    template: Json = deepcopy(workload.spec["template"])
    spec = template["spec"]
    tolerated = [*_TOLERATED, *([_NETWORK] if spec.get("hostNetwork") else ())]
    added = [{"key": taint, "operator": "Exists", "effect": effect} for taint, effect in tolerated]
    spec["tolerations"] = [
        *(item for item in spec.get("tolerations") or () if item not in added),
        *added,
    ]
    return template


def target_node(pod: Pod) -> str:
    """Returns the node that a daemon pod is on, or is made for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _eligible(workload: Workload, cluster: ControlledObjects) -> dict[str, bool]:
    """Returns the nodes where a pod may stay; True = one is created there if there is none."""
    spec = daemon_template(workload)["spec"]
    pod: Pod = convert({"metadata": {"name": workload.metadata.name}, "spec": spec}, "Pod")
    affinity = required_node_affinity(pod)
    own = spec.get("nodeName", "")
    nodes: dict[str, bool] = {}
    for name, node in cluster.nodes.items():
        if (own and own != name) or not affinity.matches(node.metadata.labels, name):
            continue
        untolerated = [
            taint.effect
            for taint in node.spec.taints
            if taint.effect != "PreferNoSchedule" and not is_tolerated(taint, pod.spec.tolerations)
        ]
        if "NoExecute" not in untolerated:
            nodes[name] = not untolerated
    return nodes


def _manage(
    workload: Workload,
    cluster: ControlledObjects,
    by_node: dict[str, list[Pod]],
    eligible: dict[str, bool],
    revision: str,
    turn: Turn,
) -> list[Write]:
    """Returns the writes for nodes with too few or too many pods."""
    writes: list[Write] = []
    for name, pods in by_node.items():
        living = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        finished = [pod for pod in living if pod.status.phase in FINISHED_PHASES]
        running = [pod for pod in living if pod.status.phase not in FINISHED_PHASES]
        running.sort(
            key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp or "")
        )
        excess = living if name not in eligible else [*finished, *running[1:]]
        writes += [delete_pod(pod) for pod in excess]
    template = daemon_template(workload)
    labels = template["metadata"].setdefault("labels", {})
    generation = workload.metadata.annotations.get(GENERATION_ANNOTATION, "")
    if generation:
        labels[GENERATION_LABEL] = generation
    labels[REVISION_LABEL] = revision
    namespace, names = workload.metadata.namespace, set[str]()
    for name, is_needed in eligible.items():
        if is_needed and name not in by_node:
            base = f"{workload.metadata.name}-"
            pod_name = generated_pod_name(base, turn.suffix, names)
            while f"{namespace}/{pod_name}" in cluster.pods:
                pod_name = generated_pod_name(base, turn.suffix, names)
            names.add(pod_name)
            create = new_pod(workload, pod_name, template, generated_from=base)
            _bind_to(create.manifest["spec"], name)
            writes.append(create)
    return writes


def _bind_to(spec: Json, node_name: str) -> None:
    """Lets a pod fit on one node only."""
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node_name]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}


def _update(
    workload: Workload,
    by_node: dict[str, list[Pod]],
    eligible: dict[str, bool],
    revision: str,
    turn: Turn,
) -> list[Write]:
    """Returns the deletions of pods with an older template, within ``maxUnavailable``."""
    strategy = workload.spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    rolling = strategy.get("rollingUpdate") or {}
    desired = sum(eligible.values())
    most = max(1, scaled(rolling.get("maxUnavailable", 1), desired, rounds_up=True))
    unavailable = 0
    replaced: list[Pod] = []
    candidates: list[Pod] = []
    for name in eligible:
        living = [p for p in by_node.get(name, ()) if p.metadata.deletion_timestamp is None]
        if not living:
            unavailable += 1
            continue
        is_available = available_in_s(living[0], workload.min_ready_s, turn.now_s) == 0
        unavailable += not is_available
        if living[0].metadata.labels.get(REVISION_LABEL) != revision:
            (candidates if is_available else replaced).append(living[0])
    return [delete_pod(pod) for pod in [*replaced, *candidates[: max(0, most - unavailable)]]]


def _status(
    workload: Workload,
    by_node: dict[str, list[Pod]],
    eligible: dict[str, bool],
    revision: str,
    turn: Turn,
) -> Json:
    needed = [name for name, is_needed in eligible.items() if is_needed]
    oldest = [
        min(by_node[name], key=lambda pod: pod.metadata.creation_timestamp or "")
        for name in needed
        if by_node.get(name)
    ]
    ready = [pod for pod in oldest if is_ready(pod)]
    waits = [available_in_s(pod, workload.min_ready_s, turn.now_s) for pod in ready]
    available = sum(wait == 0 for wait in waits)
    return {
        "observedGeneration": workload.metadata.generation,
        "desiredNumberScheduled": len(needed),
        "currentNumberScheduled": len(oldest),
        "numberMisscheduled": sum(not eligible.get(name, False) for name in by_node),
        "numberReady": len(ready),
        "numberAvailable": available,
        "numberUnavailable": len(needed) - available,
        "updatedNumberScheduled": sum(
            pod.metadata.labels.get(REVISION_LABEL) == revision for pod in oldest
        ),
        "collisionCount": workload.status.get("collisionCount"),
        "conditions": workload.status.get("conditions"),
    }
