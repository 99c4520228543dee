"""Decides the pods of a cluster again, in the order in which they were bound.

::

    cluster ──without its bound pods──▶ driver
        pod, in the order of binding ──▶ driver.attempt ──▶ its node is among the best, or why not
        pod ──on the node that it has──▶ driver (so that one difference does not cause more)

The cluster at each step is what is left of it: pods and nodes that were deleted since are missing,
and nodes are as they are now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from mooring.decision import SCHEDULED, Decision
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import MIRROR, Pod, unbound
from mooring.queue import profile_of
from mooring.recordings.moves import ComparedStep
from mooring.simulation.build import make_driver
from mooring.simulation.driver import Driver

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration
    from mooring.simulation.workload import Workload


class ReplayedPlacements(NamedTuple):
    """The pods of a cluster that can be decided again.

    Attributes:
        pods: The pods, in the order in which they were bound.
        not_decided: Reason -> number of the bound pods for which it is not known.
        steps: One step per pod; ``recorded`` has the node that the pod has. If that node is among
            the best ones, it is the one of ``decided`` as well: which of them is random.
    """

    pods: Sequence[Pod]
    not_decided: Mapping[str, int]
    steps: Iterator[ComparedStep]


def replay_placements(
    workload: Workload,
    *,
    config: KubeSchedulerConfiguration | None = None,
    plugins: Sequence[str | Any] = (),
    seed: int = 0,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> ReplayedPlacements:
    """Decides each bound pod of a workload again, with the pods that were bound before it.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """
    nodes = {obj.metadata.name for obj in workload.objects if isinstance(obj, Node)}
    driver = make_driver(
        [obj for obj in workload.objects if not isinstance(obj, Pod)],
        config=config,
        plugins=plugins,
        seed=seed,
        gates=gates,
    )
    finished = sum(1 for pod in workload.omitted if pod.spec.node_name)
    not_decided = {"finished": finished} if finished else {}
    bound = sorted((obj for obj in workload.objects if isinstance(obj, Pod)), key=_order)
    pods: dict[str, Pod] = {}
    for pod in bound:
        reason = _reason_against(pod, driver, nodes)
        if reason:
            not_decided[reason] = not_decided.get(reason, 0) + 1
        else:
            pods[key(pod)] = pod
    return ReplayedPlacements(list(pods.values()), not_decided, _steps(bound, pods, driver))


def bound_at(pod: Pod) -> str:
    """Returns when a pod was bound, as RFC 3339 in seconds; if that is unknown, its creation."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time or pod.metadata.creation_timestamp or ""
    return pod.status.start_time or pod.metadata.creation_timestamp or ""


def _reason_against(pod: Pod, driver: Driver, nodes: Collection[str]) -> str:
    """Returns why a bound pod cannot be decided again; "" = it can."""
    if MIRROR in pod.metadata.annotations:
        return "static"
    if profile_of(pod) not in driver.frameworks:
        return "of other schedulers"
    if pod.spec.node_name not in nodes:
        return "on nodes that do not exist"
    return ""


def _order(pod: Pod) -> tuple[str, int, str]:
    """Orders by the time of binding; in the same second a higher priority was first."""
    return bound_at(pod), -(pod.spec.priority or 0), pod.metadata.creation_timestamp or ""


def _steps(
    bound: Sequence[Pod], decided_again: Collection[str], driver: Driver
) -> Iterator[ComparedStep]:
    """Places the bound pods in order; yields a step for each that is decided again."""
    number = 0
    for pod in bound:
        if key(pod) in decided_again:
            yield _step(number, pod, driver)
            number += 1
        driver.place(pod, pod.spec.node_name)


def _step(number: int, pod: Pod, driver: Driver) -> ComparedStep:
    node = pod.spec.node_name
    outcome = driver.attempt(unbound(pod))
    placed = _placed(node)
    decided = placed if outcome.node == node else outcome.decision()
    if node in decided.tied:
        decided = replace(decided, node=node)
    weights = driver.frameworks[profile_of(pod)].profile.weights
    return ComparedStep(number, key(pod), placed, decided, weights, weights)


def _placed(node: str) -> Decision:
    """Returns what is known about a decision from the bound pod: only its node."""
    return Decision(
        result=SCHEDULED,
        node=node,
        tied=(node,),
        rejected={},
        unschedulable_plugins=(),
        pending_plugins=(),
    )
