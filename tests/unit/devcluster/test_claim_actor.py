"""The claim controller on an API server; the test writes what a scheduler would write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.devcluster.claim_actor import ClaimActor
from mooring.errors import NotFound
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceClaimTemplate
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.devices import exactly, make_claim
from tests.helpers.running_scheduler import virtually

FINALIZER = "resource.kubernetes.io/delete-protection"
RESULT = {"request": "r", "driver": "gpu.test", "pool": "a", "device": "d0"}


class Cluster:
    """An API server and a running claim controller."""

    def __init__(self) -> None:
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
        api = ApiServer(clock, rng, instant_deletion=True)
        self.client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
        self.actor = ClaimActor(self.client, clock=clock, rng=rng)

    async def create(self, *objects: Any) -> None:
        for obj in objects:
            await self.client.create(obj)

    async def pod(self, name: str = "web") -> Pod:
        pod: Pod = await self.client.get("Pod", name, "default")
        return pod

    async def claims(self) -> list[ResourceClaim]:
        await asyncio.sleep(1.0)
        return list((await self.client.list("ResourceClaim", "default")).items)

    async def allocate(self, claim: ResourceClaim, *pods: Pod) -> None:
        """Writes the finalizer, the allocation and the users, as a scheduler does."""
        patch: dict[str, Any] = {"metadata": {"finalizers": [FINALIZER]}}
        name = claim.metadata.name
        await self.client.patch("ResourceClaim", name, patch, namespace="default")
        users = [
            {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in pods
        ]
        allocation = {"devices": {"results": [RESULT]}}
        status = {"status": {"allocation": allocation, "reservedFor": users}}
        await self.client.patch(
            "ResourceClaim", name, status, namespace="default", subresource="status"
        )


@asynccontextmanager
async def cluster(*objects: Any) -> AsyncIterator[Cluster]:
    world = Cluster()
    await world.create(make_node("a"), *objects)
    running = asyncio.create_task(world.actor.run())
    yield world
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def template(name: str = "gpus") -> ResourceClaimTemplate:
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "metadata": {"labels": {"team": "ml"}, "annotations": {"note": "kept"}},
            "spec": {"devices": {"requests": [exactly(device_class="gpu", count=2)]}},
        },
    }
    return msgspec.convert(document, ResourceClaimTemplate)


def pod(name: str = "web", **spec: Any) -> Pod:
    entry = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
    return make_pod(name, spec={"resourceClaims": [entry], **spec})


def shared_pod(name: str) -> Pod:
    return make_pod(name, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "both"}]})


@virtually
async def test_a_pod_gets_the_claim_of_its_template() -> None:
    async with cluster(template(), pod()) as world:
        (claim,) = await world.claims()
        stored = await world.pod()
    metadata = claim.metadata
    assert metadata.generate_name == "web-gpu-"
    assert metadata.name.startswith("web-gpu-")
    assert metadata.labels == {"team": "ml"}
    assert metadata.annotations == {
        "note": "kept",
        "resource.kubernetes.io/pod-claim-name": "gpu",
    }
    (owner,) = metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "web", stored.metadata.uid)
    assert owner.controller is True
    assert claim.spec == template().spec.spec
    (status,) = stored.status.resource_claim_statuses
    assert (status.name, status.resource_claim_name) == ("gpu", metadata.name)


@virtually
async def test_a_pod_gets_its_claim_when_the_template_is_created() -> None:
    async with cluster(pod()) as world:
        assert await world.claims() == []
        await world.create(template())
        assert len(await world.claims()) == 1


@virtually
async def test_a_claim_that_was_made_before_is_used() -> None:
    async with cluster(pod()) as world:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "controller": True}
        claim = make_claim(
            "earlier",
            exactly(),
            annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
            ownerReferences=[{**owner, "uid": (await world.pod()).metadata.uid}],
        )
        await world.create(claim, template())
        await world.claims()
        (status,) = (await world.pod()).status.resource_claim_statuses
        assert status.resource_claim_name == "earlier"


@virtually
async def test_the_claim_of_a_deleted_pod_is_deallocated_and_deleted() -> None:
    async with cluster(template(), pod()) as world:
        (claim,) = await world.claims()
        await world.allocate(claim, await world.pod())
        await world.client.delete("Pod", "web", "default")
        assert await world.claims() == []


@virtually
async def test_the_claim_of_a_finished_pod_is_deleted() -> None:
    async with cluster(template(), pod(nodeName="a")) as world:
        (claim,) = await world.claims()
        await world.allocate(claim, await world.pod())
        await world.client.patch_pod_status(await world.pod(), {"phase": "Succeeded"})
        assert await world.claims() == []


@virtually
async def test_a_shared_claim_is_deallocated_with_its_last_user() -> None:
    both = make_claim("both", exactly())
    async with cluster(both, shared_pod("one"), shared_pod("two")) as world:
        pods = [await world.pod(name) for name in ("one", "two")]
        await world.allocate(both, *pods)
        await world.client.delete("Pod", "one", "default")
        (claim,) = await world.claims()
        assert [user.name for user in claim.status.reserved_for] == ["two"]
        assert claim.status.allocation is not None
        await world.client.delete("Pod", "two", "default")
        (claim,) = await world.claims()
        assert claim.status.reserved_for == ()
        assert claim.status.allocation is None
        assert claim.metadata.finalizers == ()


@virtually
async def test_an_unused_claim_with_an_allocation_can_be_deleted() -> None:
    both = make_claim("both", exactly())
    async with cluster(both) as world:
        await world.allocate(both)
        await world.client.delete("ResourceClaim", "both", "default")
        assert await world.claims() == []


@virtually
async def test_a_deleted_claim_is_made_again() -> None:
    async with cluster(template(), pod()) as world:
        (first,) = await world.claims()
        await world.client.delete("ResourceClaim", first.metadata.name, "default")
        (second,) = await world.claims()
        assert second.metadata.uid != first.metadata.uid
        (status,) = (await world.pod()).status.resource_claim_statuses
        assert status.resource_claim_name == second.metadata.name


@virtually
async def test_pods_without_a_template_are_left_alone() -> None:
    async with cluster(make_pod("web")) as world:
        assert await world.claims() == []
        try:
            await world.client.get("ResourceClaim", "web-gpu", "default")
        except NotFound:
            return
    raise AssertionError("a claim was made")


@virtually
async def test_a_pod_gets_the_claims_of_its_ephemeral_volumes() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim_template = {"metadata": {"labels": {"team": "db"}}, "spec": spec}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim_template}}
    async with cluster(make_pod("web", spec={"volumes": [volume]})) as world:
        await asyncio.sleep(1.0)
        (claim,) = (await world.client.list("PersistentVolumeClaim", "default")).items
        stored = await world.pod()

        await world.client.delete("Pod", "web", "default")
        await asyncio.sleep(1.0)
        after = (await world.client.list("PersistentVolumeClaim", "default")).items
    assert (claim.metadata.name, claim.metadata.labels) == ("web-scratch", {"team": "db"})
    (owner,) = claim.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", stored.metadata.uid, True)
    assert claim.spec.resources.requests == {"storage": "1Gi"}
    assert list(after) == []
