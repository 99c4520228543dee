"""Credentials whose files change, are missing or are garbage, and a plugin that fails at times.

The model has no cache: it knows when each file was read last, and when the plugin has run. A file
is read again after a minute or a 401, a plugin runs when its credentials have expired, and after a
401; nothing is renewed, and no failed plugin runs again, within five seconds. What was valid stays.

Source: client-go, transport/token_source.go, transport/cert_rotation.go, transport/ca_rotation.go,
and plugin/pkg/client/auth/exec/exec.go.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.client.transport import auth
from mooring.client.transport.auth import Credentials
from mooring.client.transport.exec_plugin import ExecCredential
from mooring.client.transport.kubeconfig import Access, ExecPlugin
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import Unreachable
from tests.faults.parts.certificates import certificate, handshake, host, key
from tests.helpers.credentials import pair

STEPS: Final = 60
WAITS_S: Final = (0.0, 0.5, 3.0, 4.9, 5.0, 20.0, 59.0, 60.0, 300.0)
FILE_S: Final = 60.0
RENEWED_S: Final = 5.0
PLUGIN: Final = ExecPlugin("issue", (), {}, "client.authentication.k8s.io/v1", "", None)
NAMES: Final = ("a", "b", "c")

_pair: Final = cache(pair)


class CredentialsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    # Of the kind of credentials: a change, and the model of both calls.
    _change: Callable[[], None]
    _headers: Callable[[], Any]
    _renew: Callable[[], Any]
    _generation = 0
    _is_secure = False
    #: The certificates of the last answer of the plugin, and of new connections; "" = none.
    _last_name = _certificate = ""

    def __init__(self, seed: int, folder: Path) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._clock = VirtualClock(wall_s=1_700_000_000.0)
        self._folder = folder
        #: Draws what was added to the run later.
        self._more = seeded_random(seed + 1_000_000)
        self._number = 0
        self._renewed_at_s = -math.inf
        access = getattr(self, f"_begin_{rng.choice(('token', 'plugin', 'pair'))}")()
        self._credentials = Credentials(access, clock=self._clock, environment={})

    async def run(self) -> None:
        """Changes files and time, and compares the headers of requests."""
        for _ in range(STEPS):
            self._clock.advance(self._rng.choice(WAITS_S))
            if self._rng.random() < 0.4:
                self._change()
            if self._rng.random() < 0.3:
                await self._compare("renew", self._credentials.renew(), self._renew)
            calls = [
                self._compare("headers", self._credentials.headers(), self._headers)
                for _ in range(self._rng.randrange(3))
            ]
            await asyncio.gather(*calls)
            self._check_connection()
            if self._credentials.generation != self._generation:
                self.problems.append(f"generation {self._credentials.generation}")
            if self.problems:
                return

    def _check_connection(self) -> None:
        """Checks, with a plugin, whom a new connection trusts, and which certificate it shows."""
        context = self._credentials.tls
        if not self._is_secure or context is None:
            return
        for name in NAMES:
            expected = self._certificate if name == self._authority else None
            real = handshake(context, host(name), name)
            if real != expected:
                self.problems.append(f"the server {name} sees {real!r}, not {expected!r}")

    async def _compare(
        self, what: str, call: Coroutine[Any, Any, Any], model: Callable[[], Any]
    ) -> None:
        """Compares a call with the model; both return headers, or have none to send."""
        expected = model()
        try:
            actual = await call
        except Unreachable:
            actual = "unreachable"
        if actual != expected:
            self.problems.append(
                f"{what} at {self._clock.monotonic_s()} s: {actual}, not {expected}"
            )

    def _may_renew(self) -> bool:
        """Follows a 401; returns False if the last one is too recent."""
        now_s = self._clock.monotonic_s()
        if now_s - self._renewed_at_s < RENEWED_S:
            return False
        self._renewed_at_s = now_s
        return True

    # -- a file with a token ----------------------------------------------------------------------

    def _begin_token(self) -> Access:
        self._token = ""
        self._read_at_s = -math.inf
        self._path = self._folder / "token"
        self._change, self._headers, self._renew = (
            self._change_token,
            self._token_headers,
            self._renew_token,
        )
        return Access("http://127.0.0.1:1", token_file=self._path)

    def _change_token(self) -> None:
        self._number += 1
        if self._rng.random() < 0.2:
            self._path.unlink(missing_ok=True)
        else:
            garbage = ("", "two words", "é")
            is_valid = self._rng.random() < 0.7
            text = f"token-{self._number}\n" if is_valid else self._rng.choice(garbage)
            self._path.write_text(text, encoding="utf-8")

    def _token_headers(self) -> Any:
        now_s = self._clock.monotonic_s()
        if now_s - self._read_at_s >= FILE_S:
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            if text.startswith("token-"):
                self._token = text.strip()
            elif not self._token:
                return "unreachable"
            self._read_at_s = now_s
        return {"authorization": f"Bearer {self._token}"}

    def _renew_token(self) -> None:
        self._read_at_s = -math.inf

    # -- a plugin ---------------------------------------------------------------------------------

    def _begin_plugin(self) -> Access:
        self._token = ""
        self._expires_at_s = -math.inf
        self._failed_at_s = -math.inf
        self._answer: ExecCredential | None = None
        self._runs = self._expected_runs = 0
        #: With TLS: the authority that is stored, the one in use, and the name of the certificate.
        self._is_secure = self._more.random() < 0.5
        self._stored = {"authority": "a"}
        self._authority, self._authority_read_at_s = "a", self._clock.monotonic_s()
        self._change_plugin()
        self._change, self._headers = self._change_plugin, self._plugin_headers
        self._renew = self._renew_plugin
        if not self._is_secure:
            return Access("http://127.0.0.1:1", plugin=PLUGIN)
        (self._folder / "authority").write_bytes(certificate("a"))
        self._stored["authority"] = "a"
        return Access("https://[::1]:1", authority=self._folder / "authority", plugin=PLUGIN)

    def _change_plugin(self) -> None:
        """Draws what the plugin prints from now on: None = it fails."""
        self._number += 1
        lifetime_s = self._rng.choice((None, -1.0, 4.0, 30.0))
        expires_at_s = None if lifetime_s is None else self._clock.wall_s() + lifetime_s
        token = f"token-{self._number}" if self._rng.random() < 0.8 else "two words"
        self._name, fits = "", True
        if self._is_secure and self._more.random() < 0.6:
            self._name, fits = self._more.choice(NAMES), self._more.random() < 0.8
        other = self._name if fits else next(it for it in NAMES if it != self._name)
        answer = ExecCredential(
            token=token,
            expires_at_s=expires_at_s,
            certificate=certificate(self._name) if self._name else None,
            key=key(other) if self._name else None,
        )
        self._fits = fits
        if self._is_secure and self._more.random() < 0.5:
            name = self._stored["authority"] = self._more.choice((*NAMES, ""))
            (self._folder / "authority").write_bytes(certificate(name) if name else b"garbage")
        self._answer = answer if self._rng.random() < 0.7 else None

    async def run_plugin(self, plugin: ExecPlugin, **options: Any) -> ExecCredential:
        """Stands for the process."""
        del options
        self._runs += 1
        await asyncio.sleep(0)
        if self._answer is None or plugin is not PLUGIN:
            raise Unreachable("issue: no")
        return self._answer

    def _plugin_headers(self) -> Any:
        if self._is_secure:
            self._follow_authority()
        if self._clock.wall_s() >= self._expires_at_s and not self._issue():
            return "unreachable"
        return {"authorization": f"Bearer {self._token}"}

    def _renew_plugin(self) -> Any:
        return "unreachable" if self._may_renew() and not self._issue() else None

    def _issue(self) -> bool:
        """Follows a run of the plugin; returns False if there are no new credentials."""
        now_s = self._clock.monotonic_s()
        if now_s - self._failed_at_s < RENEWED_S:
            return False
        self._expected_runs += 1
        answer = self._answer
        # A pair that is used already is not loaded again; another key is refused.
        loads = bool(self._name) and (self._name != self._last_name or not self._fits)
        if answer is None or answer.token == "two words" or (loads and not self._fits):
            self._failed_at_s = now_s
            return False
        self._generation += loads
        self._last_name = self._name
        self._certificate = self._name or self._certificate
        self._failed_at_s = -math.inf
        self._token = answer.token or ""
        self._expires_at_s = math.inf if answer.expires_at_s is None else answer.expires_at_s
        return True

    def surplus_runs(self) -> int:
        """Returns how many times more than expected the plugin has run."""
        return self._runs - self._expected_runs if hasattr(self, "_runs") else 0

    # -- files with certificates ------------------------------------------------------------------

    def _begin_pair(self) -> Access:
        #: File -> the name of its certificate; "" = it has none.
        self._stored = {"authority": "a", "client": "a"}
        self._authority, self._authority_read_at_s = "a", self._clock.monotonic_s()
        self._write_pairs()
        self._change, self._headers, self._renew = (
            self._change_pair,
            self._pair_headers,
            self._renew_pair,
        )
        return Access(
            "https://127.0.0.1:1",
            authority=self._folder / "authority",
            certificate=self._folder / "client",
            key=self._folder / "key",
        )

    def _change_pair(self) -> None:
        self._stored[self._rng.choice(("authority", "client"))] = self._rng.choice((*NAMES, ""))
        self._write_pairs()

    def _write_pairs(self) -> None:
        for file, name in self._stored.items():
            content, secret = _pair(name or "a")
            (self._folder / file).write_bytes(content if name else b"garbage")
            if file == "client":
                (self._folder / "key").write_bytes(secret)

    def _pair_headers(self) -> Any:
        self._follow_authority(can_load=bool(self._stored["client"]))
        return {}

    def _follow_authority(self, *, can_load: bool = True) -> None:
        """Follows the file of the authority, which is read once a minute."""
        now_s = self._clock.monotonic_s()
        if now_s - self._authority_read_at_s >= FILE_S:
            self._authority_read_at_s = now_s
            stored = self._stored["authority"]
            if stored not in ("", self._authority) and can_load:
                self._authority = stored
                self._generation += 1
                self._certificate = self._last_name

    def _renew_pair(self) -> Any:
        if not self._may_renew():
            return None
        if not self._stored["client"]:
            return "unreachable"
        self._generation += 1
        return None


def run_credentials(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a request has other credentials than by the model.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # records have the names of files, but not that of the folder
        run = CredentialsRun(seed, Path())
        patch.setattr(auth, "run_plugin", run.run_plugin)
        asyncio.run(run.run())
        assert not run.problems, run.problems[0]
        assert not run.surplus_runs(), f"the plugin ran {run.surplus_runs()} times too often"
