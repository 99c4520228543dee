"""Details of the pods and nodes of a ``state`` run, and what the tables of the cache say of them.

The pods that are drawn there are like those of few templates. Here they get what differs between
pods of a template: times to the second, conditions, a resize in progress, addresses of host ports,
many extended resources. The cache shares equal parts of pods, and each stored pod must be the one
that was put, except for what scheduling does not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

from mooring.clock import Rng
from mooring.errors import InvariantViolation
from mooring.objects.node import Node
from mooring.objects.pod import ContainerPort, Pod, Volume
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.state.columns import labels
from mooring.state.columns.change_log import ChangeLog
from mooring.state.tables import affinity_terms, counters, shared_parts
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import NOT_STARTED, PodTable
from mooring.testing import make_pod
from tests.faults.parts.limits import set_limit

#: Several of the same minute.
TIMES: Final = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:01Z",
    "2026-01-01T00:00:59Z",
    "2026-01-01T00:01:00Z",
    "2026-01-01T01:00:00+01:00",
)
ADDRESSES: Final = ("", "10.0.0.1", "10.0.0.2", "0.0.0.0")
#: More than a new table of nodes has lines for.
RESOURCES: Final = tuple(f"example.com/r{number}" for number in range(12))
#: Of the containers so many request so much that sums leave int64.
HUGE_SHARE: Final = 0.03
MODULES: Final = (
    (affinity_terms, {"KEYS_MAX": 1, "TEMPLATES_CACHED": 1, "ENTRIES_MIN": 1}),
    (counters, {"COUNTERS_MIN": 1, "MEMORY_LIMIT_BYTES": 1, "FEW_CONDITIONS": 0}),
    (labels, {"COLUMN_LIMIT": 1}),
    (shared_parts, {"POOL_SIZE": 1, "RECENT_SPECS_MAX": 1}),
)
TABLES: Final = (NodeTable, PodTable, ChangeLog)

#: UID -> pod, the node where it counts, and whether it is assumed.
Pods = Mapping[str, tuple[Pod, str, bool]]


@contextmanager
def small_tables(rng: Rng) -> Iterator[None]:
    """Makes tables and limits as small as possible in half of the runs, so that they grow."""
    with pytest.MonkeyPatch.context() as patch:
        is_small = rng.random() < 0.5
        for module, limits in MODULES if is_small else ():
            for name, least in limits.items():
                set_limit(patch, module, name, least + rng.choice((0, 1, 3)))
        for table in TABLES if is_small else ():
            defaults = (rng.choice((1, 2, 4)),)
            patch.setattr(vars(table)["__init__"], "__defaults__", defaults)
        yield


class Details:
    """Draws the details, apart from what a run draws."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def node(self, node: Node) -> Node:
        """Returns a node with some of many extended resources."""
        rng = self._rng
        amounts = {name: rng.choice(("0", "1", "4")) for name in RESOURCES if rng.random() < 0.2}
        allocatable = {**node.status.allocatable, **amounts}
        return replace(node, status=replace(node.status, allocatable=allocatable))

    def pod(self, pod: Pod) -> Pod:
        """Returns a pod with details."""
        rng, spec = self._rng, pod.spec
        containers = tuple(map(self._container, spec.containers))
        bare = tuple(Volume(name=name) for name in ("config", "token") if rng.random() < 0.3)
        metadata = replace(
            pod.metadata,
            creation_timestamp=rng.choice((None, *TIMES)),
            annotations={"note": rng.choice("ab")} if rng.random() < 0.3 else {},
        )
        status = make_pod("x", status=self._status(containers)).status
        spec = replace(spec, containers=containers, volumes=bare)
        return replace(pod, metadata=metadata, spec=spec, status=status)

    def _container(self, container: Any) -> Any:
        rng = self._rng
        ports = tuple(self._port(port) for port in container.ports)
        requests = dict(container.resources.requests)
        if rng.random() < 0.2:
            requests |= {rng.choice(RESOURCES): rng.choice("12")}
        if rng.random() < HUGE_SHARE:
            requests["memory"] = rng.choice(("7Ei", "4Ei"))
        resources = replace(container.resources, requests=requests)
        return replace(container, ports=ports, resources=resources)

    def _port(self, port: ContainerPort) -> ContainerPort:
        rng = self._rng
        protocol = rng.choice(("TCP", "TCP", "UDP"))
        return replace(port, host_ip=rng.choice(ADDRESSES), protocol=protocol)

    def _status(self, containers: tuple[Any, ...]) -> dict[str, Any]:
        """Draws the time of start, conditions, and amounts that a resize has not reached yet."""
        rng = self._rng
        status: dict[str, Any] = {"phase": rng.choice(("Pending", "Running"))}
        if rng.random() < 0.7:
            status["startTime"] = rng.choice(TIMES)
        status["conditions"] = [
            {"type": kind, "status": rng.choice(("True", "False")), "lastTransitionTime": TIMES[0]}
            for kind in ("Ready", "PodScheduled")
            if rng.random() < 0.3
        ]
        if rng.random() < 0.2:
            amounts = {"cpu": rng.choice(("50m", "2"))}
            status["containerStatuses"] = [
                {"name": it.name, "allocatedResources": amounts, "resources": {"requests": amounts}}
                for it in containers
            ]
        return status


class NodeOrder:
    """The pods of each node in their order: a removed one is replaced by the last."""

    def __init__(self) -> None:
        self.uids: dict[str, list[str]] = {}

    def enter(self, uid: str, node: str) -> None:
        """Adds a pod to a node."""
        self.uids.setdefault(node, []).append(uid)

    def leave(self, uid: str) -> None:
        """Removes a pod from its node."""
        for uids in self.uids.values():
            if uid in uids:
                last = uids.pop()
                if last != uid:
                    uids[uids.index(uid)] = last

    def move(self, uid: str, node: str) -> None:
        """Replaces a pod by a newer version."""
        self.leave(uid)
        self.enter(uid, node)


class StateChecks:
    """Compares what the tables of a cache say with the pods.

    Args:
        cache: The cache.
        rng: Draws what is compared.
    """

    def __init__(self, cache: Cache, rng: Rng) -> None:
        self._cache = cache
        self._rng = rng
        #: UID -> ids of the pod that was put, and of the stored one, once they are compared.
        self._compared: dict[str, tuple[int, int]] = {}
        self._snapshot = cache.snapshot()

    def problems(self, pods: Pods, order: NodeOrder) -> Iterator[str]:
        """Yields what differs."""
        rng = self._rng
        yield from self._contents(pods)
        if rng.random() < 0.5:
            yield from self._order(order)
        if rng.random() < 0.15:
            yield from self._label_classes(pods)
        if rng.random() < 0.05:
            yield from self._misused(pods)
        snapshot, generation = self._cache.snapshot(), self._cache.nodes.log.generation
        if snapshot.generation != generation or not snapshot.is_current:
            yield f"a new snapshot is of {snapshot.generation}, not {generation}"
        if self._snapshot.is_current != (self._snapshot.generation == generation):
            yield "an old snapshot is current"
        self._snapshot = snapshot

    def _contents(self, pods: Pods) -> Iterator[str]:
        """Compares the stored pods with those that were put, and what is derived from them."""
        table = self._cache.pods
        for uid, (pod, node, _) in pods.items():
            placed = table.get(uid)
            if placed is None or self._compared.get(uid) == (id(pod), id(placed.info.pod)):
                continue
            self._compared[uid] = id(pod), id(placed.info.pod)
            stored = placed.info.pod
            if _essence(stored) != _essence(pod) or stored.spec.node_name != node:
                yield f"{uid} is stored as {stored}, not {pod}"
            if placed.info.derived() != PodInfo(pod).derived():
                yield f"{uid}: {placed.info.derived()} are derived, not {PodInfo(pod).derived()}"
            started = int(table.start_s[placed.slot])
            if started != _started_s(pod):
                yield f"{uid} has started at {started}, not at {pod.status.start_time}"

    def _order(self, order: NodeOrder) -> Iterator[str]:
        """Compares the pods of each node, and their slots."""
        cache = self._cache
        named = {name: uids for name, uids in order.uids.items() if uids}
        names = [name for name in [*named, "unknown"] if self._rng.random() < 0.5]
        rows = [cache.nodes.row(name) for name in names]
        for name, row in zip(names, rows, strict=True):
            actual = [placed.info.uid for placed in cache.pods.on_row(row)]
            if actual != named.get(name, []):
                yield f"on {name} are {actual}, not {named.get(name, [])}"
        slots, counts = cache.pods.slots_on(np.array(rows, dtype=np.intp))
        uids = [cache.pods.at(slot).uid for slot in slots.tolist()]
        expected = [named.get(name, []) for name in names]
        if uids != [*chain.from_iterable(expected)] or counts.tolist() != list(map(len, expected)):
            yield f"the slots on {names} are of {uids}, not {expected}"

    def _label_classes(self, pods: Pods) -> Iterator[str]:
        """Compares the classes of labels, sums of weights of them, and the lowest priority."""
        cache, rng = self._cache, self._rng
        expected = Counter(
            (pod.metadata.namespace, frozenset(pod.metadata.labels.items()), _ends(pod))
            for pod, _, _ in pods.values()
        )
        classes = dict(cache.counters.label_classes())
        if Counter(map(tuple, classes.values())).keys() != expected.keys():
            yield f"the classes of labels are {classes}, not {expected}"
        weights = {index: rng.randrange(1, 9) for index in classes if rng.random() < 0.7}
        sums: Counter[int] = Counter()
        for placed in cache.pods:
            (index,) = cache.counters.label_class_ids(np.array([placed.slot])).tolist()
            metadata = placed.info.metadata
            labels_of = frozenset(metadata.labels.items())
            if classes[index][:2] != (metadata.namespace, labels_of):
                yield f"{placed.info.key} is of class {classes[index]}"
            sums[placed.row] += weights.get(index, 0)
        actual = cache.counters.weighted_sums(weights).tolist()
        if actual != [sums[row] for row in range(cache.nodes.capacity)]:
            yield f"the sums are {actual}, not {sums}"
        priority = rng.choice((-6, -5, 0, 1, 10, 11))
        has_lower = any((pod.spec.priority or 0) < priority for pod, _, _ in pods.values())
        if cache.pods.has_lower_priority(priority) != has_lower:
            yield f"a priority below {priority}: {not has_lower}"
        for sort, index_of in cache.terms.indexes():
            if any(len(it.rows.column()) != cache.nodes.capacity for it in index_of):
                yield f"a column of a term of {sort} has another length than the nodes"

    def _misused(self, pods: Pods) -> Iterator[str]:
        """Makes calls that no caller may make, and breaks sums, which are summed up again."""
        cache, rng = self._cache, self._rng
        if not pods:
            return
        uid = rng.choice(list(pods))
        pod, node, is_assumed = pods[uid]
        info = PodInfo(pod)
        elsewhere = replace(pod, spec=replace(pod.spec, node_name=f"not-{node}"))
        pending = replace(pod, spec=replace(pod.spec, node_name=""))
        wrong: list[Callable[[], Any]] = [
            lambda: cache.assume(info, node),
            lambda: cache.put_pod(pending),
            lambda: cache.confirm("unknown"),
        ]
        if not is_assumed:
            wrong += [
                lambda: cache.confirm(uid),
                lambda: cache.forget(uid),
                lambda: cache.put_pod(elsewhere),
            ]
        number = rng.randrange(len(wrong))
        try:
            wrong[number]()
        except InvariantViolation:
            pass
        else:
            yield f"wrong call {number} of {uid} is accepted"
        cache.forget("unknown")
        row = cache.nodes.row(node)
        cache.nodes._requested[rng.randrange(3), row] += 1
        cache.nodes._pod_count[row] += 1
        cache.nodes._nonzero[rng.randrange(2), row] += 5
        cache.recount(node)
        cache.recount("unknown")
        yield from (f"after a repair {problem}" for problem in audit(cache))


def _essence(pod: Pod) -> Pod:
    """Returns a pod without what no decision reads: bare volumes, and times of conditions."""
    volumes = tuple(it for it in pod.spec.volumes if it != Volume(name=it.name))
    conditions = tuple(
        replace(it, last_probe_time=None, last_transition_time=None) for it in pod.status.conditions
    )
    spec = replace(pod.spec, volumes=volumes)
    return replace(pod, spec=spec, status=replace(pod.status, conditions=conditions))


def _started_s(pod: Pod) -> int:
    text = pod.status.start_time
    return int(datetime.fromisoformat(text).timestamp()) if text else NOT_STARTED


def _ends(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
