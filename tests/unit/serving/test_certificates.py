"""Certificates from files, and those that are made."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from OpenSSL import SSL

from mooring.clock import VirtualClock
from mooring.errors import ConfigError
from mooring.serving.certificates import (
    FileContent,
    KeyPair,
    KeyPairFiles,
    made_pair,
    self_signed,
)
from tests.helpers.certificates import sign

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made() -> KeyPair:
    """Making one takes a while."""
    return self_signed("10.1.2.3", VirtualClock())


def test_a_made_certificate_is_upstreams(made: KeyPair) -> None:
    own, authority = x509.load_pem_x509_certificates(made.certificate)
    seconds = int(NOW.timestamp())
    assert own.subject.rfc4514_string() == f"CN=localhost@{seconds}"
    assert own.issuer.rfc4514_string() == f"CN=localhost-ca@{seconds}"
    assert authority.subject == own.issuer
    own.verify_directly_issued_by(authority)
    assert own.not_valid_before_utc == NOW - timedelta(hours=1)
    assert own.not_valid_after_utc == NOW - timedelta(hours=1) + timedelta(days=365)
    assert own.public_key().key_size == 2048  # type: ignore[union-attr]
    assert made.names() == ["localhost", "127.0.0.1", "10.1.2.3"]
    assert b"BEGIN RSA PRIVATE KEY" in made.key
    assert "KEY" not in repr(made)


def test_a_made_certificate_can_be_used(made: KeyPair) -> None:
    made.load_into(SSL.Context(SSL.TLS_SERVER_METHOD))


def test_a_folder_gets_both_files_and_keeps_them(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    first = made_pair("0.0.0.0", str(folder), VirtualClock())
    assert isinstance(first, KeyPairFiles)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"kube-scheduler.crt": 0o644, "kube-scheduler.key": 0o600}
    assert first.pair.names() == ["localhost", "127.0.0.1"]
    second = made_pair("0.0.0.0", str(folder), VirtualClock())
    assert isinstance(second, KeyPairFiles)
    assert second.pair == first.pair


def test_half_a_pair_in_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kube-scheduler.crt").write_bytes(sign(None, "x").pem)
    with pytest.raises(ConfigError, match=r"error reading .*\.key, certificate and key must be "):
        made_pair("0.0.0.0", str(tmp_path), VirtualClock())


def test_files_are_read_again(tmp_path: Path) -> None:
    old, new = sign(None, "old"), sign(None, "other")
    paths = old.write(tmp_path, "server")
    files = KeyPairFiles(*paths)
    assert not files.changed()
    new.write(tmp_path, "server")
    assert files.changed()
    files.reload()
    assert files.pair == KeyPair(new.pem, new.key_pem)
    assert not files.changed()
    Path(paths[1]).unlink()
    assert files.changed()
    with pytest.raises(ConfigError, match=r"^open .*server\.key: no such file or directory$"):
        files.reload()
    assert files.pair == KeyPair(new.pem, new.key_pem)


@pytest.mark.parametrize("names", [("a", ""), ("", "b")])
def test_both_file_names_are_needed(names: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^missing filename for serving cert$"):
        KeyPairFiles(*names)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    certificate, key = sign(None, "x").write(tmp_path, "server")
    Path(certificate).write_bytes(b"")
    with pytest.raises(ConfigError, match='missing content for serving cert "serving-cert::'):
        KeyPairFiles(certificate, key)


def test_a_key_of_another_certificate_is_an_error() -> None:
    pair = KeyPair(sign(None, "a").pem, sign(None, "b").key_pem)
    with pytest.raises(ConfigError, match=r"^tls: "):
        pair.load_into(SSL.Context(SSL.TLS_SERVER_METHOD))
    with pytest.raises(ConfigError, match=r"^tls: "):
        KeyPair(b"nonsense", b"").load_into(SSL.Context(SSL.TLS_SERVER_METHOD))


def test_a_file_that_is_replaced_has_changed_even_if_it_is_as_long(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    content = FileContent(str(path))
    assert content.read() == [b"1"]
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "b").replace(path)
    assert content.changed()
