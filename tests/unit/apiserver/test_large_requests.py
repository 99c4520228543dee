"""Large requests on a server with threads: others are served meanwhile, and see no half write."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from mooring.apiserver.custom import openapi as custom_openapi
from mooring.apiserver.endpoints import openapi
from mooring.apiserver.endpoints.steps import SLICE_BYTES
from mooring.apiserver.registry.controllers.event_expiry import PODS_MAX
from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.long_writes import MANY_OBJECTS
from mooring.serial_executor import COMMITS_BETWEEN_PAUSES, LARGE_BYTES
from tests.helpers.api import APPLY, CONFIG_MAPS, MERGE, PODS, Api, config_map, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS_RESOURCE = resource_named("", "pods")
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
LARGE = {"text": "x" * LARGE_BYTES}


class StoppedInThreads(Api):
    """A server whose clock stops every thread but that of the event loop, until ``go_on``."""

    def __init__(self) -> None:
        super().__init__()
        self.server.allow_threads()
        self._event_loop_thread = threading.get_ident()
        self._reached = threading.Semaphore(0)
        self._open = threading.Event()
        self._read_wall_s = self.clock.wall_s
        self.clock.wall_s = self._wall_s  # type: ignore[method-assign]

    def _wall_s(self) -> float:
        if threading.get_ident() != self._event_loop_thread:
            self._reached.release()
            self._open.wait()
        return self._read_wall_s()

    async def wait_until_stopped(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._reached.acquire)

    def go_on(self) -> None:
        self._open.set()


def started(api: Api, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return asyncio.ensure_future(api.handle(method, path, body, **headers))


@pytest.mark.parametrize(
    ("method", "path", "body", "media_type"),
    [
        ("POST", CONFIG_MAPS, config_map("new", data=LARGE), "application/json"),
        ("PUT", f"{CONFIG_MAPS}/small", config_map("small", data=LARGE), "application/json"),
        ("PUT", f"{CONFIG_MAPS}/large", config_map("large"), "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/large", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        ("DELETE", f"{CONFIG_MAPS}/large", None, "application/json"),
    ],
)
def test_reads_are_answered_while_a_large_object_is_written(
    method: str, path: str, body: Any, media_type: str
) -> None:
    api = StoppedInThreads()
    api.post(CONFIG_MAPS, config_map("small"))

    async def main() -> None:
        api.go_on()
        assert (await api.handle("POST", CONFIG_MAPS, config_map("large", data=LARGE)))[0] == 201
        api._open.clear()
        while api._reached.acquire(blocking=False):
            pass
        before = api.server.store.version
        writing = started(api, method, path, body, content_type=media_type)
        await api.wait_until_stopped()
        for name in ("small", "large"):
            assert (await api.handle("GET", f"{CONFIG_MAPS}/{name}"))[0] == 200
        content = (await api.handle("GET", CONFIG_MAPS))[2]
        assert isinstance(content, bytes)
        assert json.loads(content)["metadata"]["resourceVersion"] == str(before)
        assert not writing.done()
        api.go_on()
        assert (await writing)[0] in (200, 201)
        assert api.server.store.version == before + 1

    asyncio.run(main())


def test_a_small_write_waits_for_a_large_one_and_finds_its_result() -> None:
    api = StoppedInThreads()

    async def main() -> None:
        large = started(api, "POST", CONFIG_MAPS, config_map("same", data=LARGE))
        await api.wait_until_stopped()
        small = started(api, "POST", CONFIG_MAPS, config_map("same"))
        review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        spec = {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
        assert (await api.handle("POST", review, {"spec": spec}))[0] == 201, "it writes nothing"
        assert api.server.tick() == 0
        assert not small.done()
        api.go_on()
        assert (await large)[0] == 201
        assert (await small)[0] == 409

    asyncio.run(main())


def test_a_watch_gets_what_a_thread_has_written() -> None:
    api = Api()
    api.server.allow_threads()

    async def main() -> Any:
        path = f"{CONFIG_MAPS}?watch=1&resourceVersion={api.server.store.version}"
        _, _, stream = await api.handle("GET", path)
        assert not isinstance(stream, bytes)
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # it waits for news
        await api.handle("POST", CONFIG_MAPS, config_map("large", data=LARGE))
        line = await first
        await stream.aclose()  # type: ignore[attr-defined]
        return json.loads(line)

    event = asyncio.run(main())
    assert event["type"] == "ADDED"
    assert event["object"]["metadata"]["name"] == "large"


def test_errors_of_a_thread_are_those_of_the_event_loop() -> None:
    api, plain = Api(), Api()
    api.server.allow_threads()
    wrong = [
        ("POST", CONFIG_MAPS, config_map("-", data=LARGE), "application/json"),
        ("POST", CONFIG_MAPS, b'{"a":' * LARGE_BYTES, "application/json"),
        ("PUT", f"{CONFIG_MAPS}/none", config_map("other", data=LARGE), "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/none", {"data": LARGE}, MERGE),
        ("PATCH", f"{CONFIG_MAPS}/none", {"data": LARGE}, APPLY),
    ]
    for method, path, body, media_type in wrong:
        answers = [
            server.ask(method, path, body, content_type=media_type) for server in (api, plain)
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] >= 400


def filled(count: int) -> Api:
    """Returns a server with threads and a namespace of so many pods."""
    api = Api()
    api.server.allow_threads()
    api.post("/api/v1/namespaces", {"metadata": {"name": "full"}})
    for number in range(count):
        api.post("/api/v1/namespaces/full/pods", pod(f"p{number:03}"))
    return api


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/full/pods", "/api/v1/namespaces/full"], ids=["all", "namespace"]
)
def test_others_write_while_many_objects_are_deleted(path: str) -> None:
    count = max(MANY_OBJECTS, 2 * COMMITS_BETWEEN_PAUSES) + 1
    api = filled(count)
    pods = next(c for c in api.server.store.collections() if c.resource.name == "pods")

    async def main() -> list[int]:
        deleting = started(api, "DELETE", path)
        counts = []
        number = 0
        while not deleting.done():
            number += 1
            status, *_ = await api.handle("POST", CONFIG_MAPS, config_map(f"c{number}"))
            assert status == 201
            counts.append(pods.count("full"))
            await asyncio.sleep(0)
        assert (await deleting)[0] == 200
        return counts

    counts = asyncio.run(main())
    assert any(0 < left < count for left in counts), "a write came in the middle"
    assert pods.count("full") == 0
    exists = api.ask("GET", "/api/v1/namespaces/full")[0] == 200
    assert exists is path.endswith("pods")


def test_what_others_delete_in_the_middle_is_no_error() -> None:
    count = max(MANY_OBJECTS, 2 * COMMITS_BETWEEN_PAUSES) + 1
    api = filled(count)
    path = "/api/v1/namespaces/full/pods"

    async def main() -> None:
        deleting = started(api, "DELETE", path)
        await asyncio.sleep(0)  # it has begun
        answers = [
            await api.handle("DELETE", f"{path}/p{number:03}") for number in reversed(range(count))
        ]
        assert {status for status, *_ in answers} == {200, 404}
        assert (await deleting)[0] == 200

    asyncio.run(main())
    assert api.names(path) == []


def test_dependents_that_others_release_in_the_middle_stay() -> None:
    api = Api()
    api.server.allow_threads()
    owner = api.post(CONFIG_MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    count = 2 * COMMITS_BETWEEN_PAUSES + 1
    for number in range(count):
        dependent = pod(f"p{number:03}")
        dependent["metadata"]["ownerReferences"] = [reference]
        api.post(PODS, dependent)
    last = f"{PODS}/p{count - 1:03}"

    async def main() -> int:
        deleting = started(api, "DELETE", f"{CONFIG_MAPS}/owner")
        await asyncio.sleep(0)
        patch = {"metadata": {"ownerReferences": None}}
        status, *_ = await api.handle("PATCH", last, patch, content_type=MERGE)
        assert (await deleting)[0] == 200
        return status

    assert asyncio.run(main()) == 200
    assert api.names(PODS) == [f"p{count - 1:03}"]


def test_reads_are_answered_while_a_quota_counts_many_pods() -> None:
    async def main() -> Any:
        api = StoppedInThreads()
        for number in range(MANY_OBJECTS + 1):
            await api.handle("POST", PODS, pod(f"p{number:03}"))
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1k"}}}
        creating = started(api, "POST", QUOTAS, quota)
        await api.wait_until_stopped()
        assert (await api.handle("GET", f"{PODS}/p000"))[0] == 200
        assert not creating.done()
        api.go_on()
        assert (await creating)[0] == 201
        _, _, content = await api.handle("GET", f"{QUOTAS}/q")
        assert isinstance(content, bytes)
        return json.loads(content)["status"]["used"]

    assert asyncio.run(main()) == {"pods": str(MANY_OBJECTS + 1)}


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULED = "/apis/example.com/v1/namespaces/default/shops"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def shop_definition(**of_name: Any) -> Any:
    names = {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"}
    spec = {"type": "object", "properties": {"name": {"type": "string", **of_name}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def version_of(content: Any) -> int:
    """Returns the resourceVersion of an object in a response."""
    return int(json.loads(content)["metadata"]["resourceVersion"])


def shop(name: str) -> Any:
    about = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name}}
    return {**about, "spec": {"name": name}}


def device_class(expression: str) -> Any:
    selectors = [{"cel": {"expression": expression}}]
    return {"metadata": {"name": "new"}, "spec": {"selectors": selectors}}


@pytest.mark.parametrize(
    ("definition", "method", "path", "body"),
    [
        (None, "POST", DEFINITIONS, shop_definition()),
        (None, "POST", DEVICE_CLASSES, device_class("device.driver == 'a'")),
        ({"x-kubernetes-validations": [{"rule": "self.size() < 9"}]}, "POST", RULED, shop("new")),
        ({"pattern": "^[a-z]+$"}, "POST", RULED, shop("new")),
        ({"anyOf": [{"minLength": 1}, {"maxLength": 3}]}, "POST", RULED, shop("new")),
    ],
)
def test_reads_are_answered_while_expressions_are_evaluated(
    definition: Any, method: str, path: str, body: Any
) -> None:
    async def main() -> None:
        api = StoppedInThreads()
        api.go_on()
        await api.handle("POST", CONFIG_MAPS, config_map("small"))
        if definition is not None:
            await api.handle("POST", DEFINITIONS, shop_definition(**definition))
            assert (await api.handle("POST", RULED, shop("old")))[0] == 201
        api._open.clear()
        while api._reached.acquire(blocking=False):
            pass
        writing = started(api, method, path, body)
        await api.wait_until_stopped()
        assert (await api.handle("GET", f"{CONFIG_MAPS}/small"))[0] == 200
        assert not writing.done()
        api.go_on()
        assert (await writing)[0] in (200, 201)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "metadata"),
    [
        ("POST", RULED, {"name": "new"}),
        ("POST", RULED, {"generateName": "new-"}),
        ("PATCH", f"{RULED}/old", {"labels": {"is": "new"}}),
    ],
)
def test_other_writes_come_first_while_rules_are_evaluated(
    method: str, path: str, metadata: Any
) -> None:
    async def main() -> None:
        api = Api()
        api.server.allow_threads()
        await api.handle("POST", DEFINITIONS, shop_definition(pattern="^[a-z-]+$"))
        await api.handle("POST", RULED, shop("old"))
        headers = {"content_type": MERGE} if method == "PATCH" else {}
        body = {**shop("new"), "metadata": metadata}
        writing = started(api, method, path, body, **headers)
        await asyncio.sleep(0)  # it has its turn
        assert (await api.handle("POST", CONFIG_MAPS, config_map("beside")))[0] == 201
        _, _, beside = await api.handle("GET", f"{CONFIG_MAPS}/beside")
        status, _, written = await writing
        assert status in (200, 201)
        assert version_of(beside) < version_of(written)

    asyncio.run(main())


def test_a_write_whose_object_changes_while_rules_are_evaluated_is_made_by_the_newest() -> None:
    async def main() -> None:
        api = Api()
        api.server.allow_threads()
        await api.handle("POST", DEFINITIONS, shop_definition(pattern="^[a-z-]+$"))
        await api.handle("POST", RULED, shop("old"))
        changes = [{"metadata": {"labels": {name: "new"}}} for name in ("first", "second")]
        writing = [
            started(api, "PATCH", f"{RULED}/old", change, content_type=MERGE) for change in changes
        ]
        assert [(await it)[0] for it in writing] == [200, 200]
        _, _, content = await api.handle("GET", f"{RULED}/old")
        assert isinstance(content, bytes)
        assert json.loads(content)["metadata"]["labels"] == {"first": "new", "second": "new"}

    asyncio.run(main())


def test_reads_are_answered_while_openapi_is_made_for_definitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    threads = []
    make = custom_openapi.custom_definition

    def made(resource: Any) -> Any:
        threads.append(threading.get_ident())
        begun.set()
        go_on.wait()
        return make(resource)

    async def main() -> None:
        api = StoppedInThreads()
        api.go_on()
        await api.handle("POST", DEFINITIONS, shop_definition())
        await api.handle("POST", CONFIG_MAPS, config_map("small"))
        monkeypatch.setattr(openapi, "custom_definition", made)
        reading = started(api, "GET", "/openapi/v2")
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        assert (await api.handle("GET", f"{CONFIG_MAPS}/small"))[0] == 200
        assert (await api.handle("POST", CONFIG_MAPS, config_map("new")))[0] == 201
        assert not reading.done()
        go_on.set()
        status, _, content = await reading
        assert status == 200
        assert b"com.example.v1.Shop" in content
        assert threading.get_ident() not in threads

    asyncio.run(main())


def test_a_definition_that_has_not_changed_keeps_its_resource() -> None:
    api = Api()
    api.post(DEFINITIONS, shop_definition())
    first = api.server.store.custom["example.com", "v1", "shops"]
    other = shop_definition()
    names = {"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"}
    other["metadata"]["name"] = "carts.example.com"
    other["spec"]["names"] = names
    api.post(DEFINITIONS, other)
    assert set(api.server.store.custom) == {
        ("example.com", "v1", "carts"),
        ("example.com", "v1", "shops"),
    }
    assert api.server.store.custom["example.com", "v1", "shops"] is first
    spec = {"versions": shop_definition(maxLength=3)["spec"]["versions"]}
    api.ask("PATCH", f"{DEFINITIONS}/shops.example.com", {"spec": spec}, content_type=MERGE)
    assert api.server.store.custom["example.com", "v1", "shops"] is not first
    assert api.ask("POST", RULED, shop("long-name"))[0] == 422


def test_an_object_by_a_plain_schema_is_written_at_once() -> None:
    async def main() -> None:
        api = StoppedInThreads()
        api.go_on()
        await api.handle("POST", DEFINITIONS, shop_definition(maxLength=9))
        api._open.clear()
        assert (await api.handle("POST", RULED, shop("new")))[0] == 201

    asyncio.run(main())


def test_pods_whose_grace_periods_end_together_are_removed_in_steps() -> None:
    async def main() -> None:
        api = Api()
        api.server.allow_threads()
        await api.handle("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        for number in range(2 * PODS_MAX + 1):
            await api.handle("POST", PODS, pod(f"p{number:04}", nodeName="n"))
        await api.handle("DELETE", PODS)
        api.clock.advance(31)
        pods = api.server.registry.collection(PODS_RESOURCE)
        counts = [len(pods)]
        await api.handle("GET", f"{CONFIG_MAPS}/none")
        while counts[-1]:
            if len(pods) != counts[-1]:
                counts.append(len(pods))
            await asyncio.sleep(0)  # the rest is removed without further requests
        assert counts == [2 * PODS_MAX + 1, PODS_MAX + 1, 1, 0]

    asyncio.run(main())


def test_without_threads_all_pods_are_removed_when_they_are_due() -> None:
    api = Api()
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    for number in range(PODS_MAX + 1):
        api.post(PODS, pod(f"p{number:04}", nodeName="n"))
    api.ask("DELETE", PODS)
    api.clock.advance(31)
    assert api.server.tick() == PODS_MAX + 1


@pytest.mark.parametrize("accept", ["application/json", TABLE])
def test_a_list_of_large_objects_is_made_in_steps(accept: str) -> None:
    api = Api()
    count = 4
    for number in range(count):
        data = {"a": "x" * (SLICE_BYTES * 3 // 4)}
        api.post(CONFIG_MAPS, config_map(f"m{number}", data=data))

    async def main() -> int:
        listing = started(api, "GET", "/api/v1/configmaps", accept=accept)
        turns = 0
        while not listing.done():
            turns += 1
            await asyncio.sleep(0)
        status, _, content = await listing
        assert status == 200
        body = json.loads(content)
        assert len(body.get("items") or body["rows"]) == count
        return turns

    assert asyncio.run(main()) >= count // 2


def test_controllers_handle_what_others_write_while_they_delete() -> None:
    api = Api()
    api.server.allow_threads()
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.post(definitions, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    for number in range(2 * COMMITS_BETWEEN_PAUSES):
        api.post(widgets, {"metadata": {"name": f"w{number:03}"}})
    stored = api.server.store.custom_collection(next(iter(api.server.store.custom.values())))
    assert stored is not None

    async def main() -> int:
        deleting = started(api, "DELETE", f"{definitions}/widgets.example.com")
        await asyncio.sleep(0)
        namespace = {"metadata": {"name": "beside"}}
        assert (await api.handle("POST", "/api/v1/namespaces", namespace))[0] == 201
        left = len(stored)
        assert (await deleting)[0] == 200
        return left

    assert 0 < asyncio.run(main()) < 2 * COMMITS_BETWEEN_PAUSES
    assert api.names("/api/v1/namespaces/beside/serviceaccounts") == ["default"]
    assert asyncio.run(api.handle("GET", widgets))[0] == 404
