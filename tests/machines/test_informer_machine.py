"""A hypothesis run over what a server and a network can do to an informer's state machine.

The server here is a plain history: a list of (version, type, object). Whatever order of changes,
drops, repeated and forgotten history, bookmarks and errors comes, handlers see each object's states
in order and once, and when all has been said the replica equals the server.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.client.informer.reflector import Listing, Mode, NextRequest, Reflector
from mooring.client.informer.replica import ObjectChange
from mooring.client.transport.transport import StreamBroken
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import (
    ApiError,
    BadRequest,
    Gone,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import decode_list
from mooring.objects.meta import key
from tests.machines.informer_server import KIND, Server, bookmark, line, status

NAMES = st.sampled_from(["shop/a", "shop/b", "bank/a"])


class InformerMachine(RuleBasedStateMachine):
    """One informer, one server, and everything that goes wrong between them."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.clock = VirtualClock()
        self.reflector = Reflector(KIND, self.on_change, clock=self.clock, rng=seeded_random(1))
        self.seen: dict[str, Any] = {}
        self.ask: NextRequest | None = None
        self.version_asked = ""
        self.asked_at_s = 0.0
        self.free_in_a_row = 0
        #: What the server will still write into the open stream.
        self.pipe: list[bytes] = []
        self.sent_up_to = 0

    def on_change(self, change: ObjectChange) -> None:
        """Checks that each change follows the last state of its object."""
        name = key(change.new if change.new is not None else change.old)
        assert self.seen.get(name) is change.old, "old is what was seen last"
        if change.new is None:
            assert change.old is not None
            del self.seen[name]
            return
        if change.old is not None:
            was, now = change.old.metadata, change.new.metadata
            assert was.uid == now.uid, "another object comes as delete and add"
            assert int(was.resource_version) < int(now.resource_version), "no state twice"
        self.seen[name] = change.new

    # -- the server changes -----------------------------------------------------------------------

    @rule(
        name=NAMES,
        is_new=st.booleans(),
        is_readable=st.sampled_from([True, True, True, False]),
        gap=st.integers(1, 3),
    )
    def put(self, name: str, is_new: bool, is_readable: bool, gap: int) -> None:
        self.server.put(name, is_new=is_new, is_readable=is_readable, gap=gap)

    @rule(name=NAMES, gap=st.integers(1, 3))
    def delete(self, name: str, gap: int) -> None:
        self.server.delete(name, gap=gap)

    @rule(kept=st.integers(0, 3))
    def forget(self, kept: int) -> None:
        self.server.kept_from = max(self.server.kept_from, self.server.version - kept)

    # -- requests ---------------------------------------------------------------------------------

    @precondition(lambda self: self.ask is None)
    @rule(overlap=st.sampled_from([0, 0, 4, 20]))
    def connect(self, overlap: int) -> None:
        """Starts a request; a watch may begin some events too early."""
        self.ask = self.reflector.ask()
        self.version_asked = self.reflector.replica.version
        self.asked_at_s = self.clock.monotonic_s()
        query = dict(self.ask.query)
        position = int(query.get("resourceVersion", 0))
        if self.ask.mode is Mode.LIST:
            self.read_pages()
        elif self.ask.mode is Mode.STREAM:
            objects = list(self.server.objects.values())
            self.pipe = [line("ADDED", obj) for obj in reversed(objects)]
            self.pipe.append(bookmark(self.server.version, ends_list=True))
            self.sent_up_to = self.server.version
        elif position < self.server.kept_from:
            self.end(Gone("too old", status=410, reason="Expired"))
        else:
            self.pipe = []
            self.sent_up_to = max(0, position - overlap)

    def read_pages(self) -> None:
        listing = Listing()
        objects = list(self.server.objects.values())
        body = json.dumps(
            {"metadata": {"resourceVersion": str(self.server.version)}, "items": objects}
        ).encode()
        page = decode_list(body, KIND)
        listing.add_page(page)
        for _ in self.reflector.listed(listing, page.resource_version):
            pass
        self.end(None)

    @precondition(lambda self: self.ask is not None)
    @rule(count=st.integers(1, 6))
    def deliver(self, count: int) -> None:
        """Delivers some lines."""
        self.pipe += self.server.after(self.sent_up_to)
        self.sent_up_to = self.server.version
        lines, self.pipe = self.pipe[:count], self.pipe[count:]
        try:
            for _ in self.reflector.received(lines):
                pass
        except (ApiError, StreamBroken) as error:
            self.end(error)

    @precondition(lambda self: self.ask is not None)
    @rule()
    def send_bookmark(self) -> None:
        self.pipe += self.server.after(self.sent_up_to)
        self.sent_up_to = self.server.version
        self.pipe.append(bookmark(self.server.version))

    @precondition(lambda self: self.ask is not None)
    @rule(
        code=st.sampled_from([(410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")])
    )
    def send_error(self, code: tuple[int, str]) -> None:
        self.pipe = [status(*code)]

    @precondition(lambda self: self.ask is not None)
    @rule()
    def send_nonsense(self) -> None:
        """Delivers an unreadable line: a new watch would repeat it, so a list follows."""
        self.pipe = [b"<html>"]
        self.deliver(count=1)
        assert self.ask is None

    @precondition(lambda self: self.ask is not None)
    @rule(
        error=st.sampled_from(
            [
                None,
                StreamBroken("cut"),
                Unreachable("refused"),
                TooManyRequests("slow down", status=429, retry_after_s=40.0),
                ServerError("ill", status=503),
                ServerError("Too large resource version: 9, current: 1", status=504),
                BadRequest("what?", status=400),
            ]
        ),
        lasted_s=st.sampled_from([0.0, 2.0]),
    )
    def drop(self, error: SchedulerError | None, lasted_s: float) -> None:
        self.clock.advance(lasted_s)
        self.end(error)

    def end(self, error: SchedulerError | None) -> None:
        was_news = self.reflector.replica.version != self.version_asked
        lasted_s = self.clock.monotonic_s() - self.asked_at_s
        self.ask, self.pipe = None, []
        wait_s = self.reflector.ended(error)
        assert wait_s >= 0
        is_free = not was_news and lasted_s < 1 and wait_s == 0
        self.free_in_a_row = self.free_in_a_row + 1 if is_free else 0
        # At most: 410, 410 to the list, no list by watching, 410 to the pages.
        assert self.free_in_a_row <= 4, "no storm of requests that bring nothing"
        if isinstance(error, TooManyRequests) and error.retry_after_s:
            assert wait_s >= error.retry_after_s
        self.clock.advance(wait_s)

    # -- what always holds ------------------------------------------------------------------------

    @invariant()
    def handlers_know_the_replica(self) -> None:
        assert self.seen == self.reflector.replica.objects

    @invariant()
    def the_replica_is_the_server_at_its_version(self) -> None:
        if self.reflector.has_synced:
            self.compare(self.server.at(int(self.reflector.replica.version)))

    def compare(self, expected: dict[str, dict[str, Any]]) -> None:
        found = self.reflector.replica.objects
        assert set(found) <= set(expected), "nothing that is gone"
        for name, obj in expected.items():
            if obj["spec"]["priority"] == 0:
                assert found[name].metadata.resource_version == obj["metadata"]["resourceVersion"]
            elif name in found:
                assert found[name].metadata.uid == obj["metadata"]["uid"], "an older state of it"

    def teardown(self) -> None:
        """Checks that without faults the replica becomes equal to the server."""
        if self.ask is not None:
            self.end(StreamBroken("cut"))
        for _ in range(12):
            if self.ask is None:
                self.connect(overlap=0)
            if self.ask is not None:
                self.deliver(count=1000)
        self.deliver(count=1000)
        assert self.reflector.has_synced
        assert self.reflector.replica.version == str(self.server.version)
        self.compare(self.server.objects)


InformerMachine.TestCase.settings = settings(max_examples=500, stateful_step_count=50)
TestInformerMachine = InformerMachine.TestCase
