"""Authorities and client certificates for tests of the scheduler's endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
CLIENTS = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVERS = (ExtendedKeyUsageOID.SERVER_AUTH,)


class Signed(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        encoding = serialization.PrivateFormat.PKCS8
        return bytes(self.key.private_bytes(PEM, encoding, serialization.NoEncryption()))

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """Writes both files; returns their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.pem)
        key.write_bytes(self.key_pem)
        return str(certificate), str(key)


def loaded(certificate: Path, key: Path) -> Signed:
    """Returns the authority in these files."""
    return Signed(
        x509.load_pem_x509_certificate(certificate.read_bytes()),
        serialization.load_pem_private_key(key.read_bytes(), None),
    )


def authority(name: str = "ca", *, signer: Signed | None = None) -> Signed:
    """Returns a new authority, signed by itself or by another authority."""
    return sign(signer, name, is_authority=True, usages=())


def sign(
    signer: Signed | None,
    name: str,
    *,
    groups: Sequence[str] = (),
    uids: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = CLIENTS,
    hosts: Sequence[str] = (),
    is_authority: bool = False,
    starts: datetime | None = None,
    valid: timedelta = timedelta(days=365),
) -> Signed:
    """Returns a certificate of this signer; without a signer, it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            *(
                x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), uid)
                for uid in uids
            ),
            *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []),
        ]
    )
    begin = starts or datetime.now(UTC) - timedelta(hours=1)
    parent = signer.key if signer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + valid)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return Signed(builder.sign(parent, hashes.SHA256()), key)
