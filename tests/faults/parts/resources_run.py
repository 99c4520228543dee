"""NodeResourcesFit and NodeResourcesBalancedAllocation on all nodes, in columns and node by node.

Nodes have up to twelve resources, at times 24, some of none, and some amounts near the largest;
pods request many of them or none. Pods are placed, also more than a node has room for. One of them
stands for a class of devices at times: nodes without it have devices of their own instead, some of
them allocated. Strategies, weights and the balanced resources are drawn. The status of each node by
both forms of the filter, and each score by both forms, are those of plain numbers, as Go computes
them: 64 bits, and toward zero.

Source: pkg/scheduler/framework/plugins/noderesources (fit.go, resource_allocation.go,
least_allocated.go, most_allocated.go, requested_to_capacity_ratio.go, balanced_allocation.go).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final, NamedTuple

from mooring.clock import seeded_random
from mooring.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.errors import PluginError
from mooring.framework import Attempt, Diagnosis, NodeInfo
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.faults.parts.attempts import totals_of
from tests.faults.parts.scores_model import on_line, spread_of

STEPS: Final = 24
NODES: Final = ("a", "b", "c", "d")
CLASS: Final = "example.com/gpu"
OTHER_CLASS: Final = "example.com/tpu"
SCALARS: Final = (CLASS, OTHER_CLASS, *(f"vendor.io/{name}" for name in "hgfedcb"))
#: In such seeds, modulo seven, there are many resources and nodes, so that many combinations of
#: reasons occur.
MANY: Final = 3
MANY_SCALARS: Final = (*SCALARS, *(f"vendor.io/{number}" for number in range(12)))
MANY_NODES: Final = (*NODES, *(f"node-{number}" for number in range(20)))
PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
#: Resource -> what pods without a request of it count for in a score: millicores, and bytes.
DEFAULTS: Final = {"cpu": 100, "memory": 200 << 20}
UNITS: Final = {"cpu": "m"}
SIZES: Final = {"cpu": (0, 500, 1000), "memory": (0, 1 << 30, 3 << 30, 1 << 60, 3 << 60)}
REQUESTS: Final = {"cpu": (0, 100, 300), "memory": (0, 100 << 20, 1 << 30)}
SMALL_SIZES: Final = (0, 1, 2, 5)
SMALL_REQUESTS: Final = (0, 1, 1, 2, 4)
SHAPES: Final = (((0, 0), (100, 10)), ((0, 10), (50, 3), (100, 0)), ((20, 1), (70, 9)), ((50, 4),))
#: In such seeds, modulo five, scores are small, and many of them are 0 or 1.
FLAT: Final = 2
FLAT_SHAPES: Final = (((0, 0), (100, 1)), ((30, 0), (60, 1), (100, 0)), ((0, 1), (90, 0)))
#: In such seeds, modulo six, Fit scores cpu and memory, in one order or the other.
PLAIN_ONLY: Final = 1
TYPES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
FIT_WEIGHT: Final = 3
BEST: Final = 100
TOO_MANY: Final = "Too many pods"


class Fact(NamedTuple):
    """A resource of a node: what there is of it, and what is used."""

    size: int
    used: int


class ResourcesCluster:
    """The plugins, and a cluster that changes.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        self._seed = seed
        self._count = 0
        count = rng.choice((2, 4, len(SCALARS)))
        self._is_large = seed % 7 == MANY
        self._scalars = MANY_SCALARS if self._is_large else SCALARS[:count]
        self._nodes = MANY_NODES if self._is_large else NODES
        self._names = (*PLAIN, *self._scalars)
        self._weights = self._drawn_weights()
        self._type, self._shape = rng.choice(TYPES), rng.choice(SHAPES)
        if seed % 5 == FLAT:
            self._type, self._shape = "RequestedToCapacityRatio", FLAT_SHAPES[seed % 3]
        #: Each counts once, whatever its weight.
        self._balanced = tuple(rng.sample(self._names, rng.choice((1, 2, 2, 3))))
        self._ignored = frozenset(rng.sample(self._scalars, rng.choice((0, 0, 1))))
        self._ignores_group = rng.random() < 0.2
        self._harness = Harness([], [])
        self._cache = self._harness.cache
        plugins = self._new_plugins()
        self._fit, self._balance = plugins
        self._harness = Harness([], plugins, weights={"NodeResourcesFit": FIT_WEIGHT})
        self._harness.cache = self._cache
        self._sizes: dict[str, dict[str, int]] = {}
        self._room: dict[str, int] = {}
        #: Node -> the requests of its pods, by UID.
        self._placed: dict[str, dict[str, dict[str, int]]] = {name: {} for name in self._nodes}
        #: Resource -> whether it stands for a class; node -> its devices, and those in use.
        self._backed: set[str] = set()
        self._devices: dict[str, Fact] = dict.fromkeys(self._nodes, Fact(0, 0))
        self._kinds = [self._drawn_requests() for _ in range(rng.choice((1, 3)))]
        nodes = self._nodes if self._is_large else NODES[: rng.choice((1, 2, 4))]
        for name in nodes:
            self._put_node(name)

    def _drawn_weights(self) -> dict[str, int]:
        if self._seed % 6 == PLAIN_ONLY:
            return {name: self._rng.choice((1, 2, 5)) for name in self._rng.sample(PLAIN[:2], 2)}
        names = self._rng.sample(self._names, self._rng.choice((1, 2, 3)))
        return {name: self._rng.choice((1, 2, 5)) for name in names}

    def _new_plugins(self) -> list[Any]:
        points = tuple(UtilizationShapePoint(utilization=at, score=it) for at, it in self._shape)
        strategy = ScoringStrategy(
            type=self._type,
            resources=tuple(ResourceSpec(name=it, weight=by) for it, by in self._weights.items()),
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=points),
        )
        args = NodeResourcesFitArgs(
            scoring_strategy=strategy,
            ignored_resources=tuple(self._ignored),
            ignored_resource_groups=("vendor.io",) if self._ignores_group else (),
        )
        balanced = tuple(ResourceSpec(name=name, weight=1) for name in self._balanced)
        balance = NodeResourcesBalancedAllocationArgs(resources=balanced)
        handle: Any = self._harness.handle
        return [NodeResourcesFit(args, handle), NodeResourcesBalancedAllocation(balance, handle)]

    # -- changes ----------------------------------------------------------------------------------

    def _amounts(self, plain: dict[str, Any], small: tuple[int, ...], share: float) -> Any:
        rng = self._rng
        return {
            name: rng.choice(plain.get(name, small)) for name in self._names if rng.random() < share
        }

    def _drawn_requests(self) -> dict[str, int]:
        share = self._rng.choice((0.6, 1.0) if self._is_large else (0.0, 0.4, 0.4, 1.0))
        requests: dict[str, int] = self._amounts(REQUESTS, SMALL_REQUESTS, share)
        return requests

    def _put_node(self, name: str) -> None:
        self._sizes[name] = self._amounts(SIZES, SMALL_SIZES, 0.85)
        self._room[name] = self._rng.choice((1, 2, 5, 20))
        allocatable = {"cpu": "0", "memory": "0", **_written(self._sizes[name])}
        node = make_node(name, allocatable={**allocatable, "pods": str(self._room[name])})
        self._cache.put_node(node)

    def _change_node(self) -> None:
        self._put_node(self._rng.choice(self._nodes))

    def _pod(self, requests: dict[str, int], node: str = "") -> Any:
        self._count += 1
        name = f"pod-{self._count}"
        return make_pod(name, uid=name, requests=_written(requests), node=node)

    def _place(self) -> None:
        """Places a pod on a node, whether there is room for it or not."""
        node = self._rng.choice(list(self._sizes))
        requests = self._rng.choice((*self._kinds, self._drawn_requests()))
        pod = self._pod(requests, node)
        self._placed[node][pod.metadata.uid] = requests
        self._cache.put_pod(pod)

    def _remove(self) -> None:
        node = self._rng.choice(self._nodes)
        if self._placed[node]:
            uid = self._rng.choice(list(self._placed[node]))
            del self._placed[node][uid]
            self._cache.remove_pod(uid)

    def _change_class(self) -> None:
        """Lets a resource stand for a class of devices, or no more."""
        name = self._rng.choice(("gpu", "gpu", "tpu"))
        resource = f"example.com/{name}"
        if resource in self._backed:
            self._backed.remove(resource)
            self._cache.remove_object("DeviceClass", name)
        else:
            self._backed.add(resource)
            expression = f'device.attributes["d"].kind == "{name}"'
            spec = {
                "extendedResourceName": resource,
                "selectors": [{"cel": {"expression": expression}}],
            }
            obj = {"metadata": {"name": name}, "spec": spec}
            self._cache.put_object("DeviceClass", convert(obj, "DeviceClass"))

    def _publish(self) -> None:
        """Publishes the devices of a node, which are all of the first class, and allocates some."""
        node = self._rng.choice(self._nodes)
        total = self._rng.choice((0, 1, 3))
        used = self._rng.randint(0, total)
        self._devices[node] = Fact(total, used)
        kind = {"kind": {"string": "gpu"}}
        spec = {
            "driver": "d",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"{it}", "attributes": kind} for it in range(total)],
        }
        obj: dict[str, Any] = {"metadata": {"name": node}, "spec": spec}
        self._cache.put_object("ResourceSlice", convert(obj, "ResourceSlice"))
        results = [
            {"request": "r", "driver": "d", "pool": node, "device": f"{it}"} for it in range(used)
        ]
        obj = {
            "metadata": {"name": node, "namespace": "default", "uid": f"claim-{node}"},
            "spec": {"devices": {"requests": []}},
            "status": {"allocation": {"devices": {"results": results}}} if used else {},
        }
        self._cache.put_object("ResourceClaim", convert(obj, "ResourceClaim"))


class ResourcesRun(ResourcesCluster):
    """One run."""

    def run(self) -> None:
        """Makes all changes and attempts, until one differs."""
        changes = (
            *(self._change_node,) * 2, *(self._place,) * 3, self._remove, self._change_class,
            *(self._publish,) * 2,
        )  # fmt: skip
        for _ in range(STEPS):
            for _ in range(self._rng.choice((0, 1, 1, 2))):
                self._rng.choice(changes)()
            is_new = self._rng.random() < 0.4
            requests = self._drawn_requests() if is_new else self._rng.choice(self._kinds)
            self._compare(requests)
            if self.problems:
                return

    # -- attempts ---------------------------------------------------------------------------------

    def _compare(self, requests: dict[str, int]) -> None:
        """Compares all nodes for a pod that is not placed."""
        pod, harness = self._pod(requests), self._harness
        cycle, view = harness.open(pod)
        fits = {name: self._status(name, requests) for name in view.names}
        statuses = harness.statuses(pod, self._fit)
        self._note("Filter", requests, {name: _plain(it) for name, it in statuses.items()}, fits)
        infos = list(view)
        one_by_one = {it.name: _plain(self._fit.filter_node(cycle, it)) for it in infos}
        self._note("filter_node", requests, one_by_one, fits)
        scores = {name: self._fit_score(name, requests) for name in view.names}
        self._note("Fit", requests, harness.raw_scores(pod, self._fit), scores)
        self._note("score_node", requests, self._by_node(self._fit, cycle, infos), scores)
        balance = {name: self._balance_score(name, requests) for name in view.names}
        balanced = harness.raw_scores_in(cycle, view, self._balance)
        is_skipped = not any(requests.get(name, 0) for name in self._balanced)
        self._note("Balance", requests, balanced, None if is_skipped else balance)
        if not is_skipped:
            one_by_one = self._by_node(self._balance, cycle, infos)
            self._note("score_node of balance", requests, one_by_one, balance)
            # A profile may disable its PreScore.
            unprepared = harness.framework.new_cycle(PodInfo(pod), self._cache.snapshot())
            one_by_one = self._by_node(self._balance, unprepared, infos)
            self._note("score without pre_score", requests, one_by_one, balance)
        self._check_decision(pod, requests, fits, (scores, None if is_skipped else balance))

    def _check_decision(
        self,
        pod: Any,
        requests: dict[str, int],
        fits: dict[str, Any],
        scores: tuple[dict[str, int], dict[str, int] | None],
    ) -> None:
        """Decides a pod with cached results; another one with the same requests shares them."""
        snapshot, framework = self._cache.snapshot(), self._harness.framework
        attempt = Attempt(snapshot)
        fitting = [name for name, status in fits.items() if status is None]
        is_invalid = any(scores[0][name] not in range(BEST + 1) for name in fitting)
        try:
            result = schedule_pod(framework, framework.new_cycle(PodInfo(pod), snapshot), attempt)
        except PluginError as error:
            self.paths["invalid score"] += 1
            if not is_invalid or len(fitting) < 2:
                self.problems.append(f"{requests}: {error}")
            return
        if isinstance(result, Diagnosis):
            statuses = {name: _plain(result.status_of(name)) for name in fits}
            self._note("statuses", requests, statuses, fits)
        elif result.node_name not in fitting:
            self.problems.append(f"{requests} gets {result.node_name}, not of {fitting}")
        elif len(fitting) > 1:
            of_fit, of_balance = scores
            expected = {
                name: of_fit[name] * FIT_WEIGHT + (of_balance[name] if of_balance else 0)
                for name in fitting
            }
            self._note("totals", requests, totals_of(attempt), expected)

    @staticmethod
    def _by_node(plugin: Any, cycle: Any, infos: list[NodeInfo]) -> dict[str, int]:
        return {info.name: plugin.score_node(cycle, info) for info in infos}

    def _note(self, what: str, requests: dict[str, int], actual: Any, expected: Any) -> None:
        self.paths[what] += 1
        if actual != expected:
            self.problems.append(f"{what} for {requests}: {actual}, not {expected}")

    # -- the rules --------------------------------------------------------------------------------

    def _used(self, node: str, resource: str, default: int = 0) -> int:
        placed = self._placed[node].values()
        return sum(_counted(requests, resource, default) for requests in placed)

    def _status(self, node: str, requests: dict[str, int]) -> Any:
        reasons = [TOO_MANY] if len(self._placed[node]) >= self._room[node] else []
        is_hopeless = False
        names = [*PLAIN, *sorted(self._scalars)]
        for name in names:
            amount, size = requests.get(name, 0), self._sizes[node].get(name, 0)
            is_ignored = name in self._ignored or (
                self._ignores_group and name.startswith("vendor.io/")
            )
            is_by_devices = name in self._backed and not size
            if not amount or is_ignored or is_by_devices:
                continue
            if amount > size - self._used(node, name):
                reasons.append(f"Insufficient {name}")
                is_hopeless = is_hopeless or amount > size
        code = "UnschedulableAndUnresolvable" if is_hopeless else "Unschedulable"
        return (code, tuple(reasons)) if reasons else None

    def _facts(
        self, node: str, resource: str, requests: dict[str, int], default: int
    ) -> Fact | None:
        """Returns what counts of a resource for a score; None = it does not."""
        is_scalar = resource not in PLAIN
        if is_scalar and not requests.get(resource, 0):
            return None
        size = self._sizes[node].get(resource, 0)
        if not size and resource in self._backed:
            self.paths["by devices"] += 1
            has_devices = resource == CLASS and self._devices[node].size
            return self._devices[node] if has_devices else None
        return Fact(size, self._used(node, resource, default)) if size else None

    def _fit_score(self, node: str, requests: dict[str, int]) -> int:
        total = weights = 0
        for resource, weight in self._weights.items():
            default = DEFAULTS.get(resource, 0)
            fact = self._facts(node, resource, requests, default)
            if fact is None:
                continue
            requested = fact.used + _counted(requests, resource, default)
            score = self._share(requested, fact.size)
            if self._type != TYPES[2] or score > 0:
                total += score * weight
                weights += weight
        if not weights:
            return 0
        if self._type == TYPES[2]:
            return math.floor(total / weights + 0.5)
        return _over(total, weights)

    def _share(self, requested: int, size: int) -> int:
        if self._type == TYPES[0]:
            return _over(_int64((size - requested) * 100), size) if requested <= size else 0
        if self._type == TYPES[1]:
            return _over(_int64(min(requested, size) * 100), size)
        share = _over(_int64(requested * 100), size) if requested <= size else 100
        return on_line(self._shape, min(max(share, 0), 100))

    def _balance_score(self, node: str, requests: dict[str, int]) -> int:
        without, with_pod = [], []
        for resource in self._balanced:
            fact = self._facts(node, resource, requests, 0)
            if fact is not None:
                amount = requests.get(resource, 0)
                without.append(min(float(fact.used) / float(fact.size), 1.0))
                with_pod.append(min(float(fact.used + amount) / float(fact.size), 1.0))
        scores = [int((1 - spread_of(shares)) * 100) for shares in (with_pod, without)]
        return 50 + _over(50 + scores[0] - scores[1], 2)


def _counted(requests: dict[str, int], resource: str, default: int) -> int:
    """Returns what a pod counts for: with a default if it says nothing of the resource."""
    return requests.get(resource, default)


def _over(part: int, whole: int) -> int:
    """Divides toward zero."""
    return part // whole if part >= 0 else -(-part // whole)


def _int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _written(amounts: dict[str, int]) -> dict[str, str | int]:
    return {name: f"{amount}{UNITS.get(name, '')}" for name, amount in amounts.items()}


def _plain(status: Any) -> Any:
    return None if status is None else (status.code.value, status.reasons)


def run_resources(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status or a score differs from plain numbers.
    """
    run = ResourcesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
