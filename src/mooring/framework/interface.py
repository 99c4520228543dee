"""The plugin contract. Whoever writes a plugin reads this file and no other.

A plugin is any object with a ``name`` and at least one of the methods below; there is no base
class. The order of a pod's attempt::

    pre_enqueue   may the pod enter the queue at all?
    less          which of two waiting pods goes first?
    ---- deciding: def, never waits ------------------------------------------------------------
    pre_filter    once a pod: note what filter needs; narrow the nodes; refuse the pod
    filter        which nodes cannot take it, and why
    post_filter   no node was left: make room
    pre_score     once a pod: note what score needs
    score         how good is each node that is left, and normalize: make that 0..100
    reserve       the node is chosen: hold what it needs there (unreserve gives it back)
    permit        agree, refuse, or make the binding wait
    ---- talking: async def, may wait ------------------------------------------------------------
    pre_bind      prepare what must be there before the pod is bound
    bind          tell the API server
    post_bind     it is done

**Columns.** ``filter`` and ``score`` are asked about m nodes at once and answer with an array of
length m; ``@per_node`` turns a method about one node into that.

**Sharing.** Two pods that a plugin reads the same need not be read twice. A plugin that can say
so defines ``sign(pod)``, a hashable that equals for pods which it treats alike (None = this pod
cannot be shared), and ``reads``, the columns of a node that its answer for that node depends on.
Name, UID, versions and times are nothing to sign: pods that differ in them alone are signed once.
Then ``pre_filter``, ``filter``, ``pre_score`` and ``score`` must follow from ``sign(pod)`` and from
those columns of that one node, and the framework asks again only about nodes that changed.
``reads_other_nodes`` names columns of *other* nodes that matter too (how far an image has spread).
A plugin whose ``normalize`` makes the same of nothing but zeros for any pod and nodes says what, in
``normalized_zero``, and is not asked to then.
A plugin without ``sign`` and ``reads`` is asked for every pod about every node still feasible.
With ``sign`` alone it is too, but its queueing hints, if they are ``pure``, are asked once for all
waiting pods that it treats alike.

Mostly that is one node, the one that got the last pod, and columns of length 1 are slow. So such a
plugin may answer about one node in plain ints as well: ``filter_node(cycle, node)`` and
``score_node(cycle, node)``, which must say the same as ``filter`` and ``score``.

**Hypothetical nodes.** Filters also see nodes with pods added or removed (``NodeView.plus``,
``without``). State of pre_filter about pods on other nodes has to follow: ``apply_deltas(cycle,
state, nodes)`` returns the state for such a view, or ``add_pod``/``remove_pod`` change it for one
hypothetical node.

**Beside the decisions.** ``async def background(self)`` runs as long as the scheduler does and may
wait for anything: that is where numbers are fetched that ``score`` goes by. What it raises is
logged, and it is begun anew. Offline it does not run.

**Other objects.** ``needs`` names the kinds that a plugin reads from the snapshot beside nodes and
pods (``snapshot.workloads``); whoever runs it keeps them known.

**Refusals are values, errors are exceptions.** See ``verdict.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import ClusterEventWithHint
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.status import (
    FilterStatuses,
    PostFilterResult,
    PreFilterResult,
    Skip,
    Status,
    Wait,
)
from mooring.framework.waiting_pods import WaitingPod
from mooring.state.columns.change_log import Change
from mooring.state.tables.pods import PodInfo

Scores = npt.NDArray[np.int64]


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has: the name that configurations and messages use."""

    name: str


class QueuedPod(Protocol):
    """A pod that waits in the queue, as ``less`` compares it."""

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        ...

    @property
    def timestamp_s(self) -> float:
        """When it entered the queue this time; monotonic seconds."""
        ...


class PreEnqueue(Plugin, Protocol):
    """Before the queue: a refused pod is not tried until an event says otherwise."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None = let it in; ``Reject`` = hold it back."""
        ...


class QueueSort(Plugin, Protocol):
    """The order of the active queue; every profile has the same one."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Returns whether ``a`` is tried before ``b``."""
        ...

    def sort_key(self, pod: QueuedPod) -> Any:
        """The same order as a key, if there is one (optional): comparing keys is far quicker."""
        ...


class PreFilter(Plugin, Protocol):
    """Once a pod, before any node is looked at."""

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | Skip | None:
        """``SKIP`` = do not filter; ``PreFilterResult`` = only these nodes; ``Reject`` = none."""
        ...


class Filter(Plugin, Protocol):
    """Which nodes cannot take the pod."""

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """A verdict for each of the m nodes, which no plugin before this one has refused."""
        ...


class PostFilter(Plugin, Protocol):
    """No node can take the pod: perhaps room can be made."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """A status of None = room was made, and the pod is nominated to ``node_name``."""
        ...


class PreScore(Plugin, Protocol):
    """Once a pod, when two or more nodes can take it."""

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """``SKIP`` = this plugin does not score this pod."""
        ...


class Score(Plugin, Protocol):
    """How good each feasible node is."""

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """int64 shape (m,); 0..100 unless the plugin also has ``normalize``."""
        ...


class Normalize(Score, Protocol):
    """Raw scores, made comparable once all of them are known."""

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        """int64 shape (m,), each 0..100, from the raw ``scores`` of the same nodes."""
        ...


class Reserve(Plugin, Protocol):
    """Hold on the chosen node what only this plugin knows of."""

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """None = held; ``Reject`` = cannot be held after all."""
        ...

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Gives it back. Called too if ``reserve`` of this or a later plugin failed."""
        ...


class Permit(Plugin, Protocol):
    """The last word before binding."""

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        """None = go on; ``Wait`` = hold the binding; ``Reject`` = not this pod, not now."""
        ...


class PreBind(Plugin, Protocol):
    """What must be done before the pod is bound."""

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:
        """``SKIP`` = there is nothing to do for this pod (optional)."""
        ...

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Does it; may wait through ``handle.until``."""
        ...


class Bind(Plugin, Protocol):
    """Tell the API server where the pod goes."""

    async def bind(self, cycle: Cycle, node_name: str) -> Status | Skip | None:
        """None = bound; ``SKIP`` = leave it to the next bind plugin."""
        ...


class PostBind(Plugin, Protocol):
    """The pod is bound."""

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Cleans up, count, tell."""
        ...


class Shareable(Plugin, Protocol):
    """A plugin whose answers for equal pods need not be computed twice (see the top)."""

    reads: ClassVar[Change]

    def sign(self, pod: PodInfo) -> Hashable | None:
        """What the plugin reads of the pod; None = answers for this pod cannot be shared."""
        ...


class OneNode(Shareable, Protocol):
    """A shareable plugin that can also answer about one node without columns."""

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """As ``filter``, of one node."""
        ...

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """As ``score``, of one node."""
        ...


class Shift(Plugin, Protocol):
    """A plugin whose pre-filter state counts pods beyond the node.

    It follows added and removed pods, for all worlds of a view at once.
    """

    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        """The state for this view; ``nodes.added`` and ``nodes.removed`` say what differs."""
        ...


class AddRemovePod(Plugin, Protocol):
    """As ``Shift``, one world and one pod at a time. Price: one filter call per world."""

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        """Returns the state as if ``pod`` were on ``node`` too; ``state`` itself stays as it is."""
        ...

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        """Returns the state as if ``pod`` were not on ``node``; ``state`` itself stays as it is."""
        ...


class Events(Plugin, Protocol):
    """Which cluster events can make a pod schedulable that this plugin refused."""

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Without this method every event wakes the pod; with an empty answer none does."""
        ...


class Handle(Protocol):
    """What a plugin is given of the world. Time and chance come from here and nowhere else."""

    @property
    def snapshot(self) -> Any:
        """The snapshot of the cycle that is open (``mooring.state.Snapshot``)."""
        ...

    def monotonic_s(self) -> float:
        """Returns the clock, in seconds."""
        ...

    def random(self) -> float:
        """Returns a number in [0, 1) from the run's seeded generator."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Returns the pod with this UID, if Permit holds it back: ``allow`` or ``reject`` it."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Returns all pods that Permit holds back, in the order in which they began to wait."""
        ...

    def activate(self, *uids: str) -> None:
        """Tries these pods now, if they wait in the queue; unknown ones are passed over."""
        ...

    def is_preempting(self, uid: str) -> bool:
        """Returns whether pods are being evicted at this moment to make room for this one."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, ``delay_s`` seconds from now, between two attempts."""
        ...

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod (with its UID) to the node.

        Raises:
            Conflict, NotFound, OutcomeUnknown: see ``mooring.errors``.
        """
        ...

    async def read(self, path: str) -> bytes:
        """What the API server answers to a GET of ``path``.

        Raises:
            ApiError, Unreachable: see ``mooring.errors``.
            PluginError: there is no API server.
        """
        ...

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Change parts of a PersistentVolume or PersistentVolumeClaim, and return it as it is now.

        ``patch`` is a JSON merge patch; with ``metadata.resourceVersion`` it is refused if somebody
        else changed the object meanwhile.

        Raises:
            Conflict, NotFound, OutcomeUnknown: see ``mooring.errors``.
            PluginError: for objects of other kinds.
        """
        ...

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Waits for the object ``key`` of ``kind`` to satisfy ``predicate``, and returns it.

        Raises:
            PluginError: if that takes more than ``deadline_s`` seconds.
        """
        ...


#: The kinds of objects that ``Handle.patch`` changes.
PATCHED_KINDS = ("PersistentVolume", "PersistentVolumeClaim")

#: Extension point -> names of the parameters of its method, ``self`` left out.
EXTENSION_POINTS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "less": ("a", "b"),
    "pre_filter": ("cycle",),
    "filter": ("cycle", "nodes"),
    "post_filter": ("cycle", "diagnosis"),
    "pre_score": ("cycle", "nodes"),
    "score": ("cycle", "nodes"),
    "normalize": ("cycle", "scores", "nodes"),
    "reserve": ("cycle", "node_name"),
    "unreserve": ("cycle", "node_name"),
    "permit": ("cycle", "node_name"),
    "pre_bind_pre_flight": ("cycle", "node_name"),
    "pre_bind": ("cycle", "node_name"),
    "bind": ("cycle", "node_name"),
    "post_bind": ("cycle", "node_name"),
}

#: Methods beside the extension points, with their parameters.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "sign": ("pod",),
    "sort_key": ("pod",),
    "events": (),
    "background": (),
    "scheduled_note": ("pod", "node_name"),
    "filter_node": ("cycle", "node"),
    "score_node": ("cycle", "node"),
    "apply_deltas": ("cycle", "state", "nodes"),
    "add_pod": ("cycle", "state", "pod", "node"),
    "remove_pod": ("cycle", "state", "pod", "node"),
}

#: The extension points whose methods may wait.
ASYNC_POINTS = frozenset({"pre_bind", "bind", "background"})

#: Scores after normalizing are in this range, both ends included.
MIN_SCORE, MAX_SCORE = 0, 100
