"""Default spreading by Services and controllers, while these, pods and nodes change.

The cache and PodTopologySpread are real and go on living; after each change the statuses and scores
of new pods are those of ``SpreadTwin``, which walks all objects anew. A change after which a pod
fits a node that rejected it before must requeue the pod, by the plugin's hints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.cluster_event import EventResource, QueueingHint
from mooring.config.types import PodTopologySpreadArgs
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod, TopologySpreadConstraint
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo, audit
from mooring.testing import Harness, make_pod
from tests.plugins import spread_clusters as clusters
from tests.plugins.reference_plugins import results
from tests.plugins.spread_twin import SpreadTwin

STEPS: Final = 40
NAMES: Final = ("one", "two", "three")
KINDS: Final = ("Service", "Service", "ReplicaSet", "StatefulSet", "ReplicationController")
WAITING: Final = 2
#: In such seeds, modulo five, a share of the nodes has no label with the name of the host.
NAMELESS: Final = 3
NAMELESS_SHARE: Final = 0.3
HOSTNAME: Final = "kubernetes.io/hostname"


class SpreadingRun:
    """One run.

    Attributes:
        problems: Differences to the twin, and pods that no hint queues.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths = dict.fromkeys(("rejected", "helped"), 0)
        self._rng = rng = seeded_random(seed)
        #: Kind and key -> the Services and controllers.
        self._workloads: dict[tuple[str, str], Any] = {}
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, Pod] = {}
        self._count = 0
        self._nameless = seeded_random(seed + 1_000_000) if seed % 5 == NAMELESS else None
        defaults = self._defaults()
        args = PodTopologySpreadArgs()
        if defaults is not None:
            args = PodTopologySpreadArgs(default_constraints=defaults, defaulting_type="List")
        self._ours = Harness([], [])
        self._cache = self._ours.cache
        handle = OfflineHandle(self._cache, VirtualClock(), seeded_random(seed + 1))
        self._plugin = PodTopologySpread(args, handle)
        self._twin = SpreadTwin(defaults)
        self._ours, self._theirs = (
            Harness([], [plugin], cache_results=False) for plugin in (self._plugin, self._twin)
        )
        self._ours.cache = self._theirs.cache = self._cache
        self._hints = self._plugin.events()
        for number in range(rng.choice((2, 4, 7))):
            self._put_node(f"node-{number}")
        #: Pods that wait, in their newest versions.
        self._waiting = [self._new_pod() for _ in range(WAITING)]

    def _defaults(self) -> tuple[TopologySpreadConstraint, ...] | None:
        """Draws default constraints, mostly a hard one; None = the system's."""
        rng = self._rng
        if rng.random() < 0.3:
            return None
        written = [
            clusters.constraint(rng, with_selector=False) for _ in range(rng.choice((1, 1, 2)))
        ]
        for constraint in written:
            constraint.pop("nodeTaintsPolicy", None)
        if rng.random() < 0.7:
            written[0]["whenUnsatisfiable"] = "DoNotSchedule"
        pod = make_pod(spec={"topologySpreadConstraints": written})
        return pod.spec.topology_spread_constraints

    def run(self) -> None:
        """Makes all changes, and compares after each of them."""
        changes: tuple[Callable[[], None], ...] = (
            *(self._change_workload,) * 4,
            *(self._place,) * 3,
            self._remove,
            self._relabel,
            self._change_node,
            self._remove_node,
        )
        for _ in range(STEPS):
            self._rng.choice(changes)()
            pod = self._new_pod() if self._rng.random() < 0.7 else self._rng.choice(self._waiting)
            actual, expected = results(self._ours, pod), results(self._theirs, pod)
            if actual != expected:
                self.problems.append(f"{key(pod)}: {actual}, not {expected}")
            if self.problems:
                return
        self.problems += audit(self._cache)

    def _new_pod(self, node: str = "") -> Pod:
        self._count += 1
        pod = clusters.pod(self._rng, f"pod-{self._count}", node=node)
        if node:
            return pod
        return replace(pod, spec=replace(pod.spec, node_selector={}))

    # -- Services and controllers -----------------------------------------------------------------

    def _change_workload(self) -> None:
        """Adds, changes or removes one; pods that wait are tried anew, since no event tells."""
        rng = self._rng
        obj = clusters.workload(rng, rng.choice(KINDS), rng.choice(NAMES))
        name = type(obj).__name__, key(obj)
        if rng.random() < 0.35:
            self._cache.remove_object(*name)
            self._workloads.pop(name, None)
        else:
            self._cache.put_object(name[0], obj)
            self._workloads[name] = obj
        self._twin.workloads = list(self._workloads.values())

    # -- pods and nodes, with hints ---------------------------------------------------------------

    def _follow(self, kind: str, old: Any, new: Any, change: Callable[[], None]) -> None:
        """Makes a change; a waiting pod that fits another node after it must be queued."""
        before = [self._fitting(pod) for pod in self._waiting]
        change()
        for pod, nodes in zip(self._waiting, before, strict=True):
            self.paths["rejected"] += len(self._nodes) > len(nodes)
            gained = self._fitting(pod) - nodes
            if not gained:
                continue
            self.paths["helped"] += 1
            if not self._is_queued(pod, kind, old, new):
                self.problems.append(f"{key(pod)} fits {sorted(gained)}, but is not queued")

    def _fitting(self, pod: Pod) -> set[str]:
        statuses = self._theirs.statuses(pod)
        return {name for name, status in statuses.items() if status is None}

    def _is_queued(self, pod: Pod, kind: str, old: Any, new: Any) -> bool:
        """Returns whether a hint for any change of this kind of object queues the pod."""
        hints = [it.hint for it in self._hints if it.event.resource == EventResource(kind)]
        return any(
            hint is None or hint(PodInfo(pod), old, new) is QueueingHint.QUEUE for hint in hints
        )

    def _place(self) -> None:
        if not self._nodes:
            return
        pod = self._new_pod(self._rng.choice(list(self._nodes)))
        self._placed[pod.metadata.uid] = pod
        self._follow("Pod", None, pod, lambda: self._cache.put_pod(pod))

    def _remove(self) -> None:
        if self._placed:
            uid = self._rng.choice(list(self._placed))
            pod = self._placed.pop(uid)
            self._follow("Pod", pod, None, lambda: self._cache.remove_pod(uid))

    def _relabel(self) -> None:
        """Changes the labels of a placed pod; no event tells that a pod begins to terminate."""
        if self._placed:
            uid = self._rng.choice(list(self._placed))
            old = self._placed[uid]
            metadata = replace(old.metadata, labels=clusters.labels(self._rng))
            new = self._placed[uid] = replace(old, metadata=metadata)
            self._follow("Pod", old, new, lambda: self._cache.put_pod(new))

    def _change_node(self) -> None:
        self._put_node(f"node-{self._rng.randrange(8)}")

    def _put_node(self, name: str) -> None:
        old, new = self._nodes.get(name), clusters.node(self._rng, name)
        if self._nameless is not None and self._nameless.random() < NAMELESS_SHARE:
            labels = {name: it for name, it in new.metadata.labels.items() if name != HOSTNAME}
            new = replace(new, metadata=replace(new.metadata, labels=labels))
        self._nodes[name] = new
        if self._count:
            self._follow("Node", old, new, lambda: self._cache.put_node(new))
        else:
            self._cache.put_node(new)

    def _remove_node(self) -> None:
        """Removes a node with its pods."""
        if len(self._nodes) > 1:
            name = self._rng.choice(list(self._nodes))
            for uid in [uid for uid, pod in self._placed.items() if pod.spec.node_name == name]:
                pod = self._placed.pop(uid)
                self._follow("Pod", pod, None, partial(self._cache.remove_pod, uid))
            node = self._nodes.pop(name)
            self._follow("Node", node, None, lambda: self._cache.remove_node(name))


def run_spreading(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status or score differs from the twin's, or a pod is not queued.
    """
    run = SpreadingRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
