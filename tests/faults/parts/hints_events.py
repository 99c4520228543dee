"""Changes for which no plugin of kube-scheduler asks, although they may help a pod.

Source: pkg/scheduler/framework/plugins (EventsToRegister and the hints of PodTopologySpread,
NodeVolumeLimits, VolumeBinding, VolumeRestrictions and DynamicResources).
"""

from __future__ import annotations

from typing import Final

from mooring.config import KubeSchedulerConfiguration
from mooring.config.types import PodTopologySpreadArgs
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from tests.parity.differential_themes import Document
from tests.parity.requeue_cases import Change

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
LIMITS, DEVICES, SPREAD = "NodeVolumeLimits", "DynamicResources", "PodTopologySpread"


def default_keys(config: KubeSchedulerConfiguration) -> frozenset[str]:
    """Returns the topology keys of the hard constraints that pods have by default."""
    args = config.profiles[0].args(SPREAD)
    assert args is None or isinstance(args, PodTopologySpreadArgs)
    return frozenset(
        item.topology_key
        for item in (args.default_constraints if args is not None else ())
        if item.when_unsatisfiable == DO_NOT_SCHEDULE
    )


def is_without_event(change: Change, entry: QueuedPod, default_keys: frozenset[str]) -> bool:
    """Returns whether no plugin that has rejected a pod is asked about a change.

    - A node that goes, unless the pod has to be spread, and the node has all its topology keys.
    - A new node, if the limits of volumes alone were exceeded.
    - A CSIDriver that goes, or whose capacities do not count any more, for claims.
    - A CSINode that goes, or limits fewer drivers, unless another limit has grown.
    - A claim for devices that stays allocated and is not the pod's, or whose spec alone has
      changed, which no API server allows.

    Args:
        change: Of an object.
        entry: The pod, and the plugins that have rejected it.
        default_keys: The topology keys of hard default constraints.
    """
    plugins, old, new = entry.unschedulable_plugins, change.old, change.new
    match change.object["kind"]:
        case "Node":
            if new is None:
                keys = _spread_keys(entry.pod.pod) or default_keys
                labels = change.object["metadata"].get("labels", {})
                return SPREAD not in plugins or not keys <= labels.keys()
            return old is None and set(plugins) == {LIMITS}
        case "CSIDriver":
            if old is None or not _has_capacity(old) or (new is not None and _has_capacity(new)):
                return False
            return new is None or not _has_inline(entry.pod.pod, new["metadata"]["name"])
        case "CSINode":
            before, after = _limits(old), _limits(new)
            is_larger = any(count > before.get(name, 0) for name, count in after.items())
            return bool(before.keys() - after.keys()) and not (new and is_larger)
        case "ResourceClaim":
            return old is not None and new is not None and not _is_reported(entry, old, new)
    return False


def _spread_keys(pod: Pod) -> frozenset[str]:
    return frozenset(
        item.topology_key
        for item in pod.spec.topology_spread_constraints
        if item.when_unsatisfiable == DO_NOT_SCHEDULE
    )


def _has_capacity(driver: Document) -> bool:
    return bool(driver["spec"].get("storageCapacity"))


def _has_inline(pod: Pod, driver: str) -> bool:
    volumes = [volume.csi for volume in pod.spec.volumes if volume.csi is not None]
    return any(volume.driver == driver for volume in volumes)


def _limits(node: Document | None) -> dict[str, int]:
    """Returns the limits of a CSINode by driver, without drivers that have none."""
    drivers = ({} if node is None else node["spec"]).get("drivers") or ()
    counts = {it["name"]: (it.get("allocatable") or {}).get("count") for it in drivers}
    return {name: count for name, count in counts.items() if count is not None}


def _is_reported(entry: QueuedPod, old: Document, new: Document) -> bool:
    """Returns whether DynamicResources queues a pod after the update of a claim."""
    before, after = (claim.get("status") or {} for claim in (old, new))
    is_freed = bool(before.get("allocation")) and not after.get("allocation")
    metadata = new["metadata"]
    is_own = entry.pod.metadata.namespace == metadata["namespace"] and any(
        item.resource_claim_name == metadata["name"] for item in entry.pod.spec.resource_claims
    )
    return DEVICES in entry.unschedulable_plugins and (is_freed or (is_own and before != after))
