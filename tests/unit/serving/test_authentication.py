"""Authentication: the user of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import SystemClock, VirtualClock
from mooring.errors import Unreachable
from mooring.serving.authentication import (
    ANONYMOUS,
    Authenticator,
    FrontProxy,
    NotAuthenticated,
    TokenReviewer,
)
from mooring.serving.client_ca import Authority, User
from mooring.serving.cluster_authentication import RequestHeaders
from mooring.serving.messages import ServingRequest
from tests.helpers.certificates import authority, sign
from tests.helpers.serving import CannedTransport, asking, reviews, status

CLIENTS, PROXIES = authority("clients"), authority("proxies")
JANE = sign(CLIENTS, "jane", groups=["a"]).der
PROXY = sign(PROXIES, "proxy").der
HEADERS = RequestHeaders(
    username=("X-Remote-User",),
    uid=("X-Remote-Uid",),
    group=("X-Remote-Group",),
    extra_prefixes=("X-Remote-Extra-",),
    allowed_names=("proxy",),
)
TOKEN_OWNER = (
    201,
    {"status": {"authenticated": True, "user": {"username": "robot", "groups": ["r"], "uid": "7"}}},
)
#: How the API server refuses a token.
INVALID = (201, {"status": {"authenticated": False}})


def tokens(transport: CannedTransport, clock: VirtualClock | None = None) -> TokenReviewer:
    return TokenReviewer(reviews(transport), clock or VirtualClock(), ttl_s=10.0)


def authenticator(*answers: Any) -> Authenticator:
    return Authenticator(
        SystemClock(),
        front_proxy=FrontProxy(lambda: Authority(PROXIES.pem), lambda: HEADERS),
        client_ca=lambda: Authority(CLIENTS.pem),
        tokens=tokens(CannedTransport(*answers or [INVALID])),
    )


def who(request: ServingRequest, *answers: Any, by: Authenticator | None = None) -> User:
    return asyncio.run((by or authenticator(*answers)).authenticate(request))


def bearer(text: str = "Bearer t") -> dict[str, str]:
    return {"Authorization": text}


def test_without_credentials_it_is_anonymous() -> None:
    assert who(asking()) == ANONYMOUS
    assert ANONYMOUS.groups == ("system:unauthenticated",)


def test_a_client_certificate() -> None:
    user = who(asking(chain=[JANE]))
    assert (user.name, user.groups) == ("jane", ("a", "system:authenticated"))


def test_a_token() -> None:
    user = who(asking(headers=bearer()), TOKEN_OWNER)
    assert (user.name, user.uid) == ("robot", "7")
    assert user.groups == ("r", "system:authenticated")


def test_a_certificate_comes_before_a_token_and_a_good_token_helps_a_bad_certificate() -> None:
    assert who(asking(headers=bearer(), chain=[JANE]), TOKEN_OWNER).name == "jane"
    stranger = sign(authority("x"), "jane").der
    assert who(asking(headers=bearer(), chain=[stranger]), TOKEN_OWNER).name == "robot"


@pytest.mark.parametrize(
    "request_",
    [
        asking(headers=bearer()),
        asking(chain=[sign(authority("x"), "jane").der]),
        asking(headers={"X-Remote-User": "jane"}, chain=[sign(PROXIES, "other").der]),
    ],
    ids=["token", "unknown authority", "name of the proxy"],
)
def test_bad_credentials_are_never_anonymous(request_: ServingRequest) -> None:
    with pytest.raises(NotAuthenticated):
        who(request_)


@pytest.mark.parametrize("value", ["", "Basic x", "Bearer", "Bearer ", "Bearer  t", "Token t"])
def test_what_is_no_bearer_token_is_ignored(value: str) -> None:
    assert who(asking(headers=bearer(value)), TOKEN_OWNER) == ANONYMOUS


def test_a_front_proxy_passes_on_an_identity() -> None:
    headers = [
        ("X-Remote-User", "jane"),
        ("X-Remote-Uid", "u"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scopes%2fx", "1"),
        ("X-Remote-Extra-Scopes%2fx", "2"),
    ]
    user = who(asking(headers=headers, chain=[PROXY]))
    assert user == User("jane", "u", ("a", "b", "system:authenticated"), {"scopes/x": ["1", "2"]})


def test_its_headers_from_anybody_else_are_ignored() -> None:
    assert who(asking(headers={"X-Remote-User": "jane"})) == ANONYMOUS
    with pytest.raises(NotAuthenticated):  # its certificate is not for clients of ours
        who(asking(chain=[PROXY]))


def test_without_an_authority_certificates_are_no_opinion() -> None:
    subject = Authenticator(SystemClock(), client_ca=lambda: None)
    assert who(asking(chain=[JANE]), by=subject) == ANONYMOUS


def test_without_a_client_tokens_are_not_looked_at() -> None:
    assert who(asking(headers=bearer()), by=Authenticator(SystemClock())) == ANONYMOUS


def test_answers_good_and_bad_are_cached_and_failures_are_not() -> None:
    async def main() -> None:
        clock = VirtualClock()
        transport = CannedTransport(Unreachable("refused"), INVALID, TOKEN_OWNER)
        subject = tokens(transport, clock)
        for text, requests in (("refused", 1), *[("invalid bearer token", 2)] * 2):
            with pytest.raises(NotAuthenticated, match=text):
                await subject.user("t")
            assert len(transport.requests) == requests
        clock.advance(10.0)
        for _ in range(2):
            assert (await subject.user("t")).name == "robot"
        assert len(transport.requests) == 3
        assert transport.bodies()[0]["spec"] == {"token": "t"}

    asyncio.run(main())


def test_a_review_that_fails_is_401() -> None:
    for answer in (status(403, "no"), (201, {"status": {"error": "invalid token"}})):
        with pytest.raises(NotAuthenticated):
            who(asking(headers=bearer()), answer)


def test_a_token_that_is_not_utf8_is_reviewed_as_go_would_write_it() -> None:
    transport = CannedTransport(INVALID)
    subject = Authenticator(SystemClock(), tokens=tokens(transport))
    with pytest.raises(NotAuthenticated, match="invalid bearer token"):
        who(asking(headers=bearer("Bearer a\udcff")), by=subject)
    assert transport.bodies()[0]["spec"] == {"token": "a\ufffd"}
