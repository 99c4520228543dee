"""Step 7: what happens in the cluster wakes the pods that it can help, and no others.

Each plugin says which events can help a pod that it refused. When one of them happens, the queue
looks only at the pods that this plugin has refused. Who was tried a moment ago backs off first.
"""

from __future__ import annotations

from mooring.client import Change
from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.learn.steps import step_5, step_6
from mooring.plugins import NodeUnschedulable, PrioritySort
from mooring.queue import node_changes
from mooring.scheduler.event_handlers import NODE_ADDED, NODE_GONE


class NodeNumber(step_5.NodeNumber):
    """As before; a pod that it held back for too long may have more luck with a new node."""

    def events(self) -> list[ClusterEventWithHint]:
        """New nodes. NodeUnschedulable says more: cordoned nodes may be opened again."""
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]


class Scheduler(step_6.Scheduler):
    """As before, but parked pods are woken."""

    def plugins(self) -> list[object]:
        """As before, with the new NodeNumber."""
        return [PrioritySort(), NodeUnschedulable(), NodeNumber(self.handle)]

    def on_node(self, change: Change) -> None:
        """Tell the cache first and the queue second: who is woken sees what woke it."""
        super().on_node(change)
        if change.old is None:
            events = [NODE_ADDED]
        elif change.new is None:
            events = [NODE_GONE]
        else:  # none, if nothing has changed that matters: nodes report every few seconds
            events = node_changes(change.old, change.new)
        for event in events:
            self.queue.move(event, change.old, change.new)
