"""Plugins over columns beside the same rules node by node, while everything around them changes.

VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, InterPodAffinity and
PodTopologySpread live in a cluster that changes; after each change the statuses of all nodes, their
scores before and after they are scaled, the scores of a few nodes, and the statuses of nodes with
pods added and removed are those of the scalar plugins in ``tests/plugins``, which walk all objects.
Pods to which a plugin gives equal signatures fit the same nodes, and a pod with another name has
the same signature. Half of the runs of NodeVolumeLimits have its feature gate. Rounding and scaling
are compared on any numbers.

Source: as the scalar plugins name it; pkg/scheduler/framework/signers.go for signatures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.errors import PluginError
from mooring.framework import Cycle, NodeInfo, Reject
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.status import Status
from mooring.objects.meta import ObjectReference, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.storage import CSIDriver
from mooring.plugins import (
    DynamicResources,
    NodeAffinity,
    NodeVolumeLimits,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from mooring.plugins.pod_topology_spread.scoring import normalized, rounded
from mooring.state import PodInfo
from mooring.testing import Harness
from tests.plugins import affinity_clusters, spread_clusters, volume_clusters
from tests.plugins.reference_plugins import results, scores_among
from tests.plugins.volume_binding_twin import BindingTwin
from tests.plugins.volume_limits_twin import Broken, LimitsTwin, Missing
from tests.plugins.volume_twins import Facts, RestrictionsTwin, ZoneTwin

STEPS: Final = 20
NUMBERS: Final = 20
#: Those about volumes, with their references.
PAIRS: Final[tuple[tuple[Any, Any], ...]] = (
    (VolumeRestrictions, RestrictionsTwin),
    (NodeVolumeLimits, LimitsTwin),
    (VolumeBinding, BindingTwin),
    (VolumeZone, ZoneTwin),
)
VALUES: Final = (0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 7.51, -2.6, 1e9 + 0.5)
#: A raw score that is none.
INVALID: Final = -1
ERROR: Final = "error"
#: So many runs about limits have the gate by which a driver must be installed.
GATED_SHARE: Final = 0.5
#: So many changes of a node are of its taints alone, as drawn by this seed.
TAINTS_SHARE: Final = 0.4
PARTIAL_SEED: Final = 1 << 42


class GatedLimitsTwin(LimitsTwin):
    """Limits behind the gate VolumeLimitScaling, by which CSIDrivers may have to be installed."""

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Returns the first driver that must be on the node and is not; else as without."""
        csi_node = self.facts.get("CSINode", node.name)
        installed = {it.name for it in csi_node.spec.drivers} if csi_node is not None else set()
        try:
            drivers = self.attachable(cycle.pod.pod, csi_node, is_new=True).values()
        except (Missing, Broken):
            drivers = {}.values()
        for name in drivers:
            driver = self.facts.get("CSIDriver", name)
            is_due = driver is not None and driver.spec.prevent_pod_scheduling_if_missing
            if is_due and name not in installed:
                return Reject(f"{name} CSI driver is not installed on the node")
        return super().status(cycle, node)


class ScalarCluster:
    """A plugin, the scalar one, and a cluster that changes.

    Attributes:
        problems: Differences to the scalar plugin.
        paths: What was compared, and how often.
    """

    def __init__(self, seed: int, kind: int | None = None) -> None:
        """Creates the cluster; ``kind`` is the plugin's number, by default one by the seed."""
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._seed = seed
        self._rng = seeded_random(seed)
        self._placed: dict[str, Pod] = {}
        #: The nodes that were changed, and what draws changes of their taints alone.
        self._nodes: dict[str, Node] = {}
        self._partial = seeded_random(seed + PARTIAL_SEED)
        #: The cluster's plugin, and the scalar one.
        self._ours: Harness
        self._theirs: Harness
        self._pods: Callable[..., Pod]
        self._change: Callable[[int], None]
        #: Whether the texts of errors are those of the scalar plugin, too.
        self._is_exact = True
        self._pod: Pod
        #: Whether drivers may have to be installed.
        self._is_gated = False
        self._has_full_signatures = True
        kind = seed % 6 if kind is None else kind
        if kind < len(PAIRS):
            self._begin_volumes(*PAIRS[kind])
        elif kind == len(PAIRS):
            self._begin_affinity()
        else:
            self._begin_spreading()
        self._theirs.cache = self._ours.cache

    # -- clusters ---------------------------------------------------------------------------------

    def _begin_volumes(self, ours: Any, theirs: Any) -> None:
        case = volume_clusters.case(self._seed)
        facts = case.facts()
        if ours is NodeVolumeLimits and self._rng.random() < GATED_SHARE:
            self._is_gated = True
            self._ours = case.harness(NodeVolumeLimits({"VolumeLimitScaling": True}))
            self._theirs = case.harness(GatedLimitsTwin(facts))
            self._put_object(facts, volume_clusters.csi_driver(self._rng, volume_clusters.EBS))
        else:
            self._ours, self._theirs = case.harness(ours()), case.harness(theirs(facts))
        self._pods, self._pod = volume_clusters.pod, case.pod
        self._is_exact = False
        self._change = lambda step: self._change_volumes(facts, step)

    def _begin_affinity(self) -> None:
        case = affinity_clusters.case(self._seed)
        self._ours, self._theirs = case.ours(), case.theirs()
        # As upstream, labels are not signed then, though anti-affinity of placed pods reads them.
        self._has_full_signatures = not case.args.ignore_preferred_terms_of_existing_pods
        self._pods, self._pod = affinity_clusters.pod, case.pod
        self._placed = {it.metadata.uid: it for it in case.objects if isinstance(it, Pod)}
        self._change = lambda step: self._change_spread(affinity_clusters, step)

    def _begin_spreading(self) -> None:
        case = spread_clusters.case(self._seed)
        self._ours, self._theirs = case.ours(), case.theirs()
        self._pods, self._pod = self._spread_pod, case.pod
        self._placed = {it.metadata.uid: it for it in case.objects if isinstance(it, Pod)}
        self._change = lambda step: self._change_spread(spread_clusters, step)

    def _spread_pod(self, rng: Rng, name: str, **options: Any) -> Pod:
        """Returns a pod, mostly with constraints of its own."""
        options.setdefault("constraints", rng.choice((0, 1, 1, 2)))
        return spread_clusters.pod(rng, name, **options)

    def _names(self) -> list[str]:
        nodes = self._ours.cache.nodes
        return [nodes.names[row] for row in nodes.order.rows()]

    def _change_volumes(self, facts: Facts, step: int) -> None:
        """Changes objects about volumes, a pod or a node."""
        rng, cache = self._rng, self._ours.cache
        if rng.random() < 0.7:
            self._pod = self._pods(rng, "incoming", is_whole=True)
        pods = ("pod", "pod", "gone", "node", "node gone")
        match rng.choice((*pods, *("objects",) * 4, "less", "attached", "named", "named")):
            case "pod" if self._names():
                cache.put_pod(self._pods(rng, f"new-{step}", node=rng.choice(self._names())))
            case "gone":
                placed = sorted(placed.info.uid for placed in cache.pods)
                if placed:
                    cache.remove_pod(rng.choice(placed))
            case "node":
                cache.put_node(volume_clusters.node(rng, rng.choice(volume_clusters.NODES)))
            case "node gone" if len(self._names()) > 1:
                cache.remove_node(rng.choice(self._names()))
            case "objects":
                for obj in rng.sample(volume_clusters.storage(rng), k=3):
                    self._put_object(facts, obj)
            case "attached":
                self._attach(facts, step)
            case "named":
                self._name_claim(facts)
            case "less":
                of_kinds = facts.objects.values()
                obj = rng.choice([obj for objects in of_kinds for obj in objects.values()])
                facts.remove(type(obj).__name__, key(obj))
                cache.remove_object(type(obj).__name__, key(obj))

    def _name_claim(self, facts: Facts) -> None:
        """Makes a volume of the class of one of the pod's claims, for it or for another one."""
        rng, namespace = self._rng, self._pod.metadata.namespace
        names = [it.persistent_volume_claim for it in self._pod.spec.volumes]
        claims = [
            facts.get("PersistentVolumeClaim", f"{namespace}/{it.claim_name}")
            for it in names
            if it is not None
        ]
        claims = [it for it in claims if it is not None]
        if not claims:
            return
        claim = rng.choice(claims)
        uid = rng.choice(("", claim.metadata.uid, "of another"))
        owner = ObjectReference(namespace=namespace, name=claim.metadata.name, uid=uid)
        volume = volume_clusters.volume(rng, rng.choice(volume_clusters.VOLUMES))
        spec = replace(
            volume.spec,
            claim_ref=owner,
            storage_class_name=claim.spec.storage_class_name,
            capacity={"storage": "5Gi"},
            access_modes=claim.spec.access_modes,
            node_affinity=volume.spec.node_affinity if rng.random() < 0.3 else None,
        )
        self._put_object(facts, replace(volume, spec=spec))

    def _put_object(self, facts: Facts, obj: Any) -> None:
        if self._is_gated and isinstance(obj, CSIDriver) and self._rng.random() < 0.6:
            obj = replace(obj, spec=replace(obj.spec, prevent_pod_scheduling_if_missing=True))
        facts.put(obj)
        self._ours.cache.put_object(type(obj).__name__, obj)

    def _attach(self, facts: Facts, step: int) -> None:
        """Attaches a volume of a driver to a node, which pods there may use."""
        volumes = [it for it in facts.all("PersistentVolume") if it.spec.csi is not None]
        if not volumes or not self._names():
            return
        volume = self._rng.choice(volumes)
        spec = {
            "attacher": volume.spec.csi.driver,
            "nodeName": self._rng.choice(self._names()),
            "source": {"persistentVolumeName": volume.metadata.name},
        }
        name = f"attached-{step % 5}"
        self._put_object(facts, volume_clusters.made("VolumeAttachment", name, spec=spec))

    def _change_spread(self, clusters: Any, step: int) -> None:
        """Changes a pod, its labels, or a node."""
        rng, cache, placed = self._rng, self._ours.cache, self._placed
        match rng.choice(("pod", "pod", "gone", "labels", "node", "node", "node gone")):
            case "pod" if self._names():
                pod = self._pods(rng, f"new-{step}", node=rng.choice(self._names()))
                cache.put_pod(pod)
                placed[pod.metadata.uid] = pod
            case "gone" if placed:
                cache.remove_pod(placed.pop(rng.choice(sorted(placed))).metadata.uid)
            case "labels" if placed:
                pod = placed[rng.choice(sorted(placed))]
                metadata = replace(pod.metadata, labels=clusters.labels(rng))
                placed[pod.metadata.uid] = replace(pod, metadata=metadata)
                cache.put_pod(placed[pod.metadata.uid])
            case "node":
                self._change_node(clusters.node(rng, f"node-{rng.randrange(10)}"))
            case "node gone" if len(self._names()) > 1:
                cache.remove_node(rng.choice(self._names()))
        if rng.random() < 0.5:
            self._pod = self._pods(rng, "incoming")

    def _change_node(self, node: Node) -> None:
        """Replaces a node, or only the taints of the version before."""
        name = node.metadata.name
        before = self._nodes.get(name)
        if before is not None and name in self._names() and self._partial.random() < TAINTS_SHARE:
            node = replace(before, spec=replace(before.spec, taints=node.spec.taints))
        self._nodes[name] = node
        self._ours.cache.put_node(node)


class ScalarRun(ScalarCluster):
    """One run."""

    # -- what is compared -------------------------------------------------------------------------

    def run(self) -> None:
        """Makes all changes, until an answer differs."""
        self._compare_numbers()
        for step in range(STEPS):
            self._compare("results", self._results)
            self._compare("hypothetical nodes", self._hypothetical)
            if self._is_exact:
                self._compare("few nodes", self._few)
            self._check_signatures(step)
            self._change(step)
            if self.problems:
                return

    def _compare(self, what: str, of: Callable[[Harness], Any]) -> None:
        self.paths[what] += 1
        try:
            actual: Any = of(self._ours)
        except PluginError as error:
            actual = self._error(error)
        try:
            expected: Any = of(self._theirs)
        except PluginError as error:
            expected = self._error(error)
        if actual != expected:
            name = self._ours.plugins[0].name
            self.problems.append(f"{name}, {what} of {self._pod}: {actual}, not {expected}")

    def _error(self, error: PluginError) -> str:
        """Returns what is compared of an error."""
        del error
        return ERROR

    def _results(self, harness: Harness) -> Any:
        if self._is_exact:
            return results(harness, self._pod)
        statuses = harness.statuses(self._pod)
        return {name: self._plain(status) for name, status in statuses.items()}

    def _plain(self, status: Status | None) -> Any:
        """Returns a status; the text of an error may be another one where more is wrong."""
        if status is None or self._is_exact:
            return status
        return status.code, sorted(status.reasons) if status.is_rejection else ()

    def _few(self, harness: Harness) -> Any:
        """Returns the scores if only some nodes are feasible."""
        rng = seeded_random(self._seed + len(self._names()))
        count = len(self._names())
        if not count:
            return None
        some = rng.sample(range(count), k=rng.randint(1, count))
        return scores_among(harness, self._pod, some)

    def _hypothetical(self, harness: Harness) -> Any:
        """Returns the statuses of nodes with pods added and removed."""
        rng = seeded_random(self._seed + 1)
        cycle, view, refusal = harness.begin(self._pod)
        if harness.plugins[0].name in cycle.skipped or refusal is not None:
            return refusal and self._plain(refusal)
        more = [
            tuple(self._more(rng, f"more-{it}") for it in range(rng.choice((0, 1, 2, 4))))
            for _ in range(len(view))
        ]
        fewer = []
        for row in view.rows.tolist():
            there = [placed.info for placed in harness.cache.pods.on_row(row)]
            fewer.append(tuple(rng.sample(there, k=rng.randint(0, len(there)))))
        parts = filter_hypothetical(harness.framework, cycle, view.without(fewer).plus(more))
        return [[self._plain(it) for it in statuses.to_list()] for _, statuses in parts]

    def _more(self, rng: Rng, name: str) -> PodInfo:
        """Returns a pod that is added to a node: any, or one like the pod itself."""
        if rng.random() < 0.5:
            return PodInfo(self._pods(rng, name))
        metadata = replace(self._pod.metadata, name=name, uid=name)
        return PodInfo(replace(self._pod, metadata=metadata))

    # -- signatures -------------------------------------------------------------------------------

    def _check_signatures(self, step: int) -> None:
        """Compares the statuses of two pods with equal signatures, of each sort of signature."""
        plugin: Any = self._ours.plugins[0]
        other = self._other(step)
        metadata = self._pod.metadata
        twin = replace(self._pod, metadata=replace(metadata, name="twin", uid="twin"))
        has_own_claims = any(volume.ephemeral is not None for volume in self._pod.spec.volumes)
        for name in ("sign", "batch_signature"):
            sign = getattr(plugin, name, None)
            if sign is None:
                continue
            own, of_other, of_twin = (sign(PodInfo(it)) for it in (self._pod, other, twin))
            if own != of_twin and not has_own_claims:
                self.problems.append(f"{plugin.name}: {name} reads a name: {own}, {of_twin}")
            # Those that caches read; others are for hints, or for volumes alone.
            is_for_results = name == "batch_signature" or hasattr(plugin, "reads")
            is_for_results &= getattr(plugin, "is_batchable", True) and self._has_full_signatures
            # The claims of ephemeral volumes have the names of their pods.
            if own is None or own != of_other or not is_for_results or has_own_claims:
                continue
            self.paths["equal signatures"] += 1
            self._check_equal(other)

    def _other(self, step: int) -> Pod:
        """Returns a pod whose signatures are compared with those of the attempt's pod."""
        return self._pods(seeded_random(self._seed * 100 + step), "other")

    def _check_equal(self, other: Pod) -> None:
        if other.metadata.namespace != self._pod.metadata.namespace:
            return
        accepting = [self._accepting(pod) for pod in (self._pod, other)]
        if accepting[0] != accepting[1]:
            self.problems.append(
                f"{self._ours.plugins[0].name}: equal signatures of {self._pod} and {other}, but "
                f"{accepting}"
            )

    def _accepting(self, pod: Pod) -> Any:
        """Returns the nodes that fit: which reason of several comes first is not signed."""
        try:
            return [name for name, it in self._ours.statuses(pod).items() if it is None]
        except PluginError:
            return ERROR

    # -- numbers ----------------------------------------------------------------------------------

    def _compare_numbers(self) -> None:
        """Compares rounding and scaling of any numbers."""
        rng = self._rng
        values = [_drawn(rng) for _ in range(rng.choice((1, 1, NUMBERS)))]
        actual = rounded(np.array(values, dtype=np.float64)).tolist()
        expected = [_rounded(value) for value in values]
        if actual != expected:
            self.problems.append(f"{values} are rounded to {actual}, not {expected}")
        self.problems += _scaling_problems(rng)
        scores = [rng.choice((INVALID, 0, 1, 7, -5, 90)) for _ in range(rng.randint(0, 6))]
        # Nodes that are not scored have none, or 0.
        scored = [it for it in scores if it not in (0, INVALID) or rng.random() < 0.5]
        arrays = [np.array(it, dtype=np.int64) for it in (scores, scored)]
        actual = normalized(arrays[0], arrays[1]).tolist()
        if actual != _scaled(scores, scored):
            self.problems.append(f"{scores} by {scored}: {actual}, not {_scaled(scores, scored)}")


def _scaling_problems(rng: Rng) -> Iterator[str]:
    """Yields the plugins that scale scores otherwise than by the highest one."""
    scores = [rng.choice((0, 0, 1, 3, 7, 250)) for _ in range(rng.randint(0, 5))]
    highest, none = max([0, *scores]), np.array([], dtype=np.int64)
    scaled = [it * 100 // highest if highest else 0 for it in scores]
    plugins: tuple[Any, ...] = (NodeAffinity(), DynamicResources(), TaintToleration())
    for plugin in plugins:
        column = np.array(scores, dtype=np.int64) if scores else none
        actual = plugin.normalize(None, column, None).tolist()
        is_reversed = plugin.name == "TaintToleration"
        expected = [100 - it for it in scaled] if is_reversed else scaled
        if actual != expected:
            yield f"{plugin.name} scales {scores} to {actual}, not {expected}"


def _drawn(rng: Rng) -> float:
    return rng.choice(VALUES) if rng.random() < 0.6 else rng.random() * 20 - 10


def _rounded(value: float) -> int:
    """Rounds halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _scaled(scores: list[int], scored: list[int]) -> list[int]:
    """Scales by the lowest and the highest score, reversed; toward zero."""
    highest = max([0, *scored])
    if not highest:
        return [0 if it == INVALID else 100 for it in scores]
    shares = [100 * (highest + min(scored) - it) for it in scores]
    return [
        0 if score == INVALID else int(math.copysign(abs(share) // highest, share))
        for score, share in zip(scores, shares, strict=True)
    ]


def run_scalar(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status or a score differs from that of the scalar plugin.
    """
    run = ScalarRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
