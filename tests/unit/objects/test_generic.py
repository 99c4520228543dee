"""Objects without a struct: what is decoded, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from mooring.client.informer.watch_events import EventReader
from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode, decode_list, encode, to_builtins
from mooring.objects.generic import GenericObject, generic_class, resource_name_of
from mooring.objects.kinds import kind_named

GROUPS = kind_named("podgroups.v1alpha1.scheduling.x-k8s.io")
HEAD = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}


def text(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def test_an_object_has_its_metadata_and_all_its_fields() -> None:
    raw = {
        **HEAD,
        "metadata": {"name": "g", "namespace": "shop", "labels": None},
        "spec": {"minMember": 3},
        "data": [1],
    }
    group = decode(text(raw), GROUPS)

    assert (group.metadata.name, group.metadata.namespace, group.metadata.labels) == (
        "g",
        "shop",
        {},
    )
    assert (group.spec, group.status, group["data"]) == ({"minMember": 3}, {}, [1])
    assert (group.api_version, group.kind) == (HEAD["apiVersion"], "PodGroup")
    assert json.loads(encode(group)) == to_builtins(group) == raw


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({}, "must be an object with metadata"),
        ({**HEAD, "metadata": {"name": 3}}, "must be an object with metadata"),
        ({**HEAD, "metadata": {}}, "metadata.name: must not be empty"),
        ({"apiVersion": "v2", "metadata": {"name": "g"}}, "apiVersion: must be scheduling"),
        ([], "must be a mapping"),
    ],
)
def test_what_is_no_object_of_the_resource_is_an_error(raw: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        decode(text(raw), GROUPS)


def test_one_malformed_object_does_not_lose_a_list() -> None:
    items = [{**HEAD, "metadata": {"name": "a"}}, {"metadata": {"labels": 3}}]
    whole = decode_list(text({"metadata": {"resourceVersion": "7"}, "items": items}), GROUPS)

    assert [obj.metadata.name for obj in whole.items] == ["a"]
    assert (whole.malformed, whole.resource_version) == (1, "7")


def test_objects_in_a_list_of_a_built_in_kind_have_no_kind() -> None:
    kind = kind_named("configmaps.v1.")
    whole = decode_list(text({"items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}]}), kind)

    assert (whole.items[0].api_version, whole.items[0].kind) == ("v1", "")
    assert whole.items[0]["data"] == {"k": "v"}


def test_events_of_a_watch_are_decoded() -> None:
    obj = {**HEAD, "metadata": {"name": "g", "namespace": "n", "resourceVersion": "5"}}
    event = EventReader(GROUPS).read(text({"type": "ADDED", "object": obj}))

    assert (event.type, event.key, event.version) == ("ADDED", "n/g", "5")
    assert event.obj.kind == "PodGroup"


def test_a_resource_name_is_a_kind() -> None:
    assert GROUPS.path == "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    assert kind_named("configmaps.v1.").path == "/api/v1/configmaps"
    assert kind_named("poddisruptionbudgets.v1.policy") is kind_named("PodDisruptionBudget")
    assert kind_named("pods.v1.").name == "Pod"


@pytest.mark.parametrize("name", ["podgroups", "podgroups.v1", "Groups.v1.x", "a.b.c"])
def test_other_names_are_no_kinds(name: str) -> None:
    with pytest.raises(ConfigError, match="is not read by mooring"):
        kind_named(name)


@pytest.mark.parametrize(
    ("api_version", "kind", "name"),
    # As UnsafeGuessKindToResource of k8s.io/apimachinery.
    [
        ("v1", "ConfigMap", "configmaps.v1."),
        ("v1", "Endpoints", "endpoints.v1."),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses.v1.networking.k8s.io"),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies.v1.networking.k8s.io"),
    ],
)
def test_the_plural_of_a_kind_is_guessed(api_version: str, kind: str, name: str) -> None:
    assert resource_name_of(api_version, kind) == name


@pytest.mark.parametrize(
    "cls", [GenericObject, generic_class("podgroups.v1alpha1.scheduling.x-k8s.io")]
)
def test_an_object_can_be_copied_and_pickled(cls: type[GenericObject]) -> None:
    obj = cls({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 3}})

    for other in (copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):
        assert type(other) is cls
        assert dict(other) == dict(obj)
        assert other.metadata == obj.metadata
        assert other.spec == {"minMember": 3}
