"""Two equal real clusters with devices: mooring allocates what kube-scheduler allocates.

kube-controller-manager makes claims from templates, and releases those of deleted pods. Both
schedulers are system:kube-scheduler.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import ExitStack

import pytest

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.testing.controlplane import ControlPlane
from tests.integration.device_cases import Outcome, Player
from tests.integration.schedulers import run, scheduling, transport_to

pytestmark = pytest.mark.slow

#: One node after the other, and all of them: then nothing is left to chance.
PLAIN = {"parallelism": 1, "percentageOfNodesToScore": 100}
PODS = 150


async def outcomes_on(plane: ControlPlane, *, with_mooring: bool) -> list[Outcome]:
    """Returns the outcomes of the pods on this control plane."""
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        player = Player(Client(transport, rng=seeded_random(3)), PODS)
        if not with_mooring:
            return await player.outcomes()
        own = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
        async with transport_to(own) as way, scheduling(way):
            return await player.outcomes()
    finally:
        await transport.close()


@pytest.mark.usefixtures("programs")
def test_the_same_pods_get_the_same_devices() -> None:
    results: list[list[Outcome]] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(outcomes_on(plane, with_mooring=False))
            ours = tasks.create_task(outcomes_on(bare, with_mooring=True))
        results.extend([theirs.result(), ours.result()])

    with ExitStack() as stack:
        plane, bare = (
            stack.enter_context(
                ControlPlane(
                    scheduler=has_scheduler,
                    controller_manager=True,
                    scheduler_configuration=PLAIN,
                )
            )
            for has_scheduler in (True, False)
        )
        run(both)
    theirs, ours = results
    assert len(theirs) == PODS
    for their, our in zip(theirs, ours, strict=True):
        assert our == their
    # It is worth something only if every kind of outcome occurs.
    assert sum(bool(outcome.node) for outcome in theirs) > PODS / 2
    assert len({outcome.message for outcome in theirs}) >= 3
    assert sum(len(outcome.claims) for outcome in theirs) > PODS / 2
    texts = json.dumps([outcome.claims for outcome in theirs])
    for part in ("bindingConditions", "consumedCapacity", "r/best", "r/other", "-extended-"):
        assert part in texts
