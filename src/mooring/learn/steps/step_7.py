"""Step 7: cluster events requeue the pods that they can help, and no others.

Each plugin registers the events that can resolve its rejections. For such an event, the queue
checks only the pods that this plugin rejected. A pod that was tried a moment ago backs off first.
"""

from __future__ import annotations

from mooring.client import ObjectChange
from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.learn.steps import step_5, step_6
from mooring.plugins import NodeUnschedulable, PrioritySort
from mooring.queue import node_changes
from mooring.scheduler.event_handlers import NODE_ADDED, NODE_GONE


class NodeNumber(step_5.NodeNumber):
    """Adds events: a pod that timed out in Permit may be approved on a new node."""

    def events(self) -> list[ClusterEventWithHint]:
        """Returns added nodes. NodeUnschedulable also registers uncordoned nodes."""
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]


class Scheduler(step_6.Scheduler):
    """Requeues unschedulable pods when an event can help them."""

    def plugins(self) -> list[object]:
        """Returns those of step 6, with the new NodeNumber."""
        return [PrioritySort(), NodeUnschedulable(), NodeNumber(self.handle)]

    def on_node(self, change: ObjectChange) -> None:
        """Updates the cache first, then the queue: a requeued pod sees the new node."""
        super().on_node(change)
        if change.old is None:
            events = [NODE_ADDED]
        elif change.new is None:
            events = [NODE_GONE]
        else:  # none if nothing changed for scheduling: nodes send a status every few seconds
            events = node_changes(change.old, change.new)
        for event in events:
            self.queue.move(event, change.old, change.new)
