"""The documents that the page shows, and the protocol of their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mooring.explain.node_rejections import NodeRejections
from mooring.ui.attempts import AttemptRecord
from mooring.ui.node_columns import NodeChanges, NodeColumns
from mooring.ui.player import PlayerState, Timeline
from mooring.ui.verdicts import VerdictPage, VerdictQuery


class Counts(msgspec.Struct, rename="camel"):
    """Numbers of pods and nodes.

    Attributes:
        nodes: Nodes.
        bound: Pods on a node.
        binding: Pods that are being bound.
        permit: Those of them that wait in Permit.
        active: Pods in the active queue, those of a running attempt included.
        backoff: Pods in backoff.
        unschedulable: Pods that wait for an event.
        gated: Pods that a PreEnqueue plugin holds back.
        nominated: Pods that are nominated to a node.
        attempts: Attempts so far.
    """

    nodes: int
    bound: int
    binding: int
    permit: int
    active: int
    backoff: int
    unschedulable: int
    gated: int
    nominated: int
    attempts: int


class State(msgspec.Struct, rename="camel"):
    """Everything that the page needs to begin.

    Attributes:
        title: Of the cluster.
        kubeconfig: The line that makes kubectl talk to it; "" = there is none.
        is_writable: Whether objects can be applied and deleted.
        time_s: Now; seconds since 1970.
        generation: Of the node columns.
        resources: The resources, in the order of the columns.
        nodes: All nodes.
        counts: The numbers.
        attempt: The number of the last attempt.
        player: The position of what is played back; None = the cluster is live.
        timeline: Its markers.
    """

    title: str
    kubeconfig: str
    is_writable: bool
    time_s: float
    generation: int
    resources: list[str]
    nodes: NodeColumns
    counts: Counts
    attempt: int
    player: PlayerState | None = None
    timeline: Timeline | None = None


class Tick(msgspec.Struct, rename="camel"):
    """The changes since the last tick.

    Attributes:
        time_s: Now; seconds since 1970.
        nodes: Of the nodes.
        counts: The numbers.
        attempt: The number of the last attempt.
        attempts: The latest attempts since the last tick, the oldest first.
        player: The position of what is played back; None = the cluster is live.
    """

    time_s: float
    nodes: NodeChanges
    counts: Counts
    attempt: int
    attempts: list[AttemptRecord]
    player: PlayerState | None = None


class QueuedPodRow(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A pod in a queue. Times are in seconds.

    Attributes:
        pod: "namespace/name".
        priority: Its priority.
        attempts: Attempts so far.
        waits_s: How long it has been in this queue.
        backoff_s: How long its backoff lasts yet.
        plugins: The plugins that rejected it, or hold it back.
        node: The node that it waits for: nominated, or where it is being bound.
    """

    pod: str
    priority: int
    attempts: int = 0
    waits_s: float = 0.0
    backoff_s: float | None = None
    plugins: tuple[str, ...] = ()
    node: str = ""


class Reason(msgspec.Struct, rename="camel"):
    """Unschedulable pods with one message.

    Attributes:
        message: The message of their last attempt.
        plugins: The plugins that rejected them.
        events: The events that requeue them, in kube-scheduler's words.
        count: How many they are.
        pods: The first of them.
    """

    message: str
    plugins: tuple[str, ...]
    events: tuple[str, ...]
    count: int
    pods: list[str]


class Queue(msgspec.Struct, rename="camel"):
    """The scheduling queue: the first pods of each part, as the queue orders them.

    Attributes:
        counts: The numbers.
        active: Pods that are scheduled next.
        backoff: Pods in backoff, the next one first.
        gated: Pods that a PreEnqueue plugin holds back.
        permit: Pods that wait in Permit.
        nominated: Pods that are nominated to a node.
        reasons: Unschedulable pods by reason, the most frequent first.
    """

    counts: Counts
    active: list[QueuedPodRow]
    backoff: list[QueuedPodRow]
    gated: list[QueuedPodRow]
    permit: list[QueuedPodRow]
    nominated: list[QueuedPodRow]
    reasons: list[Reason]


class PodRow(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A pod in a list.

    Attributes:
        pod: "namespace/name".
        state: ``bound``, ``binding``, or the queue that it is in.
        node: Its node; "" = none.
        requests: Its requests as text.
        priority: Its priority.
        created: When it was created, RFC 3339.
    """

    pod: str
    state: str
    node: str = ""
    requests: str = ""
    priority: int = 0
    created: str = ""


class PodPage(msgspec.Struct, rename="camel"):
    """Some pods of a list.

    Attributes:
        pods: The pods, by name.
        next: The name after which the list goes on; "" = it ends.
    """

    pods: list[PodRow]
    next: str = ""


class PodDetails(msgspec.Struct, rename="camel"):
    """One pod.

    Attributes:
        row: As in a list.
        object: The object, as the API server has it.
        attempts: Its attempts, the oldest first.
    """

    row: PodRow
    object: Any
    attempts: list[AttemptRecord]


class NodeDetails(msgspec.Struct, rename="camel"):
    """One node.

    Attributes:
        object: The object, as the API server has it.
        pods: The pods on it, by name.
    """

    object: Any
    pods: list[PodRow]


class Applied(msgspec.Struct, rename="camel"):
    """The outcome of applying one object.

    Attributes:
        line: The line of the text where its document begins.
        object: Its kind and name.
        message: What was done, or the error.
        is_ok: Whether it was stored.
    """

    line: int
    object: str
    message: str
    is_ok: bool


class Board(Protocol):
    """The source of everything that the page shows."""

    def state(self) -> State:
        """Returns everything at this moment."""
        ...

    def tick(self, generation: int, attempt: int, resources: Sequence[str]) -> Tick:
        """Returns what has changed since a generation and an attempt."""
        ...

    def watched(self, count: int) -> None:
        """Tells how many pages look."""
        ...

    def queue(self) -> Queue:
        """Returns the scheduling queue."""
        ...

    async def pods(self, *, state: str, text: str, after: str) -> PodPage:
        """Returns pods by state and a part of their name."""
        ...

    async def pod(self, name: str) -> PodDetails:
        """Returns a pod.

        Raises:
            BoardError: there is none.
        """
        ...

    async def explain(self, name: str) -> bytes:
        """Returns the JSON of a pod's state and of the decision about it now.

        Raises:
            BoardError: there is no such pod.
        """
        ...

    async def explain_on_copy(self, name: str) -> bytes:
        """Returns the JSON of the decision on a copy, with the changes that help.

        Raises:
            BoardError: there is no such pod, or the cluster is too large.
        """
        ...

    async def node(self, name: str) -> NodeDetails:
        """Returns a node.

        Raises:
            BoardError: there is none.
        """
        ...

    async def rejections(self, node: str) -> NodeRejections:
        """Returns the pods that wait, by the reasons why a node rejects them.

        Raises:
            BoardError: there is no such node.
        """
        ...

    def attempts(self, *, result: str, text: str) -> list[AttemptRecord]:
        """Returns the latest attempts with a result and a part of the pod's name."""
        ...

    def verdicts(self, number: int, query: VerdictQuery) -> VerdictPage:
        """Returns the verdicts on nodes in an attempt.

        Raises:
            BoardError: the attempt, or its verdicts, are not kept.
        """
        ...

    def play(self, command: Mapping[str, Any]) -> PlayerState:
        """Plays, pauses or seeks: see ``Player.command``.

        Raises:
            BoardError: the cluster is live, or the command is invalid.
        """
        ...

    async def apply(self, text: str) -> list[Applied]:
        """Applies the objects of a YAML text, one after the other.

        Nothing is applied of a text that cannot be read.
        """
        ...

    async def delete(self, reference: Mapping[str, str]) -> str:
        """Deletes an object: ``kind``, ``namespace`` and ``name``; returns what was done.

        Raises:
            BoardError: it cannot be deleted.
        """
        ...

    async def load(self, text: str, *, replaces: bool) -> list[Applied]:
        """Applies the objects of a snapshot; with ``replaces`` all others are removed before."""
        ...

    async def reset(self) -> str:
        """Removes all objects; returns what was done.

        Raises:
            BoardError: some cannot be removed.
        """
        ...

    async def export(self) -> bytes:
        """Returns the objects of the cluster as one JSON list, which mooring reads."""
        ...
