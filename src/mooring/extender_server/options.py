"""Options of the HTTP server of an extender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Whole nodes of a large cluster are sent: 5 000 of them are some 80 MB.
BODY_BYTES_MAX: Final = 128 << 20
#: All bodies together: three schedulers of a large cluster may send theirs at the same time.
BODIES_BYTES_MAX: Final = 3 * BODY_BYTES_MAX
#: A scheduler has at most 100 idle connections; there are few schedulers, probes and scrapers.
CONNECTIONS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of the HTTP server.

    Attributes:
        host: Address to listen on.
        port: 0 = any free port.
        tls_cert_file: Server certificate; HTTPS if this and the key are set.
        tls_private_key_file: Its key.
        client_ca_file: Requires client certificates signed by this CA.
        token_file: Requires its content as a bearer token, or as the password of the URL, which is
            the only one that kube-scheduler can send.
        body_bytes_max: Longer bodies are rejected.
        bodies_bytes_max: Further bodies are rejected while those that are read and answered have
            so many bytes.
        connections_max: Further connections are closed at once.
        head_s: Timeout for a TLS handshake, and for receiving the head of a request.
        body_s: Timeout for receiving a body.
        write_s: A client that reads nothing of its response for so long is disconnected.
    """

    host: str = "127.0.0.1"
    port: int = 8888
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""
    token_file: str = ""
    body_bytes_max: int = BODY_BYTES_MAX
    bodies_bytes_max: int = BODIES_BYTES_MAX
    connections_max: int = CONNECTIONS_MAX
    head_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 30.0
