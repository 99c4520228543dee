"""The random scheduler beside the real kube-scheduler: each takes its own pods, none is lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.config import loads
from mooring.objects.codec.decode import to_builtins
from mooring.objects.files.documents import yaml_documents
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane import Access, ControlPlane, write_kubeconfig
from tests.integration.processes import mooring, wait_until
from tests.integration.schedulers import create_all, run, scheduling, transport_to, until

DEPLOY = Path(__file__).parents[2] / "deploy"
#: The kustomizations have a test of their own: test_deploy.py.
MANIFESTS = [
    path
    for path in sorted(DEPLOY.rglob("*.yaml"))
    if path.relative_to(DEPLOY).parts[0] not in ("kustomize", "monitoring")
]
RANDOM, DEFAULT = 500, 100


def configuration() -> str:
    """Returns the configuration in the manifest."""
    text = (DEPLOY / "random-scheduler" / "deployment.yaml").read_text()
    config_map = next(iter(yaml_documents(text.encode()))).value
    found: str = config_map["data"]["config.yaml"]
    return found


def test_each_scheduler_takes_its_own_pods(programs: Path) -> None:
    async def main(plane: ControlPlane) -> None:
        clock = SystemClock()
        access = read_kubeconfig([str(plane.kubeconfig("admin"))])
        transport = connect(access, clock=clock, environment=os.environ)
        client = Client(transport, rng=seeded_random(3))
        own = read_kubeconfig([str(plane.kubeconfig("mooring"))])
        try:
            async with (
                transport_to(own) as way,
                scheduling(way, config=loads(configuration())) as service,
            ):
                await create_all(client, [make_node(f"node-{number}") for number in range(10)])
                lucky = [
                    make_pod(f"lucky-{number}", scheduler_name="random-scheduler")
                    for number in range(RANDOM)
                ]
                plain = [make_pod(f"plain-{number}") for number in range(DEFAULT)]
                await create_all(client, [*lucky, *plain])
                pods = service.informers["Pod"].objects
                await until(
                    lambda: (
                        len(pods) == RANDOM + DEFAULT
                        and all(pod.spec.node_name for pod in pods.values())
                    )
                )
                await until(lambda: service.is_settled)
                await check_events(client)
                nodes = {pod.spec.node_name for pod in pods.values()}
                assert len(nodes) == 10  # dice: each node gets some
        finally:
            await transport.close()

    del programs
    with ControlPlane(scheduler=True) as plane:
        run(lambda: main(plane))


async def check_events(client: Client) -> None:
    """Checks the scheduler and the message of each binding."""
    ours, theirs = 0, 0
    while theirs < DEFAULT:  # kube-scheduler's come a moment later
        events = [e for e in (await client.list("Event")).items if e.reason == "Scheduled"]
        theirs = sum(event.reporting_controller == "default-scheduler" for event in events)
        await asyncio.sleep(0.1)
    for event in events:
        name = event.regarding.name
        if event.reporting_controller == "random-scheduler":
            ours += 1
            told = rf"pod \[default/{name}\] is successfully scheduled to node node-[0-9]"
            assert re.fullmatch(told, event.note)
            assert name.startswith("lucky-")
            assert event.type == "Normal"
            assert event.regarding.uid
        else:
            assert name.startswith("plain-")
    assert ours == RANDOM


def test_it_schedules_as_it_is_deployed_with_its_own_rights(programs: Path, tmp_path: Path) -> None:
    """Beside kube-scheduler: as a process with the manifests' configuration, account and rights."""
    folder = DEPLOY / "random-scheduler"
    config = tmp_path / "config.yaml"
    config.write_text(configuration())
    with ControlPlane(programs=programs, scheduler=True) as plane:
        plane.kubectl("apply", "-f", str(folder / "rbac.yaml"))
        token = plane.service_account_token("random-scheduler")
        access = tmp_path / "kubeconfig"
        write_kubeconfig(access, url=plane.url, authority=plane.authority, token=token)
        nodes = [to_builtins(make_node(f"node-{number}")) for number in range(3)]
        for node in nodes:
            plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
        plane.kubectl("create", "serviceaccount", "default", "-n", "default")
        with mooring(tmp_path, "run", f"--config={config}", f"--kubeconfig={access}") as program:
            plane.kubectl("apply", "-f", str(folder / "sample-pods.yaml"))
            where = ("get", "pod", "lucky", "--output=jsonpath={.spec.nodeName}")
            wait_until(
                lambda: plane.kubectl(*where) in {node["metadata"]["name"] for node in nodes}
            )
            assert "cannot acquire" not in program.said()
            leases = plane.kubectl("get", "leases", "-n", "kube-system", "--output=name")
            assert "lease.coordination.k8s.io/random-scheduler" in leases


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_manifests_are_taken_by_a_real_server(plane: Access, path: Path) -> None:
    told = plane.kubectl("apply", "--dry-run=server", "-f", str(path))
    assert "(server dry run)" in told
