"""The metrics of mooring and of the real kube-scheduler after the same workload."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import ExitStack
from typing import Any

import aiohttp
import pytest

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.client.transport.metered import MeteredTransport
from mooring.clock import SystemClock, seeded_random
from mooring.metrics.options import Feature, MetricsOptions
from mooring.metrics.registry import Metrics
from mooring.objects import Pod
from mooring.objects.codec.decode import convert
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane import ControlPlane
from tests.helpers.exposition import ParsedFamily, parse
from tests.integration.schedulers import create_all, run, scheduling, transport_to, until

PROFILE = "default-scheduler"
PLAIN = {
    "parallelism": 1,
    "percentageOfNodesToScore": 100,
    "leaderElection": {"leaderElect": True},
}
NODES = 6
BOUND = 20

#: Families of libraries that a Go scheduler links: constant, or about Go.
LIBRARIES = ("go_", "apiserver_", "aggregator_", "workqueue_", "authentication_", "authorization_")
#: Ours: the interpreter's, and those of ``mooring_``.
OURS = ("python_", "mooring_", "go_goroutines", "scheduler_plugin_errors_total")

#: kube-scheduler's families that mooring does not have, and why.
NOT_HERE = {
    # The cache of client-go's transports, and its rate limiter.
    "rest_client_transport_cache_entries",
    "rest_client_transport_cert_rotation_gc_calls_total",
    "rest_client_transport_create_calls_total",
    "rest_client_rate_limiter_duration_seconds",
    # Python's process collector does not have them.
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_virtual_memory_max_bytes",
    # The server's, compared in test_serving_peer.
    "authenticated_user_requests",
    "disabled_metric_total",
}

#: Gauges and histograms whose values may be compared, since nothing in them is chance.
EXACT = (
    "scheduler_schedule_attempts_total",
    "scheduler_pending_pods",
    "scheduler_unschedulable_pods",
    "scheduler_preemption_attempts_total",
    "scheduler_cache_size",
    "scheduler_plugin_evaluation_total",
    "scheduler_queue_incoming_pods_total",
)


#: Histograms whose observations are counted: every series has as many.
COUNTED = (
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_preemption_victims",
    "scheduler_event_handling_duration_seconds",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
)


def pods() -> list[Pod]:
    """Returns pods that are bound one after another."""
    return [
        make_pod(f"web-{number:02}", requests={"cpu": "100m"}, labels={"app": "web"})
        for number in range(BOUND)
    ]


async def workload(client: Client) -> None:
    """Binds, refuses, gates and preempts pods, and changes a node and a pod."""
    priority = {"metadata": {"name": "high"}, "value": 1000}
    await client.create(convert(priority, "PriorityClass"))
    nodes = [
        make_node(f"n-{number}", allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"})
        for number in range(NODES)
    ]
    await create_all(client, nodes)
    for pod in pods():
        await client.create(pod)
        await until_pod(client, pod, lambda found: bool(found.spec.node_name))
    gated = make_pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    await client.create(gated)
    # Gated by DynamicResources, which has no hint for labels of nodes.
    claims = [{"name": "device", "resourceClaimName": "missing"}]
    await client.create(make_pod("claiming", spec={"resourceClaims": claims}))
    huge = make_pod("huge", requests={"cpu": "64"})
    await client.create(huge)
    await until_pod(client, huge, is_refused)
    picky = make_pod("picky", node_selector={"disk": "ssd"})
    await client.create(picky)
    await until_pod(client, picky, is_refused)
    label = {"metadata": {"labels": {"disk": "ssd"}}}
    await client.patch("Node", "n-0", label)
    await until_pod(client, picky, lambda found: bool(found.spec.node_name))
    await client.delete("Pod", "web-00", "default", grace_period_s=0)


def is_refused(pod: Pod) -> bool:
    """Returns whether the pod has been tried and refused."""
    return any(condition.reason == "Unschedulable" for condition in pod.status.conditions)


async def until_pod(client: Client, pod: Pod, holds: Any) -> None:
    """Waits until the pod on the server satisfies ``holds``; the test has a deadline."""
    while not holds(await client.get("Pod", pod.metadata.name, "default")):  # noqa: ASYNC110 - polled
        await asyncio.sleep(0.05)


async def of_kube_scheduler(plane: ControlPlane) -> bytes:
    """Runs the workload on the real kube-scheduler; returns its /metrics."""
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        await workload(Client(transport, rng=seeded_random(3)))
    finally:
        await transport.close()
    pair = plane.certificate("admin")
    tls = ssl.create_default_context(cafile=str(plane.authority))
    tls.load_cert_chain(pair.certificate, pair.key)
    await asyncio.sleep(1.5)  # the sizes of its cache are set once a second
    url = f"{plane.scheduler.readiness.url}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls) as response:
        assert response.status == 200
        return await response.read()


async def of_mooring(plane: ControlPlane) -> bytes:
    """Runs the workload on mooring; returns its /metrics."""
    clock = SystemClock()
    options = MetricsOptions(features=[Feature("AnyGate", "BETA", True)])
    metrics = Metrics(options, clock=clock)
    metrics.watch_lease(lambda: True)
    access = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
    admin = read_kubeconfig([str(plane.kubeconfig("admin"))])
    async with transport_to(access) as own, transport_to(admin) as other:
        metered = MeteredTransport(own, metrics.client, server=access.server)
        async with scheduling(metered, metrics=metrics) as service:
            await service.wait_until_synced()
            await workload(Client(other, rng=seeded_random(3)))
            await until(lambda: len(service.cache.pods) == BOUND and service.is_settled)
            return metrics.expose()[0]


def shown(families: dict[str, ParsedFamily]) -> dict[str, ParsedFamily]:
    """Returns the families that are compared."""
    return {
        name: family
        for name, family in families.items()
        if not name.startswith((*LIBRARIES, *OURS)) and name not in NOT_HERE
    }


def counts(family: ParsedFamily) -> dict[Any, float]:
    """Returns the number of observations of each series of a histogram.

    PreEnqueue is one series: kube-scheduler gives it the status Success, whatever it is. Sign is
    left out: it is recorded later, and now and then for a pod more.
    """
    found: dict[Any, float] = {}
    for (name, labels), number in family.values.items():
        series = dict(labels)
        if not name.endswith("_count") or series.get("extension_point") == "Sign":
            continue
        if series.get("extension_point") == "PreEnqueue":
            series["status"] = ""
        key = tuple(series.items())
        found[key] = found.get(key, 0) + number
    return found


@pytest.mark.usefixtures("programs")
def test_the_same_workload_gives_the_same_families() -> None:
    bodies: list[bytes] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(of_kube_scheduler(plane))
            ours = tasks.create_task(of_mooring(bare))
        bodies.extend([theirs.result(), ours.result()])

    with ExitStack() as stack:
        plane, bare = (
            stack.enter_context(ControlPlane(scheduler=is_real, scheduler_configuration=PLAIN))
            for is_real in (True, False)
        )
        run(both)
    theirs, ours = (shown(parse(body)) for body in bodies)
    print("only kube-scheduler:", sorted(theirs.keys() - ours.keys()))
    print("only mooring:", sorted(ours.keys() - theirs.keys()))
    assert sorted(ours) == sorted(theirs)
    for name, family in theirs.items():
        assert (ours[name].kind, ours[name].labels) == (family.kind, family.labels), name
        assert ours[name].buckets == family.buckets, name
        assert ours[name].help.partition(" ")[0] == family.help.partition(" ")[0] or (
            not family.help.startswith("[")
        ), name
    different = {
        name: theirs[name].values.items() ^ ours[name].values.items()
        for name in EXACT
        if theirs[name].values != ours[name].values
    }
    assert different == {}
    for name in COUNTED:
        assert counts(ours[name]) == counts(theirs[name]), name
