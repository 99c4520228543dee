"""The revisions of DaemonSets and StatefulSets; the test writes what controllers would write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.client.rest.client import Patch
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.devcluster.revision_actor import RevisionActor
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually

APPS = "/apis/apps/v1/namespaces/default"


class Cluster:
    """An API server and the actor."""

    def __init__(self) -> None:
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
        api = ApiServer(clock, rng)
        self.client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
        self.actor = RevisionActor(self.client, clock=clock, rng=rng)

    async def revisions(self) -> list[dict[str, Any]]:
        """Returns the revisions by number, after a second."""
        await asyncio.sleep(1.0)
        body = await self.client.read(Request("GET", f"{APPS}/controllerrevisions", deadline_s=9))
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return sorted(items, key=lambda item: int(item["revision"]))

    async def numbers(self) -> list[tuple[int, str]]:
        """Returns the number and the image of each revision."""
        return [(item["revision"], image_of(item["data"])) for item in await self.revisions()]

    async def create(self, kind: str, image: str, **spec: Any) -> None:
        labels = {"app": "x"}
        pod = {"containers": [{"name": "main", "image": image}]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        obj = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "x", "annotations": {"kubernetes.io/change-cause": "first"}},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }
        path = f"{APPS}/{kind.lower()}s"
        await self.client.write("POST", path, json.dumps(obj).encode())

    async def patch(self, kind: str, body: Any, subresource: str = "") -> dict[str, Any]:
        path = f"{APPS}/{kind.lower()}s/x{subresource}"
        text = json.dumps(body).encode()
        answer = await self.client.write("PATCH", path, text, content_type=Patch.STRATEGIC.value)
        result: dict[str, Any] = json.loads(answer)
        return result

    async def set_image(self, kind: str, image: str) -> None:
        pod = {"containers": [{"name": "main", "image": image}]}
        await self.patch(kind, {"spec": {"template": {"spec": pod}}})


def image_of(data: dict[str, Any]) -> str:
    return str(data["spec"]["template"]["spec"]["containers"][0]["image"])


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    world = Cluster()
    running = asyncio.create_task(world.actor.run())
    yield world
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


KINDS = pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])


@KINDS
@virtually
async def test_each_template_has_one_revision(kind: str) -> None:
    async with cluster() as world:
        await world.create(kind, "a:1")
        (first,) = await world.revisions()
        assert first["revision"] == 1
        assert first["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first"
        assert first["metadata"]["labels"]["app"] == "x"
        (owner,) = first["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == (kind, "x", True)

        await world.patch(kind, {"metadata": {"labels": {"team": "ml"}}})
        await world.set_image(kind, "a:2")
        await world.set_image(kind, "a:3")
        assert await world.numbers() == [(1, "a:1"), (2, "a:2"), (3, "a:3")]


@KINDS
@virtually
async def test_an_earlier_template_gets_a_new_number(kind: str) -> None:
    async with cluster() as world:
        await world.create(kind, "a:1")
        (first,) = await world.revisions()
        await world.set_image(kind, "a:2")
        assert await world.numbers() == [(1, "a:1"), (2, "a:2")]

        # As kubectl rollout undo.
        restored = await world.patch(kind, first["data"])

        assert image_of(restored) == "a:1"
        assert "$patch" not in restored["spec"]["template"]
        assert await world.numbers() == [(2, "a:2"), (3, "a:1")]


@KINDS
@virtually
async def test_old_revisions_are_deleted_after_the_rollout(kind: str) -> None:
    async with cluster() as world:
        await world.create(kind, "a:1", revisionHistoryLimit=1)
        assert await world.numbers() == [(1, "a:1")]
        for number in (2, 3, 4):
            await world.set_image(kind, f"a:{number}")
        assert len(await world.numbers()) == 4, "pods may still have the old ones"

        counts = {"currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1}
        counts |= {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}
        names = {"currentRevision": "x-1", "updateRevision": "x-1", "replicas": 1}
        status = {"observedGeneration": 4, **(names if kind == "StatefulSet" else counts)}
        await world.patch(kind, {"status": status}, "/status")

        assert await world.numbers() == [(3, "a:3"), (4, "a:4")]


@virtually
async def test_revisions_go_with_their_workload() -> None:
    async with cluster() as world:
        await world.create("DaemonSet", "a:1")
        assert len(await world.revisions()) == 1
        await world.client.write("DELETE", f"{APPS}/daemonsets/x", b"")
        assert await world.revisions() == []

        await world.create("DaemonSet", "a:2")
        assert await world.numbers() == [(1, "a:2")]
