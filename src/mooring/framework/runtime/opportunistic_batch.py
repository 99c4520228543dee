"""Opportunistic batching: the next of equal pods takes the next of the nodes sorted by score.

When a node holds one pod each, scoring all nodes again for the next replica gives the order that is
known already. So the sorted nodes of the last pod are kept, and the first of them is the *node
hint* of the next pod. A hint is given only if nothing but the last pod can have changed the order:

- the next scheduling cycle is of a pod with the same signature, within ``MAX_AGE_S``;
- the node of the last pod is not feasible any more: it need not be scored again.

The node of a hint is filtered like a nominated node. If it is feasible it is selected without
scoring; otherwise all nodes are filtered and scored.

It never saves mooring any time, because cached results are cheaper; it is here because the order of
nodes with equal scores depends on it. With kube-scheduler's default constraints of
PodTopologySpread it is off, as no pod can be signed.

Source: pkg/scheduler/framework/runtime/batch.go (KEP-5598), schedule_one.go (sortedNodeScores).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.clock import Clock
from mooring.framework.cycle_state import Cycle
from mooring.metrics.recorders import FrameworkRecorder
from mooring.state.tables.pods import PodInfo

#: Sorted nodes are not used for longer than this.
MAX_AGE_S: Final = 0.5

#: The extension points whose plugins must be able to sign a pod.
SIGNING_POINTS: Final = ("pre_filter", "filter", "pre_score", "score")

HINT_USED: Final = "hint_used"
HINT_NOT_USED: Final = "hint_not_used"
NO_HINT: Final = "no_hint"

POD_SKIPPED: Final = "pod_skipped"
POD_INCOMPATIBLE: Final = "pod_incompatible"
POD_NOT_BATCHABLE: Final = "pod_not_batchable"
EXPIRED: Final = "expired"
NODE_MISSING: Final = "node_missing"
NODE_NOT_FULL: Final = "node_not_full"
EMPTY_LIST: Final = "empty_list"


class SortedNodes:
    """Nodes by total score, the highest first; pops in the order of kube-scheduler's heap.

    The best of all, which the last pod is on, is left out.

    Args:
        names: The feasible nodes in visiting order, at least one.
        totals: The total score of each.
    """

    __slots__ = ("_heap", "_names", "_totals")

    def __init__(self, names: Sequence[str], totals: Sequence[int]) -> None:
        self._names = names
        self._totals = totals
        self._heap: list[int] | None = None  # indexes; built when a node is popped

    def __len__(self) -> int:
        return len(self._names) - 1 if self._heap is None else len(self._heap)

    def pop(self) -> str:
        """Removes the best node and returns its name. The first pop takes O(nodes)."""
        if self._heap is None:
            self._heap = list(range(len(self._names)))
            for index in reversed(range(len(self._heap) // 2)):
                self._sift_down(index, len(self._heap))
            self._pop_index()
        return self._names[self._pop_index()]

    def _pop_index(self) -> int:
        assert self._heap is not None
        heap, last = self._heap, len(self._heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        self._sift_down(0, last)
        return heap.pop()

    def _sift_down(self, index: int, length: int) -> None:
        """Restores the heap below ``index``; only a higher score moves up (Go's container/heap)."""
        assert self._heap is not None
        heap, totals = self._heap, self._totals
        while (child := 2 * index + 1) < length:
            if child + 1 < length and totals[heap[child + 1]] > totals[heap[child]]:
                child += 1
            if totals[heap[child]] <= totals[heap[index]]:
                return
            heap[index], heap[child] = heap[child], heap[index]
            index = child


@dataclass(slots=True)
class _State:
    """The sorted nodes of a pod, and when they were stored (monotonic seconds)."""

    signature: Hashable
    nodes: SortedNodes
    created_s: float


class OpportunisticBatch:
    """The batching of one profile.

    Args:
        plugins: The plugins that sign pods, each once.
        clock: Measures the age of the sorted nodes.
        fragment: Returns a plugin's fragment of a pod's signature (``Framework.fragment``).
    """

    def __init__(
        self,
        plugins: Sequence[Any],
        clock: Clock,
        fragment: Callable[[str, PodInfo], Hashable | None],
    ) -> None:
        self._plugins = plugins
        self._clock = clock
        self._fragment = fragment
        self._state: _State | None = None
        self._last_number = -1
        self._last_node = ""

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Returns what the plugins read of the pod; None if one of them cannot sign it."""
        fragments: list[Hashable] = []
        for plugin in self._plugins:
            sign = getattr(plugin, "batch_signature", None)
            fragment = self._fragment(plugin.name, pod) if sign is None else sign(pod)
            if fragment is None:
                return None
            fragments.append(fragment)
        return tuple(fragments)

    def hint(
        self,
        cycle: Cycle,
        is_feasible: Callable[[str], bool | None],
        recorder: FrameworkRecorder,
    ) -> str:
        """Returns the name of the node to try first; "" = none.

        Args:
            cycle: After PreFilter.
            is_feasible: Filters a node without its nominated pods: None = the node is gone.
            recorder: Counts hints, and why sorted nodes were not used.
        """
        started_s, state, node_name = recorder.now(), self._state, ""
        if state is not None and len(state.nodes):
            reason = self._unusable(state, cycle, is_feasible)
            if reason is None:
                node_name = state.nodes.pop()
            else:
                recorder.batch_flushed(reason)
        if not node_name:
            recorder.batch_attempted(NO_HINT)
        recorder.hint_ended(started_s, has_hint=bool(node_name))
        return node_name

    def _unusable(
        self, state: _State, cycle: Cycle, is_feasible: Callable[[str], bool | None]
    ) -> str | None:
        if cycle.number != self._last_number + 1:
            return POD_SKIPPED
        if self.signature(cycle.pod) != state.signature:
            return POD_INCOMPATIBLE
        if self._clock.monotonic_s() > state.created_s + MAX_AGE_S:
            return EXPIRED
        feasible = is_feasible(self._last_node)
        if feasible is None:
            return NODE_MISSING
        return NODE_NOT_FULL if feasible else None

    def store(
        self,
        cycle: Cycle,
        node: str,
        sorted_nodes: Callable[[], SortedNodes] | None,
        recorder: FrameworkRecorder,
    ) -> None:
        """Stores the nodes of a pod that gets ``node``, for the next one.

        ``sorted_nodes`` returns the feasible nodes, that of the pod included; None = it is the only
        one.
        """
        assert cycle.number is not None
        started_s = recorder.now()
        self._store(cycle, node, sorted_nodes, recorder)
        recorder.results_stored(started_s)

    def _store(
        self,
        cycle: Cycle,
        node: str,
        sorted_nodes: Callable[[], SortedNodes] | None,
        recorder: FrameworkRecorder,
    ) -> None:
        assert cycle.number is not None
        self._last_number, self._last_node = cycle.number, node
        if cycle.node_hint and cycle.node_hint == node:
            recorder.batch_attempted(HINT_USED)
            return
        if cycle.node_hint:
            recorder.batch_attempted(HINT_NOT_USED)
        self._state = None
        if sorted_nodes is None:
            recorder.batch_flushed(EMPTY_LIST)
            return
        signature = self.signature(cycle.pod)
        if signature is None:
            recorder.batch_flushed(POD_NOT_BATCHABLE)
            return
        nodes = sorted_nodes()
        self._state = _State(signature, nodes, self._clock.monotonic_s())


def can_batch(plugins: Sequence[Any]) -> bool:
    """Returns whether all plugins can sign pods, and none is configured so that it never does."""
    return all(
        getattr(plugin, "is_batchable", True)
        and (hasattr(plugin, "sign") or hasattr(plugin, "batch_signature"))
        for plugin in plugins
    )
