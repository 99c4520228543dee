"""Certificates of the server and its clients, signed by an authority that is created at start.

::

    authority ── server            for 127.0.0.1, ::1 and localhost
              └─ one per client    the common name is the user, the organizations its groups

Keys are kept in memory. Python's TLS reads them from files only, so they are written to a
private folder (0700), which is deleted before the server listens.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.apiserver.persistence import new_private_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.clock import Clock

#: Validity of a certificate; the authority is created anew at each start.
VALID_DAYS = 365
#: Clocks of two machines differ, so certificates are valid from shortly before now.
BACKDATED_MINUTES = 5
HOSTS = ("127.0.0.1", "::1", "localhost")
#: Clients inside of a cluster call the server by these names.
IN_CLUSTER_HOSTS = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM. The key is a secret: never log it."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(...)"


class Authority:
    """A certificate authority that clients and server trust.

    Example:
        >>> from mooring.clock import SystemClock
        >>> authority = Authority(SystemClock())
        >>> authority.certificate[:27]
        b'-----BEGIN CERTIFICATE-----'
    """

    def __init__(self, clock: Clock) -> None:
        """Creates the authority's key and certificate."""
        self._clock = clock
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("mooring-ca", ())
        builder = self._builder(self._name, self._key.public_key(), self._name)
        usage = _key_usage(signs_certificates=True)
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._subject_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, PEM, for clients."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, hosts: Sequence[str] = (*HOSTS, *IN_CLUSTER_HOSTS)) -> Pair:
        """Returns a certificate for a server with these names and addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._sign(_name("kube-apiserver", ()), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """Returns a certificate for a client, with its user and groups."""
        return self._sign(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    @property
    def _subject_id(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _sign(
        self,
        name: x509.Name,
        use: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._subject_id)
        builder = (
            self._builder(name, key.public_key(), self._name)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(issuer_id, critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(signed.public_bytes(serialization.Encoding.PEM), pem)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name
    ) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(self._clock.wall_s(), UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=BACKDATED_MINUTES))
            .not_valid_after(now + timedelta(days=VALID_DAYS))
        )


def server_context(pair: Pair, authority: bytes) -> ssl.SSLContext:
    """Returns the TLS context of a server: TLS 1.2 or newer, client certificates are optional.

    Args:
        pair: The server's own certificate.
        authority: PEM; client certificates must be signed by it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.decode("ascii"))
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        path = Path(folder) / "server.pem"
        write_private(path, pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, atomically."""
    with new_private_file(path) as file:
        file.write(content)


def subject_of(certificate: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Returns the user ("" = none) and the groups in a client's certificate.

    Args:
        certificate: As returned by ``ssl.SSLSocket.getpeercert()``.
    """
    pairs = [pair for names in certificate.get("subject", ()) for pair in names]
    users = [value for key, value in pairs if key == "commonName"]
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return (users[0] if users else ""), groups


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
