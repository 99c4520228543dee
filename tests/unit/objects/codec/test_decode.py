"""Decoding: what is taken, what is refused and how, and that no list is lost."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import ConfigError
from mooring.objects import KINDS, ObjectMeta, Pod
from mooring.objects.codec.decode import (
    ERRORS_MAX,
    convert,
    decode,
    decode_list,
    encode,
    to_builtins,
)


def pod_json(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def as_bytes(raw: Any) -> bytes:
    return json.dumps(raw).encode()


def list_of(*items: Any, **metadata: Any) -> bytes:
    return as_bytes({"kind": "PodList", "metadata": metadata, "items": list(items)})


def complaint(raw: Any, kind: str = "Pod") -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        decode(raw if isinstance(raw, bytes) else as_bytes(raw), kind)
    return caught.value


def test_an_object_is_read_with_the_fields_that_are_known() -> None:
    found = decode(as_bytes(pod_json(nodeName="n1", dnsPolicy="Default", future={"a": [1]})), "Pod")
    assert isinstance(found, Pod)
    assert (found.metadata.name, found.spec.node_name) == ("web", "n1")
    assert (found.api_version, found.kind) == ("v1", "Pod")


def test_names_that_are_not_plain_camel_case_are_read() -> None:
    ports = [{"containerPort": 80, "hostIP": "10.0.0.1"}]
    volumes = [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]
    found = decode(as_bytes(pod_json(containers=[{"ports": ports}], volumes=volumes)), "Pod")
    assert found.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert found.spec.volumes[0].aws_elastic_block_store.volume_id == "vol-1"


def test_null_is_the_same_as_absent_everywhere() -> None:
    raw = {
        "metadata": {"name": "web", "labels": {"a": None, "b": "c"}, "finalizers": [None, "f"]},
        "spec": {
            "containers": [None, {"name": "c", "ports": None, "resources": {"requests": None}}],
            "tolerations": None,
            "priority": None,
            "hostNetwork": None,
            "overhead": {"cpu": None},
        },
        "status": None,
    }
    found = decode(as_bytes(raw), "Pod")
    assert found.metadata.labels == {"a": "", "b": "c"}
    assert found.metadata.finalizers == ("", "f")
    assert [one.name for one in found.spec.containers] == ["", "c"]
    assert (found.spec.tolerations, found.spec.priority, found.spec.host_network) == (
        (),
        None,
        False,
    )
    assert found.spec.overhead == {"cpu": 0}


def test_a_number_is_a_quantity() -> None:
    requests = {"cpu": 2, "memory": 1.5e9, "example.com/gpu": "1"}
    found = decode(as_bytes(pod_json(containers=[{"resources": {"requests": requests}}])), "Pod")
    assert found.spec.containers[0].resources.requests == requests


@pytest.mark.parametrize(
    ("raw", "path", "problem", "value"),
    [
        (pod_json(nodeName=3), "spec.nodeName", "must be a string", 3),
        (pod_json(hostNetwork="yes"), "spec.hostNetwork", "must be true or false", "yes"),
        (pod_json(priority="high"), "spec.priority", "must be an integer or nothing", "high"),
        (pod_json(priority=2**31), "spec.priority", "must be at most 2147483647", 2**31),
        (pod_json(containers={}), "spec.containers", "must be a list", {}),
        (pod_json(containers=["x"]), "spec.containers[0]", "must be a mapping", "x"),
        (
            pod_json(overhead={"memory": "1Gi", "cpu": "1x"}),
            "spec.overhead.cpu",
            "is not a quantity",
            "1x",
        ),
        (pod_json(overhead={"a": "1x", "b": "1y"}), "spec.overhead.a", "is not a quantity", "1x"),
        (
            pod_json(nodeSelector={"a": "b", "c": True}),
            "spec.nodeSelector.c",
            "must be a string",
            True,
        ),
        ({"metadata": {"name": ""}}, "metadata.name", "must not be empty", ""),
        ({"spec": {}}, "metadata.name", "must not be empty", ""),
        ({"kind": "Node", "metadata": {"name": "n"}}, "kind", "must be Pod", "Node"),
        ({"apiVersion": "v2", "metadata": {"name": "n"}}, "apiVersion", "must be v1", "v2"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_path_and_value(
    raw: dict[str, Any], path: str, problem: str, value: Any
) -> None:
    error = complaint(raw)
    assert (error.path, error.problem, error.value) == (path, problem, value)


def test_a_fault_is_found_behind_nulls_too() -> None:
    error = complaint(pod_json(tolerations=None, containers=[None, {"name": 7}]))
    assert (error.path, error.value) == ("spec.containers[1].name", 7)


@pytest.mark.parametrize("data", [b"", b"{", b'{"metadata":', b"nonsense"])
def test_what_is_not_json_is_reported(data: bytes) -> None:
    assert "is not JSON" in complaint(data).problem


@pytest.mark.parametrize("data", [b"[]", b"3", b"null", b'"x"'])
def test_what_is_no_object_is_reported(data: bytes) -> None:
    assert complaint(data).problem == "must be a mapping that describes a Pod"


def test_bottomless_nesting_is_an_error_and_no_crash() -> None:
    depth = 200_000  # Python's limit is a thousand levels, and tens of thousands since 3.12
    data = b'{"metadata": {"name": "a"}, "spec": ' + b'{"x": ' * depth + b"1" + b"}" * (depth + 1)
    assert complaint(data).problem == "is nested too deeply"


def test_an_unknown_kind_is_reported_with_a_suggestion() -> None:
    error = complaint({"metadata": {"name": "a"}}, kind="pod")
    assert (error.path, error.value, error.suggestion) == ("kind", "pod", "Pod")


def test_a_list_keeps_its_place_and_its_next_page() -> None:
    found = decode_list(
        list_of(pod_json("a"), pod_json("b"), resourceVersion="7", **{"continue": "t"}), "Pod"
    )
    assert [one.metadata.name for one in found.items] == ["a", "b"]
    assert (found.resource_version, found.continue_, found.malformed) == ("7", "t", 0)


def test_one_malformed_item_never_loses_the_list() -> None:
    data = list_of(
        pod_json("good"),
        pod_json("bad", nodeName=5),
        pod_json("null", tolerations=None),
        {"metadata": {}},
        "nonsense",
        {"kind": "Node", "metadata": {"name": "other"}},
        pod_json("last"),
        resourceVersion="9",
    )
    found = decode_list(data, "Pod")
    assert [one.metadata.name for one in found.items] == ["good", "null", "last"]
    assert (found.malformed, found.resource_version) == (4, "9")
    assert [error.path for error in found.errors] == [
        "items[1].spec.nodeName", "items[3].metadata.name", "items[4]", "items[5].kind",
    ]  # fmt: skip


def test_a_list_of_bad_items_keeps_only_the_first_errors() -> None:
    found = decode_list(list_of(*[pod_json(nodeName=n) for n in range(1000)]), "Pod")
    assert (found.items, found.malformed, len(found.errors)) == ((), 1000, ERRORS_MAX)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"b\xffb", "b\ufffdb"),
        (rb"b\ud800b", "b\ufffdb"),
        (rb"\udc00\ud800", "\ufffd\ufffd"),
        (rb"\ud83d\ude00\ud83d", "\U0001f600\ufffd"),
        (rb"\\ud800\ud800", "\\ud800\ufffd"),
    ],
)
def test_broken_text_is_mended_as_go_does_it(written: bytes, read: str) -> None:
    data = list_of(pod_json("a"), pod_json("b-b"), pod_json("c")).replace(b"b-b", written)
    found = decode_list(data, "Pod")
    assert [one.metadata.name for one in found.items] == ["a", read, "c"]
    assert found.malformed == 0


@pytest.mark.parametrize("data", [b'{"items": null}', b"{}", b'{"items": [], "metadata": null}'])
def test_an_empty_list_is_fine(data: bytes) -> None:
    found = decode_list(data, "Node")
    assert (found.items, found.resource_version, found.malformed) == ((), "", 0)


@pytest.mark.parametrize("data", [b"[]", b'{"items": {}}', b'{"items": [', b"nonsense"])
def test_what_is_no_list_is_an_error(data: bytes) -> None:
    with pytest.raises(ConfigError):
        decode_list(data, "Pod")


def test_converting_leaves_what_it_reads_alone() -> None:
    raw = pod_json(tolerations=None, overhead={"cpu": "1x"}, nodeSelector={"a": "b"})
    before = json.dumps(raw)
    with pytest.raises(ConfigError):
        convert(raw, "Pod")
    assert json.dumps(raw) == before


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_says_what_it_is_when_it_is_written(name: str) -> None:
    kind = KINDS[name]
    written = json.loads(encode(kind.struct(metadata=ObjectMeta(name="x"))))
    assert written == {
        "apiVersion": kind.api_version, "kind": name, "metadata": {"name": "x"},
    }  # fmt: skip
    assert decode(as_bytes(written), name) == kind.struct(metadata=ObjectMeta(name="x"))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab1", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "key", "cpu", "requests", "ports"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries(
                {"name": st.just("x")}, optional={"labels": JSON_VALUES}
            )
        },
        optional={
            "spec": st.dictionaries(
                st.sampled_from(["containers", "tolerations", "overhead", "affinity", "priority"]),
                JSON_VALUES,
                max_size=3,
            )
        },
    )
)
def test_any_json_is_read_or_refused_with_a_config_error(raw: dict[str, Any]) -> None:
    try:
        found = decode(as_bytes(raw), "Pod")
    except ConfigError:
        return
    assert convert(raw, "Pod") == found
    assert decode(encode(found), "Pod") == found
    assert convert(to_builtins(found), "Pod") == found


def test_structs_are_frozen() -> None:
    found = decode(as_bytes(pod_json()), "Pod")
    with pytest.raises(AttributeError):
        found.spec.node_name = "n1"
    moved = msgspec.structs.replace(found.spec, node_name="n1")
    assert (moved.node_name, found.spec.node_name) == ("n1", "")
