"""The events of an update, and the pods that they help: written a second time, plainly.

No code is shared with ``mooring.queue``: every hint is called for every pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import Framework
from mooring.objects.node import Node
from mooring.state import PodInfo
from tests.faults.harness.reference_fit import allocatable_of

SKIP, AFTER_BACKOFF, IMMEDIATELY = 0, 1, 2

_PODS: Final = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)
_TAINT_UPDATE: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


def changes_of_pod(old: PodInfo, new: PodInfo) -> Iterator[ClusterEvent]:
    """Yields the events of a pod's update."""
    before, after = old.pod, new.pod
    was, now = before.status, after.status
    has_changed = {
        ActionType.UPDATE_POD_LABEL: before.metadata.labels != after.metadata.labels,
        ActionType.UPDATE_POD_SCALE_DOWN: any(
            new.usage.get(name, -1) < amount for name, amount in old.usage.items()
        ),
        ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: (
            len(before.spec.scheduling_gates) > 0 and len(after.spec.scheduling_gates) == 0
        ),
        ActionType.UPDATE_POD_TOLERATION: (
            len(before.spec.tolerations) != len(after.spec.tolerations)
        ),
        ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: (
            was.resource_claim_statuses != now.resource_claim_statuses
            or was.extended_resource_claim_status != now.extended_resource_claim_status
        ),
    }
    resource = _PODS[0] if after.spec.node_name else _PODS[1]
    actions = [action for action, is_so in has_changed.items() if is_so]
    for action in actions or [ActionType.UPDATE_OTHER]:
        yield ClusterEvent(resource, action)


def changes_of_node(old: Node, new: Node) -> Iterator[ClusterEvent]:
    """Yields the events of a node's update."""
    was, now = old.spec, new.spec
    statuses = [
        {condition.type: condition.status for condition in node.status.conditions}
        for node in (old, new)
    ]
    has_changed = [
        (ActionType.UPDATE_NODE_TAINT, was.unschedulable and not now.unschedulable),
        (ActionType.UPDATE_NODE_ALLOCATABLE, allocatable_of(old) != allocatable_of(new)),
        (ActionType.UPDATE_NODE_LABEL, old.metadata.labels != new.metadata.labels),
        (ActionType.UPDATE_NODE_TAINT, was.taints != now.taints),
        (ActionType.UPDATE_NODE_CONDITION, statuses[0] != statuses[1]),
        (
            ActionType.UPDATE_NODE_ANNOTATION,
            old.metadata.annotations != new.metadata.annotations,
        ),
        (
            ActionType.UPDATE_NODE_DECLARED_FEATURE,
            old.status.declared_features != new.status.declared_features,
        ),
    ]
    for action, is_so in has_changed:
        if is_so:
            yield ClusterEvent(EventResource.NODE, action)


#: The extension points whose plugins can reject a pod.
REJECTING: Final = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
EXTENDER: Final = "Extender"


class Registered:
    """The events that each plugin of each profile registers for.

    Args:
        profiles: schedulerName -> framework.
    """

    def __init__(self, profiles: Mapping[str, Framework]) -> None:
        self._events: dict[tuple[str, str], list[ClusterEventWithHint]] = {
            (name, plugin.name): _events_of(plugin)
            for name, framework in profiles.items()
            for point in REJECTING
            for plugin in framework.plugins(point)
        }
        # An extender registers nothing: any event requeues the pods that it rejected.
        self._events |= {
            (name, EXTENDER): _events_of(None)
            for name, framework in profiles.items()
            if framework.extenders
        }

    def resources(self) -> set[EventResource | str]:
        """Returns the resources of all registered events."""
        return {item.event.resource for events in self._events.values() for item in events}

    def has(self, event: ClusterEvent) -> bool:
        """Returns whether any plugin registers for the event."""
        return any(self.for_plugin(*key, event) for key in self._events)

    def for_plugin(
        self, profile: str, plugin: str, event: ClusterEvent
    ) -> list[ClusterEventWithHint]:
        """Returns the registrations of a plugin that cover the event."""
        registered = self._events.get((profile, plugin), [])
        return [registration for registration in registered if _covers(registration.event, event)]

    def strategy(
        self,
        pod: PodInfo,
        rejectors: set[str],
        pending: set[str],
        happened: tuple[ClusterEvent, Any, Any],
    ) -> int:
        """Returns how an event moves a pod that these plugins rejected."""
        event, old, new = happened
        if not rejectors:
            return AFTER_BACKOFF
        if event.resource is EventResource.ANY:
            return AFTER_BACKOFF if new is None or new.uid == pod.uid else SKIP
        profile = pod.spec.scheduler_name or "default-scheduler"
        helping = {
            plugin
            for plugin in rejectors
            if any(
                _helps(registration, pod, old, new)
                for registration in self.for_plugin(profile, plugin, event)
            )
        }
        if helping & pending:
            return IMMEDIATELY
        return AFTER_BACKOFF if helping else SKIP


def _events_of(plugin: Any) -> list[ClusterEventWithHint]:
    if getattr(plugin, "events", None) is None:
        return [ClusterEventWithHint(ClusterEvent(EventResource.ANY, ActionType.ALL))]
    events: list[ClusterEventWithHint] = list(plugin.events() or ())
    of_nodes = [
        registration.event.action
        for registration in events
        if registration.event.resource is EventResource.NODE
    ]
    adds = any(ActionType.ADD in action for action in of_nodes)
    if adds and not any(ActionType.UPDATE_NODE_TAINT in action for action in of_nodes):
        events.append(ClusterEventWithHint(_TAINT_UPDATE))
    return events


def _covers(registered: ClusterEvent, event: ClusterEvent) -> bool:
    resources = {event.resource, EventResource.ANY}
    if event.resource in _PODS:
        resources.add(EventResource.POD)
    is_covered = (int(event.action) & int(registered.action)) == int(event.action)
    return registered.resource in resources and is_covered


def _helps(registered: ClusterEventWithHint, pod: PodInfo, old: Any, new: Any) -> bool:
    if registered.hint is None:
        return True
    try:
        # A hint that raises, or returns anything else, queues the pod.
        return registered.hint(pod, old, new) is not QueueingHint.SKIP
    except Exception:  # noqa: BLE001 - see above
        return True
