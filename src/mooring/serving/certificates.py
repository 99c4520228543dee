"""Certificates of the server: from files, which may change, or made at start.

::

    --tls-cert-file, --tls-private-key-file ── read again when they change
    --cert-dir ── kube-scheduler.crt, .key  ── read if both exist, else made and written
    neither                                 ── made, kept in memory

A made certificate is valid for a year, and is not renewed while the process runs.

Source: k8s.io/client-go util/cert/cert.go, k8s.io/apiserver pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL

from mooring.clock import Clock
from mooring.errors import ConfigError
from mooring.files import replaced_file
from mooring.objects.go_text import error_text
from mooring.serving.pem import certificates_in, key_pair

#: The name of the files in --cert-dir; probes and scripts of a kube-scheduler know it.
PAIR_NAME: Final = "kube-scheduler"
HOST: Final = "localhost"
LOOPBACK: Final = "127.0.0.1"

KEY_BITS: Final = 2048
VALID: Final = timedelta(days=365)
#: Clocks of two machines differ.
BACKDATED: Final = timedelta(hours=1)

CERTIFICATE_MODE: Final = 0o644
KEY_MODE: Final = 0o600
FOLDER_MODE: Final = 0o755

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its chain, and its key, PEM. The key is a secret: never log it."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(...)"

    def load_into(self, context: SSL.Context) -> None:
        """Makes it the certificate of a TLS context.

        Raises:
            ConfigError: it cannot be used.
        """
        (first, *others), key = key_pair(self.certificate, self.key)
        try:
            context.use_certificate(first)
            for certificate in others:
                context.add_extra_chain_cert(certificate)
            context.use_privatekey(key)  # type: ignore[arg-type]
        except (TypeError, SSL.Error) as error:
            raise ConfigError(f"invalid serving cert keypair: {error}") from error

    def names(self) -> list[str]:
        """Returns the host names and addresses in the certificate."""
        first = certificates_in(self.certificate)[0]
        try:
            names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            common = first.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            return [str(attribute.value) for attribute in common]
        addresses = names.get_values_for_type(x509.IPAddress)
        return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


class FileContent:
    """The content of files that may change.

    ``changed`` compares size, time and inode, so it is cheap enough for every new connection.
    """

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self._seen: tuple[tuple[int, int, int], ...] = ()

    def read(self) -> list[bytes]:
        """Returns the content of each file.

        Raises:
            ConfigError: a file cannot be read.
        """
        self._seen = self._signatures()
        contents = []
        for path in self.paths:
            try:
                contents.append(Path(path).read_bytes())
            except OSError as error:
                # A folder can be opened, and not read.
                verb = "read" if isinstance(error, IsADirectoryError) else "open"
                raise ConfigError(f"{verb} {path}: {error_text(error)}") from error
        return contents

    def changed(self) -> bool:
        """Returns True if a file has changed since it was read."""
        return self._signatures() != self._seen

    def _signatures(self) -> tuple[tuple[int, int, int], ...]:
        signatures = []
        for path in self.paths:
            try:
                status = os.stat(path)
            except OSError:
                signatures.append((0, 0, 0))
                continue
            signatures.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(signatures)


class KeyPairFiles:
    """A certificate and key in files.

    Raises:
        ConfigError: a file name is missing, or a file cannot be read.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        if not cert_file or not key_file:
            raise ConfigError("missing filename for serving cert")
        self._files = FileContent(cert_file, key_file)
        self.pair = self._read()

    def changed(self) -> bool:
        """Returns True if the files have changed."""
        return self._files.changed()

    def reload(self) -> None:
        """Reads the files again.

        Raises:
            ConfigError: a file cannot be read; the last content stays.
        """
        self.pair = self._read()

    def _read(self) -> KeyPair:
        certificate, key = self._files.read()
        if not certificate or not key:
            paths = "::".join(self._files.paths)
            raise ConfigError(f'missing content for serving cert "serving-cert::{paths}"')
        key_pair(certificate, key)
        return KeyPair(certificate, key)


def made_pair(bind_address: str, cert_dir: str, clock: Clock) -> KeyPair | KeyPairFiles:
    """Returns a certificate for a server without ``--tls-cert-file``.

    Args:
        bind_address: Is in the certificate, unless it means all addresses.
        cert_dir: Where it is read from, or written to; "" = in memory.
        clock: For the time of validity.

    Raises:
        ConfigError: the folder cannot be read or written.
    """
    if not cert_dir:
        pair = self_signed(bind_address, clock)
        _log.info("Generated self-signed cert in-memory")
        return pair
    cert_file = os.path.join(cert_dir, f"{PAIR_NAME}.crt")
    key_file = os.path.join(cert_dir, f"{PAIR_NAME}.key")
    exist = [_is_readable(cert_file), _is_readable(key_file)]
    if any(exist) and not all(exist):
        absent = key_file if exist[0] else cert_file
        raise ConfigError(
            f"error creating self-signed certificates: error reading {absent}, "
            "certificate and key must be supplied as a pair"
        )
    if not all(exist):
        pair = self_signed(bind_address, clock)
        _write(cert_file, pair.certificate, CERTIFICATE_MODE)
        _write(key_file, pair.key, KEY_MODE)
        _log.info(f"Generated self-signed cert ({cert_file}, {key_file})")
    return KeyPairFiles(cert_file, key_file)


def self_signed(bind_address: str, clock: Clock) -> KeyPair:
    """Returns a new certificate, signed by a new authority, and the authority's after it."""
    now = datetime.fromtimestamp(int(clock.wall_s()), UTC)
    authority_key, key = (rsa.generate_private_key(65537, KEY_BITS) for _ in range(2))
    stamp = int(clock.wall_s())
    issuer = _name(f"{HOST}-ca@{stamp}")
    authority = (
        _builder(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    address = ipaddress.ip_address(bind_address)
    names: list[x509.GeneralName] = [x509.DNSName(HOST)]
    addresses = [LOOPBACK] if address.is_unspecified else [LOOPBACK, bind_address]
    names += [x509.IPAddress(ipaddress.ip_address(text)) for text in dict.fromkeys(addresses)]
    key_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    certificate = (
        _builder(_name(f"{HOST}@{stamp}"), issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(pem) + authority.public_bytes(pem), private)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, now: datetime
) -> x509.CertificateBuilder:
    begin = now - BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_readable(path: str) -> bool:
    try:
        with open(path, "rb"):
            return True
    except OSError:
        return False


def _write(path: str, content: bytes, mode: int) -> None:
    try:
        os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
        # Created with its mode: a later chmod would leave the key readable for a moment.
        with replaced_file(path, mode=mode) as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"open {path}: {error_text(error)}") from error
