"""Recomputes the indexes of volumes from the objects alone, and reports differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.objects.storage import PersistentVolume
from mooring.objects.volume_claims import volume_class
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodTable
from mooring.state.volumes.disks import disks_of
from mooring.state.volumes.limits import Counted, attach_limit_volumes
from mooring.state.volumes.storage import Storage

#: (Volume, node) -> pods that use it, attachments.
_Users = dict[tuple[str, str], tuple[int, int]]


def audit_storage(storage: Storage, nodes: NodeTable, pods: PodTable) -> list[str]:
    """Returns the differences between the indexes of volumes and the objects as texts.

    Complexity: O(volumes + pods with volumes + attachments + nodes x columns).
    """
    return [
        *_audit_pods(storage, nodes, pods),
        *_audit_users(storage, nodes, pods),
        *_audit_columns(storage, nodes),
        *_audit_listings(storage),
        *_audit_assumed(storage),
    ]


def _differences(what: str, actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> list[str]:
    """Returns one line for each entry that differs."""
    return [
        f"{what} {at}: is {actual.get(at)}, should be {expected.get(at)}"
        for at in {**actual, **expected}
        if actual.get(at) != expected.get(at)
    ]


def _counted(storage: Storage, pods: PodTable) -> Iterator[tuple[Any, Counted]]:
    for placed in pods:
        yield placed, attach_limit_volumes(placed.info.pod, storage.objects, is_placed=True)


def _audit_pods(storage: Storage, nodes: NodeTable, pods: PodTable) -> list[str]:
    """Audits the recorded volumes of each pod, and the dependencies."""
    uses = {use.placed.info.uid: use for use in storage.use.uses()}
    recorded = {uid: (use.node_name, use.counted, use.disks) for uid, use in uses.items()}
    expected, problems = {}, dict[str, dict[str, str]]()
    counted_slots: dict[int, bool] = {}
    users: dict[str, dict[str, None]] = {}
    dependents: dict[str, dict[str, None]] = {}
    for placed, counted in _counted(storage, pods):
        uid, name = placed.info.uid, nodes.names[placed.row]
        if uid in uses or counted != ({}, None, ()) or disks_of(placed.info.pod):
            expected[uid] = (name, counted, disks_of(placed.info.pod))
        for volume in placed.info.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None:
                object_key = f"{placed.info.metadata.namespace}/{claim.claim_name}"
                users.setdefault(object_key, {})[uid] = None
        for kind, object_key in counted.dependencies:
            dependents.setdefault(f"{kind} {object_key}", {})[uid] = None
        if counted.concerns_limits:
            counted_slots[placed.slot] = True
        if counted.problem is not None:
            problems.setdefault(name, {})[uid] = counted.problem.text
    known_users, known_dependents, _ = storage.use.indexes()
    slots = dict.fromkeys(storage.use.counting().nonzero()[0].tolist(), True)
    return [
        *_differences("counting slot", slots, counted_slots),
        *_differences("volumes of pod", recorded, expected),
        *_differences("users of claim", known_users, users),
        *_differences("pods that depend on", known_dependents, dependents),
        *_differences("pods that cannot be counted on", storage.use.problems, problems),
    ]


def _audit_users(storage: Storage, nodes: NodeTable, pods: PodTable) -> list[str]:
    """Audits the users of each volume and of each disk."""
    by_pods: Counter[tuple[str, str]] = Counter()
    disks: Counter[tuple[tuple[str, ...], int, bool]] = Counter()
    for placed, counted in _counted(storage, pods):
        by_pods.update((volume, nodes.names[placed.row]) for volume in counted.volumes)
        disks.update(
            (disk.identity, placed.row, disk.is_shared) for disk in disks_of(placed.info.pod)
        )
    attached_volumes: Counter[tuple[str, str]] = Counter()
    of_volume: dict[str, dict[str, None]] = {}
    for attachment in storage.use.attachments():
        name = attachment.spec.source.persistent_volume_name
        if name is None:
            continue
        of_volume.setdefault(name, {})[attachment.metadata.name] = None
        volume = storage.volume(name)
        if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
            unique_name = f"{attachment.spec.attacher}/{volume.spec.csi.volume_handle}"
            attached_volumes[unique_name, attachment.spec.node_name] += 1
    users: _Users = {at: (by_pods[at], attached_volumes[at]) for at in by_pods | attached_volumes}
    expected = {
        (identity, row): (disks[identity, row, True], disks[identity, row, False])
        for identity, row, _ in disks
    }
    return [
        *_differences("users of volume", storage.use.attached_volumes.items(), users),
        *_differences("users of disk", storage.use.disks.items(), expected),
        *_differences("attachments of volume", storage.use.indexes()[2], of_volume),
    ]


def _audit_columns(storage: Storage, nodes: NodeTable) -> list[str]:
    """Audits the columns of remaining volumes per driver, on rows with a node."""
    attached_volumes, csi_nodes = storage.use.attached_volumes, storage.csi_nodes
    in_use: Counter[tuple[str, str]] = Counter()
    for volume, name in attached_volumes.items():
        in_use[attached_volumes.driver_of(volume, name), name] += 1
    problems = []
    for row in nodes.order.rows():
        name = nodes.names[row]
        for driver, column in attached_volumes.columns():
            remaining = csi_nodes.limit(driver, name) - in_use[driver, name]
            if len(column) == nodes.capacity and column[row] != remaining:
                problems.append(
                    f"node {name}: {column[row]} volumes of {driver} remain, should be {remaining}"
                )
    return problems


def _audit_listings(storage: Storage) -> list[str]:
    """Audits the lists of free volumes and of volumes with a claim."""
    free: dict[str, list[str]] = {}
    named: dict[str, list[str]] = {}
    for name in sorted(storage.objects.volumes):
        volume = storage.current_volume(name)
        assert volume is not None
        reference = volume.spec.claim_ref
        if reference is not None:
            named.setdefault(f"{reference.namespace}/{reference.name}", []).append(name)
        elif _is_available(volume):
            free.setdefault(volume_class(storage.objects.volumes[name]), []).append(name)
    found_free, found_named = storage.listings()
    return [
        *_differences("free volumes of class", found_free, free),
        *_differences("volumes that name", found_named, named),
    ]


def _is_available(volume: PersistentVolume) -> bool:
    return volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None


def _audit_assumed(storage: Storage) -> list[str]:
    """Audits that every assumed object exists."""
    volumes, claims = storage.assumed()
    return [
        *(
            f"volume {name} is assumed but does not exist"
            for name in volumes.keys() - storage.objects.volumes
        ),
        *(
            f"claim {name} is assumed but does not exist"
            for name in claims.keys() - storage.objects.claims
        ),
    ]
