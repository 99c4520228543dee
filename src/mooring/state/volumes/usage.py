"""The volumes in use by pods on nodes and by attachments.

The volume of a pod's claim may change while the pod runs: the claim is bound, or the volume
arrives late. So the dependencies of each result are recorded, and when one changes the pod is
evaluated again.

::

    a new pod ──> disks, claims, counted volumes ──> sums per node
                                     ^
    claim, volume, class change ─────┘  dependent pods are counted again
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.objects.pod import Pod
from mooring.objects.storage import VolumeAttachment
from mooring.objects.volume_claims import claim_use
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PlacedPod, PodInfo
from mooring.state.volumes.attachments import AttachedVolumes
from mooring.state.volumes.csi_nodes import CSINodes
from mooring.state.volumes.disks import Disk, Disks, describes_disk, disks_of
from mooring.state.volumes.limits import (
    Counted,
    Dependency,
    VolumeObjects,
    attach_limit_volumes,
    counts,
)

Key = TypeVar("Key")

#: Length of the mask by slot at first; it grows with the table of pods.
FIRST_SLOTS: Final = 64

#: A key -> the names that belong to it, never empty.
Index = dict[str, dict[str, None]]


class PodUse(NamedTuple):
    """The recorded volumes of one pod, so that exactly these are removed again.

    ``claims`` are the keys of claims used by name; claims of ephemeral volumes are not included.
    """

    placed: PlacedPod
    node_name: str
    claims: tuple[str, ...]
    disks: tuple[Disk, ...]
    counted: Counted


class _Attachment(NamedTuple):
    """The counted volume of an attachment; ``volume`` "" = it does not count."""

    node_name: str
    volume: str
    driver: str


class VolumeUse:
    """The volumes in use. Its owner is Storage, which reports every change.

    Complexity: adding or removing a pod is O(its volumes), changing an object is O(pods that use
    it).
    """

    def __init__(self, nodes: NodeTable, storage: VolumeObjects, csi_nodes: CSINodes) -> None:
        """Takes ``csi_nodes``, the volume limits of the nodes."""
        self.disks = Disks()
        self.attached_volumes = AttachedVolumes(nodes, csi_nodes)
        #: Node name -> pod UID -> the reason why the pod's volumes cannot be counted.
        self.problems: dict[str, dict[str, str]] = {}
        self._nodes = nodes
        self._known = storage
        self._uses: dict[str, PodUse] = {}
        self._users: Index = {}
        self._dependents: dict[Dependency, dict[str, None]] = {}
        self._attachments: dict[str, tuple[VolumeAttachment, _Attachment]] = {}
        self._attachments_of: Index = {}
        #: The pod evaluated last, with its counted volumes: it may be placed next.
        self._last: tuple[Pod, Counted] | None = None
        #: By slot of the pod table: True if the pod there counts; grows with the table.
        self._counting: npt.NDArray[np.bool_] = np.zeros(FIRST_SLOTS, dtype=np.bool_)

    # -- queries ----------------------------------------------------------------------------------

    def is_claim_used(self, claim_key: str) -> bool:
        """Returns whether a pod on an existing node uses the claim by name."""
        users = self._users.get(claim_key, ())
        return any(self._nodes.alive[self._uses[uid].placed.row] for uid in users)

    def of_pod(self, info: PodInfo) -> Counted:
        """Returns the counted volumes of a pod that is, or is treated as, on a node."""
        use = self._uses.get(info.uid)
        if use is not None:
            return use.counted
        return attach_limit_volumes(info.pod, self._known, is_placed=True)

    def usage_if_scheduled(self, pod: Pod) -> Counted:
        """Returns the volumes that a pod would count for on a node with a CSINode.

        Cached until the pod is placed, or an object changes.
        """
        counted = attach_limit_volumes(pod, self._known)
        self._last = pod, counted
        return counted

    def counting(self) -> npt.NDArray[np.bool_]:
        """Returns a mask of the slots of pods whose volumes count, or cannot be counted.

        Bool shape (slots,), read-only; slots beyond its end have no such pod.
        """
        return self._counting

    def uses(self) -> list[PodUse]:
        """Returns the recorded use of each pod, for the audit."""
        return list(self._uses.values())

    def attachments(self) -> list[VolumeAttachment]:
        """Returns all attachments, for the audit."""
        return [obj for obj, _ in self._attachments.values()]

    def indexes(self) -> tuple[Index, Index, Index]:
        """Returns claim -> pods, object -> dependent pods, volume -> attachments; for the audit."""
        dependents = {f"{kind} {at}": users for (kind, at), users in self._dependents.items()}
        return self._users, dependents, self._attachments_of

    # -- pods -------------------------------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """Adds a pod on a row."""
        if not placed.info.spec.volumes or not _uses_volumes(placed.info.pod):
            return
        info, row = placed.info, placed.row
        name = self._nodes.names[row]
        counted = self._cached_result(info.pod)
        if counted is None:
            counted = attach_limit_volumes(info.pod, self._known, is_placed=True)
        use = PodUse(placed, name, _claims_by_name(info.pod), disks_of(info.pod), counted)
        self._uses[info.uid] = use
        for claim_key in use.claims:
            self._users.setdefault(claim_key, {})[info.uid] = None
        self.disks.add(row, use.disks)
        self._count(info.uid, use, 1)

    def remove(self, placed: PlacedPod) -> None:
        """Removes a pod; call while it is still on its row."""
        uid = placed.info.uid
        use = self._uses.pop(uid, None)
        if use is None:
            return
        for claim_key in dict.fromkeys(use.claims):
            _discard(self._users, claim_key, uid)
        self.disks.remove(placed.row, use.disks)
        self._count(uid, use, -1)

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """Updates a placed pod to a new version; call before storing it.

        The volumes of a pod are immutable in the API; counts stay correct even if they change.
        """
        before, after = placed.info, info
        if before.spec.volumes is after.spec.volumes or before.spec.volumes == after.spec.volumes:
            return
        self.remove(placed)
        placed.info = after
        self.add(placed)
        placed.info = before

    # -- objects ----------------------------------------------------------------------------------

    def changed(self, kind: str, object_key: str) -> None:
        """Recounts the pods that depend on a claim, volume or class that changed."""
        self._last = None
        for uid in list(self._dependents.get((kind, object_key), ())):
            use = self._uses[uid]
            counted = attach_limit_volumes(use.placed.info.pod, self._known, is_placed=True)
            if counted != use.counted:
                self._count(uid, use, -1)
                use = self._uses[uid] = use._replace(counted=counted)
                self._count(uid, use, 1)

    def volume_changed(self, name: str) -> None:
        """Recounts the pods and attachments that depend on a PersistentVolume."""
        self.changed("PersistentVolume", name)
        for attachment in list(self._attachments_of.get(name, ())):
            self.put_attachment(self._attachments[attachment][0])

    def put_attachment(self, obj: VolumeAttachment) -> None:
        """Adds or updates an attachment."""
        name = obj.metadata.name
        self.remove_attachment(name)
        counted = self._attachment(obj)
        self._attachments[name] = obj, counted
        if obj.spec.source.persistent_volume_name is not None:
            volume_name = obj.spec.source.persistent_volume_name
            self._attachments_of.setdefault(volume_name, {})[name] = None
        if counted.volume:
            self.attached_volumes.attach(counted.node_name, counted.volume, counted.driver, 1)

    def remove_attachment(self, name: str) -> None:
        """Removes an attachment. Unknown names are ignored."""
        entry = self._attachments.pop(name, None)
        if entry is None:
            return
        obj, counted = entry
        if obj.spec.source.persistent_volume_name is not None:
            _discard(self._attachments_of, obj.spec.source.persistent_volume_name, name)
        if counted.volume:
            self.attached_volumes.attach(counted.node_name, counted.volume, counted.driver, -1)

    # -- internal ---------------------------------------------------------------------------------

    def _cached_result(self, pod: Pod) -> Counted | None:
        """Returns the cached result from before the pod was placed; None if it is another pod's.

        A result with a problem is not reused: it may be no problem for a placed pod.
        """
        last, self._last = self._last, None
        if last is None or last[1].problem is not None:
            return None
        last_pod = last[0]
        is_same = last_pod.metadata is pod.metadata and last_pod.spec.volumes is pod.spec.volumes
        return last[1] if is_same else None

    def _attachment(self, obj: VolumeAttachment) -> _Attachment:
        spec = obj.spec
        volume = self._known.volumes.get(spec.source.persistent_volume_name or "")
        is_counted = bool(spec.attacher) and volume is not None and volume.spec.csi is not None
        if not is_counted:
            return _Attachment(spec.node_name, "", "")
        assert volume is not None
        assert volume.spec.csi is not None
        unique_name = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        return _Attachment(spec.node_name, unique_name, spec.attacher)

    def _count(self, uid: str, use: PodUse, sign: int) -> None:
        """Adds or subtracts the pod's counted volumes."""
        counted, slot = use.counted, use.placed.slot
        if slot >= len(self._counting):
            longer = np.zeros(max(slot + 1, 2 * len(self._counting)), dtype=np.bool_)
            longer[: len(self._counting)] = self._counting
            self._counting = longer
        self._counting[slot] = sign > 0 and counted.concerns_limits
        self.attached_volumes.use(use.node_name, counted.volumes, sign)
        for dependency in counted.dependencies:
            if sign > 0:
                self._dependents.setdefault(dependency, {})[uid] = None
            else:
                _discard(self._dependents, dependency, uid)
        if counted.problem is None:
            return
        if sign > 0:
            self.problems.setdefault(use.node_name, {})[uid] = counted.problem.text
        else:
            of_node = self.problems[use.node_name]
            del of_node[uid]
            if not of_node:
                del self.problems[use.node_name]


def _discard(table: dict[Key, dict[str, None]], at: Key, entry: str) -> None:
    entries = table[at]
    del entries[entry]
    if not entries:
        del table[at]


def _uses_volumes(pod: Pod) -> bool:
    return any(counts(volume) or describes_disk(volume) for volume in pod.spec.volumes)


def _claims_by_name(pod: Pod) -> tuple[str, ...]:
    uses = (claim_use(pod, volume) for volume in pod.spec.volumes)
    return tuple(
        f"{pod.metadata.namespace}/{use.name}"
        for use in uses
        if use is not None and not use.is_ephemeral
    )
