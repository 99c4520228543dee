"""Whole objects for extenders: which version is sent, and what is fetched."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ExtenderError
from mooring.extenders.full_objects import FullObjectCache
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from mooring.state import PodInfo
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually


def document(name: str, *, version: str = "5", uid: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}"}
    return {"metadata": {**metadata, "resourceVersion": version}, **more}


def pod(name: str, **options: Any) -> PodInfo:
    spec = {"containers": [{"name": "c"}]}
    body = json.dumps(document(name, **options, spec=spec)).encode()
    return PodInfo(decode(body, kind_named("Pod")))


class Cluster:
    """An API server, and the cache of a scheduler whose informers have synced.

    Attributes:
        stored: Path -> what a GET returns; an integer is the status of an error.
        paths: What was read.
        delay_s: How long a read takes.
        most: How many reads were under way at once.
    """

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.paths: list[str] = []
        self.delay_s = 0.0
        self.most = self._running = 0
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
        client = Client(InProcessTransport(self._handle), rng=rng, sleep=asyncio.sleep)
        self.cache = FullObjectCache(
            client, clock=clock, rng=rng, sleep=asyncio.sleep, with_nodes=True
        )
        for informer in self.cache.informers:
            informer._synced.set()

    def observe(self, body: dict[str, Any]) -> None:
        """Reports a version of a pod or node to the watch of the cache."""
        nodes, pods = self.cache.informers
        informer = nodes if body.get("kind") == "Node" else pods
        new = decode(json.dumps(body).encode(), informer.kind)
        name = new.metadata.name
        key = name if informer is nodes else f"shop/{name}"
        informer._reflector.replica._store(key, new)

    async def _handle(self, method: str, path: str, *_: Any) -> tuple[int, dict[str, str], bytes]:
        self.paths.append(path)
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(self.delay_s)
        self._running -= 1
        found = self.stored.get(path, 404)
        if isinstance(found, int):
            reason = {404: "NotFound"}.get(found, "InternalError")
            status = {"kind": "Status", "code": found, "reason": reason, "message": "no"}
            return found, {}, json.dumps(status).encode()
        return 200, {}, found if isinstance(found, bytes) else json.dumps(found).encode()


WEB = "/api/v1/namespaces/shop/pods/web"


# ---- the pod ----


@pytest.mark.parametrize(
    ("cached", "required", "is_fetched"),
    [
        ("5", "5", False),
        ("6", "5", False),
        ("4", "5", True),
        ("10", "9", False),
        ("9", "10", True),
        ("x", "5", False),  # versions that are no numbers cannot be compared
        ("5", "x", False),
    ],
)
@virtually
async def test_a_pod_of_the_watch_is_sent_if_it_is_not_older(
    cached: str, required: str, is_fetched: bool
) -> None:
    cluster = Cluster()
    cluster.observe(document("web", version=cached))
    cluster.stored[WEB] = document("web", version="99")
    sent = json.loads(await cluster.cache.pod(pod("web", version=required)))
    assert sent["metadata"]["resourceVersion"] == ("99" if is_fetched else cached)
    assert cluster.paths == [WEB] * is_fetched
    # The watch might catch up: it is waited for.
    assert asyncio.get_running_loop().time() == (0.1 if is_fetched else 0.0)


@virtually
async def test_a_pod_of_the_same_name_is_another_one() -> None:
    cluster = Cluster()
    cluster.observe(document("web", uid="other"))
    cluster.stored[WEB] = document("web")
    sent = json.loads(await cluster.cache.pod(pod("web")))
    assert sent["metadata"]["uid"] == "uid-web"


@virtually
async def test_a_watch_that_is_a_little_behind_is_waited_for() -> None:
    cluster = Cluster()
    waiting = asyncio.create_task(cluster.cache.pod(pod("web", version="7")))
    for version in ("5", "6", "7"):
        await asyncio.sleep(0.03)
        cluster.observe(document("web", version=version))
    assert json.loads(await waiting)["metadata"]["resourceVersion"] == "7"
    assert cluster.paths == []
    assert asyncio.get_running_loop().time() == pytest.approx(0.09)


@virtually
async def test_before_the_first_list_a_pod_is_fetched_at_once() -> None:
    cluster = Cluster()
    cluster.cache.informers[1]._synced.clear()
    cluster.stored[WEB] = document("web")
    await cluster.cache.pod(pod("web"))
    assert asyncio.get_running_loop().time() == 0.0


@virtually
async def test_a_pod_is_sent_as_it_is_without_managed_fields() -> None:
    cluster = Cluster()
    body = document("web", spec={"odd": [1.5, None], "nodeName": ""}, status={"phase": "Pending"})
    body["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "labels": {"a": "b"}}
    cluster.observe(body)
    del body["metadata"]["managedFields"]
    expected = {"kind": "Pod", "apiVersion": "v1", **body}
    for _ in range(2):
        assert json.loads(await cluster.cache.pod(pod("web"))) == expected


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        (404, "pod shop/web was deleted"),
        (document("web", uid="other"), "pod shop/web was deleted"),
        (500, "Pod web cannot be read: "),
        (b"{", "Pod web cannot be read: "),
        ({"metadata": {"name": ""}}, "Pod web cannot be read: "),
    ],
)
@virtually
async def test_a_pod_that_cannot_be_read_is_an_error(stored: Any, text: str) -> None:
    cluster = Cluster()
    cluster.stored[WEB] = stored
    with pytest.raises(ExtenderError, match=text):
        await cluster.cache.pod(pod("web"))
    assert cluster.paths == [WEB]  # the attempt is retried, not the read


@virtually
async def test_a_fetch_has_a_deadline() -> None:
    cluster = Cluster()
    cluster.delay_s = 100.0
    with pytest.raises(ExtenderError, match=r"Pod web cannot be read: .*5 s"):
        await cluster.cache.pod(pod("web"))
    assert asyncio.get_running_loop().time() == pytest.approx(5.1)


# ---- victims ----


@virtually
async def test_victims_are_fetched_sixteen_at_once_and_deleted_ones_left_out() -> None:
    cluster = Cluster()
    cluster.delay_s = 1.0
    names = [f"pod-{number}" for number in range(40)]
    for name in names:
        cluster.stored[WEB.replace("web", name)] = document(name)
    cluster.stored[WEB.replace("web", names[3])] = 404
    cluster.stored[WEB.replace("web", names[20])] = document(names[20], uid="other")
    # Victims are on nodes: the watch of pending pods does not have them.
    cluster.observe(document(names[0], version="99"))
    objects = await cluster.cache.pods([pod(name) for name in names])
    expected = {f"uid-{name}" for name in names} - {"uid-pod-3", "uid-pod-20"}
    assert set(objects) == expected
    assert json.loads(objects["uid-pod-0"])["metadata"]["resourceVersion"] == "5"
    assert (cluster.most, len(cluster.paths)) == (16, 40)
    assert asyncio.get_running_loop().time() == 3.0
    assert await cluster.cache.pods([]) == {}


@virtually
async def test_the_first_error_ends_the_fetch_of_victims() -> None:
    cluster = Cluster()
    cluster.delay_s = 1.0
    cluster.stored[WEB] = 500
    with pytest.raises(ExtenderError, match="Pod web cannot be read"):
        await cluster.cache.pods([pod(name) for name in ("a", "web", *"bcdefghijklmnopq")])
    assert len(cluster.paths) <= 18
    assert asyncio.get_running_loop().time() == 1.0


# ---- nodes ----


@virtually
async def test_nodes_of_the_watch_are_sent_and_others_fetched_in_the_order_of_the_names() -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.observe({"kind": "Node", "metadata": {"name": name, "uid": name}})
    cluster.stored["/api/v1/nodes/new"] = {"metadata": {"name": "new", "uid": "new"}}
    objects = await cluster.cache.nodes(["b", "new", "gone", "a"])
    assert list(objects) == ["b", "new", "a"]
    names = [json.loads(text)["metadata"]["name"] for text in objects.values()]
    assert names == ["b", "new", "a"]
    assert cluster.paths == ["/api/v1/nodes/new", "/api/v1/nodes/gone"]
    cluster.stored["/api/v1/nodes/x"] = 500
    with pytest.raises(ExtenderError, match="Node x cannot be read"):
        await cluster.cache.nodes(["x"])


@virtually
async def test_a_node_is_sent_as_it_is_without_managed_fields() -> None:
    cluster = Cluster()
    parts: dict[str, Any] = {"spec": {"odd": [1]}, "status": {"capacity": {"cpu": "8"}}}
    for name in "ab":
        metadata = {"name": name, "uid": name, "managedFields": [{"manager": "kubelet"}]}
        body = {"kind": "Node", "metadata": metadata, **parts}
        if name == "a":
            cluster.observe(body)
        else:
            cluster.stored["/api/v1/nodes/b"] = body
    objects = await cluster.cache.nodes(["a", "b"])
    for name, text in objects.items():
        head = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name}}
        assert json.loads(text) == {**head, **parts}


def test_without_an_extender_that_needs_nodes_pending_pods_alone_are_watched() -> None:
    client: Any = None
    more: Any = {"clock": VirtualClock(), "rng": seeded_random(0), "sleep": None}
    [pods] = FullObjectCache(client, with_nodes=False, **more).informers
    assert pods.kind.name == "Pod"
    selector = "spec.nodeName=,status.phase!=Failed,status.phase!=Succeeded"
    assert sorted(pods._field_selector.split(",")) == sorted(selector.split(","))
