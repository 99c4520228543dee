"""Pods with claims, from PreFilter to PreBind, on a server whose volumes change all the time.

The plugin, its handle and the cache are real; the server, the watch and the controller are
``volumes_server``. Each result is compared with ``volumes_model``: the reasons of each node, what
Reserve assumes, what PreBind writes and in which order, the end of each wait, what is assumed after
it, and, for each change, whether a rejected pod must be queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from msgspec import to_builtins

from mooring.clock import seeded_random
from mooring.errors import PluginError, SchedulerError
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.nominated import filter_one
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.state.volumes.free_index import first_match
from mooring.state.volumes.topology import topology_of_affinity
from mooring.testing import Harness, make_pod
from tests.faults.parts.limits import set_limit
from tests.faults.parts.virtual_runs import check_run_of_tasks
from tests.faults.parts.volumes_limits import VolumeLimits
from tests.faults.parts.volumes_model import (
    MARK,
    SELECTED_NODE,
    Plan,
    View,
    claims_in,
    reaches,
)
from tests.faults.parts.volumes_server import CLAIM, CLASSES, STEP_S, VOLUME
from tests.faults.parts.volumes_watch import COMPETING, COMPETING_SEED, VolumeWatch
from tests.faults.twins.attached_volumes import AttachedVolumes

PODS: Final = 4
ACTIONS: Final = 50
QUIET_S: Final = 900.0
#: The watch is not later than this.
SETTLED_S: Final = 10.0
#: In such seeds, modulo four, volumes of placed pods cannot be counted.
FOREIGN: Final = 2
#: Added to the seed: the limits of volumes have draws of their own.
LIMITS_SEED: Final = 1 << 40


class VolumesRun(VolumeWatch):
    """One run.

    Attributes:
        attached: The model of what is assumed.
        limits: Those of the drivers on each node, and their model.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        super().__init__(seed)
        self._tasks = tasks
        self._harness = Harness([], [self._plugin])
        self._harness.cache = self._cache
        profiles: Any = {"": SimpleNamespace(plugins=lambda _: [self._plugin])}
        service: Any = SimpleNamespace(cache=self._cache, profiles=profiles)
        self.attached = AttachedVolumes(service, self.problems.append)
        draws = [seeded_random(seed + LIMITS_SEED + number) for number in range(4)]
        self.limits = VolumeLimits(
            self._cache,
            self._view.objects,
            draws,
            self.problems.append,
            is_countable=seed % 4 != FOREIGN,
            on_csi_node=self._on_csi_node,
        )
        self._one_attempt = asyncio.Lock()
        #: Pod -> the writes that it has to make, in their order.
        self._writes: dict[str, list[tuple[str, str]]] = {}
        #: Pod -> the version of each object when it was reserved: a later one is not overwritten.
        self._versions: dict[str, dict[tuple[str, str], str]] = {}
        #: UID of a pod -> what it has to write of each object.
        self._patches: dict[str, dict[tuple[str, str], Any]] = {}

    async def run(self) -> None:
        """Lets pods and users act, and then all pods that can be bound be bound."""
        self._server.prepare()
        controlling = self._tasks.create_task(self._server.control())
        pods = [self._tasks.create_task(self._live(number)) for number in range(PODS)]
        for _ in range(ACTIONS):
            await asyncio.sleep(STEP_S * self.rng.choice((0, 1, 2, 5)))
            self._server.act()
            self.limits.change()
            self.attached.on_tick()
            self.problems += _reach_problems(self._cache, self._view)
            if self.problems:
                break
        self._server.is_passive = True
        _, late = await asyncio.wait(pods, timeout=QUIET_S)
        await asyncio.sleep(SETTLED_S)
        controlling.cancel()
        for task in late:
            task.cancel()
        if not self.problems:
            self._check_end(len(late))

    def _check_end(self, n_late: int) -> None:
        if n_late:
            self.problems.append(f"{n_late} attempts do not end")
        volumes, claims = self._cache.storage.assumed()
        self.problems += [f"{name} is still assumed" for name in (*volumes, *claims)]
        self.problems += [*audit(self._cache), *self._leftovers.problems()]

    # -- pods -------------------------------------------------------------------------------------

    async def _live(self, number: int) -> None:
        """Creates pods, each with one to three claims, and tries each until it is bound."""
        rng, count = self.rng, 0
        while not self._server.is_passive and not self.problems:
            await asyncio.sleep(STEP_S * rng.randrange(8))
            count += 1
            pod = self._new_pod(f"pod-{number}-{count}")
            for _ in range(rng.randrange(2, 9)):
                if await self._attempt(pod) or self.problems:
                    break
            self._cache_forgets(pod)
            for name in claims_in(pod):
                if rng.random() < 0.6:
                    self._server.remove(CLAIM, name)

    def _new_pod(self, name: str) -> Pod:
        rng = self.rng
        names = []
        for index in range(rng.choice((1, 1, 2, 3)) + (self._server.competing is not None)):
            claims = [claim for kind, claim in self._server.stored if kind == CLAIM]
            if claims and rng.random() < 0.25:
                names.append(rng.choice(sorted(claims)))
                continue
            names.append(f"{name}-{index}")
            class_name = self._server.class_of_claim(rng.choice((*CLASSES, "static", "made")))
            if class_name != "zonal" or rng.random() < 0.9:
                self._server.add_claim(names[-1], class_name)
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
            for claim in dict.fromkeys(names)
        ]
        return make_pod(name, uid=name, spec={"volumes": volumes})

    def _cache_forgets(self, pod: Pod) -> None:
        if self._cache.pods.get(pod.metadata.uid) is not None:
            self._cache.remove_pod(pod.metadata.uid)

    async def _attempt(self, pod: Pod) -> bool:
        """Tries a pod; returns whether it is bound. A rejected one waits for an event."""
        rng, uid = self.rng, pod.metadata.uid
        async with self._one_attempt:
            chosen = await self._choose(pod)
        if chosen is None:
            await self._wait(pod)
            return False
        cycle, node_name = chosen
        info = PodInfo(pod)
        with self._cache.assume(info, node_name) as reservation:
            reservation.keep()
        binding = self._tasks.create_task(self._bind(cycle, info, node_name))
        patience_s = rng.choice((3.0, 3.0, 100.0, 100.0, 100.0))
        done, _ = await asyncio.wait([binding], timeout=patience_s)
        if not done:
            self.paths["cancelled"] += 1
            binding.cancel()
            await asyncio.wait([binding])
        is_success = bool(done) and binding.result()
        if is_success:
            self.paths["bound"] += 1
            self._cache.put_pod(info.on_node(node_name).pod)
            return True
        self._plugin.unreserve(cycle, node_name)
        self._plugin.unreserve(cycle, node_name)
        self._cache.forget(uid)
        self.attached.released(pod.metadata.uid)
        await asyncio.sleep(STEP_S * rng.randrange(4))
        return False

    async def _wait(self, pod: Pod) -> None:
        """Waits until an event queues a rejected pod, or it is flushed."""
        uid = pod.metadata.uid
        self._rejected[uid], self._woken[uid] = pod, asyncio.Event()
        self.paths["rejected"] += 1
        try:
            async with asyncio.timeout(60.0):
                await self._woken[uid].wait()
            await asyncio.sleep(STEP_S * self.rng.randrange(6))
        except TimeoutError:
            self.paths["flushed"] += 1
        finally:
            del self._rejected[uid], self._woken[uid]

    async def _choose(self, pod: Pod) -> tuple[Any, str] | None:
        """Filters the nodes and reserves volumes; returns the cycle and a feasible node."""
        self._overlay()
        view, harness = self._view, self._harness
        self.limits.compare(pod)
        begun = harness.begin(pod)
        expected = view.problem(pod)
        if (begun.refusal is not None) != bool(expected) or (
            begun.refusal is not None and begun.refusal.reasons != (expected,)
        ):
            self.problems.append(f"{pod.metadata.name}: {begun.refusal}, not {expected!r}")
            return None
        if expected:
            return None
        claims = view.claims(pod)
        plans = {node.metadata.name: view.plan(claims, node) for node in view.all("Node")}
        feasible = [name for name, plan in plans.items() if not plan.reasons]
        self._filter(pod, begun, begun.view, plans)
        if not feasible:
            return None
        if self.rng.random() < 0.3:
            # Preemption, or an extender: some of the nodes are filtered once more.
            rows = [row for row in begun.view.rows.tolist() if self.rng.random() < 0.5]
            part = NodeView(begun.cycle.snapshot, sorted_rows(rows))
            self._filter(pod, begun, part, plans)
        scored = NodeView(begun.cycle.snapshot, _rows_of(begun.view, feasible))
        self.problems += self._scores.compare(self._plugin, begun.cycle, scored, plans, view)
        if self.rng.random() < 0.3:
            await self._call_extender()
        node_name = self.rng.choice(feasible)
        return self._reserve(pod, begun.cycle, node_name, claims)

    def _filter(self, pod: Pod, begun: Any, nodes: NodeView, plans: dict[str, Plan]) -> None:
        statuses = filter_one(self._harness.framework, begun.cycle, self._plugin, nodes).to_list()
        for name, status in zip(nodes.names, statuses, strict=True):
            reasons = status.reasons if status is not None else ()
            if reasons != plans[name].reasons:
                self.problems.append(
                    f"{pod.metadata.name} on {name}: {reasons}, not {plans[name].reasons}"
                )

    def _reserve(self, pod: Pod, cycle: Any, node_name: str, claims: list[Any]) -> tuple[Any, str]:
        self._overlay()
        before = dict(self._view.assumed)
        node = self._view.objects["Node", node_name]
        plan = self._view.plan(claims, node)
        stored = {(VOLUME, name): self._view.get(VOLUME, name) for name in plan.bindings.values()}
        expected = _expected(plan, node_name, claims, stored)
        self._plugin.reserve(cycle, node_name)
        self._overlay()
        for key, obj in self._view.assumed.items():
            if key not in expected and obj is not before.get(key):
                self.problems.append(f"{pod.metadata.name} assumes {key}, not {sorted(expected)}")
        for key, change in expected.items():
            assumed = self._view.assumed.get(key)
            if assumed is None or _change_of(key[0], assumed) != change:
                self.problems.append(f"{pod.metadata.name} does not assume {key} with {change}")
        new = {key: obj for key, obj in self._view.assumed.items() if obj is not before.get(key)}
        self.attached.reserved(
            pod.metadata.uid,
            {
                (kind, f"default/{name}" if kind == CLAIM else name): obj
                for (kind, name), obj in new.items()
            },
        )
        self._versions[pod.metadata.uid] = {
            key: obj.metadata.resource_version
            for key, obj in (*stored.items(), *(((CLAIM, it.metadata.name), it) for it in claims))
        }
        self._patches[pod.metadata.uid] = _patches(plan, node_name, claims, stored)
        self._writes[pod.metadata.uid] = [
            *((VOLUME, name) for name in plan.bindings.values()),
            *((CLAIM, name) for name in plan.provisions),
        ]
        self.paths["reserved"] += 1
        self._end_buffering()
        return cycle, node_name

    async def _bind(self, cycle: Any, info: PodInfo, node_name: str) -> bool:
        """Runs PreBind; the end of its wait is checked by ``attached``."""
        task: Any = asyncio.current_task()
        task.set_name(info.uid)
        await asyncio.sleep(STEP_S * self.rng.randrange(4))
        if self._plugin.pre_bind_pre_flight(cycle, node_name) is not None:
            return not self._writes[info.uid]
        try:
            await self._plugin.pre_bind(cycle, node_name)
        except SchedulerError as error:
            self.paths[type(error).__name__] += 1
            if isinstance(error, PluginError) and not isinstance(error.__cause__, SchedulerError):
                # It would count as an exception of the plugin, and quarantine the pod.
                self.problems.append(f"{info.key} fails with {error.__cause__!r}")
            return False
        if left := self._writes[info.uid]:
            self.problems.append(f"{info.key} goes on without a write of {left}")
        return True

    async def _patch(self, kind: str, name: str, patch: Any, *, namespace: str) -> Any:
        """Checks that a write is the next of its pod, and makes it."""
        task: Any = asyncio.current_task()
        uid = task.get_name()
        left = self._writes.get(uid, [])
        if not left or left[0] != (kind, name):
            self.problems.append(f"{uid} writes {kind} {name}, not {left}")
        version, due = self._versions[uid].get((kind, name)), self._patches[uid].get((kind, name))
        self.problems += _problems_with(patch, f"{uid} writes {kind} {name}", version, due)
        stored = await super()._patch(kind, name, patch, namespace=namespace)
        if left:
            left.pop(0)
        return stored


def _reach_problems(cache: Cache, view: View) -> Iterator[str]:
    """Yields the volumes that reach other nodes, before anything else reads which they reach."""
    nodes = view.all("Node")
    rows = [cache.nodes.live_row(node.metadata.name) for node in nodes]
    for volume in view.all(VOLUME) if nodes else ():
        affinity = volume.spec.node_affinity
        topology = topology_of_affinity(affinity.required if affinity is not None else None)
        reached = cache.storage.reaches.reachable_rows(topology, np.array(rows)).tolist()
        expected = [reaches(volume, node) for node in nodes]
        if reached != expected:
            yield f"{volume.metadata.name} reaches {reached} of the nodes, not {expected}"


def _expected(
    plan: Plan, node_name: str, claims: list[Any], before: Mapping[Any, Any]
) -> dict[Any, Any]:
    """Returns the changes that Reserve assumes: what users have bound is not marked."""
    by_name = {claim.metadata.name: claim for claim in claims}
    expected: dict[Any, Any] = {}
    for claim_name, name in plan.bindings.items():
        uid, volume = by_name[claim_name].metadata.uid, before[VOLUME, name]
        owner = volume.spec.claim_ref
        if owner is None or owner.uid != uid:
            is_marked = owner is None or MARK in volume.metadata.annotations
            expected[VOLUME, name] = uid, is_marked
    for claim_name in plan.provisions:
        expected[CLAIM, claim_name] = node_name
    return expected


def _patches(
    plan: Plan, node_name: str, claims: list[Any], before: Mapping[Any, Any]
) -> dict[Any, Any]:
    """Returns what PreBind has to write of each object: the whole claimRef, and annotations.

    Source: component-helpers v0.36.3, storage/volume/pv_helpers.go (GetBindVolumeToClaim).
    """
    by_name = {claim.metadata.name: claim.metadata for claim in claims}
    patches: dict[Any, Any] = {}
    for claim_name, name in plan.bindings.items():
        own, volume = by_name[claim_name], before[VOLUME, name]
        owner, marks = volume.spec.claim_ref, volume.metadata.annotations
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": own.namespace,
            "name": own.name,
            "uid": own.uid,
            "resourceVersion": own.resource_version,
        }
        if owner is not None and owner.uid == own.uid:
            reference = to_builtins(owner)
        mark = marks.get(MARK, "yes" if owner is None else None)
        annotations = {} if mark is None else {MARK: mark}
        patches[VOLUME, name] = _content_of(
            {"metadata": {"annotations": annotations}, "spec": {"claimRef": reference}}
        )
    for claim_name in plan.provisions:
        patch = {"metadata": {"annotations": {SELECTED_NODE: node_name}}}
        patches[CLAIM, claim_name] = _content_of(patch)
    return patches


def _problems_with(patch: Any, what: str, version: str | None, due: Any) -> Iterator[str]:
    """Yields what is wrong with a patch: the version that it names, and what it changes."""
    if (written := patch["metadata"].get("resourceVersion")) != version:
        yield f"{what} in version {written}, not {version}"
    if (content := _content_of(patch)) != due:
        yield f"{what} with {content}, not {due}"


def _content_of(patch: Any) -> Any:
    """Returns a patch without the version that it names, and without empty values."""
    if not isinstance(patch, dict):
        return patch
    content = {name: _content_of(it) for name, it in patch.items()}
    metadata = content.get("metadata", {})
    metadata.pop("resourceVersion", None)
    return {name: it for name, it in content.items() if it not in ("", None, {})}


def sorted_rows(rows: list[int]) -> Any:
    """Returns rows as an array."""
    return np.array(sorted(rows), dtype=np.intp)


def _rows_of(view: NodeView, names: list[str]) -> Any:
    pairs = zip(view.names, view.rows.tolist(), strict=True)
    return sorted_rows([row for name, row in pairs if name in names])


def _change_of(kind: str, obj: Any) -> Any:
    """Returns the claim of an assumed volume, and its mark; or the node of an assumed claim."""
    if kind == VOLUME:
        owner = obj.spec.claim_ref
        return owner.uid if owner is not None else "", MARK in obj.metadata.annotations
    return obj.metadata.annotations.get(SELECTED_NODE, "")


def run_volumes(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a result differs from the model.
    """
    competing = seeded_random(seed + COMPETING_SEED) if seed % 5 == COMPETING else None
    with pytest.MonkeyPatch.context() as patch:
        # Nodes are searched together then, as in a large cluster.
        if competing is not None:
            set_limit(patch, first_match, "_FEW_ROWS", competing.choice((0, 1, 3)))
        check_run_of_tasks(VolumesRun, seed)
