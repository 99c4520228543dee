"""Users who react to the scheduler: they change a pod while the scheduler works on it.

Random actions of users rarely meet the short moments of a pod: between its placement and the end of
its binding, or during a preemption. Here a decision about a pod is followed by a change of that
very pod, of a victim, or of a pod that is nominated to the same node, soon or at once. A write of a
nomination may be slow then, and a webhook may refuse the deletion of a victim for a while.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from mooring.client import Client
from mooring.clock import seeded_random
from mooring.errors import ApiError, LeaseLost, SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from tests.faults.harness.checkers import StoreChecker
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.scenario_user import PODS, random_pod
from tests.faults.harness.scheduler_checker import SchedulerChecker

#: Added to the seed of a run: its other draws stay as they are.
SEEDS: Final = 1 << 41
#: How often a decision has a reaction, by what was decided: failures are frequent.
SHARES: Final = {
    "placed": 0.2,
    "waits": 0.5,
    "allowed": 0.4,
    "bound": 0.1,
    "failed": 0.08,
    "victim": 0.3,
    "preemptor": 0.15,
    "nominated": 0.6,
    "slow nomination": 0.4,
    "refused deletion": 0.4,
}
#: A run has to end.
REACTIONS_MAX: Final = 60
#: A reaction comes at once, or up to so many seconds later.
DELAY_S_MIN: Final = 0.001
DELAY_S_MAX: Final = 8.0
#: A webhook refuses the deletion of a victim for so long at most.
REFUSED_S_MAX: Final = 20.0
#: A change of a pod; a replaced one has another UID.
CHANGES: Final = ("delete", "replace", "bind")


class Reactions(Observer):
    """Reacts to decisions.

    Args:
        seed: Of the run.
        checker: Knows the scheduler, and counts the reactions.
        client: An administrator's.
        store: The stored objects.
        network: That of the scheduler. Once it has no faults there are no reactions.
        n_safe: Number of nodes on which users bind no pod.
    """

    def __init__(
        self,
        seed: int,
        checker: SchedulerChecker,
        client: Client,
        store: StoreChecker,
        network: FaultyNetwork,
        *,
        n_safe: int,
    ) -> None:
        self._rng = seeded_random(seed + SEEDS)
        self._checker = checker
        self._client = client
        self._store = store
        self._network = network
        self._safe = {f"node-{number}" for number in range(n_safe)}
        self._count = 0
        #: The tasks of reactions that have not ended.
        self._open: set[asyncio.Task[None]] = set()

    # -- an observer ------------------------------------------------------------------------------

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Changes a pod that was placed, while its nomination is written, or its binding."""
        if isinstance(result, Placement):
            if self._draws("slow nomination"):
                status = f"PATCH {PODS}/{entry.pod.metadata.name}/status"
                self._network.plan("slow", status)
                self._checker.count("slow nomination planned")
            self._react("placed", entry.pod.pod)

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Changes the preemptor, a victim, or a pod that is nominated to the node."""
        victims = [victim.pod for victim in post_filter_result.victims]
        if self._draws("refused deletion"):
            self._start("refused deletion", self._refuse_deletion(self._rng.choice(victims)))
        self._react("victim", self._rng.choice(victims))
        self._react("preemptor", entry.pod.pod)
        service = self._checker.service
        assert service is not None
        nominated = service.cache.nominator.pods_on(post_filter_result.node_name or "")
        for info in nominated:
            if info.uid != entry.uid:
                self._react("nominated", info.pod)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Changes a pod in Permit."""
        self._react("waits", entry.pod.pod)

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Changes a pod that Permit has just allowed."""
        self._react("allowed", entry.pod.pod)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Changes a pod that has just been bound."""
        self._react("bound", entry.pod.pod)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Changes a pod whose condition is about to be written."""
        self._react("failed", entry.pod.pod)

    # -- reactions --------------------------------------------------------------------------------

    def _draws(self, what: str) -> bool:
        is_healthy = self._network.faults == Faults()
        if is_healthy or self._count >= REACTIONS_MAX or self._rng.random() > SHARES[what]:
            return False
        self._count += 1
        return True

    def _react(self, point: str, pod: Pod) -> None:
        """Starts a change of a pod, if one is drawn."""
        if self._draws(point):
            change = self._rng.choice(CHANGES)
            action: Callable[[Pod], Awaitable[None]] = getattr(self, f"_{change}")
            self._start(f"{point} {change}", self._after(self._delay_s(), action, pod))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._checker.count(f"reacts {name}")
        task = asyncio.get_running_loop().create_task(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def _delay_s(self) -> float:
        if self._rng.random() < 0.3:
            return 0.0
        least, most = math.log(DELAY_S_MIN), math.log(DELAY_S_MAX)
        return math.exp(self._rng.uniform(least, most))

    async def _after(
        self, delay_s: float, action: Callable[[Pod], Awaitable[None]], pod: Pod
    ) -> None:
        await asyncio.sleep(delay_s)
        if pod.metadata.uid in self._store.pods:
            with suppress(ApiError, LeaseLost, IndexError):
                await action(pod)

    async def _delete(self, pod: Pod) -> None:
        await self._client.delete("Pod", pod.metadata.name, "default")

    async def _replace(self, pod: Pod) -> None:
        name = pod.metadata.name
        await self._client.delete("Pod", name, "default", grace_period_s=0)
        body = random_pod(self._rng, name, has_raising_pods=False)
        await self._client.write("POST", PODS, msgspec.json.encode(body))

    async def _bind(self, pod: Pod) -> None:
        nodes = [name for name in self._store.nodes if name not in self._safe]
        await self._client.bind(pod, self._rng.choice(nodes))

    async def _refuse_deletion(self, victim: Pod) -> None:
        """Refuses the deletion of a pod with Conflict for a while, as a webhook may."""
        pattern = f"^DELETE {re.escape(PODS)}/{re.escape(victim.metadata.name)} "
        self._network.refuse(pattern, 409)
        await asyncio.sleep(self._rng.random() * REFUSED_S_MAX)
        self._network.accept(pattern)
