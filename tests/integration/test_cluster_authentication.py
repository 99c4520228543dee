"""The ConfigMap of authorities on a kube-apiserver whose history begins after its last change."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from mooring.client import Client
from mooring.clock import SystemClock, seeded_random
from mooring.serving.cluster_authentication import NAME, NAMESPACE, ClusterAuthentication
from mooring.testing import make_node
from mooring.testing.controlplane import ControlPlane
from tests.helpers.certificates import authority
from tests.integration.schedulers import Real, create_all, run, transport_to, until

KEY = "client-ca-file"


def patch(plane: ControlPlane, change: object) -> None:
    """Changes the ConfigMap."""
    plane.kubectl(
        *("patch", "configmap", NAME, f"--namespace={NAMESPACE}", "--type=merge"),
        *("--patch", json.dumps(change)),
        identity="admin",
    )


@pytest.mark.usefixtures("programs")
def test_changes_arrive_after_a_restart_of_the_api_server(caplog: pytest.LogCaptureFixture) -> None:
    added = authority("other").pem

    async def main() -> None:
        server = Real(plane)
        async with transport_to(server.access()) as transport:
            # The ConfigMap is older than the version at which the restarted server begins.
            client = Client(transport, rng=seeded_random(1))
            await create_all(client, [make_node(f"n-{number}") for number in range(20)])
        plane.apiserver.restart()
        scheduler = server.access("system:kube-scheduler")
        async with transport_to(scheduler) as own:
            subject = ClusterAuthentication(own, clock=SystemClock(), rng=seeded_random(2))
            running = asyncio.create_task(subject.run())
            await until(lambda: subject.client_ca is not None)
            assert subject.client_ca is not None
            both = (subject.client_ca.pem + added).decode()
            # kube-apiserver leaves what others have added.
            await asyncio.to_thread(partial(patch, plane, {"data": {KEY: both}}))
            await until(lambda: subject.client_ca and added in subject.client_ca.pem)
            running.cancel()

    with ControlPlane() as plane:
        run(main)
    assert [record.getMessage() for record in caplog.records] == []
