"""Explains a pod of a running scheduler: its queue, attempts, nomination, and the decision now.

Nothing is changed: the decision is made on the scheduler's own state, and thrown away.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mooring.clock import Clock
from mooring.decision import SCHEDULED, UNSCHEDULABLE, Decision
from mooring.errors import PluginError
from mooring.explain.document import document_of
from mooring.explain.explain import DEFAULTS, Explained, Options
from mooring.explain.pod_state import PodState, encoded
from mooring.explain.undecided import reason_without_decision
from mooring.framework import Attempt, Diagnosis, Framework, Placement, schedule_pod
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName, profile_of
from mooring.scheduler.service import Service
from mooring.simulation.outcome import Outcome
from mooring.simulation.utilization import Utilization
from mooring.state import PodInfo

#: Path of the endpoint; query ``?pod=NAMESPACE/NAME``, or the name alone; ``&output=json``,
#: ``&all=true``, ``&all-nodes=true``. Or ``?node=NAME``: see ``node_rejections``.
EXPLAIN_PATH: Final = "/mooring/v1/explain"
NODE: Final = "node"
ALL: Final = "all"
ALL_NODES: Final = "all-nodes"

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_QUEUE_TEXTS: Final = {
    QueueName.ACTIVE: "Active: it is in the queue for its next attempt.",
    QueueName.BACKOFF: "In backoff: it is retried when the backoff is over.",
    QueueName.UNSCHEDULABLE: "Unschedulable: waiting for a cluster event.",
    QueueName.GATED: "Gated: rejected by a PreEnqueue plugin.",
    QueueName.IN_FLIGHT: "In flight: its attempt is running.",
}


def options_of(query: Mapping[str, str]) -> Options:
    """Returns the options in a query."""
    return Options(query.get(ALL) == "true", query.get(ALL_NODES) == "true")


class Explanation(NamedTuple):
    """An HTTP status, a body and its content type."""

    status: int
    text: str
    content_type: str = TEXT


def explain_running(
    service: Service,
    name: str,
    clock: Clock,
    *,
    as_json: bool = False,
    options: Options = DEFAULTS,
) -> Explanation:
    """Returns the explanation of a pod without changing the scheduler's state.

    Args:
        service: The scheduler.
        name: The pod's name, or "namespace/name".
        clock: The scheduler's clock.
        as_json: Whether the explanation is the pod's ``PodState``.
        options: What to explain.
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
    scheduler = profile_of(pod)
    framework = service.profiles.get(scheduler)
    note = reason_without_decision(pod, service.profiles)
    if pod.spec.node_name or note or framework is None:
        note = note or f"Pod {key(pod)} is on {pod.spec.node_name}."
        state = PodState(pod=key(pod), scheduler=scheduler, node=pod.spec.node_name, note=note)
        return Explanation(200, encoded(state), JSON) if as_json else Explanation(200, note)
    state = pod_state(service, framework, pod, clock)
    utilization = None if state.assumed_node else _utilization(service)
    if not state.assumed_node:
        state.decision = decide(service, framework, pod)
    explained = None
    if state.decision is not None and utilization is not None:
        explained = Explained(
            pod,
            state.decision,
            utilization,
            weights=framework.profile.weights,
            snapshot=service.cache.snapshot(),
            framework=framework,
            options=options,
        )
    if as_json:
        state.explanation = None if explained is None else document_of(explained)
        return Explanation(200, encoded(state), JSON)
    lines = list(state_lines(state))
    if explained is not None:
        lines += ["", *explained.lines()]
    return Explanation(200, "\n".join(lines))


def pod_state(service: Service, framework: Framework, pod: Pod, clock: Clock) -> PodState:
    """Returns the state of a pending pod, without a decision."""
    uid, now_s = pod.metadata.uid, clock.monotonic_s()
    condition = [item for item in pod.status.conditions if item.type == "PodScheduled"]
    state = PodState(
        pod=key(pod),
        scheduler=framework.profile.scheduler_name,
        nominated_node=service.cache.nominator.node_of(uid) or pod.status.nominated_node_name,
        evicting=tuple(service.preemption_executor.victims_of(uid)),
        message=condition[0].message if condition else "",
    )
    state.terminating = tuple(_terminating(service, state.nominated_node))
    queue_name = service.queue.queue_of(uid)
    state.queue = "" if queue_name is QueueName.NONE else queue_name.value
    placed = service.cache.pods.get(uid)
    if placed is not None:
        state.assumed_node = placed.info.node_name
    waiting = service.handle.waiting.get(uid)
    if waiting is not None:
        state.permit = waiting.remaining_s(now_s)
    entry = service.queue.get(uid)
    if entry is not None:
        _add_entry(state, entry, framework, now_s)
    return state


def _add_entry(state: PodState, entry: QueuedPod, framework: Framework, now_s: float) -> None:
    """Adds what the queue knows."""
    state.attempts = entry.attempts
    state.in_queue_s = round(now_s - entry.timestamp_s, 3)
    if entry.initial_attempt_s is not None:
        state.first_attempt_s = round(now_s - entry.initial_attempt_s, 3)
    if entry.queue_name is QueueName.BACKOFF and entry.backoff_expiration_s is not None:
        state.backoff_s = max(0.0, round(entry.backoff_expiration_s - now_s, 3))
    state.rejected_by = tuple(sorted(entry.rejectors))
    filters = {plugin.name for plugin in (*framework.filters, *framework.plugins("pre_filter"))}
    later = {plugin.name for point in ("reserve", "permit") for plugin in framework.plugins(point)}
    state.rejected_after_filter = tuple(sorted((entry.rejectors & later) - filters))
    state.pending_on = tuple(sorted(entry.pending_plugins))
    state.gated_by = entry.gating_plugin
    if entry.queue_name.waits_for_event:
        state.requeued_by = dict(_requeueing_events(framework, entry))


def _requeueing_events(
    framework: Framework, entry: QueuedPod
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for plugin in framework.rejecting_plugins():
        events = getattr(plugin, "events", None)
        if plugin.name in entry.rejectors and events is not None:
            labels = {part.label for item in events() for part in item.event.parts()}
            yield plugin.name, tuple(sorted(labels))


def _terminating(service: Service, node_name: str) -> Iterator[str]:
    """Yields the pods on a node that are being deleted."""
    row = service.cache.nodes.live_row(node_name) if node_name else -1
    if row < 0:
        return
    for placed in service.cache.pods:
        if placed.row == row and placed.info.metadata.deletion_timestamp is not None:
            yield placed.info.key


def state_lines(state: PodState) -> Iterator[str]:
    """Yields the state as lines of text."""
    if state.assumed_node:
        yield f"Being bound to {state.assumed_node}."
        for plugin, remaining_s in state.permit.items():
            yield f"Waits in Permit for {plugin}, for at most {remaining_s:.1f} s more."
        return
    queue = QueueName(state.queue) if state.queue else QueueName.NONE
    yield _QUEUE_TEXTS.get(queue, "In no queue.")
    if queue is not QueueName.NONE:
        yield f"Attempts: {state.attempts}; in this queue for {state.in_queue_s:.1f} s."
    if state.backoff_s:
        yield f"Backoff: {state.backoff_s:.1f} s more."
    if state.gated_by:
        yield f"Gated by {state.gated_by}."
    for plugin, events in state.requeued_by.items():
        yield f"Requeued by events of {plugin}: {', '.join(events) or 'none'}."
    if state.nominated_node:
        yield f"Nominated to {state.nominated_node}."
    if state.evicting:
        yield f"Being evicted for it: {', '.join(state.evicting)}."
    if state.terminating:
        yield f"Being deleted on that node: {', '.join(state.terminating)}."
    if state.rejected_after_filter:
        plugins = ", ".join(state.rejected_after_filter)
        yield f"Its last attempt chose a node, and {plugins} rejected it there (Reserve or Permit)."
        yield "Reserve and Permit are not called for the decision below."
    if state.message:
        yield f"Last message: {state.message}"


def decide(service: Service, framework: Framework, pod: Pod) -> Decision:
    """Returns the decision on the current state. Extenders are not called."""
    info, snapshot = PodInfo(pod), service.cache.snapshot()
    try:
        gate = framework.pre_enqueue(info)
        if gate is not None:
            return Outcome.gated(info, gate).decision()
        attempt = Attempt(snapshot)
        result = schedule_pod(framework, framework.new_cycle(info, snapshot), attempt)
    except PluginError as error:
        return Outcome.failed(info, error.located).decision()
    return _decision(attempt, result)


def _utilization(service: Service) -> Utilization:
    nodes = service.informers["Node"].objects.values()
    pods = service.informers["Pod"].objects.values()
    return Utilization([*nodes, *(other for other in pods if other.spec.node_name)])


def _decision(attempt: Attempt, result: Placement | Diagnosis) -> Decision:
    if isinstance(result, Placement):
        return attempt.decision(SCHEDULED, node=result.node_name, diagnosis=None)
    return attempt.decision(UNSCHEDULABLE, node=None, diagnosis=result)
