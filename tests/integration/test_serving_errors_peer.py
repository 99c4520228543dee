"""Options that cannot be used: kube-scheduler and SecureServer end with the same words."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import SystemClock, seeded_random
from mooring.errors import ConfigError
from mooring.serving import HealthChecks, SecureServer, ServingOptions
from mooring.serving.delegates import delegated_transport
from mooring.serving.options import SniCertificate
from mooring.testing.controlplane import write_kubeconfig
from tests.helpers.certificates import authority, sign
from tests.integration.processes import free_port
from tests.integration.serving_fixture import some_endpoints

SECONDS_MAX = 20.0

#: Flags of kube-scheduler, and our options; {} is a folder with files.
CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "no key": (["--tls-cert-file={}/s.crt"], {"tls_cert_file": "{}/s.crt"}),
    "no certificate": (["--tls-private-key-file={}/s.key"], {"tls_private_key_file": "{}/s.key"}),
    "missing certificate": (
        ["--tls-cert-file=/no", "--tls-private-key-file={}/s.key"],
        {"tls_cert_file": "/no", "tls_private_key_file": "{}/s.key"},
    ),
    "folder as certificate": (
        ["--tls-cert-file={}", "--tls-private-key-file={}/s.key"],
        {"tls_cert_file": "{}", "tls_private_key_file": "{}/s.key"},
    ),
    "empty certificate": (
        ["--tls-cert-file={}/empty", "--tls-private-key-file={}/s.key"],
        {"tls_cert_file": "{}/empty", "tls_private_key_file": "{}/s.key"},
    ),
    "no PEM": (
        ["--tls-cert-file={}/garbage", "--tls-private-key-file={}/s.key"],
        {"tls_cert_file": "{}/garbage", "tls_private_key_file": "{}/s.key"},
    ),
    "no PEM in the key": (
        ["--tls-cert-file={}/s.crt", "--tls-private-key-file={}/garbage"],
        {"tls_cert_file": "{}/s.crt", "tls_private_key_file": "{}/garbage"},
    ),
    "another key": (
        ["--tls-cert-file={}/s.crt", "--tls-private-key-file={}/other.key"],
        {"tls_cert_file": "{}/s.crt", "tls_private_key_file": "{}/other.key"},
    ),
    "a key as certificate": (
        ["--tls-cert-file={}/s.key", "--tls-private-key-file={}/s.crt"],
        {"tls_cert_file": "{}/s.key", "tls_private_key_file": "{}/s.crt"},
    ),
    "client CA without PEM": (
        ["--client-ca-file={}/garbage"],
        {"client_ca_file": "{}/garbage"},
    ),
    "key as client CA": (["--client-ca-file={}/s.key"], {"client_ca_file": "{}/s.key"}),
    "garbage in a certificate": (
        ["--client-ca-file={}/bad.crt"],
        {"client_ca_file": "{}/bad.crt"},
    ),
    "version": (["--tls-min-version=TLS12"], {"tls_min_version": "TLS12"}),
    "suite": (["--tls-cipher-suites=X,Y"], {"tls_cipher_suites": ("X", "Y")}),
    "missing name certificate": (
        ["--tls-sni-cert-key=/no,/none"],
        {"tls_sni_cert_keys": (SniCertificate("/no", "/none"),)},
    ),
    "missing client CA": (["--client-ca-file=/no"], {"client_ca_file": "/no"}),
    "empty client CA": (["--client-ca-file={}/empty"], {"client_ca_file": "{}/empty"}),
    "star": (
        ["--authorization-always-allow-paths=/healthz,/a*b"],
        {"always_allow_paths": ("/healthz", "/a*b")},
    ),
    "missing proxy CA": (
        ["--requestheader-client-ca-file=/no"],
        {"requestheader_client_ca_file": "/no"},
    ),
    "address": (["--bind-address=192.0.2.1"], {"bind_address": "192.0.2.1"}),
    "half a folder": (["--cert-dir={}/half"], {"cert_dir": "{}/half"}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sign(None, "server").write(tmp_path, "s")
    sign(None, "other").write(tmp_path, "other")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "garbage").write_bytes(b"garbage\n")
    block = "-----BEGIN CERTIFICATE-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE-----\n"
    (tmp_path / "bad.crt").write_text(block)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "kube-scheduler.crt").write_bytes(sign(None, "x").pem)
    (tmp_path / "ca.crt").write_bytes(authority().pem)
    write_kubeconfig(
        tmp_path / "config", url="https://127.0.0.1:1", authority=tmp_path / "ca.crt", token="x"
    )
    return tmp_path


def theirs(programs: Path, folder: Path, flags: list[str], port: int) -> str:
    """Returns the error of kube-scheduler."""
    command = [
        str(programs / "kube-scheduler"),
        f"--kubeconfig={folder / 'config'}",
        f"--secure-port={port}",
        *(
            ["--bind-address=127.0.0.1"]
            if not any("bind-address" in flag for flag in flags)
            else []
        ),
        *(flag.replace("{}", str(folder)) for flag in flags),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, env={}, check=False
    )
    assert done.returncode == 1, done.stderr
    found = re.search(r'"command failed" err=("(?:[^"\\]|\\.)*")', done.stderr)
    assert found, done.stderr[-2000:]
    text = json.loads(found[1])
    assert isinstance(text, str)
    return text


def ours(action: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as raised:
        action()
    return str(raised.value)


def server(folder: Path, options: dict[str, Any], port: int) -> SecureServer:
    def filled(value: Any) -> Any:
        return value.replace("{}", str(folder)) if isinstance(value, str) else value

    fields = {"bind_address": "127.0.0.1", "port": port, **options}
    return SecureServer(
        ServingOptions(**{name: filled(value) for name, value in fields.items()}),
        some_endpoints(),
        HealthChecks(),
        clock=SystemClock(),
        rng=seeded_random(1),
    )


@pytest.mark.parametrize("case", CASES)
def test_errors_are_equal(programs: Path, folder: Path, case: str) -> None:
    flags, options = CASES[case]
    port = free_port()
    expected = theirs(programs, folder, flags, port)
    assert ours(server(folder, options, port).bind) == expected


def test_a_port_that_is_taken(programs: Path, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        expected = theirs(programs, folder, [], port)
        assert ours(server(folder, {}, port).bind) == expected


@pytest.mark.parametrize("purpose", ["authentication", "authorization"])
def test_a_kubeconfig_that_is_missing(programs: Path, folder: Path, purpose: str) -> None:
    expected = theirs(programs, folder, [f"--{purpose}-kubeconfig=/no"], free_port())
    action = lambda: delegated_transport(  # noqa: E731
        "/no", purpose, clock=SystemClock(), environment={}
    )
    assert ours(action) == expected


def test_a_look_up_that_is_not_tolerated(programs: Path, folder: Path) -> None:
    """The words for the connection are those of each HTTP client."""
    flags = [
        f"--authentication-kubeconfig={folder / 'config'}",
        "--authentication-tolerate-lookup-failure=false",
    ]
    expected = theirs(programs, folder, flags, free_port())

    async def start() -> None:
        transport = delegated_transport(
            str(folder / "config"), "authentication", clock=SystemClock(), environment={}
        )
        assert transport is not None
        subject = SecureServer(
            ServingOptions(
                bind_address="127.0.0.1",
                port=free_port(),
                authentication_tolerate_lookup_failure=False,
            ),
            some_endpoints(),
            HealthChecks(),
            authentication=transport,
            clock=SystemClock(),
            rng=seeded_random(1),
        )
        try:
            await subject.start()
        finally:
            await transport.close()

    found = ours(lambda: asyncio.run(start()))
    prefix = "unable to load configmap based request-header-client-ca-file: "
    assert expected.startswith(prefix)
    assert found.startswith(prefix)
