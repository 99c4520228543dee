"""Which plugin wants to hear of which event, and what it says to it.

Source: pkg/scheduler/scheduler.go (buildQueueingHintMap), backend/queue/scheduling_queue.go
(isPodWorthRequeuing).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.errors import PluginError
from mooring.framework import Framework
from mooring.queue.queued_pod import QueuedPod
from mooring.state.tables.pods import PodInfo

_log = logging.getLogger(__name__)

_EVERYTHING = ClusterEvent(EventResource.ANY, ActionType.ALL)
_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
#: kube-scheduler's name for the question, in messages.
_EVENTS = "EventsToRegister"


class RequeueStrategy(IntEnum):
    """What becomes of a parked pod after an event; the higher one wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Registration(NamedTuple):
    """A plugin's wish to hear of an event, in one profile."""

    profile: str
    plugin: str
    wanted: ClusterEventWithHint


class QueueingHints:
    """The registrations of all profiles.

    A plugin without an ``events`` method hears of everything; one that names no event is never
    asked.

    Raises:
        PluginError: if a plugin cannot say what it wants to hear of.
    """

    def __init__(self, profiles: Mapping[str, Framework]) -> None:
        self._profiles = profiles
        self._registrations = [
            Registration(name, plugin.name, wanted)
            for name, framework in profiles.items()
            for plugin in framework.rejecting_plugins()
            for wanted in _wanted(framework, plugin)
        ]
        self._signing = {
            (each.profile, each.plugin) for each in self._registrations if each.wanted.pure
        }
        self._matching: dict[ClusterEvent, dict[tuple[str, str], list[ClusterEventWithHint]]] = {}

    def registrations_for(self, event: ClusterEvent) -> Mapping[tuple[str, str], list[Any]]:
        """(Profile, plugin) -> its registrations that cover the event."""
        known = self._matching.get(event)
        if known is None:
            known = self._matching[event] = {}
            for profile, plugin, wanted in self._registrations:
                if wanted.event.matches(event):
                    known.setdefault((profile, plugin), []).append(wanted)
        return known

    def resources(self) -> frozenset[EventResource]:
        """What some plugin wants to hear of; ANY: there is one that hears of everything."""
        return frozenset(each.wanted.event.resource for each in self._registrations)

    def has_listeners(self, event: ClusterEvent) -> bool:
        """Returns whether any plugin wants to hear of it."""
        return event.is_wildcard or bool(self.registrations_for(event))

    def group(self, plugin: str, pod: PodInfo) -> tuple[str, Hashable]:
        """The pod's profile, and what the plugin reads of it: of equals, pure hints say the same.

        None in the second place: nothing is known, every pod has to be asked about.
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
            # The pod waits like any other; its next attempt fails with this error.
            _log.exception("a pod cannot be signed", extra={"plugin": plugin, "pod": pod.key})
            return None

    def helps(
        self, wanted: Sequence[ClusterEventWithHint], plugin: str, pod: PodInfo, old: Any, new: Any
    ) -> bool:
        """Returns whether one of a plugin's registrations says that the event can help the pod."""
        return any(self._says_queue(each, plugin, pod, old, new) for each in wanted)

    def _says_queue(
        self, wanted: ClusterEventWithHint, plugin: str, pod: PodInfo, old: Any, new: Any
    ) -> bool:
        if wanted.hint is None:
            return True
        try:
            says = wanted.hint(pod, old, new)
            if not isinstance(says, QueueingHint):
                raise TypeError(f"a hint is a QueueingHint, not {says!r}")
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything; one more attempt
            failed = PluginError(plugin, "QueueingHint", str(error))
            self._profiles[profile_of(pod)].errors.count(failed)
            _log.exception("a queueing hint failed", extra={"plugin": plugin, "pod": pod.key})
            return True
        return says is QueueingHint.QUEUE

    def strategy(
        self, entry: QueuedPod, event: ClusterEvent, old: Any, new: Any
    ) -> RequeueStrategy:
        """What becomes of a pod after an event; asks the plugins that refused it."""
        rejectors = entry.rejectors
        if not rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_for_another = new is not None and getattr(new, "uid", None) != entry.uid
            return RequeueStrategy.SKIP if is_for_another else RequeueStrategy.AFTER_BACKOFF
        profile, found = profile_of(entry.pod), RequeueStrategy.SKIP
        asked = self.registrations_for(event)
        for plugin in sorted(rejectors):
            wanted = asked.get((profile, plugin))
            if wanted and self.helps(wanted, plugin, entry.pod, old, new):
                found = max(found, strategy_of(entry, plugin))
        return found


def strategy_of(entry: QueuedPod, plugin: str) -> RequeueStrategy:
    """What it means for the pod that ``plugin``, which refused it, says "queue"."""
    return (
        RequeueStrategy.IMMEDIATELY
        if plugin in entry.pending_plugins
        else RequeueStrategy.AFTER_BACKOFF
    )


def profile_of(pod: PodInfo) -> str:
    """Returns the schedulerName that the pod asks for."""
    return pod.spec.scheduler_name or "default-scheduler"


def _wanted(framework: Framework, plugin: Any) -> list[ClusterEventWithHint]:
    events = getattr(plugin, "events", None)
    if events is None:
        return [ClusterEventWithHint(_EVERYTHING)]
    wanted = list(framework.call(plugin, _EVENTS, events) or ())
    for each in wanted:
        if not isinstance(each, ClusterEventWithHint):
            raise PluginError(plugin.name, _EVENTS, f"{each!r} is no ClusterEventWithHint")
    of_nodes = [each.event for each in wanted if each.event.resource is EventResource.NODE]
    hears_of_new = any(event.action & ActionType.ADD for event in of_nodes)
    if hears_of_new and not any(event.action & ActionType.UPDATE_NODE_TAINT for event in of_nodes):
        # kube-scheduler adds this, too: such a plugin's pods wake when a node loses its taint.
        wanted.append(ClusterEventWithHint(_TAINT))
    return wanted
