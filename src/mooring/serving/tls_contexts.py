"""TLS contexts of the server: which certificate a new connection gets.

A client certificate is requested and never required, and any is accepted: whether its authority is
known is a matter of authentication, so that an unknown one gets 401 and no broken connection. The
``ssl`` module cannot do that, pyOpenSSL can.

Source: k8s.io/apiserver pkg/server/dynamiccertificates/{tlsconfig,named_certificates}.go.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final

from OpenSSL import SSL

from mooring.clock import Clock
from mooring.errors import ConfigError
from mooring.serving.certificates import KeyPair, KeyPairFiles, made_pair
from mooring.serving.options import ServingOptions, SniCertificate, cipher_list, tls_version

ALPN: Final = b"http/1.1"

#: No session is resumed: a resumed one has no client certificate.
_OPTIONS: Final = SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION

_log = logging.getLogger(__name__)


class TlsContexts:
    """The current TLS contexts.

    Args:
        options: See ``ServingOptions``.
        clock: For a certificate that is made.

    Raises:
        ConfigError: a file, a version or a cipher suite cannot be used.
    """

    def __init__(self, options: ServingOptions, clock: Clock) -> None:
        self._pair = _serving_pair(options, clock)
        ciphers, insecure = cipher_list(options.tls_cipher_suites)
        for name in insecure:
            _log.warning(f"Use of insecure cipher '{name}' detected.")
        self._ciphers = ciphers
        self._min_version = tls_version(options.tls_min_version)
        self._sni = [(_sni_files(sni), sni.names) for sni in options.tls_sni_cert_keys]
        self._by_name: dict[str, SSL.Context] = {}
        self._default = self._build()

    def current(self, local_address: str) -> SSL.Context:
        """Returns the context for a new connection, with the certificates in the files now.

        Args:
            local_address: The server's address of this connection; a certificate may be for it.
        """
        files = [pair for pair, _ in self._sni]
        if isinstance(self._pair, KeyPairFiles):
            files.append(self._pair)
        changed = [pair for pair in files if pair.changed()]
        if changed:
            self._reload(changed)
        return self._by_name.get(local_address, self._default)

    def _reload(self, changed: list[KeyPairFiles]) -> None:
        """Replaces the contexts; after an error, the last ones stay until the next change."""
        try:
            for pair in changed:
                pair.reload()
            self._default = self._build()
        except ConfigError as error:
            _log.error(f"DynamicServingCertificateController failed with : {error}")

    def _build(self) -> SSL.Context:
        by_name: dict[str, SSL.Context] = {}
        # The first certificate of a name counts; names on the command line before all others.
        for is_explicit in (True, False):
            for files, names in self._sni:
                if bool(names) is not is_explicit:
                    continue
                context = self._context(files.pair)
                for name in names or files.pair.names():
                    by_name.setdefault(_normal(name), context)
        pair = self._pair if isinstance(self._pair, KeyPair) else self._pair.pair
        default = self._context(pair)
        self._by_name = by_name
        return default

    def _context(self, pair: KeyPair) -> SSL.Context:
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(self._min_version)
        context.set_options(_OPTIONS)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        if self._ciphers:
            try:
                context.set_cipher_list(self._ciphers.encode())
            except SSL.Error as error:
                raise ConfigError(f"no cipher suite is usable: {self._ciphers}") from error
        context.set_verify(SSL.VERIFY_PEER, _accept)
        context.set_alpn_select_callback(_select_protocol)
        context.set_tlsext_servername_callback(self._on_server_name)
        pair.load_into(context)
        return context

    def _on_server_name(self, connection: SSL.Connection) -> None:
        name = _normal((connection.get_servername() or b"").decode("ascii", "replace"))
        if not name:
            return
        wildcard = "*." + name.partition(".")[2]
        # A name that is given counts alone, also if the address has a certificate of its own.
        context = self._by_name.get(name) or self._by_name.get(wildcard) or self._default
        connection.set_context(context)


def _accept(*_: object) -> bool:
    return True


def _select_protocol(_: SSL.Connection, offered: list[bytes]) -> bytes:
    # Clients that offer HTTP/2 offer HTTP/1.1, too; without a common protocol, go on without.
    return ALPN if ALPN in offered else SSL.NO_OVERLAPPING_PROTOCOLS  # type: ignore[return-value]


def _serving_pair(options: ServingOptions, clock: Clock) -> KeyPair | KeyPairFiles:
    if options.tls_cert_file or options.tls_private_key_file:
        return KeyPairFiles(options.tls_cert_file, options.tls_private_key_file)
    return made_pair(options.bind_address, options.cert_dir, clock)


def _sni_files(sni: SniCertificate) -> KeyPairFiles:
    try:
        return KeyPairFiles(sni.cert_file, sni.key_file)
    except ConfigError as error:
        raise ConfigError(f"failed to load SNI cert and key: {error}") from error


def _normal(name: str) -> str:
    """Returns a host name or an address in the form in which they are compared."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return name.lower().rstrip(".")
