"""DeviceTaintRules, which are served with the feature gate DRADeviceTaintRules only."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.contract.api import APPLY, JSON_PATCH, STRATEGIC, TABLE, Answer, Api
from tests.integration.contract.scenario import gated_scenario, path

GROUP = "apis/resource.k8s.io"
RULES = path(f"{GROUP}/v1beta2", "", "devicetaintrules")
DRIVER = "gpu.example.com"
LONG = "x" * 70


def rule(name: str, *, selector: Any = None, **taint: Any) -> dict[str, Any]:
    full = {"key": "example.com/fan", "effect": "NoSchedule", **taint}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector or {"driver": DRIVER}, "taint": full},
    }


def condition(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "type": f"c{number}",
        "status": "True",
        "reason": "Any",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **fields,
    }


def json_of(answer: Answer) -> Any:
    """Returns a document that the real server sends as plain text."""
    return json.loads(answer.body) if isinstance(answer.body, str) else answer.body


@gated_scenario
def a_rule_gets_a_time_and_keeps_it_until_its_effect_changes(api: Api, ns: str) -> None:
    made = api.post(RULES, {**rule(ns), "status": {"conditions": [condition()]}})
    assert (made.code, made.body["metadata"]["generation"]) == (201, 1)
    assert made.body["spec"]["taint"]["timeAdded"]
    assert not made.body.get("status")
    url = f"{RULES}/{ns}"
    old = {"spec": {"taint": {"timeAdded": "2026-01-01T00:00:00Z"}}}
    assert api.patch(url, old).code == 200
    same = api.patch(url, {"spec": {"taint": {"value": "loud"}}}, STRATEGIC)
    assert same.body["spec"]["taint"]["timeAdded"] == "2026-01-01T00:00:00Z"
    other = api.patch(url, {"spec": {"taint": {"effect": "NoExecute"}}})
    assert other.body["spec"]["taint"]["timeAdded"] > "2026-01-01T00:00:00Z"
    assert other.body["metadata"]["generation"] == 4
    chosen = [{"op": "replace", "path": "/spec/taint", "value": rule(ns)["spec"]["taint"]}]
    assert api.patch(url, chosen, JSON_PATCH).code == 200
    assert api.delete(url).code == 200
    assert api.get(url).code == 404


@gated_scenario
def rules_are_validated(api: Api, ns: str) -> None:
    for body in (
        rule(ns, effect="Never"),
        rule(ns, effect=""),
        rule(ns, key=""),
        rule(ns, key="Not A Key"),
        rule(ns, key=f"example.com/{LONG}"),
        rule(ns, value="not a value"),
        rule(ns, value=LONG),
        rule(ns, selector={"driver": "Bad_Driver"}),
        rule(ns, selector={"driver": ""}),
        rule(ns, selector={"driver": LONG}),
        rule(ns, selector={"pool": "a//B"}),
        rule(ns, selector={"pool": ""}),
        rule(ns, selector={"device": "Gpu_0"}),
        rule(ns, selector={"device": ""}),
        {**rule(ns), "spec": {"deviceSelector": {}}},
        {**rule(ns), "metadata": {"name": "Bad_Name"}},
    ):
        assert api.post(RULES, body).code == 422, body
    unknown = rule(ns, selector={"model": "a"})
    assert api.post(RULES, unknown, fieldValidation="Strict").code == 400
    assert api.post(RULES, rule(ns)).code == 201
    assert api.put(f"{RULES}/{ns}", rule(ns, effect="Never")).code == 422
    assert api.delete(f"{RULES}/{ns}").code == 200


@gated_scenario
def a_status_is_written_apart(api: Api, ns: str) -> None:
    api.post(RULES, rule(ns))
    url = f"{RULES}/{ns}/status"

    def write(*conditions: Any) -> int:
        return api.patch(url, {"status": {"conditions": list(conditions)}}).code

    assert write(condition()) == 200
    assert write(*(condition(number) for number in range(9))) == 422
    assert write({"type": "c", "status": "Maybe", "reason": "1st"}) == 422
    assert write(condition(type="")) == 422
    assert write(condition(observedGeneration=-1)) == 422
    both = {"status": {"conditions": []}, "spec": {"taint": {"effect": "None"}}}
    kept = api.patch(url, {**both, "metadata": {"labels": {"a": "b"}}})
    assert kept.body["spec"]["taint"]["effect"] == "NoSchedule"
    assert "labels" not in kept.body["metadata"]
    assert api.delete(f"{RULES}/{ns}").code == 200


@gated_scenario
def rules_are_applied_listed_and_watched(api: Api, ns: str) -> None:
    since = api.get(RULES).body["metadata"]["resourceVersion"]
    url = f"{RULES}/{ns}"
    applied = api.patch(url, rule(ns, value="a"), APPLY, fieldManager="first")
    assert applied.code == 201
    assert api.patch(url, rule(ns, value="b"), APPLY, fieldManager="second").code == 409
    forced = api.patch(url, rule(ns, value="b"), APPLY, fieldManager="second", force="true")
    assert forced.code == 200
    table = api.ask("GET", RULES, accept=TABLE)
    assert [row["cells"][:4] for row in table.body["rows"]] == [
        [ns, "example.com/fan", "b", "NoSchedule"]
    ]
    with api.watch(RULES, resourceVersion=since) as watch:
        assert watch.take(2) == [("ADDED", ns), ("MODIFIED", ns)]
        assert api.delete(RULES).code == 200
        assert watch.take(1) == [("DELETED", ns)]


@gated_scenario
def discovery_and_openapi_have_the_kind(api: Api, ns: str) -> None:
    group = api.get(f"/{GROUP}").body
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta2"]
    served = api.get(f"/{GROUP}/v1beta2").body["resources"]
    rows = [each for each in served if each["name"].startswith("devicetaintrules")]
    index = json_of(api.get("/openapi/v3"))
    url = index["paths"][f"{GROUP}/v1beta2"]["serverRelativeURL"]
    document = json_of(api.get(url.partition("?")[0]))
    # The real server has other kinds in this version, too, and they name further schemas.
    api.notes.clear()
    prefix = "io.k8s.api.resource.v1beta2.DeviceTaint"
    schemas = document["components"]["schemas"]
    # kube-apiserver adds the values of enums to the descriptions of the published documents.
    types = {
        name: {field: one.get("type") for field, one in schema["properties"].items()}
        for name, schema in schemas.items()
        if name.startswith(prefix)
    }
    assert len(types) == 6
    api.note("discovery of rules", 200, rows)
    api.note("schemas of rules", 200, types)
