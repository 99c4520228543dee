"""Records what the tables of a result do not say: changes of nodes, refusals, preemptions.

The page plays a result back with them. They are no part of the digest: equal runs have equal events
as well, but a run may have more of them than are kept.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.objects.codec.decode import to_builtins
from mooring.objects.node import Node
from mooring.scenario.tables.columns import Times

if TYPE_CHECKING:
    from mooring.clock import Clock

#: Events by name. NODE: a node was added or changed; its text is the node as JSON.
NODE: Final = "node"
NODE_REMOVED: Final = "node-removed"
NODE_FAILED: Final = "node-failed"
SCALE_UP: Final = "scale-up"
REFUSED: Final = "refused"
REJECTED: Final = "rejected"
ERROR: Final = "error"
PREEMPTS: Final = "preempts"
GATED: Final = "gated"
UNGATED: Final = "ungated"
#: From here on events of the kind that its text names are not kept.
LIMIT: Final = "limit"

#: Events of nodes, and of pods, that are kept: about 100 MB of text each in the worst case.
NODE_EVENTS_MAX: Final = 200_000
POD_EVENTS_MAX: Final = 200_000
#: Characters of a message, and names of victims, that are kept.
MESSAGE_LENGTH_MAX: Final = 1_000
VICTIMS_MAX: Final = 100
NODES, PODS = "nodes", "pods"
_LIMITS: Final = {NODES: NODE_EVENTS_MAX, PODS: POD_EVENTS_MAX}


class EventLog:
    """The events of a run, in their order.

    Args:
        clock: Virtual time.
        limits: The most events of nodes and of pods.
    """

    def __init__(self, clock: Clock, limits: dict[str, int] | None = None) -> None:
        self._clock = clock
        self._left = dict(_LIMITS if limits is None else limits)
        self._times_s = array("d")
        self._names: list[str] = []
        self._objects: list[str] = []
        self._nodes: list[str] = []
        self._texts: list[str] = []
        self._plugins: list[str] = []
        #: Name -> the text of a node's last event.
        self._last: dict[str, str] = {}

    def node(self, node: Node) -> None:
        """Notes a node that was added or changed; other fields than the kept ones do not count."""
        name, text = node.metadata.name, _text_of(node)
        if self._last.get(name) != text:
            self._last[name] = text
            self._add(NODES, NODE, name, text=text)

    def node_removed(self, name: str) -> None:
        """Notes a node that was removed."""
        self._last.pop(name, None)
        self._add(NODES, NODE_REMOVED, name)

    def node_failed(self, name: str) -> None:
        """Notes a node that crashed, or says that it is not ready."""
        self._add(NODES, NODE_FAILED, name)

    def scaled_up(self, group: str, count: int) -> None:
        """Notes that the autoscaler asked for nodes of a group."""
        self._add(NODES, SCALE_UP, group, text=str(count))

    def failed(self, name: str, pod_key: str, message: str, plugins: Iterable[str] = ()) -> None:
        """Notes a failed attempt: ``REFUSED``, ``REJECTED`` (after Filter) or ``ERROR``."""
        text = message[:MESSAGE_LENGTH_MAX]
        self._add(PODS, name, pod_key, text=text, plugins=",".join(sorted(plugins)))

    def preempts(self, pod_key: str, node: str, victims: list[str]) -> None:
        """Notes an attempt that evicts pods of a node."""
        self._add(PODS, PREEMPTS, pod_key, node=node, text=",".join(victims[:VICTIMS_MAX]))

    def gated(self, pod_key: str, gates: Iterable[str]) -> None:
        """Notes the scheduling gates of a pod; without any it is free."""
        text = ",".join(gates)
        self._add(PODS, GATED if text else UNGATED, pod_key, text=text)

    def columns(self) -> dict[str, Sequence[Any]]:
        """Returns the events as a table."""
        return {
            "time_s": Times(self._times_s),
            "event": self._names,
            "object": self._objects,
            "on_node": self._nodes,
            "text": self._texts,
            "plugins": self._plugins,
        }

    def _add(
        self, kind: str, name: str, obj: str, *, node: str = "", text: str = "", plugins: str = ""
    ) -> None:
        left = self._left[kind]
        if left < 0:
            return
        self._left[kind] = left - 1
        if left == 0:
            name, obj, node, text, plugins = LIMIT, "", "", kind, ""
        self._times_s.append(self._clock.monotonic_s())
        self._names.append(name)
        self._objects.append(obj)
        self._nodes.append(node)
        # Most refusals are repeated, word for word.
        self._texts.append(sys.intern(text))
        self._plugins.append(sys.intern(plugins))


def _text_of(node: Node) -> str:
    """Returns what the page shows of a node, as JSON."""
    whole = to_builtins(node)
    metadata, spec = whole.get("metadata") or {}, whole.get("spec") or {}
    status = whole.get("status") or {}
    document = {
        "metadata": {"name": node.metadata.name, "labels": metadata.get("labels") or {}},
        "spec": {
            "unschedulable": node.spec.unschedulable,
            "taints": [
                {name: value for name, value in taint.items() if name != "timeAdded"}
                for taint in spec.get("taints") or ()
            ],
        },
        "status": {
            "allocatable": status.get("allocatable") or {},
            "conditions": [
                {"type": item.type, "status": item.status}
                for item in node.status.conditions
                if item.type == "Ready"
            ],
        },
    }
    return msgspec.json.encode(document).decode()
