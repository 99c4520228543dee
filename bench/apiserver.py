"""How fast the embedded API server is, and how much memory its objects take.

``python -m bench.apiserver [RUNS]``: creates, bindings, gets, lists and watch events per second
through ``ApiServer.handle``, three runs each; creates over HTTPS; and the memory of a cluster of
5 000 nodes and 50 000 pods. The server is one event loop: in process, a second is one of its CPU.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import msgspec

from bench.machine import machine
from bench.objects import running_pod
from mooring.apiserver.server import ApiServer
from mooring.client import Pool, Request
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from tests.integration.embedded import running

RUNS = 3
PODS = 10_000
NODES = 5_000
CLUSTER_PODS = 50_000
EVENTS = 20_000
HTTPS_PODS = 5_000
HTTPS_AT_A_TIME = 32

#: The bars of the design, per second: in process (of CPU) and over HTTPS (by the clock).
BAR_CREATES = 5_000
BAR_CREATES_HTTPS = 1_000
HEADERS = {"accept": "application/json", "content-type": "application/json", "user-agent": "bench"}
_clock = SystemClock()


def small_pod(number: int) -> bytes:
    """A pod as people write it: two containers, an affinity, a spread constraint; 0.9 kB."""
    term = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [term]}]
            }
        }
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": f"web-{number % 400}"}},
    }
    requests = {"cpu": "250m", "memory": "512Mi"}
    containers = [
        {
            "name": name,
            "image": f"registry.example/team/{name}:1.4.2",
            "resources": {"requests": requests, "limits": {"cpu": "1", "memory": "1Gi"}},
            "ports": [{"containerPort": port}],
        }
        for name, port in (("web", 8080), ("proxy", 9090))
    ]
    metadata = {"name": f"web-{number}", "labels": {"app": f"web-{number % 400}", "tier": "front"}}
    spec = {
        "containers": containers,
        "affinity": affinity,
        "topologySpreadConstraints": [spread],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(pod)


def node(number: int) -> bytes:
    """A node of a zone."""
    metadata = {
        "name": f"node-{number}",
        "labels": {"topology.kubernetes.io/zone": f"zone-{number % 3}", "disk": "ssd"},
    }
    status = {"capacity": {"cpu": "32", "memory": "128Gi", "pods": "110"}}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    )


def binding(number: int) -> bytes:
    """A scheduler's decision."""
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % NODES}"}
    metadata = {"name": f"web-{number}", "namespace": "default"}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    )


async def post(server: ApiServer, path: str, body: bytes) -> None:
    """One POST that must succeed."""
    status, _, answer = await server.handle("POST", path, [], HEADERS, body)
    assert status == 201, answer


def server() -> ApiServer:
    """An empty one."""
    return ApiServer(_clock, seeded_random(1))


async def creates() -> float:
    """Pods created per CPU second."""
    one = server()
    bodies = [small_pod(number) for number in range(PODS)]
    start = _clock.cpu_s()
    for body in bodies:
        await post(one, "/api/v1/namespaces/default/pods", body)
    return PODS / (_clock.cpu_s() - start)


async def binds() -> float:
    """Pods bound per CPU second."""
    one = server()
    for number in range(PODS):
        await post(one, "/api/v1/namespaces/default/pods", small_pod(number))
    bodies = [binding(number) for number in range(PODS)]
    start = _clock.cpu_s()
    for number, body in enumerate(bodies):
        await post(one, f"/api/v1/namespaces/default/pods/web-{number}/binding", body)
    return PODS / (_clock.cpu_s() - start)


async def gets() -> float:
    """Objects read per CPU second, one by one."""
    one = server()
    for number in range(PODS):
        await post(one, "/api/v1/namespaces/default/pods", small_pod(number))
    start = _clock.cpu_s()
    for number in range(PODS):
        path = f"/api/v1/namespaces/default/pods/web-{number}"
        status, _, _ = await one.handle("GET", path, [], HEADERS, b"")
        assert status == 200
    return PODS / (_clock.cpu_s() - start)


async def lists() -> float:
    """Objects listed per CPU second, all in one answer."""
    one = server()
    for number in range(PODS):
        await post(one, "/api/v1/namespaces/default/pods", small_pod(number))
    start = _clock.cpu_s()
    rounds = 20
    for _ in range(rounds):
        _, _, body = await one.handle("GET", "/api/v1/pods", [], HEADERS, b"")
        assert isinstance(body, bytes)
        assert len(body) > PODS * 100
    return rounds * PODS / (_clock.cpu_s() - start)


async def watched() -> float:
    """Events per CPU second that one watch gets, from the history."""
    one = server()
    for number in range(EVENTS // 2):
        await post(one, "/api/v1/namespaces/default/pods", small_pod(number))
        await post(one, f"/api/v1/namespaces/default/pods/web-{number}/binding", binding(number))
    query = [("watch", "true"), ("resourceVersion", "6")]
    start = _clock.cpu_s()
    _, _, stream = await one.handle("GET", "/api/v1/pods", query, HEADERS, b"")
    assert not isinstance(stream, bytes)
    seen = 0
    async for chunk in stream:
        seen += chunk.count(b"\n")
        if seen >= EVENTS:
            break
    rate = seen / (_clock.cpu_s() - start)
    await stream.aclose()  # type: ignore[attr-defined]
    return rate


async def creates_over_https() -> float:
    """Pods created per second by the clock, by 32 requests at a time from another process."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        kubeconfig = read_kubeconfig([str(server.kubeconfig)])
        transport = connect(kubeconfig, clock=_clock, environment={})
        numbers = iter(range(HTTPS_PODS))

        async def send() -> None:
            for number in numbers:
                answer = await transport.request(
                    Request(
                        "POST",
                        "/api/v1/namespaces/default/pods",
                        body=small_pod(number),
                        headers=HEADERS,
                        deadline_s=30,
                        pool=Pool.WRITE,
                    )
                )
                assert answer.status == 201, answer.body

        try:
            start_s = _clock.monotonic_s()
            await asyncio.gather(*(send() for _ in range(HTTPS_AT_A_TIME)))
            return HTTPS_PODS / (_clock.monotonic_s() - start_s)
        finally:
            await transport.close()


async def memory() -> Iterator[str]:
    """Bytes per object of a whole cluster, as it grows."""
    one = server()
    before = _resident_bytes()
    for number in range(NODES):
        await post(one, "/api/v1/nodes", node(number))
    with_nodes = _resident_bytes()
    for number in range(20):
        body = msgspec.json.encode({"metadata": {"name": f"team-{number}"}})
        await post(one, "/api/v1/namespaces", body)
    for number in range(CLUSTER_PODS):
        found = msgspec.json.decode(running_pod(number))
        found["metadata"].pop("resourceVersion")
        found["metadata"].pop("ownerReferences")  # it would go with an owner that is absent
        found["spec"].pop("priority", None)
        namespace = found["metadata"]["namespace"]
        await post(one, f"/api/v1/namespaces/{namespace}/pods", msgspec.json.encode(found))
    after = _resident_bytes()
    return iter(
        (
            f"bytes per node                {(with_nodes - before) / NODES:>10,.0f}",
            f"bytes per pod                 {(after - with_nodes) / CLUSTER_PODS:>10,.0f}",
            f"{NODES:,} nodes, {CLUSTER_PODS:,} pods {after / 1024**2:>13,.0f} MiB resident",
        )
    )


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


MEASURES: tuple[tuple[str, Callable[[], Coroutine[None, None, float]]], ...] = (
    ("creates of pods", creates),
    ("bindings", binds),
    ("gets", gets),
    ("objects in lists", lists),
    ("watch events", watched),
    ("over HTTPS, by the clock", creates_over_https),
)


def main(arguments: list[str]) -> int:
    """Print the table."""
    runs = int(arguments[0]) if arguments else RUNS
    print(f"{machine()}, {runs} runs")
    for line in asyncio.run(memory()):
        print(line)
    print(f"{'per CPU second':30}{'median':>10}{'least':>10}{'most':>10}")
    medians = {}
    for name, measure in MEASURES:
        rates = sorted(asyncio.run(measure()) for _ in range(runs))
        medians[name] = rates[len(rates) // 2]
        print(f"{name:30}{medians[name]:>10,.0f}{rates[0]:>10,.0f}{rates[-1]:>10,.0f}", flush=True)
    in_process, https = medians["creates of pods"], medians["over HTTPS, by the clock"]
    met = in_process >= BAR_CREATES and https >= BAR_CREATES_HTTPS
    bars = f"{BAR_CREATES:,} creates in process, {BAR_CREATES_HTTPS:,} over HTTPS"
    print(f"bars, medians: {bars}: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
