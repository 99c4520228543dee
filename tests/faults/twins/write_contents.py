"""Compares each write of a scheduler with what kube-scheduler would write: every field.

It reads the requests as they leave the client, and knows the decisions, the ends of attempts and
the victims from calls of the scheduler. It shares no code with the parts that write.

Source: pkg/scheduler/schedule_one.go, pkg/scheduler/framework/preemption/executor.go,
pkg/api/v1/pod/util.go, k8s.io/client-go/tools/events.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from mooring.client.transport.transport import Request, Response
from mooring.clock import Clock
from mooring.errors import ApiError, SchedulerError
from mooring.framework import Placement
from mooring.objects.pod import Pod
from mooring.scheduler.service import Service
from tests.faults.twins.attached_queue import AttachedQueue

_POD: Final = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)(/binding|/status)?$")
_EVENT: Final = re.compile(r"/events(/[^/]+)?$")
NOTE_BYTES_MAX: Final = 1024
CUT: Final = " ..."
#: The reasons of events -> type and action.
EVENTS: Final = {
    "Scheduled": ("Normal", "Binding"),
    "FailedScheduling": ("Warning", "Scheduling"),
    "Quarantined": ("Warning", "Scheduling"),
    "Preempted": ("Normal", "Preempting"),
    "FailedPreemption": ("Warning", "Preempting"),
}
#: Those whose notes are compared.
NOTED: Final = ("Scheduled", "FailedScheduling", "Preempted", "Quarantined")


@dataclass
class PodRecord:
    """The history of a pod.

    Attributes:
        node_name: The node that was selected last.
        reason: That of the condition of its last failed attempt.
        message: The message of that.
        nominated: The nomination that its last failed attempt has set or cleared; None = unknown.
        generation: Of the newest version that the scheduler knew when the pod failed.
        quarantine: The text about its quarantine in its condition; "" = it has none.
        notes: The notes of its events, by reason.
        preemptors: The pods that preempt it: UID -> the node.
    """

    node_name: str = ""
    reason: str = ""
    message: str = ""
    nominated: str | None = None
    generation: int = 0
    quarantine: str = ""
    notes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    preemptors: dict[str, str] = field(default_factory=dict)


class WriteContents:
    """Compares the writes of one scheduler.

    Args:
        service: Has not begun yet.
        queue: Its model knows which pods are quarantined.
        clock: The scheduler's.
        report: Called with each difference.
    """

    def __init__(
        self,
        service: Service,
        queue: AttachedQueue,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._twin = queue._twin
        self._report, self._clock = report, clock
        self._records: dict[str, PodRecord] = defaultdict(PodRecord)
        self._pods: Mapping[str, Pod] = service.informers["Pod"].objects
        client: Any = service._client
        transport = client.transport
        self._send = transport.request
        transport.request = self._request
        scheduler: Any = service.scheduler
        self._fail = scheduler._handle_scheduling_failure
        scheduler._handle_scheduling_failure = self._on_failure
        scheduler._binding_cycle._handle_failure = self._on_failure
        self._follow(scheduler._observer, "attempted", self._on_attempt)
        self._follow(scheduler._observer, "preempts", self._on_preemption)
        reporting = service.preemption_executor._reporting
        self._withdraw: Callable[[Pod], bool] = reporting.withdraw_nomination
        reporting.withdraw_nomination = self._on_withdrawal  # type: ignore[method-assign]

    def _follow(self, owner: Any, name: str, follow: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def call(*args: Any) -> None:
            follow(*args)
            real(*args)

        setattr(owner, name, call)

    # -- what happens -----------------------------------------------------------------------------

    def _on_attempt(self, entry: Any, attempt: Any, result: Any) -> None:
        del attempt
        if isinstance(result, Placement):
            record, pod = self._records[entry.uid], entry.pod.metadata
            record.node_name = result.node_name
            record.nominated = None
            note = f"Successfully assigned {pod.namespace}/{pod.name} to {result.node_name}"
            record.notes["Scheduled"].add(note)

    def _on_failure(self, entry: Any, reason: Any, **named: Any) -> None:
        record, live = self._records[entry.uid], self._pods.get(entry.pod.key)
        is_error = isinstance(reason, SchedulerError)
        record.reason = "SchedulerError" if is_error else "Unschedulable"
        record.message = _text_of(reason) if is_error else reason.message
        record.notes["FailedScheduling"].add(record.message)
        if named.get("nominated", "") is not None:
            record.nominated = named.get("nominated", "")
        if live is not None and live.metadata.uid == entry.uid:
            record.generation = live.metadata.generation
        self._fail(entry, reason, **named)
        queued = self._twin.pods.get(entry.uid)
        record.quarantine = ""
        if queued is not None and queued.quarantine_s and queued.failures:
            seconds = f"quarantined for {queued.quarantine_s:.0f} s"
            record.quarantine = f"{seconds}, because attempts raise again and again"
            record.notes["Quarantined"].add(record.quarantine)

    def _on_withdrawal(self, pod: Pod) -> bool:
        is_withdrawn = self._withdraw(pod)
        if is_withdrawn:
            self._records[pod.metadata.uid].nominated = ""
        return is_withdrawn

    def _on_preemption(self, entry: Any, result: Any) -> None:
        for victim in result.victims:
            record = self._records[victim.uid]
            record.preemptors[entry.uid] = result.node_name
            note = f"Preempted by pod {entry.uid} on node {result.node_name}"
            record.notes["Preempted"] |= {note, f"{note} (in kube-scheduler memory)."}

    # -- requests ---------------------------------------------------------------------------------

    async def _request(self, request: Request) -> Response:
        if request.method != "GET" and request.body:
            for problem in self._problems(request):
                self._report(f"{request.method} {request.path}: {problem}")
        response: Response = await self._send(request)
        return response

    def _problems(self, request: Request) -> Iterator[str]:
        """Yields the differences of a request."""
        body = msgspec.json.decode(request.body)
        if match := _POD.match(request.path):
            namespace, name, subresource = match.groups()
            if subresource == "/binding":
                yield from self._problems_of_binding(namespace, name, body)
            elif subresource == "/status":
                yield from self._problems_of_status(body)
            elif request.method == "DELETE":
                yield from self._problems_of_deletion(body)
        elif match := _EVENT.search(request.path):
            if request.method == "POST":
                yield from self._problems_of_event(body)
            else:
                yield from self._problems_of_series(body)

    def _problems_of_binding(self, namespace: str, name: str, body: Any) -> Iterator[str]:
        uid = body["metadata"].get("uid", "")
        expected = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._records[uid].node_name},
        }
        if body != expected:
            yield f"{body}, not {expected}"

    def _problems_of_deletion(self, body: Any) -> Iterator[str]:
        uid = body.get("preconditions", {}).get("uid", "")
        expected = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if body != expected:
            yield f"{body}, not {expected}"
        if not self._records[uid].preemptors:
            yield f"{uid} is no victim"

    def _problems_of_status(self, body: Any) -> Iterator[str]:
        uid, status = body["metadata"]["uid"], dict(body["status"])
        record = self._records[uid]
        conditions = status.pop("conditions", [])
        for condition in conditions:
            if condition["type"] == "PodScheduled":
                yield from self._problems_of_condition(record, condition)
            else:
                yield from self._problems_of_target(record, condition)
        if "nominatedNodeName" in status:
            named = status.pop("nominatedNodeName")
            if named == "":
                yield "an empty nomination is not null"
            if conditions and record.nominated is not None and (named or "") != record.nominated:
                yield f"nominates {uid} to {named!r}, not {record.nominated!r}"
            if not conditions and named and named not in (record.node_name, record.nominated):
                yield f"nominates {uid} to {named!r}, which was not selected"
        status.pop("extendedResourceClaimStatus", None)
        if status:
            yield f"writes {sorted(status)}"

    def _problems_of_condition(self, record: PodRecord, condition: Any) -> Iterator[str]:
        expected = {"type": "PodScheduled", "status": "False", "reason": record.reason}
        actual = {name: condition.get(name) for name in expected}
        if actual != expected:
            yield f"{actual}, not {expected}"
        message = f"{record.message}; {record.quarantine}" if record.quarantine else record.message
        if condition["message"] != message:
            yield f"the message is {condition['message']!r}, not {message!r}"
        if condition["observedGeneration"] < record.generation:
            yield f"generation {condition['observedGeneration']}, not {record.generation}"
        yield from self._problems_of_time(condition)

    def _problems_of_target(self, record: PodRecord, condition: Any) -> Iterator[str]:
        expected = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
        }
        actual = {name: condition.get(name) for name in expected}
        if actual != expected:
            yield f"{actual}, not {expected}"
        scheduler, _, text = condition["message"].partition(": ")
        if not scheduler or text != "preempting to accommodate a higher priority pod":
            yield f"the message is {condition['message']!r}"
        if not record.preemptors:
            yield "its pod is no victim"

    def _problems_of_time(self, condition: Any) -> Iterator[str]:
        """Yields whether the time of a transition is not now."""
        if condition.get("lastProbeTime", "") is not None:
            yield "lastProbeTime is not null"
        at = condition.get("lastTransitionTime")
        if at is None:
            return
        wall_s = self._clock.wall_s()
        if abs(_seconds(at) - wall_s) > 1.0:
            yield f"the transition is at {at}, {_seconds(at) - wall_s:.1f} s from now"

    # -- events -----------------------------------------------------------------------------------

    def _problems_of_event(self, event: Any) -> Iterator[str]:
        regarding = event.get("regarding")
        if regarding is None or regarding["kind"] != "Pod":
            return  # that of a new leader, which is written in another form
        reason, record = event["reason"], self._records[regarding["uid"]]
        if reason in EVENTS and (event["type"], event["action"]) != EVENTS[reason]:
            yield f"{reason} has {event['type']}, {event['action']}"
        namespace = event["metadata"]["namespace"]
        if regarding["namespace"] != namespace or regarding.get("apiVersion") != "v1":
            yield f"{reason} in {namespace} regards {regarding}"
        if not event["metadata"]["name"].startswith((f"{regarding['name']}.", "event.")):
            yield f"{reason} has the name {event['metadata']['name']}"
        if reason in NOTED:
            yield from self._problems_of_note(record, reason, event["note"], regarding)
        related = (event.get("related") or {}).get("uid")
        if reason == "Preempted" and related not in record.preemptors:
            yield f"{reason} is related to {related}, not to one of {list(record.preemptors)}"
        if reason != "Preempted" and related:
            yield f"{reason} is related to {related}"
        if _seconds(event["eventTime"]) > self._clock.wall_s() + 1e-3:
            yield f"{reason} is later than now"
        if event.get("series"):
            yield from self._problems_of_series(event)

    def _problems_of_note(
        self, record: PodRecord, reason: str, note: str, regarding: Any
    ) -> Iterator[str]:
        skipped = f"skip schedule deleting pod: {regarding['namespace']}/{regarding['name']}"
        notes = record.notes[reason] | ({skipped} if reason == "FailedScheduling" else set())
        if note in notes and len(note.encode()) <= NOTE_BYTES_MAX:
            return
        head = note.removesuffix(CUT)
        is_cut = head != note and len(note.encode()) in range(NOTE_BYTES_MAX - 4, 1025)
        if not is_cut or not any(whole.startswith(head) for whole in notes):
            yield f"the note of {reason} is {note!r}, not of {sorted(notes)}"

    def _problems_of_series(self, body: Any) -> Iterator[str]:
        series = body["series"]
        if series["count"] < 2:
            yield f"a series of {series['count']}"
        if _seconds(series["lastObservedTime"]) > self._clock.wall_s() + 1e-3:
            yield "its last event is later than now"


def _text_of(error: SchedulerError) -> str:
    """Returns the notes of an error, and its text; of a refusal the text of the server."""
    text = str(error)
    if isinstance(error, ApiError) and error.server_message:
        text = error.server_message
    return ": ".join([*getattr(error, "__notes__", ()), text])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
