"""Explains a pod of a running scheduler: its queue, its attempts, and the current decision.

The embedded API server of ``mooring start`` serves it. Requests need the same credentials as all
others.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.apiserver import ApiServer
from mooring.clock import Clock
from mooring.decision import SCHEDULED, UNSCHEDULABLE, Decision
from mooring.errors import PluginError
from mooring.explain.explain import explain
from mooring.framework import Attempt, Diagnosis, Framework, Placement, schedule_pod
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.service import Service
from mooring.simulation.outcome import Outcome
from mooring.simulation.utilization import Utilization
from mooring.state import PodInfo

#: Path of the endpoint; query ``?pod=NAMESPACE/NAME``, or the name alone.
EXPLAIN_PATH: Final = "/mooring/v1/explain"

_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}

_QUEUE_TEXTS: Final = {
    QueueName.ACTIVE: "Active: it is in the queue for its next attempt.",
    QueueName.BACKOFF: "In backoff: it is retried when the backoff is over.",
    QueueName.UNSCHEDULABLE: "Unschedulable: waiting for a cluster event.",
    QueueName.GATED: "Gated: rejected by a PreEnqueue plugin.",
    QueueName.IN_FLIGHT: "In flight: its attempt is running.",
}


class Explanation(NamedTuple):
    """An HTTP status and a text body."""

    status: int
    text: str


def explain_running(service: Service, name: str, clock: Clock) -> Explanation:
    """Returns the explanation of a pod without changing the scheduler's state.

    Args:
        service: The scheduler.
        name: The pod's name, or "namespace/name".
        clock: The scheduler's clock.
    """
    pods: Mapping[str, Pod] = service.informers["Pod"].objects
    matches = [pod for pod_key, pod in pods.items() if name in (pod_key, pod.metadata.name)]
    if not matches:
        names = pods if "/" in name else [pod.metadata.name for pod in pods.values()]
        suggestions = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {suggestions[0]!r}?)" if suggestions else ""
        return Explanation(404, f"no pod {name!r} in the cluster{hint}")
    if len(matches) > 1:
        keys = ", ".join(key(pod) for pod in matches)
        return Explanation(409, f"several pods are named {name!r}: {keys}")
    pod = matches[0]
    if pod.spec.node_name:
        return Explanation(200, f"Pod {key(pod)} is on {pod.spec.node_name}.")
    framework = service.profiles.get(pod.spec.scheduler_name or "default-scheduler")
    if framework is None:
        name = pod.spec.scheduler_name
        return Explanation(200, f"Pod {key(pod)} belongs to another scheduler: {name}.")
    entry = service.queue.get(pod.metadata.uid)
    queue_name = service.queue.queue_of(pod.metadata.uid)
    lines = [*_queue_lines(queue_name, entry, clock), "", *_decision_lines(service, framework, pod)]
    return Explanation(200, "\n".join(lines))


def _queue_lines(queue_name: QueueName, entry: QueuedPod | None, clock: Clock) -> Iterator[str]:
    yield _QUEUE_TEXTS.get(queue_name, "Binding to a node.")
    if entry is None:
        return
    waited_s = clock.monotonic_s() - entry.timestamp_s
    yield f"Attempts: {entry.attempts}; waiting for {waited_s:.1f} s."
    if entry.rejectors:
        yield f"Requeued by events of: {', '.join(sorted(entry.rejectors))}."


def _decision_lines(service: Service, framework: Framework, pod: Pod) -> Iterator[str]:
    """Yields the decision on the current state, as ``mooring explain`` prints it."""
    info, snapshot = PodInfo(pod), service.cache.snapshot()
    objects = [*service.informers["Node"].objects.values()]
    placed = [other for other in service.informers["Pod"].objects.values() if other.spec.node_name]
    utilization = Utilization([*objects, *placed])
    try:
        gate = framework.pre_enqueue(info)
        if gate is not None:
            yield explain(pod, Outcome.gated(info, gate).decision(), utilization)
            return
        attempt = Attempt(snapshot)
        result = schedule_pod(framework, framework.new_cycle(info, snapshot), attempt)
    except PluginError as error:
        yield explain(pod, Outcome.failed(info, error.located).decision(), utilization)
        return
    yield explain(pod, _decision(attempt, result), utilization, weights=framework.profile.weights)


def _decision(attempt: Attempt, result: Placement | Diagnosis) -> Decision:
    if isinstance(result, Placement):
        return attempt.decision(SCHEDULED, node=result.node_name, diagnosis=None)
    return attempt.decision(UNSCHEDULABLE, node=None, diagnosis=result)


class ExplainEndpoint:
    """An API server with the explain endpoint of its scheduler."""

    def __init__(self, api: ApiServer, service: Service, clock: Clock) -> None:
        self.clock = api.clock
        self.tokens = api.tokens
        self.tick = api.tick
        self._api = api
        self._service = service
        self._clock = clock

    async def handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request; see ``ApiServer.handle``."""
        if path != EXPLAIN_PATH or method != "GET":
            return await self._api.handle(method, path, query, headers, body)
        status, text = explain_running(self._service, dict(query).get("pod", ""), self._clock)
        return status, dict(_TEXT), text.encode()
