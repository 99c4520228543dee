"""The verification of bindings: reads that take long or fail, while events of the pods arrive.

The model says when each pod may be read, and what an answer means: a pod that is bound is looked at
again after half a minute, one that is not loses its assumption; if something has happened to the
pod during the read, the answer changes nothing. In half of the runs a pod that has lost its binding
is retried soon: it is assumed, and not to be verified before it is bound once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.errors import NotFound, SchedulerError, ServerError, TooManyRequests, Unreachable
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.bind_verification import BindVerifier
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.pod_server import PodServer
from tests.faults.parts.verify_looks import check_looks
from tests.faults.parts.virtual_runs import check_run
from tests.helpers.queues import Bench

PODS: Final = 5
ACTIONS: Final = 80
NODE: Final = "a"
CONFIRM_S: Final = 30.0
#: At the end nothing fails, and each pod was read twice after so long.
QUIET_S: Final = 150.0
ROUNDING_S: Final = 1e-6
WEIGHTS: Final = {"bind": 6, "confirm": 3, "lose": 3, "delete": 2, "report": 3, "rebind": 2}
#: In half of the runs users change pods whose binding the informer has not seen.
WEIGHTS_CHANGED: Final = {"change": 4}
#: A namesake is in the informer before the queue and the cache know it, as during a call to an
#: extender, which buffers the events.
WEIGHTS_BUFFERED: Final = {**WEIGHTS, "replace_unseen": 3}
#: Of the changes of a pod so many are its termination: it is not queued when its binding is lost.
TERMINATED_SHARE: Final = 0.3
#: In such seeds, modulo four, pods whose binding was lost are retried, after so long at most.
#: A binding takes longer than the time between two checks, or less.
RETRIES: Final = (1, 2)
#: In so many runs the informer has the binding of a pod by others, which no handler of events knows
#: yet, when a restore undoes it.
WEIGHTS_ELSEWHERE: Final = {"place_unseen": 4}
ELSEWHERE_SHARE: Final = 0.3
RETRIED_S_MAX: Final = 4.0
BINDING_S_MAX: Final = 40.0


class VerifyRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop, self._rng = loop, seeded_random(seed)
        self._server, self._cache, self._queue = PodServer(), Cache(), Bench().queue
        self._cache.put_node(make_node(NODE))
        self._pods: dict[str, Pod] = {}
        #: The moves of the queue, and those that lost bindings bring about: pods by UID.
        self._moved: list[Any] = []
        self._lost: list[Pod] = []
        queue: Any = self._queue
        move, queue.move = queue.move, self._moves
        self._move = move
        client: Any = self
        self._verifier = BindVerifier(
            client, self._cache, self._queue, self._pods, clock=LoopClock(loop)
        )
        self._elsewhere = Random(f"{seed} elsewhere").random() < ELSEWHERE_SHARE
        #: UID -> the time of the next check, in a list of its own for each binding.
        self._tracked: dict[str, list[float]] = {}
        is_assumed, report = self._cache.is_assumed, self.problems.append
        self._read = check_looks(self._verifier, self._tracked, is_assumed, report)
        #: UIDs of the pods that the informer has, but no handler of events.
        self._unseen: set[str] = set()
        self._changes = seed % 2 == 0
        self._retries = seeded_random(seed + 2_000_000) if seed % 4 in RETRIES else None
        self._failing = self._rng.choice((0.0, 0.3, 0.7))
        self._slow_s = self._rng.choice((0.1, 5.0, 20.0))

    async def run(self) -> None:
        """Makes all actions, and compares at the end."""
        rng = self._rng
        weights = WEIGHTS_BUFFERED if rng.random() < 0.5 else WEIGHTS
        if self._changes:
            weights = {**weights, **WEIGHTS_CHANGED}
        weights = {**weights, **(WEIGHTS_ELSEWHERE if self._elsewhere else {})}
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._verifier.run())
            for _ in range(ACTIONS):
                await asyncio.sleep(rng.choice((0.0, 1.0, 5.0, 15.0)))
                action: Callable[[str], None] = getattr(
                    self, f"_{rng.choices(list(weights), list(weights.values()))[0]}"
                )
                action(f"pod{rng.randrange(PODS)}")
            self._failing, self._slow_s = 0.0, 0.1
            await asyncio.sleep(QUIET_S)
            running.cancel()
        for placed in self._cache.pods:
            uid = placed.info.uid
            if self._cache.is_assumed(uid) and self._server.nodes.get(uid) != NODE:
                self.problems.append(f"{uid} is still assumed, but is not bound")
        if self._moved != self._lost:
            moved, lost = ([pod.metadata.uid for pod in it] for it in (self._moved, self._lost))
            self.problems.append(f"the resources of {moved} were released, not of {lost}")
        lost = [uid for uid in self._tracked if self._cache.is_assumed(uid)]
        if len(self._verifier) != len(lost):
            self.problems.append(f"{len(self._verifier)} bindings are verified, not {len(lost)}")

    # -- the client of the verifier ---------------------------------------------------------------

    async def get(self, kind: str, name: str, namespace: str = "") -> Pod:
        """Reads a pod, late or not at all; checks that it is due, and what follows."""
        del kind, namespace
        uid = next((u for u, it in self._tracked.items() if u.rpartition("-")[0] == name), "")
        due = self._tracked.get(uid)
        self._read.add(uid)
        if due is None or not self._cache.is_assumed(uid):
            self.problems.append(f"{name} is read, but is not to be verified")
        elif self._loop.time() < due[0] - ROUNDING_S:
            self.problems.append(f"{name} is read {due[0] - self._loop.time():.1f} s too early")
        await asyncio.sleep(self._rng.random() * self._slow_s)
        result: Pod | SchedulerError = self._result(name)
        if due is not None and self._tracked.get(uid) is due and self._cache.is_assumed(uid):
            self._follow(uid, due, result)
        else:
            is_assumed, is_queued = self._cache.is_assumed(uid), self._is_queued(uid)
            self._loop.call_soon(self._check, uid, is_assumed, is_queued)
        if isinstance(result, SchedulerError):
            raise result
        return result

    def _result(self, name: str) -> Pod | SchedulerError:
        if self._rng.random() < self._failing:
            wait_s = self._rng.choice((5.0, 60.0))
            busy = TooManyRequests("busy", status=429, retry_after_s=wait_s)
            return self._rng.choice([Unreachable("refused"), ServerError("no", status=500), busy])
        try:
            return self._server.pod(name)
        except KeyError:
            return NotFound("no such pod", status=404, reason="NotFound")

    def _follow(self, uid: str, due: list[float], result: Pod | SchedulerError) -> None:
        """Follows an answer about a pod to which nothing has happened meanwhile."""
        is_gone = isinstance(result, NotFound) or (
            isinstance(result, Pod) and result.metadata.uid != uid
        )
        if isinstance(result, Pod) and not is_gone and result.spec.node_name:
            due[0] += CONFIRM_S
        elif isinstance(result, SchedulerError) and not is_gone:
            wait_s = result.retry_after_s if isinstance(result, TooManyRequests) else 0.0
            due[0] = self._loop.time() + (wait_s or 0.0)
        else:
            del self._tracked[uid]
            placed = self._cache.pods.get(uid)
            if placed is not None:
                self._lost.append(placed.info.pod)
            is_pending = _is_pending(self._pods.values(), uid)
            self._loop.call_soon(self._check, uid, False, is_pending)
            if self._retries is not None:
                self._loop.call_later(self._retries.uniform(0.01, RETRIED_S_MAX), self._retry)
            return
        self._loop.call_soon(self._check, uid, True, False)

    def _moves(self, event: Any, old: Any, new: Any, *, only: Any) -> Any:
        """Follows a move: of a lost binding others profit, but not its own pod."""
        self._moved.append(old)
        uid = old.metadata.uid
        who = [only(SimpleNamespace(uid=it)) for it in (uid, f"not-{uid}")]
        if (event.label, new, who) != ("AssignedPodDelete", None, [False, True]):
            self.problems.append(f"{uid} moves pods by {event.label} {new} {who}")
        if self._cache.is_assumed(uid):
            self.problems.append(f"{uid} moves pods before its resources are free")
        return self._move(event, old, new, only=only)

    def _check(self, uid: str, is_assumed: bool, is_queued: bool) -> None:
        if self._cache.is_assumed(uid) != is_assumed:
            self.problems.append(f"{uid} is assumed after a read: {not is_assumed}")
        if self._is_queued(uid) != is_queued:
            self.problems.append(f"{uid} is queued after a read: {not is_queued}")
        entry = self._queue.get(uid)
        if entry is not None and entry.pod.pod is not self._pods.get(entry.pod.key):
            self.problems.append(f"{uid} is queued in an old version")
        if self._unseen & {entry.uid for entry in self._queue.pods()}:
            self.problems.append("a pod is queued whose creation was not handled yet")

    def _is_queued(self, uid: str) -> bool:
        return self._queue.queue_of(uid) is not QueueName.NONE

    # -- the scheduler ----------------------------------------------------------------------------

    def _retry(self) -> None:
        """Tries a queued pod again: it is assumed while its binding is in progress."""
        rng, entry = self._retries, self._queue.pop()
        if rng is None or entry is None:
            return
        with self._queue.in_flight(entry):
            self._assume(entry.pod)
        self._loop.call_later(rng.uniform(0.0, BINDING_S_MAX), self._end_retry, entry.pod)

    def _end_retry(self, info: PodInfo) -> None:
        """Ends a binding, which is acknowledged, or fails; the pod may be gone meanwhile."""
        uid, pod = info.uid, self._pods.get(info.key)
        if not self._cache.is_assumed(uid) or uid in self._tracked or self._retries is None:
            return
        if pod is None or uid not in self._server.nodes or self._retries.random() < 0.2:
            self._cache.forget(uid)
            return
        self._server.bind(uid, NODE)
        self._acknowledge(PodInfo(pod))

    # -- what happens -----------------------------------------------------------------------------

    def _bind(self, name: str) -> None:
        """Binds a new pod of the name, whose binding is acknowledged."""
        self._report_deletion(name)
        pod = self._server.create(name)
        self._pods[f"default/{name}"] = pod
        self._server.bind(pod.metadata.uid, NODE)
        self._track(pod)

    def _track(self, pod: Pod) -> None:
        info = PodInfo(pod)
        self._assume(info)
        self._acknowledge(info)

    def _assume(self, info: PodInfo) -> None:
        with self._cache.assume(info.on_node(NODE), NODE) as reservation:
            reservation.keep()

    def _acknowledge(self, info: PodInfo) -> None:
        """Lets a binding be verified, from now on."""
        self._tracked[info.uid] = [self._loop.time() + CONFIRM_S]
        self._verifier.track(info, NODE)

    def _confirm(self, name: str) -> None:
        """Reports the binding, as the watch does."""
        pod = self._pods.get(f"default/{name}")
        if pod is not None and self._server.nodes.get(pod.metadata.uid) == NODE:
            self._pods[f"default/{name}"] = self._server.pod(name)
            self._cache.put_pod(self._server.pod(name))
            self._tracked.pop(pod.metadata.uid, None)

    def _lose(self, name: str) -> None:
        """Restores the server from a backup from before the binding."""
        pod = self._pods.get(f"default/{name}")
        if pod is not None and not pod.spec.node_name:
            self._server.bind(pod.metadata.uid, "")

    def _delete(self, name: str) -> None:
        """Deletes a pod, which the watch reports later, or never."""
        self._server.delete(name)

    def _report(self, name: str) -> None:
        pod = self._pods.get(f"default/{name}")
        if pod is not None and pod.metadata.uid not in self._server.nodes:
            self._report_deletion(name)

    def _report_deletion(self, name: str) -> None:
        """Reports the deletion of a pod, and of those that had its name before."""
        pod = self._pods.pop(f"default/{name}", None)
        before = [uid for uid in self._tracked if uid.rpartition("-")[0] == name]
        for uid in [*before, *([pod.metadata.uid] if pod is not None else [])]:
            self._cache.remove_pod(uid)
            self._queue.delete(uid)
            self._tracked.pop(uid, None)

    def _replace_unseen(self, name: str) -> None:
        """Replaces a pod by one of its name, which no handler of events has seen yet."""
        if f"default/{name}" in self._pods:
            pod = self._pods[f"default/{name}"] = self._server.create(name)
            self._unseen.add(pod.metadata.uid)

    def _place_unseen(self, name: str) -> None:
        """Lets others bind a pod, which no handler of events has seen yet; that is lost, too."""
        pod = self._pods.get(f"default/{name}")
        if pod is None or pod.spec.node_name or not self._cache.is_assumed(pod.metadata.uid):
            return
        self._pods[f"default/{name}"] = replace(pod, spec=replace(pod.spec, node_name="elsewhere"))
        self._server.bind(pod.metadata.uid, "")

    def _change(self, name: str) -> None:
        """Reports another label of a pod that still counts as pending, or its termination."""
        pod = self._pods.get(f"default/{name}")
        if pod is None or pod.spec.node_name or not self._cache.is_assumed(pod.metadata.uid):
            return
        labels = {"touched": str(self._rng.randrange(9))}
        metadata = replace(pod.metadata, labels=labels)
        if self._rng.random() < TERMINATED_SHARE:
            metadata = replace(metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self._pods[f"default/{name}"] = replace(pod, metadata=metadata)

    def _rebind(self, name: str) -> None:
        """Gives a binding up, and binds the pod once more."""
        pod = self._pods.get(f"default/{name}")
        if pod is not None and self._cache.is_assumed(pod.metadata.uid):
            self._cache.forget(pod.metadata.uid)
            self._track(pod)


def _is_pending(pods: Iterable[Pod], uid: str) -> bool:
    """Returns whether a pod is reported as one that is to be scheduled."""
    pod = next((pod for pod in pods if pod.metadata.uid == uid), None)
    if pod is None or pod.spec.node_name:
        return False
    return pod.metadata.deletion_timestamp is None


def run_verify(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a verification differs from the model.
    """
    check_run(VerifyRun, seed)
