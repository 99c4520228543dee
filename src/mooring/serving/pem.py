"""PEM blocks, certificates and keys, with the errors of Go's crypto/tls.

As in Go, what is between blocks is ignored, and so are blocks of other types.

Source: Go's encoding/pem and crypto/tls (X509KeyPair), k8s.io/client-go util/cert (ParseCertsPEM).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from mooring.errors import ConfigError

_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\r\n-]+)-----[ \t]*\r?\n(.*?)^-----END \1-----", re.MULTILINE | re.DOTALL
)
_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"


def blocks(content: bytes) -> list[tuple[str, bytes, bytes]]:
    """Returns the type, the bytes and the text of each PEM block."""
    parsed = []
    for match in _BLOCK.finditer(content):
        try:
            der = base64.b64decode(b"".join(match[2].split()), validate=True)
        except binascii.Error:
            continue  # also a block with headers: an encrypted key, which Go refuses, too
        parsed.append((match[1].decode("ascii", "replace"), der, match[0]))
    return parsed


def certificates_in(content: bytes) -> list[x509.Certificate]:
    """Returns the certificates in PEM; there may be none.

    Raises:
        ConfigError: one cannot be decoded.
    """
    certificates = []
    for kind, der, _ in blocks(content):
        if kind != _CERTIFICATE:
            continue
        try:
            certificates.append(x509.load_der_x509_certificate(der))
        except ValueError as error:
            raise ConfigError("x509: malformed certificate") from error
    return certificates


def key_pair(certificate: bytes, key: bytes) -> tuple[list[x509.Certificate], PrivateKeyTypes]:
    """Returns a chain of certificates, and the key of the first one.

    Raises:
        ConfigError: they are no pair.
    """
    chain = certificates_in(certificate)
    if not chain:
        raise ConfigError(_absent_certificate([kind for kind, _, _ in blocks(certificate)]))
    kinds = [kind for kind, _, _ in blocks(key)]
    text = next((text for kind, _, text in blocks(key) if kind.endswith(_PRIVATE_KEY)), None)
    if text is None:
        raise ConfigError(_absent_key(kinds))
    try:
        private = serialization.load_pem_private_key(text + b"\n", None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("tls: failed to parse private key") from error
    public, own = chain[0].public_key(), private.public_key()
    if type(public) is not type(own):
        raise ConfigError("tls: private key type does not match public key type")
    if public != own:
        raise ConfigError("tls: private key does not match public key")
    return chain, private


def _absent_certificate(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith(_PRIVATE_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        f"blocks of the following types: [{' '.join(kinds)}]"
    )


def _absent_key(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == [_CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    )
