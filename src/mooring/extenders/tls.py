"""TLS for calls of extenders: trusted certificates, client certificate, forbidden addresses.

The rules are client-go's: as upstream, HTTPS without a CA verifies nothing, and that is logged as a
warning. One exception: link-local addresses, where clouds have their metadata servers, are refused.

Source: client-go transport/transport.go (TLSConfigFor), pkg/scheduler/extender.go (makeTransport).
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mooring.client.transport.client_certificate import load_pair
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError

#: Where metadata servers are that are not at a link-local address (AWS over IPv6, Alibaba, Azure).
METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)

_log = logging.getLogger(__name__)


def is_forbidden(address: str) -> bool:
    """Returns whether the address is link-local or a metadata endpoint (SSRF guard).

    Example:
        >>> is_forbidden("169.254.169.254"), is_forbidden("::ffff:169.254.169.254")
        (True, True)
        >>> is_forbidden("10.0.0.1"), is_forbidden("localhost")
        (False, False)
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False  # a name: its addresses are checked when it is resolved
    mapped = getattr(parsed, "ipv4_mapped", None)
    if mapped is not None:
        parsed = mapped
    return parsed.is_link_local or parsed in METADATA


def check_trust(extenders: Sequence[Extender]) -> None:
    """Checks the certificates and addresses of a configuration.

    Raises:
        ConfigError: one cannot be used; with its path.
    """
    for number, extender in enumerate(extenders):
        tls_context(extender, f"extenders[{number}]")


def tls_context(extender: Extender, path: str) -> ssl.SSLContext:
    """Returns the TLS context for an extender, with the client certificate.

    Args:
        extender: As configured.
        path: Of the extender in the configuration, for errors.

    Raises:
        ConfigError: a certificate or key cannot be used, or the address is forbidden.
    """
    host = _host(extender.url_prefix)
    if is_forbidden(host):
        problem = "an extender must not be at a link-local or metadata address"
        value = without_password(extender.url_prefix)
        raise ConfigError(problem, path=f"{path}.urlPrefix", value=value)
    tls = extender.tls_config or ExtenderTLSConfig()
    where = f"{path}.tlsConfig"
    authority = _content(tls.ca_data, tls.ca_file, where, "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is not None:
        _trust(context, authority, where, "caData" if tls.ca_data else "caFile")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if extender.enable_https and authority is None and not tls.insecure:
        _log.warning(
            "the certificate of an extender is not verified: its tlsConfig has no CA, so any "
            "host on the network can answer for it",
            extra={"extender": without_password(extender.url_prefix)},
        )
    if tls.insecure or authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _content(tls.cert_data, tls.cert_file, where, "cert")
    key = _content(tls.key_data, tls.key_file, where, "key")
    if (certificate is None) != (key is None):
        missing = "keyFile" if key is None else "certFile"
        raise ConfigError("is needed, too", path=f"{where}.{missing}")
    if certificate is not None:
        try:
            load_pair(context, certificate, key)
        except ConfigError as error:
            raise ConfigError(error.problem, path=where) from error
    return context


class ClientPair:
    """Client certificate and key, read from their files again for every new connection.

    So short-lived certificates can be replaced while the scheduler runs. Open connections keep
    theirs. The extender's CA is read once, as in kube-scheduler.

    Args:
        context: Loads them.
        certificate: Its file.
        key: Its file.

    Source: client-go transport/transport.go (cachingCertificateLoader). *Differs:* upstream reads
    the files once a second at most.
    """

    def __init__(self, context: ssl.SSLContext, certificate: str, key: str) -> None:
        self._context = context
        self._files = Path(certificate), Path(key)
        self._loaded: tuple[bytes, bytes] | None = None

    def refresh(self) -> None:
        """Loads the current content of the files.

        Raises:
            OSError: they cannot be read or used; one may be replaced before the other.
        """
        certificate, key = (file.read_bytes() for file in self._files)
        if (certificate, key) == self._loaded:
            return
        self._loaded = None
        try:
            load_pair(self._context, certificate, key)
        except ConfigError as error:
            raise OSError(f"client certificate {self._files[0]}: {error.problem}") from error
        self._loaded = certificate, key


def client_pair(extender: Extender, context: ssl.SSLContext) -> ClientPair | None:
    """Returns the client certificate to reload, if certificate and key are files; else None."""
    tls = extender.tls_config
    if tls is None or tls.cert_data or tls.key_data or not (tls.cert_file and tls.key_file):
        return None
    return ClientPair(context, tls.cert_file, tls.key_file)


def _trust(context: ssl.SSLContext, authority: bytes, where: str, name: str) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        message = "unable to load root certificates: it holds no certificate that can be read"
        raise ConfigError(message, path=f"{where}.{name}") from error


def _content(data: str, file: str, where: str, name: str) -> bytes | None:
    """Returns the inline data, else the content of the file; None if there is neither."""
    if data:
        return b64decode(data)
    if not file:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        problem = f"open {file}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(problem, path=f"{where}.{name}File") from error


def without_password(url: str) -> str:
    """Returns a URL with its password masked.

    Example:
        >>> without_password("https://me:secret@there/x")
        'https://me:***@there/x'
    """
    try:
        password = urlsplit(url).password
    except ValueError:
        return url
    return url.replace(f":{password}@", ":***@", 1) if password else url


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""  # the call fails with an error that says why
