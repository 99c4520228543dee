"""Credentials while they last: tokens, certificates, plugins, and what a 401 does."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.client.auth import RENEW_S_MIN, TOKEN_FILE_S, Credentials, tls_context
from mooring.client.exec_plugin import run_plugin
from mooring.client.kubeconfig import Access, ExecPlugin
from mooring.clock import VirtualClock
from mooring.errors import ConfigError, Unreachable

V1 = "client.authentication.k8s.io/v1"


def pair(name: str = "me") -> tuple[bytes, bytes]:
    """A certificate that signed itself, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def credentials(clock: VirtualClock, **fields: Any) -> Credentials:
    access = Access(server=fields.pop("server", "http://127.0.0.1"), **fields)
    return Credentials(access, clock=clock, environment={"PATH": "/usr/bin:/bin"})


def run(test: Callable[[VirtualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(VirtualClock())

    asyncio.run(main())


def printing(*answers: dict[str, Any], log: Path) -> ExecPlugin:
    """A plugin that prints one answer after the other, and counts its runs in a file."""
    cases = "".join(
        f"{number}) printf %s '{json.dumps(answer)}';; "
        for number, answer in enumerate(answers, start=1)
    )
    script = f'echo run >> {log}; case "$(grep -c run {log})" in {cases} esac'
    return ExecPlugin("sh", ("-c", script), {}, V1, "", None)


def credential(**status: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "ExecCredential", "status": status}


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
        clock.advance(TOKEN_FILE_S - 1)
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
        clock.advance(TOKEN_FILE_S)
        assert await found.headers() == {"authorization": "Bearer one"}
        with pytest.raises(Unreachable, match="the token cannot be read"):
            await credentials(clock, token_file=file).headers()

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


def test_a_plugin_is_told_what_is_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f'printf %s "$KUBERNETES_EXEC_INFO" > {out}; printf %s "$ANSWER"'
    answer = {"ANSWER": json.dumps(credential(token="t"))}
    plugin = ExecPlugin("sh", ("-c", script), answer, V1, "", {"server": "https://a"})
    asyncio.run(run_plugin(plugin, environment={"PATH": "/usr/bin:/bin"}))
    assert json.loads(out.read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }


NO_ZONE = credential(token="t", expirationTimestamp="2026-01-01T00:00:00")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'no login' >&2; echo SECRET; exit 3", "failed with exit code 3: no login"),
        ("echo SECRET", "printed no ExecCredential"),
        ("echo '{}'", "printed no ExecCredential"),
        (f"""echo '{json.dumps({**credential(token="t"), "apiVersion": "v9"})}'""", "not client."),
        (f"echo '{json.dumps(credential())}'", "neither a token nor a certificate"),
        (f"echo '{json.dumps(credential(clientCertificateData='x'))}'", "together with its key"),
        (f"echo '{json.dumps(NO_ZONE)}'", "without a time zone"),
    ],
)
def test_a_plugin_that_fails_says_why_and_shows_no_secret(script: str, problem: str) -> None:
    plugin = ExecPlugin("sh", ("-c", script), {}, V1, "", None)
    with pytest.raises(Unreachable) as failed:
        asyncio.run(run_plugin(plugin, environment={"PATH": "/usr/bin:/bin"}))
    assert problem in str(failed.value)
    assert "SECRET" not in str(failed.value)


def test_a_plugin_that_is_not_installed_says_how_to_get_it() -> None:
    plugin = ExecPlugin("no-such-program-here", (), {}, V1, "get it there", None)
    with pytest.raises(Unreachable, match=r"cannot be run: .*; get it there"):
        asyncio.run(run_plugin(plugin, environment={}))


def test_a_plugin_that_hangs_is_killed() -> None:
    plugin = ExecPlugin("sh", ("-c", "exec sleep 1000"), {}, V1, "", None)
    with pytest.raises(Unreachable, match="did not end within 0 s"):
        asyncio.run(run_plugin(plugin, environment={"PATH": "/usr/bin:/bin"}, deadline_s=0.0))


# -- certificates ---------------------------------------------------------------------------------


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
        ({"authority": b"nonsense"}, "is not a certificate"),
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
