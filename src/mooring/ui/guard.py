"""Access to the page: a token, a cookie, and checks of where requests come from.

::

    printed address  http://127.0.0.1:PORT/#TOKEN      (browsers do not send what follows the #)
    page             POST /session {"token": TOKEN}  ->  HttpOnly cookie of this port
    everything else  needs the cookie, a Host of this listener, and no foreign Origin

A page of another port of this machine is *same-site* to browsers, which send it the cookie's
requests. So the origin is checked on each request, and responses say that no other page may
read them.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from mooring.event_loop import fresh_seed

#: Names of this machine in a Host header. Any other one is an attack by a changed name.
HOSTS: Final = ("127.0.0.1", "localhost")

#: No inline code, no eval, nothing from elsewhere, in no frame.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: The headers of every response.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

#: Where a browser says that a request comes from; a request without it comes from no browser.
_FETCH_SITES: Final = ("", "same-origin", "none")


class Guard:
    """Checks the requests of one listener.

    Attributes:
        token: What opens a session: 128 random bits.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token or f"{fresh_seed():032x}"
        self._session = f"{fresh_seed():032x}"
        self._port = 0

    def listens_on(self, port: int) -> None:
        """Sets the port: cookies of several listeners must not be confused."""
        self._port = port

    @property
    def cookie_name(self) -> str:
        """The name of the session's cookie."""
        return f"mooring-{self._port}"

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://127.0.0.1:{self._port}/#{self.token}"

    def opens(self, token: object) -> str | None:
        """Returns the header that sets the cookie, if the token is right."""
        if not isinstance(token, str) or not _equal(token, self.token):
            return None
        return f"{self.cookie_name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def has_session(self, cookie: str | None) -> bool:
        """Returns whether a cookie is that of the session."""
        return cookie is not None and _equal(cookie, self._session)

    def problem(self, method: str, headers: Mapping[str, str]) -> str:
        """Returns why a request is refused before anything is read; "" = it is not."""
        hosts = [f"{host}:{self._port}" for host in HOSTS]
        host = headers.get("Host", "")
        if host not in hosts:
            return f"the Host header must be {' or '.join(hosts)}"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "the Origin header names another page"
        if headers.get("Sec-Fetch-Site", "") not in _FETCH_SITES:
            return "the request comes from another page"
        if method == "POST" and headers.get("Content-Type", "") != "application/json":
            return "the Content-Type must be application/json"
        return ""


def _equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode())
