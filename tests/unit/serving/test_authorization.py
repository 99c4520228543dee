"""Authorization: the requests that a user may send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.errors import ConfigError, Unreachable
from mooring.serving.authorization import (
    AccessReviewer,
    AllowedPaths,
    AuthorizationFailed,
    Authorizer,
    Decision,
)
from mooring.serving.client_ca import User
from tests.helpers.serving import CannedTransport, reviews, status

JANE = User("jane", "u", ("a",), {"scope": ["x"]})
ADMIN = User("admin", groups=("system:masters",))
ALLOWED = (201, {"status": {"allowed": True}})
REFUSED = (201, {"status": {"allowed": False, "reason": "no rule"}})


def authorizer(
    transport: CannedTransport | None, clock: VirtualClock | None = None, *paths: str
) -> Authorizer:
    reviewer = None
    if transport is not None:
        reviewer = AccessReviewer(
            reviews(transport), clock or VirtualClock(), allowed_ttl_s=10.0, refused_ttl_s=5.0
        )
    return Authorizer(AllowedPaths(paths or ("/healthz", "/readyz", "/livez")), reviewer)


def decide(subject: Authorizer, user: User = JANE, path: str = "/metrics") -> Decision:
    return asyncio.run(subject.decide(user, "GET", path))


@pytest.mark.parametrize(
    ("pattern", "path", "is_allowed"),
    [
        ("/healthz", "/healthz", True),
        ("healthz", "/healthz", True),
        ("/healthz", "/healthz/", False),
        ("/healthz/*", "/healthz/ping", True),
        ("/healthz*", "/healthzzz", True),
        ("*", "/anything", True),
        ("/", "/", True),
        ("", "/", True),
        ("/", "/x", False),
    ],
)
def test_paths(pattern: str, path: str, is_allowed: bool) -> None:
    assert AllowedPaths([pattern]).allows(path) is is_allowed


def test_a_star_in_the_middle_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r'^only trailing \* allowed in "a\*b"$'):
        AllowedPaths(["/a*b"])


def test_the_api_server_is_asked() -> None:
    transport = CannedTransport(ALLOWED)
    assert decide(authorizer(transport)) == Decision(True, "")
    (body,) = transport.bodies()
    assert body["spec"] == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "jane",
        "uid": "u",
        "groups": ["a"],
        "extra": {"scope": ["x"]},
    }


def test_it_is_not_asked_for_masters_and_allowed_paths() -> None:
    transport = CannedTransport(REFUSED)
    assert decide(authorizer(transport), ADMIN).is_allowed
    assert decide(authorizer(transport), path="/livez").is_allowed
    assert transport.requests == []
    assert decide(authorizer(transport)) == Decision(False, "no rule")


def test_without_a_client_the_rest_is_refused() -> None:
    assert decide(authorizer(None)) == Decision(False)
    assert decide(authorizer(None), ADMIN).is_allowed


def test_answers_are_cached_for_their_times() -> None:
    async def main() -> None:
        clock = VirtualClock()
        transport = CannedTransport(REFUSED, ALLOWED, REFUSED)
        subject = authorizer(transport, clock)
        seen = []
        for wait_s in (0.0, 4.9, 0.2, 9.9, 0.2):
            clock.advance(wait_s)
            seen.append((await subject.decide(JANE, "GET", "/metrics")).is_allowed)
        assert seen == [False, False, True, True, False]
        await subject.decide(JANE, "DELETE", "/metrics")
        assert len(transport.requests) == 4

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (status(401, "Unauthorized"), "^Unauthorized$"),
        (Unreachable("connection refused"), "connection refused"),
        ((201, {"status": {"allowed": True, "denied": True}}), "both allow and deny"),
    ],
)
def test_a_broken_authorizer_decides_nothing(answer: Any, text: str) -> None:
    with pytest.raises(AuthorizationFailed, match=text):
        decide(authorizer(CannedTransport(answer)))


def test_a_path_that_is_not_utf8_can_be_asked_about() -> None:
    transport = CannedTransport(REFUSED)
    decide(authorizer(transport), path=b"/\xff".decode("utf-8", "surrogateescape"))
    assert transport.bodies()[0]["spec"]["nonResourceAttributes"]["path"] == "/\ufffd"


def test_a_user_whose_name_is_not_utf8_can_be_asked_about() -> None:
    transport = CannedTransport(REFUSED)
    decide(authorizer(transport), User("a\udcff", "\udcff", ("\udcff",), {"\udcff": ["\udcff"]}))
    spec = transport.bodies()[0]["spec"]
    assert (spec["user"], spec["uid"], spec["groups"]) == ("a\ufffd", "\ufffd", ["\ufffd"])
    assert spec["extra"] == {"\ufffd": ["\ufffd"]}
