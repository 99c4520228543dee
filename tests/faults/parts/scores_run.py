"""Attempts in a small cluster that changes: the nodes that fit, their totals, and the one selected.

Pods have terms of affinity of every kind, up to sixty in an attempt, with topology keys that one
node, some or no nodes have; they prefer nodes, tolerate taints, and request a device. Nodes change
their labels, sizes and taints. Most attempts repeat a kind of pods, so that scores are cached, and
begin to visit at any node. In half of the runs the use of resources is balanced, too; some nodes
lack one of them. In a third of the runs terms select namespaces by labels, which change. The
answers, and the status of each node if there is none, are those of ``scores_model.py``; the node of
a tie is that of a heap in visiting order.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.config.types import (
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.taint_toleration import TaintToleration
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.faults.parts.attempts import totals_of
from tests.faults.parts.batch_run import GoHeap
from tests.faults.parts.limits import few_cached_results
from tests.faults.parts.scores_model import (
    WEIGHTS,
    Kind,
    MachineModel,
    Rejected,
    ScoresModel,
    Strategy,
    TermModel,
    Terms,
)

STEPS: Final = 30
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
KEYS: Final = (HOST, ZONE, "rack", "room")
NAMESPACES: Final = ("default", "team")
#: No term names it: it is selected by labels alone.
UNNAMED: Final = "lab"
GPU: Final = "example.com/gpu"
TAINTS: Final = ("old", "slow", "noisy")
SHAPES: Final = (((0, 0), (100, 10)), ((0, 10), (50, 3), (100, 0)), ((20, 1), (70, 9)))
LABELS: Final = ((("app", "web"),), (("app", "db"),), (("app", "web"), ("tier", "front")), ())
#: In such seeds, modulo six, there are more kinds than cached results: the entries are reused.
MANY: Final = 5
MANY_KINDS: Final = 10
#: In such seeds, modulo three, terms select namespaces by labels, which change.
NAMESPACED: Final = 1
UNNAMED_SHARE: Final = 0.3
#: The resources that are balanced; none in half of the runs.
BALANCED: Final[tuple[tuple[str, ...], ...]] = (
    (),
    (),
    (),
    ("cpu", "memory"),
    ("cpu", "memory", GPU),
    (GPU, "memory", "cpu"),
)
SIZES: Final = (
    {"cpu": 4000, "memory": 8192, "pods": 20},
    {"cpu": 4000, "memory": 8192, "pods": 20},
    {"cpu": 3000, "memory": 4096, "pods": 4, GPU: 4},
    {"cpu": 8000, "memory": 8192, "pods": 20, GPU: 2},
)


class ScoresRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
        has_many_kinds: Whether there are more kinds of pods than cached results.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        weights = (("cpu", 1), ("memory", rng.choice((1, 3))), *rng.choice(((), ((GPU, 5),))))
        kind = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
        shape = rng.choice(SHAPES) if kind == "RequestedToCapacityRatio" else ()
        hard, ignores = rng.choice((0, 1, 7)), rng.random() < 0.2
        self._more = seeded_random(seed + 1)
        balanced = self._more.choice(BALANCED)
        strategy = Strategy(kind, weights, shape)
        self._model = ScoresModel(strategy, hard, ignores_preferred=ignores, balanced=balanced)
        fit = NodeResourcesFit(
            NodeResourcesFitArgs(scoring_strategy=_strategy(kind, weights, shape))
        )
        affinity = InterPodAffinity(
            InterPodAffinityArgs(
                hard_pod_affinity_weight=hard, ignore_preferred_terms_of_existing_pods=ignores
            )
        )
        plugins: list[Any] = [TaintToleration(), NodeAffinity(), fit, affinity]
        if balanced:
            resources = tuple(ResourceSpec(name=name, weight=1) for name in balanced)
            args = NodeResourcesBalancedAllocationArgs(resources=resources)
            plugins.append(NodeResourcesBalancedAllocation(args))
        #: Of the nodes so many have no cpu, or no memory.
        self._lacking_rate = self._more.choice((0.0, 0.3)) if balanced else 0.0
        self._harness = Harness([], plugins, weights=WEIGHTS)
        self._terms_max = rng.choice((0, 1, 3))
        self._many_rate = rng.choice((0.0, 0.0, 0.3))
        self._changes = rng.choice((0, 1, 4))
        self._label_rate = rng.choice((0.7, 1.0))
        #: In such seeds terms select namespaces by labels.
        self._namespaced = seeded_random(seed + 2) if seed % 3 == NAMESPACED else None
        #: Whether the namespace that no term names has labels: otherwise terms select it with all.
        self._is_labeled = self._namespaced is not None and self._namespaced.random() < 0.5
        for name in (*NAMESPACES, UNNAMED):
            self._put_namespace(name)
        self._count = 0
        for number in range(rng.choice((2, 5, 12))):
            self._put(f"node-{number}", self._new_machine(f"node-{number}"))
        self._kinds = [self._new_kind() for _ in range(rng.choice((2, 4, 8)))]
        self.has_many_kinds = seed % 6 == MANY
        if self.has_many_kinds:
            # Those without terms share cached results with pods of their kind alone.
            self._kinds += [self._new_kind()._replace(terms=Terms()) for _ in range(MANY_KINDS)]

    def run(self) -> None:
        """Makes all attempts, until one differs."""
        for _ in range(STEPS):
            for _ in range(self._rng.randint(0, self._changes)):
                self._change()
            if self._model.nodes:
                self._attempt(self._rng.choice(self._kinds))
            if self.problems:
                return

    # -- the cluster ------------------------------------------------------------------------------

    def _new_machine(self, name: str) -> MachineModel:
        rng = self._rng
        drawn = {HOST: name, ZONE: rng.choice("abc"), "rack": rng.choice(("", "1", "2"))}
        labels = {key: value for key, value in drawn.items() if rng.random() < self._label_rate}
        tainted = tuple(key for key in TAINTS if rng.random() < 0.2)
        size = dict(rng.choice(SIZES))
        if self._more.random() < self._lacking_rate:
            self.paths["node without a resource"] += 1
            size[self._more.choice(("cpu", "memory"))] = 0
        return MachineModel(size, labels, tainted)

    def _new_kind(self) -> Kind:
        rng = self._rng
        requests = {"cpu": rng.choice((0, 300, 700)), "memory": rng.choice((0, 256, 900))}
        if rng.random() < 0.3:
            requests[GPU] = 1
        namespace = rng.choice(NAMESPACES)
        if self._namespaced is not None and self._namespaced.random() < UNNAMED_SHARE:
            namespace = UNNAMED
        return Kind(
            namespace,
            rng.choice(LABELS),
            tuple(requests.items()),
            tuple(key for key in TAINTS if rng.random() < 0.3),
            self._new_terms(),
            tuple(
                (rng.randint(1, 100), rng.choice((ZONE, "rack")), rng.choice("ab12"))
                for _ in range(rng.choice((0, 0, 2)))
            ),
        )

    def _new_terms(self) -> Terms:
        rng, most = self._rng, self._terms_max
        required = [tuple(self._term() for _ in range(rng.randint(0, most) // 2)) for _ in range(2)]
        many = 60 if rng.random() < self._many_rate else 0
        preferred = [
            tuple((rng.randint(1, 100), self._term()) for _ in range(rng.randint(0, most) + more))
            for more in (many, 0)
        ]
        return Terms(required[0], required[1], preferred[0], preferred[1])

    def _term(self) -> TermModel:
        rng = self._rng
        namespaces = rng.choice((None, None, ("team",), NAMESPACES))
        key, labels = rng.choice(KEYS), rng.choice(LABELS[:3])
        selected: tuple[tuple[str, str], ...] | None = None
        if self._namespaced is not None:
            selected = self._namespaced.choice((None, None, (), (("tier", "a"),), (("tier", "b"),)))
        return TermModel(key, labels, namespaces, selected)

    def _put_namespace(self, name: str) -> None:
        """Adds a namespace, or gives it other labels."""
        has_labels = self._namespaced is not None and (name != UNNAMED or self._is_labeled)
        labels = {"tier": self._namespaced.choice("ab")} if self._namespaced and has_labels else {}
        self._model.namespaces[name] = labels
        obj = {"metadata": {"name": name, "labels": labels}}
        self._harness.cache.put_object("Namespace", convert(obj, "Namespace"))

    def _change(self) -> None:
        rng = self._rng
        if self._namespaced is not None and self._namespaced.random() < 0.1:
            self._put_namespace(self._namespaced.choice((*NAMESPACES, UNNAMED)))
        name = f"node-{rng.randrange(12)}"
        node = self._model.nodes.get(name)
        draw = rng.random()
        if node is None:
            if draw < 0.3:
                self._put(name, self._new_machine(name))
        elif draw < 0.4 and node.pods:
            uid = rng.choice(list(node.pods))
            del node.pods[uid]
            self._harness.cache.remove_pod(uid)
        elif draw < 0.7:
            self._place(name, rng.choice(self._kinds))
        elif draw < 0.8:
            new = self._new_machine(name)
            new.pods = node.pods
            self._put(name, new)
        elif draw < 0.85:
            for uid in node.pods:
                self._harness.cache.remove_pod(uid)
            self._harness.cache.remove_node(name)
            del self._model.nodes[name]

    def _put(self, name: str, machine: MachineModel) -> None:
        self._model.nodes[name] = machine
        node = make_node(
            name,
            allocatable=_amounts(machine.size) | {"pods": machine.size["pods"]},
            labels=machine.labels,
            taints=[f"{key}:PreferNoSchedule" for key in machine.tainted],
        )
        if HOST not in machine.labels:
            node = _without_host(node)
        self._harness.cache.put_node(node)

    def _place(self, name: str, kind: Kind) -> None:
        pod = self._pod(kind, node=name)
        self._model.nodes[name].pods[pod.uid] = kind
        self._harness.cache.put_pod(pod.pod)

    def _pod(self, kind: Kind, *, node: str = "") -> PodInfo:
        self._count += 1
        name = f"pod-{self._count}"
        spec: dict[str, Any] = {"affinity": _affinity(kind)}
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in kind.tolerates]
        if node:
            spec["nodeName"] = node
        requests = _amounts({key: amount for key, amount in kind.requests if amount})
        return PodInfo(
            make_pod(
                name,
                namespace=kind.namespace,
                uid=name,
                labels=dict(kind.labels),
                requests=requests,
                spec=spec,
            )
        )

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self, kind: Kind) -> None:
        snapshot, framework = self._harness.cache.snapshot(), self._harness.framework
        listed = [snapshot.nodes.names[row] for row in snapshot.nodes.order.rows()]
        start = self._rng.choice((0, self._rng.randrange(len(listed))))
        attempt, pod = Attempt(snapshot, start), self._pod(kind)
        result = schedule_pod(framework, framework.new_cycle(pod, snapshot), attempt)
        visited = [*listed[start:], *listed[:start]]
        rejected = {name: self._model.rejected(name, kind) for name in visited}
        fitting = [name for name, status in rejected.items() if status is None]
        if not isinstance(result, Placement):
            self.paths["rejected"] += 1
            self._check_rejected(pod, result, rejected)
            return
        self.paths["placed"] += 1
        if result.node_name not in fitting:
            self.problems.append(f"{pod.key} is placed on {result.node_name}, not of {fitting}")
            return
        if len(fitting) > 1:
            self._check_totals(pod, attempt, result.node_name, self._model.totals(fitting, kind))
        if self._rng.random() < 0.7:
            self._place(result.node_name, kind)

    def _check_rejected(
        self, pod: PodInfo, diagnosis: Diagnosis, expected: dict[str, Rejected | None]
    ) -> None:
        """Compares the status of each node, the reasons, and the plugins."""
        for name, rejected in expected.items():
            status = diagnosis.status_of(name)
            plain = status and Rejected(status.code.value, status.reasons, status.plugin)
            if plain != rejected:
                self.problems.append(f"{pod.key}: {name} is {plain}, not {rejected}")
        rejections = [it for it in expected.values() if it is not None]
        reasons = Counter(reason for it in rejections for reason in it.reasons)
        plugins = {it.plugin for it in rejections}
        if (diagnosis.reasons, diagnosis.unschedulable_plugins) != (reasons, plugins):
            self.problems.append(f"{pod.key}: {diagnosis.reasons}, not {reasons}, {plugins}")

    def _check_totals(
        self, pod: PodInfo, attempt: Attempt, selected: str, expected: dict[str, int]
    ) -> None:
        totals = totals_of(attempt)
        if totals != expected:
            self.problems.append(f"{pod.key} has the totals {totals}, not {expected}")
            return
        best = GoHeap(list(expected.items())).pop()
        if selected != best:
            self.problems.append(f"{pod.key} is placed on {selected}, not {best}: {expected}")


def _without_host(node: Node) -> Node:
    labels = {key: value for key, value in node.metadata.labels.items() if key != HOST}
    return replace(node, metadata=replace(node.metadata, labels=labels))


def _amounts(amounts: dict[str, int]) -> dict[str, str | int]:
    units = {"cpu": "m", "memory": "Mi"}
    return {key: f"{amount}{units.get(key, '')}" for key, amount in amounts.items()}


def _strategy(
    kind: str, weights: tuple[tuple[str, int], ...], shape: tuple[tuple[int, int], ...]
) -> ScoringStrategy:
    points = tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in shape)
    return ScoringStrategy(
        type=kind,
        resources=tuple(ResourceSpec(name=name, weight=weight) for name, weight in weights),
        requested_to_capacity_ratio=RequestedToCapacityRatio(shape=points) if points else None,
    )


def _affinity(kind: Kind) -> dict[str, Any]:
    terms = kind.terms
    return {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": weight,
                    "preference": {
                        "matchExpressions": [{"key": key, "operator": "In", "values": [value]}]
                    },
                }
                for weight, key, value in kind.prefers
            ]
        },
        "podAffinity": _pod_terms(terms.affinity, terms.preferred),
        "podAntiAffinity": _pod_terms(terms.anti, terms.preferred_anti),
    }


def _pod_terms(
    required: tuple[TermModel, ...], preferred: tuple[tuple[int, TermModel], ...]
) -> dict[str, Any]:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [_pod_term(term) for term in required],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "podAffinityTerm": _pod_term(term)} for weight, term in preferred
        ],
    }


def _pod_term(term: TermModel) -> dict[str, Any]:
    text: dict[str, Any] = {
        "topologyKey": term.key,
        "labelSelector": {"matchLabels": dict(term.labels)},
    }
    if term.namespaces is not None:
        text["namespaces"] = list(term.namespaces)
    if term.selected is not None:
        text["namespaceSelector"] = {"matchLabels": dict(term.selected)}
    return text


def run_scores(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt differs from the model.
    """
    run = ScoresRun(seed)
    with few_cached_results(only_if=run.has_many_kinds):
        run.run()
    assert not run.problems, run.problems[0]
