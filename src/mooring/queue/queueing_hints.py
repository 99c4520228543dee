"""Queueing hints: the events that plugins register for, and whether an event requeues a pod.

Source: pkg/scheduler/scheduler.go (buildQueueingHintMap), backend/queue/scheduling_queue.go
(isPodWorthRequeuing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.errors import PluginError, exception_text
from mooring.framework import Framework
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.pod import DEFAULT_SCHEDULER_NAME, Pod
from mooring.queue.queued_pod import QueuedPod
from mooring.state.tables.pods import PodInfo

_log = logging.getLogger(__name__)

_EVERYTHING = ClusterEvent(EventResource.ANY, ActionType.ALL)
_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
#: The label of a hint that raised, in metrics.
HINT_FAILED = "Error"
#: kube-scheduler's name of the method, in messages.
_EVENTS = "EventsToRegister"


class RequeueStrategy(IntEnum):
    """The move of an unschedulable pod after an event; of several strategies the highest wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Registration(NamedTuple):
    """An event that a plugin of one profile registers for, with its hint."""

    profile: str
    plugin: str
    event_with_hint: ClusterEventWithHint


class Happened(NamedTuple):
    """An event, with the object before and after it."""

    event: ClusterEvent
    old: Any
    new: Any


class QueueingHints:
    """The registrations of all profiles.

    A plugin without an ``events`` method is registered for all events; one whose list is empty for
    none.

    Args:
        profiles: SchedulerName -> Framework.
        recorder: Records the calls of hints.

    Raises:
        PluginError: if a plugin's ``events`` fails.
    """

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._profiles = profiles
        self._recorder = recorder
        self._registrations = [
            Registration(name, plugin.name, event_with_hint)
            for name, framework in profiles.items()
            for plugin in framework.rejecting_plugins()
            for event_with_hint in _registered_events(framework, plugin)
        ]
        self._signing = {
            (registration.profile, registration.plugin)
            for registration in self._registrations
            if registration.event_with_hint.pure
        }
        self._matching: dict[ClusterEvent, dict[tuple[str, str], list[ClusterEventWithHint]]] = {}

    def registrations_for(self, event: ClusterEvent) -> Mapping[tuple[str, str], list[Any]]:
        """Returns (profile, plugin) -> its registrations that match the event."""
        matching = self._matching.get(event)
        if matching is None:
            matching = self._matching[event] = {}
            for profile, plugin, event_with_hint in self._registrations:
                if event_with_hint.event.matches(event):
                    matching.setdefault((profile, plugin), []).append(event_with_hint)
        return matching

    def resources(self) -> frozenset[EventResource | str]:
        """Returns the resources that plugins register for; ANY = some plugin for all."""
        return frozenset(
            registration.event_with_hint.event.resource for registration in self._registrations
        )

    def has_listeners(self, event: ClusterEvent) -> bool:
        """Returns whether any plugin registers for the event."""
        return event.is_wildcard or bool(self.registrations_for(event))

    def group(self, plugin: str, pod: PodInfo) -> tuple[str, Hashable]:
        """Returns the pod's profile, and the plugin's fragment of its signature.

        Pure hints return the same for pods of one group. A fragment of None: hints have to be
        called for every pod.
        """
        profile = profile_of(pod)
        if (profile, plugin) in self._signing:
            return profile, self._fragment(profile, plugin, pod)
        return profile, None

    def _fragment(self, profile: str, plugin: str, pod: PodInfo) -> Hashable | None:
        try:
            return self._profiles[profile].fragment(plugin, pod)
        except PluginError as error:
            self._profiles[profile].errors.count(error)
            # The pod is queued like any other; its next attempt fails with this error.
            _log.exception("plugin failed to sign a pod", extra={"plugin": plugin, "pod": pod.key})
            return None

    def helps(
        self,
        registrations: Sequence[ClusterEventWithHint],
        plugin: str,
        pod: PodInfo,
        happened: Happened,
    ) -> bool:
        """Returns whether the hint of one of the registrations returns "queue" for the pod."""
        return any(
            self._returns_queue(registration, plugin, pod, happened)
            for registration in registrations
        )

    def _returns_queue(
        self, registration: ClusterEventWithHint, plugin: str, pod: PodInfo, happened: Happened
    ) -> bool:
        event, old, new = happened
        started_s, label = self._recorder.now(), HINT_FAILED
        if registration.hint is None:
            # kube-scheduler calls a hint of its own there, and counts it.
            self._recorder.hint_called(plugin, event.label, QueueingHint.QUEUE.value, started_s)
            return True
        try:
            result = registration.hint(pod, old, new)
            if not isinstance(result, QueueingHint):
                raise TypeError(f"a hint is a QueueingHint, not {result!r}")
            label = result.value
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            failed = PluginError(plugin, "QueueingHint", exception_text(error))
            self._profiles[profile_of(pod)].errors.count(failed)
            _log.exception("queueing hint failed", extra={"plugin": plugin, "pod": pod.key})
            return True
        finally:
            self._recorder.hint_called(plugin, event.label, label, started_s)
        return result is QueueingHint.QUEUE

    def strategy(
        self, entry: QueuedPod, event: ClusterEvent, old: Any, new: Any
    ) -> RequeueStrategy:
        """Returns how an event moves a pod; calls the hints of the plugins that rejected it."""
        rejectors = entry.rejectors
        if not rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_for_another = new is not None and getattr(new, "uid", None) != entry.uid
            return RequeueStrategy.SKIP if is_for_another else RequeueStrategy.AFTER_BACKOFF
        profile, strategy = profile_of(entry.pod), RequeueStrategy.SKIP
        happened = Happened(event, old, new)
        by_plugin = self.registrations_for(event)
        for plugin in sorted(rejectors):
            registrations = by_plugin.get((profile, plugin))
            if registrations and self.helps(registrations, plugin, entry.pod, happened):
                strategy = max(strategy, strategy_of(entry, plugin))
        return strategy


def strategy_of(entry: QueuedPod, plugin: str) -> RequeueStrategy:
    """Returns how the pod moves if a hint of ``plugin``, which rejected it, returns "queue"."""
    return (
        RequeueStrategy.IMMEDIATELY
        if plugin in entry.pending_plugins
        else RequeueStrategy.AFTER_BACKOFF
    )


def profile_of(pod: Pod | PodInfo) -> str:
    """Returns the schedulerName of the pod."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME


def _listed(plugin: str, events: Callable[[], Any]) -> list[Any]:
    registered = events()
    if registered is None:
        return []
    if not isinstance(registered, Iterable):
        problem = f"returned {registered!r}, not a list of ClusterEventWithHint"
        raise PluginError(plugin, _EVENTS, problem)
    return list(registered)


def _registered_events(framework: Framework, plugin: Any) -> list[ClusterEventWithHint]:
    events = getattr(plugin, "events", None)
    if events is None:
        return [ClusterEventWithHint(_EVERYTHING)]
    registered: list[Any] = framework.call(plugin, _EVENTS, _listed, plugin.name, events)
    for item in registered:
        if not isinstance(item, ClusterEventWithHint):
            raise PluginError(plugin.name, _EVENTS, f"{item!r} is no ClusterEventWithHint")
    actions = [
        item.event.action for item in registered if item.event.resource is EventResource.NODE
    ]
    is_for_new_nodes = any(action & ActionType.ADD for action in actions)
    if is_for_new_nodes and not any(action & ActionType.UPDATE_NODE_TAINT for action in actions):
        # As kube-scheduler: a new node may be usable for the plugin only once it loses a taint.
        registered.append(ClusterEventWithHint(_TAINT))
    return registered
