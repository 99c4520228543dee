"""The head of a simulation's recording, and the decision about one pod of a workload."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mooring.decision import Decision
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.recordings.format import FORMAT, Document, Recording
from mooring.simulation.cluster import Cluster
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload

if TYPE_CHECKING:
    from mooring.simulation.driver import Driver
    from mooring.simulation.outcome import Outcome

#: The family of recordings of simulations.
FAMILY: Final = "simulate"


def decide_until(
    pending: Iterable[Pod], driver: Driver, utilization: Utilization, pod_key: str
) -> Decision:
    """Schedules pods in order up to the named pod; returns the Decision about that pod.

    ``utilization`` is left in the state before the named pod's attempt.

    Raises:
        LookupError: the pod is not pending.
    """
    for pod in pending:
        is_named = key(pod) == pod_key
        if is_named:
            return driver.attempt(pod, explain=True).decision()
        for outcome in _attempts(pod, driver):
            for victim in outcome.victims:
                utilization.remove(victim.key)
            if outcome.node is not None:
                utilization.add(pod, outcome.node)
    raise LookupError(pod_key)


def _attempts(pod: Pod, driver: Driver) -> Iterator[Outcome]:
    """Attempts to schedule a pod; a second time if the first attempt evicted victims."""
    outcome = driver.apply(driver.attempt(pod))
    yield outcome
    if outcome.victims:
        nominated = replace(pod.status, nominated_node_name=outcome.nominated or "")
        yield driver.apply(driver.attempt(replace(pod, status=nominated)))


def recording_header(
    workload: Workload,
    *,
    upstream: str,
    seed: int,
    node_order: Sequence[str],
    config: Document | None,
) -> Recording:
    """Returns a simulation's recording before its first step; pending pods follow as steps."""
    return Recording(
        format=FORMAT,
        name=workload.name,
        family=FAMILY,
        seed=seed,
        upstream=upstream,
        config=config,
        node_order=tuple(node_order),
        objects=tuple(to_builtins(obj) for obj in workload.objects),
        steps=(),
    )


def node_order(workload: Workload) -> list[str]:
    """Returns the names of the nodes in the order in which a scheduler visits them."""
    nodes = Cluster(obj for obj in workload.objects if isinstance(obj, Node)).nodes
    return [nodes.names[row] for row in nodes.order.rows()]


def peak_rss_bytes() -> int:
    """Returns the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
