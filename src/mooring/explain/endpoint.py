"""Explains a pod of a running scheduler: its queue, its attempts, and its decision now.

The embedded API server of ``mooring start`` forwards these requests; they need the same credentials
as all others.
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
from mooring.simulation.utilization import Fill
from mooring.state import PodInfo

#: Where a mooring that listens can be asked; ``?pod=NAMESPACE/NAME`` or a name alone.
EXPLAIN_PATH: Final = "/mooring/v1/explain"

_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}

_PLACES: Final = {
    QueueName.ACTIVE: "Active: it is in the queue for its next attempt.",
    QueueName.BACKOFF: "In backoff: it is retried when the backoff is over.",
    QueueName.UNSCHEDULABLE: "Unschedulable: waiting for a cluster event.",
    QueueName.GATED: "Gated: rejected by a PreEnqueue plugin.",
    QueueName.IN_FLIGHT: "In flight: its attempt is running.",
}


class Answer(NamedTuple):
    """An HTTP status and a text."""

    status: int
    text: str


def explain_live(service: Service, name: str, clock: Clock) -> Answer:
    """Returns all that a scheduler can say of a pod; nothing is changed by asking.

    Args:
        service: The scheduler.
        name: The pod's name, or "namespace/name".
        clock: The scheduler's.
    """
    pods: Mapping[str, Pod] = service.informers["Pod"].objects
    found = [pod for known, pod in pods.items() if name in (known, pod.metadata.name)]
    if not found:
        names = pods if "/" in name else [pod.metadata.name for pod in pods.values()]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return Answer(404, f"no pod {name!r} in the cluster{hint}")
    if len(found) > 1:
        keys = ", ".join(key(pod) for pod in found)
        return Answer(409, f"several pods are named {name!r}: {keys}")
    pod = found[0]
    if pod.spec.node_name:
        return Answer(200, f"Pod {key(pod)} is on {pod.spec.node_name}.")
    framework = service.profiles.get(pod.spec.scheduler_name or "default-scheduler")
    if framework is None:
        name = pod.spec.scheduler_name
        return Answer(200, f"Pod {key(pod)} belongs to another scheduler: {name}.")
    entry = service.queue.get(pod.metadata.uid)
    place = service.queue.queue_of(pod.metadata.uid)
    lines = [*_waiting(place, entry, clock), "", *_decided(service, framework, pod)]
    return Answer(200, "\n".join(lines))


def _waiting(place: QueueName, entry: QueuedPod | None, clock: Clock) -> Iterator[str]:
    yield _PLACES.get(place, "Binding to a node.")
    if entry is None:
        return
    waited_s = clock.monotonic_s() - entry.timestamp_s
    yield f"Attempts: {entry.attempts}; waiting for {waited_s:.1f} s."
    if entry.rejectors:
        yield f"Requeued by events of: {', '.join(sorted(entry.rejectors))}."


def _decided(service: Service, framework: Framework, pod: Pod) -> Iterator[str]:
    """What would be decided now, as ``mooring explain`` tells it."""
    info, snapshot = PodInfo(pod), service.cache.snapshot()
    objects = [*service.informers["Node"].objects.values()]
    placed = [other for other in service.informers["Pod"].objects.values() if other.spec.node_name]
    fill = Fill([*objects, *placed])
    try:
        gate = framework.pre_enqueue(info)
        if gate is not None:
            yield explain(pod, Outcome.gated(info, gate).decision(), fill)
            return
        attempt = Attempt(snapshot)
        decided = schedule_pod(framework, framework.new_cycle(info, snapshot), attempt)
    except PluginError as error:
        yield explain(pod, Outcome.failed(info, str(error)).decision(), fill)
        return
    yield explain(pod, _decision(attempt, decided), fill, weights=framework.profile.weights)


def _decision(attempt: Attempt, decided: Placement | Diagnosis) -> Decision:
    if isinstance(decided, Placement):
        return attempt.decision(SCHEDULED, node=decided.node_name, diagnosis=None)
    return attempt.decision(UNSCHEDULABLE, node=None, diagnosis=decided)


class Askable:
    """An API server that passes questions about decisions on to its scheduler."""

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
        """As ``ApiServer.handle``."""
        if path != EXPLAIN_PATH or method != "GET":
            return await self._api.handle(method, path, query, headers, body)
        status, text = explain_live(self._service, dict(query).get("pod", ""), self._clock)
        return status, dict(_TEXT), text.encode()
