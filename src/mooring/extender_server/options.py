"""Options of the HTTP server of an extender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Whole nodes of a large cluster are sent: 5 000 of them are some 80 MB.
BODY_BYTES_MAX: Final = 128 << 20


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
    """

    host: str = "127.0.0.1"
    port: int = 8888
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""
    token_file: str = ""
    body_bytes_max: int = BODY_BYTES_MAX
