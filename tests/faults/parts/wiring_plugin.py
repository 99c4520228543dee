"""A plugin and an observer that note what a scheduler does with them.

The label ``fate`` of a pod says what it does: it raises twice; rejects it once, until the
handle activates it, a node is added, or a change of a claim has failed; delays it in Permit; or
waits in PreBind for a volume that comes late, or never.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.errors import PluginError, SchedulerError
from mooring.framework import Attempt, Cycle, Diagnosis, Placement, Reject, Wait
from mooring.framework.interface import Handle
from mooring.framework.status import ClaimChange, PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects.meta import ObjectMeta
from mooring.objects.resource import ResourceClaim
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from tests.helpers.queues import NODE_ADD, on

#: When rejected pods are activated, and when the volume is created.
ACTIVATED_S: Final = 15.0
VOLUME_S: Final = 25.0
PERMIT_S: Final = 9.0
ALLOWED_S: Final = 2.0
#: A third exception in a row would quarantine the pod.
RAISED_MAX: Final = 2
REJECTED: Final = ("rejected", "event", "claim")
#: The volume that a pod of such a fate waits for.
VOLUMES: Final = {"until": "late", "ever": "never"}
#: A kind that no part of the scheduler watches.
UNWATCHED: Final = "ResourceClaimTemplate"


class Wired:
    """The plugin.

    Attributes:
        handle: The scheduler's; set once that is built.
        attempts: Name of a pod -> when its attempts began.
        began_s: When pods are created from.
    """

    name = "Wired"

    def __init__(
        self, now_s: Callable[[], float], report: Callable[[str], None], needs: Sequence[str]
    ) -> None:
        self.needs = tuple(needs)
        self.handle: Handle | None = None
        self.attempts: dict[str, list[float]] = defaultdict(list)
        self.began_s = 0.0
        self._now_s, self._report = now_s, report
        self._rejected: list[str] = []

    def events(self) -> list[Any]:
        """Registers for new nodes."""
        return [on(NODE_ADD)]

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Raises for some pods, and rejects others."""
        fate, name = _fate(cycle), cycle.pod.metadata.name
        self.attempts[name].append(self._now_s())
        if fate == "raises" and len(self.attempts[name]) <= RAISED_MAX:
            raise ValueError("raised on purpose")
        if fate in REJECTED and len(self.attempts[name]) == 1:
            self._rejected += [cycle.pod.uid] if fate == "rejected" else []
            return Reject("rejected on purpose")
        return None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Wants a claim to be changed that does not exist, for some pods."""
        del diagnosis
        claim = ResourceClaim(metadata=ObjectMeta(name="x", namespace="default", uid="x"))
        change = ClaimChange(claim) if _fate(cycle) == "claim" else None
        return PostFilterResult(Reject("no victims"), claim_change=change)

    def activate_rejected(self) -> None:
        """Activates the rejected pods."""
        if self.handle is not None:
            self.handle.activate(*self._rejected)

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        """Delays some pods, and allows them after a while."""
        del node_name
        handle = self.handle
        if _fate(cycle) != "waits" or handle is None:
            return None
        handle.call_later(ALLOWED_S, lambda: self._allow(cycle.pod.uid))
        return Wait(PERMIT_S)

    def _allow(self, uid: str) -> None:
        waiting = self.handle.waiting_pod(uid) if self.handle is not None else None
        if waiting is None:
            self._report(f"{uid} does not wait in Permit")
        else:
            waiting.allow(self.name)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        """Waits for a volume, for some pods."""
        del node_name
        volume, handle = VOLUMES.get(_fate(cycle)), self.handle
        if volume is not None and handle is not None:
            began_s = self._now_s()
            await self._check_unwatched(handle)
            await handle.until("PersistentVolume", volume, bool, 2 * VOLUME_S)
            if not VOLUME_S - 1e-3 <= self._now_s() - self.began_s <= VOLUME_S + 1.0:
                self._report(f"the volume was waited for from {began_s} to {self._now_s()}")

    async def _check_unwatched(self, handle: Handle) -> None:
        """Checks that objects of a kind that is not watched are neither listed nor waited for."""
        try:
            handle.lister(UNWATCHED)
            self._report("a kind is listed that is not watched")
        except PluginError:
            pass
        try:
            await handle.until(UNWATCHED, "default/x", bool, 1.0)
        except PluginError as error:
            if "not watched" not in str(error):
                self._report(f"a kind that is not watched is waited for: {error}")

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Reports the pod."""
        if self.handle is not None:
            self.handle.report(cycle.pod, "Wired", "Wiring", f"is on {node_name}")


def _fate(cycle: Cycle) -> str:
    return cycle.pod.metadata.labels.get("fate", "")


class Noting(Observer):
    """The observer.

    Attributes:
        calls: Method -> how often it was called.
        bound_names: The pods that were bound.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bound_names: set[str] = set()

    def has_all(self) -> bool:
        """Returns whether each method was called."""
        methods = {name for name, it in vars(Observer).items() if callable(it)}
        return set(self.calls) == {name for name in methods if not name.startswith("_")}

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Counts."""
        del entry, queue_name, why
        self.calls["moved"] += 1

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Counts."""
        del entry, attempt, result
        self.calls["attempted"] += 1

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Counts."""
        del entry, post_filter_result
        self.calls["preempts"] += 1

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Counts."""
        del entry, node_name, waiting
        self.calls["waits"] += 1

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Counts."""
        del entry, node_name
        self.calls["allowed"] += 1

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Notes the pod."""
        del node_name
        self.calls["bound"] += 1
        self.bound_names.add(entry.pod.metadata.name)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Counts."""
        del entry, why
        self.calls["failed"] += 1
