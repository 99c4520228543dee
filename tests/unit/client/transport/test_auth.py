"""Credentials while they last: tokens, certificates, plugins, and what a 401 does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.client.transport.auth import FILE_S, RENEW_S_MIN
from mooring.client.transport.kubeconfig import ExecPlugin
from mooring.clock import VirtualClock
from mooring.errors import Unreachable
from tests.helpers.credentials import (
    V1,
    credential,
    credentials,
    pair,
    printing,
    run,
)

# -- tokens ---------------------------------------------------------------------------------------


def test_a_token_goes_into_the_header() -> None:
    async def test(clock: VirtualClock) -> None:
        assert await credentials(clock, token="t").headers() == {"authorization": "Bearer t"}
        assert await credentials(clock).headers() == {}

    run(test)


def test_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n", "ascii")

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, token_file=file)
        assert await found.headers() == {"authorization": "Bearer one"}
        file.write_text("two", "ascii")
        clock.advance(FILE_S - 1)
        assert await found.headers() == {"authorization": "Bearer one"}
        clock.advance(1)
        assert await found.headers() == {"authorization": "Bearer two"}

    run(test)


def test_a_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one", "ascii")

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, token_file=file)
        await found.headers()
        for token in ("two", "three"):
            file.write_text(token, "ascii")
            await found.renew()
            assert await found.headers() == {"authorization": f"Bearer {token}"}

    run(test)


def test_a_token_file_that_goes_away_leaves_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one", "ascii")

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, token_file=file)
        await found.headers()
        file.unlink()
        clock.advance(FILE_S)
        assert await found.headers() == {"authorization": "Bearer one"}
        with pytest.raises(Unreachable, match="cannot read token"):
            await credentials(clock, token_file=file).headers()

    run(test)


@pytest.mark.parametrize("content", ["", "\n", "two words", "a\nb", "ä"])
def test_a_token_file_that_is_being_written_leaves_the_last_token(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "token"
    file.write_text("one", "ascii")

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, token_file=file)
        await found.headers()
        file.write_text(content, "utf-8")
        clock.advance(FILE_S)
        assert await found.headers() == {"authorization": "Bearer one"}, "not nobody"
        with pytest.raises(Unreachable, match="cannot read token") as failed:
            await credentials(clock, token_file=file).headers()
        assert "words" not in str(failed.value)

    run(test)


# -- plugins --------------------------------------------------------------------------------------


def test_a_plugin_is_run_once_until_its_token_expires(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plugin = printing(
        credential(token="one", expirationTimestamp="2026-01-01T01:00:00Z"),
        credential(token="two"),
        log=log,
    )

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, plugin=plugin)
        assert await asyncio.gather(*[found.headers() for _ in range(5)]) == (
            [{"authorization": "Bearer one"}] * 5
        )
        clock.advance(3599)
        assert await found.headers() == {"authorization": "Bearer one"}
        clock.advance(1)
        assert await found.headers() == {"authorization": "Bearer two"}
        clock.advance(1_000_000)
        await found.headers()

    run(test)
    assert log.read_text() == "run\nrun\n"


def test_many_refusals_run_a_plugin_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plugin = printing(*[credential(token=f"t{number}") for number in range(1, 5)], log=log)

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, plugin=plugin)
        await found.headers()
        await asyncio.gather(*[found.renew() for _ in range(5)])
        assert await found.headers() == {"authorization": "Bearer t2"}
        clock.advance(RENEW_S_MIN)
        await found.renew()
        assert await found.headers() == {"authorization": "Bearer t3"}

    run(test)


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    certificate, key = (text.decode() for text in pair())
    other, other_key = (text.decode() for text in pair())
    first = credential(clientCertificateData=certificate, clientKeyData=key)
    second = credential(clientCertificateData=other, clientKeyData=other_key)
    plugin = printing(first, first, second, log=tmp_path / "log")

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, plugin=plugin, server="https://127.0.0.1")
        assert found.generation == 0
        assert await found.headers() == {}
        assert found.generation == 1
        for expected in (1, 2):
            clock.advance(RENEW_S_MIN)
            await found.renew()
            assert found.generation == expected, "grows with another certificate only"

    run(test)


def test_a_plugin_that_fails_is_left_alone_for_a_while(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plugin = ExecPlugin("sh", ("-c", f"echo run >> {log}; exit 3"), {}, V1, "", None)

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, plugin=plugin)
        for _ in range(5):
            with pytest.raises(Unreachable, match="exit code 3"):
                await found.headers()
        assert log.read_text().count("run") == 1
        clock.advance(RENEW_S_MIN)
        with pytest.raises(Unreachable, match="exit code 3"):
            await found.headers()
        assert log.read_text().count("run") == 2

    run(test)


def test_a_plugin_that_fails_is_named_once() -> None:
    plugin = ExecPlugin("sh", ("-c", "exit 3"), {}, V1, "", None)

    async def test(clock: VirtualClock) -> None:
        with pytest.raises(Unreachable) as failed:
            await credentials(clock, plugin=plugin).headers()
        assert str(failed.value) == "sh failed with exit code 3"

    run(test)


def test_a_plugin_whose_token_cannot_be_sent_has_failed(tmp_path: Path) -> None:
    plugin = printing(credential(token="SECRET SECRET"), log=tmp_path / "log")

    async def test(clock: VirtualClock) -> None:
        with pytest.raises(Unreachable, match="sh: a token must be ASCII") as failed:
            await credentials(clock, plugin=plugin).headers()
        assert "SECRET" not in str(failed.value)

    run(test)
