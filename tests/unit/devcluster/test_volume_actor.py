"""A running scheduler with volumes and a volume controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.clock import seeded_random
from mooring.devcluster.volume_actor import VolumeActor
from mooring.errors import Conflict
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@asynccontextmanager
async def life_with_volumes(*objects: Any) -> AsyncIterator[Life]:
    async with run_scheduler(*objects) as life, asyncio.TaskGroup() as tasks:
        actor = VolumeActor(life.client, clock=life.clock, rng=seeded_random(0))
        running = tasks.create_task(actor.run())
        yield life
        running.cancel()


async def store(life: Life, path: str, document: dict[str, Any]) -> None:
    await life.client.write("POST", path, json.dumps(document).encode())


async def store_class(life: Life, name: str, provisioner: str, mode: str) -> None:
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    await store(life, "/apis/storage.k8s.io/v1/storageclasses", document)


async def store_claim(life: Life, name: str, class_name: str, size: str = "1Gi") -> None:
    document = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
        },
    }
    await store(life, "/api/v1/namespaces/default/persistentvolumeclaims", document)


async def store_disk(life: Life, name: str, node: str, class_name: str = "local") -> None:
    expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
    document = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"mine": "kept"}},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/mnt"},
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
    }
    await store(life, "/api/v1/persistentvolumes", document)


def pod(name: str, *claims: str) -> Any:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return make_pod(name, spec={"volumes": volumes})


async def until_available(life: Life, name: str) -> None:
    known = life.service.cache.storage
    await life.until(
        lambda: (found := known.volume(name)) is not None and found.status.phase == "Available"
    )


@virtually
async def test_a_pod_gets_a_free_disk_and_goes_where_it_is() -> None:
    async with life_with_volumes(make_node("a"), make_node("b")) as life:
        await store_class(life, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        await store_disk(life, "disk", "b")
        await store_claim(life, "data", "local")
        await until_available(life, "disk")

        await life.create(pod("web", "data"))
        await life.until_seen("bound", "web")

        assert await life.node_of("web") == "b"
        claim = await life.raw("data", "persistentvolumeclaims")
        assert claim["spec"]["volumeName"] == "disk"
        assert claim["status"]["phase"] == "Bound"
        volume = json.loads(await life.client.read(_get("/api/v1/persistentvolumes/disk")))
        # Fields that no scheduler reads are as they were.
        assert volume["spec"]["local"] == {"path": "/mnt"}
        assert volume["metadata"]["annotations"]["mine"] == "kept"
        assert volume["spec"]["claimRef"]["name"] == "data"
        assert life.service.cache.storage.assumed() == ({}, {})


def _get(path: str) -> Any:
    from mooring.client.transport.transport import Request

    return Request("GET", path, deadline_s=5.0)


@virtually
async def test_a_disk_is_made_where_the_pod_goes_and_the_next_pod_follows_it() -> None:
    nodes = [make_node("a", zone="1", unschedulable=True), make_node("b", zone="2")]
    async with life_with_volumes(*nodes) as life:
        await store_class(life, "made", "disk.csi.test", "WaitForFirstConsumer")
        await store_claim(life, "data", "made")

        await life.create(pod("one", "data"))
        await life.until_seen("bound", "one")
        await life.create(pod("two", "data"))
        await life.until_seen("bound", "two")

        assert [await life.node_of(name) for name in ("one", "two")] == ["b", "b"]
        claim = await life.raw("data", "persistentvolumeclaims")
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "b"
        name = claim["spec"]["volumeName"]
        volume = json.loads(await life.client.read(_get(f"/api/v1/persistentvolumes/{name}")))
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["2"]}]


@virtually
async def test_a_claim_that_does_not_wait_for_a_pod_is_bound_by_itself_and_wakes_the_pod() -> None:
    async with life_with_volumes(make_node("a")) as life:
        await store_class(life, "now", "disk.csi.test", "Immediate")
        await life.create(pod("web", "data"))
        await life.until_seen("failed", "web")
        assert life.observer.of("failed")[0][2].startswith(
            '0/1 nodes are available: persistentvolumeclaim "data" not found.'
        )

        await store_claim(life, "data", "now")
        await life.until_seen("bound", "web")


@virtually
async def test_a_refused_write_gives_the_disk_back_and_the_pod_is_tried_again() -> None:
    async with life_with_volumes(make_node("a")) as life:
        await store_class(life, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        await store_disk(life, "disk", "a")
        await store_claim(life, "data", "local")
        await until_available(life, "disk")

        async def refuse(_: Any) -> None:
            raise Conflict("somebody else was faster", status=409)

        life.wire.before.append(on("PATCH", "/persistentvolumes/disk")(refuse))
        await life.create(pod("web", "data"))
        await life.until_seen("failed", "web")
        (_, _, told) = life.observer.of("failed")[0]
        assert "somebody else was faster" in told
        assert life.service.cache.storage.assumed() == ({}, {})

        await life.until_seen("bound", "web")


@virtually
async def test_pods_compete_for_disks_and_each_gets_its_own() -> None:
    nodes = [make_node(name) for name in "abc"]
    async with life_with_volumes(*nodes) as life:
        await store_class(life, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        for name in "abc":
            await store_disk(life, f"disk-{name}", name)
            await until_available(life, f"disk-{name}")
        for number in range(4):
            await store_claim(life, f"data-{number}", "local")

        await life.create(*(pod(f"p{number}", f"data-{number}") for number in range(4)))
        await life.until(lambda: len(life.observer.names("bound")) == 3)
        await life.until(lambda: life.observer.of("failed"))

        placed = life.observer.names("bound")
        assert sorted([await life.node_of(name) for name in placed]) == ["a", "b", "c"]
        (left,) = {f"p{number}" for number in range(4)} - set(placed)
        told = [detail for _, name, detail in life.observer.of("failed") if name == left]
        assert "3 node(s) didn't find available persistent volumes to bind" in told[-1]

        await store_disk(life, "disk-more", "b")
        await life.until_seen("bound", left)
        assert await life.node_of(left) == "b"


@virtually
async def test_a_claim_whose_class_is_not_an_object_is_bound_to_a_volume_of_this_class() -> None:
    async with life_with_volumes(make_node("a"), make_node("b")) as life:
        await store_disk(life, "disk", "b", class_name="manual")
        await until_available(life, "disk")
        await store_claim(life, "data", "manual")
        await life.create(pod("web", "data"))
        await life.until_seen("bound", "web")

        assert await life.node_of("web") == "b"
        await life.client.delete("Pod", "web", "default")
        await life.client.delete("PersistentVolumeClaim", "data", "default")
        known = life.service.cache.storage
        await life.until(
            lambda: (disk := known.volume("disk")) is not None and disk.status.phase == "Released"
        )


@virtually
async def test_a_made_volume_is_deleted_with_its_claim() -> None:
    async with life_with_volumes(make_node("a")) as life:
        await store_class(life, "now", "disk.csi.test", "Immediate")
        await store_claim(life, "data", "now")
        await life.create(pod("web", "data"))
        await life.until_seen("bound", "web")
        claim = await life.raw("data", "persistentvolumeclaims")
        name = claim["spec"]["volumeName"]

        await life.client.delete("Pod", "web", "default")
        await life.client.delete("PersistentVolumeClaim", "data", "default")
        await life.until(lambda: life.service.cache.storage.volume(name) is None)


@virtually
async def test_two_claims_that_fit_a_volume_do_not_share_it() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        for name in ("one", "two"):
            await store_claim(life, name, "manual")
        await store_disk(life, "disk", "a", "manual")
        status = {"status": {"phase": "Available"}}
        await life.client.patch("PersistentVolume", "disk", status, subresource="status")
        actor = VolumeActor(life.client, clock=life.clock, rng=seeded_random(0))
        running = tasks.create_task(actor.run())
        await asyncio.sleep(5)
        claims = [await life.raw(name, "persistentvolumeclaims") for name in ("one", "two")]
        bound = [claim["spec"].get("volumeName", "") for claim in claims]
        assert sorted(bound) == ["", "disk"]
        volume = json.loads(await life.client.read(_get("/api/v1/persistentvolumes/disk")))
        owner = claims[bound.index("disk")]["metadata"]["name"]
        assert volume["spec"]["claimRef"]["name"] == owner
        running.cancel()
