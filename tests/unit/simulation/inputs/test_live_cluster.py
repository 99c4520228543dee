"""Errors of API servers that send no response."""

from __future__ import annotations

import pytest

from mooring.client.transport.kubeconfig import Access
from mooring.errors import OutcomeUnknown, Unreachable
from mooring.simulation.inputs.live_cluster import not_reached


@pytest.mark.parametrize(
    ("server", "error", "has_hint"),
    [
        ("http://a", OutcomeUnknown("closed"), True),
        ("http://a", Unreachable("refused"), False),
        ("https://a", OutcomeUnknown("closed"), False),
    ],
)
def test_plain_http_to_a_server_that_closes_has_a_hint(
    server: str, error: Unreachable | OutcomeUnknown, has_hint: bool
) -> None:
    text = str(not_reached(Access(server), error))
    assert text.startswith(f"{server}: cannot be reached: {error}")
    assert ("must begin with https://" in text) is has_hint
