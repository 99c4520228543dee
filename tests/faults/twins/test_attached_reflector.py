"""The model of an informer's requests: a right reflector has no difference, a wrong one has."""

from __future__ import annotations

import pytest

from mooring.client.informer.reflector import Mode, Reflector
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import Gone, SchedulerError, ServerError, TooManyRequests, Unreachable
from mooring.objects.kinds import kind_named
from tests.faults.twins.attached_reflector import AttachedReflector

BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":'
    b'{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}'
)


class _Informer:
    """The parts of an informer that the model reads."""

    def __init__(self, clock: VirtualClock) -> None:
        self.kind = kind_named("Node")
        self._reflector = Reflector(
            self.kind, lambda change: None, clock=clock, rng=seeded_random(1)
        )


class World:
    """A reflector with its model, whose requests end as the test says."""

    def __init__(self) -> None:
        self.clock, self.problems = VirtualClock(), list[str]()
        informer = _Informer(self.clock)
        self.reflector = informer._reflector
        real: object = informer
        AttachedReflector(real, self.clock.monotonic_s, self.problems.append)  # type: ignore[arg-type]

    def fail(self, error: SchedulerError | None, *, after_s: float = 0.0) -> Mode:
        """Sends a request that ends with the error; returns what it was."""
        mode = self.reflector.ask().mode
        self.clock.advance(after_s)
        self.clock.advance(self.reflector.ended(error))
        return mode

    def list_once(self, version: int) -> None:
        """Sends a stream that ends after its list."""
        self.reflector.ask()
        self.reflector.accepted()
        for _ in self.reflector.received([BOOKMARK % version]):
            pass
        self.reflector.ended()

    def run(self) -> None:
        """Loses versions, and meets each kind of failure."""
        self.fail(Unreachable(""))
        self.list_once(5)
        self.fail(Gone("", status=410))
        self.fail(Gone("", status=410))
        self.list_once(7)
        self.fail(None)
        self.fail(TooManyRequests("", status=429, retry_after_s=50.0))
        for _ in range(3):
            self.fail(ServerError("", status=500))
        for _ in range(4):
            self.fail(Unreachable(""))
        self.list_once(9)
        self.reflector.relist()
        self.list_once(11)
        self.fail(None, after_s=400.0)
        self.fail(Unreachable(""))


def test_a_reflector_has_no_difference() -> None:
    world = World()
    world.run()
    assert world.problems == []


def test_a_wait_that_ignores_retry_after_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reflector, "_wait_s", lambda self, error: self._backoff.next_s())
    world = World()
    world.run()
    assert "not 50.00-50.00" in world.problems[0]


def test_a_watch_without_the_version_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Reflector.ask

    def ask(self: Reflector) -> object:
        self._is_version_lost = True
        return real(self)

    monkeypatch.setattr(Reflector, "ask", ask)
    world = World()
    world.run()
    assert "'resourceVersion': '5'" in world.problems[0]


def test_a_list_after_one_failed_watch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.informer.reflector.WATCH_FAILURES_MAX", 1)
    world = World()
    world.run()
    assert any("sends a stream, not a watch" in problem for problem in world.problems)
