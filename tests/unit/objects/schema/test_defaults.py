"""Defaults of the server, and its encoding; for files see test_files_as_stored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.schema.type_errors import find_type_errors, go_type
from mooring.clock import seeded_random
from mooring.objects.schema.decoding import WrongType, canonical_quantity, empty, reader_of
from mooring.objects.schema.defaults import pull_policy_of
from mooring.objects.schema.types import structs
from mooring.testing.random_cluster import random_node, random_pod


@pytest.mark.parametrize("seed", range(20))
def test_random_objects_are_read_without_loss(seed: int) -> None:
    for made, type_name in (
        (random_pod(seeded_random(seed), "p"), "core.Pod"),
        (random_node(seeded_random(seed), "n"), "core.Node"),
    ):
        written = json.loads(msgspec.json.encode(made))
        problem, unknown = find_type_errors(type_name, written)
        assert (problem, unknown) == ("", [])
        found = reader_of(type_name).read(written)
        again = reader_of(type_name).read(json.loads(json.dumps(found)))
        assert again == found


@pytest.mark.parametrize("type_name", structs())
def test_every_type_can_be_empty(type_name: str) -> None:
    found = empty(type_name)
    assert find_type_errors(type_name, found) == ("", [])
    assert reader_of(type_name).read(found) is not found


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("registry:5000/a/b", "Always"),
        ("registry:5000/a/b:v1", "IfNotPresent"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_images_are_pulled_always_if_they_may_change(image: str, policy: str) -> None:
    assert pull_policy_of(image) == policy


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Ki", "1Mi"),
        ("1e3", "1e3"),
        ("+1", "1"),
        (" 2 ", "2"),
        ("0.10", "100m"),
        ("1.5Gi", "1536Mi"),
    ],
)
def test_quantities_have_one_form(written: str, stored: str) -> None:
    assert canonical_quantity(written) == stored


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.999Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
    ],
)
def test_times_have_one_form(written: str, stored: str) -> None:
    found = reader_of("meta.ObjectMeta").read({"creationTimestamp": written})
    assert found == {"creationTimestamp": stored}


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("nodeName", "", False),
        ("hostNetwork", False, False),
        ("tolerations", [], False),
        ("nodeSelector", {}, False),
        ("priority", 0, True),
        ("automountServiceAccountToken", False, True),
        ("affinity", {}, True),
        ("runtimeClassName", "", True),
        ("priority", None, False),
    ],
)
def test_empty_values_are_left_out_where_go_leaves_them_out(
    field: str, value: Any, kept: bool
) -> None:
    assert (field in reader_of("core.PodSpec").read({field: value})) is kept


@pytest.mark.parametrize(
    "value",
    [[], "x", 5, True],
)
def test_values_of_another_type_are_refused(value: Any) -> None:
    with pytest.raises(WrongType):
        reader_of("core.PodSpec").read({"securityContext": value})


@pytest.mark.parametrize("value", [False, 0, 5, [], {}])
def test_map_values_of_another_type_are_refused_after_a_null(value: Any) -> None:
    with pytest.raises(WrongType):
        reader_of("core.PodSpec").read({"nodeSelector": {"a": None, "b": value}})


def test_nulls_in_lists_are_empty_elements() -> None:
    found = reader_of("core.PodSpec").read({"tolerations": [None], "nodeSelector": {"a": None}})
    assert found["tolerations"] == [{}]
    assert found["nodeSelector"] == {"a": ""}


@pytest.mark.parametrize("pattern", [{}, {"status": ""}])
def test_a_condition_of_a_failure_policy_is_true_by_default(pattern: dict[str, Any]) -> None:
    """Source: pkg/apis/batch/v1 (SetDefaults_PodFailurePolicyOnPodConditionsPattern)."""
    conditions = [{"type": "DisruptionTarget", **pattern}]
    policy = {"rules": [{"action": "Ignore", "onPodConditions": conditions}]}
    read = reader_of("batch.PodFailurePolicy").read(policy)
    assert read["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_types_are_named_as_go_does() -> None:
    assert go_type("{}Quantity") == "map[string]Quantity"
    assert go_type("[]core.Container") == "[]v1.Container"


FIELDS = st.sampled_from(["metadata", "spec", "containers", "name", "labels", "x"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(FIELDS, ANY_JSON))
def test_any_json_is_read_or_refused(value: dict[str, Any]) -> None:
    reader = reader_of("core.Pod")
    try:
        reader.read(value)
    except WrongType:
        problem, _ = find_type_errors("core.Pod", value)
        assert problem
    else:
        problem, unknown = find_type_errors("core.Pod", value)
        assert not problem
        assert bool(unknown) is reader.has_unknown_fields
