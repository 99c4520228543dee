"""Services: their addresses and node ports, which every server chooses by itself."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import TABLE, Answer, Api
from tests.integration.contract.scenario import path, scenario


def _service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec},
    }


def _hide(api: Api, answer: Answer) -> dict[str, Any]:
    """Replaces the chosen addresses and ports in the note; returns the spec."""
    what, code, body = api.notes[-1]
    spec = dict(body["spec"])
    if spec.get("clusterIP", "None") != "None":
        assert spec["clusterIPs"] == [spec["clusterIP"]]
        spec |= {"clusterIP": "<address>", "clusterIPs": ["<address>"]}
    ports = [{**port} for port in spec.get("ports", ())]
    for port in ports:
        if "nodePort" in port:
            assert 30000 <= port["nodePort"] < 32768
            port["nodePort"] = 0
    metadata = {key: body["metadata"].get(key) for key in ("name", "generation", "labels")}
    noted = {"spec": {**spec, "ports": ports}, "status": body["status"], "metadata": metadata}
    api.notes[-1] = (what, code, noted)
    found: dict[str, Any] = answer.body["spec"]
    return found


def _node_port(namespace: str) -> int:
    """Returns the first of ten node ports, which no Service gets by chance.

    Another test may run the same scenario on the same server, in another namespace.
    """
    return 30040 if "real" in namespace else 30060


@scenario
def a_service_gets_an_address(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    seen = set()
    for number in range(3):
        spec = _hide(api, api.post(services, _service(f"s{number}")))
        assert spec["clusterIP"].startswith("10.")
        assert spec["ipFamilies"] == ["IPv4"]
        seen.add(spec["clusterIP"])
    assert len(seen) == 3
    taken = api.post(services, _service("again", clusterIP=min(seen)))
    assert taken.code == 422
    assert "provided IP is already allocated" in taken.message
    api.notes.pop()  # the address


@scenario
def an_address_is_kept(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    made = _hide(api, api.post(services, _service("web")))
    changed = _service("web", ports=[{"port": 81}])
    kept = _hide(api, api.put(f"{services}/web", changed))
    assert kept["clusterIP"] == made["clusterIP"]
    other = api.patch(f"{services}/web", {"spec": {"clusterIP": "10.96.0.9"}})
    assert other.code == 422
    api.notes.pop()
    assert "may not change once set" in other.message


@scenario
def other_types_have_other_addresses(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    headless = _hide(api, api.post(services, _service("headless", clusterIP="None")))
    assert headless["clusterIP"] == "None"
    external = {"type": "ExternalName", "externalName": "a.example.com"}
    named = _hide(api, api.post(services, _service("named", **external)))
    assert "clusterIP" not in named
    node = _hide(api, api.post(services, _service("node", type="NodePort")))
    balanced = _hide(api, api.post(services, _service("balanced", type="LoadBalancer")))
    assert node["ports"][0]["nodePort"] != balanced["ports"][0]["nodePort"]
    again = _hide(api, api.put(f"{services}/node", _service("node", type="NodePort")))
    assert again["ports"][0]["nodePort"] == node["ports"][0]["nodePort"]


@scenario
def a_type_can_change(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    _hide(api, api.post(services, _service("web")))
    to_node = _hide(api, api.patch(f"{services}/web", {"spec": {"type": "NodePort"}}))
    assert to_node["ports"][0]["nodePort"]
    back = _hide(api, api.patch(f"{services}/web", {"spec": {"type": "ClusterIP"}}))
    assert "nodePort" not in back["ports"][0]
    assert back["clusterIP"] == to_node["clusterIP"]


@scenario
def endpoints_are_deprecated(api: Api, namespace: str) -> None:
    url = path("api/v1", namespace, "endpoints")
    body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}}
    answers = [
        api.get(url),
        api.post(url, body),
        api.post(url, body),
        api.get(f"{url}/web"),
        api.put(f"{url}/web", body),
        api.patch(f"{url}/web", {"metadata": {"labels": {"a": "b"}}}),
        api.get(f"{url}/other"),
        api.delete(f"{url}/web"),
        api.delete(url),
    ]
    assert [answer.code for answer in answers] == [200, 201, 409, 200, 200, 200, 404, 200, 200]
    text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert {answer.headers.get("warning") for answer in answers} == {f'299 - "{text}"'}
    slices = path("apis/discovery.k8s.io/v1", namespace, "endpointslices")
    assert "warning" not in api.get(slices).headers


#: Changes of a ServiceCIDR that are refused, and one that is not.
_CIDRS: list[list[str]] = [
    [],
    ["10.9.0.0"],
    ["10.9.0.1/24"],
    ["10.9.0.0/16", "10.8.0.0/16"],
    ["2001:DB8::/64"],
    ["10.9.0.0/16", "2001:db8::/64", "10.8.0.0/16"],
    ["10.9.0.0/16"],
]


@scenario
def ranges_of_addresses_are_objects(api: Api, namespace: str) -> None:
    ranges = path("apis/networking.k8s.io/v1", "", "servicecidrs")
    name = f"range-{namespace}"

    def document(cidrs: list[str]) -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": "False"}]}
        return {"metadata": {"name": name}, "spec": {"cidrs": cidrs}, "status": status}

    codes = [api.post(ranges, document(cidrs)).code for cidrs in _CIDRS]
    assert codes == [422] * (len(_CIDRS) - 1) + [201]
    url = f"{ranges}/{name}"
    assert api.put(url, document(["10.7.0.0/16"])).code == 422
    assert api.put(url, document(["10.9.0.0/16", "10.7.0.0/16"])).code == 422
    assert api.put(url, document(["10.9.0.0/16", "2001:db8::/64"])).code == 200
    assert api.put(url, document(["10.9.0.0/16"])).code == 422
    condition = {"type": "Ready", "status": "True", "reason": "x", "message": "y"}
    condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    status = {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": [condition]}}
    assert api.patch(f"{url}/status", status).code == 200
    api.ask("GET", url, accept=TABLE)
    assert api.delete(url).code == 200
    default = api.get(f"{ranges}/kubernetes")
    api.notes.pop()  # its range
    assert default.body["status"]["conditions"][0]["status"] == "True"
    managers = {entry["manager"] for entry in default.body["metadata"]["managedFields"]}
    assert managers == {"kube-apiserver", "kubernetes-service-cidr-controller"}


@scenario
def an_address_is_an_object(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    addresses = path("apis/networking.k8s.io/v1", "", "ipaddresses")
    spec = _hide(api, api.post(services, _service("web")))
    url = f"{addresses}/{spec['clusterIP']}"
    own = api.get(url)
    _, code, body = api.notes.pop()
    name = body["metadata"].pop("name")
    assert name == spec["clusterIP"]
    api.note("the address of a service", code, body)
    assert own.body["spec"]["parentRef"]["name"] == "web"
    table = api.ask("GET", url, accept=TABLE)
    _, code, body = api.notes.pop()
    assert table.body["rows"][0]["cells"][1] == f"services/{namespace}/web"
    api.note("its row", code, body["columnDefinitions"])
    api.delete(f"{services}/web")
    assert api.get(url).code == 404
    del api.notes[-2:]

    parent = {"resource": "things", "group": "example.com", "name": "x"}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("web", {"parentRef": parent}),
        ("2001:DB8::1", {"parentRef": parent}),
        ("::ffff:1.2.3.4", {"parentRef": parent}),
        ("192.0.2.1", {}),
        ("192.0.2.1", {"parentRef": {}}),
        ("192.0.2.1", {"parentRef": {"group": "_", "resource": "a/b", "name": "%"}}),
        ("192.0.2.1", {"parentRef": {**parent, "namespace": ".."}}),
    ]
    for address, fields in wrong:
        assert api.post(addresses, {"metadata": {"name": address}, "spec": fields}).code == 422
    mine = f"192.0.2.{1 + sum(namespace.encode()) % 250}"
    body = {"metadata": {"name": mine}, "spec": {"parentRef": parent}}
    assert api.post(addresses, body).code == 201
    api.notes.pop()
    changed = {"spec": {"parentRef": {"name": "y"}}}
    assert api.patch(f"{addresses}/{mine}", changed).code == 422
    api.notes.pop()
    assert api.delete(f"{addresses}/{mine}").code == 200
    api.notes.pop()


@scenario
def a_change_of_the_type_drops_what_the_type_before_needed(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    local = {"externalTrafficPolicy": "Local"}
    classed = {"loadBalancerClass": "a/b", "loadBalancerSourceRanges": ["1.0.0.0/8"]}
    checked = {**local, "healthCheckNodePort": _node_port(namespace) + 9}
    manual = {"allocateLoadBalancerNodePorts": False}
    changes: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("LoadBalancer", {}, {"type": "ClusterIP"}),
        ("LoadBalancer", {}, {"type": "NodePort"}),
        ("LoadBalancer", manual, {"type": "NodePort"}),
        ("LoadBalancer", manual, {"type": "ClusterIP"}),
        ("LoadBalancer", checked, {"externalTrafficPolicy": "Cluster"}),
        ("LoadBalancer", checked, {"type": "ClusterIP"}),
        ("LoadBalancer", classed, {"type": "ClusterIP"}),
        ("LoadBalancer", {"loadBalancerClass": "a/b"}, {"type": "NodePort"}),
        ("NodePort", local, {"type": "ClusterIP"}),
        ("NodePort", local, {"type": "ClusterIP", "externalIPs": ["9.9.9.9"]}),
        ("NodePort", {}, {"type": "LoadBalancer"}),
        ("ClusterIP", {}, {"type": "ExternalName", "externalName": "a.b"}),
        ("NodePort", {}, {"type": "ExternalName", "externalName": "a.b"}),
    ]
    for number, (kind, spec, change) in enumerate(changes):
        name = f"s{number:02}"
        assert api.post(services, _service(name, type=kind, **spec)).code == 201
        api.notes.pop()
        answer = api.patch(f"{services}/{name}", {"spec": change})
        if answer.code == 200:
            _hide(api, answer)
        api.delete(f"{services}/{name}")
        api.notes.pop()


@scenario
def ports_of_several_protocols_share_a_node_port(api: Api, namespace: str) -> None:
    services = path("api/v1", namespace, "services")
    tcp, udp = ({"name": name, "port": 53, "protocol": name.upper()} for name in ("tcp", "udp"))
    web = {"name": "web", "port": 80}
    first = _node_port(namespace)
    for number, ports in enumerate(
        [
            [{**tcp, "nodePort": first}, {**udp, "nodePort": first}],
            [tcp, udp],
            [tcp, {**udp, "nodePort": first + 1}, web],
            [{**tcp, "nodePort": first + 2}, {**udp, "nodePort": first + 3}],
            [{**tcp, "nodePort": first + 4}, udp],
        ]
    ):
        name = f"p{number}"
        made = api.post(services, _service(name, type="NodePort", ports=ports))
        if made.code == 201:
            own = [port["nodePort"] for port in _hide(api, made)["ports"]]
            api.note(name, [own.index(port) for port in own], {})
        api.delete(f"{services}/{name}")
        api.notes.pop()
