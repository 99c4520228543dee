"""Two equal real clusters, the same 200 pods: mooring does what kube-scheduler does, word by word.

kube-controller-manager binds and provisions the volumes; both schedulers are system:kube-scheduler.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.testing.controlplane import ControlPlane
from tests.integration.decisions import Fate, Onlooker, pods, prepare
from tests.integration.schedulers import run, scheduling, transport_to

#: One node after the other, and all of them: then nothing is left to chance.
PLAIN = {"parallelism": 1, "percentageOfNodesToScore": 100}

CONTROLLERS = ("--enable-hostpath-provisioner", "--pvclaimbinder-sync-period=1s")

#: Where the test provisioner makes its volumes.
PROVISIONED = Path("/tmp/hostpath_pv")


async def fates_on(plane: ControlPlane, *, with_mooring: bool) -> list[Fate]:
    """Returns what becomes of the pods on this control plane."""
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    clock = SystemClock()
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        client = Client(transport, rng=seeded_random(3))
        if not with_mooring:
            await prepare(client)
            return await Onlooker(client).fates()
        own = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
        async with transport_to(own) as way, scheduling(way):
            await prepare(client)
            return await Onlooker(client).fates()
    finally:
        await transport.close()


@pytest.mark.usefixtures("programs")
def test_the_same_pods_meet_the_same_fates() -> None:
    found: list[list[Fate]] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(fates_on(plane, with_mooring=False))
            ours = tasks.create_task(fates_on(bare, with_mooring=True))
        found.extend([theirs.result(), ours.result()])

    with ExitStack() as stack:
        plane, bare = (
            stack.enter_context(
                ControlPlane(
                    scheduler=has_scheduler,
                    controller_manager=True,
                    scheduler_configuration=PLAIN,
                    controller_manager_arguments=CONTROLLERS,
                )
            )
            for has_scheduler in (True, False)
        )
        try:
            run(both)
        finally:
            shutil.rmtree(PROVISIONED, ignore_errors=True)
    theirs, ours = found
    assert len(theirs) == len(pods())
    assert ours == theirs
    # It is worth something only if every kind of outcome occurs.
    assert sum(bool(fate.node) for fate in theirs) > 150
    assert sum(bool(fate.victims) for fate in theirs) >= 5
    assert len({fate.message for fate in theirs}) >= 8
