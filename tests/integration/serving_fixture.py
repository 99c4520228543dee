"""kube-scheduler and mooring's SecureServer side by side, before one API server."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.serving import (
    Debugging,
    Endpoints,
    HealthChecks,
    MetricsRoutes,
    SecureServer,
    ServingOptions,
    Versions,
)
from mooring.serving.observer import ServingObserver
from mooring.testing.controlplane import ControlPlane, write_kubeconfig
from mooring.testing.controlplane.certificates import Pair
from tests.helpers.certificates import authority, loaded, sign
from tests.integration.processes import free_port, wait_until

#: Headers that an HTTP client would add by itself.
AUTOMATIC = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Ask:
    """A request: who sends what."""

    path: str
    who: str = "anonymous"
    method: str = "GET"
    accept: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.who} {self.accept or ''} {dict(self.headers)}"


@dataclass(frozen=True)
class Answer:
    """An answer, as far as it is compared."""

    status: int
    headers: Mapping[str, str]
    body: bytes


#: These are compared; Date, Content-Length and so on are not.
COMPARED = (
    *("content-type", "cache-control", "x-content-type-options", "warning", "location"),
    *("x-go-pprof", "content-disposition"),
)


class Credentials:
    """The certificates and tokens of those who ask, by name."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder = folder
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._tokens = {"bad token": "nonsense"}
        for name in ("admin", "nobody", "system:kube-scheduler"):
            self.certificate(name, *plane.certificate(name))
        stranger = sign(authority("unknown"), "admin", groups=["system:masters"])
        self.certificate("unknown authority", *stranger.write(folder, "stranger"))
        pki = plane.folder / "pki"
        proxies = loaded(pki / "front-proxy-ca.crt", pki / "front-proxy-ca.key")
        proxy = sign(proxies, "front-proxy-client")
        self.certificate("front proxy", *proxy.write(folder, "proxy"))
        other = sign(proxies, "another name")
        self.certificate("other proxy", *other.write(folder, "other-proxy"))
        clients = loaded(pki / "ca.crt", pki / "ca.key")
        nameless = sign(clients, "", groups=["system:masters"])
        self.certificate("nameless", *nameless.write(folder, "nameless"))
        with_uid = sign(clients, "somebody", uids=["u-1"])
        self.certificate("with uid", *with_uid.write(folder, "with-uid"))

    def certificate(self, name: str, certificate: Any, key: Any) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(certificate, key)
        self._contexts[name] = context

    def token(self, name: str, token: str) -> None:
        self._tokens[name] = token

    def context(self, name: str) -> ssl.SSLContext:
        if name in self._contexts:
            return self._contexts[name]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def headers(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens[name]}"} if name in self._tokens else {}


async def answer(port: int, ask: Ask, credentials: Credentials) -> Answer:
    """Sends one request, on a connection of its own."""
    headers = {**credentials.headers(ask.who), **ask.headers}
    if ask.accept is not None:
        headers["Accept"] = ask.accept
    connector = aiohttp.TCPConnector(ssl=credentials.context(ask.who), force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
        session.request(
            ask.method,
            URL(f"https://127.0.0.1:{port}{ask.path}", encoded=True),
            headers=headers,
            data=ask.body,
            allow_redirects=False,
            skip_auto_headers=AUTOMATIC,
        ) as response,
    ):
        body = await response.read()
        found = {name: response.headers[name] for name in COMPARED if name in response.headers}
        return Answer(response.status, found, body)


@contextmanager
def kube_scheduler(plane: ControlPlane, folder: Path, *arguments: str) -> Iterator[int]:
    """Runs a further kube-scheduler; yields its port."""
    port = free_port()
    pair = Pair.of(plane.folder / "pki", "server")
    command = [
        str(plane.programs / "kube-scheduler"),
        f"--kubeconfig={plane.kubeconfig('system:kube-scheduler')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pair.certificate}",
        f"--tls-private-key-file={pair.key}",
        *arguments,
    ]
    log = folder / f"kube-scheduler-{port}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=plane.environment()) as process,
    ):
        try:
            wait_until(lambda: is_ready(port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()[-3000:]
            yield port
        finally:
            process.kill()


def is_ready(port: int) -> bool:
    """Returns whether /readyz of a server is 200."""
    url = f"https://127.0.0.1:{port}/readyz"
    done = subprocess.run(["curl", "-skf", url], capture_output=True, check=False)
    return done.returncode == 0


@asynccontextmanager
async def secure_server(
    plane: ControlPlane,
    *,
    authentication: Path | None,
    authorization: Path | None,
    health: HealthChecks | None = None,
    endpoints: Endpoints | None = None,
    observer: ServingObserver | None = None,
    **options: Any,
) -> AsyncIterator[int]:
    """Runs mooring's server; yields its port."""
    clock, rng = SystemClock(), seeded_random(1)
    pair = Pair.of(plane.folder / "pki", "server")
    transports = [
        connect(read_kubeconfig([str(path)]), clock=clock, environment=os.environ) if path else None
        for path in (authentication, authorization)
    ]
    server = SecureServer(
        ServingOptions(
            bind_address="127.0.0.1",
            port=free_port(),
            tls_cert_file=str(pair.certificate),
            tls_private_key_file=str(pair.key),
            **options,
        ),
        endpoints or some_endpoints(),
        health or usual_checks(),
        authentication=transports[0],
        authorization=transports[1],
        clock=clock,
        rng=rng,
        observer=observer,
    )
    await server.start()
    try:
        yield server.address[1]
    finally:
        await server.stop()
        for transport in transports:
            if transport is not None:
                await transport.close()


def usual_checks(*, leader_elect: bool = False) -> HealthChecks:
    """Returns the checks that kube-scheduler has, all passed."""
    checks = HealthChecks()
    if leader_elect:
        checks.add(["healthz", "readyz"], "leaderElection", lambda: None)
    checks.add(["readyz"], "shutdown", lambda: None)
    checks.add(["readyz"], "sched-handler-sync", lambda: None)
    return checks


def some_endpoints(
    flags: Mapping[str, str] | None = None, configuration: Mapping[str, Any] | None = None
) -> Endpoints:
    """Endpoints that show little; everything is there."""
    metrics = MetricsRoutes(
        metrics=lambda exposition: (b"scheduler_x 1\n", exposition.content_type),
        slis=lambda exposition: (b"kubernetes_healthcheck 1\n", exposition.content_type),
        resources=lambda exposition: (b"", exposition.content_type),
    )
    return Endpoints(
        metrics,
        configuration=lambda: configuration or {"kind": "KubeSchedulerConfiguration"},
        flags=flags or {"v": "0"},
        versions=Versions("go1.26.8", "1.36.3", "1.36"),
        debugging=Debugging(lambda _level: None),
    )


def broken_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """Access with a token that the API server does not know."""
    path = folder / "broken.kubeconfig"
    write_kubeconfig(path, url=plane.url, authority=plane.authority, token="forged")
    return path


def monitoring_token(plane: ControlPlane) -> str:
    """Returns the token of an account that may read what Prometheus reads."""
    manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "monitor"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:monitoring",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "monitor", "namespace": "kube-system"}],
    }
    plane.kubectl("create", "serviceaccount", "monitor", "-n", "kube-system")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    return plane.service_account_token("monitor")


async def differences(
    asks: Sequence[Ask],
    ports: tuple[int, int],
    credentials: Credentials,
    normal: Any = lambda ask, answer: answer,
) -> list[str]:
    """Returns the answers of both sides, where they differ."""
    found = []
    async with asyncio.timeout(SECONDS_MAX):
        for ask in asks:
            theirs, ours = [await answer(port, ask, credentials) for port in ports]
            if normal(ask, theirs) != normal(ask, ours):
                found.append(f"{ask}\n  theirs: {theirs}\n  ours:   {ours}")
    return found


def without_body(answer: Answer) -> Answer:
    """Returns an answer whose body is not compared."""
    return replace(answer, body=b"")
