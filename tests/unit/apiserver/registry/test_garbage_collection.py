from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.api import CONFIG_MAPS, Api, Object, config_map

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v2/namespaces/default/widgets"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
FINALIZER = "example.com/wait"
ABSENT = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "1-2-3"}


def reference(owner: Object, **fields: Any) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **fields,
    }


def blocking(owner: Object) -> Object:
    return reference(owner, blockOwnerDeletion=True)


def create(api: Api, name: str, *owners: Object, is_held: bool = False) -> Object:
    metadata = {"ownerReferences": [*owners], "finalizers": [FINALIZER] if is_held else []}
    return api.post(CONFIG_MAPS, config_map(name, metadata=metadata))


def release(api: Api, name: str) -> None:
    api.patch(f"{CONFIG_MAPS}/{name}", {"metadata": {"finalizers": None}})


def delete_in_foreground(api: Api, path: str) -> None:
    api.delete(path, {"propagationPolicy": "Foreground"})


def states(api: Api) -> dict[str, str]:
    """Returns the name of each ConfigMap, and whether it is being deleted."""
    return {
        obj["metadata"]["name"]: "terminating"
        if "deletionTimestamp" in obj["metadata"]
        else "there"
        for obj in api.get(CONFIG_MAPS)["items"]
    }


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def widget(api: Api) -> Object:
    """Returns an owner of a kind with two versions, as it is in the version not stored."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema}
        for name in ("v1", "v2")
    ]
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    api.post(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    head = {"apiVersion": "example.com/v2", "kind": "Widget"}
    return api.post(WIDGETS, {**head, "metadata": {"name": "widget"}})


# ---------------------------------------------------------------------- which owners exist


def test_an_owner_may_be_named_in_any_served_version(api: Api, widget: Object) -> None:
    owner = create(api, "owner")
    create(api, "shared", reference(owner), reference(widget))
    api.delete(f"{CONFIG_MAPS}/owner")
    owners = api.get(f"{CONFIG_MAPS}/shared")["metadata"]["ownerReferences"]
    assert [each["kind"] for each in owners] == ["Widget"]
    api.delete(f"{WIDGETS}/widget")
    assert states(api) == {}


def test_an_owner_that_is_named_in_another_version_waits_for_its_dependents(
    api: Api, widget: Object
) -> None:
    create(api, "child", blocking(widget), is_held=True)
    delete_in_foreground(api, f"{WIDGETS}/widget")
    assert api.ask("GET", f"{WIDGETS}/widget")[0] == 200
    release(api, "child")
    assert api.ask("GET", f"{WIDGETS}/widget")[0] == 404


def test_objects_without_namespace_stay_if_their_owner_has_one(api: Api) -> None:
    owner = create(api, "owner")
    metadata = {"name": "fast", "ownerReferences": [reference(owner)]}
    api.post(STORAGE_CLASSES, {"metadata": metadata, "provisioner": "example.com/disks"})
    api.delete(f"{CONFIG_MAPS}/owner")
    assert api.names(STORAGE_CLASSES) == ["fast"]


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v9", "ConfigMap"), ("example.com/v1", "Widget"), ("v1", "Other")]
)
def test_dependents_stay_if_the_kind_of_an_owner_is_unknown(
    api: Api, api_version: str, kind: str
) -> None:
    owner = create(api, "owner")
    create(api, "child", reference(owner, apiVersion=api_version, kind=kind))
    create(api, "other", reference(owner), {**ABSENT, "apiVersion": api_version, "kind": kind})
    api.delete(f"{CONFIG_MAPS}/owner")
    assert states(api) == {"child": "there", "other": "there"}


@pytest.mark.parametrize("field", ["name", "uid", "kind"])
def test_dependents_go_if_no_object_is_the_owner(api: Api, field: str) -> None:
    owner = create(api, "owner")
    values = {"name": "other", "uid": "1-2-3", "kind": "Secret"}
    create(api, "child", reference(owner, **{field: values[field]}))
    assert states(api) == {"owner": "there"}


# ---------------------------------------------------------------------- absent owners


def test_dependents_of_an_owner_that_was_deleted_before_go(api: Api) -> None:
    owner = create(api, "owner")
    api.delete(f"{CONFIG_MAPS}/owner")
    assert create(api, "child", reference(owner))["metadata"]["name"] == "child"
    create(api, "held", reference(owner), is_held=True)
    assert states(api) == {"held": "terminating"}


def test_an_absent_owner_is_taken_from_a_dependent_with_another_one(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", ABSENT, reference(owner))
    owners = api.get(f"{CONFIG_MAPS}/child")["metadata"]["ownerReferences"]
    assert owners == [reference(owner)]


def test_a_changed_object_is_deleted_if_its_new_owner_is_absent(api: Api) -> None:
    create(api, "child")
    api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"ownerReferences": [ABSENT]}})
    assert states(api) == {}


def test_dependents_of_absent_owners_in_a_snapshot_go(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", reference(owner))
    lines = api.server.snapshot().splitlines(keepends=True)
    uid = owner["metadata"]["uid"]
    snapshot = json.loads(b"".join(lines))
    maps = snapshot["objects"]["configmaps"]
    snapshot["objects"]["configmaps"] = [o for o in maps if o["metadata"]["uid"] != uid]
    snapshot["format"] = "mooring-apiserver-1"  # that has no checksum
    api.server.load(json.dumps(snapshot).encode())
    assert states(api) == {}


# ---------------------------------------------------------------------- in foreground


def test_an_owner_does_not_wait_for_dependents_that_do_not_block(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", reference(owner, blockOwnerDeletion=False), is_held=True)
    delete_in_foreground(api, f"{CONFIG_MAPS}/owner")
    assert states(api) == {"child": "terminating"}


def test_a_deletion_in_foreground_goes_through_all_levels(api: Api) -> None:
    owner = create(api, "owner")
    child = create(api, "child", blocking(owner))
    create(api, "grandchild", blocking(child), is_held=True)
    delete_in_foreground(api, f"{CONFIG_MAPS}/owner")
    everything = ("owner", "child", "grandchild")
    assert states(api) == dict.fromkeys(sorted(everything), "terminating")
    release(api, "grandchild")
    assert states(api) == {}


def test_a_circle_of_owners_is_deleted_in_foreground(api: Api) -> None:
    first = create(api, "first")
    second = create(api, "second", blocking(first))
    third = create(api, "third", blocking(second))
    change = {"metadata": {"ownerReferences": [blocking(third)]}}
    api.patch(f"{CONFIG_MAPS}/first", change)
    delete_in_foreground(api, f"{CONFIG_MAPS}/first")
    assert states(api) == {}


def test_an_owner_goes_when_its_dependent_does_not_block_any_more(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", blocking(owner), is_held=True)
    delete_in_foreground(api, f"{CONFIG_MAPS}/owner")
    change = {"metadata": {"ownerReferences": [reference(owner, blockOwnerDeletion=False)]}}
    api.patch(f"{CONFIG_MAPS}/child", change)
    assert states(api) == {"child": "terminating"}


def test_a_dependent_that_is_created_while_its_owner_waits_goes_too(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", blocking(owner), is_held=True)
    delete_in_foreground(api, f"{CONFIG_MAPS}/owner")
    create(api, "late", blocking(owner))
    release(api, "child")
    assert states(api) == {}


def test_an_owner_that_waits_in_a_snapshot_goes_with_its_last_dependent(api: Api) -> None:
    owner = create(api, "owner")
    create(api, "child", blocking(owner), is_held=True)
    delete_in_foreground(api, f"{CONFIG_MAPS}/owner")
    later = Api()
    later.server = ApiServer(VirtualClock(), seeded_random(2))
    later.server.load(api.server.snapshot())
    assert states(later) == {"child": "terminating", "owner": "terminating"}
    release(later, "child")
    assert states(later) == {}
