"""DeviceTaintRules, which the embedded API server serves only with the feature gate.

Expected values follow kube-apiserver: pkg/registry/resource/devicetaintrule/strategy.go,
pkg/printers/internalversion/printers.go and bootstrappolicy/policy.go.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from mooring.objects.codec.decode import decode
from mooring.objects.resource import DeviceTaintRule

GROUP = "/apis/resource.k8s.io"
PATH = f"{GROUP}/v1beta2/devicetaintrules"
AS_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


class Api:
    """The server, called in process."""

    def __init__(self, *, with_taint_rules: bool = True) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, seeded_random(0), with_taint_rules=with_taint_rules)

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        of = {"content-type": "application/json", **(headers or {})}
        status, _, response = asyncio.run(self.server.handle(method, path, [], of, content))
        assert isinstance(response, bytes)
        return status, json.loads(response) if response.startswith(b"{") else response

    def create(self, **taint: str) -> Any:
        status, rule = self.call("POST", PATH, rule_of(**taint))
        assert status == 201, rule
        return rule


def rule_of(name: str = "fan", **taint: str) -> dict[str, Any]:
    full = {"key": "example.com/fan", "effect": "NoSchedule", **taint}
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": full}
    metadata = {"name": name}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": metadata,
        "spec": spec,
    }


def test_without_the_gate_the_version_is_not_served() -> None:
    api = Api(with_taint_rules=False)

    assert api.call("GET", PATH)[0] == 404
    assert api.call("GET", f"{GROUP}/v1beta2")[0] == 404
    versions = api.call("GET", GROUP)[1]["versions"]
    assert [each["version"] for each in versions] == ["v1"]


def test_discovery_has_the_beta_version_after_the_stable_one() -> None:
    api = Api()

    group = api.call("GET", GROUP)[1]
    resources = api.call("GET", f"{GROUP}/v1beta2")[1]["resources"]

    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta2"]
    assert group["preferredVersion"]["version"] == "v1"
    # kube-apiserver stores rules as resource.k8s.io/v1alpha3.
    assert resources[0]["storageVersionHash"] == "DJ3UJ0fj8MI="
    assert [(each["name"], each["kind"], each["namespaced"]) for each in resources] == [
        ("devicetaintrules", "DeviceTaintRule", False),
        ("devicetaintrules/status", "DeviceTaintRule", False),
    ]


def test_a_new_rule_gets_a_time_and_a_generation_and_no_status() -> None:
    api = Api()
    body = rule_of() | {"status": {"conditions": [{"type": "Any"}]}}

    _, rule = api.call("POST", PATH, body)

    assert rule["spec"]["taint"]["timeAdded"] == rule["metadata"]["creationTimestamp"]
    assert rule["metadata"]["generation"] == 1
    assert rule["status"] == {}


def test_the_creator_owns_the_time_as_it_owns_other_defaults() -> None:
    (entry,) = Api().create()["metadata"]["managedFields"]

    owned = entry["fieldsV1"]["f:spec"]["f:taint"]
    assert owned == {"f:effect": {}, "f:key": {}, "f:timeAdded": {}}


def test_a_time_that_a_client_sets_stays() -> None:
    rule = Api().create(timeAdded="2026-01-01T00:00:00Z")

    assert rule["spec"]["taint"]["timeAdded"] == "2026-01-01T00:00:00Z"


def test_a_new_effect_gets_a_new_time_unless_the_client_sets_another() -> None:
    api = Api()
    old = api.create()["spec"]["taint"]["timeAdded"]
    merge = {"content-type": "application/merge-patch+json"}

    def patched(**taint: str) -> Any:
        api.clock.advance(60.0)
        return api.call("PATCH", f"{PATH}/fan", {"spec": {"taint": taint}}, merge)[1]

    assert patched(value="loud")["spec"]["taint"]["timeAdded"] == old
    changed = patched(effect="NoExecute")
    assert changed["spec"]["taint"]["timeAdded"] > old
    assert changed["metadata"]["generation"] == 3
    given = patched(effect="None", timeAdded="2020-01-01T00:00:00Z")
    assert given["spec"]["taint"]["timeAdded"] == "2020-01-01T00:00:00Z"


def test_kubectl_can_patch_it_as_a_kind_of_kubernetes() -> None:
    api = Api()
    api.create()
    strategic = {"content-type": "application/strategic-merge-patch+json"}

    status, rule = api.call("PATCH", f"{PATH}/fan", {"spec": {"taint": {"value": "x"}}}, strategic)

    assert (status, rule["spec"]["taint"]["value"]) == (200, "x")


def test_an_invalid_rule_is_refused_in_create_and_update() -> None:
    api = Api()
    api.create()
    text = 'spec.taint.effect: Unsupported value: "Never": supported values: '

    status, created = api.call("POST", PATH, rule_of("other", effect="Never"))
    assert status == 422
    assert text in created["message"]
    status, updated = api.call("PUT", f"{PATH}/fan", rule_of(effect="Never"))
    assert status == 422
    assert text in updated["message"]


def test_a_wrong_name_is_one_error() -> None:
    status, refused = Api().call("POST", PATH, rule_of("Bad_Name"))

    assert status == 422
    assert [each["field"] for each in refused["details"]["causes"]] == ["metadata.name"]


def test_a_status_changes_neither_spec_nor_labels_and_has_eight_conditions_at_most() -> None:
    api = Api()
    rule = api.create()

    def condition(number: int) -> dict[str, str]:
        time = "2026-01-01T00:00:00Z"
        more = {"reason": "Any", "message": "", "lastTransitionTime": time}
        return {"type": f"c{number}", "status": "True", **more}

    rule["metadata"]["labels"] = {"a": "b"}
    rule["spec"]["taint"]["effect"] = "None"
    rule["status"] = {"conditions": [condition(number) for number in range(8)]}
    status, updated = api.call("PUT", f"{PATH}/fan/status", rule)
    assert status == 200
    assert "labels" not in updated["metadata"]
    assert updated["spec"]["taint"]["effect"] == "NoSchedule"
    assert len(updated["status"]["conditions"]) == 8

    rule = updated
    rule["status"]["conditions"].append(condition(9))
    status, refused = api.call("PUT", f"{PATH}/fan/status", rule)
    assert status == 422
    assert "status.conditions: Too many: 9: must have at most 8 items" in refused["message"]


def test_a_wrong_condition_is_refused() -> None:
    api = Api()
    rule = api.create()
    rule["status"] = {
        "conditions": [
            {"type": "no spaces", "status": "Maybe", "reason": "1st", "observedGeneration": -1}
        ]
    }

    status, refused = api.call("PUT", f"{PATH}/fan/status", rule)

    assert status == 422
    assert [(each["field"], each["reason"]) for each in refused["details"]["causes"]] == [
        ("status.conditions[0].type", "FieldValueInvalid"),
        ("status.conditions[0].status", "FieldValueNotSupported"),
        ("status.conditions[0].observedGeneration", "FieldValueInvalid"),
        ("status.conditions[0].lastTransitionTime", "FieldValueRequired"),
        ("status.conditions[0].reason", "FieldValueInvalid"),
    ]
    assert (
        "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB'"
        in (refused["message"])
    )


def test_the_table_shows_the_taint_and_its_age() -> None:
    api = Api()
    api.create(value="loud")
    api.clock.advance(120.0)

    _, table = api.call("GET", PATH, headers=AS_TABLE)

    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]
    cells = ["fan", "example.com/fan", "loud", "NoSchedule", "2m", "2m"]
    assert [row["cells"] for row in table["rows"]] == [cells]


def test_what_is_stored_is_what_the_scheduler_reads() -> None:
    api = Api()
    api.create()

    _, rules = api.call("GET", PATH)

    rule = decode(json.dumps(rules["items"][0]).encode(), "DeviceTaintRule")
    assert isinstance(rule, DeviceTaintRule)
    assert rules["kind"] == "DeviceTaintRuleList"
    assert (rule.metadata.name, rule.spec.taint.effect) == ("fan", "NoSchedule")


def test_a_deleted_rule_is_returned_and_gone() -> None:
    api = Api()
    api.create()

    status, deleted = api.call("DELETE", f"{PATH}/fan")

    assert (status, deleted["kind"]) == (200, "DeviceTaintRule")
    assert api.call("GET", f"{PATH}/fan")[0] == 404


def test_rules_of_a_snapshot_are_kept_while_the_gate_is_off() -> None:
    api, without, later = Api(), Api(with_taint_rules=False), Api()
    api.create()

    without.server.load(api.server.snapshot())
    later.server.load(without.server.snapshot())

    assert without.call("GET", PATH)[0] == 404
    assert [rule["metadata"]["name"] for rule in later.call("GET", PATH)[1]["items"]] == ["fan"]


def test_its_documents_are_served_with_the_gate_only() -> None:
    beta = "apis/resource.k8s.io/v1beta2"

    without = Api(with_taint_rules=False).call("GET", "/openapi/v3")[1]["paths"]
    api = Api()
    paths = api.call("GET", "/openapi/v3")[1]["paths"]

    assert set(paths) - set(without) == {beta}
    document = api.call("GET", f"/openapi/v3/{beta}")[1]
    assert "io.k8s.api.resource.v1beta2.DeviceTaintRule" in document["components"]["schemas"]


def test_kube_scheduler_may_read_rules_with_the_gate_only() -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler"

    def resources(*, with_taint_rules: bool) -> list[str]:
        rules = Api(with_taint_rules=with_taint_rules).call("GET", role)[1]["rules"]
        return [each for rule in rules for each in rule["resources"]]

    assert resources(with_taint_rules=True)[-2:] == ["devicetaintrules", "resourceclaims/binding"]
    assert "devicetaintrules" not in resources(with_taint_rules=False)
