"""Evicts the pods of nodes that have NoExecute taints, wherever the taints come from.

::

    a taint that the pod does not tolerate ──────────> evicted at once
    all taints tolerated, one for a limited time ────> evicted when the shortest time is over
    all taints tolerated for ever, or none left ─────> an eviction that is planned is cancelled

Of each taint the first toleration that matches counts, and of those the shortest time. The time
begins with the first taint: other taints do not move an eviction that is planned.

Source: pkg/controller/tainteviction (processPodOnNode, getMinTolerationTime);
pkg/apis/core/v1/helper (GetMatchingTolerations).
Differs: finished pods stay, as they use nothing of their node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mooring.clock import Clock
from mooring.objects.meta import key
from mooring.objects.node import Node, Taint
from mooring.objects.pod import FINISHED_PHASES, Pod, Toleration
from mooring.objects.tolerations import NO_EXECUTE, tolerates

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.simulation.engine.object_table import ObjectTable


class _Eviction(NamedTuple):
    """An eviction that is planned; it is carried out only while the controller has this object."""

    created_s: float


class TaintEvictionController:
    """Follows the taints of nodes, and evicts their pods.

    Args:
        table: The objects.
        clock: Virtual time.
        call_later: Calls a function after so many seconds, and not at once after 0.
        pods_on: Returns the unfinished pods of a node.
        evict: Evicts a pod.
        compares: Whether tolerations may have the operators Gt and Lt.
    """

    def __init__(
        self,
        table: ObjectTable,
        *,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], None],
        pods_on: Callable[[str], Sequence[Pod]],
        evict: Callable[[Pod], None],
        compares: bool = False,
    ) -> None:
        self._table = table
        self._clock = clock
        self._call_later = call_later
        self._pods_on = pods_on
        self._evict = evict
        self._compares = compares
        #: Node -> its NoExecute taints; nodes without any are absent.
        self._taints: dict[str, tuple[Taint, ...]] = {}
        #: Key of a pod -> its eviction.
        self._evictions: dict[str, _Eviction] = {}

    def start(self) -> None:
        """Watches nodes and pods."""
        for node in self._table.objects("Node").values():
            self._follow_node(None, node)
        self._table.listen(self._on_node, ("Node",))
        self._table.listen(self._on_pod, ("Pod",))

    def _on_node(self, _: str, change: ObjectChange) -> None:
        if change.new is None:
            self._taints.pop(change.old.metadata.name, None)
        else:
            self._follow_node(change.old, change.new)

    def _follow_node(self, old: Node | None, new: Node) -> None:
        taints = _evicting(new)
        if taints == (() if old is None else _evicting(old)):
            return
        name = new.metadata.name
        if taints:
            self._taints[name] = taints
        else:
            self._taints.pop(name, None)
        for pod in self._pods_on(name):
            self._follow_pod(pod, taints)

    def _on_pod(self, _: str, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if new is None:
            self._evictions.pop(key(old), None)
            return
        taints = self._taints.get(new.spec.node_name)
        if taints is None or new.status.phase in FINISHED_PHASES:
            return
        if (
            old is None
            or old.spec.node_name != new.spec.node_name
            or old.spec.tolerations != new.spec.tolerations
        ):
            self._follow_pod(new, taints)

    def _follow_pod(self, pod: Pod, taints: Sequence[Taint]) -> None:
        """Plans the eviction of a pod, lets a plan stand, or cancels it."""
        pod_key, now_s = key(pod), self._clock.monotonic_s()
        used = _used_tolerations(pod.spec.tolerations, taints, compares=self._compares)
        wait_s = 0.0 if used is None else _shortest_s(used)
        if wait_s == math.inf:
            self._evictions.pop(pod_key, None)
            return
        planned = self._evictions.get(pod_key)
        if used is not None and planned is not None and planned.created_s < now_s:
            return
        eviction = self._evictions[pod_key] = _Eviction(now_s)
        self._call_later(wait_s, partial(self._carry_out, pod_key, eviction))

    def _carry_out(self, pod_key: str, eviction: _Eviction) -> None:
        if self._evictions.get(pod_key) is not eviction:
            return
        del self._evictions[pod_key]
        pod: Pod | None = self._table.objects("Pod").get(pod_key)
        if pod is not None and pod.status.phase not in FINISHED_PHASES:
            self._evict(pod)


def _evicting(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def _used_tolerations(
    tolerations: Sequence[Toleration], taints: Sequence[Taint], *, compares: bool
) -> list[Toleration] | None:
    """Returns the first toleration of each taint; None = there is a taint without any."""
    used = []
    for taint in taints:
        matching = (item for item in tolerations if tolerates(item, taint, compares=compares))
        first = next(matching, None)
        if first is None:
            return None
        used.append(first)
    return used


def _shortest_s(tolerations: Sequence[Toleration]) -> float:
    """Returns the shortest time of tolerations; infinity = none of them has a limit."""
    limits = [item.toleration_seconds for item in tolerations]
    return min((max(0.0, float(limit)) for limit in limits if limit is not None), default=math.inf)
