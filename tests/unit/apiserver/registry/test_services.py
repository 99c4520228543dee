"""The empty EndpointSlice of a service, and addresses that become free again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

NAMESPACE = "/api/v1/namespaces/default"
SERVICES = f"{NAMESPACE}/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


class Api:
    """An API server in this process."""

    def __init__(self, seed: int = 0) -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(seed))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        code, _, answer = asyncio.run(self.server.handle(method, path, [], headers, content))
        assert isinstance(answer, bytes)
        assert code in (200, 201), answer
        return json.loads(answer)

    def add(self, name: str, **spec: Any) -> Any:
        content = {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec}
        return self.ask("POST", SERVICES, {"metadata": {"name": name}, "spec": content})

    def slices(self) -> list[Any]:
        items: list[Any] = self.ask("GET", SLICES)["items"]
        return items


def test_a_service_with_a_selector_has_an_empty_slice() -> None:
    api = Api()
    service = api.add("web")
    (found,) = api.slices()

    assert found["metadata"]["name"].startswith("web-")
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["ownerReferences"][0]["uid"] == service["metadata"]["uid"]
    assert (found["addressType"], found["endpoints"]) == ("IPv4", None)
    api.ask("DELETE", f"{SERVICES}/web")
    assert api.slices() == []


def test_other_services_have_none() -> None:
    api = Api()
    api.add("named", type="ExternalName", externalName="a.example.com")
    api.add("bare", selector={})

    assert api.slices() == []


def test_a_headless_service_is_marked() -> None:
    api = Api()
    api.add("db", clusterIP="None")
    (found,) = api.slices()

    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_addresses_of_deleted_services_are_free_again() -> None:
    api = Api()
    first = api.add("a")["spec"]["clusterIP"]
    second = api.add("b")["spec"]["clusterIP"]
    assert first != second
    api.ask("DELETE", f"{SERVICES}/a")

    assert api.add("c")["spec"]["clusterIP"] == first


def test_a_loaded_server_knows_the_addresses_in_use() -> None:
    api = Api()
    first = api.add("a")["spec"]["clusterIP"]
    other = Api(seed=1)
    other.server.load(api.server.snapshot())

    assert other.add("b")["spec"]["clusterIP"] != first
    assert len(other.slices()) == 2
