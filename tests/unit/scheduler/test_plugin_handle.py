"""The handle of plugins in a running scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from mooring.client import Client
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ConfigError, InvariantViolation, PluginError
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects.codec.decode import convert
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.service import Service, ServiceOptions
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import Script, answer
from tests.helpers.running_scheduler import virtually


class Backend:
    """A running scheduler, as a handle sees it."""

    def __init__(self, stores: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.stores = stores or {}
        self.activated: list[str] = []

    def activate(self, uids: Iterable[str]) -> None:
        self.activated += uids

    def is_preempting(self, uid: str) -> bool:
        return uid == "u3"

    def store(self, kind: str) -> Mapping[str, Any] | None:
        return self.stores.get(kind)

    def report(self, pod: Any, reason: str, action: str, note: str) -> None:
        raise AssertionError("no plugin of this test reports")


class Hasty:
    """A plugin that activates a pod before there is a queue."""

    name = "Hasty"

    def __init__(self, handle: Any) -> None:
        handle.activate("u1")

    def filter(self, cycle: Any, nodes: Any) -> Any: ...


def handle_of(
    *answers: Any, cache: Cache | None = None, backend: Backend | None = None
) -> PluginHandle:
    client = Client(Script(*answers), rng=seeded_random(0))
    clock = LoopClock(asyncio.get_running_loop())
    return PluginHandle(
        cache or Cache(), client, clock=clock, rng=seeded_random(7), backend=backend
    )


@virtually
async def test_time_and_chance_are_those_of_the_run() -> None:
    handle = handle_of()
    before_s = handle.monotonic_s()
    await asyncio.sleep(2)
    assert 2 <= handle.monotonic_s() - before_s < 2.1
    assert handle.random() == seeded_random(7).random()


@virtually
async def test_the_snapshot_is_the_present_state() -> None:
    cache = Cache()
    handle = handle_of(cache=cache)
    assert len(handle.snapshot.nodes) == 0
    cache.put_node(make_node("a"))
    assert len(handle.snapshot.nodes) == 1


@virtually
async def test_waiting_pods_are_found_by_uid_and_in_order() -> None:
    handle = handle_of()
    pods = [PodInfo(make_pod(name, uid=name)) for name in ("b", "a")]
    for pod in pods:
        handle.waiting.add(WaitingPod(pod, "n", {"P": 1.0}, 0.0))
    assert [each.pod.uid for each in handle.waiting_pods()] == ["b", "a"]
    found = handle.waiting_pod("a")
    assert found is not None
    assert found.pod is pods[1]
    assert handle.waiting_pod("c") is None


@virtually
async def test_it_asks_the_running_scheduler() -> None:
    backend = Backend()
    handle = handle_of(backend=backend)
    handle.activate("u1", "u2")
    assert backend.activated == ["u1", "u2"]
    assert [handle.is_preempting("u1"), handle.is_preempting("u3")] == [False, True]


@virtually
async def test_without_a_running_scheduler_nothing_is_queued_preempted_or_watched() -> None:
    handle = handle_of()
    handle.activate("u1")
    assert not handle.is_preempting("u1")
    with pytest.raises(PluginError, match="objects of kind Node are not watched"):
        await handle.until("Node", "a", lambda node: node is not None, 1.0)


def test_a_plugin_that_activates_pods_while_it_is_built_is_an_error() -> None:
    with pytest.raises(InvariantViolation, match="before the scheduling queue exists"):
        Service(
            Client(Script(), rng=seeded_random(0)),
            clock=VirtualClock(),
            rng=seeded_random(0),
            options=ServiceOptions(plugins=[f"{__name__}:Hasty"]),
        )


@virtually
async def test_a_callback_comes_once_and_later() -> None:
    handle = handle_of()
    called_s: list[float] = []
    handle.call_later(3, lambda: called_s.append(handle.monotonic_s()))
    await asyncio.sleep(10)
    assert len(called_s) == 1
    assert 3 <= called_s[0] < 3.1


@virtually
async def test_it_binds() -> None:
    await handle_of(answer(201, {})).bind(PodInfo(make_pod()), "a")


@virtually
async def test_it_reads_with_a_deadline_of_ten_seconds() -> None:
    script = Script(answer(200, {"a": 1}))
    client = Client(script, rng=seeded_random(0))
    clock = LoopClock(asyncio.get_running_loop())
    handle = PluginHandle(Cache(), client, clock=clock, rng=seeded_random(7))
    assert await handle.read("/apis/metrics.k8s.io/v1beta1/nodes") == b'{"a": 1}'
    (request,) = script.requests
    assert (request.method, request.path) == ("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
    assert request.deadline_s == 10.0


@virtually
async def test_it_reports_reason_action_and_note() -> None:
    reports: list[tuple[Any, ...]] = []

    class Reports(Backend):
        def report(self, *parts: Any) -> None:
            reports.append(parts)

    pod = PodInfo(make_pod())
    handle_of(backend=Reports()).report(pod, "Reason", "Action", "note")
    assert reports == [(pod, "Reason", "Action", "note")]


@virtually
async def test_once_the_scheduler_is_built_a_plugin_lists_only_what_is_watched() -> None:
    handle = handle_of()
    nodes = handle.lister("Node")
    assert handle.lister("Node") is nodes
    handle.is_complete = True
    assert handle.lister("Node") is nodes
    text = "kind Lease is not watched: call handle.lister in the plugin's constructor"
    with pytest.raises(PluginError, match=text):
        handle.lister("Lease")
    with pytest.raises(ConfigError):
        handle.lister("NoSuchKind")


# ---- waiting for an object ----


class Claims:
    """A store of one kind, and a handle that follows it."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.handle = handle_of(backend=Backend({"PersistentVolumeClaim": self.objects}))

    def put(self, key: str, value: str) -> None:
        """Updates the object."""
        self.objects[key] = value
        self.handle.changed("PersistentVolumeClaim", key)

    async def until(self, key: str, wanted: str | None, deadline_s: float = 10.0) -> Any:
        """Waits for it to be so."""
        return await self.handle.until(
            "PersistentVolumeClaim", key, lambda found: found == wanted, deadline_s
        )


@virtually
async def test_until_returns_at_once_what_is_so_already() -> None:
    claims = Claims()
    claims.put("d/c", "Bound")
    assert await claims.until("d/c", "Bound") == "Bound"
    # Nothing, too, may be what is waited for.
    assert await claims.until("d/gone", None) is None


@virtually
async def test_until_looks_again_whenever_the_object_has_changed() -> None:
    claims = Claims()
    loop = asyncio.get_running_loop()
    loop.call_later(1, claims.put, "d/c", "Pending")
    loop.call_later(2, claims.put, "d/other", "Bound")
    loop.call_later(3, claims.put, "d/c", "Bound")
    found = await asyncio.gather(claims.until("d/c", "Bound"), claims.until("d/c", "Pending"))
    assert list(found) == ["Bound", "Pending"]
    assert 3 <= loop.time() < 3.1
    assert claims.handle._awaited == {}


@virtually
async def test_a_changed_object_wakes_those_who_wait_for_its_namespace_and_name() -> None:
    claims = Claims()
    changed = convert({"metadata": {"name": "c", "namespace": "d"}}, "PersistentVolumeClaim")

    def put() -> None:
        claims.objects["d/c"] = "Bound"
        claims.handle.object_changed("PersistentVolumeClaim", changed)

    claims.handle.object_changed("PersistentVolumeClaim", changed)  # nothing waits: no effect
    asyncio.get_running_loop().call_later(1, put)
    assert await claims.until("d/c", "Bound") == "Bound"


@virtually
async def test_only_the_wait_itself_is_inside_of_while_waiting() -> None:
    claims, periods_s = Claims(), []
    loop = asyncio.get_running_loop()

    @contextmanager
    def waiting() -> Iterator[None]:
        began_s = loop.time()
        yield
        periods_s.append((began_s, loop.time()))

    claims.handle.while_waiting = waiting
    claims.put("d/c", "Bound")
    await claims.until("d/c", "Bound")
    assert periods_s == []
    for at_s, value in ((1, "Lost"), (3, "Pending")):
        loop.call_later(at_s, claims.put, "d/c", value)
    await claims.until("d/c", "Pending")
    assert periods_s == [(0.0, 1.0), (1.0, 3.0)]


@virtually
async def test_until_gives_up_and_says_what_it_waited_for() -> None:
    claims = Claims()
    with pytest.raises(PluginError, match=r"timed out after 2.5 s .* PersistentVolumeClaim d/c"):
        await claims.until("d/c", "Bound", deadline_s=2.5)
    assert claims.handle._awaited == {}


@virtually
async def test_until_refuses_kinds_that_nobody_follows() -> None:
    with pytest.raises(PluginError, match="Secret are not watched"):
        await Claims().handle.until("Secret", "d/s", bool, 1.0)


@virtually
async def test_volumes_and_claims_are_changed_by_merge_patch() -> None:
    stored = {"metadata": {"name": "c", "namespace": "shop", "resourceVersion": "8"}}
    script = Script(answer(200, stored))
    client = Client(script, rng=seeded_random(0))
    clock = LoopClock(asyncio.get_running_loop())
    handle = PluginHandle(Cache(), client, clock=clock, rng=seeded_random(7))
    change = {"metadata": {"resourceVersion": "7", "annotations": {"a": "b"}}}

    found = await handle.patch("PersistentVolumeClaim", "shop/c", change)

    assert found.metadata.resource_version == "8"
    (request,) = script.requests
    path = "/api/v1/namespaces/shop/persistentvolumeclaims/c"
    assert (request.method, request.path) == ("PATCH", path)
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.body == change


@virtually
async def test_nothing_else_is_for_plugins_to_change() -> None:
    with pytest.raises(PluginError, match="plugins may not patch objects of kind Pod"):
        await handle_of().patch("Pod", "default/p", {})
