"""Authentication of an extender's clients, and checks of what they send.

::

    a client certificate (TLS), or a token ──> any host            may bind pods
    neither ──> on loopback only, with a loopback Host header      filters and scores only

A web page can make a browser send requests to loopback: such requests have an Origin, a Host that
was resolved to loopback, or another content type than JSON, and are refused.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from mooring.errors import ConfigError
from mooring.extender_server.options import ServeOptions

#: Shorter tokens can be guessed.
TOKEN_BYTES_MIN = 16
#: Longer ones do not fit into the head of a request.
TOKEN_BYTES_MAX = 4096
#: White space around a token, such as the end of its line.
_SPACES_MAX = 64


def check_credentials(options: ServeOptions, *, binds: bool) -> None:
    """Checks that clients need credentials where that is necessary.

    Raises:
        ConfigError: without credentials it would bind pods, or listen to other machines.
    """
    if options.client_ca_file or options.token_file:
        return
    if binds:
        problem = "binds pods, so --client-ca-file or --token-file is needed"
        raise ConfigError(problem, path="--kubeconfig")
    if not is_loopback(options.host):
        problem = "is not loopback, so --client-ca-file or --token-file is needed"
        raise ConfigError(problem, path="--host", value=options.host)


def read_token(options: ServeOptions) -> bytes:
    """Returns the token; empty if none is configured.

    Raises:
        ConfigError: the file cannot be read, or the token is too short.
    """
    if not options.token_file:
        return b""
    try:
        with Path(options.token_file).open("rb") as file:
            content = file.read(TOKEN_BYTES_MAX + _SPACES_MAX + 1)
    except OSError as error:
        raise ConfigError(error.strerror or str(error), path=options.token_file) from error
    token = content.strip()
    if len(token) < TOKEN_BYTES_MIN:
        raise ConfigError(f"has fewer than {TOKEN_BYTES_MIN} bytes", path=options.token_file)
    # The rest of a longer file was not read: what is stripped of it need not be its end.
    if len(token) > TOKEN_BYTES_MAX or len(content) > TOKEN_BYTES_MAX + _SPACES_MAX:
        raise ConfigError(f"has more than {TOKEN_BYTES_MAX} bytes", path=options.token_file)
    return token


class Guard:
    """Refuses requests of clients that may not call the extender.

    Args:
        host: The address that the server listens on.
        token: What clients have to send; empty = nothing.
    """

    def __init__(self, host: str, token: bytes) -> None:
        self._checks_host = is_loopback(host)
        self._token = token

    def refusal_of(self, request: web.BaseRequest) -> web.Response | None:
        """Returns the response to a request that is refused, else None."""
        if "Origin" in request.headers:
            return web.Response(status=403, text="requests of web pages are refused\n")
        if self._checks_host and not is_loopback(_host_name(request.headers.get("Host", ""))):
            return web.Response(status=421, text="the Host header is not that of this server\n")
        sent = _token_in(request.headers.get("Authorization", ""))
        if self._token and not hmac.compare_digest(sent, self._token):
            challenge = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=401, text="a token is needed\n", headers=challenge)
        return None


def refusal_of_body(request: web.BaseRequest) -> web.Response | None:
    """Returns the response to a request whose body is not plain JSON, else None."""
    if request.content_type != "application/json":
        return web.Response(status=415, text="the Content-Type is not application/json\n")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        return web.Response(status=415, text="compressed bodies are not read\n")
    return None


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is this machine's own.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.b")]
        [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(header: str) -> str:
    """Returns the name or address of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _token_in(header: str) -> bytes:
    """Returns the bearer token, or the password of a user; empty if there is none."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode(errors="replace")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return b64decode(value.strip(), validate=True).partition(b":")[2]
    return b""
