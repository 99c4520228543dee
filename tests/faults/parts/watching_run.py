"""An informer over a server whose streams break anywhere, and those who wait for it.

Lists are streamed or read in pages; a stream may break in the very batch that ends its list, lists
may be no lists, and others have their turn while one is reported. The
server may lack the kind, which is allowed in some runs. Who waits for the first list, or for fresh
objects, is woken at the moment when they are there; each request is sent when it was announced; and
the model of the reflector follows all. At the end the objects are those of the server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random
from typing import Any, Final

import pytest

from mooring.client import Client, Informer, ObjectChange, Request
from mooring.client.informer import replica
from mooring.client.transport.transport import Response, Stream, StreamBroken
from mooring.clock import Rng, seeded_random
from mooring.errors import NotFound, Unreachable
from mooring.objects.meta import key
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.twins.attached_reflector import AttachedReflector
from tests.helpers.virtual_loop import run_virtually
from tests.machines.informer_server import KIND, Server, bookmark, status

ACTIONS: Final = 60
NAMES: Final = ("shop/a", "shop/b", "shop/c", "bank/a")
QUIET_S: Final = 400.0
ROUNDING_S: Final = 1e-6
GONE: Final = 410
REASONS: Final[Mapping[int, str]] = {
    403: "Forbidden", 404: "NotFound", GONE: "Expired", 429: "TooManyRequests",
    500: "InternalError",
}  # fmt: skip
#: In half of the runs such answers and lines are drawn, and lists are reported in such slices.
ODD_SHARE: Final = 0.2
NO_LISTS: Final = (b"<html>", b"[]", b'{"items": 5}', b'{"metadata": 5, "items": []}', b"null")
SLICES: Final = (1, 2, 200)
BROKEN, ENDED, FAILED, HANGS = "broken", "ended", "failed", "hangs"


class OneStream:
    """A response that is streamed."""

    def __init__(self, code: int, batches: AsyncGenerator[list[bytes], None]) -> None:
        self.status = code
        self.headers: Mapping[str, str] = {}
        self._batches = batches

    def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yields the batches."""
        return self._batches


class BreakingServer:
    """A transport with the history of a server, whose answers fail.

    Attributes:
        server: The history.
        is_healed: Nothing fails any more.
        is_missing: The server does not have the kind, for now.
        was_missing: A request was answered with that.
        sent_s: When the last request was sent.
        due_s: When the next request has to be sent; None = at any time.
        problems: Requests that are too late.
        on_open: Called when the first line of a stream is awaited, or the second page of a list.
        odd: Draws answers that are no lists, or have lines that must not be; None = there are none.
    """

    def __init__(self, rng: Rng, *, may_miss: bool) -> None:
        self.server = Server()
        self.is_healed, self.is_missing = False, may_miss and rng.random() < 0.7
        self.was_missing = False
        self.due_s: float | None = None
        self.sent_s = -1.0
        self.problems: list[str] = []
        self.on_open: Callable[[], None] = lambda: None
        self.odd: Random | None = None
        self._n_lists = 0
        self._rng = rng
        self._failing = rng.choice((0.1, 0.5))
        self._codes = [code for code in REASONS if code != 404]
        self._batch_max = rng.choice((1, 3, 1000))
        self._ends = rng.choice(((HANGS,), (BROKEN, ENDED), (FAILED,), (BROKEN, FAILED, HANGS)))

    def _fails(self) -> int:
        """Returns how a request fails: a code, 0 = it is not sent, -1 = not at all."""
        now_s = asyncio.get_running_loop().time()
        if self.due_s is not None and abs(now_s - self.due_s) > ROUNDING_S:
            self.problems.append(f"a request is sent at {now_s:.3f} s, not at {self.due_s:.3f} s")
        self.due_s, self.sent_s = None, now_s
        if self.is_missing:
            return 404
        if self.is_healed or self._rng.random() >= self._failing:
            return -1
        return self._rng.choice((0, *self._codes))

    async def request(self, request: Request) -> Response:
        """Answers a list, every third one in two pages."""
        query = dict(request.query)
        if "continue" in query:
            self.on_open()
        code = self._fails()
        await asyncio.sleep(self._rng.random())
        self.was_missing |= code == 404
        if code == 0:
            raise Unreachable(f"{request.path}: refused")
        if code > 0:
            return Response(code, {}, _status(code))
        has_version = self.is_healed or self._rng.random() < 0.9
        metadata = {"resourceVersion": str(self.server.version) if has_version else ""}
        items = list(self.server.objects.values())
        self._n_lists += 1
        if "continue" in query:
            items = items[1:]
        elif has_version and self._n_lists % 3 == 0 and len(items) > 1:
            items, metadata["continue"] = items[:1], "more"
        if self._is_odd():
            return Response(200, {}, NO_LISTS[self._n_lists % len(NO_LISTS)])
        return Response(200, {}, json.dumps({"metadata": metadata, "items": items}).encode())

    def _is_odd(self) -> bool:
        """Returns whether an answer is odd."""
        return self.odd is not None and not self.is_healed and self.odd.random() < ODD_SHARE

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Answers a watch."""
        return self._opened(request, idle_s)

    @asynccontextmanager
    async def _opened(self, request: Request, idle_s: float) -> AsyncIterator[Stream]:
        code, query = self._fails(), dict(request.query)
        await asyncio.sleep(self._rng.random())
        self.was_missing |= code == 404
        position = int(query.get("resourceVersion", "0"))
        is_list = "sendInitialEvents" in query
        if code < 0 and not is_list and position < self.server.kept_from:
            code = GONE
        if code == 0:
            raise Unreachable(f"{request.path}: refused")
        if code > 0:
            yield OneStream(code, _once([_status(code)]))
        else:
            yield OneStream(200, self._watched(position, idle_s, is_list=is_list))

    async def close(self) -> None:
        """Has nothing to close."""

    async def _watched(
        self, position: int, idle_s: float, *, is_list: bool
    ) -> AsyncGenerator[list[bytes], None]:
        """Yields what has happened, in batches, and ends in one of the drawn ways."""
        self.on_open()
        rng, server = self._rng, self.server
        lines = list[bytes]()
        if is_list:
            position = server.version
            lines = [_line("ADDED", obj) for obj in server.objects.values()]
            if self._is_odd():
                lines.insert(0, _line("RENAMED", {"metadata": {"name": "x", "namespace": "shop"}}))
            lines.append(bookmark(0 if self._is_odd() else position, ends_list=True))
        end = HANGS if self.is_healed else rng.choice(self._ends)
        if end == FAILED and rng.random() < 0.5:
            lines.append(status(*rng.choice(((GONE, "Expired"), (500, "InternalError")))))
        idle_until_s = _now_s() + idle_s
        while _now_s() < idle_until_s:
            lines += server.after(position)
            position = server.version
            count = rng.randint(1, self._batch_max)
            batch, lines = lines[:count], lines[count:]
            if batch:
                yield batch
                idle_until_s = _now_s() + idle_s
            elif end != HANGS:
                break
            await asyncio.sleep(rng.choice((0.0, 0.3, 2.0)))
        if end == FAILED:
            yield [status(500, "InternalError")]
        if end != ENDED:
            raise StreamBroken("cut")


async def _once(lines: list[bytes]) -> AsyncGenerator[list[bytes], None]:
    yield lines


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def _status(code: int) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": REASONS[code]}).encode()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class WatchingRun:
    """One run.

    Attributes:
        problems: Waits that do not end, requests at other times, and differences to the model.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop, self._tasks, self._rng = loop, tasks, seeded_random(seed)
        self._is_optional = self._rng.random() < 0.3
        self._server = BreakingServer(self._rng, may_miss=self._is_optional)
        odd = Random(f"{seed} odd")
        self._server.odd = odd if odd.random() < 0.5 else None
        self._clock = LoopClock(loop)
        self._informer = Informer(
            Client(self._server, rng=self._rng),
            KIND,
            self._on_change,
            clock=self._clock,
            rng=seeded_random(seed + 1),
            is_optional=self._is_optional,
            sleep=self._sleep,
        )
        AttachedReflector(self._informer, self._clock.monotonic_s, self.problems.append)
        self._server.on_open = self._check_accepted
        self._reported: dict[str, Any] = {}
        #: What should be so since when, and is not.
        self._late: dict[object, float] = {}
        #: Tasks that wait for fresh objects, and when they have begun.
        self._waits: dict[asyncio.Task[None], float] = {}
        self._was_missing = False

    def _on_change(self, change: ObjectChange) -> None:
        obj = change.new if change.new is not None else change.old
        self._reported.pop(key(obj), None)
        if change.new is not None:
            self._reported[key(obj)] = obj

    async def _sleep(self, wait_s: float) -> None:
        """Follows the wait after a request, which has been announced."""
        self._server.due_s = self._loop.time() + wait_s
        announced_s = self._informer.next_try_at_s
        if abs(announced_s - self._server.due_s) > ROUNDING_S:
            self.problems.append(f"waits {wait_s:.3f} s, but announces {announced_s:.3f} s")
        self._was_missing |= self._is_optional and self._server.was_missing
        await asyncio.sleep(wait_s)

    def _check_accepted(self) -> None:
        """Checks that an accepted request ends the error of the one before it."""
        if (error := self._informer.last_error) is not None:
            self.problems.append(f"lines are awaited, but the last error is {error}")

    def _check_error(self) -> None:
        """Compares the error that is shown: a kind that may be missing and is so has none."""
        error: Any = self._informer._reflector.last_error
        if self._is_optional and isinstance(error, NotFound):
            error = None
        if self._informer.last_error is not error:
            self.problems.append(f"the last error is {self._informer.last_error}, not {error}")

    async def run(self) -> None:
        """Lets objects change and others wait, and then the informer catch up."""
        rng, server = self._rng, self._server
        running = self._tasks.create_task(self._informer.run())
        first = self._tasks.create_task(self._informer.wait_until_synced())
        for _ in range(ACTIONS):
            await asyncio.sleep(rng.choice((0.0, 0.5, 3.0, 30.0)))
            self._act()
            if self.problems:
                break
        server.is_healed, server.is_missing = True, False
        await asyncio.sleep(QUIET_S)
        self._compare(first)
        self.problems += server.problems
        for task in (running, first, *self._waits):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _act(self) -> None:
        rng, server = self._rng, self._server.server
        draw = rng.random()
        if draw < 0.5:
            server.put(rng.choice(NAMES), is_new=rng.random() < 0.3, is_readable=True, gap=1)
        elif draw < 0.7:
            server.delete(rng.choice(NAMES), gap=1)
        elif draw < 0.75:
            server.kept_from = server.version
        elif draw < 0.85:
            self._server.is_missing = False
        else:
            since_s = self._loop.time()
            task = self._tasks.create_task(self._informer.wait_until_fresh(since_s))
            self._waits[task] = since_s
            self._server.due_s = None  # the request may be sent at once

    def _compare(self, first: asyncio.Task[None]) -> None:
        informer, server = self._informer, self._server.server
        if not first.done():
            self.problems.append("the first list has no end")
        if informer.version != str(server.version):
            self.problems.append(f"has version {informer.version}, not {server.version}")
        versions = [
            {name: obj.metadata.resource_version for name, obj in objects.items()}
            for objects in (informer.objects, self._reported)
        ]
        stored = {name: obj["metadata"]["resourceVersion"] for name, obj in server.objects.items()}
        if versions != [stored, stored]:
            self.problems.append(f"has and reports {versions}, not {stored}")

    def on_step(self) -> None:
        """Checks that no task waits for what is there: one moment later it is too late."""
        self._check_error()
        reflector = self._informer._reflector
        is_there = reflector.has_synced or self._was_missing
        self._expect("the first list", is_late=is_there and not self._informer.has_synced)
        if self._informer.has_synced and not is_there:
            self.problems.append("counts as synced, but has no list")
        # A watch from "0" begins anywhere.
        if reflector.has_synced and not self._informer.version.lstrip("0").isdecimal():
            self.problems.append(f"has a list of version {self._informer.version!r}")
        for task, since_s in list(self._waits.items()):
            if task.done():
                del self._waits[task]
            else:
                self._expect(task, is_late=reflector.fresh_at_s >= since_s)
                # A connection may be dead: the objects are listed at once.
                is_sent = self._server.sent_s >= since_s
                self._expect(("a request for", task), is_late=not is_sent)

    def _expect(self, what: object, *, is_late: bool) -> None:
        now_s = self._loop.time()
        if not is_late:
            self._late.pop(what, None)
        elif now_s > self._late.setdefault(what, now_s) + ROUNDING_S:
            self.problems.append(f"{what} is awaited, but is there")


def run_watching(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the informer differs from its model, or a task waits too long.
    """

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with asyncio.TaskGroup() as tasks:
            watching = WatchingRun(seed, tasks)
            loop.on_step = watching.on_step
            await watching.run()
            loop.on_step = lambda: None
        return watching.problems

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "SLICE", Random(f"{seed} slices").choice(SLICES))
        problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
