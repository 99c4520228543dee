"""What the server fills in is what ``objects.admission`` fills in for files, and what Go writes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.schema.decoding import WrongType, canonical_quantity, empty, reader_of
from mooring.apiserver.schema.defaults import pull_policy_of
from mooring.apiserver.schema.schema import structs
from mooring.apiserver.schema.type_errors import find_type_errors, go_type
from mooring.clock import seeded_random
from mooring.objects.defaulting.admission import admit_node, admit_pod
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing.random_cluster import random_node, random_pod
from tests.helpers.api import PODS, Api

AMOUNTS = st.sampled_from(["1", "100m", "0.0005", "2Gi", "1e3", "500u", "1.5"])
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS, max_size=2)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"image": st.sampled_from(["a", "a:1", "a:latest"])},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"limits": RESOURCES}),
            "ports": st.lists(
                st.fixed_dictionaries({"containerPort": st.integers(1, 99)}), max_size=2
            ),
        },
    ),
    min_size=1,
    max_size=3,
)


@given(containers=CONTAINERS, host_network=st.booleans(), labels=st.booleans())
def test_pods_are_admitted_as_those_from_files(
    containers: list[dict[str, Any]], host_network: bool, labels: bool
) -> None:
    for number, container in enumerate(containers):
        container["name"] = f"c{number}"
        for position, port in enumerate(container.get("ports", ())):
            port["containerPort"] += 100 * (10 * number + position)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {},
        "matchLabelKeys": ["rev"],
    }
    written: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": containers,
            "hostNetwork": host_network,
            "topologySpreadConstraints": [constraint],
        },
    }
    if labels:
        written["metadata"]["labels"] = {"rev": "1"}
    expected = admit_pod(msgspec.convert(written, Pod))
    stored = msgspec.convert(Api().post(PODS, written), Pod)
    assert normal(stored.spec) == normal(expected.spec)


def normal(spec: Any) -> Any:
    """Amounts in their one form: files keep what people wrote."""
    found = json.loads(msgspec.json.encode(spec))
    for container in found["containers"]:
        for amounts in container.get("resources", {}).values():
            for name in list(amounts or ()):
                amounts[name] = canonical_quantity(amounts[name])
    return found


def test_nodes_are_admitted_as_those_from_files() -> None:
    written = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1.0005", "pods": "9"}}}
    expected = admit_node(msgspec.convert(written, Node)).status
    stored = msgspec.convert(Api().post("/api/v1/nodes", written), Node).status
    assert stored.allocatable == {
        name: canonical_quantity(str(amount)) for name, amount in expected.allocatable.items()
    }


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
