"""Bindings by an extender that loses calls, answers late, fails, or answers nonsense.

The rules are those of ``binding_run``: a binding that counts as done is stored; one that counts as
failed is not, and does not arrive later. Besides, an attempt calls the extender once, and its error
has kube-scheduler's words.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.config.types import Extender
from mooring.errors import ExtenderError, SchedulerError
from mooring.extenders.http import NoResponse
from mooring.extenders.http_extender import HTTPExtender
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from tests.faults.harness.faults import DELAY_S_MAX, Faults
from tests.faults.parts.binding_run import LAST_S, LATEST_S, BindingRun
from tests.helpers.virtual_loop import run_virtually

URL: Final = "http://one"
TIMEOUT_S: Final = 5.0
#: Between two reads of a pod whose binding may still arrive.
FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0
#: Of the calls, in a run with late requests.
LATE_SHARE: Final = 0.5
KINDS: Final = ("not sent", "lost", "late", "slow", "500", "nonsense", "error")
#: The answer of a server that is no extender.
NONSENSE: Final = (b"<html>", b"[]", b"", b'{"Error": 5}')


class ExtenderRun(BindingRun):
    """One run."""

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        super().__init__(seed, tasks)
        self._rates = {kind: self._rng.choice((0.0, 0.1, 0.3)) for kind in KINDS}
        if self.network.is_late:
            self._rates = dict.fromkeys(KINDS, 0.0) | {"late": LATE_SHARE}
        #: UID -> the calls of the attempt, and the error that the extender has answered.
        self._calls: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        #: By attempt, the last wait between two reads.
        self._waits: dict[Any, float] = {}
        unused: Any = SimpleNamespace()
        config = Extender(url_prefix=URL, bind_verb="bind", http_timeout_s=TIMEOUT_S)
        self._extender = HTTPExtender(
            config, self._post, unused, client=self._client, clock=self._clock, sleep=self._wait
        )

    async def _send(self, pod: Pod, node: str) -> None:
        """Binds a pod through the extender."""
        uid, name = pod.metadata.uid, pod.metadata.name
        self._calls[uid], text = 0, ""
        self._errors.pop(uid, None)
        try:
            await self._extender.bind(PodInfo(pod), node)
        except SchedulerError as error:
            text = str(error)
            if not isinstance(error, ExtenderError):
                self.problems.append(f"{name} fails with {error!r}")
            raise
        finally:
            if self._calls[uid] != 1:
                self.problems.append(f"the extender is called {self._calls[uid]} times for {name}")
        expected = self._errors.get(uid, "")
        is_other = f"pod default/{name} was deleted", f"pod default/{name} is bound to node"
        if text and expected and text != expected and not text.startswith(is_other):
            self.problems.append(f"{name} fails with {text!r}, not with {expected!r}")

    async def _wait(self, seconds: float) -> None:
        """Waits between two reads of a pod: twice as long each time, up to a limit."""
        task = asyncio.current_task()
        expected = min(2 * self._waits.get(task, FIRST_S / 2), LONGEST_S)
        self._waits[task] = seconds
        if seconds not in (expected, FIRST_S):
            self.problems.append(f"waits {seconds} s for the next read, not {expected} s")
        await asyncio.sleep(seconds)

    # -- the extender -----------------------------------------------------------------------------

    async def _post(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        """Handles a call as ``HttpExtenderTransport`` does, with at most one fault."""
        del bytes_max
        rng, call = self._rng, json.loads(body)
        uid, node = call["PodUID"], call["Node"]
        self._calls[uid] += 1
        kind = next((kind for kind in KINDS if self._draws(kind)), "")
        what = f'Post "{URL}/{verb}"'
        if kind == "not sent":
            raise NoResponse(f"{what}: connection refused", is_sent=False)
        if kind == "late":
            delay_s = rng.uniform(TIMEOUT_S, DELAY_S_MAX)
            if self.network.is_late:
                # The time counts from the failure of the call.
                delay_s = TIMEOUT_S + rng.uniform(LAST_S, LATEST_S)
            self.network.arrives_at_s[uid] = max(
                self.network.arrives_at_s.get(uid, 0.0), self._clock.monotonic_s() + delay_s
            )
            self._tasks.create_task(self._arrive(uid, node, delay_s))
            await asyncio.sleep(TIMEOUT_S)
            raise NoResponse(f"{what}: no answer in 5 s")
        if kind == "slow":
            await asyncio.sleep(rng.uniform(0.0, TIMEOUT_S))
        is_handled = kind in ("", "slow", "lost") or rng.random() < 0.5
        problem = self._store(uid, node) if is_handled else "no room"
        if kind == "lost":
            raise NoResponse(f"{what}: connection reset", is_cut_off=rng.random() < 0.5)
        if kind == "500":
            raise NoResponse(f"failed bind with extender at URL {URL}/bind, code 500")
        if kind == "nonsense":
            return rng.choice(NONSENSE)
        if kind == "error":
            problem = problem or "cannot tell"
        if problem:
            self._errors[uid] = problem
        return json.dumps({"Error": problem}).encode()

    def _draws(self, kind: str) -> bool:
        is_healthy = self.network.faults == Faults()
        return not is_healthy and self._rng.random() < self._rates[kind]

    async def _arrive(self, uid: str, node: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._store(uid, node)

    def _store(self, uid: str, node: str) -> str:
        """Binds the pod as the extender does; returns what is wrong."""
        bound = self._server.nodes.get(uid)
        if bound is None:
            return "no such pod"
        if bound:
            return "it is bound already"
        self._server.bind(uid, node)
        return ""


def run_extender(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rule is violated.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            extender = ExtenderRun(seed, tasks)
            await extender.run()
        return extender.problems

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    assert not problems, problems[0]
