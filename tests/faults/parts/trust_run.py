"""Whom connections trust, and which certificate they show: to the API server and to extenders.

Certificates, keys and authorities are drawn in each form: inline, in a file, for another key, with
a password, garbage, missing. The contexts are compared by handshakes in memory with servers of two
names; a setting that cannot be used is an error that names it. Connections are opened by the real
transports, over a network that fails as drawn: where they go, under which name, what the request
says of its user, and the text of each failure.

Source: client-go, transport/transport.go (TLSConfigFor), rest/transport.go; pkg/scheduler
extender.go (makeTransport).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import pytest

from mooring.client import Client
from mooring.client.transport import auth
from mooring.client.transport.auth import connect
from mooring.client.transport.http import HttpTransport, failure_text
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import VirtualClock, seeded_random
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError, Unreachable
from mooring.extenders import Extenders
from mooring.extenders import tls as extender_tls
from mooring.extenders.tls import check_trust, without_password
from tests.faults.parts.certificates import NAMES, certificate, handshake, host
from tests.faults.parts.logged import logged
from tests.faults.parts.trust_parts import DrawnParts, Part, access_error, extender_error

DRAWS: Final = 6
#: Environment variable of OpenSSL: the file with the authorities of the system.
SYSTEM: Final = "SSL_CERT_FILE"
#: Names with which a client is reached: that of the system's authority is the last one.
SERVERS: Final = NAMES
FORBIDDEN: Final = ("169.254.169.254", "[fe80::1]", "100.100.100.200")
REFUSED: Final = 403
BROKEN_URL: Final = "http://[a:b@c"


#: Headers that say as whom a request is made: a user, or also its groups.
IMPERSONATIONS: Final = (
    (("impersonate-user", "jané"),),
    (("impersonate-user", "jané"), ("impersonate-group", "a"), ("impersonate-group", "b")),
)
#: Failures of a connection, and what is said about them.
FAILURES: Final[tuple[tuple[Callable[[], Exception], str], ...]] = (
    (lambda: ConnectionRefusedError(111, "x"), "Connection refused"),
    (lambda: OSError(113, "x"), "No route to host"),
    (lambda: OSError("odd"), "OSError: odd"),
    (lambda: OSError(-5, "odd"), "OSError: [Errno -5] odd"),
    (lambda: socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
    (lambda: ssl.SSLCertVerificationError(1, "self-signed"), "self-signed"),
    (lambda: ssl.SSLError(1, "[SSL] wrong version"), "[SSL] wrong version"),
    (lambda: ConnectionAbortedError("aborted"), "aborted"),
    (lambda: ConnectionAbortedError(), "ConnectionAbortedError"),
    (lambda: ConnectionResetError("cut"), "cut"),
    (lambda: TimeoutError(), "timeout: no response"),
    (lambda: aiohttp.ServerDisconnectedError(), "the server closed the connection"),
    (lambda: aiohttp.ClientPayloadError("half"), "ClientPayloadError: half"),
)


class Link(asyncio.Transport):
    """A connection that keeps what is written, and answers 403."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        super().__init__()
        self.text = b""
        self._is_closing = False
        self._protocol = factory()
        self._protocol.connection_made(self)

    def is_closing(self) -> bool:
        """Returns whether the connection is being closed."""
        return self._is_closing

    def write(self, data: Any) -> None:
        """Keeps a request, and answers it."""
        self.text += bytes(data)
        answer = f"HTTP/1.1 {REFUSED} X\r\ncontent-length: 0\r\n\r\n".encode()
        asyncio.get_running_loop().call_soon(self._protocol.data_received, answer)

    def abort(self) -> None:
        """Closes the connection."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


class TrustRun(DrawnParts):
    """One run.

    Attributes:
        problems: Differences to the rules.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seeded_random(seed), folder)
        self.problems: list[str] = []
        self._secrets = seeded_random(seed + 1)
        #: Of the next connection: why it fails; None = it is opened.
        self._failure: Exception | None = None
        self._opened: list[SimpleNamespace] = []

    async def run(self) -> None:
        """Compares some accesses, extenders and pairs of files."""
        loop: Any = asyncio.get_running_loop()
        loop.create_connection = self._open
        for _ in range(DRAWS):
            await self._compare_access()
            await self._compare_extender()
            if self.problems:
                return
        self.problems += _text_problems()
        check_trust([Extender(url_prefix=BROKEN_URL)])  # it fails when it is called, and says why
        if without_password(BROKEN_URL) != BROKEN_URL:
            self.problems.append(f"{BROKEN_URL} is written as {without_password(BROKEN_URL)}")

    async def _open(self, factory: Callable[[], Any], *place: Any, **more: Any) -> Any:
        """Opens a connection, or fails, as ``create_connection`` of the loop.

        Raises:
            OSError: the network fails.
        """
        await asyncio.sleep(0)
        if self._failure is not None:
            raise self._failure
        link = Link(factory)
        self._opened.append(SimpleNamespace(place=place, link=link, **more))
        return link, link._protocol

    # -- the API server ---------------------------------------------------------------------------

    async def _compare_access(self) -> None:
        rng = self._rng
        parts = self._parts(has_null=True)
        authority, certificate_, key_ = self._values(parts)
        is_secure = rng.random() < 0.8
        access = Access(
            server=f"{'https' if is_secure else 'http'}://{host(rng.choice(SERVERS))}:6443",
            authority=authority,
            certificate=certificate_,
            key=key_,
            server_name=rng.choice((None, None, *map(host, SERVERS))),
            is_unverified=rng.random() < 0.3,
            warns_unverified=rng.random() < 0.5,
            impersonation=rng.choice(((), *IMPERSONATIONS)),
            token=rng.choice((None, "abc")),
        )
        # Without TLS the file of the authority is read, too, and nothing else.
        read = parts if is_secure else (parts[0]._replace(name="a"), Part(), Part())
        expected = access_error(read, access)
        with logged(auth) as log:
            try:
                transport = connect(access, clock=VirtualClock(), environment={})
            except ConfigError as error:
                self._compare_error(f"{access}", error, expected)
                return
            finally:
                self._check_no_files(f"{access}")
        if expected is not None:
            self.problems.append(f"{access} is accepted")
        warns = is_secure and access.is_unverified and access.warns_unverified
        fields = [fields for _, _, fields in log.lines]
        if fields != ([{"server": access.server}] if warns else []):
            self.problems.append(f"{access} logs {log.lines}")
        await self._compare_connection(transport, access, parts)

    def _compare_error(self, what: str, error: ConfigError, expected: Any) -> None:
        """Compares the path of an error, and a part of its text."""
        if expected is None or expected[0] != error.path or expected[1] not in str(error):
            self.problems.append(f"{what} fails with {error.path}: {error}, not {expected}")

    def _check_no_files(self, what: str) -> None:
        if left := os.listdir(tempfile.gettempdir()):
            self.problems.append(f"{what} leaves the files {left}")

    async def _compare_connection(
        self, transport: HttpTransport, access: Access, parts: tuple[Part, Part, Part]
    ) -> None:
        """Compares a connection that fails, and one that is opened."""
        make, text = self._rng.choice(FAILURES[:9])
        self._failure = make()
        request = Request("GET", "/x", deadline_s=5.0)
        is_secure = access.server.startswith("https:")
        try:
            await transport.request(request)
            self.problems.append("a connection that fails has an answer")
        except Unreachable as error:
            if str(error) != f"GET /x: {text}":
                self.problems.append(f"{self._failure!r} is {error}, not {text}")
        self._failure, self._opened = None, []
        answer = await transport.request(request)
        await transport.close()
        (opened,) = self._opened
        name = access.server.split("/")[2].partition(":")[0]
        reached_as = access.server_name or name
        place = (name, 6443), reached_as if is_secure else None, REFUSED
        real = opened.place, opened.server_hostname, answer.status
        if real != place:
            self.problems.append(f"{access} is reached at {real}, not {place}")
        lines = [f"authorization: Bearer {access.token}"] if access.token else []
        lines += [f"{field}: {value}" for field, value in access.impersonation]
        written = opened.link.text.decode()
        of_user = [it for it in written.split("\r\n") if it.startswith(("auth", "imp"))]
        if sorted(of_user) != sorted(lines) or not opened.link.is_closing():
            self.problems.append(f"{access} sends {written!r}")
        if (opened.ssl is not None) != is_secure:
            self.problems.append(f"{access} has the context {opened.ssl}")
        elif is_secure:
            is_verified = not access.is_unverified
            self._compare_context(f"{access}", opened.ssl, parts, is_verified, reached_as)

    def _compare_context(
        self,
        what: str,
        context: ssl.SSLContext,
        parts: tuple[Part, Part, Part],
        is_verified: bool,
        reached_as: str,
    ) -> None:
        """Compares handshakes with servers of each name."""
        authority, public, _ = parts
        trusted = authority.name if authority.form else NAMES[2]
        for name in SERVERS:
            is_accepted = not is_verified or (name == trusted and reached_as == host(name))
            expected = public.name if is_accepted else None
            real = handshake(context, reached_as, name)
            if real != expected:
                self.problems.append(f"{what}: the server {name} sees {real!r}, not {expected!r}")
        if context.minimum_version != ssl.TLSVersion.TLSv1_2:
            self.problems.append(f"{what} has the versions from {context.minimum_version} on")

    # -- extenders --------------------------------------------------------------------------------

    async def _compare_extender(self) -> None:
        rng = self._rng
        parts = self._parts(has_null=False)
        values = self._values(parts)
        fields: dict[str, Any] = {}
        for word, value in zip(("ca", "cert", "key"), values, strict=True):
            if isinstance(value, Path):
                fields[f"{word}_file"] = str(value)
                continue
            if value is not None:
                fields[f"{word}_data"] = b64encode(value).decode()
                if rng.random() < 0.3:
                    fields[f"{word}_file"] = "/absent"  # the data count
        name = rng.choice(("", "", *map(host, SERVERS)))
        tls = ExtenderTLSConfig(insecure=rng.random() < 0.3, server_name=name, **fields)
        has_tls = bool(fields) or rng.random() < 0.5
        is_far = rng.random() < 0.1
        place = rng.choice(FORBIDDEN) if is_far else host(rng.choice(SERVERS))
        # Passwords may be parts of the rest of the URL as well.
        secret = self._secrets.choice(("x", "me", "https", "s"))
        config = Extender(
            url_prefix=rng.choice(
                (f"https://{place}:8443/root", f"https://me:{secret}@{place}:8443")
            ),
            enable_https=rng.random() < 0.7,
            tls_config=tls if has_tls else None,
            filter_verb="filter",
            node_cache_capable=True,
        )
        number = rng.randrange(2)
        configs = [Extender(url_prefix="http://other", filter_verb="x")] * number + [config]
        path = f"extenders[{number}]"
        expected: Any = extender_error(path, parts, tls if has_tls else None, fields)
        if is_far:
            expected = f"{path}.urlPrefix", "an extender must not be at a link-local"
        check = rng.choice((check_trust, self._extenders))
        with logged(extender_tls) as log:
            try:
                check(configs)
            except ConfigError as error:
                self._compare_error(f"{config}", error, expected)
                return
            finally:
                self._check_no_files(f"{config}")
        if expected is not None:
            self.problems.append(f"{config} is accepted")
        warns = config.enable_https and not parts[0].form and not (has_tls and tls.insecure)
        logs = [fields["extender"] for _, _, fields in log.lines]
        masked = config.url_prefix.replace(f"me:{secret}@", "me:***@")
        if logs != ([masked] if warns else []):
            self.problems.append(f"{config} logs {log.lines}")
        if without_password(config.url_prefix) != masked:
            self.problems.append(f"{config} has another name than {masked}")
        is_verified = bool(parts[0].form) and not tls.insecure
        reached_as = (has_tls and name) or place
        await self._compare_calls(configs, parts, is_verified, reached_as)

    def _extenders(self, configs: list[Extender]) -> Extenders:
        client: Any = Client(None, rng=self._rng)  # type: ignore[arg-type]
        clock = VirtualClock()
        return Extenders(configs, client, clock=clock, rng=self._rng, sleep=asyncio.sleep)

    async def _compare_calls(
        self,
        configs: list[Extender],
        parts: tuple[Part, Part, Part],
        is_verified: bool,
        reached_as: str,
    ) -> None:
        """Compares new connections of an extender, while the files of its certificate change."""
        rng, tls = self._rng, configs[-1].tls_config
        with logged(extender_tls):
            extenders = self._extenders(configs)
        post: Any = extenders._posts[-1]
        are_files = parts[1].form == parts[2].form == "file"
        for _ in range(3):
            error: str | None = None
            if are_files and tls is not None and rng.random() < 0.7:
                parts = parts[0], *self._replace_pair(tls)
            if are_files and parts[1].name != parts[2].name:
                error = "client certificate" if parts[2].name else "No such file"
            self._opened = []
            post._pool = None  # each call has a new connection
            try:
                # An address, not a name: nothing is looked up outside of this process.
                await post._open()._look_up("127.0.0.1", 8443)
            except OSError as problem:
                if error is None or error not in str(problem):
                    self.problems.append(f"{configs[-1]}: {problem!r}, not {error}")
                continue
            if error is not None:
                self.problems.append(f"{configs[-1]} uses a pair that does not fit: {parts}")
            pool = post._open()
            if pool._server_name != reached_as.strip("[]"):
                self.problems.append(f"{configs[-1]} is reached as {pool._server_name}")
            self._compare_context(f"{configs[-1]}", pool._tls, parts, is_verified, reached_as)
        self._check_no_files(f"{configs[-1]}")
        await extenders.close()


def _text_problems() -> list[str]:
    """Returns the failures whose text differs from the table."""
    pairs = ((make(), text) for make, text in FAILURES)
    return [
        f"{error!r} is {failure_text(error)!r}, not {text!r}"
        for error, text in pairs
        if failure_text(error) != text
    ]


def run_trust(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a connection trusts another server, shows another certificate, or a setting
            that cannot be used is accepted.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # messages have the names of files, but not that of the folder
        Path("system.pem").write_bytes(certificate(NAMES[2]))
        Path("temporary").mkdir()
        patch.setenv(SYSTEM, "system.pem")
        patch.setattr(tempfile, "tempdir", "temporary")
        if seed % 3 == 0:  # there is no memory for files in some systems
            patch.delattr(os, "memfd_create")
        run = TrustRun(seed, Path())
        asyncio.run(run.run())
    assert not run.problems, run.problems[0]
