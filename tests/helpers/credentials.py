"""Certificates, plugins and credentials for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.client.transport.auth import Credentials
from mooring.client.transport.kubeconfig import Access, ExecPlugin
from mooring.clock import VirtualClock

PATH = "/usr/bin:/bin"
V1 = "client.authentication.k8s.io/v1"


def pair(name: str = "me") -> tuple[bytes, bytes]:
    """Returns a self-signed certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def credentials(clock: VirtualClock, **fields: Any) -> Credentials:
    access = Access(server=fields.pop("server", "http://127.0.0.1"), **fields)
    return Credentials(access, clock=clock, environment={"PATH": PATH})


def run(test: Callable[[VirtualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(VirtualClock())

    asyncio.run(main())


def printing(*answers: dict[str, Any], log: Path) -> ExecPlugin:
    """Returns a plugin that prints these responses in order, and counts its runs in a file."""
    cases = "".join(
        f"{number}) printf %s '{json.dumps(answer)}';; "
        for number, answer in enumerate(answers, start=1)
    )
    script = f'echo run >> {log}; case "$(grep -c run {log})" in {cases} esac'
    return ExecPlugin("sh", ("-c", script), {}, V1, "", None)


def credential(**status: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "ExecCredential", "status": status}
