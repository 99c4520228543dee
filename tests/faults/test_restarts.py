"""The scheduler ends at every point of a run, and a new one continues.

::

    count the steps of a run ──> repeat it, end the scheduler at step k ──> a new scheduler
    for every k:  killed at a request, before and after it is stored      all pods are bound
                  killed between two steps of the loop                     once, nothing leaks
                  stopped in the ordinary way (SIGTERM)

A run is deterministic, so the k-th repetition is the same up to its end. A killed scheduler sends
nothing more: its network fails at that moment, and its tasks are cancelled.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from mooring.client import Client, InProcessTransport, Request, Transport
from mooring.client.transport.transport import Response, Stream
from mooring.clock import Rng, seeded_random
from mooring.errors import Unreachable
from mooring.scheduler.service import Service, ServiceOptions
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.fault_fixture import Lab, small_node, small_pod
from tests.faults.harness.checkers import SCHEDULER
from tests.faults.harness.scheduler_checker import leaks
from tests.helpers.virtual_loop import LimitedLoop

#: Every so many-th step is tried; MOORING_EVERY=1 tries all.
EVERY: Final = int(os.environ.get("MOORING_EVERY", "9"))

#: Least number of requests and steps of the run: fewer would prove nothing.
REQUESTS_MIN: Final = 15
STEPS_MIN: Final = 80
#: Least number of states, by bound pods, in which the first scheduler must have ended.
STATES_MIN: Final = 4

#: Of a request and of its response: other tasks run meanwhile.
LATENCY_S_MAX: Final = 0.05

#: Until a new scheduler has bound all pods: preemption has a grace period, and a pod a backoff.
BOUND_S: Final = 60.0


class Ended(NamedTuple):
    """The end of a scheduler: requests sent, steps of the loop, and pods that it bound."""

    requests: int
    steps: int
    binds: int


class Mortal:
    """A transport that ends its process at the k-th request, counted from 1.

    Attributes:
        sent: Number of requests so far.
        dies_at: The request at which the process ends; 0 = never.
        is_stored: Whether that request still reaches the server.
        died: Set at that moment.
    """

    def __init__(self, inner: Transport, *, dies_at: int = 0, is_stored: bool = False) -> None:
        self.sent = 0
        self.dies_at = dies_at
        self.is_stored = is_stored
        self.died = asyncio.Event()
        self._inner = inner
        self._rng = seeded_random(5)

    def kill(self) -> None:
        """Ends the process: nothing is sent from now on."""
        self.died.set()

    async def request(self, request: Request) -> Response:
        """Sends a request, unless the process has ended; its response is lost then."""
        self._check()
        self.sent += 1
        if self.sent == self.dies_at:
            if self.is_stored:
                await self._inner.request(request)
            self.kill()
        await asyncio.sleep(LATENCY_S_MAX * self._rng.random())
        self._check()
        response = await self._inner.request(request)
        await asyncio.sleep(LATENCY_S_MAX * self._rng.random())
        self._check()
        return response

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Opens a watch, unless the process has ended."""
        self._check()
        async with self._inner.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        """Closes the inner transport."""
        await self._inner.close()

    def _check(self) -> None:
        if self.died.is_set():
            raise Unreachable("the process has ended")


class RestartLab(Lab):
    """A lab whose scheduler can be replaced by a new one."""

    def __init__(self, rng: Rng) -> None:
        super().__init__()
        self._rng = rng
        self.evictions: Counter[str] = Counter()
        self.steps = 0
        self.is_checked = True
        self.on_step_at: tuple[int, Any] = (0, None)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._clock = LoopClock(loop)
        loop.on_step = self._on_step

    def _on_step(self) -> None:
        if self.is_checked:
            self.checker.on_step()
        self.steps += 1
        at, action = self.on_step_at
        if self.steps == at:
            action()

    def new_service(self, mortal: Mortal) -> Service:
        """Returns a scheduler without state."""
        service = Service(
            Client(mortal, rng=self._rng),
            clock=self._clock,
            rng=self._rng,
            options=ServiceOptions(observer=self.checker),
        )
        self.service = self.checker.service = service
        return service

    def new_transport(self, **options: Any) -> Mortal:
        """Returns the transport of a process."""
        return Mortal(InProcessTransport(self.store.handler(SCHEDULER)), **options)

    async def prepare(self) -> None:
        """Creates two full nodes, pods that fit a third one, and a pod that has to preempt."""
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await self.user.write("POST", path, msgspec.json.encode(body))
        await self.add(small_node("a", pods=3), small_node("b", pods=2))

    async def add_pods(self) -> None:
        """Creates five pods for five places, and one that has to preempt one of them."""
        await self.add(*(small_pod(f"p{number}") for number in range(5)))
        await asyncio.sleep(2.0)
        spec = {"priorityClassName": "urgent"}
        await self.add(small_pod("urgent", spec=spec))
        await asyncio.sleep(3.0)

    def bound(self) -> set[str]:
        """Returns the names of pods on a node that are not terminating."""
        return {
            pod.metadata.name
            for pod in self.store.pods.values()
            if pod.spec.node_name and pod.metadata.deletion_timestamp is None
        }

    def bindings_stored(self) -> list[str]:
        """Returns the UIDs of all pods that the scheduler has bound."""
        return [uid for uid, at in self.store.bindings.items() if at.actor == SCHEDULER]

    def is_done(self) -> bool:
        """Returns whether each place is used, by the pod that preempts and by four others."""
        bound = self.bound()
        return "urgent" in bound and len(bound) == 5

    async def delete_terminating(self) -> None:
        """Deletes terminating pods after a second, as a kubelet does."""
        while True:
            await asyncio.sleep(1.0)
            for pod in list(self.store.pods.values()):
                if pod.metadata.deletion_timestamp is not None:
                    self.evictions[pod.metadata.uid] += 1
                    name = pod.metadata.name
                    await self.user.delete("Pod", name, "default", grace_period_s=0)


async def run_first(lab: RestartLab, mortal: Mortal, *, is_stopped: bool = False) -> None:
    """Runs a scheduler until the pods are bound, or until it is killed or stopped."""
    service = lab.new_service(mortal)
    process = asyncio.create_task(service.run())
    users = asyncio.create_task(lab.add_pods())
    dying = asyncio.create_task(mortal.died.wait())
    await asyncio.wait((users, dying, process), return_when=asyncio.FIRST_COMPLETED)
    if not is_stopped:
        mortal.kill()
        # Cancelled tasks may violate invariants of the queue and the cache.
        lab.is_checked = False
        process.cancel()
    elif not process.done():
        service.stop()
    await asyncio.wait((process,))
    lab.checker.service, lab.is_checked = None, True
    assert process.cancelled() or not isinstance(process.exception(), AssertionError)
    dying.cancel()
    await users


async def run_twice(
    *, request: int = 0, is_stored: bool = False, step: int = 0, is_stopped: bool = False
) -> Ended:
    """Runs a scheduler that ends, and a new one; returns how far the first came."""
    lab = RestartLab(seeded_random(3))
    await lab.prepare()
    mortal = lab.new_transport(dies_at=request, is_stored=is_stored)
    kubelet = asyncio.create_task(lab.delete_terminating())
    first_step = lab.steps

    def end() -> None:
        if is_stopped:
            lab.service.stop()
        else:
            mortal.kill()

    lab.on_step_at = (first_step + step if step else 0, end)
    await run_first(lab, mortal, is_stopped=is_stopped)
    ended = Ended(mortal.sent, lab.steps - first_step, len(lab.bindings_stored()))
    service = lab.new_service(lab.new_transport())
    process = asyncio.create_task(service.run())
    where = f"request {request}, stored {is_stored}, step {step}, stopped {is_stopped}"
    try:
        await lab.wait_until(lab.is_done, within_s=BOUND_S, every_s=0.1)
        await asyncio.sleep(5.0)
    except TimeoutError:
        raise AssertionError(f"{where}: only {sorted(lab.bound())} are bound") from None
    assert len(lab.evictions) <= 1, f"{where}: {len(lab.evictions)} pods were evicted for one"
    assert list(leaks(service)) == [], where
    service.stop()
    await process
    kubelet.cancel()
    lab.store.close()
    lab.findings.raise_first()
    return ended


def run(**end: Any) -> Ended:
    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(3))) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        try:
            return runner.run(run_twice(**end))
        finally:
            loop.on_step = lambda: None


@pytest.mark.parametrize("is_stored", [False, True])
def test_killed_at_any_request_a_new_scheduler_binds_all_pods_once(is_stored: bool) -> None:
    requests = run().requests
    assert requests >= REQUESTS_MIN
    ended = [run(request=at, is_stored=is_stored) for at in range(1, requests + 1)]

    assert [end.requests for end in ended] == list(range(1, requests + 1))
    assert len({end.binds for end in ended}) >= STATES_MIN


@pytest.mark.parametrize("is_stopped", [False, True], ids=["killed", "stopped"])
def test_ended_between_any_two_steps_a_new_scheduler_binds_all_pods_once(is_stopped: bool) -> None:
    steps = run().steps
    assert steps >= STEPS_MIN
    ended = [run(step=at, is_stopped=is_stopped) for at in range(1, steps + 1, EVERY)]

    # A scheduler that is stopped finishes its bindings.
    assert len({end.binds for end in ended}) >= (2 if is_stopped else STATES_MIN)
