"""kube-scheduler and SecureServer before one API server: equal statuses, headers and bodies.

Differences that are meant: bodies of metrics and of profiles (``BODY_DIFFERS``), the delimiter and
the times of /statusz and /flagz (``normal``), a few headers that name Go (``COMPARED``).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.clock import SystemClock
from mooring.config.load import loads
from mooring.config.upstream_yaml import upstream_document
from mooring.metrics.registry import Metrics
from mooring.serving.metrics import ServingMetrics
from mooring.testing.controlplane import ControlPlane
from tests.helpers.certificates import authority, sign
from tests.integration.processes import wait_until
from tests.integration.serving_fixture import (
    Answer,
    Ask,
    Credentials,
    answer,
    broken_kubeconfig,
    differences,
    kube_scheduler,
    monitoring_token,
    secure_server,
    some_endpoints,
    usual_checks,
)

#: What is shown there is another module's affair, or Go's own.
BODY_DIFFERS = {
    *("/metrics", "/metrics/slis", "/metrics/resources"),
    *("/debug/pprof/", "/debug/pprof/profile?seconds=1"),
}

PATHS = (
    *("/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/shutdown"),
    *("/metrics", "/metrics/slis", "/metrics/resources", "/configz", "/flagz", "/statusz"),
    *("/debug/pprof/", "/unknown", "/", "/healthz/"),
)
WHO = (
    *("anonymous", "admin", "nobody", "system:kube-scheduler", "bad token", "monitor"),
    *("unknown authority", "nameless", "with uid"),
)

JSON_OF = "application/json;v={};g=config.k8s.io;as={}"
YAML_OF = "application/yaml;v={};g=config.k8s.io;as={}"
ACCEPTS = (
    *("*/*", "text/plain", " ", "text/*", "application/*", "application/json"),
    *("application/yaml", "application/xml", "application/cbor", "text/html, application/json"),
    *(
        form.format(version, "{}")
        for form in (JSON_OF, YAML_OF)
        for version in ("v1beta1", "v1alpha1")
    ),
    *(JSON_OF.format("foo", "{}"), JSON_OF.format("foo", "{}") + ",*/*"),
    *(JSON_OF.format("v1beta1", "{}") + ";pretty=1", "text/plain;as=X"),
    *(JSON_OF.format("v1beta1", "{}") + ";q=0.5,text/plain", "application/json;v=v1beta1"),
    *("*/*;v=v1beta1;g=config.k8s.io;as={}", JSON_OF.format("v1beta1", "Other")),
    *(JSON_OF.format("v1beta1", "{}") + ";stream=watch", "application/json;q=0.1,*/*"),
)
#: How the Status of a refusal is written.
STATUS_ACCEPTS = (
    *("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html"),
    *("application/yaml;q=0.5, application/json;q=0.9", "*/*", "application/json;as=Table"),
)

PROTOBUF_METRICS = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"
#: The formats of metrics, as Prometheus and others ask for them.
METRIC_ACCEPTS = (
    f"{PROTOBUF_METRICS};encoding=delimited",
    f"{PROTOBUF_METRICS};encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    f"text/plain;version=0.0.4;escaping=allow-utf-8;q=0.6,{PROTOBUF_METRICS};encoding=delimited;q=0.5",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;q=0.3",
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3",
    "text/plain;escaping=values,*/*;escaping=dots",
    "text/plain;escaping=nonsense",
    f"{PROTOBUF_METRICS};encoding=nonsense",
    "application/vnd.google.protobuf;encoding=delimited",
    f"{PROTOBUF_METRICS.upper()};encoding=delimited",
)
CODINGS = (
    *("gzip", "gzip, deflate", "deflate", "*", "identity", "gzip;q=0", "gzip;q=0, *;q=0.1"),
    *("identity;q=0", "gzip;q=0.5,identity;q=0.6", "gzip;level=1", "identity, gzip", "x gzip"),
    *("gzip ;q=1.0", "gzip; q=2", "GZIP", "zstd, gzip;q=0.1", ""),
)


def asks() -> Iterator[Ask]:
    """Yields all requests to servers with everything configured."""
    for path, who in product(PATHS, WHO):
        yield Ask(path, who)
    for page, accept in product(("Statusz", "Flagz"), ACCEPTS):
        yield Ask(f"/{page.lower()}", "admin", accept=accept.replace("{}", page))
    for who, accept in product(("anonymous", "bad token"), STATUS_ACCEPTS):
        yield Ask("/metrics", who, accept=accept)
    curl = {"User-Agent": "curl/8.1"}
    beta = JSON_OF.format("v1beta1", "Statusz")
    for query in ("", "?pretty=0", "?pretty=1", "?pretty=x", "?pretty="):
        yield Ask(f"/metrics{query}", headers=curl)
        yield Ask(f"/metrics{query}")
        yield Ask(f"/statusz{query}", "admin", accept=beta, headers=curl)
    for query in (
        "verbose",
        "verbose=1",
        "exclude=shutdown",
        "verbose&exclude=shutdown&exclude=b%22&exclude=a",
    ):
        yield Ask(f"/readyz?{query}")
        yield Ask(f"/healthz?{query}")
    for method in ("POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"):
        yield Ask("/healthz", method=method)
        yield Ask("/metrics", method=method)
        yield Ask("/debug/pprof", "admin", method)
    for path in ("/metrics", "/metrics/slis", "/metrics/resources"):
        yield Ask(path, "admin", "DELETE")
        yield Ask(path, "monitor", "DELETE")
    for path in (
        "/x%3Cy&z",
        "/a%22b%C3%A9",
        "//healthz",
        "/healthz%2fping",
        "/%ff",
        "/a%0ab",
        "/a%20b",
        "/healthz;x",
    ):
        yield Ask(path)
        yield Ask(path, "admin")
    for path, accept in product(
        ("/metrics", "/metrics/slis", "/metrics/resources"), METRIC_ACCEPTS
    ):
        yield Ask(path, "admin", accept=accept)
    for coding in CODINGS:
        yield Ask("/metrics", "admin", headers={"Accept-Encoding": coding})
    yield from debug_asks()
    yield from proxy_asks()


def debug_asks() -> Iterator[Ask]:
    for path in ("", "/nope", "/symbol", "/cmdline", "/profile?seconds=1"):
        yield Ask(f"/debug/pprof{path}", "admin")
    for path in ("", "/", "/x", "/v", "/v/"):
        yield Ask(f"/debug/flags{path}", "admin")
    for body in (
        b"abc",
        b"-1",
        b"",
        b"99999999999",
        b"2147483648",
        b"+1",
        b"0x1",
        b" 1",
        b"\xff",
        b"01",
        b"0",
    ):
        yield Ask("/debug/flags/v", "admin", "PUT", body=body)
    yield Ask("/debug/flags/v", "nobody", "PUT", body=b"9")


def proxy_asks() -> Iterator[Ask]:
    masters = {"X-Remote-User": "jane", "X-Remote-Group": "system:masters"}
    for who, path in product(
        ("front proxy", "other proxy", "anonymous", "nobody"), ("/healthz", "/statusz")
    ):
        yield Ask(path, who, headers=masters)
    yield Ask("/metrics", "front proxy")
    yield Ask(
        "/metrics", "front proxy", headers={"X-Remote-User": "jane", "X-Remote-Extra-a%2fb": "c"}
    )
    for value in (
        "Basic eDp5",
        "Bearer",
        "Bearer ",
        "Bearer  x",
        "bearer nonsense",
        "Nonsense x y",
        "BEARER a b",
    ):
        yield Ask("/healthz", headers={"Authorization": value})
    yield Ask("/metrics", "admin", headers={"Authorization": "Bearer nonsense"})
    for value in ("x", "100-Continue", ""):
        yield Ask("/healthz", headers={"Expect": value})


@dataclass
class Peers:
    """A control plane with kube-scheduler, and who asks."""

    plane: ControlPlane
    credentials: Credentials
    folder: Path

    @property
    def port(self) -> int:
        """The port of the kube-scheduler that has everything configured."""
        return int(self.plane.scheduler.readiness.url.rpartition(":")[2])


@pytest.fixture(scope="module")
def peers(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    folder = tmp_path_factory.mktemp("peers")
    with ControlPlane(scheduler=True, programs=programs) as plane:
        credentials = Credentials(plane, folder)
        credentials.token("monitor", monitoring_token(plane))
        yield Peers(plane, credentials, folder)


def normal(ask: Ask, answer: Answer) -> Answer:
    """Returns an answer without what may differ."""
    path = ask.path.partition("?")[0]
    if answer.status == 200 and (ask.path in BODY_DIFFERS or path in BODY_DIFFERS):
        is_reset = answer.body == b"metrics reset\n"
        # Go's handler of an empty page keeps the type of a full one.
        return answer if is_reset else replace(answer, body=b"")
    body = answer.body.decode("utf-8", "surrogateescape")
    if path == "/configz" and answer.status == 200:
        body = json.dumps(json.loads(body), sort_keys=True)
    if path == "/statusz":
        body = re.sub(
            r"^(Started|Up|Go version|Binary version|Emulation version|Paths)(:|: |=| ) (?=\S)",
            r"\1: ",
            body,
            flags=re.MULTILINE,
        )
        body = re.sub(r"^(Started|Up): .*", r"\1: ", body, flags=re.MULTILINE)
        body = re.sub(r'("?startTime"?: ?)"[^"]*"', r"\1", body)
        body = re.sub(r'("?uptimeSeconds"?: ?)\d+', r"\1", body)
    if path == "/flagz":
        body = re.sub(r"^([a-z][a-z0-9-]*)(: |:|=| )", r"\1 ", body, flags=re.MULTILINE)
    return replace(answer, body=body.encode("utf-8", "surrogateescape"))


async def shown(peers: Peers, path: str, accept: str = "*/*") -> Any:
    """Returns a page of the peer, as an object."""
    found = await answer(peers.port, Ask(path, "admin", accept=accept), peers.credentials)
    return json.loads(found.body)


def test_everything_configured(peers: Peers) -> None:
    requests = list(asks())
    assert len(requests) >= 250

    async def main() -> list[str]:
        kubeconfig = peers.plane.kubeconfig("system:kube-scheduler")
        flags = (await shown(peers, "/flagz", JSON_OF.format("v1beta1", "Flagz")))["flags"]
        text = (peers.plane.folder / "kube-scheduler.json").read_text()
        configuration = upstream_document(loads(text))
        async with secure_server(
            peers.plane,
            authentication=kubeconfig,
            authorization=kubeconfig,
            endpoints=some_endpoints(flags, configuration),
        ) as port:
            return await differences(requests, (peers.port, port), peers.credentials, normal)

    found = asyncio.run(main())
    assert not found, "\n".join(found)


def test_a_broken_authorizer_and_leader_election(peers: Peers) -> None:
    requests = [
        Ask(path, who)
        for path in (*PATHS, "/healthz/leaderElection", "/readyz/leaderElection", "/a<b?c=%22")
        for who in ("anonymous", "admin", "nobody", "monitor", "bad token")
        if path not in ("/configz", "/flagz")
    ]
    requests += [Ask("/readyz?verbose"), Ask("/healthz?verbose")]
    kubeconfig = peers.plane.kubeconfig("system:kube-scheduler")
    broken = broken_kubeconfig(peers.plane, peers.folder)

    async def main(theirs: int) -> list[str]:
        async with secure_server(
            peers.plane,
            authentication=kubeconfig,
            authorization=broken,
            health=usual_checks(leader_elect=True),
        ) as port:
            return await differences(requests, (theirs, port), peers.credentials, normal)

    with kube_scheduler(
        peers.plane,
        peers.folder,
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={broken}",
    ) as theirs:
        # It is ready before it has read the authorities of clients.
        admin = Ask("/healthz", "admin")
        wait_until(lambda: asyncio.run(answer(theirs, admin, peers.credentials)).status != 401)
        found = asyncio.run(main(theirs))
        assert not found, "\n".join(found)


def test_broken_authentication(peers: Peers) -> None:
    """TokenReviews fail, and so does the look-up of authorities, which is tolerated."""
    requests = [
        Ask(path, who)
        for path in ("/healthz", "/livez/ping", "/metrics", "/unknown")
        for who in ("anonymous", "admin", "monitor", "unknown authority", "front proxy")
    ]
    kubeconfig = peers.plane.kubeconfig("system:kube-scheduler")
    broken = broken_kubeconfig(peers.plane, peers.folder)

    async def main(theirs: int) -> list[str]:
        async with secure_server(
            peers.plane, authentication=broken, authorization=kubeconfig
        ) as port:
            return await differences(requests, (theirs, port), peers.credentials, normal)

    with kube_scheduler(
        peers.plane,
        peers.folder,
        f"--authentication-kubeconfig={broken}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ) as theirs:
        found = asyncio.run(main(theirs))
        assert not found, "\n".join(found)


def test_no_kubeconfigs(peers: Peers) -> None:
    """Tokens are not looked at; certificates are, with an authority in a file."""
    paths = ("/healthz", "/livez/ping", "/readyz/shutdown", "/metrics", "/statusz", "/unknown")
    requests = [
        Ask(path, who)
        for path in paths
        for who in ("anonymous", "admin", "nobody", "bad token", "unknown authority")
    ]
    ca = str(peers.plane.authority)

    async def main(theirs: int) -> list[str]:
        async with secure_server(
            peers.plane,
            authentication=None,
            authorization=None,
            client_ca_file=ca,
            always_allow_paths=("/healthz", "livez/*", "/stat*"),
        ) as port:
            return await differences(requests, (theirs, port), peers.credentials, normal)

    with kube_scheduler(
        peers.plane,
        peers.folder,
        f"--client-ca-file={ca}",
        "--authorization-always-allow-paths=/healthz,livez/*,/stat*,/readyz",
        "--leader-elect=false",
    ) as theirs:
        found = asyncio.run(main(theirs))
        assert not found, "\n".join(found)


#: The families that count who asks.
COUNTED = ("authenticat", "authorization_", "apiserver_delegated_")


def counts(page: bytes) -> dict[Any, float]:
    """Returns the counters and gauges of who asks, and the observations of histograms."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if family.name.startswith(COUNTED) and sample.name.endswith(("_total", "_count", "s"))
    }


def test_the_metrics_of_who_asks_are_equal(peers: Peers) -> None:
    requests = [
        Ask(path, who)
        for path in ("/healthz", "/configz", "/unknown")
        for who in ("anonymous", "admin", "nobody", "monitor", "bad token", "unknown authority")
    ]
    kubeconfig = peers.plane.kubeconfig("system:kube-scheduler")
    metrics = Metrics(clock=SystemClock())

    async def counted(theirs: int, ours: int) -> list[dict[Any, float]]:
        for ask in [*requests, Ask("/metrics", "admin")]:
            found = [await answer(port, ask, peers.credentials) for port in (theirs, ours)]
        return [counts(found[0].body), counts(metrics.expose()[0])]

    async def main(theirs: int) -> tuple[list[dict[Any, float]], list[dict[Any, float]]]:
        async with secure_server(
            peers.plane,
            authentication=kubeconfig,
            authorization=kubeconfig,
            observer=ServingMetrics(metrics),
        ) as ours:
            return await counted(theirs, ours), await counted(theirs, ours)

    with kube_scheduler(
        peers.plane,
        peers.folder,
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ) as port:
        before, after = asyncio.run(main(port))
    theirs, ours = (
        {series: value - then.get(series, 0) for series, value in now.items()}
        for then, now in zip(before, after, strict=True)
    )
    assert ours == theirs
    assert before[1][("authentication_token_cache_fetch_total", ("status", "error"))] == 3


def test_a_new_authority_in_the_cluster_is_taken_without_a_restart(peers: Peers) -> None:
    """The API server publishes what is in the ConfigMap beside its own authority."""
    late = authority("late")
    peers.credentials.certificate("late", *sign(late, "jane").write(peers.folder, "late"))
    ask = Ask("/metrics", "late")
    kubeconfig = peers.plane.kubeconfig("system:kube-scheduler")

    async def accepted(port: int) -> Answer:
        while (found := await answer(port, ask, peers.credentials)).status == 401:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found

    async def main() -> tuple[Answer, Answer]:
        async with secure_server(
            peers.plane, authentication=kubeconfig, authorization=kubeconfig
        ) as port:
            assert (await answer(port, ask, peers.credentials)).status == 401
            pem = peers.plane.authority.read_text() + late.pem.decode()
            patch = json.dumps({"data": {"client-ca-file": pem}})
            await asyncio.to_thread(
                peers.plane.kubectl,
                *("patch", "configmap", "extension-apiserver-authentication", "-n", "kube-system"),
                *("--type=merge", f"--patch={patch}"),
            )
            async with asyncio.timeout(60):
                return await accepted(port), await accepted(peers.port)

    ours, theirs = asyncio.run(main())
    assert ours == theirs
    assert ours.status == 403
    assert b'User \\"jane\\" cannot get path' in ours.body
