"""CSINodes, attachments and placed pods in the run of volumes, and the limits of the drivers.

Each attempt is filtered by NodeVolumeLimits too, and compared with a count of the volumes of each
driver on each node, over plain dicts of objects. The draws have a generator of their own, and the
decisions of the run do not depend on them.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (Filter, filterAttachableVolumes,
getNodeVolumeAttachmentInfo). Volumes of in-tree plugins are not drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng
from mooring.framework.runtime.nominated import filter_hypothetical, filter_one
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_pod
from tests.faults.parts.volumes_model import Objects, claims_in
from tests.faults.parts.volumes_server import CLAIM, DRIVER, NODES, NONE, VOLUME

FULL: Final = "node(s) exceed max volume count"
#: Unbound claims of static classes count for the last of them.
DRIVERS: Final = (DRIVER, "other.example.com", NONE)
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
PODS_MAX: Final = 6
ATTACHMENTS_MAX: Final = 6
#: Pods whose volumes cannot be counted, and the share of the changes that are about them.
UNCOUNTABLE_MAX: Final = 4
FOREIGN_SHARE: Final = 0.3
#: Of the comparisons so many are made with other pods on the nodes, too.
HYPOTHETICAL_SHARE: Final = 0.3

#: Volume -> driver; a volume is its driver and its handle.
Volumes = dict[tuple[str, str], str]


class VolumeLimits:
    """Draws limits and what uses them, and compares NodeVolumeLimits with the count.

    Attributes:
        paths: Results of nodes, and how often.

    Args:
        cache: The cache of the run.
        objects: The objects that were reported to it, by kind and name.
        draws: The sources of what is drawn here alone: changes; migrated in-tree plugins of a node
            (no volume here is of one); pods that a preemption removes, and nominated ones; pods
            whose volumes cannot be counted.
        report: Called with each difference.
        is_countable: False = there are placed pods with an ephemeral volume whose claim is not
            theirs, so that the volumes of their node cannot be counted.
        on_csi_node: Called with the CSINode before and after each change of one.
    """

    def __init__(
        self,
        cache: Cache,
        objects: Objects,
        draws: Sequence[Rng],
        report: Callable[[str], None],
        *,
        is_countable: bool,
        on_csi_node: Callable[[Any, Any], None],
    ) -> None:
        self.paths: Counter[str] = Counter()
        self._cache, self._objects, self._report = cache, objects, report
        self._rng, self._migrations, self._more, foreign = draws
        self._plugin = NodeVolumeLimits()
        self._harness = Harness([], [self._plugin])
        self._harness.cache = cache
        #: Node -> driver -> limit, None = it has none. A node without a CSINode is missing.
        self._limits: dict[str, dict[str, int | None]] = {}
        #: Attachment -> its driver, volume and node.
        self._attachments: dict[str, tuple[str, str, str]] = {}
        self._on_csi_node = on_csi_node
        self._foreign = None if is_countable else foreign
        #: Placed pod whose volumes cannot be counted -> its node.
        self._uncountable: dict[str, str] = {}
        self._csi_nodes: dict[str, Any] = {}
        self._pods: list[str] = []
        self._count = 0

    # -- what users and controllers do ------------------------------------------------------------

    def change(self) -> None:
        """Changes a CSINode, an attachment, or a placed pod; three times in four."""
        if self._foreign is not None and self._foreign.random() < FOREIGN_SHARE:
            self._uncountable_pod(self._foreign)
        action = self._rng.choice((self._csi_node, self._attachment, self._pod, None))
        if action is not None:
            action()

    def _uncountable_pod(self, rng: Rng) -> None:
        """Places a pod whose claim belongs to another one, or removes such a pod."""
        if len(self._uncountable) >= UNCOUNTABLE_MAX or (self._uncountable and rng.random() < 0.3):
            uid = rng.choice(list(self._uncountable))
            del self._uncountable[uid]
            self._cache.remove_pod(uid)
            self._cache.remove_object(CLAIM, f"default/{uid}-e")
            return
        uid, node = f"foreign-{self._new_name()}", rng.choice(NODES)
        claim = {"metadata": {"name": f"{uid}-e", "namespace": "default"}, "spec": {}}
        self._cache.put_object(CLAIM, convert(claim, CLAIM))
        volumes = [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
        spec = {"volumes": volumes, "nodeName": node}
        self._cache.put_pod(make_pod(uid, uid=uid, spec=spec))
        self._uncountable[uid] = node

    def _csi_node(self) -> None:
        rng = self._rng
        name = rng.choice(NODES)
        if rng.random() < 0.2:
            self._limits.pop(name, None)
            self._csi_nodes.pop(name, None)
            self._cache.remove_object("CSINode", name)
            return
        drivers = [driver for driver in DRIVERS if rng.random() < 0.7]
        limits = {driver: rng.choice((None, 0, 1, 2, 3, 4)) for driver in drivers}
        self._limits[name] = limits
        spec = {"drivers": [_driver(driver, limit) for driver, limit in limits.items()]}
        annotations = self._migrations.choice(({}, {}, {MIGRATED: "kubernetes.io/aws-ebs"}))
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        before, after = self._csi_nodes.get(name), convert(body, "CSINode")
        self._csi_nodes[name] = after
        self._cache.put_object("CSINode", after)
        self._on_csi_node(before, after)

    def _attachment(self) -> None:
        rng, names = self._rng, list(self._attachments)
        if names and (rng.random() < 0.4 or len(names) >= ATTACHMENTS_MAX):
            name = rng.choice(names)
            del self._attachments[name]
            self._cache.remove_object("VolumeAttachment", name)
            return
        volumes = sorted(name for kind, name in self._objects if kind == VOLUME)
        volume = rng.choice([*volumes, "missing"])
        name, driver, node = self._new_name(), rng.choice(DRIVERS[:2]), rng.choice(NODES)
        self._attachments[name] = driver, volume, node
        spec = {
            "attacher": driver,
            "nodeName": node,
            "source": {"persistentVolumeName": volume},
        }
        body = {"metadata": {"name": name}, "spec": spec}
        self._cache.put_object("VolumeAttachment", convert(body, "VolumeAttachment"))

    def _pod(self) -> None:
        """Places a pod that the run does not know, or removes one."""
        rng = self._rng
        if self._pods and (rng.random() < 0.4 or len(self._pods) >= PODS_MAX):
            uid = self._pods.pop(rng.randrange(len(self._pods)))
            self._cache.remove_pod(uid)
            return
        pod = self._new_pod(rng)
        uid = pod.metadata.uid
        node_name = rng.choice(NODES)
        if rng.random() < 0.5:
            # It is filtered, assumed and confirmed, as by an attempt.
            self.compare(pod)
            with self._cache.assume(PodInfo(pod), node_name) as reservation:
                reservation.keep()
        self._pods.append(uid)
        self._cache.put_pod(replace(pod, spec=replace(pod.spec, node_name=node_name)))

    def _new_pod(self, rng: Rng) -> Pod:
        claims = sorted(name for kind, name in self._objects if kind == CLAIM)
        names = [rng.choice([*claims, "missing"]) for _ in range(rng.choice((1, 1, 2, 3)))]
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in dict.fromkeys(names)
        ]
        uid = self._new_name()
        return make_pod(uid, uid=uid, spec={"volumes": volumes})

    def _new_name(self) -> str:
        self._count += 1
        return f"limits-{self._count}"

    # -- the count --------------------------------------------------------------------------------

    def compare(self, pod: Pod) -> None:
        """Filters all nodes for a pod, and compares the reasons of each."""
        begun = self._harness.begin(pod)
        statuses = filter_one(self._harness.framework, begun.cycle, self._plugin, begun.view)
        for name, status in zip(begun.view.names, statuses.to_list(), strict=True):
            actual = status.reasons if status is not None else ()
            expected = self._reasons(pod, name)
            self.paths[str(expected)] += 1
            if not self._is_right(actual, expected, pod, name):
                self._report(f"{pod.metadata.name} on {name}: {actual}, not {expected}")
        if begun.view.names and self._more.random() < HYPOTHETICAL_SHARE:
            self._compare_hypothetical(pod, begun)

    def _compare_hypothetical(self, pod: Pod, begun: Any) -> None:
        """Filters nodes without some of their pods, and with others, as a preemption does."""
        rng, removed, added = self._more, list[tuple[PodInfo, ...]](), list[tuple[PodInfo, ...]]()
        for name in begun.view.names:
            on_node = [
                placed.info
                for placed in self._cache.pods
                if self._cache.nodes.names[placed.row] == name
            ]
            removed.append(tuple(info for info in on_node if rng.random() < 0.5))
            count = rng.choice((0, 0, 1, 2))
            added.append(tuple(PodInfo(self._new_pod(rng)) for _ in range(count)))
        view = begun.view.without(removed).plus(added)
        actual: list[tuple[str, ...]] = [()] * len(view)
        for _, statuses in filter_hypothetical(self._harness.framework, begun.cycle, view):
            actual = [it.reasons if it is not None else () for it in statuses.to_list()]
        for name, reasons, without, more in zip(view.names, actual, removed, added, strict=True):
            uids = [it.uid for it in without]
            expected = self._reasons(pod, name, uids, more)
            if not self._is_right(reasons, expected, pod, name, uids):
                self._report(
                    f"{pod.metadata.name} on {name} without {without}, with {more}: "
                    f"{reasons}, not {expected}"
                )

    def _is_right(
        self,
        actual: tuple[str, ...],
        expected: tuple[str, ...],
        pod: Pod,
        node: str,
        without: Sequence[str] = (),
    ) -> bool:
        """Returns whether these are the reasons, or name a pod whose volumes cannot be counted."""
        has_limits = any(it is not None for it in self._limits.get(node, {}).values())
        is_counted = expected in ((), (FULL,)) and self._volumes_of(pod)
        if not has_limits or not is_counted:
            return actual == expected
        texts = [
            f"PVC default/{uid}-e was not created for pod default/{uid} (pod is not owner)"
            for uid, at in self._uncountable.items()
            if at == node and uid not in without
        ]
        self.paths["uncountable"] += bool(texts)
        return actual in [(text,) for text in texts] if texts else actual == expected

    def _reasons(
        self, pod: Pod, node: str, without: Sequence[str] = (), more: Sequence[PodInfo] = ()
    ) -> tuple[str, ...]:
        for name in claims_in(pod):
            if (CLAIM, name) not in self._objects:
                missing = f'persistentvolumeclaim "{name}" not found'
                return (f"looking up PVC default/{name}: {missing}",)
        used = self._used_by_pods(node, without)
        for info in more:
            used |= self._volumes_of(info.pod)
        count = Counter((self._attached(node) | used).values())
        new = Counter(d for volume, d in self._volumes_of(pod).items() if volume not in used)
        limits = self._limits.get(node, {})
        for driver, added in new.items():
            limit = limits.get(driver)
            if limit is not None and count[driver] + added > limit:
                return (FULL,)
        return ()

    def _used_by_pods(self, node: str, without: Sequence[str]) -> Volumes:
        volumes: Volumes = {}
        for placed in self._cache.pods:
            is_there = self._cache.nodes.names[placed.row] == node
            if is_there and placed.info.uid not in without:
                volumes |= self._volumes_of(placed.info.pod)
        return volumes

    def _volumes_of(self, pod: Pod) -> Volumes:
        """Returns the volumes of the claims that exist."""
        volumes: Volumes = {}
        for name in claims_in(pod):
            claim = self._objects.get((CLAIM, name))
            if claim is None:
                continue
            volume = self._objects.get((VOLUME, claim.spec.volume_name))
            if volume is not None:
                source = volume.spec.csi
                volumes[source.driver, source.volume_handle] = source.driver
                continue
            storage_class = self._objects.get(("StorageClass", claim.spec.storage_class_name))
            if storage_class is not None:
                # It counts by itself, as it has no volume yet.
                volumes[storage_class.provisioner, f"claim {name}"] = storage_class.provisioner
        return volumes

    def _attached(self, node: str) -> Volumes:
        volumes: Volumes = {}
        for driver, name, at in self._attachments.values():
            volume = self._objects.get((VOLUME, name))
            if at == node and volume is not None:
                volumes[driver, volume.spec.csi.volume_handle] = driver
        return volumes


def _driver(name: str, limit: int | None) -> Mapping[str, Any]:
    allocatable = {} if limit is None else {"allocatable": {"count": limit}}
    return {"name": name, "nodeID": "n", **allocatable}
