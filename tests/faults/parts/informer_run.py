"""The state machine of an informer, driven by a server that breaks at every turn.

The server is a plain history (``tests/machines/informer_server.py``). A seed draws which failures
there are, so that in some runs the same one comes again and again. While a list is streamed,
objects change and go. Each request and wait is compared with the model of the reflector, and each
change with the object's last state; the replica must be the server at its version. Versions that
are no numbers are tried with a replica alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from mooring.client.informer.reflector import Listing, Mode, NextRequest, Reflector
from mooring.client.informer.replica import ObjectChange
from mooring.client.transport.transport import StreamBroken
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import decode_list
from mooring.objects.meta import key
from tests.faults.parts.replica_checks import replica_problems
from tests.faults.twins.attached_reflector import AttachedReflector
from tests.machines.informer_server import KIND, Server, bookmark, line, status

STEPS: Final = 250
NAMES: Final = ("shop/a", "shop/b", "shop/c", "bank/a")

FAILURES: Final[dict[str, Callable[[], SchedulerError | None]]] = {
    "end": lambda: None,
    "cut": lambda: StreamBroken("cut"),
    "refused": lambda: Unreachable("refused"),
    "slow down": lambda: TooManyRequests("slow down", status=429, retry_after_s=40.0),
    "server": lambda: ServerError("broken", status=503),
    "future": lambda: ServerError("Too large resource version: 9, current: 1", status=504),
    "bad": lambda: BadRequest("bad", status=400),
    "invalid": lambda: Invalid("invalid", status=422),
    "forbidden": lambda: Forbidden("no", status=403),
    "gone": lambda: Gone("too old", status=410, reason="Expired"),
}
WEIGHTS: Final = {
    "put": 6,
    "delete": 3,
    "forget": 1,
    "deliver": 10,
    "bookmark": 1,
    "error_line": 1,
    "nonsense": 0.5,
    "fail": 3,
    "wait": 2,
    "relist": 0.2,
}


class InformerRun:
    """One run.

    Attributes:
        problems: Differences to the model, and wrong changes.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._server = Server()
        self._clock = VirtualClock()
        own = seeded_random(seed + 1_000_000)
        self._reflector = Reflector(KIND, self._on_change, clock=self._clock, rng=own)
        informer: Any = SimpleNamespace(kind=KIND, _reflector=self._reflector)
        AttachedReflector(informer, self._clock.monotonic_s, self.problems.append)
        self._seen: dict[str, Any] = {}
        #: Name -> UID of the objects that the replica had.
        self._had: dict[str, str] = {}
        self._request: NextRequest | None = None
        self._pipe: list[bytes] = []
        self._sent_up_to = 0
        #: Where the list of an open stream ends, if that was not sent yet.
        self._list_lines = math.inf
        n_failures = rng.choice((1, 2, len(FAILURES)))
        self._failures = rng.sample(sorted(FAILURES), n_failures)
        self._weights = {name: weight * rng.choice((0.2, 1, 3)) for name, weight in WEIGHTS.items()}
        self._early_share = rng.choice((0.0, 0.4, 0.9))
        self._unreadable_share = rng.choice((0.0, 0.2))

    def run(self) -> None:
        """Makes all steps, and lets the replica catch up."""
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(STEPS):
            if self._request is None:
                self._connect()
            action: Callable[[], None] = getattr(self, f"_{self._rng.choices(names, weights)[0]}")
            action()
            self._compare_replica()
            if self.problems:
                return
        self._early_share = 0.0
        for _ in range(12):
            if self._request is None:
                self._connect()
            self._deliver(count=1000)
        if self._reflector.replica.version != str(self._server.version):
            self.problems.append("the replica is not the newest at the end")
        self._compare_replica()

    def _on_change(self, change: ObjectChange) -> None:
        name = key(change.new if change.new is not None else change.old)
        if self._seen.get(name) is not change.old:
            self.problems.append(f"{name} changed from another state than its last")
        self._seen.pop(name, None)
        if change.new is not None:
            self._seen[name] = change.new
        if change.old is not None and change.new is not None:
            before, after = change.old.metadata, change.new.metadata
            if before.uid != after.uid:
                self.problems.append(f"another {name} is an update")
            if int(before.resource_version) >= int(after.resource_version):
                self.problems.append(f"{name} is not newer")

    def _compare_replica(self) -> None:
        objects = self._reflector.replica.objects
        if self._seen != objects:
            self.problems.append(f"reported {sorted(self._seen)}, but has {sorted(objects)}")
        if not self._reflector.has_synced:
            return
        expected = self._server.at(int(self._reflector.replica.version))
        if not set(objects) <= set(expected):
            self.problems.append(f"has {sorted(set(objects) - set(expected))}, which are gone")
        for name, obj in expected.items():
            real = objects.get(name)
            if obj["spec"]["priority"] == 0:
                version = real.metadata.resource_version if real is not None else "none"
                if version != obj["metadata"]["resourceVersion"]:
                    self.problems.append(f"{name} has version {version}")
            elif real is not None and real.metadata.uid != obj["metadata"]["uid"]:
                self.problems.append(f"{name} is another object")
            elif real is None and self._had.get(name) == obj["metadata"]["uid"]:
                # One that cannot be decoded keeps its last version.
                self.problems.append(f"{name} exists, but has no version any more")
        self._had = {name: obj.metadata.uid for name, obj in objects.items()}

    # -- the server -------------------------------------------------------------------------------

    def _put(self) -> None:
        rng = self._rng
        self._server.put(
            rng.choice(NAMES),
            is_new=rng.random() < 0.3,
            is_readable=rng.random() >= self._unreadable_share,
            gap=rng.randrange(1, 4),
        )

    def _delete(self) -> None:
        self._server.delete(self._rng.choice(NAMES), gap=self._rng.randrange(1, 4))

    def _forget(self) -> None:
        oldest = self._server.version - self._rng.randrange(4)
        self._server.kept_from = max(self._server.kept_from, oldest)

    # -- requests ---------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Sends the next request, which may fail at once."""
        self._request = request = self._reflector.ask()
        self._pipe, self._list_lines = [], math.inf
        if self._rng.random() < self._early_share and self._fails():
            return
        position = int(dict(request.query).get("resourceVersion", 0))
        if request.mode is Mode.WATCH and position < self._server.kept_from:
            self._end(FAILURES["gone"]())
            return
        self._reflector.accepted()
        if request.mode is Mode.LIST:
            self._read_list()
        elif request.mode is Mode.STREAM:
            objects = list(self._server.objects.values())
            self._rng.shuffle(objects)
            self._pipe = [line("ADDED", obj) for obj in objects]
            self._sent_up_to = self._server.version
            self._list_lines = len(objects) + self._rng.randrange(4)
        else:
            # Some lines may be repeated.
            self._sent_up_to = max(0, position - self._rng.choice((0, 0, 4, 20)))

    def _read_list(self) -> None:
        objects = list(self._server.objects.values())
        version = str(self._server.version)
        body = json.dumps({"metadata": {"resourceVersion": version}, "items": objects}).encode()
        page, listing = decode_list(body, KIND), Listing()
        listing.add_page(page)
        for _ in self._reflector.listed(listing, page.resource_version):
            pass
        self._end(None)

    def _deliver(self, count: int | None = None) -> None:
        """Delivers some lines; among them may be empty ones."""
        if self._request is None:
            return
        rng = self._rng
        self._fill_pipe()
        count = count or rng.randrange(1, 7)
        lines, self._pipe = self._pipe[:count], self._pipe[count:]
        if rng.random() < 0.2:
            lines.insert(rng.randrange(len(lines) + 1), b"")
        try:
            for _ in self._reflector.received(lines):
                pass
        except (ApiError, StreamBroken) as error:
            self._end(error)

    def _fill_pipe(self) -> None:
        """Adds what has happened; a list ends after some of the changes during it."""
        news = self._server.after(self._sent_up_to)
        self._pipe += news
        self._sent_up_to = self._server.version
        if self._list_lines < math.inf:
            self._list_lines -= len(news) + 1
            if self._list_lines <= 0:
                self._list_lines = math.inf
                self._pipe.append(bookmark(self._server.version, ends_list=True))

    def _bookmark(self) -> None:
        if self._list_lines == math.inf:
            self._fill_pipe()
            self._pipe.append(bookmark(self._server.version))

    def _error_line(self) -> None:
        codes = (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")
        self._pipe = [status(*self._rng.choice(codes))]

    def _nonsense(self) -> None:
        if self._request is not None:
            self._pipe = [b"<html>"]
            self._deliver(count=1)

    def _fail(self) -> None:
        self._fails()

    def _fails(self) -> bool:
        """Ends the request in flight with a failure; returns whether there was one."""
        name = self._rng.choice(self._failures)
        # A list without an error is complete.
        if self._request is not None and (self._request.mode is not Mode.LIST or name != "end"):
            self._end(FAILURES[name]())
            return True
        return False

    def _wait(self) -> None:
        self._clock.advance(self._rng.choice((0.1, 2.0, 150.0)))

    def _relist(self) -> None:
        """Gives up the request in flight, as a new leader does: it has no end."""
        self._request = None
        self._reflector.relist()

    def _end(self, error: SchedulerError | None) -> None:
        self._request = None
        self._clock.advance(self._reflector.ended(error))


def run_informer(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the informer differs from its model, or from the server.
    """
    run = InformerRun(seed)
    run.run()
    run.problems += replica_problems(seeded_random(seed + 3_000_000))
    assert not run.problems, run.problems[0]
