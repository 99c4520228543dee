from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.patch.field_diff import compare
from mooring.apiserver.patch.field_sets import (
    difference,
    intersection,
    paths_of,
    read_fields,
    union,
    with_parents,
    without_paths,
)
from mooring.apiserver.patch.managed_fields import (
    UPDATERS_MAX,
    FieldManager,
    after_update,
    track_create,
    track_update,
    without_stripped,
)
from mooring.apiserver.resources import resource_named
from mooring.clock import seeded_random
from mooring.objects.schema.decoding import empty, reader_of
from mooring.testing.random_cluster import random_pod
from tests.helpers.api import APPLY, CONFIG_MAPS, MERGE, Api, config_map

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = resource_named("", "configmaps")
PODS = resource_named("", "pods")
NOW = "2026-01-01T00:00:00Z"

#: Sets of paths, and what they look like as nested dictionaries.
Paths = frozenset[tuple[str, ...]]
STEPS = st.sampled_from(("f:a", "f:b", 'k:{"name":"x"}'))
PATHS = st.frozensets(st.lists(STEPS, min_size=1, max_size=3).map(tuple), max_size=6)


def nested(paths: Paths) -> dict[str, Any]:
    """Returns the reference: a tree in which each path ends with a mark, as in managedFields."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return trimmed(tree)


def trimmed(tree: dict[str, Any]) -> dict[str, Any]:
    obj = {}
    for step, below in tree.items():
        if step != ".":
            inner = trimmed(below)
            obj[step] = {".": {}, **inner} if inner and "." in below else inner
    return obj


@given(PATHS, PATHS)
def test_sets_of_fields_are_sets(left: Paths, right: Paths) -> None:
    assert union(nested(left), nested(right)) == nested(left | right)
    assert difference(nested(left), nested(right)) == nested(left - right)
    assert intersection(nested(left), nested(right)) == nested(left & right)


@given(PATHS)
def test_a_set_with_parents_has_each_path_above_its_own(paths: Paths) -> None:
    above = frozenset(path[:length] for path in paths for length in range(1, len(path) + 1))
    assert with_parents(nested(paths)) == nested(above)


@given(PATHS)
def test_a_field_goes_with_all_that_is_below_it(paths: Paths) -> None:
    left = frozenset(path for path in paths if path[0] != "f:a")
    deeper = frozenset(path for path in paths if path[:2] != ("f:a", "f:b"))
    assert without_paths(nested(paths), (("a",),)) == nested(left)
    assert without_paths(nested(paths), (("a", "b"),)) == nested(deeper)


def test_paths_are_readable() -> None:
    fields = {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}},
            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {}},
        },
        "f:finalizers": {'v:"a/b"': {}},
    }
    assert list(paths_of(fields)) == [
        '.finalizers[="a/b"]',
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
        '.spec.ports[containerPort=80,protocol="TCP"]',
    ]


VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(VALUES, VALUES)
def test_two_objects_differ_where_their_values_do(old: dict[str, str], new: dict[str, str]) -> None:
    written, removed = compare({"data": old}, {"data": new}, "core.ConfigMap")

    changed = {key for key in new if old.get(key) != new[key]}
    assert set(written.get("f:data", {})) == {f"f:{key}" for key in changed}
    gone = {key for key in old if key not in new}
    assert set(removed.get("f:data", {})) == {f"f:{key}" for key in gone}


def test_elements_are_compared_by_their_names() -> None:
    def pod(*containers: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": list(containers), "tolerations": [{"key": "a"}]}}

    before = pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    after = pod({"name": "c"}, {"name": "b", "image": "2"})
    written, removed = compare(before, after, "core.Pod")

    containers = written["f:spec"]["f:containers"]
    assert containers == {
        'k:{"name":"b"}': {"f:image": {}},
        'k:{"name":"c"}': {".": {}, "f:name": {}},
    }
    gone: dict[str, Any] = {".": {}, "f:name": {}, "f:image": {}}
    assert removed == {"f:spec": {"f:containers": {'k:{"name":"a"}': gone}}}


@pytest.mark.parametrize(
    ("before", "after", "is_written", "is_removed"),
    [
        ("aa", "ab", True, True),
        ("aa", "aa", False, False),
        ("a", "aa", True, True),
        ("aa", "a", True, True),
    ],
)
def test_of_elements_with_one_name_only_the_name_counts(
    before: str, after: str, *, is_written: bool, is_removed: bool
) -> None:
    def pod(names: str) -> dict[str, Any]:
        env = [{"name": name, "value": str(number)} for number, name in enumerate(names)]
        return {"spec": {"containers": [{"name": "c", "env": env}]}}

    changes = compare(pod(before), pod(after), "core.Pod")
    assert (bool(changes.written), bool(changes.removed)) == (is_written, is_removed)


ODD_STEPS = st.sampled_from(
    ("f:a", 'k:{"b": 1,"a":2}', "v: 1", "i:1", "x:a", ".", "a", "k:1", "v:")
)
ODD_ENDS = st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(("", "x", 1.5))
ODD = st.recursive(
    ODD_ENDS, lambda below: st.lists(below, max_size=2) | st.dictionaries(ODD_STEPS, below)
)


@given(ODD)
def test_what_a_client_wrote_becomes_a_set_or_is_refused(written: Any) -> None:
    try:
        fields = read_fields(written)
    except ValueError:
        return
    assert read_fields(fields) == fields
    assert difference(fields, fields) == {}
    assert union(fields, fields) == intersection(fields, fields) == fields


@given(PATHS)
def test_sets_are_read_as_they_are_written(paths: Paths) -> None:
    assert read_fields(nested(paths)) == nested(paths)


def author(manager: str, *, now: str = NOW, part: str = "") -> FieldManager:
    return FieldManager(manager, MAPS, part, now)


def test_an_unnamed_manager_is_unknown() -> None:
    result = config_map("one", data={"a": "1"})
    track_create(result, author(""))
    (entry,) = result["metadata"]["managedFields"]
    assert entry["manager"] == "unknown"


@given(st.integers(0, 2**32))
def test_the_creator_owns_all_that_was_not_there_before_but_status_and_identity(seed: int) -> None:
    raw = msgspec.json.decode(msgspec.json.encode(random_pod(seeded_random(seed), "web")))
    raw["metadata"] = {**raw["metadata"], "labels": {"a": "b"} if seed % 2 else {}, "uid": "u"}
    obj = reader_of("core.Pod").read({**raw, "status": {"phase": "Pending"}})
    before = copy.deepcopy(obj)

    track_create(obj, FieldManager("me", PODS, "", NOW))

    (entry,) = obj["metadata"].pop("managedFields")
    written = compare(empty("core.Pod"), before, "core.Pod").written
    written.pop("f:status", None)
    assert entry["fieldsV1"] == without_stripped(written)
    assert obj == before


def test_a_creator_who_says_nothing_owns_nothing() -> None:
    obj = {"metadata": {"name": "one", "namespace": "default", "uid": "u"}}
    track_create(obj, author("me"))
    assert "managedFields" not in obj["metadata"]


def test_entries_stand_in_the_order_of_their_times() -> None:
    entries: list[dict[str, Any]] = []
    for number, name in enumerate("cab"):
        change = compare({}, {"data": {name: "1"}}, "core.ConfigMap")
        by = author(name, now=f"2026-01-01T00:00:0{number}Z")
        entries = after_update(entries, {"v1": change}, by)
    assert [entry["manager"] for entry in entries] == ["c", "a", "b"]


def test_the_oldest_updaters_become_one() -> None:
    entries: list[dict[str, Any]] = []
    for number in range(UPDATERS_MAX + 3):
        change = compare({}, {"data": {f"k{number}": "1"}}, "core.ConfigMap")
        by = author(f"m{number:02}", now=f"2026-01-01T00:00:{number:02}Z")
        entries = after_update(entries, {"v1": change}, by)
    managers = [entry["manager"] for entry in entries]

    assert len(entries) == UPDATERS_MAX
    assert managers[0] == "ancient-changes"
    assert managers[-1] == "m12"
    oldest = entries[0]["fieldsV1"]["f:data"]
    assert {"f:k0", "f:k1", "f:k2"} <= oldest.keys()


def test_entries_of_another_version_are_dropped() -> None:
    old = {"manager": "x", "operation": "Update", "apiVersion": "v0", "fieldsV1": {"f:data": {}}}
    change = compare({}, {"data": {"a": "1"}}, "core.ConfigMap")
    entries = after_update([old], {"v1": change}, author("me"))
    assert [entry["manager"] for entry in entries] == ["me"]


def test_an_update_adds_no_managed_fields() -> None:
    new, old = config_map("one", data={"a": "2"}), config_map("one", data={"a": "1"})
    track_update(new, old, author("me"))
    assert "managedFields" not in new["metadata"]


# ---------------------------------------------------------------------- through the server


def managers_of(obj: dict[str, Any]) -> list[str]:
    return [entry["manager"] for entry in obj["metadata"].get("managedFields", [])]


def test_the_default_manager_is_the_program() -> None:
    api = Api()
    agent = "kubectl/v1.36.3 (linux)"
    response = api.post(CONFIG_MAPS, config_map("one", data={"a": "1"}), user_agent=agent)
    assert managers_of(response) == ["kubectl"]
    odd = "a\tb" + "é" * 100
    response = api.post(CONFIG_MAPS, config_map("two", data={"a": "1"}), user_agent=odd)
    (name,) = managers_of(response)
    assert name == "ab" + "é" * 63


def test_a_write_that_only_renews_a_time_is_none() -> None:
    api = Api()
    url = f"{CONFIG_MAPS}/one?fieldManager=me"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("one", data={"a": "1"})}
    _, made = api.ask("PATCH", url, applied, content_type=APPLY)
    api.clock.advance(5)
    _, again = api.ask("PATCH", url, applied, content_type=APPLY)
    assert again == made
    assert api.server.store.version == int(made["metadata"]["resourceVersion"])


def test_an_annotation_of_kubectl_that_is_nonsense_hands_nothing_over() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("one", data={"a": "2"})}
    for text in ("{", "[]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","data":5}'):
        api = Api()
        metadata = {"annotations": {name: text}}
        api.post(CONFIG_MAPS, config_map("one", data={"a": "1"}, metadata=metadata))
        url = f"{CONFIG_MAPS}/one?fieldManager=kubectl"
        status, result = api.ask("PATCH", url, applied, content_type=APPLY)
        assert (status, result["reason"]) == (409, "Conflict")


def test_events_are_noted_in_the_kind_in_which_they_are_written() -> None:
    api = Api()
    url = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a/b",
        "reportingInstance": "x",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "regarding": {"namespace": "default"},
    }
    (entry,) = api.post(url, event)["metadata"]["managedFields"]
    assert entry["apiVersion"] == "events.k8s.io/v1"
    assert "f:regarding" in entry["fieldsV1"]


def test_merging_keeps_the_order_of_lists() -> None:
    api = Api()
    labels = {"app": "web"}

    def configuration(*names: str) -> dict[str, Any]:
        containers = [{"name": name, "image": "x"} for name in names]
        spec = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": spec},
        }

    def names_of(result: dict[str, Any]) -> str:
        return "".join(c["name"] for c in result["spec"]["template"]["spec"]["containers"])

    def applied(names: str, manager: str) -> str:
        url = f"{DEPLOYMENTS}/web?fieldManager={manager}&force=true"
        status, result = api.ask("PATCH", url, configuration(*names), content_type=APPLY)
        assert status in (200, 201), result
        return names_of(result)

    assert applied("ac", "first") == "ac"
    assert applied("bc", "second") == "abc"
    assert applied("ca", "first") == "bca"
    assert applied("a", "first") == "bca"
    assert applied("b", "second") == "ba"
    change = {"spec": {"template": {"spec": {"containers": [{"name": "z", "image": "x"}]}}}}
    _, result = api.ask("PATCH", f"{DEPLOYMENTS}/web", change, content_type=MERGE)
    assert names_of(result) == "z"
