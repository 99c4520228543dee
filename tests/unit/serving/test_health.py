"""Health checks; the exact bodies are compared with the peer elsewhere."""

from __future__ import annotations

import asyncio
import io

import pytest

from mooring.component.flags import parse
from mooring.component.klog import configure
from mooring.serving.health import HealthChecks, healthy
from mooring.serving.messages import Reply
from tests.helpers.command_line import restored_logging
from tests.helpers.serving import asking


class Checks(HealthChecks):
    """Checks with a switch, and what they reported."""

    def __init__(self) -> None:
        self.results: list[tuple[str, str, bool]] = []
        self.reason: str | None = None
        super().__init__(lambda *result: self.results.append(result))
        self.add(["healthz", "readyz"], "leaderElection", healthy)
        self.add(["readyz"], "sched-handler-sync", lambda: self.reason)

    def get(self, path: str, **query: list[str]) -> Reply:
        pairs = [(name, value) for name, values in query.items() for value in values]
        return asyncio.run(self.routes()[path](asking(path, query=pairs)))  # type: ignore[arg-type]


def test_all_pass() -> None:
    checks = Checks()
    assert checks.get("/readyz") == Reply(
        200,
        b"ok",
        {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"},
    )
    assert checks.get("/readyz", verbose=[""]).body == (
        b"[+]leaderElection ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
    )


def test_the_reason_is_given_for_a_single_check_only() -> None:
    checks = Checks()
    checks.reason = "handlers are not fully synchronized"
    reply = checks.get("/readyz")
    assert reply.status == 500
    assert reply.body == (
        b"[+]leaderElection ok\n[-]sched-handler-sync failed: reason withheld\n"
        b"readyz check failed\n"
    )
    single = checks.get("/readyz/sched-handler-sync")
    assert single.status == 500
    assert single.body == b"internal server error: handlers are not fully synchronized\n"
    assert checks.get("/readyz/leaderElection").body == b"ok"
    assert checks.get("/healthz").status == 200


@pytest.mark.parametrize("verbosity", [1, 2])
def test_a_failed_check_is_logged_with_its_reason_from_a_verbosity_of_2(verbosity: int) -> None:
    checks, out = Checks(), io.StringIO()
    checks.reason = "handlers are not fully synchronized"
    with restored_logging():
        configure(parse([f"-v={verbosity}"]).logging, out=out)
        checks.get("/readyz")
    # As kube-scheduler v1.36.3 has logged it.
    lines = [
        "sched-handler-sync check failed: readyz",
        "[-]sched-handler-sync failed: handlers are not fully synchronized",
    ]
    assert out.getvalue().partition("] ")[2].splitlines() == (lines if verbosity == 2 else [])


def test_excluded_checks_are_not_evaluated_and_do_not_count() -> None:
    checks = Checks()
    checks.reason = "broken"
    reply = checks.get("/readyz", verbose=[""], exclude=["sched-handler-sync", "b", 'a"'])
    assert reply.status == 200
    assert reply.body == (
        b"[+]leaderElection ok\n[+]sched-handler-sync excluded: ok\n"
        b'warn: some health checks cannot be excluded: no matches for "a\\"","b"\n'
        b"readyz check passed\n"
    )
    assert checks.results == [("leaderElection", "readyz", True)]


def test_results_are_reported_with_the_endpoint() -> None:
    checks = Checks()
    checks.reason = "broken"
    checks.get("/readyz")
    checks.get("/livez")
    assert checks.results == [
        ("leaderElection", "readyz", True),
        ("sched-handler-sync", "readyz", False),
        ("ping", "livez", True),
    ]


def test_ping_is_there_only_without_other_checks() -> None:
    paths = Checks().routes()
    assert "/livez/ping" in paths
    assert "/healthz/ping" not in paths
    assert "/healthz/ping" in HealthChecks().routes()


def test_wrong_registrations() -> None:
    checks = Checks()
    with pytest.raises(ValueError, match="already has a check"):
        checks.add(["healthz"], "leaderElection", healthy)
    with pytest.raises(ValueError, match="no endpoint 'health'"):
        checks.add(["health"], "x", healthy)


def test_a_check_that_passes_may_have_a_remark() -> None:
    checks = HealthChecks()
    checks.add(["readyz"], "quarantine", healthy, remark=lambda: "(2 pods are quarantined)")

    asked = asking("/readyz", query=[("verbose", "")])
    reply: Reply = asyncio.run(checks.routes()["/readyz"](asked))  # type: ignore[arg-type]

    text = "[+]quarantine ok (2 pods are quarantined)\nreadyz check passed\n"
    assert isinstance(reply.body, bytes)
    assert reply.body.decode() == text
