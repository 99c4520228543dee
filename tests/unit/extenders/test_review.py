"""Calls of extenders must not outlive the lease, or stop the scheduler."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import VirtualClock, seeded_random
from mooring.config import Extender
from mooring.errors import ExtenderError, LeaseLost
from mooring.extenders import FullObjectCache, HTTPExtender
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.extenders import NODES, Play, configured
from tests.helpers.extenders import extender as one
from tests.helpers.running_scheduler import Life, run_scheduler, virtually
from tests.unit.extenders.test_http_extender import Server, extender, pod_json, says

WEB = make_pod("web")


@virtually
async def test_an_extender_is_not_waited_for_longer_than_the_lease_lasts() -> None:
    """Who holds the lease after us must not have our bindings come in between."""
    loop: Any = asyncio.get_running_loop()
    clock = LoopClock(loop)

    async def slow(verb: str, body: bytes, bytes_max: int) -> bytes:
        await asyncio.sleep(30)
        return b"{}"

    begun_s = loop.time()

    def fence() -> float:
        remaining_s: float = begun_s + 2.0 - loop.time()
        if remaining_s <= 0:
            raise LeaseLost("over")
        return remaining_s

    server = Server(pod_json())
    rng = seeded_random(0)
    client = Client(InProcessTransport(server.handle), rng=rng, fence=fence, sleep=asyncio.sleep)
    whole = FullObjectCache(client, clock=clock, rng=rng, sleep=asyncio.sleep, with_nodes=False)
    config = Extender(url_prefix="http://x", bind_verb="bind", http_timeout_s=60.0)
    slowly = HTTPExtender(config, slow, whole, client=client, clock=clock)
    with pytest.raises(LeaseLost):
        await slowly.bind(PodInfo(WEB), "a")
    assert loop.time() - begun_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    "metadata", [5, [], None, {"name": 5}, {"name": "web", "uid": 7}, {"name": "web", "labels": 1}]
)
@virtually
async def test_a_pod_that_makes_no_sense_fails_alone(metadata: Any) -> None:
    server = Server({**pod_json(), "metadata": metadata})
    with pytest.raises(ExtenderError):
        await extender(server, says({})).filter(PodInfo(WEB), ["a"])


@pytest.mark.parametrize("metadata", [5, {"name": 5}, {"name": "web", "labels": 1}])
@virtually
async def test_objects_that_make_no_sense_do_not_end_what_follows_them(metadata: Any) -> None:
    """One such pod among good ones: the good ones are there."""
    good = pod_json(uid="good")
    good["metadata"]["name"] = "good"
    odd = {**pod_json(), "metadata": metadata}
    version = {"resourceVersion": "7"}

    async def handle(method: str, path: str, *_: Any) -> tuple[int, dict[str, str], bytes]:
        listed = {"kind": "PodList", "metadata": version, "items": [odd, good]}
        return 200, {}, json.dumps(listed).encode()

    clock, rng = VirtualClock(), seeded_random(0)
    client = Client(InProcessTransport(handle), rng=rng)
    whole = FullObjectCache(client, clock=clock, rng=rng, sleep=asyncio.sleep, with_nodes=False)
    [informer] = whole.informers
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(50):
            synced = asyncio.create_task(informer.wait_until_synced())
            await asyncio.wait([running, synced], return_when=asyncio.FIRST_COMPLETED)
        assert not running.done(), running.exception()
        assert list(informer.objects) == ["default/good"]
    finally:
        running.cancel()


def gets(life: Life, name: str) -> int:
    """Returns how often a pod was fetched by itself, from all clients of this life."""
    return life.wire.count("GET", f"/pods/{name}")


@virtually
async def test_a_pod_whose_news_are_under_way_is_not_fetched() -> None:
    """Two watches bring them, one after the other: the second one is waited for."""
    config = configured(one("one", "filter"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=Play().transport_factory
    ) as life:
        whole = life.service.extenders.asked[0]._whole
        stored = await life.create(make_pod("web", scheduler_name="somebody-else"))
        sent = json.loads(await whole.pod(PodInfo(stored)))
        assert sent["metadata"]["uid"] == stored.metadata.uid
        assert gets(life, "web") == 0


@virtually
async def test_an_extender_is_sent_no_older_pod_than_is_decided_on() -> None:
    config = configured(one("one", "filter"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=Play().transport_factory
    ) as life:
        whole = life.service.extenders.asked[0]._whole
        stored = await life.create(make_pod("web", scheduler_name="somebody-else"))
        await life.until(lambda: whole.informers[0].objects)
        assert "annotations" not in json.loads(await whole.pod(PodInfo(stored)))["metadata"]
        body = json.dumps({"metadata": {"annotations": {"gpu": "two"}}}).encode()
        path = "/api/v1/namespaces/default/pods/web"
        answer = await life.client.write(
            "PATCH", path, body, content_type="application/merge-patch+json"
        )
        changed = msgspec.json.decode(answer, type=Pod)
        sent = json.loads(await whole.pod(PodInfo(changed)))
        assert sent["metadata"]["annotations"] == {"gpu": "two"}
        assert gets(life, "web") == 0


@virtually
async def test_news_that_do_not_come_are_not_waited_for_long() -> None:
    config = configured(one("one", "filter"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=Play().transport_factory
    ) as life:
        whole = life.service.extenders.asked[0]._whole
        # On a node it is among those that are not followed.
        stored = await life.create(make_pod("web", node="a"))
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert json.loads(await whole.pod(PodInfo(stored)))["spec"]["nodeName"] == "a"
        assert loop.time() - begun_s < 1
        assert gets(life, "web") == 1
