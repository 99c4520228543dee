"""The queueing hints and gates of the plugins in the run ``rules``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mooring.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from mooring.objects.codec.decode import convert
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.queue.event_diff import node_changes, pod_changes
from mooring.state import PodInfo
from tests.faults.parts.rules_model import UNRESOLVABLE, Changed, RulesModel, gate_reason, queues
from tests.faults.parts.rules_objects import Document

#: A status: its code, its reasons and its plugin; None = there is none.
Plain = tuple[str, tuple[str, ...], str] | None
POD_KINDS: Final = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)
#: Kind of objects -> the resource of its events.
RESOURCES: Final = {
    "Node": EventResource.NODE,
    "Pod": EventResource.ASSIGNED_POD,
    "PersistentVolume": EventResource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": EventResource.PERSISTENT_VOLUME_CLAIM,
    "StorageClass": EventResource.STORAGE_CLASS,
}


class PluginHints:
    """Asks every plugin about every change, and compares the answers with the model.

    Args:
        plugins: The plugins.
        model: Their rules.
        problems: Gets each difference.
    """

    def __init__(self, plugins: Sequence[Any], model: RulesModel, problems: list[str]) -> None:
        self._plugins, self._model, self._problems = plugins, model, problems

    def check(self, waiting: Sequence[Document], change: Changed) -> None:
        """Asks each plugin whether a change queues some pods."""
        old, new = (_converted(it, change.kind) for it in (change.old, change.new))
        events = list(events_of(RESOURCES[change.kind], old, new))
        for pod in waiting:
            info = PodInfo(convert(pod, "Pod"))
            for plugin in self._plugins:
                actual = answer(plugin, events, info, old, new)
                expected = queues(self._model, plugin.name, pod, change)
                if actual != expected:
                    self._problems.append(
                        f"{plugin.name} queues {pod}: {actual}, not {expected}, after {change}"
                    )

    def check_gates(self, pod: Document) -> None:
        """Compares what SchedulingGates says of a pod."""
        for plugin in self._plugins:
            if isinstance(plugin, SchedulingGates):
                status = plain(plugin.pre_enqueue(PodInfo(convert(pod, "Pod"))))
                reason = gate_reason(pod)
                expected = (UNRESOLVABLE, (reason,), "") if reason else None
                if status != expected:
                    self._problems.append(f"gates: {status}, not {expected}")


def plain(status: Any) -> Plain:
    """Returns the code, the reasons and the plugin of a status."""
    return None if status is None else (status.code.value, tuple(status.reasons), status.plugin)


def _converted(obj: Document | None, kind: str) -> Any:
    return None if obj is None else convert(obj, kind)


def events_of(resource: EventResource, old: Any, new: Any) -> Iterator[ClusterEvent]:
    """Yields the events of a change of an object of some kind."""
    if old is not None and new is not None:
        if resource is EventResource.NODE:
            yield from node_changes(old, new)
        elif resource is EventResource.ASSIGNED_POD:
            yield from pod_changes(PodInfo(old), PodInfo(new))
        else:
            yield ClusterEvent(resource, ActionType.UPDATE_OTHER)
    else:
        action = ActionType.ADD if new is not None else ActionType.DELETE
        yield ClusterEvent(resource, action)


def answer(
    plugin: Any,
    events: list[ClusterEvent],
    pod: PodInfo,
    old: Any,
    new: Any,
    *,
    is_only_pure: bool = False,
) -> bool:
    """Returns whether a plugin queues a pod after one of some events, by its pure hints or all."""
    for registered in plugin.events() if hasattr(plugin, "events") else ():
        if is_only_pure and not registered.pure:
            continue
        is_pod = registered.event.resource is EventResource.POD
        for event in events:
            is_same = event.resource is registered.event.resource or (
                is_pod and event.resource in POD_KINDS
            )
            if not is_same or not event.action & registered.event.action:
                continue
            hint = registered.hint
            if hint is None or hint(pod, old, new) is QueueingHint.QUEUE:
                return True
    return False
