"""Credentials while they last: TLS contexts, bearer tokens, and how both are renewed.

::

    Access ── connect ──> HttpTransport ── headers() before each request ──> Credentials
                                        └─ renew()   after a 401 ─────────>

A token file is read again every minute, a plugin is run again when what it gave expires, and both
when the server refuses us; new certificates are loaded into the context, and generation says that
connections made before carry the old ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.client.exec_plugin import ExecCredential, run_plugin
from mooring.client.http import HttpTransport
from mooring.client.kubeconfig import Access
from mooring.clock import Clock
from mooring.errors import ConfigError, Unreachable

#: How long a token that was read from a file is used; the kubelet replaces it long before its end.
TOKEN_FILE_S: Final = 60.0

#: Refused requests come in bunches: new credentials are sought at most this often.
RENEW_S_MIN: Final = 5.0

_log = logging.getLogger(__name__)


def connect(access: Access, *, clock: Clock, environment: Mapping[str, str]) -> HttpTransport:
    """A transport to the server, as the identity, that ``access`` says.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    credentials = Credentials(access, clock=clock, environment=environment)
    return HttpTransport(
        access.server,
        tls=credentials.tls,
        authorization=credentials,
        server_name=access.server_name,
        proxy=access.proxy,
    )


class Credentials:
    """Who we are, now.

    Attributes:
        tls: The context for all connections; None for a server without TLS.
        generation: Grows when ``tls`` has got another certificate.
    """

    def __init__(self, access: Access, *, clock: Clock, environment: Mapping[str, str]) -> None:
        self.generation = 0
        self.tls = tls_context(access)
        self._access = access
        self._clock = clock
        self._environment = environment
        self._token = access.token
        self._read_at_s: float | None = None
        self._renewed_at_s: float | None = None
        self._given: ExecCredential | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """What a request must carry.

        Raises:
            Unreachable: there are no credentials now, so nothing can be sent.
        """
        if self._access.token_file is not None:
            self._read_token_file(self._access.token_file)
        elif self._access.plugin is not None and self._is_expired():
            async with self._lock:
                if self._is_expired():
                    await self._ask_plugin()
        return {"authorization": f"Bearer {self._token}"} if self._token else {}

    async def renew(self) -> None:
        """The server refused us: get what there is of newer credentials.

        Raises:
            Unreachable: there are none.
        """
        # The next request reads a token file again; that costs nothing.
        self._read_at_s = None
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if self._renewed_at_s is not None and now_s - self._renewed_at_s < RENEW_S_MIN:
                return
            self._renewed_at_s = now_s
            if self._access.plugin is not None:
                await self._ask_plugin()
            elif self.tls is not None and isinstance(self._access.certificate, Path):
                self._load(self._access.certificate, self._access.key)

    def _read_token_file(self, path: Path) -> None:
        now_s = self._clock.monotonic_s()
        if self._read_at_s is not None and now_s - self._read_at_s < TOKEN_FILE_S:
            return
        try:
            found = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._token is None:
                raise Unreachable(f"the token cannot be read: {path}: {error}") from error
            _log.warning("the token cannot be read, the last one is kept", extra={"file": path})
            found = self._token
        self._token = found
        self._read_at_s = now_s

    def _load(self, certificate: bytes | Path, key: bytes | Path | None) -> None:
        """Show another certificate from now on.

        Raises:
            Unreachable: it cannot be used; perhaps its files are just being replaced.
        """
        assert self.tls is not None
        try:
            load_pair(self.tls, certificate, key)
        except ConfigError as error:
            raise Unreachable(f"the client certificate {error}") from error
        self.generation += 1

    def _is_expired(self) -> bool:
        given = self._given
        if given is None:
            return True
        return given.expires_at_s is not None and self._clock.wall_s() >= given.expires_at_s

    async def _ask_plugin(self) -> None:
        assert self._access.plugin is not None
        given = await run_plugin(self._access.plugin, environment=self._environment)
        is_new = self._given is None or given.certificate != self._given.certificate
        if given.certificate and is_new and self.tls is not None:
            self._load(given.certificate, given.key)
        self._given = given
        self._token = given.token


def tls_context(access: Access) -> ssl.SSLContext | None:
    """The context that verifies the server and shows our certificate; None for plain http.

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
            context.load_verify_locations(cadata=_pem(access.authority).decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ConfigError(f"is not a certificate: {error}", path="certificate-authority") from (
                error
            )
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.is_unverified:
        _log.warning("the API server is not verified", extra={"server": access.server})
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.certificate is not None:
        load_pair(context, access.certificate, access.key)
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path | None) -> None:
    """Show this certificate on all connections that are made from now on.

    Raises:
        ConfigError: it is not one, or the key is not its own.
    """
    if key is None:
        raise ConfigError("there is a client certificate without a key", path="client-key")
    # Python can load them from files only; these are ours alone, and gone at once.
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        paths = []
        for name, content in (("certificate", certificate), ("key", key)):
            path = os.path.join(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_pem(content))
            paths.append(path)
        try:
            context.load_cert_chain(*paths)
        except ssl.SSLError as error:
            raise ConfigError(f"cannot be used: {error}", path="client-certificate") from error


def _pem(content: bytes | Path) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(content)) from error
