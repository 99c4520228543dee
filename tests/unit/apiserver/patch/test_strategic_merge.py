"""Strategic merge patches; the cases of kinds of lists follow upstream's patch_test.go."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.patch.patch import JSON_PATCH, MERGE_PATCH, apply_patch
from mooring.apiserver.patch.strategic_merge import go_text, strategic_merge

Object = dict[str, Any]


def merged(original: Object, patch: Object, type_name: str = "core.PodSpec") -> Object:
    return strategic_merge(copy.deepcopy(original), copy.deepcopy(patch), type_name)


def named(*names: str, **fields: str) -> list[Object]:
    return [{"name": name, **fields} for name in names]


def names(obj: Object, key: str = "containers", by: str = "name") -> list[str]:
    return [item[by] for item in obj[key]]


def test_scalars_are_replaced_and_null_removes() -> None:
    original = {"priority": 1, "nodeName": "n"}
    assert merged(original, {"priority": 2, "nodeName": None}) == {"priority": 2}


def test_elements_are_merged_by_their_merge_key() -> None:
    original = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}
    obj = merged(original, {"containers": [{"name": "b", "image": "3"}]})
    assert obj["containers"] == [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]


def test_new_elements_come_before_those_that_the_patch_does_not_name() -> None:
    obj = merged({"containers": named("a")}, {"containers": named("b")})
    assert names(obj) == ["b", "a"]


def test_lists_without_merge_strategy_are_replaced() -> None:
    original = {"tolerations": [{"key": "a"}]}
    assert merged(original, {"tolerations": [{"key": "b"}]}) == {"tolerations": [{"key": "b"}]}


def test_lists_of_scalars_with_merge_strategy_are_united() -> None:
    obj = merged({"finalizers": ["a", "b"]}, {"finalizers": ["c", "b"]}, "meta.ObjectMeta")
    assert sorted(obj["finalizers"]) == ["a", "b", "c"]


def test_maps_are_merged_key_by_key() -> None:
    obj = merged({"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"b": None, "c": "3"}})
    assert obj == {"nodeSelector": {"a": "1", "c": "3"}}


def test_conditions_merge_by_type() -> None:
    original = {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}
    patch = {"conditions": [{"type": "Ready", "status": "False"}]}
    obj = merged(original, patch, "core.NodeStatus")
    assert obj["conditions"] == [{"type": "Ready", "status": "False", "reason": "x"}]


def test_delete_directive_removes_an_element() -> None:
    patch = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert names(merged({"containers": named("a", "b")}, patch)) == ["b"]


def test_replace_directive_replaces_a_list() -> None:
    patch = {"containers": [*named("c"), {"$patch": "replace"}]}
    assert names(merged({"containers": named("a", "b")}, patch)) == ["c"]


def test_replace_directive_replaces_an_object() -> None:
    patch = {"nodeSelector": {"$patch": "replace", "c": "3"}}
    assert merged({"nodeSelector": {"a": "1"}}, patch) == {"nodeSelector": {"c": "3"}}


def test_delete_directive_empties_an_object() -> None:
    patch = {"nodeSelector": {"$patch": "delete"}}
    assert merged({"nodeSelector": {"a": "1"}}, patch) == {"nodeSelector": {}}


def test_directives_for_what_is_not_there_leave_no_trace() -> None:
    patch = {"containers": [{"name": "a", "$patch": "delete"}], "affinity": {"$patch": "delete"}}
    assert merged({}, patch) == {"containers": []}


def test_nulls_in_what_is_new_are_left_out() -> None:
    obj = merged({}, {"affinity": {"nodeAffinity": None, "podAffinity": {}}})
    assert obj == {"affinity": {"podAffinity": {}}}


def test_retained_keys_clear_all_others() -> None:
    original = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert merged(original, patch, "apps.DeploymentSpec") == {"strategy": {"type": "Recreate"}}


def test_retained_keys_of_a_volume_change_its_kind() -> None:
    original = {"volumes": [{"name": "v", "emptyDir": {}}]}
    change = {"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}
    obj = merged(original, {"volumes": [change]})
    assert obj["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_retained_keys_must_hold_what_is_set() -> None:
    with pytest.raises(ApiStatusError, match="invalid patch format of retainKeys"):
        merged(
            {"strategy": {}}, {"strategy": {"$retainKeys": ["a"], "b": 1}}, "apps.DeploymentSpec"
        )


def test_set_element_order_sorts_the_list() -> None:
    patch = {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}
    assert names(merged({"containers": named("a", "b", "c")}, patch)) == ["c", "a", "b"]


def test_what_only_the_server_has_keeps_its_place_in_the_order() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "b"}],
        "containers": named("new"),
    }
    obj = merged({"containers": named("server", "b")}, patch)
    assert names(obj) == ["new", "server", "b"]


def test_order_that_contradicts_the_list_is_refused() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": named("a", "b"),
    }
    with pytest.raises(ApiStatusError, match="The order in patch list"):
        merged({"containers": named("a", "b")}, patch)


def test_scalars_are_deleted_from_a_list() -> None:
    patch = {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}
    obj = merged({"finalizers": ["a", "b"]}, patch, "meta.ObjectMeta")
    assert obj == {"finalizers": ["b"]}


def test_ports_merge_by_their_number_alone() -> None:
    original = {"ports": [{"containerPort": 80, "protocol": "TCP"}]}
    patch = {"ports": [{"containerPort": 80, "name": "http"}]}
    obj = merged(original, patch, "core.Container")
    assert obj["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]


def test_taints_are_replaced_as_a_whole() -> None:
    # kubectl taint sends all taints, whatever they were before.
    original = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    patch = {"taints": [{"key": "b", "effect": "NoExecute"}]}
    assert merged(original, patch, "core.NodeSpec") == patch


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"containers": [{"image": "x"}]}, 500),
        ({"containers": [{"name": "a", "$patch": "merge"}]}, 500),
        ({"containers": [{"name": "a", "$patch": "foo"}]}, 500),
        ({"nodeSelector": {"$patch": "foo"}}, 500),
        ({"$setElementOrder/containers": "a"}, 400),
        ({"containers": [["a"]]}, 500),
    ],
)
def test_patches_that_cannot_be_merged_are_refused(patch: Object, code: int) -> None:
    with pytest.raises(ApiStatusError) as error:
        merged({"containers": named("a"), "nodeSelector": {"a": "b"}}, patch)
    assert error.value.code == code


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": LABELS,
        "priority": st.integers(0, 9),
        "containers": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("abcd"), "image": st.text(max_size=3)}),
            unique_by=lambda item: str(item["name"]),
            max_size=4,
        ),
    },
)


@given(original=SPECS, patch=SPECS)
def test_merging_twice_is_merging_once(original: Object, patch: Object) -> None:
    once = merged(original, patch)
    assert merged(once, patch) == once


@given(original=SPECS)
def test_an_empty_patch_changes_nothing(original: Object) -> None:
    assert merged(original, {}) == original


@given(original=SPECS, patch=SPECS)
def test_what_a_patch_says_is_so_afterwards(original: Object, patch: Object) -> None:
    obj = merged(original, patch)
    assert obj.get("nodeSelector", {}).items() >= patch.get("nodeSelector", {}).items()
    images = {item["name"]: item["image"] for item in obj.get("containers", ())}
    for item in patch.get("containers", ()):
        assert images[item["name"]] == item["image"]
    assert {i["name"] for i in original.get("containers", ())} <= set(images)


# ---------------------------------------------------------------------- the other two kinds


def test_merge_patches_are_those_of_the_standard() -> None:
    # RFC 7396, appendix A.
    cases: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for original, patch, expected in cases:
        assert apply_patch(MERGE_PATCH, copy.deepcopy(original), patch, "") == expected


def test_json_patches_move_copy_and_test() -> None:
    operations = [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/a", "path": "/c"},
        {"op": "add", "path": "/l/-", "value": 3},
        {"op": "remove", "path": "/l/0"},
        {"op": "replace", "path": "/x~1y", "value": "new"},
    ]
    obj = apply_patch(JSON_PATCH, {"a": 1, "l": [1, 2]}, operations, "")
    assert obj == {"b": 1, "c": 1, "l": [2, 3], "x/y": "new"}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/no"}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "replace", "path": "/l/7", "value": 2}], 422),
        ([{"op": "fly", "path": "/a"}], 422),
        ([{"op": "replace", "path": "", "value": 5}], 422),
        ([{"op": "add", "path": "a", "value": 5}], 422),
        ([1], 400),
        ({}, 400),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_json_patches_that_fail_are_refused(operations: Any, code: int) -> None:
    with pytest.raises(ApiStatusError) as error:
        apply_patch(JSON_PATCH, {"a": 1, "l": []}, operations, "")
    assert error.value.code == code


def test_values_are_formatted_as_in_go() -> None:
    assert go_text({"b": [1, None, "x"], "a": {"c": False}}) == "map[a:map[c:false] b:[1 <nil> x]]"
