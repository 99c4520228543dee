"""Protobuf bodies: recorded from kubectl v1.36.3, and invalid ones.

``RECORDED`` are request bodies as kubectl put them on the wire; the objects beside them are what
the same command prints with ``--dry-run=client -o json``.
"""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.endpoints import protobuf
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.resources import BY_PATH, Resource, resource_named, struct_of
from mooring.objects.schema.decoding import reader_of
from tests.helpers.protobuf_bodies import DEFINITION, DEFINITION_OBJECT

PODS = resource_named("", "pods")

RECORDED = {
    "namespace shop": (
        resource_named("", "namespaces"),
        "6b3873000a0f0a02763112094e616d657370616365121c0a140a0473686f7012001a0022002a0032003800"
        "420012001a020a001a002200",
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}},
    ),
    "configmap c --from-literal=a=b": (
        resource_named("", "configmaps"),
        "6b3873000a0f0a0276311209436f6e6669674d6170121b0a110a016312001a0022002a0032003800420012"
        "060a01611201621a002200",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": {"a": "b"}},
    ),
    "secret generic s --from-literal=a=b": (
        resource_named("", "secrets"),
        "6b3873000a0c0a0276311206536563726574121d0a110a017312001a0022002a0032003800420012060a01"
        "611201621a001a002200",
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"a": "Yg=="}},
    ),
    "priorityclass high --value=1000 --description=x": (
        resource_named("scheduling.k8s.io", "priorityclasses"),
        "6b3873000a250a147363686564756c696e672e6b38732e696f2f7631120d5072696f72697479436c617373"
        "12340a140a046869676812001a0022002a0032003800420010e80718002201782a14507265656d70744c6f"
        "7765725072696f726974791a002200",
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "high"},
            "value": 1000,
            "description": "x",
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    "poddisruptionbudget p --selector=a=b --min-available=50%": (
        resource_named("policy", "poddisruptionbudgets"),
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e42756467657412360a110a"
        "017012001a0022002a0032003800420012150a09080110001a0335302512080a060a01611201621a0a0800"
        "18002000280030001a002200",
        {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": {"name": "p"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
        },
    ),
    "deployment d --image=x --replicas=3 --port=80": (
        resource_named("apps", "deployments"),
        "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412a7010a1b0a016412001a0022002a00"
        "3200380042005a080a03617070120164127a0803120a0a080a036170701201641a620a1a0a0012001a0022"
        "002a003200380042005a080a03617070120164124412260a01781201782a00320a0a001000185022002a00"
        "42006a007200800100880100900100a201001a00320042004a0052005800600068008201008a01009a0100"
        "c2010022020a00280038001a0c0800100018002000280038001a002200",
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "d", "labels": {"app": "d"}},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {
                        "containers": [
                            {"name": "x", "image": "x", "ports": [{"containerPort": 80}]}
                        ]
                    },
                },
            },
        },
    ),
}


def without_empties(value: Any) -> Any:
    """Returns what remains of an object if everything is left out that says nothing."""
    if isinstance(value, dict):
        inner = {key: without_empties(item) for key, item in value.items()}
        return {
            key: item for key, item in inner.items() if item not in ("", 0, False, None, {}, [])
        }
    return [without_empties(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", RECORDED)
def test_what_kubectl_creates_is_read(command: str) -> None:
    resource, body, expected = RECORDED[command]

    assert without_empties(protobuf.to_json(bytes.fromhex(body), resource)) == expected


def test_a_definition_of_a_custom_resource_is_read() -> None:
    definitions = resource_named("apiextensions.k8s.io", "customresourcedefinitions")
    obj = protobuf.to_json(DEFINITION, definitions)

    read_back = reader_of(struct_of(definitions)).read(deepcopy(obj))
    expected = reader_of(struct_of(definitions)).read(deepcopy(DEFINITION_OBJECT))
    del read_back["status"], expected["status"]
    assert (obj["apiVersion"], obj["kind"]) == (definitions.api_version, definitions.kind)
    # As text: 1.0 is not 1.
    assert json.dumps(read_back, sort_keys=True) == json.dumps(expected, sort_keys=True)


# ---------------------------------------------------------------- a small encoder of our own


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    result = b""
    while number >= 0x80:
        result += bytes([number & 0x7F | 0x80])
        number >>= 7
    return result + bytes([number])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(kind: str, message: bytes, api_version: str = "v1") -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, message)


def read(kind: str, message: bytes, api_version: str = "v1", resource: Resource = PODS) -> Any:
    return protobuf.to_json(envelope(kind, message, api_version), resource)


def test_a_kind_is_read_in_the_version_that_is_served() -> None:
    scalers = BY_PATH["autoscaling", "v2", "horizontalpodautoscalers"]
    target = field(1, "Deployment") + field(2, "web") + field(3, "apps/v1")
    message = field(1, field(1, "web")) + field(2, field(1, target) + field(3, 5))

    assert read("HorizontalPodAutoscaler", message, "autoscaling/v2", scalers) == {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
            "maxReplicas": 5,
        },
    }
    # The message of autoscaling/v1 is another one.
    with pytest.raises(ApiStatusError, match="no kind"):
        read("HorizontalPodAutoscaler", message, "autoscaling/v1", scalers)


def test_a_binding_names_pod_uid_and_node() -> None:
    metadata = field(1, "web-0") + field(3, "shop") + field(5, "u-1")
    target = field(1, "Node") + field(3, "n-1")

    assert read("Binding", field(1, metadata) + field(2, target)) == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"},
        "target": {"kind": "Node", "name": "n-1"},
    }


def test_an_event_has_times_to_the_microsecond() -> None:
    moment = field(1, 1_767_225_600) + field(2, 123_456_789)
    series = field(1, 7) + field(2, moment)
    message = (
        field(2, moment)
        + field(3, series)
        + field(13, field(1, 60) + field(2, 999))
        + field(14, b"")
    )

    obj = read("Event", message, "events.k8s.io/v1", resource_named("events.k8s.io", "events"))

    assert obj["eventTime"] == "2026-01-01T00:00:00.123456Z"
    assert obj["series"] == {"count": 7, "lastObservedTime": "2026-01-01T00:00:00.123456Z"}
    assert obj["deprecatedFirstTimestamp"] == "1970-01-01T00:01:00Z"
    assert obj["deprecatedLastTimestamp"] is None  # Go's zero time


def test_the_year_of_a_time_has_four_digits() -> None:
    """Clients in Go send times of the year 1: the zero time and some seconds."""
    moment = field(1, -62_135_596_798)
    message = field(2, field(3, moment))

    obj = read(
        "Lease", message, "coordination.k8s.io/v1", resource_named("coordination.k8s.io", "leases")
    )

    assert obj["spec"]["acquireTime"] == "0001-01-01T00:00:02.000000Z"


def test_delete_options_belong_to_every_group() -> None:
    preconditions = field(1, "u-1") + field(2, "17")
    message = field(1, 0) + field(2, preconditions) + field(4, "Background") + field(5, "All")

    for api_version in ("v1", "apps/v1", "resource.k8s.io/v1"):
        obj = read("DeleteOptions", message, api_version)
        assert obj["gracePeriodSeconds"] == 0
        assert obj["preconditions"] == {"uid": "u-1", "resourceVersion": "17"}
        assert (obj["propagationPolicy"], obj["dryRun"]) == ("Background", ["All"])


def test_an_eviction_carries_its_options() -> None:
    message = field(1, field(1, "web-0")) + field(2, field(1, -1))

    obj = read("Eviction", message, "policy/v1")

    assert obj["deleteOptions"] == {"gracePeriodSeconds": -1}


def test_parts_that_are_inline_in_json_are_lifted() -> None:
    volume = field(1, "disk") + field(2, field(10, field(1, "data") + field(2, 1)))
    probe = field(1, field(2, field(1, "/ready") + field(2, field(1, 1) + field(3, "http"))))
    container = field(1, "main") + field(10, probe + field(2, -3))
    container += field(8, field(1, field(1, "cpu") + field(2, field(1, "250m"))))

    obj = read("Pod", field(2, field(1, volume) + field(2, container)))

    assert obj["spec"]["volumes"] == [
        {"name": "disk", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    ]
    assert obj["spec"]["containers"][0] == {
        "name": "main",
        "livenessProbe": {
            "httpGet": {"path": "/ready", "port": "http"},
            "initialDelaySeconds": -3,
        },
        "resources": {"limits": {"cpu": "250m"}},
    }


def test_managed_fields_are_json_inside() -> None:
    entry = field(1, "kubectl") + field(7, field(1, json.dumps({"f:spec": {}})))

    obj = read("Pod", field(1, field(17, entry)))

    assert obj["metadata"]["managedFields"] == [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]


def test_numbers_may_be_packed() -> None:
    packed = varint(1000) + varint(2000)
    context = field(4, packed) + field(4, 3000)

    obj = read("Pod", field(2, field(14, context)))

    assert obj["spec"]["securityContext"]["supplementalGroups"] == [1000, 2000, 3000]


def test_extra_values_of_users_are_lists_in_json() -> None:
    entry = field(1, "scopes") + field(2, field(1, "a") + field(1, "b"))
    message = field(2, field(6, entry))
    resource = resource_named("certificates.k8s.io", "certificatesigningrequests")

    obj = read("CertificateSigningRequest", message, "certificates.k8s.io/v1", resource)

    assert obj["spec"]["extra"] == {"scopes": ["a", "b"]}


def test_fields_of_a_newer_version_are_passed_over() -> None:
    message = field(1, field(1, "p") + field(999, "new") + varint(998 << 3 | 1) + bytes(8))

    assert read("Pod", message)["metadata"] == {"name": "p"}


def test_without_a_kind_the_path_tells() -> None:
    obj = protobuf.to_json(b"k8s\x00" + field(2, field(1, field(1, "p"))), PODS)

    assert obj == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}


# ---------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "expected prefix [107 56 115 0]"),
        (b"{}", "expected prefix [107 56 115 0]"),
        (envelope("Pod", b"\x0a\x05ab"), "it ends in the middle of a field"),
        (envelope("Pod", b"\x0a\x04" + field(1, "p")), "it ends in the middle of a field"),
        (envelope("Pod", b"\x0a\xff"), "it ends in the middle of a number"),
        (envelope("Pod", b"\x0a" + b"\xff" * 11), "a number is too long"),
        (envelope("Pod", b"\x02\x00"), "a field has the number 0"),
        (envelope("Pod", b"\x0b"), "field 1 has wire type 3"),
        (envelope("Pod", field(1, 5)), "a number instead of a text or a message"),
        (envelope("Pod", field(1, field(1, b"\xff"))), "a text is not UTF-8"),
        (envelope("Pod", field(1, field(7, b"ab"))), "a text or a message instead of a number"),
        (envelope("PriorityClass", field(2, 1 << 40), "scheduling.k8s.io/v1"), "not fit into 32"),
        (envelope("Pod", field(1, field(8, field(1, 1 << 60)))), "there is no date"),
        (envelope("Pod", b"") + field(3, "gzip"), "its content is encoded"),
        (envelope("Pods", b""), 'no kind "Pods" is registered for version "v1"'),
        (envelope("Pod", b"", "v2"), 'no kind "Pod" is registered for version "v2"'),
        (envelope("Pod", b"", "apps/v1"), 'no kind "Pod" is registered for version "apps/v1"'),
    ],
)
def test_bytes_that_make_no_sense_are_refused(body: bytes, problem: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        protobuf.to_json(body, PODS)

    assert (error.value.code, error.value.reason) == (400, "BadRequest")
    assert problem in error.value.message


def test_a_body_of_nothing_but_values_is_refused() -> None:
    empty_containers = field(2, field(2, b"") * (protobuf.VALUES_MAX + 1))
    with pytest.raises(ApiStatusError, match="too many values"):
        protobuf.to_json(envelope("Pod", empty_containers), PODS)


@given(st.binary(max_size=200))
def test_no_bytes_whatsoever_break_the_reader(data: bytes) -> None:
    for body in (data, b"k8s\x00" + data, envelope("Pod", data)):
        with suppress(ApiStatusError):  # any other error fails the test
            assert protobuf.to_json(body, PODS)["kind"]


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive(number: int) -> None:
    assert read("DeleteOptions", field(1, number))["gracePeriodSeconds"] == number


def test_a_double_is_read_as_eight_bytes() -> None:
    assert protobuf._double(int.from_bytes(struct.pack("<d", 1.5), "little")) == 1.5


def test_every_type_in_the_table_is_known() -> None:
    known = set(protobuf.messages()) | set(protobuf._NUMBERS) | set(protobuf._TEXTS)

    for name, fields in protobuf.messages().items():
        for _, type_name in fields.values():
            assert type_name.removeprefix("[]").removeprefix("{}") in known, name
