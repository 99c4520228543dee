"""Plugins beside the ledger: one that also waits in Permit, and one that raises anywhere.

The pod's label ``second`` selects what ``SecondPermit`` does: ``allow``, ``reject`` or ``expire``.
The label ``raises`` names the extension point at which ``Raising`` raises; with the label
``raises-for`` = ``ever`` also after the faults have ended.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from mooring.clock import Rng
from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import Cycle, NodeView
from mooring.framework.interface import Handle, Scores
from mooring.framework.node_info import NodeInfo
from mooring.framework.per_node import per_node
from mooring.framework.status import Skip, Status, Wait
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from tests.faults.harness.checkers import Findings

SECOND: Final = "second"
SECOND_SCRIPTS: Final = ("allow", "reject", "expire")
RAISES: Final = "raises"
#: A third exception in a row would quarantine the pod, for longer than a run takes.
RAISED_MAX: Final = 2
RAISES_FOR: Final = "raises-for"
#: Names the extension point at which a second plugin raises, for a while.
RAISES_TOO: Final = "raises-too"
EVER: Final = "ever"
POINTS: Final = ("PreFilter", "Filter", "Score", "Reserve", "Permit", "PreBind", "PostBind")

#: Points before the pod is bound: a pod that raises there for ever has no node.
BEFORE_BOUND: Final = POINTS[:-1]

WAIT_S: Final = 6.0
RETRY_S: Final = 3.0


class SecondPermit:
    """Delays pods in Permit, besides the ledger: a pod may wait for both.

    S8: no pod reaches PreBind before this plugin has allowed it.

    Attributes:
        handle: The scheduler's; set after it is created.
        is_passive: Allow every pod.
    """

    name = "SecondPermit"

    def __init__(self, findings: Findings, rng: Rng) -> None:
        self.handle: Handle | None = None
        self.is_passive = False
        self._findings = findings
        self._rng = rng
        #: UIDs of the pods that this plugin has not allowed in their last attempt.
        self._held: set[str] = set()

    def events(self) -> list[ClusterEventWithHint]:
        """Registers no events: the plugin requeues rejected pods itself."""
        return []

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        """Waits, and then allows the pod, rejects it, or lets it expire."""
        del node_name
        script = cycle.pod.metadata.labels.get(SECOND, "")
        self._held.discard(cycle.pod.uid)
        if not script or self.is_passive:
            return None
        self._findings.count(f"SecondPermit {script}")
        uid, handle = cycle.pod.uid, self.handle
        self._held.add(uid)
        assert handle is not None
        after_s = self._rng.random() * WAIT_S * 0.9
        if script == "expire" or (script == "reject" and self._rng.random() < 0.5):
            handle.call_later(WAIT_S + RETRY_S, lambda: handle.activate(uid))
        if script == "reject":
            handle.call_later(after_s, lambda: self._reject(uid))
        elif script == "allow":
            handle.call_later(after_s, lambda: self._allow(uid))
        return Wait(WAIT_S)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        """Checks that this plugin has allowed the pod."""
        if cycle.pod.uid in self._held:
            message = f"{cycle.pod.key} goes to {node_name}, but a Permit plugin still holds it"
            self._findings.report("S8", message)

    def _allow(self, uid: str) -> None:
        waiting = self.handle.waiting_pod(uid) if self.handle is not None else None
        if waiting is not None:
            if len(waiting.pending_plugins) > 1:
                self._findings.count("Permit of two plugins")
            self._held.discard(uid)
            waiting.allow(self.name)

    def _reject(self, uid: str) -> None:
        handle = self.handle
        waiting = handle.waiting_pod(uid) if handle is not None else None
        if handle is not None and waiting is not None:
            waiting.reject(self.name, "rejected by the second plugin")
            handle.call_later(RETRY_S, lambda: handle.activate(uid))


class Raising:
    """Raises at the extension point that a pod names.

    Attributes:
        name: Of the plugin.
        is_passive: Raise only for pods that name "ever".

    Args:
        findings: Counts the exceptions.
        name: Of the plugin.
        label: The label by which a pod names the point.
    """

    def __init__(self, findings: Findings, name: str = "Raising", label: str = RAISES) -> None:
        self.name = name
        self.is_passive = False
        self._label = label
        self._findings = findings
        self._counts: Counter[str] = Counter()

    def events(self) -> list[ClusterEventWithHint]:
        """Registers no events: an error is retried after a backoff."""
        return []

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skips Filter for pods that do not raise there."""
        self._raise(cycle.pod, "PreFilter")
        return None if self._is_due(cycle.pod, "Filter") else Skip.SKIP

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Raises at the first node."""
        del node
        self._raise(pod, "Filter")
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Gives all nodes the same score."""
        self._raise(cycle.pod, "Score")
        return np.zeros(len(nodes), dtype=np.int64)

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        """Raises after the ledger has reserved."""
        del node_name
        self._raise(cycle.pod, "Reserve")

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Has nothing to undo."""

    def permit(self, cycle: Cycle, node_name: str) -> None:
        """Raises, perhaps after another plugin has decided to wait."""
        del node_name
        self._raise(cycle.pod, "Permit")

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        """Raises."""
        del node_name
        self._raise(cycle.pod, "PreBind")

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Raises although the pod is bound."""
        del node_name
        self._raise(cycle.pod, "PostBind")

    def _is_due(self, pod: PodInfo, point: str) -> bool:
        labels = pod.metadata.labels
        is_on = not self.is_passive and self._counts[pod.uid] < RAISED_MAX
        is_for_ever = labels.get(RAISES_FOR) == EVER and self._label == RAISES
        return (is_on or is_for_ever) and labels.get(self._label) == point

    def _raise(self, pod: PodInfo, point: str) -> None:
        if self._is_due(pod, point):
            self._findings.count(f"raises {point}")
            self._counts[pod.uid] += 1
            raise RuntimeError(f"injected failure in {point}")


def raises_for_ever(pod: Pod) -> bool:
    """Returns whether no attempt of the pod can succeed."""
    labels = pod.metadata.labels
    return labels.get(RAISES_FOR) == EVER and labels.get(RAISES) in BEFORE_BOUND
