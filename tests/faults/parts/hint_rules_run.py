"""Every queueing hint of every plugin that looks beyond a single node, for every change.

NodeResourcesFit, InterPodAffinity, PodTopologySpread, NodeVolumeLimits, VolumeBinding,
VolumeRestrictions and DynamicResources are asked about changes of each kind of objects that their
hints read, of one field or of many, for pods that wait. Each answer is that of
``hint_rules_model.py``: a pod is queued when the rules say so, and only then. Pure hints say the
same for pods with equal signatures, which differ in one part. The events of all default plugins are
those of a table (``registered_events.py``). The run ``hints`` compares whether a
pod waits that fits; here none is queued that the change does not help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.cluster_event import ClusterEvent, EventResource
from mooring.config.types import NodeResourcesFitArgs
from mooring.objects.codec.decode import convert
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from tests.faults.parts.hint_rules_documents import (
    FOCUSES,
    NAMES,
    NAMESPACES,
    VOLUMED,
    WITH_DEVICES,
    Drawn,
)
from tests.faults.parts.hint_rules_model import Change, Cluster, Document, queues
from tests.faults.parts.registered_events import event_problems
from tests.faults.parts.rules_hints import answer, events_of

CHANGES: Final = 60
WAITING: Final = 3
IGNORED: Final = (((), ()), (("example.com/fpga",), ()), ((), ("example.com",)))
#: Kind of objects -> the resource of its events.
RESOURCES: Final = {
    "Node": EventResource.NODE,
    "Pod": EventResource.ASSIGNED_POD,
    "PersistentVolume": EventResource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": EventResource.PERSISTENT_VOLUME_CLAIM,
    "StorageClass": EventResource.STORAGE_CLASS,
    "CSINode": EventResource.CSI_NODE,
    "CSIDriver": EventResource.CSI_DRIVER,
    "CSIStorageCapacity": EventResource.CSI_STORAGE_CAPACITY,
    "VolumeAttachment": EventResource.VOLUME_ATTACHMENT,
    "ResourceClaim": EventResource.RESOURCE_CLAIM,
    "DeviceClass": EventResource.DEVICE_CLASS,
}
#: The kinds that no hint looks up, and whose objects differ in few fields.
OTHERS: Final = (
    "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity",
    "VolumeAttachment",
)  # fmt: skip


class HintRulesRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: How often each plugin queued a pod or not, by kind of object.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[tuple[str, str, bool]] = Counter()
        self._rng = rng = seeded_random(seed)
        self._focus = FOCUSES[seed % len(FOCUSES)]
        self._drawn = Drawn(rng, self._focus)
        self._cache = Cache()
        names, groups = rng.choice(IGNORED)
        self._cluster = Cluster(ignored=(*names, *groups))
        handle: Any = OfflineHandle(self._cache, VirtualClock(), seeded_random(seed + 1))
        args = NodeResourcesFitArgs(ignored_resources=names, ignored_resource_groups=groups)
        self._plugins: list[Any] = [
            NodeResourcesFit(args, handle),
            InterPodAffinity(None, handle),
            PodTopologySpread(None, handle),
            NodeVolumeLimits(),
            VolumeBinding(None, handle),
            VolumeRestrictions(),
            DynamicResources(None, handle),
            DefaultPreemption(None, handle),
        ]
        self.problems += event_problems(handle)
        self._nodes: dict[str, Document] = {}
        for namespace in NAMESPACES[:-1]:
            self._put_namespace(namespace)
        self._waiting = [self._drawn.pod(f"waiting-{number}") for number in range(WAITING)]

    def run(self) -> None:
        """Makes all changes, until an answer differs."""
        changes: tuple[Callable[[], None], ...] = (
            *(self._change_node,) * 3,
            *(self._place,) * 2,
            *(self._update_pod,) * 3,
            *(self._remove_pod,) * 2,
            *(self._change_waiting,) * 2,
            *(self._change_other,) * (10 if self._focus == VOLUMED else 2),
            *(self._change_persistent_claim,) * (5 if self._focus == VOLUMED else 1),
            self._change_class,
            *(self._change_claim,) * (10 if self._focus == WITH_DEVICES else 1),
            lambda: self._put_namespace(self._rng.choice(NAMESPACES[:-1])),
        )
        for _ in range(CHANGES):
            self._rng.choice(changes)()
            if self.problems:
                return

    def _check(self, change: Change, *waiting: Document) -> None:
        """Asks all plugins about a change."""
        old, new = (
            None if it is None else convert(self._drawn.written(it), change.kind)
            for it in (change.old, change.new)
        )
        events = list(events_of(RESOURCES[change.kind], old, new))
        for pod in waiting or self._waiting:
            info = PodInfo(convert(self._drawn.written(pod), "Pod"))
            for plugin in self._plugins:
                actual = answer(plugin, events, info, old, new)
                expected = queues(self._cluster, plugin.name, pod, change)
                self.paths[plugin.name, change.kind, expected] += 1
                if actual != expected:
                    self.problems.append(
                        f"{plugin.name} queues {pod}: {actual}, not {expected}, after {change}"
                    )

        pod = self._rng.choice(waiting or self._waiting)
        self._check_signed(events, pod, self._drawn.variant(pod), (old, new))

    def _check_signed(
        self, events: list[ClusterEvent], pod: Document, other: Document, change: tuple[Any, Any]
    ) -> None:
        """Compares the answers of pure hints for two pods with equal signatures."""
        infos = [PodInfo(convert(self._drawn.written(it), "Pod")) for it in (pod, other)]
        for plugin in self._plugins:
            own, of_other = (plugin.sign(info) for info in infos)
            if own is None or own != of_other:
                continue
            self.paths[plugin.name, "signed", True] += 1
            answers = [answer(plugin, events, info, *change, is_only_pure=True) for info in infos]
            if answers[0] != answers[1]:
                self.problems.append(
                    f"{plugin.name} signs {pod} as {other}, but queues only one after {change}"
                )

    # -- changes ----------------------------------------------------------------------------------

    def _put_namespace(self, name: str) -> None:
        labels = self._cluster.namespaces[name] = self._drawn.labels()
        obj = {"metadata": {"name": name, "labels": labels}}
        self._cache.put_object("Namespace", convert(obj, "Namespace"))

    def _change_node(self) -> None:
        name = self._rng.choice(NAMES)
        old = self._nodes.get(name)
        if old is not None and self._rng.random() < 0.15:
            del self._nodes[name]
            self._check(Change("Node", old, None))
            return
        new = self._drawn.node(name)
        if old is not None and self._rng.random() < 0.8:
            new = _with_one_part(self._rng, old, new)
        self._nodes[name] = new
        self._check(Change("Node", old, new))

    def _place(self) -> None:
        """Adds a pod: placed, nominated, or waiting for a node."""
        pod = self._drawn.other_pod()
        self._store(pod)
        self._check(Change("Pod", None, pod))

    def _store(self, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        self._cluster.pods.pop(uid, None)
        self._cache.remove_pod(uid)
        if pod["spec"].get("nodeName"):
            self._cluster.pods[uid] = pod
            self._cache.put_pod(convert(self._drawn.written(pod), "Pod"))

    def _update_pod(self) -> None:
        """Changes a part of a pod that is placed, or of another one."""
        rng = self._rng
        is_placed = bool(self._cluster.pods) and rng.random() < 0.7
        old = (
            rng.choice(list(self._cluster.pods.values())) if is_placed else self._drawn.other_pod()
        )
        new = self._drawn.changed_pod(old)
        if is_placed:
            self._store(new)
        self._check(Change("Pod", old, new))

    def _remove_pod(self) -> None:
        rng = self._rng
        if self._cluster.pods and rng.random() < 0.6:
            uid = rng.choice(list(self._cluster.pods))
            old = self._cluster.pods.pop(uid)
            self._cache.remove_pod(uid)
        elif rng.random() < 0.7:
            # One that differs from a waiting pod in one part shares most of the others.
            old = self._drawn.variant(rng.choice(self._waiting))
            old["metadata"] |= {"name": "removed", "uid": "removed"}
            old["spec"]["nodeName"] = rng.choice(NAMES)
        else:
            old = self._drawn.other_pod()
        self._check(Change("Pod", old, None))

    def _change_waiting(self) -> None:
        """Changes a pod that waits, or puts another one into its place."""
        at = self._rng.randrange(WAITING)
        old = self._waiting[at]
        if self._rng.random() < 0.5:
            self._waiting[at] = self._drawn.pod(f"waiting-{at}")
            return
        new = self._drawn.changed_pod(old)
        self._check(Change("Pod", old, new))
        self._waiting[at] = new

    def _change_other(self) -> None:
        """Adds, changes or removes an object that no hint looks up."""
        kind, name = self._rng.choice(OTHERS), self._rng.choice(NAMES)
        old, new = (self._drawn.other(kind, name) for _ in range(2))
        self._check(Change(kind, *self._versions(old, new)))

    def _change_persistent_claim(self) -> None:
        pod = self._rng.choice(self._waiting)
        name = self._drawn.claim_name(pod)
        namespace = self._rng.choice((pod["metadata"]["namespace"], *NAMESPACES))
        old, new = (self._drawn.persistent_claim(name, namespace) for _ in range(2))
        self._check(Change("PersistentVolumeClaim", *self._versions(old, new)))

    def _versions(self, old: Document, new: Document) -> tuple[Document | None, Document | None]:
        return self._rng.choice(((None, new), (old, new), (old, new), (old, None)))

    def _change_class(self) -> None:
        """Adds, changes or removes a class of devices."""
        name = self._rng.choice(NAMES)
        old, new = self._cluster.classes.get(name), self._drawn.device_class(name)
        if old is not None and self._rng.random() < 0.3:
            del self._cluster.classes[name]
            self._cache.remove_object("DeviceClass", name)
            self._check(Change("DeviceClass", old, None))
            return
        self._cluster.classes[name] = new
        self._cache.put_object("DeviceClass", convert(new, "DeviceClass"))
        self._check(Change("DeviceClass", old, new))

    def _change_claim(self) -> None:
        """Adds, changes or removes a claim for devices."""
        key = self._rng.choice(NAMESPACES[:2]), self._rng.choice(NAMES)
        old = self._cluster.claims.get(key)
        if old is not None and self._rng.random() < 0.2:
            del self._cluster.claims[key]
            self._cache.remove_object("ResourceClaim", "/".join(key))
            self._check(Change("ResourceClaim", old, None))
            return
        new = self._drawn.claim(*key, old)
        self._cluster.claims[key] = new
        self._cache.put_object("ResourceClaim", convert(new, "ResourceClaim"))
        self._check(Change("ResourceClaim", old, new))


def _with_one_part(rng: Rng, old: Document, new: Document) -> Document:
    """Returns a node in which one label, one amount or the taints are those of another one."""
    changed = deepcopy(old)
    match rng.choice(("label", "label", "amount", "amount", "taints", "nothing")):
        case "label":
            parts, others = changed["metadata"]["labels"], new["metadata"]["labels"]
        case "amount":
            parts, others = changed["status"]["allocatable"], new["status"]["allocatable"]
        case "taints":
            changed["spec"] = new["spec"]
            return changed
        case _:
            return changed
    key = rng.choice(sorted({*parts, *others} - {"pods"}))
    parts.pop(key, None)
    if key in others:
        parts[key] = others[key]
    return changed


def run_hint_rules(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a hint queues a pod that a change does not help, or does not queue it.
    """
    run = HintRulesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
