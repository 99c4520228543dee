"""Pods that no node takes, and pods behind a gate: found by the plugins that refused them.

An event goes to the plugins that registered for it, and from there to the pods that these plugins
refused, and to no others. Pods that a plugin reads the same are one group, for which its pure hints
are asked once: 100 000 replicas of a pod cost an event as much as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from mooring.cluster_event import ClusterEvent
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queueing_hints import QueueingHints, RequeueStrategy, profile_of, strategy_of

_Group = dict[str, QueuedPod]


class UnschedulablePods:
    """Pods by UID, and by (plugin, what the plugin reads of the pod)."""

    def __init__(self, hints: QueueingHints) -> None:
        self._hints = hints
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[str, dict[tuple[str, Hashable], _Group]] = {}
        #: UIDs of those behind a gate.
        self._gated: set[str] = set()
        self._last_order = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """In the order in which they were parked."""
        return iter(self._pods.values())

    @property
    def gated_count(self) -> int:
        """How many of them are behind a gate."""
        return len(self._gated)

    def add(self, entry: QueuedPod) -> None:
        """Parks a pod; one that is parked already keeps its turn, under its present rejectors."""
        self._forget_groups(entry)
        if entry.uid not in self._pods:
            self._last_order += 1
            entry.order = self._last_order
            self._pods[entry.uid] = entry
        (self._gated.add if entry.gating_plugin else self._gated.discard)(entry.uid)
        # Behind a gate nobody but the gate keeper can help.
        plugins = [entry.gating_plugin] if entry.gating_plugin else sorted(entry.rejectors)
        entry.groups = tuple((plugin, self._hints.group(plugin, entry.pod)) for plugin in plugins)
        for plugin, group in entry.groups:
            self._groups.setdefault(plugin, {}).setdefault(group, {})[entry.uid] = entry

    def remove(self, entry: QueuedPod) -> None:
        """Lets a pod go."""
        self._forget_groups(entry)
        del self._pods[entry.uid]
        self._gated.discard(entry.uid)

    def accepts_event(self, entry: QueuedPod, event: ClusterEvent) -> bool:
        """Whether an event can reach a pod: behind a gate, only one that the gate keeper wants."""
        if not entry.gating_plugin:
            return True
        return (profile_of(entry.pod), entry.gating_plugin) in self._hints.registrations_for(event)

    def pods_to_requeue(
        self, event: ClusterEvent, old: Any, new: Any
    ) -> list[tuple[QueuedPod, RequeueStrategy]]:
        """Returns the pods that an event can help, in the order in which they were parked.

        Complexity: O(groups of the plugins that registered for it + pods that are helped), if
        their hints are pure; else their pods.
        """
        if event.is_wildcard:
            heard = [entry for entry in self if self.accepts_event(entry, event)]
            judged = [(entry, self._hints.strategy(entry, event, old, new)) for entry in heard]
            return [each for each in judged if each[1] is not RequeueStrategy.SKIP]
        found: dict[str, tuple[QueuedPod, RequeueStrategy]] = {}
        for (profile, plugin), wanted in self._hints.registrations_for(event).items():
            for entry in self._pods_requeued_by(plugin, profile, wanted, old, new):
                before = found.get(entry.uid, (entry, RequeueStrategy.SKIP))[1]
                strategy = strategy_of(entry, plugin)
                if entry.gating_plugin and entry.pending_plugins:
                    # It is listed under the gate alone, but may wait for this as well.
                    strategy = self._hints.strategy(entry, event, old, new)
                found[entry.uid] = entry, max(before, strategy)
        return sorted(found.values(), key=lambda each: each[0].order)

    def _pods_requeued_by(
        self, plugin: str, profile: str, wanted: list[Any], old: Any, new: Any
    ) -> Iterator[QueuedPod]:
        """Returns the pods of one profile that one of its plugins says the event can help."""
        is_pure = all(each.pure or each.hint is None for each in wanted)
        for (of_profile, fragment), group in list(self._groups.get(plugin, {}).items()):
            if of_profile == profile:
                share = is_pure and (fragment is not None or _always(wanted))
                yield from self._ask(wanted, plugin, group, old, new, share=share)

    def _ask(
        self, wanted: list[Any], plugin: str, group: _Group, old: Any, new: Any, *, share: bool
    ) -> Iterable[QueuedPod]:
        """The pods of a group that the event can help; asks about one of them if they share."""
        if not share:
            return [
                entry
                for entry in list(group.values())
                if self._hints.helps(wanted, plugin, entry.pod, old, new)
            ]
        anyone = next(iter(group.values()))
        helps = self._hints.helps(wanted, plugin, anyone.pod, old, new)
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


def _always(wanted: list[Any]) -> bool:
    return any(each.hint is None for each in wanted)
