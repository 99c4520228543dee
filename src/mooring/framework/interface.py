"""The plugin contract: all that the author of a plugin needs to read.

A plugin is any object with a ``name`` and at least one of the methods below; there is no base
class. The extension points, in the order of an attempt::

    pre_enqueue   may the pod enter the active queue?
    less          sorts the active queue
    ---- scheduling cycle: def, never waits ----------------------------------------------------
    pre_filter    once per pod: compute state for filter; restrict the nodes; reject the pod
    filter        reject nodes
    post_filter   no node is feasible: preempt
    pre_score     once per pod: compute state for score
    score         score each feasible node; normalize: scale the scores to 0..100
    reserve       a node is selected: reserve resources on it (unreserve rolls that back)
    permit        approve, reject, or delay the binding
    ---- binding cycle: async def, may wait ------------------------------------------------------
    pre_bind      do the work that must precede the binding
    bind          bind the pod through the API server
    post_bind     the pod is bound: clean up

**Columns.** ``filter`` and ``score`` are called with m nodes at once and return an array of
length m; ``@per_node`` adapts a method for one node to that.

**Cached results.** Pods with the same signature get the same results, so the framework can cache
them. A plugin that allows this defines ``sign(pod)``, a hashable that is equal for pods which it
treats alike (None = do not cache for this pod), and ``reads``, the columns of a node that its
result for that node depends on. A signature never includes name, UID, versions or times: pods that
differ only in those are signed once. Then ``pre_filter``, ``filter``, ``pre_score`` and ``score``
must depend on nothing but ``sign(pod)`` and those columns of that one node, and the framework calls
them again only for nodes that changed. ``reads_other_nodes`` names columns of *other* nodes that
matter too (on how many nodes an image is). If ``normalize`` turns scores that are all zero into the
same score for every pod and node, ``normalized_zero`` is that score, and ``normalize`` is not
called then. A plugin without ``sign`` and ``reads`` is called for every pod with every node that is
still feasible. A plugin with ``sign`` alone is called as often, but its queueing hints, if they are
``pure``, are called once for all unschedulable pods with the same signature.

Usually one node changed, the one that the last pod was placed on, and columns of length 1 are slow.
So such a plugin may also have a form for one node with plain ints: ``filter_node(cycle, node)`` and
``score_node(cycle, node)``, which must return the same as ``filter`` and ``score``. If all that it
reads of a node are its amounts (and not, for instance, the labels of the pods that they belong to),
it sets ``amounts_only``: a node that is equal in them to an earlier one gets its result.

**Hypothetical nodes.** Filters also run on nodes with pods added or removed (``NodeView.plus``,
``without``): nominated pods, and victims of preemption. If the pre_filter state depends on pods of
other nodes, it has to be updated: ``apply_deltas(cycle, state, nodes)`` returns the state for such
a view, or ``add_pod``/``remove_pod`` update it for one hypothetical node.

**Background tasks.** ``async def background(self)`` runs as long as the scheduler does and may
wait: for example, to fetch measurements that ``score`` uses. An exception is logged, and the task
is restarted. It does not run in simulations.

**Other objects.** ``needs`` names the kinds that a plugin reads from the snapshot in addition to
nodes and pods (``snapshot.workloads``); the scheduler watches them. ``handle.lister(kind)``, called
in the constructor, lists the objects of any kind: also those of custom resources, which are named
RESOURCE.VERSION.GROUP.

**Rejections are values, errors are exceptions.** See ``status.py``.
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
from mooring.state.listers import Lister
from mooring.state.tables.pods import PodInfo

Scores = npt.NDArray[np.int64]


@runtime_checkable
class Plugin(Protocol):
    """A plugin: any object with the name that configurations and messages use."""

    name: str


class QueuedPod(Protocol):
    """A queued pod, the argument of ``less``."""

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        ...

    @property
    def timestamp_s(self) -> float:
        """The time when it was added to the queue for this attempt; monotonic seconds."""
        ...


class PreEnqueue(Plugin, Protocol):
    """Runs before a pod enters the active queue: a rejected pod is gated until an event."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Returns None = admit the pod, ``Reject`` = gate it."""
        ...


class QueueSort(Plugin, Protocol):
    """The order of the active queue; all profiles have the same one."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Returns True if ``a`` is popped before ``b``."""
        ...

    def sort_key(self, pod: QueuedPod) -> Any:
        """Returns a sort key of the same order (optional): comparing keys is much faster."""
        ...


class Selective(Plugin, Protocol):
    """Applies to some pods only; the framework does not call it for the others.

    With an attribute ``idle_state``, this is what ``pre_filter`` stores for the others.
    """

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns False if the pod's spec gives the plugin nothing to do.

        It must not depend on the names of volumes and claims, and of the cluster only on its
        device classes.
        Then ``pre_filter``, ``pre_score`` and ``pre_bind_pre_flight`` return ``SKIP`` for it, if
        they are called, and ``reserve`` and ``unreserve`` do nothing. PreEnqueue, PostFilter,
        Permit, Bind and PostBind are called for every pod. Without ``pre_score`` it scores all
        nodes of such pods 0.
        """
        ...


class PreFilter(Plugin, Protocol):
    """Runs once per pod, before the filters."""

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | Skip | None:
        """Returns ``SKIP`` = do not filter, ``PreFilterResult`` = only these nodes, ``Reject``."""
        ...


class Filter(Plugin, Protocol):
    """Rejects nodes that cannot run the pod."""

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the statuses of the m nodes; none of them was rejected by an earlier plugin."""
        ...


class PostFilter(Plugin, Protocol):
    """Runs when no node is feasible: may select victims for preemption."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Returns the result; status None = the pod is nominated to ``node_name``."""
        ...


class PreScore(Plugin, Protocol):
    """Runs once per pod, when two or more nodes are feasible."""

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Returns ``SKIP`` if this plugin does not score this pod."""
        ...


class Score(Plugin, Protocol):
    """Scores the feasible nodes."""

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns int64 shape (m,); 0..100 unless the plugin also has ``normalize``."""
        ...


class Normalize(Score, Protocol):
    """Scales the raw scores of all feasible nodes."""

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        """Returns int64 shape (m,), 0..100, from the raw ``scores`` of the same nodes."""
        ...


class Reserve(Plugin, Protocol):
    """Reserves resources on the selected node that only this plugin tracks."""

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Returns None = reserved, ``Reject`` = cannot be reserved."""
        ...

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Rolls back ``reserve``; also called if ``reserve`` of any plugin failed. Idempotent."""
        ...


class Permit(Plugin, Protocol):
    """Approves, rejects or delays the binding."""

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        """Returns None = approve, ``Wait`` = delay the binding, ``Reject`` = reject the pod."""
        ...


class PreBind(Plugin, Protocol):
    """Does the work that must precede the binding."""

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:
        """Returns ``SKIP`` if ``pre_bind`` has nothing to do for this pod (optional)."""
        ...

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Does the work; may wait with ``handle.until``."""
        ...


class Bind(Plugin, Protocol):
    """Binds the pod to the node through the API server."""

    async def bind(self, cycle: Cycle, node_name: str) -> Status | Skip | None:
        """Returns None = bound, ``SKIP`` = the next bind plugin binds the pod."""
        ...


class PostBind(Plugin, Protocol):
    """Runs after the pod is bound."""

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Cleans up, counts or reports."""
        ...


class Cacheable(Plugin, Protocol):
    """A plugin whose results are cached by pod signature ("Cached results" above)."""

    reads: ClassVar[Change]

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns what the plugin reads of the pod; None = do not cache results for this pod."""
        ...


class OneNode(Cacheable, Protocol):
    """A cacheable plugin with additional methods for one node, without columns."""

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Does the same as ``filter``, for one node."""
        ...

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """Does the same as ``score``, for one node."""
        ...


class ApplyDeltas(Plugin, Protocol):
    """Updates pre_filter state that depends on pods of other nodes, for all nodes of a view."""

    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        """Returns the state for this view, with ``nodes.added`` and ``nodes.removed`` applied."""
        ...


class AddRemovePod(Plugin, Protocol):
    """Like ``ApplyDeltas``, one node and one pod at a time; costs one filter call per node."""

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        """Returns the state with ``pod`` added to ``node``; does not change ``state``."""
        ...

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        """Returns the state with ``pod`` removed from ``node``; does not change ``state``."""
        ...


class Events(Plugin, Protocol):
    """Registers the cluster events that may make a pod schedulable which this plugin rejected."""

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Returns the events. Without this method every event requeues; an empty list: none."""
        ...


class Handle(Protocol):
    """The services that a plugin gets, and its only source of time and randomness."""

    @property
    def snapshot(self) -> Any:
        """The snapshot of the current scheduling cycle (``mooring.state.Snapshot``)."""
        ...

    def lister(self, kind: str) -> Lister:
        """Returns the objects of a kind by namespace and name; call it in the constructor.

        ``kind`` is "Pod", "Service" and so on, or the name of a resource, such as
        "podgroups.v1alpha1.scheduling.x-k8s.io" or "configmaps.v1.": the objects are
        ``GenericObject`` then. The scheduler watches the kind.

        Raises:
            ConfigError: there is no such kind.
            PluginError: it is called later, for a kind that is not watched.
        """
        ...

    def monotonic_s(self) -> float:
        """Returns the monotonic clock, in seconds."""
        ...

    def wall_s(self) -> float:
        """Returns the wall clock: seconds since 1970-01-01 UTC."""
        ...

    def random(self) -> float:
        """Returns a random number in [0, 1) from the seeded generator."""
        ...

    def uuid(self) -> str:
        """Returns a new random UUID from the seeded generator, in lower case."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Returns the pod with this UID if it waits in Permit: ``allow`` or ``reject`` it."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Returns all pods that wait in Permit, in the order in which they began to wait."""
        ...

    def activate(self, *uids: str) -> None:
        """Moves these pods to the active queue; ignores pods that are not in the queue."""
        ...

    def is_preempting(self, uid: str) -> bool:
        """Returns True while victims of this pod's preemption are being evicted."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, ``delay_s`` seconds from now, between two attempts."""
        ...

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Writes an event of type Normal about the pod, in the background."""
        ...

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod (with its UID) to the node.

        Raises:
            Conflict, NotFound, OutcomeUnknown: see ``mooring.errors``.
        """
        ...

    async def read(self, path: str) -> bytes:
        """Returns the body of the API server's response to a GET of ``path``.

        Raises:
            ApiError, Unreachable: see ``mooring.errors``.
            PluginError: if there is no API server.
        """
        ...

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Patches a PersistentVolume or PersistentVolumeClaim and returns the new object.

        ``patch`` is a JSON merge patch; with ``metadata.resourceVersion`` it fails with a Conflict
        if the object has changed since.

        Raises:
            Conflict, NotFound, OutcomeUnknown: see ``mooring.errors``.
            PluginError: for objects of other kinds.
        """
        ...

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Waits until ``predicate`` is true for the object ``key`` of ``kind``, and returns it.

        Raises:
            PluginError: after ``deadline_s`` seconds.
        """
        ...


#: The kinds of objects that ``Handle.patch`` accepts.
PATCHED_KINDS = ("PersistentVolume", "PersistentVolumeClaim")

#: Extension point -> names of the parameters of its method, without ``self``.
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

#: Methods of plugins that are not extension points, with their parameters.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "sign": ("pod",),
    "applies_to": ("pod",),
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

#: The methods that are coroutines.
ASYNC_POINTS = frozenset({"pre_bind", "bind", "background"})

#: Range of normalized scores, both ends included.
MIN_SCORE, MAX_SCORE = 0, 100
