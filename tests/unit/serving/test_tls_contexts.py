"""Certificates of connections; handshakes are in tests/integration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mooring.clock import SystemClock
from mooring.errors import ConfigError
from mooring.serving.options import ServingOptions, SniCertificate
from mooring.serving.tls_contexts import TlsContexts
from tests.helpers.certificates import sign


def options(tmp_path: Path, **more: object) -> ServingOptions:
    certificate, key = sign(None, "server").write(tmp_path, "server")
    fields = {"tls_cert_file": certificate, "tls_private_key_file": key, **more}
    return ServingOptions(**fields)  # type: ignore[arg-type]


def test_the_context_stays_until_a_file_changes(tmp_path: Path) -> None:
    contexts = TlsContexts(options(tmp_path), SystemClock())
    first = contexts.current("10.0.0.1")
    assert contexts.current("") is first
    sign(None, "next").write(tmp_path, "server")
    second = contexts.current("10.0.0.1")
    assert second is not first
    assert contexts.current("10.0.0.1") is second


def test_a_bad_file_is_logged_and_the_last_certificate_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TlsContexts(options(tmp_path), SystemClock())
    first = contexts.current("")
    (tmp_path / "server.crt").write_bytes(b"nonsense")
    with caplog.at_level(logging.ERROR):
        assert contexts.current("") is first
        assert contexts.current("") is first
    assert len(caplog.records) == 1  # not at each connection


def test_a_certificate_for_an_address(tmp_path: Path) -> None:
    certificate, key = sign(None, "other").write(tmp_path, "other")
    sni = SniCertificate(certificate, key, ("10.0.0.1", "a.example"))
    contexts = TlsContexts(options(tmp_path, tls_sni_cert_keys=(sni,)), SystemClock())
    assert contexts.current("10.0.0.1") is not contexts.current("10.0.0.2")


def test_errors_have_upstreams_texts(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"tls_private_key_file": ""}, "^missing filename for serving cert$"),
        ({"tls_cert_file": "/no"}, "^open /no: no such file or directory$"),
        ({"tls_min_version": "X"}, '^unknown tls version "X"$'),
        ({"tls_cipher_suites": ("X",)}, "^Cipher suite X not supported or doesn't exist$"),
        (
            {"tls_sni_cert_keys": (SniCertificate("/no", "/no"),)},
            "^failed to load SNI cert and key: open /no: no such file or directory$",
        ),
    ]
    for fields, text in cases:
        with pytest.raises(ConfigError, match=text):
            TlsContexts(options(tmp_path, **fields), SystemClock())


def test_insecure_suites_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    suites = ("TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    TlsContexts(options(tmp_path, tls_cipher_suites=suites), SystemClock())
    assert caplog.messages == ["Use of insecure cipher 'TLS_RSA_WITH_AES_128_GCM_SHA256' detected."]
