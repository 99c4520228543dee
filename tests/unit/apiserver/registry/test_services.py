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


ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def taken(api: Api) -> dict[str, str]:
    """Returns the service of each IPAddress."""
    return {
        item["metadata"]["name"]: item["spec"]["parentRef"]["name"]
        for item in api.ask("GET", ADDRESSES)["items"]
    }


def test_each_address_of_a_service_is_an_object() -> None:
    api = Api()
    assert taken(api) == {"10.96.0.1": "kubernetes"}
    address = api.add("web")["spec"]["clusterIP"]
    api.add("headless", clusterIP="None")
    api.add("named", type="ExternalName", externalName="a.example.com", selector={})
    assert taken(api) == {"10.96.0.1": "kubernetes", address: "web"}

    external = {"type": "ExternalName", "externalName": "x.example.com"}
    service = api.ask("GET", f"{SERVICES}/web")
    spec = {name: value for name, value in service["spec"].items() if "luster" not in name}
    api.ask("PUT", f"{SERVICES}/web", {**service, "spec": {**spec, **external}})
    assert taken(api) == {"10.96.0.1": "kubernetes"}

    other = api.add("other")["spec"]["clusterIP"]
    api.ask("DELETE", f"{SERVICES}/other")
    assert other not in taken(api)


def test_an_address_that_a_client_has_taken_is_not_assigned() -> None:
    api = Api()
    parent = {"resource": "things", "name": "x"}
    body = {"metadata": {"name": "10.96.0.2"}, "spec": {"parentRef": parent}}
    api.ask("POST", ADDRESSES, body)
    assert api.add("web")["spec"]["clusterIP"] == "10.96.0.3"


def test_addresses_follow_a_snapshot() -> None:
    api = Api()
    address = api.add("web")["spec"]["clusterIP"]
    other = Api(seed=1)
    other.server.load(api.server.snapshot())
    assert taken(other) == {"10.96.0.1": "kubernetes", address: "web"}
    other.ask("DELETE", f"{SERVICES}/web")
    assert taken(other) == {"10.96.0.1": "kubernetes"}


def test_the_default_range_is_there() -> None:
    [item] = Api().ask("GET", "/apis/networking.k8s.io/v1/servicecidrs")["items"]
    assert (item["metadata"]["name"], item["spec"]["cidrs"]) == ("kubernetes", ["10.96.0.0/12"])
    assert [(c["type"], c["status"]) for c in item["status"]["conditions"]] == [("Ready", "True")]
