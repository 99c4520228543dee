"""Authorities of client certificates, and the users that the certificates are for.

Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from mooring.errors import ConfigError
from mooring.serving.certificates import FileContent
from mooring.serving.pem import certificates_in

#: Kubernetes' object identifier of a user's UID in a certificate.
UID_OID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"

_USAGES: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class User:
    """A client's identity, as in SubjectAccessReviews."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class CertificateRejected(Exception):
    """A client certificate that no authority vouches for, or that names no valid user."""


class Authority:
    """Certificates of authorities, PEM.

    Raises:
        ConfigError: there are none, or one cannot be decoded.
    """

    def __init__(self, pem: bytes, *, name: str = "client-ca") -> None:
        self.pem = pem
        if not pem:
            raise ConfigError(f'missing content for CA bundle "{name}"')
        problem = f'error loading CA bundle for "{name}"'
        try:
            self._certificates = certificates_in(pem)
        except ConfigError as error:
            raise ConfigError(f"{problem}: {error}") from error
        if not self._certificates:
            text = "data does not contain any valid RSA or ECDSA certificates"
            raise ConfigError(f"{problem}: {text}")

    def verify(self, chain: Sequence[bytes], wall_s: float) -> x509.Certificate:
        """Returns the client's certificate.

        Args:
            chain: What the client sent, DER, its own certificate first.
            wall_s: The current time.

        Raises:
            CertificateRejected: none of the authorities signed it for clients, or it is not valid
                now.
        """
        try:
            certificates = [x509.load_der_x509_certificate(der) for der in chain]
            store = crypto.X509Store()
            store.set_time(datetime.fromtimestamp(wall_s, UTC))
            # Each certificate is an authority, also one that another authority signed.
            store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
            for certificate in self._certificates:
                store.add_cert(crypto.X509.from_cryptography(certificate))
            own, *others = (crypto.X509.from_cryptography(item) for item in certificates)
            verified = crypto.X509StoreContext(store, own, others).get_verified_chain()
        except (ValueError, crypto.Error, crypto.X509StoreContextError) as error:
            raise CertificateRejected(f"x509: {error}") from error
        for entry in verified:
            if not _is_for_clients(entry.to_cryptography()):
                raise CertificateRejected("x509: certificate specifies an incompatible key usage")
        return certificates[0]


class AuthoritySource(Protocol):
    """The source of an authority, which may change at any time."""

    def current(self) -> Authority | None:
        """Returns the authority; None if it is not known yet."""
        ...


class AuthorityFile:
    """An authority in a file, read again when the file changes.

    Raises:
        ConfigError: the file cannot be read or decoded.
    """

    def __init__(self, path: str, *, name: str) -> None:
        self._name = f"{name}::{path}"
        self._file = FileContent(path)
        self._authority = self._read()

    def current(self) -> Authority:
        """Returns the authority in the file; the last valid one if it is not valid now."""
        if self._file.changed():
            try:
                self._authority = self._read()
            except ConfigError as error:
                _log.error(f"{self._name} failed with : {error}")
        return self._authority

    def _read(self) -> Authority:
        (pem,) = self._file.read()
        return Authority(pem, name=self._name)


def user_of(certificate: x509.Certificate, der: bytes) -> User | None:
    """Returns the user of a verified certificate; None if it names none.

    Raises:
        CertificateRejected: it has several UIDs.
    """
    names = _values(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    uids = _values(certificate, UID_OID)
    if len(uids) > 1:
        raise CertificateRejected(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise CertificateRejected("UID cannot be an empty string")
    return User(
        name=names[-1],
        uid="".join(uids),
        groups=tuple(_values(certificate, NameOID.ORGANIZATION_NAME)),
        extra={CREDENTIAL_ID: [f"X509SHA256={hashlib.sha256(der).hexdigest()}"]},
    )


def common_name(certificate: x509.Certificate) -> str:
    """Returns the common name of a certificate's subject, "" if it has none."""
    names = _values(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def _values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(item.value) for item in certificate.subject.get_attributes_for_oid(oid)]


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """Returns whether a certificate has no extended key usage, or that of clients."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return any(oid in _USAGES for oid in usage)
