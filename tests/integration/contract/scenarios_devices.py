"""Claims, templates, classes and slices of devices: what a scheduler, a driver and a user write."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import path, pods, scenario

GROUP = "apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
LONG = "x" * 70
#: Steps of a loop that costs six a step, and may cost one million at most.
STEPS_MAX = 166_664


def claims(namespace: str, name: str = "", part: str = "") -> str:
    return path(GROUP, namespace, "resourceclaims", name, part)


def document(kind: str, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def claim(name: str, *requests: Any, **devices: Any) -> dict[str, Any]:
    return document("ResourceClaim", name, {"devices": {"requests": list(requests), **devices}})


def request(name: str = "gpu", **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": DRIVER, **exactly}}


def selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def result(device: str = "gpu-0", **more: Any) -> dict[str, Any]:
    return {"request": "gpu", "driver": DRIVER, "pool": "n", "device": device, **more}


def allocation(*results: Any, **more: Any) -> dict[str, Any]:
    return {"devices": {"results": list(results)}, **more}


def user(name: str = "p", uid: str = "u") -> dict[str, Any]:
    return {"resource": "pods", "name": name, "uid": uid}


def refuse(api: Api, url: str, *documents: dict[str, Any]) -> None:
    """Posts documents, none of which may be stored."""
    for body in documents:
        assert api.post(url, body).code == 422, body


@scenario
def a_claim_gets_defaults_and_keeps_its_spec(api: Api, ns: str) -> None:
    several = {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}
    toleration = {"key": "broken"}
    made = api.post(claims(ns), claim("c", request(tolerations=[toleration]), several))
    assert made.code == 201
    exactly = made.body["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)
    changed = {**made.body, "spec": claim("c", request(count=2))["spec"]}
    assert api.put(claims(ns, "c"), changed).code == 422
    assert api.delete(claims(ns, "c")).code == 200


@scenario
def requests_are_validated(api: Api, ns: str) -> None:
    refuse(
        api,
        claims(ns),
        claim("c", {"name": "gpu"}),
        claim("c", request("")),
        claim("c", request("Bad_Name")),
        claim("c", request(), request()),
        claim("c", request(deviceClassName="")),
        claim("c", request(deviceClassName="No Name")),
        claim("c", request(count=-1)),
        claim("c", request(allocationMode="All", count=2)),
        claim("c", request(allocationMode="Some")),
        claim("c", *(request(f"r{number}") for number in range(33))),
        claim("c", {**request(), "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}),
        claim("c", {"name": "r", "firstAvailable": [{"name": "", "deviceClassName": ""}]}),
        claim("c", request(tolerations=[{"operator": "Exists", "value": "x"}])),
        claim("c", request(tolerations=[{"key": "-", "operator": "Is", "effect": "Never"}])),
        claim("c", request(selectors=[{}])),
    )


@scenario
def expressions_that_may_cost_too_much_are_refused(api: Api, ns: str) -> None:
    def looped(n_steps: int) -> dict[str, Any]:
        return selector(f"lists.range({n_steps}).all(x, x >= 0)")

    classes = path(GROUP, "", "deviceclasses")
    templates = path(GROUP, ns, "resourceclaimtemplates")
    for n_steps, code in ((STEPS_MAX, 201), (STEPS_MAX + 1, 422)):
        spec = claim("c", request(selectors=[looped(n_steps)]))["spec"]
        documents = (
            (claims(ns), document("ResourceClaim", f"c-{code}", spec)),
            (templates, document("ResourceClaimTemplate", f"t-{code}", {"spec": spec})),
            (classes, document("DeviceClass", f"{ns}-{code}", {"selectors": [looped(n_steps)]})),
        )
        for url, body in documents:
            answer = api.post(url, body)
            assert answer.code == code, answer.body
            assert (code == 201) or "too complex, exceeds cost limit" in answer.body["message"]
    assert api.delete(f"{classes}/{ns}-201").code == 200


@scenario
def expressions_are_compiled(api: Api, ns: str) -> None:
    texts = (
        "device.driver ==",
        "device.name == 'a'",
        "device.driver",
        "1 + 1",
        "device.attributes['gpu.example.com'].model.matches('[')",
        "x" * (10 * 1024 + 1),
    )
    refuse(api, claims(ns), *(claim("c", request(selectors=[selector(text)])) for text in texts))
    good = "device.attributes['gpu.example.com'].model == 'A100'"
    assert api.post(claims(ns), claim("c", request(selectors=[selector(good)]))).code == 201


@scenario
def constraints_and_configuration_are_validated(api: Api, ns: str) -> None:
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}

    def constraint(**fields: Any) -> dict[str, Any]:
        return claim("c", request(), constraints=[fields])

    def config(**fields: Any) -> dict[str, Any]:
        return claim("c", request(), config=[fields])

    refuse(
        api,
        claims(ns),
        constraint(),
        constraint(matchAttribute="model"),
        constraint(matchAttribute="a/1x"),
        constraint(matchAttribute="/x"),
        constraint(matchAttribute=f"{DRIVER}/{LONG}"),
        constraint(requests=["none"], matchAttribute="a/b"),
        constraint(requests=["gpu/none"], distinctAttribute="a/b"),
        constraint(requests=["gpu/a/b"], matchAttribute="a/b"),
        constraint(requests=["gpu", "gpu"], matchAttribute="a/b"),
        config(),
        config(opaque={**opaque, "driver": "Not_A_Name"}),
        config(opaque={**opaque, "driver": ""}),
        config(opaque={**opaque, "driver": LONG}),
        config(opaque={**opaque, "parameters": [1]}),
        config(opaque={**opaque, "parameters": {"a": "x" * 10240}}),
    )
    good = claim(
        "c",
        request(),
        constraints=[{"requests": ["gpu"], "matchAttribute": f"{DRIVER}/numa"}],
        config=[{"opaque": opaque}],
    )
    assert api.post(claims(ns), good).code == 201


@scenario
def an_allocation_is_set_once_and_removed(api: Api, ns: str) -> None:
    api.post(claims(ns), claim("c", request()))
    url = claims(ns, "c", "status")
    first = {"status": {"allocation": allocation(result()), "reservedFor": [user()]}}
    assert api.patch(url, {"status": {"reservedFor": [user()]}}).code == 422
    assert api.patch(url, {**first, "metadata": {"labels": {"a": "b"}}}).code == 200
    assert api.patch(url, {"status": {"allocation": allocation(result("gpu-1"))}}).code == 422
    two = [user(), user("q", "v")]
    assert api.patch(url, {"status": {"reservedFor": two}}).code == 200
    assert api.patch(url, {"status": {"reservedFor": [*two, user("r", "v")]}}).code == 422
    assert api.patch(url, {"status": {"reservedFor": [{"resource": "pods"}]}}).code == 422
    many = [user(f"p{number}", f"u{number}") for number in range(257)]
    assert api.patch(url, {"status": {"reservedFor": many}}).code == 422
    freed = api.patch(url, {"status": {"reservedFor": None, "allocation": None}})
    assert freed.code == 200
    assert freed.body["status"] == {}


@scenario
def allocations_are_validated(api: Api, ns: str) -> None:
    api.post(claims(ns), claim("c", request()))
    url = claims(ns, "c", "status")
    for wrong in (
        allocation(result(request="none")),
        allocation(result(driver="")),
        allocation(result(pool="")),
        allocation(result(pool="a//B")),
        allocation(result(device="Gpu_0")),
        allocation(result(shareID="1")),
        allocation(result(bindingConditions=["a"])),
        allocation(result(bindingConditions=["a"], bindingFailureConditions=["a", "a"])),
        allocation(*(result(f"gpu-{number}") for number in range(33))),
        allocation(result(), nodeSelector={"nodeSelectorTerms": []}),
        {"devices": {"results": [result()], "config": [{"source": "FromMe"}]}},
    ):
        assert api.patch(url, {"status": {"allocation": wrong}}).code in (422, 400), wrong


@scenario
def a_driver_reports_the_status_of_allocated_devices(api: Api, ns: str) -> None:
    api.post(claims(ns), claim("c", request()))
    url = claims(ns, "c", "status")
    api.patch(url, {"status": {"allocation": allocation(result())}})
    device = {"driver": DRIVER, "pool": "n", "device": "gpu-0", "data": {"pci": "0000:01"}}
    assert api.patch(url, {"status": {"devices": [device]}}).code == 200
    removed = api.patch(url, {"status": {"allocation": None}})
    assert removed.code == 200
    assert "devices" not in removed.body["status"]


@scenario
def a_deleted_claim_gets_no_new_users(api: Api, ns: str) -> None:
    body = claim("c", request())
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    api.post(claims(ns), body)
    url = claims(ns, "c", "status")
    api.patch(url, {"status": {"allocation": allocation(result()), "reservedFor": [user()]}})
    assert api.delete(claims(ns, "c")).code == 200
    assert api.patch(url, {"status": {"reservedFor": [user(), user("q", "v")]}}).code == 422
    assert api.patch(url, {"status": {"reservedFor": None, "allocation": None}}).code == 200
    assert api.patch(claims(ns, "c"), {"metadata": {"finalizers": None}}).code == 200
    assert api.get(claims(ns, "c")).code == 404


@scenario
def admin_access_needs_a_label_of_the_namespace(api: Api, ns: str) -> None:
    wanted = claim("c", request(adminAccess=True))
    template = document("ResourceClaimTemplate", "t", {"spec": wanted["spec"]})
    refuse(api, claims(ns), wanted)
    refuse(api, path(GROUP, ns, "resourceclaimtemplates"), template)
    label = {"resource.kubernetes.io/admin-access": "true"}
    assert (
        api.patch(path("api/v1", "", "namespaces", ns), {"metadata": {"labels": label}}).code == 200
    )
    assert api.post(claims(ns), wanted).code == 201


@scenario
def templates_are_validated_as_claims(api: Api, ns: str) -> None:
    url = path(GROUP, ns, "resourceclaimtemplates")
    refuse(
        api, url, document("ResourceClaimTemplate", "t", {"spec": claim("", {"name": "r"})["spec"]})
    )
    good = document("ResourceClaimTemplate", "t", {"spec": claim("", request())["spec"]})
    made = api.post(url, good)
    assert made.code == 201
    changed = {**made.body, "spec": {"spec": claim("", request(count=3))["spec"]}}
    assert api.put(f"{url}/t", changed).code == 422
    entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
    assert api.post(pods(ns), pod("p", resourceClaims=[entry])).code == 201


@scenario
def classes_are_validated_and_change(api: Api, ns: str) -> None:
    url = path(GROUP, "", "deviceclasses")
    refuse(
        api,
        url,
        document("DeviceClass", f"{ns}-c", {"selectors": [selector("device.x")]}),
        document("DeviceClass", f"{ns}-c", {"config": [{}]}),
        document("DeviceClass", f"{ns}-c", {"extendedResourceName": "cpu"}),
        document("DeviceClass", f"{ns}_c", {}),
    )
    made = api.post(url, document("DeviceClass", f"{ns}-c", {"extendedResourceName": "a.b/c"}))
    assert made.code == 201
    changed = api.patch(f"{url}/{ns}-c", {"spec": {"extendedResourceName": None}})
    assert (changed.code, changed.body["metadata"]["generation"]) == (200, 2)
    assert api.delete(f"{url}/{ns}-c").code == 200


def slice_of(ns: str, *devices: Any, **spec: Any) -> dict[str, Any]:
    pool = {"name": ns, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": list(devices), **spec}
    spec = {key: value for key, value in spec.items() if value is not None}
    return document("ResourceSlice", f"{ns}-s", spec)


def device(name: str = "gpu-0", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@scenario
def slices_are_validated(api: Api, ns: str) -> None:
    refuse(
        api,
        path(GROUP, "", "resourceslices"),
        slice_of(ns, driver=""),
        slice_of(ns, driver="Bad_Driver"),
        slice_of(ns, pool={"name": "", "generation": -1, "resourceSliceCount": 0}),
        slice_of(ns, pool={"name": "a/B", "generation": 1, "resourceSliceCount": 1}),
        slice_of(ns, nodeName=None),
        slice_of(ns, nodeName=""),
        slice_of(ns, allNodes=True),
        slice_of(ns, nodeName=None, allNodes=False),
        slice_of(ns, nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
        slice_of(ns, device(), device()),
        slice_of(ns, device("Gpu_0")),
        slice_of(ns, *(device(f"d{number}") for number in range(129))),
        slice_of(ns, device(), sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
        slice_of(ns, device(nodeName="n")),
        slice_of(ns, device(), nodeName=None, perDeviceNodeSelection=True),
        slice_of(ns, devices=None, sharedCounters=[{"name": ""}]),
    )


@scenario
def devices_are_validated(api: Api, ns: str) -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    many = {f"a{number}": {"int": number} for number in range(33)}
    shared = {"allowMultipleAllocations": True}

    def capacity(policy: Any, **more: Any) -> dict[str, Any]:
        return device(capacity={"memory": {"value": "10Gi", "requestPolicy": policy}}, **more)

    refuse(
        api,
        path(GROUP, "", "resourceslices"),
        slice_of(ns, device(attributes={"model": {}})),
        slice_of(ns, device(attributes={"model": {"string": LONG}})),
        slice_of(ns, device(attributes={"1x": {"int": 1}})),
        slice_of(ns, device(attributes={"/x": {"int": 1}})),
        slice_of(ns, device(attributes={"a.b/": {"int": 1}})),
        slice_of(ns, device(attributes={"v": {"version": "1.2"}})),
        slice_of(ns, device(attributes=many)),
        slice_of(ns, device(taints=[{"key": "", "effect": "Never"}])),
        slice_of(ns, device(taints=[{"key": "a"}])),
        slice_of(ns, *(device(f"d{number}", taints=[taint]) for number in range(65))),
        slice_of(ns, device(consumesCounters=[{"counterSet": "", "counters": {}}])),
        slice_of(ns, device(bindingFailureConditions=["a"])),
        slice_of(ns, capacity({"default": "1Gi"})),
        slice_of(ns, capacity({"validValues": ["1Gi"]}, **shared)),
        slice_of(ns, capacity({"default": "3Gi", "validValues": ["2Gi", "1Gi", "20Gi"]}, **shared)),
        slice_of(ns, capacity({"default": "3Gi", "validRange": {}}, **shared)),
        slice_of(ns, capacity({"default": "3Gi", "validRange": {"min": "4Gi"}}, **shared)),
    )


@scenario
def alternatives_and_references_are_limited(api: Api, ns: str) -> None:
    nine = [{"name": f"a{number}", "deviceClassName": "c"} for number in range(9)]
    two = [{"name": "a", "deviceClassName": "c"}] * 2
    references = {"requests": [f"r{number}" for number in range(33)], "matchAttribute": "a/b"}
    refuse(
        api,
        claims(ns),
        claim("c", {"name": "r", "firstAvailable": nine}),
        claim("c", {"name": "r", "firstAvailable": two}),
        claim("c", request(), constraints=[references]),
        claim("c", request(), constraints=[{"matchAttribute": "a/b"}] * 33),
        claim("c", request(selectors=[selector("true")] * 33)),
    )


@scenario
def the_status_of_a_device_belongs_to_an_allocated_device(api: Api, ns: str) -> None:
    api.post(claims(ns), claim("c", request()))
    url = claims(ns, "c", "status")
    assert api.patch(url, {"status": {"allocation": allocation(result())}}).code == 200
    for devices in (
        [{"driver": "", "pool": "", "device": ""}],
        [{"driver": DRIVER, "pool": "n", "device": "gpu-0"}] * 2,
        [{"driver": DRIVER, "pool": "n", "device": "gpu-0", "data": [1]}],
    ):
        assert api.patch(url, {"status": {"devices": devices}}).code == 422, devices


@scenario
def a_slice_keeps_its_driver_pool_and_node(api: Api, ns: str) -> None:
    url = path(GROUP, "", "resourceslices")
    timed = {"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    taints = [timed, {"key": "hot", "effect": "NoExecute"}]
    attributes = {"model": {"string": "A"}, "v": {"version": "1.2.3"}, f"{DRIVER}/n": {"int": 1}}
    good = device(attributes=attributes, capacity={"memory": {"value": "1024Mi"}}, taints=taints)
    made = api.post(url, slice_of(ns, good))
    assert made.code == 201
    for part in (
        {"driver": "other.example.com"},
        {"nodeName": "m"},
        {"pool": {"name": "other"}},
    ):
        assert api.patch(f"{url}/{ns}-s", {"spec": part}).code == 422
    raised = api.patch(f"{url}/{ns}-s", {"spec": {"pool": {"generation": 2}}})
    assert (raised.code, raised.body["metadata"]["generation"]) == (200, 2)
    assert api.delete(f"{url}/{ns}-s").code == 200
