"""Credentials: TLS contexts and bearer tokens, and their renewal.

::

    Access ── connect ──> HttpTransport ── headers() before each request ──> Credentials
                                        └─ renew()   after a 401 ─────────>

Token and CA files are read again every minute, a plugin runs again when its credentials expire, and
both after a 401. A change of ``generation`` means that earlier connections use an old client
certificate, or were verified with an old CA.

Source: client-go's transport (token_source.go, cert_rotation.go, ca_rotation.go).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.client.transport.client_certificate import load_pair, read_pem
from mooring.client.transport.exec_plugin import ExecCredential, run_plugin
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.kubeconfig import Access, is_sendable
from mooring.clock import Clock
from mooring.errors import ConfigError, Unreachable

#: How long the content of a file is cached; the kubelet replaces a token long before it expires.
FILE_S: Final = 60.0

#: Requests come in bursts: after a failure, credentials are renewed at most this often.
RENEW_S_MIN: Final = 5.0

_log = logging.getLogger(__name__)


def connect(access: Access, *, clock: Clock, environment: Mapping[str, str]) -> HttpTransport:
    """Returns a transport to the server and with the identity of ``access``.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    credentials = Credentials(access, clock=clock, environment=environment)
    return HttpTransport(
        access.server,
        authorization=credentials,
        server_name=access.server_name,
        proxy=access.proxy,
        extra_headers=access.impersonation,
    )


class Credentials:
    """The current credentials.

    Attributes:
        tls: The context of all connections; None for a server without TLS.
        generation: Grows when ``tls`` is another context, or has another certificate.
    """

    def __init__(self, access: Access, *, clock: Clock, environment: Mapping[str, str]) -> None:
        self.generation = 0
        self.tls = tls_context(access)
        #: The CA certificates of ``tls`` as PEM, if read from a file, and the time of reading.
        self._authority = read_pem(access.authority) if isinstance(access.authority, Path) else b""
        self._authority_read_at_s = clock.monotonic_s()
        self._access = access
        self._clock = clock
        self._environment = environment
        self._token = access.token
        self._read_at_s: float | None = None
        self._renewed_at_s: float | None = None
        self._credential: ExecCredential | None = None
        self._failure: tuple[float, Unreachable] | None = None
        self._lock = asyncio.Lock()

    def current_headers(self) -> Mapping[str, str] | None:
        """Returns the headers for a request, or None if a plugin must run first.

        Raises:
            Unreachable: there are no credentials, so nothing can be sent.
        """
        access = self._access
        if isinstance(access.authority, Path):
            self._read_authority(access.authority)
        if access.token_file is not None:
            self._read_token_file(access.token_file)
        elif access.plugin is not None and self._is_expired():
            return None
        return self._token_headers()

    async def headers(self) -> Mapping[str, str]:
        """Returns the headers for a request; runs the plugin if its credentials have expired.

        Raises:
            Unreachable: there are no credentials, so nothing can be sent.
        """
        headers = self.current_headers()
        if headers is not None:
            return headers
        async with self._lock:
            if self._is_expired():
                await self._run_plugin()
        # Not asked again whether they are expired: the server knows better than our clock.
        return self._token_headers()

    async def renew(self) -> None:
        """Gets newer credentials after a 401.

        Raises:
            Unreachable: there are none.
        """
        # The next request reads a token file again.
        self._read_at_s = None
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if self._renewed_at_s is not None and now_s - self._renewed_at_s < RENEW_S_MIN:
                return
            self._renewed_at_s = now_s
            if self._access.plugin is not None:
                await self._run_plugin()
            elif self.tls is not None and isinstance(self._access.certificate, Path):
                self._load(self._access.certificate, self._access.key)

    def _token_headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self._token}"} if self._token else {}

    def _read_token_file(self, path: Path) -> None:
        now_s = self._clock.monotonic_s()
        if self._read_at_s is not None and now_s - self._read_at_s < FILE_S:
            return
        try:
            self._token = _sendable(path.read_text("ascii").strip())
        except (OSError, ValueError) as error:
            # The file may be in the middle of a replacement; without a token we would be anonymous.
            if self._token is None:
                raise Unreachable(f"cannot read token: {path}: {error}") from error
            _log.warning(
                "cannot read token, keeping the last one",
                extra={"file": str(path), "error": str(error)},
            )
        self._read_at_s = now_s

    def _read_authority(self, path: Path) -> None:
        """Reloads the CA certificates from the file; an invalid file changes nothing."""
        now_s = self._clock.monotonic_s()
        if self.tls is None or now_s - self._authority_read_at_s < FILE_S:
            return
        self._authority_read_at_s = now_s
        try:
            pem = read_pem(path)
            if pem == self._authority:
                return
            context = tls_context(self._access)
            assert context is not None
            if self._credential is not None and self._credential.certificate:
                load_pair(context, self._credential.certificate, self._credential.key)
        except ConfigError as error:
            _log.warning(
                "cannot use certificate-authority, keeping the last one",
                extra={"file": str(path), "error": str(error)},
            )
            return
        self.tls, self._authority = context, pem
        self.generation += 1

    def _load(self, certificate: bytes | Path, key: bytes | Path | None) -> None:
        """Loads another client certificate.

        Raises:
            Unreachable: it cannot be used; its files may be in the middle of a replacement.
        """
        assert self.tls is not None
        try:
            load_pair(self.tls, certificate, key)
        except ConfigError as error:
            raise Unreachable(f"the client certificate {error}") from error
        self.generation += 1

    def _is_expired(self) -> bool:
        credential = self._credential
        if credential is None:
            return True
        return (
            credential.expires_at_s is not None and self._clock.wall_s() >= credential.expires_at_s
        )

    async def _run_plugin(self) -> None:
        """Runs the plugin and stores its credentials; after a failure not again for a while."""
        assert self._access.plugin is not None
        if self._failure is not None:
            failed_at_s, failure = self._failure
            if self._clock.monotonic_s() - failed_at_s < RENEW_S_MIN:
                raise Unreachable(str(failure))
        try:
            credential = await run_plugin(self._access.plugin, environment=self._environment)
            token = _sendable(credential.token) if credential.token else None
            old, pair = self._credential, (credential.certificate, credential.key)
            # Also another key for the same certificate: it may not match.
            is_new = old is None or pair != (old.certificate, old.key)
            if credential.certificate and is_new and self.tls is not None:
                self._load(credential.certificate, credential.key)
        except (Unreachable, ValueError) as error:
            command = self._access.plugin.command
            text = str(error)
            failure = Unreachable(text if text.startswith(command) else f"{command}: {text}")
            self._failure = self._clock.monotonic_s(), failure
            raise failure from error
        self._credential, self._token, self._failure = credential, token, None


def _sendable(token: str) -> str:
    if not is_sendable(token):
        raise ValueError("a token must be ASCII text without spaces, and not empty")
    return token


def tls_context(access: Access) -> ssl.SSLContext | None:
    """Returns the TLS context with the CA and our client certificate; None for plain http.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    if not access.server.startswith("https://"):
        return None
    if access.authority is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=read_pem(access.authority).decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            is_file = isinstance(access.authority, Path)
            file = str(access.authority) if is_file else access.server
            problem = f"is not a certificate: {error}"
            raise ConfigError(problem, file=file, path="certificate-authority") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.is_unverified:
        if access.warns_unverified:
            fields = {"server": access.server}
            _log.warning("certificate of the server is not verified", extra=fields)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.certificate is not None:
        load_pair(context, access.certificate, access.key)
    return context
