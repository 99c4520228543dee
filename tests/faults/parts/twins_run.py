"""Plugins over columns beside scalar ones, with small limits, other gates and spoiled objects.

As ``scalar_run``, but each plugin has a run of its own, so that few seeds are many clusters. Limits
of caches, and the numbers from which another way of counting is faster, are as small as possible in
half of the runs. In others selectors cannot be compiled, and classes lack a mode. Beside any pod,
signatures are compared with those of a pod that differs in one field. The texts of errors are
compared where a pod has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.config.types import UtilizationShapePoint, VolumeBindingArgs
from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, NodeView
from mooring.framework.pod_deltas import RemovedPods, VictimMatrix
from mooring.framework.runtime.nominated import filter_hypothetical, filter_one
from mooring.framework.status import Status
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.storage import CSIDriver
from mooring.plugins import VolumeBinding
from mooring.plugins.inter_pod_affinity import domains as affinity_domains
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.plugins.volume_binding import find_volumes
from mooring.testing import Harness, make_pod
from tests.faults.parts.limits import set_limit
from tests.faults.parts.scalar_run import PAIRS, ScalarRun
from tests.faults.parts.spoiled_objects import (
    REPLACED,
    SpoiledAffinityTwin,
    SpoiledSpreadTwin,
    spoiled_object,
    spoiled_pod,
    two_values,
)
from tests.faults.parts.storage_scores import (
    SHAPES,
    StorageScores,
    attachable_object,
    favored_object,
)
from tests.faults.parts.tight_run import small_limits
from tests.plugins import volume_clusters
from tests.plugins.volume_binding_twin import BindingTwin
from tests.plugins.volume_limits_twin import LimitsTwin

#: Added to the seed: what these runs draw.
TWINS_SEED: Final = 1 << 41
AFFINITY, SPREADING = len(PAIRS), len(PAIRS) + 1
BINDING: Final = 2
OTHER_VOLUMES: Final = (0, 1, 1, 3)
assert PAIRS[BINDING][0] is VolumeBinding
#: Numbers from which another way is faster, and the smallest ones.
SWITCHES: Final = (
    (affinity_domains, "EXACT_MAX", 1),
    (affinity_domains, "COUNTERS_MAX", 0),
    (affinity_domains, "KEYS_MAX", 0),
    (affinity_domains, "NEW_KEYS_MAX", 0),
    (find_volumes, "_GROUPING_CLAIMS_MIN", 1),
)
#: Of the pods and objects so many are spoiled.
SPOILED_SHARES: Final = (0.0, 0.0, 0.15, 0.4)
#: In so many runs of VolumeBinding most claims fit; so many pods name a claim twice.
FAVORED_SHARE: Final = 0.6
TWICE_SHARE: Final = 0.25
#: What follows in a text is not modelled.
REGION_PROBLEM: Final = "failed to get region from zones"
#: So many volumes are attached to nodes that the scheduler does not know.
UNKNOWN_SHARE: Final = 0.3
#: So many pods have a selector of two values.
TWO_VALUES_SHARE: Final = 0.25
KEYS_GATE: Final = "MatchLabelKeysInPodTopologySpread"
#: The parts in which a pod differs from another one.
PARTS: Final = (
    "labels",
    "namespace",
    "affinity",
    "constraints",
    "tolerations",
    "owners",
    "volumes",
)


class TwinsRun(ScalarRun):
    """One run of a plugin."""

    def __init__(self, seed: int, kind: int) -> None:
        self._draws = seeded_random(seed + TWINS_SEED)
        self._spoiled_share = self._draws.choice(SPOILED_SHARES)
        #: Changes objects about volumes, so that most claims fit, or most volumes count.
        self._favored: Callable[[Rng, Any], Any] | None = None
        self._pods_have_constraints = False
        super().__init__(seed, kind)

    # -- clusters ---------------------------------------------------------------------------------

    def _begin_affinity(self) -> None:
        super()._begin_affinity()
        old = self._theirs.plugins[0]
        twin = SpoiledAffinityTwin(
            old.namespaces, hard_weight=old.hard_weight, ignores_others=old.ignores_others
        )
        self._theirs = Harness([], [twin], cache_results=False)
        self._spoil_pods()

    def _begin_spreading(self) -> None:
        super()._begin_spreading()
        old = self._theirs.plugins[0]
        twin = SpoiledSpreadTwin(None if old.is_system else old.defaults, old.workloads)
        twin.reads_keys = self._draws.random() < 0.7
        self._theirs = Harness([], [twin], cache_results=False)
        if not twin.reads_keys:
            plugin: Any = self._ours.plugins[0]
            args = plugin.constraints
            ours = PodTopologySpread(None, gates={KEYS_GATE: False})
            ours.constraints.is_system_defaulted = args.is_system_defaulted
            cache = self._ours.cache
            self._ours = Harness([], [_with_defaults(ours, args)], cache_results=False)
            self._ours.cache = cache
        self._pods_have_constraints = True
        self._spoil_pods()

    def _begin_volumes(self, ours: Any, theirs: Any) -> None:
        super()._begin_volumes(ours, theirs)
        twin = self._theirs.plugins[0]
        if isinstance(twin, BindingTwin):
            self._begin_binding(twin)
        elif isinstance(twin, LimitsTwin) and self._draws.random() < FAVORED_SHARE:
            self._favor(twin.facts, attachable_object)
        for of_kind in twin.facts.objects.values():
            for obj in list(of_kind.values()):
                if self._draws.random() < self._spoiled_share:
                    self._put_object(twin.facts, spoiled_object(self._draws, obj))
                elif isinstance(obj, CSIDriver):
                    self._put_object(twin.facts, obj)
        for of_kind in twin.facts.objects.values():
            self._forget_unwatched(of_kind.values())

    def _forget_unwatched(self, objects: Iterable[Any]) -> None:
        """Removes what no informer follows: the kinds that the plugin does not need."""
        watched = {kind for plugin in self._ours.plugins for kind in plugin.needs}
        for obj in objects:
            if (kind := type(obj).__name__) not in watched:
                self._ours.cache.remove_object(kind, key(obj))

    def _begin_binding(self, twin: BindingTwin) -> None:
        """Creates VolumeBinding, in most runs with scores by the capacity of storage."""
        shape = self._draws.choice((*SHAPES, ()))
        self._theirs = Harness([], [StorageScores(twin.facts, shape)], cache_results=False)
        points = tuple(UtilizationShapePoint(utilization=at, score=it) for at, it in shape)
        plugin = VolumeBinding(
            VolumeBindingArgs(shape=points or None), gates={"StorageCapacityScoring": bool(shape)}
        )
        cache = self._ours.cache
        self._ours = Harness([], [plugin], cache_results=False)
        self._ours.cache = cache
        pods = self._pods
        self._pods = lambda rng, name, **options: _with_more_claims(rng, pods(rng, name, **options))
        if self._draws.random() < FAVORED_SHARE:
            self._favor(twin.facts, favored_object)

    def _favor(self, facts: Any, favored: Callable[[Rng, Any], Any]) -> None:
        """Changes all objects, and those that come, so that they matter."""
        self._favored = favored
        for of_kind in facts.objects.values():
            for obj in list(of_kind.values()):
                super()._put_object(facts, favored(self._draws, obj))

    def _spoil_pods(self) -> None:
        pods = self._pods

        def maybe_spoiled(rng: Rng, name: str, **options: Any) -> Pod:
            if self._pods_have_constraints and "node" not in options:
                options["constraints"] = rng.choice((0, 1, 1, 2, 3))
            pod = pods(rng, name, **options)
            if rng.random() < TWO_VALUES_SHARE:
                pod = spoiled_pod(rng, pod, two_values)
            is_spoiled = rng.random() < self._spoiled_share
            return spoiled_pod(rng, pod) if is_spoiled else pod

        self._pods = maybe_spoiled

    def _put_object(self, facts: Any, obj: Any) -> None:
        if isinstance(obj, CSIDriver) and not self._is_gated and self._draws.random() < 0.5:
            # Without the gate it makes no difference.
            obj = replace(obj, spec=replace(obj.spec, prevent_pod_scheduling_if_missing=True))
        if self._favored is not None:
            obj = self._favored(self._draws, obj)
        if self._draws.random() < self._spoiled_share:
            obj = spoiled_object(self._draws, obj)
        super()._put_object(facts, obj)
        self._forget_unwatched([obj])

    def _attach(self, facts: Any, step: int) -> None:
        """Attaches a volume to a node, at times to one that the scheduler does not know yet."""
        super()._attach(facts, step)
        name = f"attached-{step % 5}"
        obj = facts.get("VolumeAttachment", name)
        if obj is not None and self._draws.random() < UNKNOWN_SHARE:
            self._put_object(facts, replace(obj, spec=replace(obj.spec, node_name="unknown")))

    # -- texts ------------------------------------------------------------------------------------

    def _plain(self, status: Status | None) -> Any:
        """Returns a status with its text, also that of an error."""
        if status is None or self._is_exact:
            return status
        if status.is_rejection:
            return status.code, sorted(status.reasons)
        return status.code, status.message.split(REGION_PROBLEM)[0]

    def _error(self, error: PluginError) -> str:
        """Returns the text of an error, whatever raised it."""
        return error.problem.removeprefix("SelectorError: ").removeprefix("Broken: ")

    # -- victims ----------------------------------------------------------------------------------

    def _compare(self, what: str, of: Callable[[Harness], Any]) -> None:
        super()._compare(what, of)
        if what == "results" and len(self._names()):
            super()._compare("victims", self._without_victims)

    def _without_victims(self, harness: Harness) -> Any:
        """Returns the statuses without victims: all of them, and then some that are left.

        The plugin gets them as preemption does, the scalar one as lists.
        """
        rng = seeded_random(self._seed + len(self._names()))
        cycle, view, refusal = harness.begin(self._pod)
        if harness.plugins[0].name in cycle.skipped or refusal is not None:
            return None
        rows = view.rows[np.array(rng.sample(range(len(view)), k=rng.randint(1, len(view))))]
        on_rows = [list(harness.cache.pods.on_row(row)) for row in rows.tolist()]
        victims = [rng.sample(it, k=rng.randint(0, len(it))) for it in on_rows]
        most = max(map(len, victims))
        slots = np.full((len(rows), most), -1, dtype=np.intp)
        for line, of_node in enumerate(victims):
            slots[line, : len(of_node)] = [placed.slot for placed in of_node]
        matrix = VictimMatrix(cycle.snapshot, slots)
        statuses = []
        for rank in range(-1, most):
            lines = [it for it, of_node in enumerate(victims) if len(of_node) > rank >= 0]
            reprieved = np.array([it for it in lines if rng.random() < 0.6], dtype=np.intp)
            if len(reprieved):
                matrix.reprieve(reprieved, rank)
                again = reprieved[[rng.random() < 0.4 for _ in range(len(reprieved))]]
                matrix.remove_victim(again, rank)
            some = np.array(rng.sample(range(len(rows)), k=rng.randint(1, len(rows))))
            removed: Any = RemovedPods(matrix, some)
            if harness is self._theirs:
                removed = [matrix.removed_pods(line) for line in some.tolist()]
            left = NodeView(cycle.snapshot, rows[some], removed=removed)
            parts = filter_hypothetical(harness.framework, cycle, left)
            statuses.append([[self._plain(it) for it in of.to_list()] for _, of in parts])
        return statuses

    # -- scores -----------------------------------------------------------------------------------

    def _change_volumes(self, facts: Any, step: int) -> None:
        """Compares the scores of the nodes that fit, and makes a change."""
        if isinstance(self._theirs.plugins[0], StorageScores):
            self._compare("scores", self._scores_of_fitting)
        super()._change_volumes(facts, step)

    def _scores_of_fitting(self, harness: Harness) -> Any:
        """Returns the scores of nodes that fit: those of others are never computed."""
        cycle, view, refusal = harness.begin(self._pod)
        plugin: Any = harness.plugins[0]
        if refusal is not None or plugin.name in cycle.skipped:
            if harness is self._ours and plugin.pre_bind_pre_flight(cycle, "node-0") is not SKIP:
                self.problems.append(f"PreBind is due for {self._pod}")
            return None
        statuses = filter_one(harness.framework, cycle, plugin, view).to_list()
        fitting = [at for at, status in enumerate(statuses) if status is None]
        if seeded_random(self._seed + len(fitting)).random() < 0.3:
            cycle, view, _ = harness.begin(self._pod)  # as if results of nodes were cached
        elif fitting and harness is self._ours:
            self._reserve(cycle, view.names[fitting[0]])
        part = view.subset(np.array(fitting, dtype=np.intp))
        return harness.raw_scores_in(cycle, part, plugin)

    def _reserve(self, cycle: Cycle, node_name: str) -> None:
        """Compares what Reserve assumes, and that Unreserve takes it back."""
        plugin: Any = self._ours.plugins[0]
        twin: Any = self._theirs.plugins[0]
        storage = self._ours.cache.storage
        is_due = [plugin.pre_bind_pre_flight(cycle, node_name) is None]
        plugin.reserve(cycle, node_name)
        is_due.append(plugin.pre_bind_pre_flight(cycle, node_name) is None)
        if is_due != [False, twin.binds(cycle.pod.pod)]:
            self.problems.append(f"PreBind is due before and after Reserve: {is_due}")
        actual = _sorted(storage.assumed())
        expected = twin.assumed(cycle.pod.pod, self._ours.cache.nodes, node_name)
        if actual != expected:
            self.problems.append(f"{actual} are assumed on {node_name}, not {expected}")
        for _ in range(2):
            plugin.unreserve(cycle, node_name)
            left = _sorted(storage.assumed())
            if any(left):
                self.problems.append(f"{left} are assumed after Unreserve")

    # -- signatures -------------------------------------------------------------------------------

    def _other(self, step: int) -> Pod:
        """Returns any pod, or one that differs from the pod of the attempt in one part."""
        other = super()._other(step)
        if self._draws.random() < 0.4:
            return other
        own, spec = self._pod.metadata, self._pod.spec
        match self._draws.choice(PARTS):
            case "labels":
                own = replace(own, labels=other.metadata.labels)
            case "namespace":
                own = replace(own, namespace=other.metadata.namespace)
            case "affinity":
                spec = replace(spec, affinity=other.spec.affinity)
            case "constraints":
                constraints = other.spec.topology_spread_constraints
                spec = replace(spec, topology_spread_constraints=constraints)
            case "tolerations":
                spec = replace(spec, tolerations=other.spec.tolerations)
            case "owners":
                own = replace(own, owner_references=other.metadata.owner_references)
            case "volumes":
                spec = replace(spec, volumes=other.spec.volumes)
        return replace(self._pod, metadata=own, spec=spec)


def _with_defaults(plugin: PodTopologySpread, constraints: Any) -> PodTopologySpread:
    """Gives a plugin the default constraints of another one."""
    own = plugin.constraints
    own.is_system_defaulted = constraints.is_system_defaulted
    own.defaults = constraints.defaults
    own._defaults_of = constraints._defaults_of
    return plugin


def _sorted(assumed: Any) -> tuple[list[str], ...]:
    return tuple(sorted(names) for names in assumed)


def _with_more_claims(rng: Rng, pod: Pod) -> Pod:
    """Returns the pod with more claims, at times with one of its volumes under a second name."""
    volumes = [*pod.spec.volumes]
    for number in range(rng.choice((0, 0, 1, 3)) if volumes else 0):
        body = {"persistentVolumeClaim": {"claimName": rng.choice(volume_clusters.CLAIMS)}}
        more = make_pod("more", spec={"volumes": [{"name": f"more-{number}", **body}]})
        volumes += more.spec.volumes
    if volumes and rng.random() < TWICE_SHARE:
        again = replace(rng.choice(volumes), name="again")
        volumes.insert(rng.randint(0, len(volumes)), again)
    return replace(pod, spec=replace(pod.spec, volumes=tuple(volumes)))


@contextmanager
def small_numbers(seed: int) -> Iterator[None]:
    """Makes limits small in half of the runs, and replaces rules of the scalar plugins."""
    rng = seeded_random(seed + TWINS_SEED + 1)
    share = rng.choice((0.0, 0.0, 0.5, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        small_limits(patch, rng, share)
        for module, name, least in SWITCHES:
            if rng.random() < share:
                set_limit(patch, module, name, least)
        for where, name, function in REPLACED:
            patch.setattr(where, name, function)
        yield


def _run(seed: int, kind: int) -> None:
    with small_numbers(seed):
        run = TwinsRun(seed, kind)
        run.run()
    assert not run.problems, run.problems[0]


def run_twin_affinity(seed: int) -> None:
    """Runs a seed of InterPodAffinity.

    Raises:
        AssertionError: a status, a score or a signature differs from that of the scalar plugin.
    """
    _run(seed, AFFINITY)


def run_twin_spreading(seed: int) -> None:
    """Runs a seed of PodTopologySpread.

    Raises:
        AssertionError: a status, a score or a signature differs from that of the scalar plugin.
    """
    _run(seed, SPREADING)


def run_twin_binding(seed: int) -> None:
    """Runs a seed of VolumeBinding.

    Raises:
        AssertionError: a status, a score or a signature differs from that of the scalar plugin.
    """
    _run(seed, BINDING)


def run_twin_volumes(seed: int) -> None:
    """Runs a seed of VolumeRestrictions, NodeVolumeLimits or VolumeZone.

    Raises:
        AssertionError: a status or a signature differs from that of the scalar plugin.
    """
    _run(seed, OTHER_VOLUMES[seed % len(OTHER_VOLUMES)])
