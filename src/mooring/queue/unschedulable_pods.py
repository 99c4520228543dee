"""Unschedulable and gated pods, indexed by the plugins that rejected them.

An event reaches the plugins that registered for it, and only the pods that these plugins rejected.
Pods with an equal fragment of a plugin are one group, for which its pure hints are called once:
100 000 replicas of a pod cost as much as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from mooring.cluster_event import ClusterEvent
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queueing_hints import (
    Happened,
    QueueingHints,
    RequeueStrategy,
    profile_of,
    strategy_of,
)

_Group = dict[str, QueuedPod]


class UnschedulablePods:
    """Pods by UID, and by (plugin, fragment of the pod's signature)."""

    def __init__(self, hints: QueueingHints) -> None:
        self._hints = hints
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[str, dict[tuple[str, Hashable], _Group]] = {}
        #: UIDs of the gated pods.
        self._gated: set[str] = set()
        self._last_order = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterates in the order of insertion."""
        return iter(self._pods.values())

    @property
    def gated_count(self) -> int:
        """Number of gated pods."""
        return len(self._gated)

    def add(self, entry: QueuedPod) -> None:
        """Adds a pod; one that is here already keeps its order, under its present rejectors."""
        self._forget_groups(entry)
        if entry.uid not in self._pods:
            self._last_order += 1
            entry.order = self._last_order
            self._pods[entry.uid] = entry
        (self._gated.add if entry.gating_plugin else self._gated.discard)(entry.uid)
        entry.groups = tuple(
            (plugin, self._hints.group(plugin, entry.pod)) for plugin in sorted(entry.rejectors)
        )
        for plugin, group in entry.groups:
            self._groups.setdefault(plugin, {}).setdefault(group, {})[entry.uid] = entry

    def remove(self, entry: QueuedPod) -> None:
        """Removes a pod."""
        self._forget_groups(entry)
        del self._pods[entry.uid]
        self._gated.discard(entry.uid)

    def older_than(self, time_s: float) -> list[QueuedPod]:
        """Returns the pods that entered the queue before a time, in the order of insertion."""
        return [entry for entry in self if entry.timestamp_s < time_s]

    def accepts_event(self, entry: QueuedPod, event: ClusterEvent) -> bool:
        """Returns whether the event may requeue this pod.

        A gated pod accepts only events that its gating plugin registers for.
        """
        if not entry.gating_plugin:
            return True
        return (profile_of(entry.pod), entry.gating_plugin) in self._hints.registrations_for(event)

    def pods_to_requeue(
        self, event: ClusterEvent, old: Any, new: Any
    ) -> list[tuple[QueuedPod, RequeueStrategy]]:
        """Returns the pods that an event requeues, in the order of insertion.

        Complexity: O(groups of the plugins that registered for it + pods that are requeued), if
        their hints are pure; else O(their pods).
        """
        if not self._pods:
            return []
        if event.is_wildcard:
            entries = [entry for entry in self if self.accepts_event(entry, event)]
            strategies = [
                (entry, self._hints.strategy(entry, event, old, new)) for entry in entries
            ]
            return [pair for pair in strategies if pair[1] is not RequeueStrategy.SKIP]
        happened = Happened(event, old, new)
        requeued: dict[str, tuple[QueuedPod, RequeueStrategy]] = {}
        for (profile, plugin), registrations in self._hints.registrations_for(event).items():
            if plugin not in self._groups:
                continue
            for entry in self._pods_requeued_by(plugin, profile, registrations, happened):
                if not self.accepts_event(entry, event):
                    continue
                before = requeued.get(entry.uid, (entry, RequeueStrategy.SKIP))[1]
                requeued[entry.uid] = entry, max(before, strategy_of(entry, plugin))
        return sorted(requeued.values(), key=lambda pair: pair[0].order)

    def _pods_requeued_by(
        self, plugin: str, profile: str, registrations: list[Any], happened: Happened
    ) -> Iterator[QueuedPod]:
        """Yields the pods of one profile that the hints of one of its plugins requeue."""
        is_pure = all(
            registration.pure or registration.hint is None for registration in registrations
        )
        for (of_profile, fragment), group in list(self._groups.get(plugin, {}).items()):
            if of_profile == profile:
                share = is_pure and (fragment is not None or _always(registrations))
                yield from self._requeued_in_group(
                    registrations, plugin, group, happened, share=share
                )

    def _requeued_in_group(
        self,
        registrations: list[Any],
        plugin: str,
        group: _Group,
        happened: Happened,
        *,
        share: bool,
    ) -> Iterable[QueuedPod]:
        """Returns the pods of a group that the event requeues; ``share`` = with one hint call."""
        if not share:
            return [
                entry
                for entry in list(group.values())
                if self._hints.helps(registrations, plugin, entry.pod, happened)
            ]
        representative = next(iter(group.values()))
        helps = self._hints.helps(registrations, plugin, representative.pod, happened)
        return group.values() if helps else ()

    def _forget_groups(self, entry: QueuedPod) -> None:
        for plugin, group in entry.groups:
            members = self._groups[plugin][group]
            del members[entry.uid]
            if not members:
                del self._groups[plugin][group]
                if not self._groups[plugin]:
                    del self._groups[plugin]
        entry.groups = ()


def _always(registrations: list[Any]) -> bool:
    return any(registration.hint is None for registration in registrations)
