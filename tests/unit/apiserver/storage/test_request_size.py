"""The size of the request that would store an object in etcd, as kube-apiserver reports it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.helpers.api import APPLY, MERGE, PODS, Api, pod

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRETS = "/api/v1/namespaces/default/secrets"
TOO_LARGE = "etcdserver: request is too large"
BIGS = "/apis/x.io/v1/namespaces/default/bigs"
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition() -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "bigs.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "bigs", "singular": "big", "kind": "Big"},
            "versions": [version],
        },
    }


def big(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Big", "metadata": {"name": name}, **fields}


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post(DEFINITIONS, definition())
    return api


# The figures are those of kube-apiserver v1.36.3 with etcd.


def test_the_largest_custom_object_has_no_managed_fields(api: Api) -> None:
    stored = api.post(BIGS, big("bnd", text="a" * 1_572_545))
    assert "managedFields" not in stored["metadata"]
    code, status = api.ask("POST", BIGS, big("bn2", text="a" * 1_572_546))
    assert (code, status["message"]) == (500, TOO_LARGE)


@pytest.mark.parametrize("length", [2_097_000, 2_097_200, 2_500_000, 3_000_000])
def test_a_message_that_is_not_sent_to_etcd_has_its_size(api: Api, length: int) -> None:
    code, status = api.ask("POST", BIGS, big(f"a{length}", text="a" * length))
    assert (code, status.get("reason")) == (500, None)
    assert status["message"].endswith(f"larger than max ({length + 301} vs. 2097152)")


def test_a_change_has_the_version_that_it_replaces_and_a_read(api: Api) -> None:
    api.server.store.skip_versions(1000)  # two bytes, as there
    api.post(BIGS, big("s", text="a"))
    patch = {"text": "a" * 2_200_000}
    code, status = api.ask("PATCH", f"{BIGS}/s", patch, content_type=MERGE)
    assert (code, status["message"].split("(")[-1]) == (500, "2200316 vs. 2097152)")
    assert api.get(f"{BIGS}/s")["text"] == "a"


def test_an_apply_needs_its_managed_fields(api: Api) -> None:
    fields = {f"k{number:06}": number for number in range(60_000)}
    code, status = api.ask(
        "PATCH", f"{BIGS}/a?fieldManager=a", big("a", map=fields), content_type=APPLY
    )
    assert (code, status["message"]) == (500, TOO_LARGE)
    assert "managedFields" not in api.post(BIGS, big("a", map=fields))["metadata"]


@pytest.mark.parametrize(("length", "code"), [(157_000, 201), (158_000, 500)])
def test_the_text_of_a_pod_counts(api: Api, length: int, code: int) -> None:
    large = pod("large")
    large["spec"]["containers"][0]["args"] = ["a" * length] * 10
    assert api.ask("POST", PODS, large)[0] == code


def test_names_of_fields_do_not_count(api: Api) -> None:
    large = pod("large")
    large["spec"]["containers"][0]["env"] = [
        {"name": f"A{number}", "value": "x"} for number in range(20_000)
    ]
    stored = api.post(PODS, large)
    assert len(json.dumps(stored)) > 1_900_000
    assert "managedFields" in stored["metadata"]


def test_bytes_count_as_bytes(api: Api) -> None:
    content = base64.b64encode(bytes((1 << 20) - 9)).decode()
    notes = {"note": "x" * (200 << 10)}
    secret = {"metadata": {"name": "s", "annotations": notes}, "data": {"a": content}}
    assert "managedFields" in api.post(SECRETS, secret)["metadata"]


def test_a_preview_is_not_stored_so_it_may_be_larger(api: Api) -> None:
    code, _ = api.ask("POST", f"{BIGS}?dryRun=All", big("a", text="a" * 1_600_000))
    assert code == 201
