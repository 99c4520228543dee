"""Credentials while they last: TLS contexts, bearer tokens, and how both are renewed.

::

    Access ── connect ──> HttpTransport ── headers() before each request ──> Credentials
                                        └─ renew()   after a 401 ─────────>

The files of the token and of the server's authority are read again every minute, a plugin is run
again when what it gave expires, and both when the server refuses us. ``generation`` says that
connections made before show an old certificate, or were verified with an old one.

Source: client-go's transport (token_source.go, cert_rotation.go, ca_rotation.go).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from mooring.client.transport.exec_plugin import ExecCredential, run_plugin
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.kubeconfig import Access, is_sendable
from mooring.clock import Clock
from mooring.errors import ConfigError, Unreachable

#: How long what was read from a file is used; the kubelet replaces a token long before its end.
FILE_S: Final = 60.0

#: Requests come in bunches: after a failure new credentials are sought at most this often.
RENEW_S_MIN: Final = 5.0

_log = logging.getLogger(__name__)


def connect(access: Access, *, clock: Clock, environment: Mapping[str, str]) -> HttpTransport:
    """Returns a transport to the server, as the identity, that ``access`` says.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    credentials = Credentials(access, clock=clock, environment=environment)
    return HttpTransport(
        access.server,
        authorization=credentials,
        server_name=access.server_name,
        proxy=access.proxy,
    )


class Credentials:
    """Who we are, now.

    Attributes:
        tls: The context for all connections; None for a server without TLS.
        generation: Grows when ``tls`` is another context, or has got another certificate.
    """

    def __init__(self, access: Access, *, clock: Clock, environment: Mapping[str, str]) -> None:
        self.generation = 0
        self.tls = tls_context(access)
        #: The PEM that ``tls`` verifies with, if it came from a file, and when that was read.
        self._authority = _pem(access.authority) if isinstance(access.authority, Path) else b""
        self._authority_read_at_s = clock.monotonic_s()
        self._access = access
        self._clock = clock
        self._environment = environment
        self._token = access.token
        self._read_at_s: float | None = None
        self._renewed_at_s: float | None = None
        self._given: ExecCredential | None = None
        self._failure: tuple[float, Unreachable] | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """What a request must carry.

        Raises:
            Unreachable: there are no credentials now, so nothing can be sent.
        """
        if isinstance(self._access.authority, Path):
            self._read_authority(self._access.authority)
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
        if self._read_at_s is not None and now_s - self._read_at_s < FILE_S:
            return
        try:
            self._token = _sendable(path.read_text("ascii").strip())
        except (OSError, ValueError) as error:
            # Perhaps it is just being replaced; without any token we would be somebody else.
            if self._token is None:
                raise Unreachable(f"the token cannot be read: {path}: {error}") from error
            _log.warning(
                "the token cannot be read, the last one is kept",
                extra={"file": str(path), "error": str(error)},
            )
        self._read_at_s = now_s

    def _read_authority(self, path: Path) -> None:
        """Verifies with what stands in the file now; what cannot be used changes nothing."""
        now_s = self._clock.monotonic_s()
        if self.tls is None or now_s - self._authority_read_at_s < FILE_S:
            return
        self._authority_read_at_s = now_s
        try:
            found = _pem(path)
            if found == self._authority:
                return
            context = tls_context(self._access)
            assert context is not None
            if self._given is not None and self._given.certificate:
                load_pair(context, self._given.certificate, self._given.key)
        except ConfigError as error:
            _log.warning(
                "the certificate-authority cannot be used, the last one is kept",
                extra={"file": str(path), "error": str(error)},
            )
            return
        self.tls, self._authority = context, found
        self.generation += 1

    def _load(self, certificate: bytes | Path, key: bytes | Path | None) -> None:
        """Shows another certificate from now on.

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
        """Runs the plugin and takes what it gives; one that failed is left alone for a while."""
        assert self._access.plugin is not None
        if self._failure is not None:
            failed_at_s, failure = self._failure
            if self._clock.monotonic_s() - failed_at_s < RENEW_S_MIN:
                raise Unreachable(str(failure))
        try:
            given = await run_plugin(self._access.plugin, environment=self._environment)
            token = _sendable(given.token) if given.token else None
            is_new = self._given is None or given.certificate != self._given.certificate
            if given.certificate and is_new and self.tls is not None:
                self._load(given.certificate, given.key)
        except (Unreachable, ValueError) as error:
            failure = Unreachable(f"{self._access.plugin.command}: {error}")
            self._failure = self._clock.monotonic_s(), failure
            raise failure from error
        self._given, self._token, self._failure = given, token, None


def _sendable(token: str) -> str:
    if not is_sendable(token):
        raise ValueError("a token must be ASCII text without spaces, and not empty")
    return token


def tls_context(access: Access) -> ssl.SSLContext | None:
    """Returns the context that verifies the server and shows our certificate; None for plain http.

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
        except (ssl.SSLError, ValueError) as error:
            file = str(access.authority) if isinstance(access.authority, Path) else None
            problem = f"is not a certificate: {error}"
            raise ConfigError(problem, file=file, path="certificate-authority") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.is_unverified:
        _log.warning("the API server is not verified", extra={"server": access.server})
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.certificate is not None:
        load_pair(context, access.certificate, access.key)
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path | None) -> None:
    """Shows this certificate on all connections that are made from now on.

    Raises:
        ConfigError: it is not one, or the key is not its own.
    """
    if key is None:
        raise ConfigError("there is a client certificate without a key", path="client-key")
    with _file(_pem(certificate)) as certificate_path, _file(_pem(key)) as key_path:
        try:
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
        except ssl.SSLError as error:
            raise ConfigError(f"cannot be used: {error}", path="client-certificate") from error


def _no_password() -> str:
    """Instead of asking for one at the terminal, which there may not be."""
    raise ConfigError("needs a password; give a key without one", path="client-key")


def _file(content: bytes) -> AbstractContextManager[str]:
    """Returns a file for what Python can load from files only; the in memory if that can be."""
    return _in_memory(content) if hasattr(os, "memfd_create") else _on_disk(content)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    with open(os.memfd_create("mooring"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextmanager
def _on_disk(content: bytes) -> Iterator[str]:
    """Where there is no memory file: one that is ours alone, and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="mooring-") as file:
        file.write(content)
        file.flush()
        yield file.name


def _pem(content: bytes | Path) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(content)) from error
