"""A plugin that fails at any point of an attempt, and the model of what each attempt must do.

Each Reserve has one end; an attempt that was preempted is not bound; what a plugin wants activated
is activated once, after Permit or after the binding; a nomination that was written is withdrawn if
the attempt fails; the metric counts each attempt once, by its result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from mooring.clock import Rng
from mooring.decision import Preemption
from mooring.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    Unreachable,
)
from mooring.framework import Cycle, Diagnosis, Reject, Wait
from mooring.framework.status import Code, PostFilterResult, PreFilterResult, Skip, Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from tests.faults.parts.claim_changes import ClaimChanges
from tests.faults.parts.failure_texts import FailureTexts
from tests.faults.parts.narrowing import Narrowing
from tests.helpers.queues import POD_GONE, on

STEP_S: Final = 0.5
WAIT_S: Final = 4.0
#: A third exception in a row would quarantine the pod.
RAISED_MAX: Final = 2
#: Of the exceptions at these points one of so many is the cancellation of a plugin's own work.
AWAITED: Final = ("PreBind", "Bind")
LEAKED_EVERY: Final = 3
#: What a request to bind that surely changed nothing may raise; each time a new one, since the
#: framework adds notes.
ERRORS: Final[tuple[Callable[[], SchedulerError], ...]] = (
    lambda: Conflict("changed", status=409),
    lambda: Unreachable("refused"),
    lambda: OutcomeUnknown("no response"),
    lambda: ServerError("broken", status=500),
)
UNSCHEDULABLE, ERROR, SCHEDULED = "unschedulable", "error", "scheduled"


class Script:
    """The plugin, and the model.

    Attributes:
        is_passive: Nothing fails any more.
        results: Result -> number of attempts that must be counted.
        cancelled: UIDs of the pods whose attempt was cancelled by a preemption.
        open: UID -> the node that is reserved.
        waiting: Returns the pods in Permit.
        on_failed: Called with the UID and the reason of each attempt that has failed.
        changes, narrowing: What PostFilter wants to be changed; the nodes that PreFilter leaves.
        ends: The extension point and the error that end the scheduler; None = nothing does.
        has_ended: Whether that error was raised: no attempt may go on, or be undone.

    Args:
        rng: Draws all results.
        node_names: To which a pod is nominated.
        has_extenders: PreFilter is called once more then, and so does not fail.
        waiting: The pods in Permit.
        bind: Stores a binding; returns False if there is no such pending pod.
        candidates: Returns the pods that may be activated.
        placed_on: Returns the pods on a node, which may be victims.
        report: Called with each problem.
    """

    name = "Script"

    def __init__(
        self,
        rng: Rng,
        node_names: Sequence[str],
        waiting: Callable[[], WaitingPods],
        bind: Callable[[PodInfo, str], bool],
        candidates: Callable[[], list[PodInfo]],
        placed_on: Callable[[str], list[PodInfo]],
        report: Callable[[str], None],
        *,
        has_extenders: bool,
    ) -> None:
        self.is_passive = self.has_ended = False
        self.ends: tuple[str, SchedulerError] | None = None
        self.changes, self.narrowing = ClaimChanges(None), Narrowing(None)
        self.results: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.open: dict[str, str] = {}
        self.waiting = waiting
        self._rng, self._bind = rng, bind
        self._candidates, self._report = candidates, report
        self._placed_on, self._has_victims = placed_on, has_extenders
        self._rates = {
            point: rng.choice((0.0, 0.1, 0.3))
            for point in ("PreFilter", "Reserve", "Permit", "PreBind", "Bind")
        }
        if has_extenders:
            self._rates["PreFilter"] = 0.0
        self._wait_share = rng.choice((0.0, 0.3, 0.8))
        self._raised, self._awaited = Counter[str](), 0
        self.causes: dict[str, str] = {}  # UID -> the result of an attempt that will fail
        self.texts = FailureTexts(self.name, self.cancelled)
        #: UID -> what PostFilter has returned in the attempt.
        self.nominated: dict[str, str | None] = {}
        self.records: dict[str, Callable[[], Preemption]] = {}  # until the attempt is reported
        self._node_names = node_names
        #: The attempts of which pods are to be activated: UID -> (cycle, UIDs).
        self._targets: dict[str, tuple[Cycle, set[str]]] = {}
        self._permits: dict[str, Any] = {}
        #: Called when this plugin allows a pod, with its own name and the UID.
        self.on_allow: Callable[[str, str], None] = lambda *_: None
        self.on_failed: Callable[[str, Any], None] = lambda *_: None

    def delays(self, uid: str) -> bool:
        """Returns whether the pod waits for this plugin, in the Permit that runs now."""
        return uid in self._permits

    def events(self) -> list[Any]:
        """Registers the end of other pods."""
        return [on(POD_GONE)]

    # -- extension points -------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | None:
        """Rejects, or raises: the attempt ends at once. Leaves some nodes, in some runs."""
        self._targets.pop(cycle.pod.uid, None)
        self.causes.pop(cycle.pod.uid, None)
        self.texts.begin(cycle.pod.uid)
        self.nominated.pop(cycle.pod.uid, None)
        node_names = () if self.is_passive else self._node_names
        return self._draw(cycle, "PreFilter") or self.narrowing.left(cycle, node_names)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Nominates the pod, clears its nomination or leaves it; beside extenders with victims."""
        del diagnosis
        # As plugins see them: the deletion of a node may be buffered.
        nodes = cycle.snapshot.nodes
        names = [name for name in self._node_names if nodes.live_row(name) >= 0]
        node_name = self._rng.choice((None, "", *names))
        self.nominated[cycle.pod.uid] = node_name
        status = None if node_name else Reject("no victims")
        victims = self._placed_on(node_name) if node_name and self._has_victims else []
        self._rng.shuffle(victims)  # events that were buffered may have removed them
        result = PostFilterResult(status, node_name, tuple(victims[: self._rng.randrange(4)]))
        record = partial(Preemption, nominated=None, victims=(), candidates={}, acceptable=())
        self.records[cycle.pod.uid] = record
        return self.changes.added_to(result._replace(record=record), cycle.pod)

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Reserves."""
        uid = cycle.pod.uid
        if uid in self.open:
            self._report(f"{cycle.pod.key} is reserved twice")
        if problem := self.narrowing.problem(cycle.pod, node_name):
            self._report(problem)
        self.open[uid] = node_name
        self.cancelled.discard(uid)
        self.causes.pop(uid, None)
        self.texts.begin(uid)
        self._permits.pop(uid, None)
        self._targets[uid] = cycle, set()
        self._want(cycle)
        return self._draw(cycle, "Reserve")

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Ends a reservation: the attempt has failed."""
        uid = cycle.pod.uid
        if self.has_ended:
            self._report(f"Unreserve of {cycle.pod.key}, but the scheduler ends")
        if self.open.pop(uid, None) != node_name:
            self._report(f"Unreserve of {cycle.pod.key} on {node_name} without a Reserve")
        self._targets.pop(uid, None)

    def failed(self, uid: str, reason: Any) -> None:
        """Follows the end of an attempt that has failed: it is counted by the cause."""
        self.on_failed(uid, reason)
        for problem in (*self.texts.problems(uid, reason), *self.changes.failed(uid)):
            self._report(problem)
        has_waited = uid in self._permits
        waiting = self._permits.pop(uid, None)
        # A pod that is deleted in the very step in which its wait begins has no cause yet.
        cause = self.causes.pop(uid, "" if waiting is not None or not has_waited else UNSCHEDULABLE)
        if waiting is not None and isinstance(waiting.status, Status):
            cause = ERROR if waiting.status.code is Code.ERROR else UNSCHEDULABLE
        if self.texts.is_broken(uid) or uid in self.cancelled:  # the first ends with the attempt
            cause = ERROR
            self.cancelled.discard(uid)
        if not cause:
            self._report(f"{uid} is given up, but nothing has failed")
        self.results[cause] += 1

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        """Waits, in some attempts, and is settled by a timer or the timeout."""
        del node_name
        self._want(cycle)
        result = self._draw(cycle, "Permit")
        if result is not None or self._rng.random() >= self._wait_share:
            return result
        uid, loop = cycle.pod.uid, asyncio.get_running_loop()
        self._permits[uid] = None
        loop.call_soon(self._note_wait, uid)
        # A third of them expires, unless this run has no failures in Permit.
        if self.is_passive or not self._rates["Permit"] or self._rng.random() < 0.67:
            loop.call_later(self._step_s(), self._settle, uid)
        return Wait(WAIT_S)

    def _note_wait(self, uid: str) -> None:
        if (waiting := self.waiting().get(uid)) is not None:
            self._permits[uid] = waiting

    def _settle(self, uid: str) -> None:
        waiting = self.waiting().get(uid)
        if waiting is None or waiting.status is not None:
            return
        if self.is_passive or self._rng.random() >= self._rates["Permit"]:
            self.on_allow(self.name, uid)
            waiting.allow(self.name)
        else:
            waiting.reject(self.name, "no")

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Takes a while."""
        del node_name
        try:
            await asyncio.sleep(self._step_s())
        except asyncio.CancelledError:
            self.texts.interrupt(cycle.pod.uid)
            raise
        self._want(cycle)
        return self._draw(cycle, "PreBind")

    async def bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Binds, after a while, or fails: what fails has stored nothing.

        Raises:
            SchedulerError: the pod is not bound.
        """
        uid = cycle.pod.uid
        if uid in self.cancelled:
            self._report(f"{cycle.pod.key} was preempted before its binding, but is bound")
        await asyncio.sleep(self._step_s())
        if not self.is_passive and self._rng.random() < self._rates["Bind"] / 2:
            self.causes[uid] = ERROR
            self.texts.expect_of(uid, "Bind", str(error := self._rng.choice(ERRORS)()))
            raise error
        if (result := self._draw(cycle, "Bind")) is not None:
            return result
        if not self._bind(cycle.pod, node_name):
            self.causes[uid] = ERROR
            self.texts.expect_of(uid, "Bind", "no such pod")
            raise NotFound("no such pod", status=404)
        if self._rng.random() < 0.5:
            await asyncio.sleep(self._step_s())  # the answer
        return None

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Ends a reservation: the pod is bound."""
        uid = cycle.pod.uid
        if self.open.pop(uid, None) != node_name:
            self._report(f"PostBind of {cycle.pod.key} on {node_name} without a Reserve")
        self.results[SCHEDULED] += 1
        self._want(cycle)
        self._permits.pop(uid, None)

    # -- activations ------------------------------------------------------------------------------

    def _want(self, cycle: Cycle) -> None:
        """Wants other pods to be activated after this attempt."""
        # Which attempt an activation is for must be clear.
        taken = {uid for _, targets in self._targets.values() for uid in targets}
        candidates = [info for info in self._candidates() if info.uid not in taken]
        if candidates and self._rng.random() < 0.2:
            info = self._rng.choice(candidates)
            cycle.pods_to_activate[info.uid] = info
            self._targets[cycle.pod.uid][1].add(info.uid)

    def activated(self, uids: list[str]) -> None:
        """Checks that an attempt wants exactly these pods, and that it does so no longer."""
        for cycle, targets in self._targets.values():
            if targets and set(uids) == targets and cycle.pods_to_activate.keys() == targets:
                targets.clear()
                return
        self._report(f"{sorted(uids)} are activated, but no attempt wants this any more")

    def bound(self, uid: str) -> None:
        """Checks that a bound pod's attempt wants nothing any more."""
        _, targets = self._targets.pop(uid, (None, set()))
        if targets:
            self._report(f"{sorted(targets)} were to be activated after the binding of {uid}")

    # -- draws ------------------------------------------------------------------------------------

    def _step_s(self) -> float:
        return STEP_S * self._rng.randrange(1, 7)

    def _draw(self, cycle: Cycle, point: str) -> Status | None:
        """Returns a rejection, or raises; mostly neither."""
        uid, rng = cycle.pod.uid, self._rng
        if self.ends is not None and self.ends[0] == point:
            self.has_ended = True
            raise self.ends[1]
        if self.is_passive or rng.random() >= self._rates[point]:
            return None
        if rng.random() < 0.6 or self._raised[uid] >= RAISED_MAX:
            self.causes[uid] = UNSCHEDULABLE
            self.texts.expect(uid, f"rejected in {point}")
            return Reject(f"rejected in {point}")
        self._raised[uid] += 1
        self.causes[uid] = ERROR
        if point in AWAITED:
            self._awaited += 1
            if self._awaited % LEAKED_EVERY == 0:
                self.texts.expect(uid, "its own work was cancelled")
                raise asyncio.CancelledError
        self.texts.expect_of(uid, point, f"injected failure in {point}")
        raise ValueError(f"injected failure in {point}")


class SkippingScript(Script):
    """A script that has nothing to do in PreBind for about half of the pods."""

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:
        """Skips PreBind, or not."""
        del node_name
        return None if prepares(self, cycle.pod.uid) else Skip.SKIP


def prepares(script: Script, uid: str) -> bool:
    """Returns whether PreBind has something to do: the same for each attempt at a pod."""
    return not isinstance(script, SkippingScript) or not sum(uid.encode()) % 2


class HangingScript(Script):
    """A script whose PreBind hangs for about half of the pods, until it is released.

    Attributes:
        hanging: UIDs of the pods for which it hangs.
        released: It hangs no more.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.hanging: set[str] = set()
        self.released = asyncio.Event()

    async def release(self, stored: Iterable[Pod], seconds: float) -> None:
        """Checks that all pods are bound for which PreBind does not hang; ends that."""
        for pod in stored:
            is_pending = not pod.spec.node_name and pod.metadata.deletion_timestamp is None
            if is_pending and pod.metadata.uid not in self.hanging:
                self._report(f"{pod.metadata.name} is not bound while PreBind hangs")
        self.released.set()
        await asyncio.sleep(seconds)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Hangs, or takes a while."""
        uid = cycle.pod.uid
        if not self.is_passive and not self.released.is_set() and not sum(uid.encode()) % 2:
            self.hanging.add(uid)
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.texts.interrupt(uid)
                raise
            finally:
                self.hanging.discard(uid)
        return await super().pre_bind(cycle, node_name)
