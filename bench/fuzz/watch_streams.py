"""Feeds streams of watch events to an informer, whose changes a scheduler's event handlers get.

::

    input: streams, separated by lines "%%"     then the last one again     then a correct server
    ├── STREAM, WATCH or LIST of the informer ──┼── REPEATS times ──────────┼── until it is equal

A server on the loopback interface sends a stream as the body of each list and watch. After that it
is a correct one, with its own objects: the informer has to follow them. Time is virtual, and moves
only by the waits of the informer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from bench.fuzz.mutation import BYTES_MAX, mutated
from bench.fuzz.structures import change_values
from mooring.client import Client, Informer
from mooring.client.informer.replica import ObjectChange
from mooring.client.transport.http import HttpTransport
from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.meta import key
from mooring.scheduler.parts import SchedulerParts, ServiceOptions
from mooring.state.audit import audit

#: Separates the streams of an input.
SEPARATOR: Final = b"\n%%\n"
#: A line that is sent with so many bytes more, once: longer than any that is read.
_LONG: Final = b"%%long"
_LONG_BYTES: Final = 9 << 20
#: A stream that begins with this is the whole response, with its head.
_WHOLE: Final = b"HTTP/1.1 "
_STREAMS_MAX: Final = 8

#: How often the last stream is sent again; each of them needs a wait, but for a few.
REPEATS: Final = 20
REPEATS_S_MIN: Final = 20.0
#: Requests in which the informer has to be correct again, and the longest wait before each.
_REQUESTS_MAX: Final = 9
_WAIT_S_MAX: Final = 140.0
#: Real seconds after which an informer that does nothing counts as hanging.
_HANG_S: Final = 30.0

#: The versions of the correct server: no stream has them.
_FIRST: Final = 7_000_000_001
_KIND: Final = re.compile(rb'"kind": ?"(\w+)"')
_BYTES: Final = 0.5
#: Lines with more lists are changed as bytes only.
_NESTED_MAX: Final = 100


def mutated_watch(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of one of the inputs: of its bytes, or of its events."""
    if rng.random() < _BYTES:
        return mutated(rng, corpus)
    lines = rng.choice(corpus).split(b"\n")
    for _ in range(rng.randrange(1, 4)):
        _mutate_lines(rng, lines, corpus)
    return b"\n".join(lines)[:BYTES_MAX]


def _mutate_lines(rng: Rng, lines: list[bytes], corpus: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at : at + rng.randrange(1, 4)]
        case 1:
            lines[at:at] = [lines[rng.randrange(len(lines))]]
        case 2:
            lines[at:at] = [rng.choice(rng.choice(corpus).split(b"\n"))]
        case 3:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
        case _ if lines[at].count(b"[") < _NESTED_MAX:
            with suppress(ValueError):
                events = [json.loads(lines[at])]
                change_values(rng, events, _events(tuple(corpus)))
                lines[at] = json.dumps(events[0] if events else None).encode()
    lines[:] = lines or [b""]


@lru_cache(maxsize=1)
def _events(corpus: tuple[bytes, ...]) -> list[Any]:
    """Returns the events of all inputs; nothing changes them."""
    lines = [line for data in corpus for line in data.split(b"\n")]
    return [
        json.loads(line)
        for line in lines
        if line.startswith(b'{"type"') and line.endswith(b"}}") and line.count(b"[") < _NESTED_MAX
    ]


def feed_watches(data: bytes) -> None:
    """Follows a server that sends ``data``, and then a correct one.

    Raises:
        AssertionError: requests without waits; changes that do not follow each other; objects, or
        a cache, that are not those of the correct server at the end.
    """
    asyncio.run(_follow(data))


async def _follow(data: bytes) -> None:
    clock = VirtualClock()
    names = [name.decode() for name in _KIND.findall(data)]
    server = Server(data, clock)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    transport = HttpTransport(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    try:
        async with listener, asyncio.timeout(_HANG_S):
            parts = _Parts(
                Client(transport, rng=seeded_random(0), sleep=sleep),
                default_configuration(),
                ServiceOptions(),
                clock=clock,
                rng=seeded_random(0),
                sleep=sleep,
            )
            # The objects of the correct server are of the kind of the first object.
            server.serve_kind(next((name for name in names if name in parts.informers), "Pod"))
            await _run(parts, server)
    finally:
        await transport.close()
        await server.close()


async def _run(parts: _Parts, server: Server) -> None:
    """Runs the informer of the server's kind until it is correct.

    Raises:
        AssertionError: it is not, or something on the way was not.
    """
    informer = parts.informers[server.kind.name]
    following = asyncio.ensure_future(informer.run())
    try:
        while not server.is_equal(informer):
            await asyncio.wait([following], timeout=0.001)
            if following.done():
                following.result()
            assert server.requests_then <= _REQUESTS_MAX, (
                f"not correct after {server.requests_then} requests: {sorted(informer.objects)}"
            )
        server.check_waits()
        assert parts.seen == informer.objects, "the changes do not add up to the objects"
        assert audit(parts.cache) == []
    finally:
        following.cancel()
        await asyncio.wait([following])


class _Parts(SchedulerParts):
    """The parts of a scheduler, whose informers check the changes that handlers get.

    Attributes:
        seen: Key -> object, by the changes.
    """

    def _informer(self, kind: str) -> Informer:
        handle = self.events.handler(kind)
        seen = self.seen = getattr(self, "seen", {})

        def on_change(change: ObjectChange) -> None:
            old, new = change.old, change.new
            name = key(new if new is not None else old)
            assert seen.get(name) is old, "the old object is not the last one that was reported"
            if new is None:
                del seen[name]
            else:
                assert old is None or old.metadata.uid == new.metadata.uid, "an update of the UID"
                seen[name] = new
            handle(change)

        return Informer(
            self._client, kind, on_change, clock=self._clock, rng=self._rng, sleep=self._sleep
        )


class Server:
    """Sends the streams of an input, the last one again and again, and then its own objects.

    Attributes:
        kind: Of its objects.
        requests_then: Requests since it is a correct one.
    """

    def __init__(self, data: bytes, clock: VirtualClock) -> None:
        streams = data.split(SEPARATOR)[:_STREAMS_MAX]
        self._repeats_from = len(streams)
        self._bodies = [_lengthened(body) for body in streams] + [streams[-1]] * REPEATS
        self._clock = clock
        self._times_s: list[float] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.serve_kind("Pod")

    def serve_kind(self, name: str) -> None:
        """Makes its own objects: it lists two, of which the second goes, and a third comes."""
        self.kind: Kind = kind_named(name)
        first, second, third = self._object("a", 0), self._object("b", 1), self._object("c", 4)
        self._listed = [first, second]
        self._later = [("DELETED", self._object("b", 3)), ("ADDED", third)]
        self._stored = [first, third]

    def _object(self, name: str, at: int) -> dict[str, Any]:
        # As those of the corpus: the UID of an object there stays the same.
        metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": str(_FIRST + at)}
        if self.kind.namespaced:
            metadata["namespace"] = "default"
        return {"apiVersion": self.kind.api_version, "kind": self.kind.name, "metadata": metadata}

    @property
    def requests_then(self) -> int:
        """Requests since the last of the streams was sent."""
        return len(self._times_s) - len(self._bodies)

    def is_equal(self, informer: Informer) -> bool:
        """Returns whether an informer has the objects of the correct server, in their versions."""
        if self.requests_then <= 0:
            return False
        have = {
            name: (own.metadata.uid, own.metadata.resource_version)
            for name, own in informer.objects.items()
        }
        return have == {
            _name_of(own): (own["metadata"]["uid"], own["metadata"]["resourceVersion"])
            for own in self._stored
        }

    def check_waits(self) -> None:
        """Checks the times of the requests.

        Raises:
            AssertionError: there are too many in a short time, or a wait is too long.
        """
        times_s = self._times_s
        took_s = times_s[self._repeats_from + REPEATS - 1] - times_s[self._repeats_from]
        assert took_s >= REPEATS_S_MIN, f"{REPEATS} failing requests in {took_s:.1f} s"
        waits_s = [later - before for before, later in pairwise(times_s)]
        assert max(waits_s) <= _WAIT_S_MAX, f"a wait of {max(waits_s):.0f} s"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the request of a connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            number = len(self._times_s)
            self._times_s.append(self._clock.monotonic_s())
            if number < len(self._bodies):
                content = self._bodies[number]
            else:
                content = self._correct(head.split(b" ", 2)[1].decode())
            if not content.startswith(_WHOLE):
                content = _WHOLE + b"200 OK\r\nconnection: close\r\n\r\n" + content
            writer.write(content)
            await writer.drain()
        writer.close()
        self._tasks.discard(task)

    async def close(self) -> None:
        """Waits for the end of what is being sent, once the client is closed."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _correct(self, target: str) -> bytes:
        """Returns what an API server with its objects answers, as kube-apiserver would."""
        query = {name: values[-1] for name, values in parse_qs(urlsplit(target).query).items()}
        listed_at, newest = _FIRST + 1, _FIRST + 4
        if "continue" in query:
            return _refused(410, "Expired", "the continue token is too old")
        if "watch" not in query:
            metadata = {"resourceVersion": str(listed_at)}
            whole = {"kind": "List", "metadata": metadata, "items": self._listed}
            return json.dumps(whole).encode()
        version = query.get("resourceVersion", "")
        if version and not (version.isascii() and version.isdigit()):
            return _refused(400, "BadRequest", f"invalid resource version {version}")
        if len(version) > 20 or int(version or 0) > newest:
            return _refused(504, "Timeout", "Too large resource version")
        if "sendInitialEvents" in query:
            end = {"k8s.io/initial-events-end": "true"}
            bookmark = {"metadata": {"resourceVersion": str(listed_at), "annotations": end}}
            initial = [("ADDED", own) for own in self._listed]
            return _lines([*initial, ("BOOKMARK", bookmark), *self._later])
        if not int(version or 0):
            return _lines([("ADDED", own) for own in self._stored])
        if int(version) < listed_at:
            return _lines([("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})])
        return _lines(
            (event, own)
            for event, own in self._later
            if int(own["metadata"]["resourceVersion"]) > int(version)
        )


def _lines(events: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    return b"".join(
        json.dumps({"type": event, "object": own}).encode() + b"\n" for event, own in events
    )


def _refused(code: int, reason: str, message: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    head = b"%d %s\r\nconnection: close\r\n\r\n" % (code, reason.encode())
    return _WHOLE + head + json.dumps(status).encode()


def _lengthened(body: bytes) -> bytes:
    return body.replace(_LONG, b"x" * _LONG_BYTES, 1)


def _name_of(own: dict[str, Any]) -> str:
    metadata = own["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
