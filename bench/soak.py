"""A scheduler for minutes or hours in a cluster that changes all the time: nothing may grow.

``python -m bench soak --minutes 10 --nodes 5000``: the scheduler runs in this process, with leader
election and metrics as in ``mooring run``; the API server and the load (``bench.soak_load``) are
processes of their own. After a warm-up, samples of the first third are compared with samples of the
last third: ``bench.soak_samples``. The limits of caches are lowered, so that they are full by then.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from bench.machine import calibration_ms, machine
from bench.soak_samples import (
    LOAD,
    Samples,
    container_sample,
    growths,
    lower_limits,
    object_sample,
    process_sample,
)
from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.client.transport.metered import MeteredTransport
from mooring.clock import SystemClock, seeded_random
from mooring.config import default_configuration
from mooring.event_loop import loop_factory
from mooring.metrics.registry import Metrics
from mooring.queue import QueueName
from mooring.scheduler.heap_trim import keep_heap_trimmed
from mooring.scheduler.leader_election import make_elector
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import controlplane

#: No divisor of the scheduler's own intervals: samples are of all phases of them.
SAMPLE_INTERVAL_S: Final = 3.7
#: Share of the time that is warm-up: the number of pods becomes constant, caches fill.
WARM_UP: Final = 0.25
SAMPLES_MIN: Final = 12
#: Lines of a report.
LINES_MAX: Final = 25
START_S_MAX: Final = 300.0
#: The series that are always printed.
PRINTED: Final = ("process: ", "queue: ", "metrics: ", "service: ")


def main(arguments: list[str]) -> int:
    """Runs the soak; 1 if something grows, or if pods were not scheduled."""
    words = _parser().parse_args(arguments)
    # As SIGINT: the processes of server and load end, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{machine()}; calibration {calibration_ms():.0f} ms")
    print(f"{words.nodes} nodes, {words.rate:g} pods/s, {words.minutes:g} minutes, {words.server}")
    with (
        tempfile.TemporaryDirectory() as folder,
        api_server(words.server, Path(folder)) as kubeconfig,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(_soak(kubeconfig, words))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=80.0, help="pods a second")
    parser.add_argument("--server", choices=("embedded", "real"), default="embedded")
    return parser


@contextmanager
def api_server(kind: str, folder: Path) -> Iterator[Path]:
    """Runs an API server; yields the administrator's kubeconfig."""
    if kind == "real":
        with controlplane.ControlPlane() as plane:
            yield plane.kubeconfig("admin")
        return
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "mooring", "apiserver", "--port=0", "--instant-deletion"]
    with _process([*command, f"--kubeconfig-out={kubeconfig}"]):
        yield kubeconfig


@contextmanager
def _process(command: list[str]) -> Iterator[None]:
    """Runs a program during the block, and waits for its first line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{' '.join(command)} ended with code {process.wait()}")
        try:
            yield
        finally:
            process.terminate()
            rest = process.stdout.read().strip()
            if "created" in rest:
                print(rest)


@asynccontextmanager
async def _scheduler(kubeconfig: Path) -> AsyncIterator[tuple[Service, Metrics]]:
    """Runs a scheduler as ``mooring run`` does."""
    clock, rng = SystemClock(), seeded_random(1)
    metrics = Metrics(clock=clock)
    access = find_access(str(kubeconfig), environment=os.environ)
    connection = connect(access, clock=clock, environment=os.environ)
    transport = MeteredTransport(connection, metrics.client, server=access.server)
    config = default_configuration()
    elector = make_elector(transport, config, clock=clock, rng=rng)
    assert elector is not None
    service = Service(
        Client(transport, rng=rng, fence=elector.fence),
        config,
        clock=clock,
        rng=rng,
        options=ServiceOptions(elector=elector, metrics=metrics),
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.run())
        trimming = tasks.create_task(keep_heap_trimmed())
        yield service, metrics
        trimming.cancel()
        service.stop()
        await running
    await transport.close()


async def _soak(kubeconfig: Path, words: argparse.Namespace) -> int:
    load = [sys.executable, "-m", "bench.soak_load", f"--kubeconfig={kubeconfig}"]
    with _process([*load, f"--nodes={words.nodes}", f"--rate={words.rate}"]):
        async with _scheduler(kubeconfig) as (service, metrics):
            samples = await _samples(service, metrics, words.minutes)
    print(f"cyclic garbage at the end: {gc.collect():,} objects")
    return _report(samples)


async def _samples(service: Service, metrics: Metrics, minutes: float) -> Samples:
    """Returns the samples of so many minutes, and prints one in ten."""
    async with asyncio.timeout(START_S_MAX):
        await service.wait_until_synced()
    lower_limits(service)
    count = max(SAMPLES_MIN, int(minutes * 60 / SAMPLE_INTERVAL_S))
    samples = Samples(count)
    for number in range(count):
        await asyncio.sleep(SAMPLE_INTERVAL_S)
        sample = _sample(service, metrics)
        samples.add(sample)
        if number % (count // 10) == 0:
            print(f"  {number / count:4.0%}  {_line(sample)}", flush=True)
    return samples


def _sample(service: Service, metrics: Metrics) -> dict[str, float]:
    """Returns all series of one moment."""
    queues = service.queue.counts()
    return {
        **process_sample(),
        **{f"queue: {name.value}": queues.get(name, 0) for name in QueueName},
        "queue: in-flight events": service.queue.in_flight_events,
        "service: bindings": len(service.bindings),
        "service: assumed pods": service.cache.assumed_count(),
        "service: pods": len(service.cache.pods),
        "service: nodes": len(service.cache.nodes),
        LOAD: int((service.cache.nodes.pod_count > 0).sum()),
        "metrics: bytes of a scrape": len(metrics.expose()[0]),
        **object_sample(),
        **container_sample(service),
        **{f"informer: {name}": len(each.objects) for name, each in service.informers.items()},
    }


def _line(sample: dict[str, float]) -> str:
    rss = sample["process: resident bytes"] / 2**20
    names = ("service: pods", "service: nodes", "process: tasks", "process: memory blocks")
    rest = ", ".join(f"{sample[name]:,.0f} {name.partition(': ')[2]}" for name in names)
    return f"{rss:.1f} MiB, {rest}"


def _report(samples: Samples) -> int:
    """Prints the verdict; returns the exit code."""
    every = growths(samples, warm_up=WARM_UP)
    print(f"{samples.count} samples; medians of the first and the last third after the warm-up:")
    for growth in every:
        if growth.name.startswith(PRINTED):
            print(f"  {growth}")
    print(f"and {len(every)} series in all, objects by type and containers by path")
    growing = sorted(
        (growth for growth in every if growth.is_growing), key=lambda each: each.first - each.last
    )
    for growth in growing[:LINES_MAX]:
        print(f"  GROWS {growth}")
    pods = statistics.median(samples.series["service: pods"])
    if not pods:
        print("no pod was scheduled")
    print("nothing grows" if not growing else f"{len(growing)} series grow")
    return int(bool(growing) or not pods)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
