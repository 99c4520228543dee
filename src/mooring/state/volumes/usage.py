"""Who uses which volume: pods on nodes, and attachments.

What a pod's claim stands for may change while it runs: the claim gets a volume, the volume's object
comes late. So it is noted what each answer follows from, and when that changes the pod is read
anew.

::

    a pod comes ──> disks, claims, counted volumes ──> sums per node
                                     ^
    claim, volume, class change ─────┘  pods that depend on it are counted again
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

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
    KnownStorage,
    attach_limit_volumes,
    counts,
)

Key = TypeVar("Key")

#: Something -> names of what belongs to it; none is empty.
Index = dict[str, dict[str, None]]


class PodUse(NamedTuple):
    """What was noted of one pod, so that the same is taken away again.

    ``claims`` are the keys of those that it uses by name; claims of ephemeral volumes are not
    among them.
    """

    placed: PlacedPod
    node_name: str
    claims: tuple[str, ...]
    disks: tuple[Disk, ...]
    counted: Counted


class _Attachment(NamedTuple):
    """What an attachment counts for; ``volume`` "" = for nothing."""

    node_name: str
    volume: str
    driver: str


class VolumeUse:
    """The volumes in use. The one owner is Storage, which tells of every change.

    Complexity: a pod that comes or goes costs O(its volumes), an object that changes O(pods that
    use it).
    """

    def __init__(self, nodes: NodeTable, known: KnownStorage, csi_nodes: CSINodes) -> None:
        """``csi_nodes`` tell how many volumes of a driver a node can hold."""
        self.disks = Disks()
        self.attached_volumes = AttachedVolumes(nodes, csi_nodes)
        #: Node name -> pod UID -> why the pod's volumes cannot be counted.
        self.problems: dict[str, dict[str, str]] = {}
        self._nodes = nodes
        self._known = known
        self._uses: dict[str, PodUse] = {}
        self._users: Index = {}
        self._dependents: dict[Dependency, dict[str, None]] = {}
        self._attachments: dict[str, tuple[VolumeAttachment, _Attachment]] = {}
        self._attachments_of: Index = {}
        #: The pod that was asked about last, and what it counts for: it may be placed next.
        self._last: tuple[Pod, Counted] | None = None
        #: By slot of the pod table: whether the pod there counts; grows with the table.
        self._counting: npt.NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)

    # -- questions --------------------------------------------------------------------------------

    def is_claim_used(self, claim_key: str) -> bool:
        """Whether some pod on a node uses the claim by name; on a node that is gone none counts."""
        users = self._users.get(claim_key, ())
        return any(self._nodes.alive[self._uses[uid].placed.row] for uid in users)

    def of_pod(self, info: PodInfo) -> Counted:
        """Returns the volumes that a pod counts for on its node, or would if it had one."""
        use = self._uses.get(info.uid)
        if use is not None:
            return use.counted
        return attach_limit_volumes(info.pod, self._known, is_placed=True)

    def usage_if_scheduled(self, pod: Pod) -> Counted:
        """Returns the volumes that a pod would count for on a node with a CSINode.

        Remembered until it is placed, or an object changes.
        """
        counted = attach_limit_volumes(pod, self._known)
        self._last = pod, counted
        return counted

    def counting(self) -> npt.NDArray[np.bool_]:
        """Which slots of the pod table have a pod whose volumes count, or cannot be counted.

        Bool shape (slots,), read only; slots beyond its end have none.
        """
        return self._counting

    def uses(self) -> list[PodUse]:
        """What is noted of each pod, for the audit."""
        return list(self._uses.values())

    def attachments(self) -> list[VolumeAttachment]:
        """Returns all that are known, for the audit."""
        return [obj for obj, _ in self._attachments.values()]

    def indexes(self) -> tuple[Index, Index, Index]:
        """Claim -> pods, object -> pods that depend on it, volume -> attachments; for the audit."""
        dependents = {f"{kind} {at}": users for (kind, at), users in self._dependents.items()}
        return self._users, dependents, self._attachments_of

    # -- pods -------------------------------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """A pod is on a row."""
        if not placed.info.spec.volumes or not _is_of_interest(placed.info.pod):
            return
        info, row = placed.info, placed.row
        name = self._nodes.names[row]
        counted = self._remembered(info.pod)
        if counted is None:
            counted = attach_limit_volumes(info.pod, self._known, is_placed=True)
        use = PodUse(placed, name, _claims_by_name(info.pod), disks_of(info.pod), counted)
        self._uses[info.uid] = use
        for claim_key in use.claims:
            self._users.setdefault(claim_key, {})[info.uid] = None
        self.disks.add(row, use.disks)
        self._count(info.uid, use, 1)

    def remove(self, placed: PlacedPod) -> None:
        """A pod is about to leave its row."""
        uid = placed.info.uid
        use = self._uses.pop(uid, None)
        if use is None:
            return
        for claim_key in dict.fromkeys(use.claims):
            _discard(self._users, claim_key, uid)
        self.disks.remove(placed.row, use.disks)
        self._count(uid, use, -1)

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """``info`` is about to become the version of the pod that counts.

        The volumes of a pod never change; if they do all the same, nothing is counted wrong.
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
        """A claim, a volume or a class is new, changed or gone."""
        self._last = None
        for uid in list(self._dependents.get((kind, object_key), ())):
            use = self._uses[uid]
            counted = attach_limit_volumes(use.placed.info.pod, self._known, is_placed=True)
            if counted != use.counted:
                self._count(uid, use, -1)
                use = self._uses[uid] = use._replace(counted=counted)
                self._count(uid, use, 1)

    def volume_changed(self, name: str) -> None:
        """As ``changed``, of a PersistentVolume: attachments name it, too."""
        self.changed("PersistentVolume", name)
        for attachment in list(self._attachments_of.get(name, ())):
            self.put_attachment(self._attachments[attachment][0])

    def put_attachment(self, obj: VolumeAttachment) -> None:
        """An attachment is new or changed."""
        name = obj.metadata.name
        self.remove_attachment(name)
        found = self._attachment(obj)
        self._attachments[name] = obj, found
        if obj.spec.source.persistent_volume_name is not None:
            of_volume = obj.spec.source.persistent_volume_name
            self._attachments_of.setdefault(of_volume, {})[name] = None
        if found.volume:
            self.attached_volumes.attach(found.node_name, found.volume, found.driver, 1)

    def remove_attachment(self, name: str) -> None:
        """An attachment is gone. Unknown ones are fine."""
        entry = self._attachments.pop(name, None)
        if entry is None:
            return
        obj, found = entry
        if obj.spec.source.persistent_volume_name is not None:
            _discard(self._attachments_of, obj.spec.source.persistent_volume_name, name)
        if found.volume:
            self.attached_volumes.attach(found.node_name, found.volume, found.driver, -1)

    # -- inside -----------------------------------------------------------------------------------

    def _remembered(self, pod: Pod) -> Counted | None:
        """What was said of the pod before it had a node; None = that was about another one.

        A problem may be none for a pod that is placed.
        """
        last, self._last = self._last, None
        if last is None or last[1].problem is not None:
            return None
        asked = last[0]
        is_same = asked.metadata is pod.metadata and asked.spec.volumes is pod.spec.volumes
        return last[1] if is_same else None

    def _attachment(self, obj: VolumeAttachment) -> _Attachment:
        spec = obj.spec
        volume = self._known.volumes.get(spec.source.persistent_volume_name or "")
        is_counted = bool(spec.attacher) and volume is not None and volume.spec.csi is not None
        if not is_counted:
            return _Attachment(spec.node_name, "", "")
        assert volume is not None
        assert volume.spec.csi is not None
        called = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        return _Attachment(spec.node_name, called, spec.attacher)

    def _count(self, uid: str, use: PodUse, sign: int) -> None:
        """Adds what the pod's volumes count for, or takes it away."""
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


def _is_of_interest(pod: Pod) -> bool:
    return any(counts(volume) or describes_disk(volume) for volume in pod.spec.volumes)


def _claims_by_name(pod: Pod) -> tuple[str, ...]:
    uses = (claim_use(pod, volume) for volume in pod.spec.volumes)
    return tuple(
        f"{pod.metadata.namespace}/{use.name}"
        for use in uses
        if use is not None and not use.is_ephemeral
    )
