"""Definitions: names, served resources, deletion, restarts; garbage collection of objects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.com/v1"
WIDGETS = f"{GROUP}/namespaces/default/widgets"


class Api:
    """An API server in this process."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(0))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        content = b"" if body is None else json.dumps(body).encode()
        how = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"content-type": f"application/{how}"}
        code, answer_headers, answer = asyncio.run(
            self.server.handle(method, path, [], headers, content)
        )
        assert isinstance(answer, bytes)
        is_json = answer_headers.get("content-type", "").startswith("application/json")
        return code, json.loads(answer) if is_json else None, answer_headers

    def install(self, plural: str = "widgets", **names: Any) -> Any:
        code, body, _ = self.ask("POST", DEFINITIONS, definition(plural, **names))
        assert code == 201, body
        return self.ask("GET", f"{DEFINITIONS}/{plural}.example.com")[1]

    def codes(self, *paths: str) -> list[int]:
        return [self.ask("GET", path)[0] for path in paths]


def definition(plural: str, schema: Any = None, **names: Any) -> dict[str, Any]:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = schema or {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural[:-1].title(), **names},
            "versions": [version],
        },
    }


def widget(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"a": 1},
    }


def conditions(obj: Any) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in obj["status"]["conditions"]}


def test_a_definition_is_established_and_its_resource_served() -> None:
    api = Api()
    assert api.codes(WIDGETS) == [404]
    installed = api.install(shortNames=["w"])
    assert conditions(installed) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert installed["status"]["acceptedNames"]["shortNames"] == ["w"]
    assert installed["status"]["storedVersions"] == ["v1"]
    assert api.codes(WIDGETS, GROUP, "/openapi/v3/apis/example.com/v1") == [200, 200, 200]


def test_a_name_in_use_is_refused_until_it_is_free() -> None:
    api = Api()
    api.install()
    second = api.install("gadgets", kind="Widget")
    assert conditions(second)["NamesAccepted"] == ("False", "ListKindConflict")
    assert conditions(second)["Established"] == ("False", "NotAccepted")
    assert api.codes(f"{GROUP}/gadgets") == [404]

    api.ask("DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert api.codes(f"{GROUP}/gadgets") == [200]


def test_a_namespace_is_deleted_with_its_custom_objects() -> None:
    api = Api()
    api.install()
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    widgets = f"{GROUP}/namespaces/shop/widgets"
    assert api.ask("POST", widgets, widget("a"))[0] == 201
    api.ask("DELETE", "/api/v1/namespaces/shop")
    assert api.codes("/api/v1/namespaces/shop", f"{widgets}/a") == [404, 404]


def test_dependents_are_deleted_with_a_custom_owner() -> None:
    api = Api()
    api.install()
    owner = api.ask("POST", WIDGETS, widget("a"))[1]["metadata"]
    reference = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "a",
        "uid": owner["uid"],
    }
    maps = "/api/v1/namespaces/default/configmaps"
    api.ask("POST", maps, {"metadata": {"name": "m", "ownerReferences": [reference]}})
    api.ask("POST", WIDGETS, widget("b", ownerReferences=[reference]))
    api.ask("DELETE", f"{WIDGETS}/a")
    assert api.codes(f"{maps}/m", f"{WIDGETS}/b") == [404, 404]


def test_a_definition_waits_for_the_finalizers_of_its_objects() -> None:
    api = Api()
    api.install()
    api.ask("POST", WIDGETS, widget("a", finalizers=["example.com/hold"]))
    path = f"{DEFINITIONS}/widgets.example.com"
    api.ask("DELETE", path)
    assert conditions(api.ask("GET", path)[1])["Terminating"][0] == "True"
    api.ask("PATCH", f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    assert api.codes(path, WIDGETS) == [404, 404]


def test_custom_objects_survive_a_restart() -> None:
    api = Api()
    api.install()
    stored = api.ask("POST", WIDGETS, widget("a"))[1]
    other = Api()
    other.server.load(api.server.snapshot())
    assert other.ask("GET", f"{WIDGETS}/a")[1] == stored
    assert other.ask("POST", WIDGETS, widget("b"))[0] == 201


def test_objects_of_a_definition_without_conditions_survive_a_restart() -> None:
    api = Api()
    api.install()
    api.ask("POST", WIDGETS, widget("one"))
    name = f"{DEFINITIONS}/widgets.example.com"
    conditions = api.ask("GET", name)[1]["status"]["conditions"]
    assert api.ask("PATCH", f"{name}/status", {"status": {"conditions": []}})[0] == 200
    assert api.codes(WIDGETS) == [404]

    other = restarted(restarted(api))
    assert other.codes(WIDGETS) == [404]
    established = {"status": {"conditions": conditions}}
    assert other.ask("PATCH", f"{name}/status", established)[0] == 200
    assert other.codes(f"{WIDGETS}/one") == [200]


def test_objects_of_a_definition_without_conditions_are_deleted_with_it() -> None:
    api = Api()
    api.install()
    api.ask("POST", WIDGETS, widget("one"))
    name = f"{DEFINITIONS}/widgets.example.com"
    api.ask("PATCH", f"{name}/status", {"status": {"conditions": []}})
    assert api.ask("DELETE", name)[0] == 200
    api.install()
    assert api.ask("GET", WIDGETS)[1]["items"] == []


def restarted(api: Api) -> Api:
    """Returns a new server with the objects of another."""
    other = Api()
    other.server.load(api.server.snapshot())
    return other


def test_a_definition_with_a_rule_that_cannot_be_compiled_is_refused() -> None:
    api = Api()
    spec = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > unknown(0)"}],
    }
    body = definition("widgets", {"type": "object", "properties": {"spec": spec}})
    code, status, _ = api.ask("POST", DEFINITIONS, body)
    assert code == 422
    assert "undeclared reference to 'unknown'" in status["message"]


def test_the_name_of_a_part_in_a_text_or_a_property_is_no_warning() -> None:
    api = Api()
    spec = {
        "type": "object",
        "description": "as x-kubernetes-validations, and conversionReviewVersions",
        "properties": {"x-kubernetes-validations": {"type": "string"}},
    }
    body = definition("widgets", {"type": "object", "properties": {"spec": spec}})
    code, _, headers = api.ask("POST", DEFINITIONS, body)
    assert code == 201
    assert "warning" not in headers


def test_a_conversion_webhook_is_stored_but_not_called() -> None:
    api = Api()
    body = definition("widgets")
    service = {"name": "webhook", "namespace": "system"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    code, stored, headers = api.ask("POST", DEFINITIONS, body)
    assert code == 201
    assert stored["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
    assert "the webhook is not called" in headers["warning"]
