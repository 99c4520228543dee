"""Conditions and nominations that change faster than they can be written.

The API server is the embedded one. The versions that the writer gets lag behind what it wrote
itself. Once the network works and all is written, the stored status is the one that was asked for
last: whatever was refused, replaced or removed in between. A condition has the time of a transition
only if its status changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, Handler, InProcessTransport
from mooring.clock import Rng, seeded_random
from mooring.objects.pod import Pod
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.final_checker import NOTHING, condition_of
from tests.faults.parts.status_memory import memory_problems
from tests.faults.parts.status_order import order_problems
from tests.faults.parts.transitions import Transitions
from tests.helpers.virtual_loop import run_virtually

PODS: Final = 3
ROUNDS: Final = 8
#: The most updates of one round.
ACTIONS: Final = 16
#: The longest Retry-After is 120 s, the longest wait between two tries 17 s.
QUIET_S: Final = 200.0
NODES: Final = ("a", "b")
#: Of the nominations before a binding so many are forgotten by the writer at once.
FORGOTTEN_SHARE: Final = 0.3
#: A request takes ten seconds at most.
ANNOUNCED_S_MAX: Final = 10.5
MESSAGES: Final = ("no node fits", "another reason")
#: Requests that arrive late, after newer ones, are excluded: no writer could help.
KINDS: Final = ("unreachable", "too_many", "server_error", "lost", "refused_status")

WEIGHTS: Final = {"fail": 12, "announce": 3, "overtake": 3, "place": 2, "replace": 1}


@dataclass
class Expected:
    """The status that a pod shall have; None = nothing is known about this part.

    Attributes:
        message: Of its condition.
        nominated: The node.
        is_forgotten: Whether the writer has forgotten what it stored, as it does if it has stored
            many others. Until the informer has that version, only the nomination that was written
            before a binding is known to be withdrawn, and only by the updates after it.
        is_unknown: Whether nothing more is known about the pod in this round.
    """

    message: str | None = NOTHING
    nominated: str | None = ""
    is_forgotten: bool = False
    is_unknown: bool = False


class StatusRun:
    """One run.

    Attributes:
        problems: Pods with another status than the last one.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, self._rng = LoopClock(loop), seeded_random(seed)
        api = ApiServer(clock, seeded_random(seed + 1))
        inner = InProcessTransport(api.handle, headers=ADMIN.headers())
        self._user = Client(inner, rng=self._rng)
        self._network = FaultyNetwork(seeded_random(seed + 2))
        self._network.open(tasks)
        self._faults, self._is_quiet = _faults(self._rng), False
        slow = InProcessTransport(self._slowly(api.handle), headers=ADMIN.headers())
        client = Client(FaultyTransport(self._network, slow), rng=self._rng)
        self._writer = StatusWriter(client, clock=clock, rng=seeded_random(seed + 3))
        self._transitions = Transitions(self._writer, client, self.problems.append)
        queue: Any = self._writer._writes
        self._write, queue._write_value = queue._write_value, self._checked_write
        #: Name -> the version that the informer has, and what its status shall be.
        self._pods: dict[str, Pod] = {}
        self._expected: dict[str, Expected] = {}
        #: Number of nominations before a binding; each is to a node of its own.
        self._announced = 0
        self._lag_s = self._rng.choice((0.1, 2.0, 10.0))
        self._pause_s = self._rng.choice((0.1, 1.0, 5.0))

    def _slowly(self, handle: Handler) -> Handler:
        """Returns a handler whose answers take a while: what they say is stored meanwhile."""

        async def slow(*request: Any) -> Any:
            bodies = [it for it in request if isinstance(it, bytes) and it]
            if any(json.loads(body).get("status") == {} for body in bodies):
                self.problems.append("a status is written in which nothing changes")
            # Of two requests at the same time the second one may be stored first.
            if not self._is_quiet:
                await asyncio.sleep(self._rng.choice((0.0, self._rng.random() * self._pause_s)))
            answer = await handle(*request)
            await asyncio.sleep(self._rng.choice((0.0, self._rng.random() * self._pause_s)))
            return answer

        return slow

    async def _checked_write(self, update: StatusUpdate, tries: int) -> Any:
        """Writes, and checks which waits count as those that the server has asked for."""
        task, requested = asyncio.current_task(), self._transitions.requested
        requested.pop(task, None)
        retry = await self._write(update, tries)
        # Without a request it is the wait that was asked for before.
        is_requested = requested.pop(task, True)
        if retry is not None and retry.is_requested != is_requested:
            self.problems.append(f"the wait of {update.pod.metadata.name}, {retry}, is wrong")
        return retry

    async def run(self) -> None:
        """Makes all updates, and compares when they are written."""
        for number in range(PODS):
            await self._create(f"pod{number}")
        async with asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(self._writer.run()), tasks.create_task(self._follow())]
            for _ in range(ROUNDS):
                await self._act()
                if self.problems:
                    break
            for task in helpers:
                task.cancel()

    async def _act(self) -> None:
        """Makes some updates during faults, and compares when they are written."""
        rng = self._rng
        for name, forgotten in self._expected.items():
            if forgotten.is_forgotten:
                self._pods[name] = await self._user.get("Pod", name, "default")
                self._expected[name] = Expected(None, None)
        self._network.faults, self._is_quiet = self._faults, False
        for _ in range(rng.randrange(ACTIONS)):
            await asyncio.sleep(rng.choice((0.0, rng.random() * self._pause_s)))
            name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            action: Callable[[str], Awaitable[None]] = getattr(self, f"_{name}")
            await action(f"pod{rng.randrange(PODS)}")
        if rng.random() < 0.5:
            await self._overtake(f"pod{rng.randrange(PODS)}")
        self._network.heal()
        self._is_quiet = True
        await asyncio.sleep(QUIET_S)
        for name, expected in self._expected.items():
            await self._compare(name, expected)
        if len(self._writer):
            self.problems.append(f"{len(self._writer)} updates are not written")

    async def _compare(self, name: str, expected: Expected) -> None:
        stored = await self._user.get("Pod", name, "default")
        message, nominated = condition_of(stored), stored.status.nominated_node_name
        if expected.is_unknown:
            return
        if expected.message not in (None, message) and not expected.is_forgotten:
            self.problems.append(f"{name} has the condition {message!r}, not {expected.message!r}")
        if expected.nominated not in (None, nominated):
            self.problems.append(f"{name} has node {nominated!r}, not {expected.nominated!r}")

    async def _create(self, name: str) -> None:
        await self._user.create(make_pod(name, uid=""))
        self._pods[name] = await self._user.get("Pod", name, "default")
        self._expected[name] = Expected()

    async def _follow(self) -> None:
        """Lets the informer have the newest version of some pod, now and then."""
        while True:
            await asyncio.sleep(10.0 if self._is_quiet else self._rng.random() * self._lag_s)
            name = self._rng.choice(list(self._pods))
            stored = await self._user.get("Pod", name, "default")
            if stored.metadata.uid == self._pods[name].metadata.uid:
                self._pods[name] = stored

    # -- what the scheduler does ------------------------------------------------------------------

    async def _fail(self, name: str) -> None:
        """Reports an attempt that failed: it may nominate, or end a nomination."""
        rng = self._rng
        nominated = rng.choice((None, None, "", *NODES))
        self._enqueue(name, nominated)

    def _enqueue(
        self, name: str, nominated: str | None, announced: str | None = None, message: str = ""
    ) -> None:
        message, expected = message or self._rng.choice(MESSAGES), self._expected[name]
        update = StatusUpdate(self._pods[name], "Unschedulable", message, nominated, announced)
        self._writer.enqueue(update)
        expected.message = message
        if nominated is not None:
            expected.nominated = nominated

    async def _announce(self, name: str, message: str = "") -> None:
        """Writes the node before a binding, which fails, with a message or any one."""
        self._announced += 1
        node, uid = f"node-{self._announced}", self._pods[name].metadata.uid
        self._writer.cancel_update(uid)
        was_forgotten = self._expected[name].is_forgotten
        self._expected[name] = Expected(None, None, was_forgotten, was_forgotten)
        started_s = asyncio.get_running_loop().time()
        is_announced = await self._writer.nominate(self._pods[name], node)
        # The binding waits for it: it does not wait as long as the server may ask to.
        if asyncio.get_running_loop().time() - started_s > ANNOUNCED_S_MAX:
            self.problems.append(f"the nomination of {name} is waited for too long")
        if self._pods[name].metadata.uid == uid and self._rng.random() < 0.9:
            if is_announced and self._rng.random() < FORGOTTEN_SHARE:
                self._expected[name].is_forgotten = True
                self._writer._stored.pop(uid, None)
                self._transitions.forget(uid)
            self._enqueue(name, "", node if is_announced else None, message)
            if not message and self._rng.random() < 0.3:
                # The next attempt fails before that is written, with a nomination or without.
                self._enqueue(name, self._rng.choice((None, "", *NODES)))
            # What was in progress when it was cancelled may have been stored after all.
            if not is_announced:
                self._expected[name].nominated = None
                stored = await self._user.get("Pod", name, "default")
                if stored.status.nominated_node_name == node:
                    self.problems.append(f"{name} has {node!r}, which counts as not written")

    async def _overtake(self, name: str) -> None:
        """Writes the node before a binding while another message is being written."""
        before = self._expected[name].message
        message, other = reversed(MESSAGES) if before == MESSAGES[1] else MESSAGES
        self._enqueue(name, None, message=other)
        await asyncio.sleep(self._rng.choice((0.0, 0.01, self._rng.random() * self._pause_s)))
        await self._announce(name, message)

    async def _place(self, name: str) -> None:
        """Begins a binding: what is not written yet is not written any more."""
        self._writer.cancel_update(self._pods[name].metadata.uid)
        was_forgotten = self._expected[name].is_forgotten
        self._expected[name] = Expected(None, None, was_forgotten, was_forgotten)

    async def _replace(self, name: str) -> None:
        """Deletes a pod, and creates another one of its name."""
        uid = self._pods[name].metadata.uid
        await self._user.delete("Pod", name, "default", grace_period_s=0)
        self._writer.cancel_update(uid)
        self._writer.forget(uid)
        if uid in self._writer._stored or uid in self._writer._requests._unknown:
            self.problems.append(f"what was stored for {name} is kept once it is deleted")
        await self._create(name)


def _faults(rng: Rng) -> Faults:
    return Faults(**{name: rng.choice((0.0, 0.2, 0.6)) for name in KINDS})


def run_status(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status is not the last one.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            status = StatusRun(seed, tasks)
            await status.run()
        status.problems += memory_problems(seeded_random(seed + 3_000_000))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        order = await order_problems(seeded_random(seed + 4_000_000), LoopClock(loop))
        return status.problems + order

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    assert not problems, problems[0]
