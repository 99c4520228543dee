"""The events of the volume controller and of the resource claim controller, in upstream's words."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.apiserver.registry.own_events import OwnEvents
from mooring.apiserver.resources import resource_named
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.devcluster.claim_actor import ClaimActor
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.volume_actor import VolumeActor
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually
from tests.helpers.volume_objects import LATE, claim, storage_class


async def events_of(*objects: Any) -> list[tuple[str, str, str, str]]:
    """Returns source, type, reason and message of what is recorded when the objects are created."""
    clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
    api = ApiServer(clock, rng)
    client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
    recorder = EventRecorder(OwnEvents(api.registry), clock)
    actors = [
        actor(client, clock=clock, rng=rng, events=recorder) for actor in (ClaimActor, VolumeActor)
    ]
    running = [asyncio.create_task(actor.run()) for actor in actors]
    for obj in objects:
        await client.create(obj)
        await asyncio.sleep(1.0)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    stored = api.store.collection(resource_named("", "events")).in_order()
    events = [item.object() for item in stored]
    return [
        (event["source"]["component"], event["type"], event["reason"], event["message"])
        for event in events
    ]


@virtually
async def test_a_template_that_does_not_exist_is_recorded_for_the_pod() -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
    pod = make_pod("web", spec={"resourceClaims": [entry]})

    text = 'resource claim template "gpus": resourceclaimtemplate.resource.k8s.io "gpus" not found'
    assert await events_of(pod) == [
        (
            "resource_claim",
            "Warning",
            "FailedResourceClaimCreation",
            f"PodResourceClaim gpu: {text}",
        )
    ]


@virtually
async def test_why_a_volume_claim_waits_is_recorded() -> None:
    late = storage_class("late", mode=LATE)
    recorded = await events_of(
        late,
        claim("one", storage_class="late", version=""),
        claim("two", storage_class="gone", version=""),
        claim("three", storage_class="", version=""),
    )

    assert {reason: message for _, _, reason, message in recorded} == {
        "WaitForFirstConsumer": "waiting for first consumer to be created before binding",
        "ProvisioningFailed": 'storageclass.storage.k8s.io "gone" not found',
        "FailedBinding": (
            "no persistent volumes available for this claim and no storage class is set"
        ),
    }
