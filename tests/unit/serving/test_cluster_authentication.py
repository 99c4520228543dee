"""The ConfigMap of authorities, and how its changes arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import Forbidden, Unreachable
from mooring.serving.cluster_authentication import ClusterAuthentication, RequestHeaders
from tests.helpers.certificates import authority
from tests.helpers.serving import CannedTransport, Sleeps, status

CLIENTS, PROXIES, OTHERS = (authority(name).pem.decode() for name in ("a", "b", "c"))


def config_map(version: str, **data: str) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": version},
        "data": {name.replace("_", "-"): value for name, value in data.items()},
    }


FULL = config_map(
    "7",
    client_ca_file=CLIENTS,
    requestheader_client_ca_file=PROXIES,
    requestheader_username_headers='["X-Remote-User"]',
    requestheader_group_headers='["X-Remote-Group"]',
    requestheader_extra_headers_prefix='["X-Remote-Extra-"]',
    requestheader_allowed_names='["front-proxy-client"]',
)


#: A list, of a server whose history begins after the last change of the ConfigMap.
LISTED = {"metadata": {"resourceVersion": "228"}, "items": [FULL]}


def cluster(
    transport: CannedTransport, *, stop_after: int = 1
) -> tuple[ClusterAuthentication, Sleeps]:
    clock = VirtualClock()
    sleeps = Sleeps(clock, stop_after=stop_after)
    found = ClusterAuthentication(transport, clock=clock, rng=seeded_random(1), sleep=sleeps)
    return found, sleeps


def run(subject: ClusterAuthentication) -> None:
    """Runs it until it waits for the last time."""
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(subject.run())


def test_it_is_read() -> None:
    subject, _ = cluster(CannedTransport((200, FULL)))
    asyncio.run(subject.load())
    assert subject.client_ca is not None
    assert subject.client_ca.pem == CLIENTS.encode()
    assert subject.proxy_ca is not None
    assert subject.headers == RequestHeaders(
        username=("X-Remote-User",),
        group=("X-Remote-Group",),
        extra_prefixes=("X-Remote-Extra-",),
        allowed_names=("front-proxy-client",),
    )


def test_there_may_be_none() -> None:
    subject, _ = cluster(CannedTransport(status(404, "not found", "NotFound")))
    asyncio.run(subject.load())
    assert subject.client_ca is None


def test_a_refusal_has_the_servers_words() -> None:
    subject, _ = cluster(CannedTransport(status(403, "configmaps is forbidden", "Forbidden")))
    with pytest.raises(Forbidden, match=r"^configmaps is forbidden$"):
        asyncio.run(subject.load())


def test_changes_are_watched() -> None:
    changed = {"type": "MODIFIED", "object": config_map("8", client_ca_file=OTHERS)}
    transport = CannedTransport((200, LISTED), Unreachable("gone"), events=[changed])
    subject, _ = cluster(transport)
    run(subject)
    assert subject.client_ca is not None
    assert subject.client_ca.pem == OTHERS.encode()
    assert subject.proxy_ca is None
    (watch,) = transport.streams
    assert dict(watch.query)["resourceVersion"] == "228"
    assert ("fieldSelector", "metadata.name=extension-apiserver-authentication") in watch.query


def test_an_invalid_authority_leaves_the_last_one() -> None:
    broken = {"type": "MODIFIED", "object": config_map("8", client_ca_file="nonsense")}
    subject, _ = cluster(CannedTransport((200, LISTED), Unreachable("gone"), events=[broken]))
    run(subject)
    assert subject.client_ca is not None
    assert subject.client_ca.pem == CLIENTS.encode()


def test_failures_are_retried_with_growing_waits() -> None:
    subject, sleeps = cluster(CannedTransport(Unreachable("refused")), stop_after=4)
    run(subject)
    assert sleeps.waits == sorted(sleeps.waits)
    assert 0.8 <= sleeps.waits[0] <= 1.6


def test_an_error_in_the_watch_means_reading_again() -> None:
    gone = {"type": "ERROR", "object": {"code": 410}}
    transport = CannedTransport((200, LISTED), (200, LISTED), Unreachable("x"), events=[gone])
    subject, _ = cluster(transport, stop_after=3)
    run(subject)
    assert len(transport.streams) == 2


def test_a_config_map_that_is_created_later_is_read() -> None:
    created = {"type": "ADDED", "object": FULL}
    none = {"metadata": {"resourceVersion": "5"}, "items": []}
    subject, _ = cluster(CannedTransport((200, none), Unreachable("gone"), events=[created]))
    run(subject)
    assert subject.client_ca is not None


def test_an_error_in_the_watch_is_logged_in_the_words_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version: 5 (9)"}}
    subject, _ = cluster(CannedTransport((200, LISTED), Unreachable("x"), events=[gone]))
    run(subject)
    assert vars(caplog.records[0])["error"] == "too old resource version: 5 (9)"
