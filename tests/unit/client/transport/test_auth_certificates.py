"""Certificates: who is verified, with what, and which are shown."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from mooring.client.transport.auth import (
    FILE_S,
    RENEW_S_MIN,
    connect,
    tls_context,
)
from mooring.client.transport.client_certificate import _in_memory, _on_disk
from mooring.client.transport.kubeconfig import Access
from mooring.clock import VirtualClock
from mooring.errors import ConfigError, Unreachable
from tests.faults.parts.certificates import certificate, handshake, host, key
from tests.helpers.credentials import (
    credential,
    credentials,
    pair,
    printing,
    run,
)


def test_a_server_is_always_verified() -> None:
    certificate, _ = pair("authority")
    context = tls_context(Access("https://a", authority=certificate))
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.cert_store_stats()["x509"] == 1, "by this authority alone"


def test_without_an_authority_it_is_verified_by_those_of_the_system() -> None:
    context = tls_context(Access("https://a"))
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_an_unverified_server_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    context = tls_context(Access("https://a", is_unverified=True))
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert "not verified" in caplog.text


def test_plain_http_has_no_context() -> None:
    assert tls_context(Access("http://127.0.0.1:8080")) is None


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    certificate, key = pair()
    _, other = pair()
    for fields, problem in (
        ({"authority": b"nonsense"}, "^https://a: certificate-authority: is not a certificate"),
        ({"authority": b""}, "is not a certificate"),
        ({"authority": b"\xff"}, "is not a certificate"),
        ({"authority": tmp_path / "none"}, "cannot be read"),
        ({"certificate": certificate}, "without a key"),
        ({"certificate": certificate, "key": other}, "cannot be used"),
        ({"certificate": b"nonsense", "key": key}, "cannot be used"),
    ):
        with pytest.raises(ConfigError, match=problem):
            tls_context(Access("https://a", **fields))


def test_certificate_files_are_read_again_after_a_401(tmp_path: Path) -> None:
    files = tmp_path / "me.crt", tmp_path / "me.key"
    for file, text in zip(files, pair(), strict=True):
        file.write_bytes(text)

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, server="https://a", certificate=files[0], key=files[1])
        assert found.generation == 0
        for file, text in zip(files, pair(), strict=True):
            file.write_bytes(text)
        await found.renew()
        assert found.generation == 1
        files[0].write_bytes(pair()[0])
        clock.advance(RENEW_S_MIN)
        with pytest.raises(Unreachable, match="client certificate"):
            await found.renew()
        assert found.generation == 1, "half of a pair is not shown"

    run(test)


def test_half_of_a_pair_does_not_take_the_certificate_of_new_connections_away(
    tmp_path: Path,
) -> None:
    files = tmp_path / "a.crt", tmp_path / "a.key"
    for file, text in zip(files, (certificate("a"), key("a")), strict=True):
        file.write_bytes(text)

    async def test(clock: VirtualClock) -> None:
        found = credentials(
            clock,
            server="https://a",
            authority=certificate("a"),
            certificate=files[0],
            key=files[1],
        )
        files[0].write_bytes(certificate("b"))
        with pytest.raises(Unreachable, match="client certificate"):
            await found.renew()
        assert found.tls is not None
        assert handshake(found.tls, host("a"), "a") == "a"

    run(test)


def test_a_plugin_that_prints_another_key_for_its_certificate_is_refused(tmp_path: Path) -> None:
    prints = [
        credential(clientCertificateData=certificate("a").decode(), clientKeyData=text.decode())
        for text in (key("a"), key("b"))
    ]

    async def test(clock: VirtualClock) -> None:
        plugin = printing(*prints, log=tmp_path / "log")
        found = credentials(clock, server="https://a", authority=certificate("a"), plugin=plugin)
        await found.headers()
        clock.advance(RENEW_S_MIN)
        with pytest.raises(Unreachable, match="cannot be used"):
            await found.renew()
        assert found.tls is not None
        assert handshake(found.tls, host("a"), "a") == "a"

    run(test)


def test_an_authority_that_changes_is_believed_within_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(pair("old")[0])

    def names(context: ssl.SSLContext | None) -> list[str]:
        assert context is not None
        [found] = context.get_ca_certs()
        return [found["subject"][0][0][1]]

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, server="https://a", authority=file)
        file.write_bytes(pair("new")[0])
        await found.headers()
        assert (names(found.tls), found.generation) == (["old"], 0)
        clock.advance(FILE_S)
        await found.headers()
        assert (names(found.tls), found.generation) == (["new"], 1)
        clock.advance(FILE_S)
        await found.headers()
        assert found.generation == 1, "the same content"
        for bad in (b"", b"half a certif"):
            file.write_bytes(bad)
            clock.advance(FILE_S)
            await found.headers()
            assert (names(found.tls), found.generation) == (["new"], 1)
        file.unlink()
        clock.advance(FILE_S)
        await found.headers()
        assert names(found.tls) == ["new"]

    run(test)


def test_a_certificate_from_a_plugin_is_shown_under_a_new_authority_too(tmp_path: Path) -> None:
    certificate, key = (text.decode() for text in pair())
    given = credential(clientCertificateData=certificate, clientKeyData=key)
    plugin = printing(given, log=tmp_path / "log")
    file = tmp_path / "ca.crt"
    file.write_bytes(pair("old")[0])
    shown: list[ssl.SSLContext] = []

    async def test(clock: VirtualClock) -> None:
        found = credentials(clock, server="https://a", authority=file, plugin=plugin)
        await found.headers()
        file.write_bytes(pair("new")[0])
        clock.advance(FILE_S)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "mooring.client.transport.auth.load_pair", lambda tls, *_: shown.append(tls)
            )
            await found.headers()
        assert shown == [found.tls]
        assert found.generation == 2

    run(test)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked() -> None:
    certificate, key = pair()
    found = serialization.load_pem_private_key(key, None)
    locked = found.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(ConfigError, match="needs a password"):
        tls_context(Access("https://a", certificate=certificate, key=locked))


@pytest.mark.parametrize("way", [_in_memory, _on_disk])
def test_a_secret_is_in_a_file_only_as_long_as_it_is_read(
    way: Callable[[bytes], AbstractContextManager[str]],
) -> None:
    with way(b"SECRET") as path:
        assert Path(path).read_bytes() == b"SECRET"
        if way is _on_disk:
            assert Path(path).stat().st_mode & 0o077 == 0
    assert not Path(path).exists()


def test_a_key_never_gets_onto_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    certificate, key = pair()
    assert tls_context(Access("https://a", certificate=certificate, key=key)) is not None


def test_a_transport_is_made_of_what_was_found() -> None:
    async def test(clock: VirtualClock) -> None:
        transport = connect(Access("https://a:6443"), clock=clock, environment={})
        await transport.close()

    run(test)


@pytest.mark.parametrize("field", ["authority", "certificate", "key"])
def test_a_file_that_cannot_be_is_an_error(field: str) -> None:
    certificate, key = pair("me")
    fields: dict[str, Any] = {"certificate": certificate, "key": key, field: Path("a\0b")}
    with pytest.raises(ConfigError, match="cannot be read"):
        tls_context(Access("https://a", **fields))
