"""The state of a pod and the explanation of its decision, as JSON."""

from __future__ import annotations

import msgspec

from mooring.decision import Decision
from mooring.explain.document import ExplanationDocument, document_of
from mooring.explain.explain import Explained
from mooring.objects.meta import key
from mooring.queue import profile_of


class PodState(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The state of a pod in a scheduler. Times are in seconds.

    It is what ``-o json`` prints; the fields of a queue are left out where there is none.

    Attributes:
        pod: "namespace/name".
        scheduler: Its schedulerName.
        node: The node that it is on.
        note: Why there is no decision, or on which cluster it was made.
        queue: ``active``, ``backoff``, ``unschedulable``, ``gated`` or ``in flight``; "" = none.
        attempts: The attempts so far.
        in_queue_s: How long it has been in this queue.
        first_attempt_s: How long ago it first entered the active queue.
        backoff_s: How long its backoff lasts yet.
        rejected_by: The plugins that rejected it in its last attempt.
        rejected_after_filter: Those of them that rejected it in Reserve or Permit.
        pending_on: Those of them that wait for something of their own.
        gated_by: The PreEnqueue plugin that holds it back.
        requeued_by: Plugin -> the events that requeue the pod, in kube-scheduler's words.
        nominated_node: The node where preemption makes room for it.
        evicting: The victims whose evictions have not ended.
        terminating: The pods on the nominated node that are being deleted.
        assumed_node: The node that it is being bound to.
        permit: Plugin that waits in Permit -> how long at most yet.
        message: The message of its PodScheduled condition.
        decision: The decision; None while the pod is being bound.
        explanation: The explanation of the decision.
    """

    pod: str
    scheduler: str
    node: str = ""
    note: str = ""
    queue: str = ""
    attempts: int = 0
    in_queue_s: float = 0.0
    first_attempt_s: float | None = None
    backoff_s: float = 0.0
    rejected_by: tuple[str, ...] = ()
    rejected_after_filter: tuple[str, ...] = ()
    pending_on: tuple[str, ...] = ()
    gated_by: str = ""
    requeued_by: dict[str, tuple[str, ...]] = {}
    nominated_node: str = ""
    evicting: tuple[str, ...] = ()
    terminating: tuple[str, ...] = ()
    assumed_node: str = ""
    permit: dict[str, float] = {}
    message: str = ""
    decision: Decision | None = None
    explanation: ExplanationDocument | None = None


def state_of(explained: Explained) -> PodState:
    """Returns the state of a pod that was decided here, where there is no queue."""
    return PodState(
        pod=key(explained.pod),
        scheduler=profile_of(explained.pod),
        decision=explained.decision,
        explanation=document_of(explained),
    )


def encoded(state: PodState) -> str:
    """Returns a state as one line of JSON."""
    return msgspec.json.encode(state).decode()
