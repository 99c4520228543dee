"""Choices of victims on full nodes, beside the reference choice.

A run of the whole system has few preemptions, mostly of one victim. Here each pod of a random
cluster is a preemptor: nodes have up to eight pods of several priorities and times of start,
nominated pods, and budgets that allow some disruptions. In half of the runs some pods leave
already, evicted by a scheduler or otherwise, and preemptors are nominated or must not preempt. In a
seventh of them priorities are the lowest and the highest ones that there are. In a fifth a filter
fails on some nodes once pods are removed there: the others stay candidates.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config.types import DefaultPreemptionArgs
from mooring.framework import Cycle, Diagnosis, FilterStatuses, NodeView, Reject
from mooring.framework.runtime import plugin_errors
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.objects.pod import ContainerPort, Pod, PodCondition
from mooring.objects.workloads import PodDisruptionBudget
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.faults.parts.choice_outcomes import expected_outcome, failures, outcome_of
from tests.faults.parts.logged import Line, logged
from tests.faults.twins.attached_choice import AttachedChoice

NODES: Final = ("a", "b", "c", "d")
CPU: Final = 6
CHOICES: Final = 6
DELETED: Final = "2026-01-01T00:00:00Z"
#: The share of the placed pods that leave, in a run with such pods.
LEAVING_SHARE: Final = 0.3
#: In such seeds, modulo seven, priorities are at the ends of int32.
EXTREME: Final = 2
EXTREMES: Final = {
    -10: -(2**31),
    0: -(2**31),
    5: 1 - 2**31,
    20: 0,
    50: 10**9,
    100: 2**31 - 1,
}
#: In such seeds, modulo five, pods request memory, too, and nodes have few slots for pods.
WITH_MEMORY: Final = 1
MEMORY: Final = ("1", "3", "6")
SLOTS: Final = ("4", "6", "20")
#: In such seeds, modulo four, pods have host ports; so many of them do.
WITH_PORTS: Final = 3
PORTS: Final = (80, 81, 82)
PORTS_SHARE: Final = 0.4
#: In such seeds, modulo five, a filter fails on some nodes, each with this probability.
FAILS: Final = 4
FAILS_SHARE: Final = 0.4
#: In such seeds, modulo five, a filter rejects such a share of the nodes, but not in the dry run:
#: all pods are reprieved where that was the only reason.
REFUSES: Final = 3
REFUSED_SHARE: Final = 0.8
#: In such seeds, modulo six, pods of two namespaces have terms of affinity, which select
#: namespaces; so many of the pods have one.
WITH_TERMS: Final = 4
TERMS_SHARE: Final = 0.5
MORE_TERMS_SHARE: Final = 0.7
KINDS: Final = ("podAffinity", "podAntiAffinity", "podAntiAffinity")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES: Final = {"default": {"team": "a"}, "other": {"team": "b"}}
#: The code and the reason of a pod whose victims are being evicted.
GATED: Final = (
    "UnschedulableAndUnresolvable",
    ("waiting for the preemption for this pod to be finished",),
)


class PreemptingHandle(OfflineHandle):
    """A handle that knows which pods are preempting."""

    def __init__(self, cache: Cache, clock: VirtualClock, rng: Rng) -> None:
        super().__init__(cache, clock, rng)
        self.preempting: set[str] = set()

    def is_preempting(self, uid: str) -> bool:
        """Returns whether victims of the pod are being evicted."""
        return uid in self.preempting


class FailingFilter:
    """A filter that fails on some nodes, if pods are removed there, or rejects some for a while.

    Attributes:
        nodes: The names of those where it fails.
        refused: The names of those that it rejects.
    """

    name = "FailingFilter"

    def __init__(self) -> None:
        self.nodes: frozenset[str] = frozenset()
        self.refused: frozenset[str] = frozenset()

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes.

        Raises:
            ValueError: pods are removed from one of the failing nodes.
        """
        del cycle
        if (failing := self.nodes.intersection(nodes.names)) and any(nodes.removed):
            raise ValueError(f"injected failure on {min(failing)}")
        is_refused = np.array([name in self.refused for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.reject(is_refused, Reject("refused"))


class ChoiceRun:
    """One run.

    Attributes:
        problems: Differences to the reference.
        node_names: The nodes.
        n_choices: How many preemptors are tried.
        has_ports: Whether pods have host ports in some seeds.
        has_failures: Whether a filter fails on some nodes in some seeds.
        has_terms: Whether pods have terms of affinity in some seeds.
    """

    node_names: tuple[str, ...] = NODES
    n_choices = CHOICES
    has_ports = True
    has_failures = True
    has_terms = True

    def __init__(self, seed: int, args: DefaultPreemptionArgs | None = None) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        #: Of pods that leave, and nominations; they change nothing else that is drawn.
        self._more = more = seeded_random(seed + 2)
        self._has_leaving = more.random() < 0.5
        self._is_extreme = seed % 7 == EXTREME
        self._count = 0
        #: The priorities, the times of start and the labels of the run.
        self._priorities = rng.choice(((0,), (0, 5), (-10, 0, 5, 50)))
        self._minutes = rng.choice(((1,), (1, 2, 3), (1, 2, 3, None)))
        cache = Cache()
        #: Of memory and slots, in such seeds.
        self._memory = Random(f"{seed} memory") if seed % 5 == WITH_MEMORY else None
        #: Of terms of affinity, in such seeds.
        self._terms = seeded_random(seed + 7) if self.has_terms and seed % 6 == WITH_TERMS else None
        self._more_terms = seeded_random(seed + 8)
        nodes = [
            make_node(
                name,
                allocatable=self._amounts(),
                labels={"zone": "xy"[number % 2], "host": name},
            )
            for number, name in enumerate(self.node_names)
        ]
        handle = PreemptingHandle(cache, VirtualClock(), seeded_random(seed + 1))
        self._preempting = handle.preempting
        plugin = DefaultPreemption(args, handle)
        #: Of host ports, in such seeds.
        self._ports = seeded_random(seed + 3) if self.has_ports and seed % 4 == WITH_PORTS else None
        self._ports_in_use: set[tuple[str, int]] = set()
        #: Of nodes where a filter fails, in such seeds.
        self._fails = seeded_random(seed + 5) if self.has_failures and seed % 5 == FAILS else None
        self._failing = FailingFilter()
        ports = () if self._ports is None else (NodePorts(),)
        is_refusing = self.has_failures and seed % 5 == REFUSES
        self._refuses = Random(f"{seed} refused") if is_refusing else None
        failing = () if self._fails is None and not is_refusing else (self._failing,)
        terms = () if self._terms is None else (InterPodAffinity(None, handle),)
        self._harness = Harness(nodes, [NodeResourcesFit(), *ports, *terms, *failing, plugin])
        self._harness.cache = self._cache = cache
        for node in nodes:
            cache.put_node(node)
        self._budgets = budgets = self._first_budgets()
        for budget in budgets.values():
            cache.put_object("PodDisruptionBudget", budget)
        service: Any = SimpleNamespace(
            cache=cache,
            profiles={"": self._harness.framework},
            informers={"PodDisruptionBudget": SimpleNamespace(objects=budgets)},
        )
        self._plugin = plugin
        self.model = AttachedChoice(service, self.problems.append)
        if self._terms is not None:
            self.model.namespaces = NAMESPACES
            for name, labels in NAMESPACES.items():
                body = {"metadata": {"name": name, "labels": labels}}
                cache.put_object("Namespace", convert(body, "Namespace"))

    def _amounts(self) -> dict[str, str]:
        """Returns what a node has."""
        amounts, memory = {"cpu": str(CPU), "pods": "20"}, self._memory
        if memory is not None:
            amounts |= {"memory": memory.choice(MEMORY), "pods": memory.choice(SLOTS)}
        return amounts

    def _first_budgets(self) -> dict[str, PodDisruptionBudget]:
        """Draws the budgets, by the names under which they are stored."""
        rng = self._rng
        return {f"default/{name}": _budget(rng, name) for name in "xyz" if rng.random() < 0.5}

    def run(self) -> None:
        """Fills the nodes, and tries preemptors, whose victims go."""
        for node in self.node_names:
            self._fill(node)
        for _ in range(self.n_choices):
            self._choose()

    def _fill(self, node: str) -> None:
        """Places pods on a node until it is full, mostly."""
        left = CPU
        while left > 0 and self._rng.random() < 0.97:
            cpu = self._rng.choice((1, 1, 1, 2))
            if cpu <= left:
                left -= cpu
                self._cache.put_pod(self._pod(cpu, node=node))

    def _pod(self, cpu: int, *, node: str = "", priority: int | None = None) -> Pod:
        rng = self._rng
        self._count += 1
        value = rng.choice(self._priorities) if priority is None else priority
        status: dict[str, Any] = {}
        if node and (minute := rng.choice(self._minutes)) is not None:
            status["startTime"] = f"2026-01-01T00:{minute:02}:00Z"
        name = f"pod-{self._count}"
        requests = {"cpu": str(cpu)}
        if self._memory is not None and (memory := self._memory.choice("0112")) != "0":
            requests["memory"] = memory
        pod = make_pod(
            name,
            uid=name,
            node=node,
            requests=requests,
            labels={"app": rng.choice("xyz")},
            priority=EXTREMES[value] if self._is_extreme else value,
            status=status,
        )
        pod = self._with_port(pod)
        pod = pod if self._terms is None else _with_terms(pod, self._terms, self._more_terms)
        return self._varied(pod) if self._has_leaving else pod

    def _with_port(self, pod: Pod) -> Pod:
        """Returns the pod, with a host port at times: placed pods of a node have different ones."""
        node, ports = pod.spec.node_name, self._ports
        if ports is None or ports.random() > PORTS_SHARE:
            return pod
        port = ports.choice(PORTS)
        if node and (node, port) in self._ports_in_use:
            return pod
        self._ports_in_use.add((node, port))
        of_container = (ContainerPort(host_port=port, protocol="TCP"),)
        containers = tuple(replace(it, ports=of_container) for it in pod.spec.containers)
        return replace(pod, spec=replace(pod.spec, containers=containers))

    def _varied(self, pod: Pod) -> Pod:
        """Lets a placed pod leave, for any reason; nominates a pending one, or forbids it."""
        more, spec, status, metadata = self._more, pod.spec, pod.status, pod.metadata
        if not spec.node_name:
            policy = more.choice(("PreemptLowerPriority",) * 7 + ("Never",))
            nominated = more.choice(("", *self.node_names, "nowhere"))
            return replace(
                pod,
                spec=replace(spec, preemption_policy=policy),
                status=replace(status, nominated_node_name=nominated),
            )
        if more.random() > LEAVING_SHARE:
            return pod
        conditions = tuple(
            PodCondition(
                type=kind,
                status=more.choice(("True", "True", "False", "Unknown")),
                reason=more.choice(("PreemptionByScheduler",) * 2 + ("EvictionByEvictionAPI",)),
            )
            for kind in ("Ready", "DisruptionTarget", "PodScheduled")
            if more.random() < 0.8
        )
        is_deleted = more.random() < 0.8
        return replace(
            pod,
            metadata=replace(metadata, deletion_timestamp=DELETED if is_deleted else None),
            status=replace(status, conditions=conditions),
        )

    def _choose(self) -> None:
        """Tries a preemptor; its victims leave, and it is nominated or placed."""
        rng = self._rng
        pod = self._pod(rng.choice((1, 2, 3, 4)), priority=rng.choice((0, 5, 20, 100)))
        info = PodInfo(pod)
        self._check_gate(info)
        snapshot = self._cache.snapshot()
        if self._has_leaving and self._more.random() < 0.5:
            self._cache.nominator.nominate(info, self._more.choice(self.node_names))
        cycle = self._harness.framework.new_cycle(info, snapshot)
        if self._refuses is not None:
            refused = [it for it in self.node_names if self._refuses.random() < REFUSED_SHARE]
            self._failing.refused = frozenset(refused)
        diagnosis = schedule_pod(self._harness.framework, cycle, Attempt(snapshot))
        self._failing.refused = frozenset()
        if not isinstance(diagnosis, Diagnosis):
            self._cache.nominator.remove(info.uid)
            return
        post_filter: Any = self._plugin.post_filter
        self.model._calls = -1  # each choice is compared
        self._draw_failures()
        counts = self._harness.framework.errors.statistics()
        with logged(plugin_errors) as log:
            result = post_filter(cycle, diagnosis)
        self._check_outcome(info, diagnosis, result)
        self._check_log(info, diagnosis, log.lines, counts)
        for victim in result.victims:
            self._cache.remove_pod(victim.uid)
        if result.node_name and rng.random() < 0.5:
            self._cache.nominator.nominate(info, result.node_name)
        elif result.node_name:
            self._cache.put_pod(info.on_node(result.node_name).pod)

    def _check_gate(self, info: PodInfo) -> None:
        """Compares whether a pod is gated, while its victims are evicted and at other times."""
        self._preempting.clear()
        for is_preempting in (False, True):
            if is_preempting:
                self._preempting.add(info.uid)
            status = self._plugin.pre_enqueue(info)
            plain = status and (status.code.value, status.reasons)
            if plain != (GATED if is_preempting else None):
                self.problems.append(f"{info.key} gets {plain}, preempting: {is_preempting}")

    def _draw_failures(self) -> None:
        """Draws the nodes where a filter fails."""
        if self._fails is not None:
            names = [name for name in self.node_names if self._fails.random() < FAILS_SHARE]
            self._failing.nodes = self.model.failing = frozenset(names)

    def _check_outcome(self, info: PodInfo, diagnosis: Diagnosis, result: Any) -> None:
        """Compares code, message and nomination of an attempt without victims."""
        cluster = self.model._cluster()
        helpful = list(self.model._helpful(diagnosis))
        may_not = self.model._may_not(info.pod, diagnosis, cluster)
        expected = expected_outcome(cluster, info.pod, helpful, may_not=may_not)
        actual = outcome_of(result)
        if actual != expected:
            self.problems.append(f"{info.key} gets {actual}, not {expected}")

    def _check_log(
        self, info: PodInfo, diagnosis: Diagnosis, lines: list[Line], counts: dict[Any, int]
    ) -> None:
        """Compares the errors of the filter that are logged and counted: once for each node.

        Args:
            info: The preemptor.
            diagnosis: Of its attempt.
            lines: What was logged.
            counts: The errors that the framework has counted before.
        """
        cluster = self.model._cluster()
        failed: set[str] = set()
        helpful = list(self.model._helpful(diagnosis))
        if not self.model._may_not(info.pod, diagnosis, cluster):
            failed = failures(cluster, info.pod, helpful)
        facts = [
            (fields.get("pod"), fields.get("node"), fields.get("plugin")) for *_, fields in lines
        ]
        expected = {(info.key, name, FailingFilter.name) for name in failed}
        is_all = len(helpful) <= max(self.model.limits.at_least, 1)
        if len(facts) != len(set(facts)) or not (
            set(facts) == expected if is_all else set(facts) <= expected
        ):
            self.problems.append(f"{info.key}: logged are errors {facts}, not {expected}")
        pair = (FailingFilter.name, "Filter")
        n_counted = self._harness.framework.errors.statistics().get(pair, 0) - counts.get(pair, 0)
        if n_counted != len(facts):
            self.problems.append(f"{info.key}: {n_counted} errors are counted, not {len(facts)}")


def _with_terms(pod: Pod, rng: Rng, more: Rng) -> Pod:
    """Returns the pod in any namespace, with one to three required terms of any kind at times."""
    pod = replace(pod, metadata=replace(pod.metadata, namespace=rng.choice(list(NAMESPACES))))
    if rng.random() > TERMS_SHARE:
        return pod
    required: dict[str, Any] = {}
    term, kind = _term(rng), rng.choice(KINDS)
    required[kind] = {REQUIRED: [term]}
    if more.random() < MORE_TERMS_SHARE:
        # Mostly of the same kind.
        for _ in range(more.choice((1, 1, 2))):
            of_kind = required.setdefault(more.choice((kind, kind, *KINDS)), {REQUIRED: []})
            of_kind[REQUIRED].append(_term(more))
    affinity = make_pod("x", spec={"affinity": required}).spec.affinity
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


def _term(rng: Rng) -> dict[str, Any]:
    """Draws a term: the namespaces, the labels and the topology key of other pods."""
    where: dict[str, Any] = rng.choice(
        (
            {},
            {"namespaces": ["other"]},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "b"}}},
            {"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "b"}}},
        )
    )
    selector = {"matchLabels": {"app": rng.choice("xyz")}}
    return {"topologyKey": rng.choice(("zone", "host")), "labelSelector": selector, **where}


def _budget(rng: Rng, app: str) -> PodDisruptionBudget:
    """Returns a budget for the pods of an app, which may be of another namespace."""
    body = {
        "metadata": {"name": app, "namespace": rng.choice(("default", "default", "other"))},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": rng.choice((0, 1, 1, 2, 3))},
    }
    budget: PodDisruptionBudget = convert(body, "PodDisruptionBudget")
    return budget


def run_choice(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a choice differs from the reference.
    """
    choice = ChoiceRun(seed)
    choice.run()
    assert not choice.problems, choice.problems[0]
