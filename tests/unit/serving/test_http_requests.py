"""Requests as handlers see them; parsing itself is compared with the peer elsewhere."""

from __future__ import annotations

import pytest

from mooring.serving.http_requests import _has_valid_escapes, without_credentials
from tests.helpers.serving import asking


def test_handlers_see_no_credentials() -> None:
    headers = [
        ("Authorization", "Bearer x"),
        ("authorization", "Bearer y"),
        ("X-Remote-User", "jane"),
        ("X-Remote-Extra-Scopes", "z"),
        ("Accept", "text/plain"),
    ]
    request = without_credentials(asking(headers=headers, chain=[b"der"]))
    assert dict(request.headers) == {"Accept": "text/plain"}
    assert request.peer_chain == ()


@pytest.mark.parametrize(
    ("path", "is_valid"),
    [
        *(("/a", True), ("/%41", True), ("/%ff", True), ("/%c3%A9", True)),
        *(("/%", False), ("/%4", False), ("/%zz", False), ("/%%41", False)),
    ],
)
def test_escapes_are_two_hexadecimal_digits(path: str, is_valid: bool) -> None:
    assert _has_valid_escapes(path) is is_valid
