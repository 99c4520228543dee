"""Certificates: who signs whom, for which names, and that keys stay private.

The judge is Python's own TLS: handshakes between two ends in memory.
"""

from __future__ import annotations

import os
import ssl
import stat
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from cryptography import x509

from mooring.apiserver.http_server.certificates import (
    Authority,
    Pair,
    server_context,
    subject_of,
    write_private,
)
from mooring.clock import SystemClock, VirtualClock


@cache
def authority() -> Authority:
    return Authority(SystemClock())


def client_context(
    folder: Path, trusted: bytes, pair: Pair | None = None, *, tls_max: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted.decode())
    if pair is not None:
        path = folder / "client.pem"
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)
    if tls_max is not None:
        context.maximum_version = tls_max
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Returns the server's side of a finished handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    server_side.do_handshake()
    return server_side


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"])
def test_clients_trust_the_server_by_all_its_names(name: str, tmp_path: Path) -> None:
    context = server_context(authority().server(), authority().certificate)
    client = client_context(tmp_path, authority().certificate)

    assert shake_hands(context, client, name).getpeercert() in (None, {})


def test_another_name_is_not_trusted(tmp_path: Path) -> None:
    context = server_context(authority().server(), authority().certificate)
    client = client_context(tmp_path, authority().certificate)

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(context, client, "example.com")


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    context = server_context(authority().server(), authority().certificate)
    client = client_context(tmp_path, Authority(SystemClock()).certificate)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, client, "localhost")


def test_a_client_certificate_tells_user_and_groups(tmp_path: Path) -> None:
    pair = authority().client("ann", ("ops", "system:masters"))
    client = client_context(tmp_path, authority().certificate, pair)
    context = server_context(authority().server(), authority().certificate)

    result = shake_hands(context, client, "localhost").getpeercert()

    assert result is not None
    assert subject_of(result) == ("ann", ("ops", "system:masters"))


def test_a_strangers_client_certificate_ends_the_connection(tmp_path: Path) -> None:
    stranger = Authority(SystemClock()).client("ann", ("system:masters",))
    client = client_context(tmp_path, authority().certificate, stranger)
    context = server_context(authority().server(), authority().certificate)

    with pytest.raises(ssl.SSLError, match=r"(?i)certificate verify failed|unknown ca"):
        shake_hands(context, client, "localhost")


def test_a_servers_certificate_is_none_for_clients(tmp_path: Path) -> None:
    client = client_context(tmp_path, authority().certificate, authority().server())
    context = server_context(authority().server(), authority().certificate)

    with pytest.raises(ssl.SSLError, match=r"(?i)certificate verify failed|unsupported"):
        shake_hands(context, client, "localhost")


def test_certificates_are_good_for_a_year_by_the_given_clock() -> None:
    clock = VirtualClock()
    pair = Authority(clock).server()
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    now = datetime.fromtimestamp(clock.wall_s(), UTC)

    assert 0 < (now - certificate.not_valid_before_utc).total_seconds() <= 600
    assert 364 < (certificate.not_valid_after_utc - now).days + 1 <= 366


def test_an_authority_signs_certificates_and_its_servers_do_not() -> None:
    for pem, expected in (
        (authority().certificate, True),
        (authority().server().certificate, False),
    ):
        certificate = x509.load_pem_x509_certificate(pem)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert constraints.critical
        assert constraints.value.ca is expected


def test_a_subject_without_a_name_has_no_user() -> None:
    assert subject_of({}) == ("", ())


def test_a_pair_does_not_show_its_key() -> None:
    assert "PRIVATE" not in repr(authority().client("ann"))


def test_a_private_file_is_private_from_its_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    mask = os.umask(0)
    try:
        write_private(path, b"new")
    finally:
        os.umask(mask)

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_a_private_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()

    with pytest.raises(OSError, match="folder"):
        write_private(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]
