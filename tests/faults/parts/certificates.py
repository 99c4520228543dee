"""Certificates with host names, and TLS handshakes in memory: what a context really accepts.

No socket is opened: both ends of a handshake exchange their bytes through buffers.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES: Final = ("a", "b", "c")
#: A handshake has no more turns than this.
TURNS_MAX: Final = 8
_PEM: Final = serialization.Encoding.PEM


@cache
def _made(name: str) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    public = key.public_key()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = (
        x509.CertificateBuilder(subject, subject, public)
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host(name))]), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM), key


def host(name: str) -> str:
    """Returns the host name in a certificate."""
    return f"{name}.example"


def certificate(name: str) -> bytes:
    """Returns the certificate of a name, which signs itself, as PEM."""
    return _made(name)[0]


@cache
def key(name: str, password: str = "") -> bytes:
    """Returns the key of the certificate, as PEM."""
    encryption = serialization.NoEncryption() if not password else _encryption(password)
    return _made(name)[1].private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    return serialization.BestAvailableEncryption(password.encode())


def handshake(client: ssl.SSLContext, server_name: str, server: str) -> str | None:
    """Connects to a server with the certificate of a name.

    Returns:
        The name in the client's certificate, "" if it has none; None if the client refuses that of
        the server.
    """
    at_client, at_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(at_client, at_server, server_hostname=server_name),
        _server(server).wrap_bio(at_server, at_client, server_side=True),
    )
    open_ends = list(ends)
    for _ in range(TURNS_MAX):
        for end in tuple(open_ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return None
            open_ends.remove(end)
    peer: Any = ends[1].getpeercert() or {}
    return "".join(value for part in peer.get("subject", ()) for _, value in part)


@cache
def _server(name: str) -> ssl.SSLContext:
    """Returns the context of a server, which accepts the certificates of all names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With TLS 1.3 a client is ready before the server has seen its certificate.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    authorities = b"".join(certificate(it) for it in NAMES)
    context.load_verify_locations(cadata=authorities.decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate(name) + key(name))
        file.flush()
        context.load_cert_chain(file.name)
    return context
