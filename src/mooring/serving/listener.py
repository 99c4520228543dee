"""The socket that the server listens on.

Source: k8s.io/apiserver pkg/server/options/serving.go (CreateListener), Go's net package.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from mooring.errors import ConfigError
from mooring.objects.go_text import error_text
from mooring.serving.options import ServingOptions

#: Connections that wait to be accepted.
BACKLOG: Final = 1024

KEEP_ALIVE_S: Final = 180


def listen(options: ServingOptions) -> socket.socket:
    """Returns a listening socket.

    All addresses (``0.0.0.0`` or ``::``) are those of IPv4 and IPv6, as in Go.

    Raises:
        ConfigError: the address cannot be bound.
    """
    address = ipaddress.ip_address(options.bind_address)
    host = f"[{address}]" if address.version == 6 else str(address)
    host_port = f"{host}:{options.port}"
    is_dual = address.is_unspecified and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual or address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_dual else 1)
        # Accepted connections inherit these.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_S)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_S)
        listener.bind(("::" if is_dual else str(address), options.port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"failed to create listener: failed to listen on {host_port}: "
            f"listen tcp {host_port}: bind: {error_text(error)}"
        ) from error
    return listener
