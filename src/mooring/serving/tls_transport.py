"""TLS over an asyncio transport, with pyOpenSSL.

::

    socket ── transport ── TlsProtocol ── TlsTransport ── application protocol (HTTP)

It exists because a client certificate of an unknown authority must reach the application, which the
``ssl`` module of Python does not allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

#: Bytes taken from the TLS library at a time; a TLS record has at most 16 KiB.
CHUNK_BYTES: Final = 1 << 16

#: Name of the extra information with the client's certificates, DER, its own first.
PEER_CHAIN: Final = "peer_chain"

#: A client that sends more certificates is refused.
CHAIN_MAX: Final = 10


class TlsProtocol(asyncio.Protocol):
    """The encrypted side of one connection.

    Args:
        context_for: Returns the TLS context, given the local address of the connection.
        new_application: Creates the protocol that gets the decrypted data, after the handshake.
        handshake_s: Timeout of the handshake.
        on_end: Called once when the connection is lost.
    """

    def __init__(
        self,
        context_for: Callable[[str], SSL.Context],
        new_application: Callable[[TlsTransport], asyncio.Protocol],
        *,
        handshake_s: float,
        on_end: Callable[[TlsProtocol], None],
    ) -> None:
        self._context_for = context_for
        self._new_application = new_application
        self._handshake_s = handshake_s
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._tls: SSL.Connection | None = None
        self._application: asyncio.Protocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_closing = False

    # -- from the socket --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        if self.is_closing:  # it was aborted between being accepted and this call
            self.abort()
            return
        local_address = str((transport.get_extra_info("sockname") or ("",))[0])
        self._tls = SSL.Connection(self._context_for(local_address), None)
        self._tls.set_accept_state()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._handshake_s, self.abort)

    def data_received(self, data: bytes) -> None:
        """Decrypts data, and passes it on."""
        if self._tls is None:
            return
        self._tls.bio_write(data)
        try:
            if self._application is None and not self._has_shaken_hands():
                return
            self._read()
        except SSL.ZeroReturnError:
            self.close()
        except SSL.Error:
            self._flush()  # the alert that says why
            self.close()

    def eof_received(self) -> bool:
        """Closes the connection: half of a TLS connection is useless."""
        return False

    def pause_writing(self) -> None:
        """Asks the application to stop writing."""
        if self._application is not None:
            self._application.pause_writing()

    def resume_writing(self) -> None:
        """Asks the application to go on writing."""
        if self._application is not None:
            self._application.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Passes on the end of the connection."""
        self.is_closing = True
        self._stop_timer()
        if self._application is not None:
            self._application.connection_lost(error)
        self._application = self._tls = None
        self._on_end(self)

    # -- from the application ---------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends data."""
        if self._tls is None or self.is_closing or not data:
            return
        try:
            self._tls.sendall(bytes(data))
        except SSL.Error:
            self.abort()  # the peer has broken the connection off
            return
        self._flush()

    def close(self) -> None:
        """Ends the TLS connection, sends what is left, and closes the socket."""
        if self.is_closing or self._transport is None:
            return
        self.is_closing = True
        if self._tls is not None and self._application is not None:
            try:
                self._tls.shutdown()
                self._flush()
            except SSL.Error:
                pass  # the peer has broken the connection off
        self._transport.close()

    def abort(self) -> None:
        """Closes the socket at once."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the socket."""
        assert self._transport is not None
        return self._transport

    # -- TLS --------------------------------------------------------------------------------------

    def _has_shaken_hands(self) -> bool:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            self._flush()
            return False
        self._flush()
        self._stop_timer()
        chain = peer_chain(self._tls)
        if len(chain) > CHAIN_MAX:
            self.abort()
            return False
        transport = TlsTransport(self, chain)
        self._application = self._new_application(transport)
        self._application.connection_made(transport)
        return True

    def _read(self) -> None:
        while self._tls is not None and self._application is not None:
            try:
                data = self._tls.recv(CHUNK_BYTES)
            except SSL.WantReadError:
                break
            self._application.data_received(data)
        self._flush()

    def _flush(self) -> None:
        """Sends what the TLS library has encrypted."""
        while self._tls is not None and self._transport is not None:
            try:
                data = self._tls.bio_read(CHUNK_BYTES)
            except SSL.WantReadError:
                return
            self._transport.write(data)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class TlsTransport(asyncio.Transport):
    """The decrypted side of a connection: the application writes to it."""

    def __init__(self, protocol: TlsProtocol, chain: tuple[bytes, ...]) -> None:
        super().__init__({PEER_CHAIN: chain})
        self.tls_protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the client's certificates (``PEER_CHAIN``), or information on the socket."""
        if name == PEER_CHAIN:
            return super().get_extra_info(name, default)
        return self.tls_protocol.transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends data."""
        self.tls_protocol.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Sends several pieces of data at once."""
        self.tls_protocol.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Returns False: TLS has no half-closed connections."""
        return False

    def get_write_buffer_size(self) -> int:
        """Returns how many bytes wait for the socket."""
        return self.tls_protocol.transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stops reading from the socket."""
        self.tls_protocol.transport.pause_reading()

    def resume_reading(self) -> None:
        """Goes on reading from the socket."""
        self.tls_protocol.transport.resume_reading()

    def is_closing(self) -> bool:
        """Returns True if nothing can be sent any more."""
        return self.tls_protocol.is_closing

    def close(self) -> None:
        """Closes the connection after what was written has been sent."""
        self.tls_protocol.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.tls_protocol.abort()


def peer_chain(connection: SSL.Connection) -> tuple[bytes, ...]:
    """Returns the certificates that the client sent, DER, its own first."""
    leaf: x509.Certificate | None = connection.get_peer_certificate(as_cryptography=True)
    if leaf is None:
        return ()
    encoded = leaf.public_bytes(Encoding.DER)
    others: Iterable[x509.Certificate] = connection.get_peer_cert_chain(as_cryptography=True) or ()
    rest = [certificate.public_bytes(Encoding.DER) for certificate in others]
    return (encoded, *(certificate for certificate in rest if certificate != encoded))
