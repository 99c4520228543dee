from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.stored_object import Stored, head_of, key_of, tail_of

PODS = resource_named("", "pods")
TEXTS = st.text(max_size=8)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def stored(obj: dict[str, Any], version: int = 7) -> Stored:
    return Stored(head_of(PODS), "ns/x", version, tail_of(obj), obj["metadata"].get("labels"))


def test_encoded_object_has_kind_and_version() -> None:
    stored_object = stored({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert json.loads(stored_object.encoded()) == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "x", "resourceVersion": "7"},
        "spec": {"a": 1},
    }


def test_items_of_lists_have_no_kind() -> None:
    obj = json.loads(stored({"metadata": {"name": "x"}}).item())
    assert obj == {"metadata": {"name": "x", "resourceVersion": "7"}}


def test_an_object_without_metadata_fields_is_encoded() -> None:
    assert json.loads(stored({"metadata": {}}).encoded())["metadata"] == {"resourceVersion": "7"}


def test_another_version_changes_nothing_else() -> None:
    stored_object = stored({"metadata": {"name": "x", "labels": {"resourceVersion": "7"}}})
    moved = stored_object.at_version(9)
    assert moved.object()["metadata"].pop("resourceVersion") == "9"
    assert moved.tail == stored_object.tail
    assert moved.labels == {"resourceVersion": "7"}


@given(metadata=st.dictionaries(TEXTS, TREES, max_size=3), spec=TREES)
def test_what_is_stored_is_what_was_given(metadata: dict[str, Any], spec: Any) -> None:
    metadata.pop("labels", None)
    stored_object = stored({"metadata": metadata, "spec": spec}).object()
    expected = {**metadata, "resourceVersion": "7"}
    assert (stored_object["metadata"], stored_object["spec"]) == (expected, spec)


@given(spec=st.dictionaries(TEXTS, TREES, max_size=4))
def test_equal_objects_have_equal_tails_in_any_order(spec: dict[str, Any]) -> None:
    backwards = dict(reversed(spec.items()))
    one = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "3"}, "spec": spec}
    other = {"spec": backwards, "metadata": {"uid": "u", "name": "x"}, "kind": "Pod"}
    assert tail_of(one) == tail_of(other)


def test_keys_name_namespace_and_object() -> None:
    assert key_of("ns", "x") == "ns/x"
    assert key_of("", "n1") == "n1"
    result = Stored(head_of(PODS), "ns/x", 1, b'"}}', None)
    assert (result.namespace, result.name) == ("ns", "x")
