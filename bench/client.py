"""What the client costs: watch events, bindings and lists, beside the official Python client.

Run it with ``python -m bench.client``. Everything goes over TLS to a server in a process of its
own; only this process's CPU time is counted, with the garbage collector off, so the figures are
objects for each second of CPU. It prints the machine, the best of three runs, and their spread.

- decode: a watch, from bytes on the socket to typed objects.
- informer: the same into an informer's cache, with a handler that is told of every change.
- list: by pages of 500, typed.
- bind: ``pods/binding``, 64 under way at a time.
- official: the same with the package ``kubernetes``; as many for the list, fewer for the others,
  since it takes longer.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop

from bench.client_server import event, write_certificate
from bench.machine import machine
from mooring.client.informer.informer import Informer
from mooring.client.informer.watch_events import EventReader
from mooring.client.rest.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import SystemClock, seeded_random
from mooring.objects import ObjectMeta, Pod
from mooring.objects.kinds import kind_named

RUNS = 3
OBJECTS = 50_000
BINDINGS = 10_000
#: Of the official client's events and bindings.
OFFICIAL = 2_000
WRITERS = 64

#: The bar of the design: watch events decoded per CPU second.
BAR_DECODE = 60_000

POD = kind_named("Pod")
Measure = Callable[[Access, int], int]


async def decode(client: Client, count: int) -> int:
    """Events of a watch, read and decoded."""
    reader, seen = EventReader(POD), 0
    query = [("watch", "1"), ("labelSelector", f"count={count}")]
    async with client.transport.stream(
        Request("GET", POD.path, query=query, deadline_s=10), idle_s=60
    ) as stream:
        async for batch in stream.batches():
            for line in batch:
                reader.read(line)
            seen += len(batch)
    return seen


async def inform(client: Client, count: int) -> int:
    """Events of a watch, in an informer's cache."""
    seen = 0

    def note(_: object) -> None:
        nonlocal seen
        seen += 1

    class Enough(Exception):
        pass

    async def stop(_: float) -> None:
        raise Enough

    informer = Informer(
        client,
        POD,
        note,
        clock=SystemClock(),
        rng=seeded_random(1),
        label_selector=f"count={count}",
        sleep=stop,
    )
    # The server has no list: the informer begins with an empty one, as if it had been read.
    reflector = informer._reflector  # noqa: SLF001 - there is no other way in
    reflector.ask()
    end = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":'
    list(reflector.received([end + b'{"k8s.io/initial-events-end":"true"}}}}']))
    with suppress(Enough):
        await informer.run()
    assert len(informer.objects) == seen
    return seen


async def read_list(client: Client, count: int) -> int:
    """A list of all pods."""
    found = await client.list(POD)
    assert len(found.items) == count
    return count


async def bind(client: Client, count: int) -> int:
    """Bindings, many at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            metadata = ObjectMeta(name=f"pod-{number}", namespace="shop", uid=f"uid-{number}")
            await client.bind(Pod(metadata=metadata), "node-1")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(work())
    return count


def ours(work: Callable[[Client, int], Awaitable[int]]) -> Measure:
    """Run a coroutine with a client of ours."""

    async def main(access: Access, count: int) -> int:
        transport = connect(access, clock=SystemClock(), environment=os.environ)
        try:
            return await work(Client(transport, rng=seeded_random(1)), count)
        finally:
            await transport.close()

    return lambda access, count: uvloop.run(main(access, count))


def official(access: Access) -> Any:
    """The official client's CoreV1Api for the same server."""
    import kubernetes

    configuration = kubernetes.client.Configuration()
    configuration.host = access.server
    configuration.ssl_ca_cert = str(access.authority)
    return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))


def official_decode(access: Access, count: int) -> int:
    """Events of a watch, as V1Pod."""
    import kubernetes

    watch: Any = kubernetes.watch.Watch  # its package has types only in part
    watch = watch()
    core = official(access)
    seen = 0
    for _ in watch.stream(core.list_pod_for_all_namespaces, label_selector=f"count={count}"):
        seen += 1
        if seen == count:
            watch.stop()
    return seen


def official_list(access: Access, count: int) -> int:
    """Pages of a list, as V1Pod."""
    core, seen, token = official(access), 0, None
    while seen < count:
        found = core.list_pod_for_all_namespaces(limit=500, _continue=token)
        seen += len(found.items)
        token = found.metadata._continue  # noqa: SLF001 - its name there
    return seen


def official_bind(access: Access, count: int) -> int:
    """Bindings, one after the other."""
    import kubernetes

    core, models = official(access), kubernetes.client
    for number in range(count):
        body = models.V1Binding(
            metadata=models.V1ObjectMeta(name=f"pod-{number}", namespace="shop"),
            target=models.V1ObjectReference(api_version="v1", kind="Node", name="node-1"),
        )
        core.create_namespaced_binding("shop", body, _preload_content=False)
    return count


MEASURES: dict[str, tuple[Measure, int]] = {
    "decode": (ours(decode), OBJECTS),
    "informer": (ours(inform), OBJECTS),
    "list": (ours(read_list), OBJECTS),
    "bind": (ours(bind), BINDINGS),
    "official decode": (official_decode, OFFICIAL),
    "official list": (official_list, OBJECTS),
    "official bind": (official_bind, OFFICIAL),
}


@contextmanager
def serving() -> Iterator[Access]:
    """A server in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as name:
        folder = Path(name)
        write_certificate(folder)
        command = [sys.executable, "-m", "bench.client_server", name, str(OBJECTS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            port = server.stdout.readline().decode().strip()
            try:
                yield Access(f"https://127.0.0.1:{port}", authority=folder / "tls.crt")
            finally:
                server.kill()


def main(arguments: list[str]) -> int:
    """Measure what was asked for; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    asked = parser.parse_args(arguments)
    clock = SystemClock()
    print(f"{machine()}, uvloop {version('uvloop')}, an event is {len(event(1))} bytes")
    print(f"{'objects per CPU second':<24}{'best':>10}{'median':>10}{'worst':>10}")
    is_met = True
    with serving() as access:
        for name in asked.only:
            measure, count = MEASURES[name]
            rates = []
            for _ in range(asked.runs):
                gc.collect()
                gc.disable()
                started_s = clock.cpu_s()
                seen = measure(access, count)
                rates.append(seen / (clock.cpu_s() - started_s))
                gc.enable()
                assert seen == count, f"{name}: {seen} of {count}"
            best, median, worst = max(rates), statistics.median(rates), min(rates)
            print(f"{name:<24}{best:>10,.0f}{median:>10,.0f}{worst:>10,.0f}", flush=True)
            is_met = is_met and (name != "decode" or best >= BAR_DECODE)
    if "decode" in asked.only:
        print(f"bar for decode, best: {BAR_DECODE:,}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
