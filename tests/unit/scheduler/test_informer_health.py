"""Log lines about informers that cannot follow the API server: each cause once, and its end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.errors import BadRequest, Forbidden, SchedulerError, Unauthorized, Unreachable
from mooring.objects.kinds import kind_named
from mooring.scheduler.informer_health import FRESH_S_MAX, InformerHealth, wait_until_fresh
from tests.helpers.running_scheduler import virtually

AWAY = Unreachable("connection refused")
DENIED = Unauthorized("no such user", status=401)
NOT_ALLOWED = Forbidden("may not list", status=403)
ODD = BadRequest("odd", status=400)


class State:
    """The state of an informer, as it is checked."""

    def __init__(self, kind: str, *, has_synced: bool = True) -> None:
        self.kind = kind_named(kind)
        self.has_synced = has_synced
        self.last_error: SchedulerError | None = None
        self.next_try_at_s = 0.0


class Checked:
    """Two informers and what is logged of them."""

    def __init__(self, log: pytest.LogCaptureFixture, *, has_synced: bool = True) -> None:
        log.set_level(logging.INFO, "mooring.scheduler.informer_health")
        self._log = log
        self.clock = VirtualClock()
        self.pods = State("Pod", has_synced=has_synced)
        self.nodes = State("Node", has_synced=has_synced)
        informers: Any = [self.pods, self.nodes]
        self._health = InformerHealth(lambda: informers, clock=self.clock)

    def lines(self, *fields: str) -> list[tuple[Any, ...]]:
        """Checks, and returns the level, the message and these fields of each new line."""
        self._log.clear()
        self._health.check()
        records = [vars(record) for record in self._log.records]
        return [
            (line["levelname"], line["message"], *(line[name] for name in fields))
            for line in records
        ]

    def logged_at(self, seconds: int) -> list[int]:
        """Checks every second; returns when there was a line."""
        times = []
        for number in range(seconds):
            if self.lines():
                times.append(number)
            self.clock.advance(1.0)
        return times


REACHED = "API server cannot be reached"


@pytest.mark.parametrize(
    ("has_synced", "expected"), [((True, True), "paused"), ((True, False), "not started")]
)
def test_an_unreachable_server_is_one_line_and_its_return_another(
    has_synced: tuple[bool, bool], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    checked = Checked(caplog)
    checked.pods.has_synced, checked.nodes.has_synced = has_synced
    assert checked.lines() == []
    checked.clock.advance(100.0)
    now_s = checked.clock.monotonic_s()
    checked.pods.last_error = checked.nodes.last_error = AWAY
    checked.pods.next_try_at_s, checked.nodes.next_try_at_s = now_s + 3.26, now_s - 2.0
    line = ("WARNING", REACHED, "connection refused", 3.3, expected)
    assert checked.lines("error", "next_try_s", "scheduling") == [line]
    assert checked.logged_at(30) == []
    checked.nodes.last_error = None
    assert checked.lines() == []  # the other one is still away
    checked.pods.last_error = None
    assert checked.lines("after_s") == [("WARNING", "API server can be reached again", 30.0)]
    assert checked.lines() == []
    checked.nodes.last_error = AWAY
    checked.pods.has_synced = checked.nodes.has_synced = True
    assert checked.lines("next_try_s", "scheduling") == [("WARNING", REACHED, 0.0, "paused")]


def test_refused_credentials_are_an_error_that_is_repeated_after_waits_that_double(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checked = Checked(caplog)
    checked.nodes.last_error = DENIED
    line = ("ERROR", "API server does not accept the credentials", "no such user", "paused")
    assert checked.lines("error", "scheduling") == [line]
    assert checked.logged_at(1300) == [5, 15, 35, 75, 155, 315, 615, 915, 1215]
    # Another error is no sign that they are accepted.
    checked.nodes.last_error = ODD
    assert checked.lines() == []
    checked.nodes.last_error = None
    text = "API server accepts the credentials again"
    assert checked.lines("after_s") == [("INFO", text, 1300.0)]
    assert checked.lines() == []
    checked.pods.last_error, checked.pods.has_synced = DENIED, False
    assert checked.lines("error", "scheduling") == [(*line[:3], "not started")]


def test_a_kind_that_is_refused_is_an_error_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    checked = Checked(caplog, has_synced=False)
    checked.pods.last_error = checked.nodes.last_error = NOT_ALLOWED
    text = "cannot list a kind, scheduling has not started"
    both = [("ERROR", text, kind, "may not list") for kind in ("Pod", "Node")]
    assert checked.lines("kind", "error") == both
    assert checked.lines() == []
    checked.clock.advance(5.0)
    checked.pods.has_synced = checked.nodes.has_synced = True
    both = [("ERROR", "cannot watch a kind", kind, "may not list") for kind in ("Pod", "Node")]
    assert checked.lines("kind", "error") == both
    checked.nodes.last_error = None
    text = "kind can be listed and watched again"
    assert checked.lines("kind", "after_s") == [("INFO", text, "Node", 5.0)]
    # Its next error is a new one.
    checked.nodes.last_error = NOT_ALLOWED
    assert checked.lines("kind", "error") == both[1:]


def test_another_error_counts_only_before_the_first_list(caplog: pytest.LogCaptureFixture) -> None:
    checked = Checked(caplog)
    checked.pods.last_error = checked.nodes.last_error = ODD
    checked.nodes.has_synced = False
    text = "cannot list a kind, scheduling has not started"
    assert checked.lines("kind", "error") == [("WARNING", text, "Node", "odd")]


def test_a_kind_is_not_well_while_the_server_is_away(caplog: pytest.LogCaptureFixture) -> None:
    checked = Checked(caplog)
    checked.pods.last_error = NOT_ALLOWED
    assert len(checked.lines()) == 1
    checked.clock.advance(2.0)
    checked.pods.last_error = AWAY
    assert [line[:2] for line in checked.lines()] == [("WARNING", REACHED)]
    checked.clock.advance(2.0)
    checked.pods.last_error = None
    assert checked.lines("after_s") == [
        ("WARNING", "API server can be reached again", 2.0),
        ("INFO", "kind can be listed and watched again", 4.0),
    ]


@virtually
async def test_it_checks_every_second(caplog: pytest.LogCaptureFixture) -> None:
    state: Any = State("Pod")
    health = InformerHealth(lambda: [state], clock=VirtualClock())
    task = asyncio.create_task(health.run())
    for error in (AWAY, None, AWAY):
        await asyncio.sleep(0.5)
        state.last_error = error
        caplog.clear()
        await asyncio.sleep(0.4)
        assert not caplog.records
        await asyncio.sleep(0.1)
        assert len(caplog.records) == 1
    task.cancel()


class Becoming:
    """An informer whose objects are fresh after some seconds."""

    def __init__(self, kind: str, wait_s: float) -> None:
        self.kind = kind_named(kind)
        self.wait_s = wait_s
        self.since_s: list[float] = []

    async def wait_until_fresh(self, since_s: float) -> None:
        self.since_s.append(since_s)
        await asyncio.sleep(self.wait_s)


@virtually
async def test_a_new_leader_waits_for_all_kinds_at_once(caplog: pytest.LogCaptureFixture) -> None:
    informers: Any = [Becoming("Pod", 5.0), Becoming("Node", 29.0)]
    await wait_until_fresh(informers, 77.0)
    assert asyncio.get_running_loop().time() == 29.0
    assert [informer.since_s for informer in informers] == [[77.0], [77.0]]
    assert caplog.records == []


@virtually
async def test_kinds_that_stay_stale_are_named_and_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    informers: Any = [Becoming("Pod", 99.0), Becoming("Node", 99.0), Becoming("Namespace", 1.0)]
    await wait_until_fresh(informers, 0.0)
    assert asyncio.get_running_loop().time() == FRESH_S_MAX == 30.0
    [line] = [vars(record) for record in caplog.records]
    assert line["message"] == "scheduling starts with kinds that may be stale"
    assert (line["levelname"], line["kinds"]) == ("WARNING", ["Node", "Pod"])
