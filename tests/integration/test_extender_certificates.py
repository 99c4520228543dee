"""Certificates that are replaced while the scheduler runs, over real TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mooring.apiserver.http_server.certificates import Authority, Pair
from mooring.clock import SystemClock, seeded_random
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.extenders import Extenders, ExtenderTransport
from mooring.extenders.http import NoResponse
from tests.integration.test_extender_http import ANSWER, LIMIT, context_of, encoded, serving


def put(folder: Path, pair: Pair) -> None:
    (folder / "our.crt").write_bytes(pair.certificate)
    (folder / "our.key").write_bytes(pair.key)


def reached(url: str, tls: ExtenderTLSConfig) -> Extenders:
    """Returns as a scheduler with this configuration has it; no API server is asked here."""
    config = Extender(url_prefix=url, filter_verb="filter", enable_https=True, tls_config=tls)
    nobody: Any = None
    return Extenders(
        [config], nobody, clock=SystemClock(), rng=seeded_random(0), sleep=asyncio.sleep
    )


async def failure(post: ExtenderTransport) -> list[str]:
    """Asks; what went wrong."""
    try:
        assert await post("filter", b"{}", LIMIT) == ANSWER
    except NoResponse as error:
        return [str(error)]
    return []


async def shown(folder: Path, tls: ExtenderTLSConfig, authority: Authority, *then: Any) -> Any:
    """Returns the client identities, each on a new connection; ``then`` runs in between."""
    names: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        names.extend(value for part in subject for key, value in part if key == "commonName")
        found = web.Response(body=ANSWER)
        found.force_close()
        return found

    context = context_of(authority.server(), folder, authority.certificate)
    async with serving(answer, tls=context) as url:
        extenders = reached(url, tls)
        post = extenders._posts[0]
        try:
            for step in (lambda: None, *then):
                step()
                names.extend(await failure(post))
        finally:
            await extenders.close()
    return names


def test_a_certificate_is_read_anew_for_every_connection(tmp_path: Path) -> None:
    authority = Authority(SystemClock())
    put(tmp_path, authority.client("first"))
    tls = ExtenderTLSConfig(
        ca_data=encoded(authority.certificate),
        cert_file=str(tmp_path / "our.crt"),
        key_file=str(tmp_path / "our.key"),
    )

    def lose_key() -> None:
        (tmp_path / "our.key").unlink()

    names = asyncio.run(
        shown(
            tmp_path,
            tls,
            authority,
            lambda: put(tmp_path, authority.client("second")),
            lambda: (tmp_path / "our.crt").write_bytes(authority.client("third").certificate),
            lambda: put(tmp_path, authority.client("fourth")),
            lose_key,
            lambda: put(tmp_path, authority.client("fifth")),
        )
    )
    assert names[:2] == ["first", "second"]
    assert "client certificate" in names[2]  # the key is still the second one's
    assert names[3] == "fourth"
    assert "No such file" in names[4]
    assert names[5] == "fifth"


@pytest.mark.parametrize("is_data", ["cert", "key"])
def test_data_stay_as_they_are(is_data: str, tmp_path: Path) -> None:
    authority = Authority(SystemClock())
    first = authority.client("first")
    put(tmp_path, first)
    data = {"cert": first.certificate, "key": first.key}
    parts: dict[str, Any] = {
        "cert_file": str(tmp_path / "our.crt"),
        "key_file": str(tmp_path / "our.key"),
    }
    parts[f"{is_data}_data"] = encoded(data[is_data])
    tls = ExtenderTLSConfig(ca_data=encoded(authority.certificate), **parts)
    later = authority.client("second")
    names = asyncio.run(shown(tmp_path, tls, authority, lambda: put(tmp_path, later)))
    assert names == ["first", "first"]
