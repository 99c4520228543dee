"""An extender that agrees with everything changes nothing: two schedulers, one of them with it.

Both run the same pods in the same cluster, one after another: some of every sort, priorities that
preempt, and clusters so large that only a part of the nodes is evaluated, so that the next pod
begins at another node. Whole decisions are compared, with scores, rejections, the record of a
preemption and the number of sampled nodes; and what is stored of the pods at the end.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mooring.clock import Rng, seeded_random
from mooring.decision import Decision, Preemption
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.metrics.registry import Metrics
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.extenders import Play, configured, extender
from tests.helpers.running_scheduler import run_scheduler
from tests.helpers.virtual_loop import run_virtually

PODS: Final = 6
#: Between two pods, in virtual seconds: longer than a backoff.
PAUSE_S: Final = 12.0
CLASSES: Final = "/apis/scheduling.k8s.io/v1"
PRIORITIES: Final = {"middle": 10, "high": 1_000}
ZONE: Final = "topology.kubernetes.io/zone"
#: More nodes than kube-scheduler evaluates, if it finds enough of them.
LARGE: Final = (101, 117, 140)
#: Lines of metrics that count the same in both: extenders have their own, and no batches.
COUNT: Final = re.compile(
    r"scheduler_(?!extender_|batch_|store_schedule_|get_node_hint_)\w+_(count|total)[ {]"
)
#: In such seeds, modulo eight, the cluster has no node.
EMPTY: Final = 5
VERBS: Final = (
    ("prioritize",),
    ("filter", "prioritize"),
    ("prioritize", "preempt"),
    ("filter", "prioritize", "preempt"),
)


class Decisions(Observer):
    """Keeps the decisions, without what only the one with an extender has."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, Any]] = []

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Appends the decision of an attempt."""
        if isinstance(result, Placement):
            decision = attempt.decision("scheduled", node=result.node_name, diagnosis=None)
            counts: tuple[int, ...] = (result.feasible_count, result.evaluated_count)
        else:
            decision = attempt.decision("unschedulable", node=None, diagnosis=result)
            counts = ()
        plain = msgspec.structs.replace(decision, extenders=(), durations_s={})
        self.decisions.append((entry.pod.metadata.name, (plain, counts)))


@dataclass
class SilentExtenderRun:
    """One run.

    Attributes:
        objects: What is there at the begin.
        pods: What is created one after another.
        paths: What happened, and how often.
    """

    seed: int
    objects: list[Any] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    paths: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rng = self._rng = seeded_random(self.seed)
        self.percentage = rng.choice((0, 0, 5, 40, 100))
        count = rng.randint(2, 9) if self.seed % 3 else rng.choice(LARGE)
        count = 0 if self.seed % 8 == EMPTY else count
        self.objects = [_node(rng, number) for number in range(count)]
        self.objects += [
            _pod(rng, f"placed-{number}", node=f"node-{number}")
            for number in rng.sample(range(count), k=min(count, 5))
        ]
        self.pods = [_pod(rng, f"pod-{number}") for number in range(PODS)]

    def run(self) -> None:
        """Runs both schedulers.

        Raises:
            AssertionError: their decisions or what is stored differs.
        """
        verbs = self._rng.choice(VERBS)
        without = self._run(())
        with_extender = self._run(verbs)
        difference, n_victims = self._difference(with_extender, without)
        if difference and n_victims > 1:
            # Victims leave one after another, and a batch has several pods without an extender.
            self.paths["between victims"] += 1
            return
        assert not difference, f"with {verbs}, {difference}"

    def _difference(self, with_extender: Any, without: Any) -> tuple[str, int]:
        """Returns the first difference, "" = none, and the most victims of a preemption before."""
        n_victims = 0
        for (name, actual), (other, expected) in zip(with_extender[0], without[0], strict=False):
            if _has_other_offset(actual[0].preemption, expected[0].preemption):
                self.paths["other offset"] += 1
                return "", n_victims
            if (name, actual) != (other, expected):
                return f"{name}: {_fields(actual, expected)}", n_victims
            self._count(actual[0])
            preemption = actual[0].preemption
            n_victims = max(n_victims, len(preemption.victims) if preemption else 0)
        if len(with_extender[0]) != len(without[0]):
            return "another number of attempts", n_victims
        for name, expected in without[1].items():
            if (actual := with_extender[1].get(name)) != expected:
                return f"{name}: {actual}, not {expected}", n_victims
        return "", n_victims

    def _run(self, verbs: tuple[str, ...]) -> Any:
        extenders = [extender("one", *verbs)] if verbs else []
        config = configured(*extenders, percentageOfNodesToScore=self.percentage)
        observer: Decisions = Decisions()
        stored: dict[str, Any] = {}

        async def live() -> None:
            metrics = Metrics(clock=LoopClock(asyncio.get_running_loop()))
            # Among nodes that an extender scores, a tie is drawn at random: it scores none.
            play = Play(prioritize=lambda _: [])
            async with run_scheduler(
                *self.objects,
                config=config,
                transport_factory=play.transport_factory,
                metrics=metrics,
                # Without nodes each pod is retried for ever.
                at_rest=bool(self.objects),
            ) as life:
                setattr(life.observer, "attempted", observer.attempted)  # noqa: B010 - a method
                for name, value in PRIORITIES.items():
                    body = json.dumps({"metadata": {"name": name}, "value": value}).encode()
                    await life.client.write("POST", f"{CLASSES}/priorityclasses", body)
                for pod in self.pods:
                    await life.create(pod)
                    await asyncio.sleep(PAUSE_S)
                for pod in (await life.raw("", "pods"))["items"]:
                    stored[pod["metadata"]["name"]] = pod["spec"].get("nodeName"), pod["status"]
                stored["metrics"] = _counts(metrics)

        run_virtually(live())
        return observer.decisions, stored

    def _count(self, decision: Decision) -> None:
        self.paths["scheduled"] += decision.node is not None
        self.paths["sampled"] += decision.sampled is not None
        self.paths["preempted"] += decision.preemption is not None
        self.paths["refused"] += decision.node is None


def _node(rng: Rng, number: int) -> Node:
    labels = {"tier": rng.choice(("gold", "iron"))} if rng.random() < 0.6 else {}
    return make_node(
        f"node-{number}",
        zone=rng.choice("abc"),
        labels=labels,
        allocatable={"cpu": rng.choice(("1", "2", "4")), "memory": "8Gi", "pods": "110"},
        taints=["old:PreferNoSchedule"] if rng.random() < 0.2 else (),
    )


def _pod(rng: Rng, name: str, *, node: str = "") -> Pod:
    spec: dict[str, Any] = {}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"tier": "gold"}
    if rng.random() < 0.3:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": rng.choice((ZONE, "kubernetes.io/hostname")),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    if rng.random() < 0.3:
        term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
        preferred = [{"weight": rng.randint(1, 100), "podAffinityTerm": term}]
        spec["affinity"] = {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
    if not node and rng.random() < 0.4:
        spec["priorityClassName"] = rng.choice(("middle", "high"))
    return make_pod(
        name,
        node=node,
        labels={"app": rng.choice(("web", "db"))},
        requests={"cpu": rng.choice(("100m", "1", "2", "3"))},
        spec=spec,
    )


def _counts(metrics: Metrics) -> list[str]:
    """Returns how often something happened, of all that a scheduler counts."""
    lines = metrics.expose()[0].decode().splitlines()
    return [line for line in lines if COUNT.match(line)]


def _has_other_offset(preemption: Preemption | None, other: Preemption | None) -> bool:
    """Returns whether a preemption began at another node, and chose another one of equal ones."""
    if preemption is None or other is None:
        return False
    nominated = preemption.nominated != other.nominated
    return nominated and preemption.candidates == other.candidates


def _fields(actual: Any, expected: Any) -> str:
    """Returns the fields of two decisions that differ."""
    (decision, counts), (other, other_counts) = actual, expected
    differing = {
        name: (getattr(decision, name), getattr(other, name))
        for name in decision.__struct_fields__
        if getattr(decision, name) != getattr(other, name)
    }
    return f"{differing}, counts {counts} and {other_counts}"


def run_silent_extender(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a decision, or what is stored, differs.
    """
    SilentExtenderRun(seed).run()
