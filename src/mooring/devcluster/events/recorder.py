"""Records the events of simulated controllers and kubelets in the embedded API server.

They are stored at once, without a request: recording never waits, and changes neither the order of
requests nor the numbers of the random generator.

Source: client-go's tools/record/event.go.
"""

from __future__ import annotations

from typing import Final

from mooring.apiserver.registry.own_events import OwnEvents
from mooring.apiserver.types import Object
from mooring.clock import Clock, rfc3339
from mooring.devcluster.events.correlation import (
    Correlator,
    NewEvent,
    Observation,
    Reference,
)
from mooring.objects.kinds import Kind
from mooring.objects.meta import ObjectMeta

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
_NAME_LENGTH_MAX: Final = 253
#: Objects about namespaced things are in their namespace, others here.
_NAMESPACE: Final = "default"


class EventRecorder:
    """Records events.

    Args:
        events: Stores them.
        clock: For their times.
    """

    def __init__(self, events: OwnEvents, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        #: Component -> the events of its own; at most one for each controller.
        self._correlators: dict[str, Correlator] = {}
        self._last_ns = 0

    def record(
        self,
        component: str,
        regarding: Reference,
        type: str,  # noqa: A002 - the field's word
        reason: str,
        message: str,
        *,
        host: str = "",
    ) -> None:
        """Records an event about an object; similar ones are combined, and many are limited.

        Args:
            component: The source, as "replicaset-controller".
            regarding: The object.
            type: ``NORMAL`` or ``WARNING``.
            reason: In CamelCase.
            message: For users.
            host: The node of the source; "" for controllers.
        """
        event = NewEvent(component, host, regarding, type, reason, message)
        correlator = self._correlators.get(component)
        if correlator is None:
            correlator = self._correlators[component] = Correlator()
        now_s = self._clock.wall_s()
        observation = correlator.observe(event, self._name(regarding.name, now_s), now_s)
        if observation is not None:
            self._write(event, observation, rfc3339(now_s))

    def _write(self, event: NewEvent, observation: Observation, now: str) -> None:
        namespace = event.regarding.namespace or _NAMESPACE
        if observation.times > 1:
            fields: Object = {
                "count": observation.times,
                "lastTimestamp": now,
                "message": observation.message,
            }
            if self._events.update(namespace, observation.name, fields):
                return
        self._events.create(_event(event, observation, namespace, now))

    def _name(self, regarding: str, now_s: float) -> str:
        """Returns a unique name: the object's name and the time; the clock may stand still."""
        self._last_ns = max(self._last_ns + 1, int(now_s * 1e9))
        name = f"{regarding}.{self._last_ns:x}"
        return name if len(name) <= _NAME_LENGTH_MAX else f"event.{self._last_ns:x}"


def reference_to(kind: Kind, metadata: ObjectMeta, field_path: str = "") -> Reference:
    """Returns the reference of an event to an object, or to a part of it."""
    return Reference(
        kind.api_version,
        kind.name,
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        field_path,
    )


def _event(event: NewEvent, observation: Observation, namespace: str, now: str) -> Object:
    regarding = event.regarding
    involved: Object = {
        "kind": regarding.kind,
        "name": regarding.name,
        "apiVersion": regarding.api_version,
    }
    if regarding.namespace:
        involved["namespace"] = regarding.namespace
    if regarding.uid:
        involved["uid"] = regarding.uid
    if regarding.version:
        involved["resourceVersion"] = regarding.version
    if regarding.field_path:
        involved["fieldPath"] = regarding.field_path
    source = {"component": event.component}
    if event.host:
        source["host"] = event.host
    is_combined = observation.is_combined
    return {
        "metadata": {"name": observation.name, "namespace": namespace},
        "involvedObject": involved,
        "reason": event.reason,
        "message": observation.message,
        "source": source,
        "firstTimestamp": rfc3339(observation.first_s),
        "lastTimestamp": now,
        "count": observation.times,
        "type": event.type,
        "eventTime": None,
        "reportingComponent": "" if is_combined else event.component,
        "reportingInstance": "" if is_combined else event.host,
    }
