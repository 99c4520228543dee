"""Bindings of pods over a network that loses most of them, while others bind and delete the pods.

The rules need no model: a binding that counts as done is stored. One that counts as failed is not
stored, and no request for it arrives later. With a working network a pending pod is bound at once.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from random import Random
from typing import Final, NoReturn

from mooring.client import Client, Request
from mooring.client.bound_node import ARRIVES_WITHIN_S
from mooring.client.transport.transport import Response, Transport
from mooring.clock import Rng, seeded_random
from mooring.errors import Conflict, NotFound, OutcomeUnknown, SchedulerError
from mooring.objects.pod import Pod
from mooring.scheduler import bind_pod as module
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.faults import DELAY_S_MAX, DELAY_S_MIN, Faults, FaultyNetwork, now_s
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.parts.bind_sleeps import Sleeps, binding_wait_problems
from tests.faults.parts.claim_process import Answer, Heard
from tests.faults.parts.pod_server import PREFIX, PodServer, error
from tests.helpers.virtual_loop import run_virtually

PODS: Final = 30
#: The server may ask to send a request once more, and has not handled it then.
ASKS_TO_WAIT: Final = (429, 503)
ATTEMPTS: Final = 6
NODES: Final = ("a", "b")
BUSY_S: Final = 600.0
#: Each request for itself may take an hour of retries; all have ended so long after the faults.
ENDED_S: Final = 600.0
#: Of a run with late requests: the longest of the short delays, and the range of the others.
READ_S: Final = 9.0
SLOW_SHARE: Final = 0.6
#: So many of the runs are such ones.
LATE_RUNS_SHARE: Final = 0.2
LATEST_S: Final = ARRIVES_WITHIN_S - 0.1
LAST_S: Final = LATEST_S - 4.0
#: In such seeds, modulo five, connections break before the answer, and requests arrive late or not
#: at all: the client sends several, and each may arrive. So many delays are short, so many requests
#: slow or lost, so many connections break, and after so long.
CUTTING: Final = 1
CUT_SHORT_SHARE: Final = 0.15
CUT_SLOW_SHARE: Final = 0.9
READ_FAST_S: Final = 0.5
DROPPED_SHARE: Final = 0.6
CUT_SHARE: Final = 0.7
CUT_S_MAX: Final = 5.0
#: The refusals of a webhook: status and reason.
REFUSALS: Final = ((403, "Forbidden"), (422, "Invalid"), (400, "BadRequest"))
STATUSES: Final = {Conflict: 409, NotFound: 404}
#: The faults of requests; those of watches do not occur.
KINDS: Final = ("unreachable", "too_many", "server_error", "conflict", "lost", "slow")


class CuttingTransport(FaultyTransport):
    """A transport whose connections break before requests arrive.

    Args:
        network: The network.
        inner: The server.
        rng: Draws which connections break, and when.
    """

    def __init__(self, network: FaultyNetwork, inner: Transport, rng: Rng) -> None:
        super().__init__(network, inner)
        self._rng = rng

    async def _delay(self, request: Request) -> Response:
        """Delays a binding; a read is fast, so that it often shows the pod before that arrives."""
        if request.method == "GET":
            await asyncio.sleep(self._rng.uniform(0.0, READ_FAST_S))
            return await self._inner.request(request)
        delay_s = self._network.delay_s()
        if delay_s >= request.deadline_s:
            self._network.deliver_late(self._inner, request, delay_s)
            await self._time_out(request)
        await asyncio.sleep(delay_s)
        return await self._inner.request(request)

    async def _time_out(self, request: Request) -> NoReturn:
        """Waits for the deadline, or for the end of the connection."""
        if self._rng.random() < CUT_SHARE:
            await asyncio.sleep(self._rng.uniform(0.0, CUT_S_MAX))
            raise OutcomeUnknown(f"{request.method} {request.path}: connection reset")
        await super()._time_out(request)


class RefusingServer:
    """A server some of whose bindings an admission webhook refuses.

    Attributes:
        rate: Of the bindings that are refused.
    """

    def __init__(self, inner: Transport, seed: int) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self._rng = Random(f"{seed} refusals")
        self.rate = self._rng.choice((0.0, 0.0, 0.1, 0.4))

    async def request(self, request: Request) -> Response:
        """Answers a request, or refuses it."""
        if request.method == "POST" and self.rate and self._rng.random() < self.rate:
            return error(*self._rng.choice(REFUSALS))
        return await self._inner.request(request)


class LongDelays(FaultyNetwork):
    """A network whose delays are mostly longer than a request may take.

    Attributes:
        arrives_at_s: UID -> when the last binding of the pod arrives whose sender timed out.
        is_late: Whether delays are short, or almost as long as they can be.
        dropping: Draws which of the late requests never arrive; None = all of them do.
    """

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.arrives_at_s: dict[str, float] = {}
        self.is_late = rng.random() < LATE_RUNS_SHARE
        self.dropping: Rng | None = None

    def delay_s(self, longest_s: float = math.inf) -> float:
        """Returns a delay from a uniform distribution; or a short one, or one of the longest.

        A request may arrive just before it counts as lost, while a read has no answer yet.
        """
        if not self.is_late or longest_s < math.inf:
            return self.rng.uniform(DELAY_S_MIN, min(longest_s, DELAY_S_MAX))
        is_short = self.rng.random() < (0.5 if self.dropping is None else CUT_SHORT_SHARE)
        return self.rng.uniform(*((DELAY_S_MIN, READ_S) if is_short else (LAST_S, LATEST_S)))

    def deliver_late(self, inner: Transport, request: Request, delay_s: float) -> None:
        """Notes when the request arrives, if it does."""
        if self.dropping is not None and self.dropping.random() < DROPPED_SHARE:
            return
        super().deliver_late(inner, request, delay_s)
        uid = json.loads(request.body)["metadata"]["uid"] if request.body else ""
        at_s = now_s() + delay_s
        self.arrives_at_s[uid] = max(self.arrives_at_s.get(uid, 0.0), at_s)


class BindingRun:
    """One run.

    Attributes:
        problems: Violations of the rules.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._tasks = tasks
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._clock = LoopClock(loop)
        self._rng = seeded_random(seed)
        self._server = PodServer()
        self.network = LongDelays(seeded_random(seed + 1_000_000))
        self.network.open(tasks)
        self.network.requests.uid_at = self._uid_at
        self._refusing = RefusingServer(self._server, seed)
        transport = FaultyTransport(self.network, self._refusing)
        if seed % 5 == CUTTING:
            self.network.is_late = True
            self.network.dropping = cutting = seeded_random(seed + 4_000_000)
            transport = CuttingTransport(self.network, self._refusing, cutting)
        self._heard, self._sleeps = Heard(transport), Sleeps()
        self._heard.on_answer = self._sleeps.note
        self._client = Client(self._heard, rng=self._rng)
        self.network.faults = _faults(self._rng)
        if self.network.is_late:
            slow = SLOW_SHARE if self.network.dropping is None else CUT_SLOW_SHARE
            self.network.faults = Faults(slow=slow)
        self._open = 0
        #: UIDs of the pods that others have bound, perhaps to the same node.
        self._bound_by_others: set[str] = set()

    def _uid_at(self, path: str) -> str:
        name = path.removeprefix(PREFIX).partition("/")[0]
        return next((uid for uid in self._server.nodes if uid.startswith(f"{name}-")), "")

    async def run(self) -> None:
        """Binds all pods during the faults, and the rest after them."""
        rng = self._rng
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(self._bind(f"pod{n}")) for n in range(PODS)]
            others = tasks.create_task(self._act())
            await asyncio.sleep(BUSY_S)
            others.cancel()
            self.network.heal()
            self._refusing.rate = 0.0
            await asyncio.wait(working, timeout=ENDED_S)
            if self._open:
                self.problems.append(f"{self._open} bindings have not ended")
            await asyncio.sleep(max(0.0, self.network.healed_at_s - self._clock.monotonic_s()))
            self.network.faults = Faults()
            for number in range(PODS):
                pod = self._server.create(f"pod{number}")
                started_s = self._clock.monotonic_s()
                await self._attempt(pod.metadata.name, rng.choice(NODES))
                # The server may have asked to wait with this path.
                if not self._server.nodes[pod.metadata.uid]:
                    self.problems.append(f"{pod.metadata.name} is not bound, without any fault")
                if self._clock.monotonic_s() - started_s > 1.0:
                    self.problems.append(f"{pod.metadata.name} took long, without any fault")
            for task in working:
                task.cancel()
        for rule, message in self.network.requests.problems():
            self.problems.append(f"{rule} {message}")

    async def _bind(self, name: str) -> None:
        """Binds a pod again and again, as the scheduler does: after a backoff, anywhere."""
        await asyncio.sleep(self._rng.random() * BUSY_S / 2)
        self._server.create(name)
        for _ in range(ATTEMPTS):
            if await self._attempt(name, self._rng.choice(NODES)):
                return
            await asyncio.sleep(self._rng.choice((1.0, 2.0, 10.0)))

    async def _attempt(self, name: str, node: str) -> bool:
        """Binds a pod once; returns whether nothing is left to do."""
        try:
            pod = self._server.pod(name)
        except KeyError:
            return True
        uid, result = pod.metadata.uid, None
        if pod.spec.node_name:
            return True
        self._open += 1
        answers = self._heard.answers.setdefault(asyncio.current_task(), [])
        answers.clear()
        try:
            await self._send(pod, node)
        except SchedulerError as failure:
            result = failure
        self._open -= 1
        self._check(name, uid, node, result)
        self._check_refusal(name, answers, result)
        if _is_sent_after_the_end([it.status for it in answers if it.request.method == "POST"]):
            self.problems.append(f"{name} is bound once more after a failure that is an answer")
        return result is None

    async def _send(self, pod: Pod, node: str) -> None:
        """Binds a pod as the default plugin does."""
        steps = self._sleeps.steps.setdefault(asyncio.current_task(), [])
        steps.clear()
        try:
            await module.bind_pod(
                self._client, pod, node, clock=self._clock, rng=self._rng, sleep=self._sleeps.sleep
            )
        finally:
            self.problems += (f"{pod.metadata.name}: {it}" for it in binding_wait_problems(steps))

    def _check(self, name: str, uid: str, node: str, result: SchedulerError | None) -> None:
        if isinstance(result, Conflict | NotFound) and STATUSES[type(result)] != result.status:
            self.problems.append(f"{name} failed with {result!r} of status {result.status}")
        stored = self._server.nodes.get(uid)
        if stored is None:
            return  # deleted meanwhile
        if result is None and stored != node:
            self.problems.append(f"{name} counts as bound to {node}, but is on {stored!r}")
        if result is not None and stored == node and uid not in self._bound_by_others:
            self.problems.append(f"{name} is on {node}, but failed with {result!r}")
        if isinstance(result, NotFound):
            self.problems.append(f"{name} counts as deleted, but exists")
        words = str(result).partition('is already assigned to node "')
        if isinstance(result, Conflict) and words[2] not in ("", f'{stored}"'):
            self.problems.append(f"{name} is on {stored!r}, but failed with {result}")
        is_on_its_way = self.network.arrives_at_s.get(uid, 0.0) > now_s()
        if result is not None and not stored and is_on_its_way:
            self.problems.append(f"{name} failed with {result!r}, but its request is on its way")

    def _check_refusal(
        self, name: str, answers: Sequence[Answer], result: SchedulerError | None
    ) -> None:
        """Checks that a failure whose last binding was refused is this refusal."""
        statuses = [it.status for it in answers if it.request.method == "POST"]
        refused = statuses[-1] if statuses and statuses[-1] in dict(REFUSALS) else 0
        is_other = result is None or isinstance(result, Conflict | NotFound)
        if refused and not is_other and getattr(result, "status", 0) != refused:
            self.problems.append(f"{name} was refused with {refused}, but failed with {result!r}")

    async def _act(self) -> None:
        """Binds and deletes pods as others do, and restarts the server."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.expovariate(1 / 15.0))
            name = f"pod{rng.randrange(PODS)}"
            pending = [uid for uid, node in self._server.nodes.items() if not node]
            match rng.choice(("bind", "bind", "delete", "replace", "restart")):
                case "bind" if pending:
                    uid = rng.choice(pending)
                    self._bound_by_others.add(uid)
                    self._server.bind(uid, rng.choice((*NODES, "other")))
                case "delete":
                    self._server.delete(name)
                case "replace":
                    self._server.create(name)
                case "restart":
                    self.network.restart(rng.random() ** 2 * 60.0)


def _is_sent_after_the_end(statuses: list[int]) -> bool:
    """Returns whether a binding followed one that the server has refused or failed."""
    ends = [
        number for number, code in enumerate(statuses) if code >= 400 and code not in ASKS_TO_WAIT
    ]
    return bool(ends) and ends[0] + 1 < len(statuses)


def _faults(rng: Rng) -> Faults:
    """Returns the rates of a run: higher than those of whole runs."""
    assert set(KINDS) < {field.name for field in fields(Faults)}
    return Faults(**{name: rng.choice((0.0, 0.1, 0.3, 0.6)) for name in KINDS})


def run_binding(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rule is violated.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            binding = BindingRun(seed, tasks)
            await binding.run()
        return binding.problems

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    assert not problems, problems[0]
