"""The guard of the page: tokens, cookies, and where requests come from."""

from __future__ import annotations

import pytest

from mooring.ui.guard import Guard

TOKEN = "0123456789abcdef" * 2
HOST = {"Host": "127.0.0.1:8123"}
POST = {**HOST, "Content-Type": "application/json"}


@pytest.fixture
def guard() -> Guard:
    guard = Guard(TOKEN)
    guard.listens_on(8123)
    return guard


def test_the_token_is_in_the_part_of_the_address_that_browsers_do_not_send(guard: Guard) -> None:
    assert guard.address == f"http://127.0.0.1:8123/#{TOKEN}"


def test_each_guard_has_a_token_of_128_bits_of_its_own() -> None:
    tokens = {Guard().token for _ in range(5)}

    assert len(tokens) == 5
    assert all(len(token) == 32 and int(token, 16) >= 0 for token in tokens)


def test_the_token_opens_a_session_with_a_cookie_that_scripts_cannot_read(guard: Guard) -> None:
    header = guard.opens(TOKEN)

    assert header is not None
    name, _, rest = header.partition("=")
    assert name == "mooring-8123"
    value, *attributes = rest.split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert value != TOKEN
    assert guard.has_session(value)


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN.upper(), "ü", "\ud800", None, 5, [TOKEN]])
def test_nothing_else_opens_a_session(guard: Guard, token: object) -> None:
    assert guard.opens(token) is None


@pytest.mark.parametrize("cookie", [None, "", TOKEN, "x"])
def test_other_cookies_are_no_session(guard: Guard, cookie: str | None) -> None:
    assert not guard.has_session(cookie)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", HOST),
        ("GET", {"Host": "localhost:8123", "Sec-Fetch-Site": "same-origin"}),
        ("GET", {**HOST, "Sec-Fetch-Site": "none"}),
        ("POST", {**POST, "Origin": "http://127.0.0.1:8123"}),
        ("POST", POST),
    ],
)
def test_requests_of_the_page_and_of_programs_pass(
    guard: Guard, method: str, headers: dict[str, str]
) -> None:
    assert guard.problem(method, headers) == ""


@pytest.mark.parametrize(
    ("method", "headers", "problem"),
    [
        ("GET", {}, "Host"),
        ("GET", {"Host": "evil.example:8123"}, "Host"),
        ("GET", {"Host": "127.0.0.1"}, "Host"),
        ("GET", {"Host": "127.0.0.1:81"}, "Host"),
        ("GET", {**HOST, "Origin": "http://127.0.0.1:9000"}, "Origin"),
        ("GET", {**HOST, "Origin": "null"}, "Origin"),
        ("GET", {**HOST, "Origin": "http://localhost:8123"}, "Origin"),
        ("GET", {**HOST, "Sec-Fetch-Site": "same-site"}, "another page"),
        ("GET", {**HOST, "Sec-Fetch-Site": "cross-site"}, "another page"),
        ("POST", HOST, "Content-Type"),
        ("POST", {**HOST, "Content-Type": "text/plain"}, "Content-Type"),
        ("POST", {**HOST, "Content-Type": "application/x-www-form-urlencoded"}, "Content-Type"),
    ],
)
def test_other_pages_are_refused(
    guard: Guard, method: str, headers: dict[str, str], problem: str
) -> None:
    assert problem in guard.problem(method, headers)
