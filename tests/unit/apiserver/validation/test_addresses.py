"""Addresses that an object had before kube-apiserver became strict: they stay valid.

No server that runs today accepts them in a new object, so the contract suite cannot store them. The
expectations are those of upstream's validation of updates (``existingClusterIPs`` and so on in
pkg/apis/core/validation/validation.go, ValidateNetworkPolicyUpdate, validateEndpoints).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.apiserver.validation.addresses import validate_cidr, validate_ip
from mooring.apiserver.validation.endpoint_slices import validate_endpoint_slice_update
from mooring.apiserver.validation.endpoints import validate_endpoints_update
from mooring.apiserver.validation.networking import validate_network_policy_update
from mooring.apiserver.validation.services import validate_service

ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
ZEROS = "must not have leading 0s"
RANGE_ZEROS = "must not have leading 0s in IP or prefix length"


def test_earlier_values_stay_valid() -> None:
    assert list(validate_ip("10.0.0.01", "f", ["10.0.0.01"])) == []
    assert list(validate_cidr("10.0.0.0/08", "f", ["10.0.0.0/08"])) == []
    assert len(list(validate_ip("10.0.0.01", "f", ["10.0.0.1"]))) == 1


def service(**spec: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"type": "LoadBalancer"}
    usual |= {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}
    usual |= {"sessionAffinity": "None", "externalTrafficPolicy": "Cluster"}
    usual |= {"internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True}
    return {"metadata": {"name": "s", "annotations": {}}, "spec": {**usual, **spec}}


OLD_SPEC: dict[str, Any] = {
    "clusterIP": "10.96.0.01",
    "clusterIPs": ["10.96.0.01"],
    "externalIPs": ["192.0.2.01"],
    "loadBalancerSourceRanges": [" 10.0.0.0/08"],
}


def test_addresses_of_a_service_stay_valid() -> None:
    old = service(**OLD_SPEC)
    assert list(validate_service(copy.deepcopy(old), old)) == []
    # The range is compared without the spaces around it.
    changed = service(**OLD_SPEC | {"loadBalancerSourceRanges": ["10.0.0.0/08 "]})
    assert list(validate_service(changed, old)) == []


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("externalIPs", ["192.0.2.01", "192.0.2.02"], ("spec.externalIPs[1]", ZEROS)),
        (
            "loadBalancerSourceRanges",
            ["10.0.0.0/08", "10.0.0.0/09"],
            ("spec.LoadBalancerSourceRanges[1]", RANGE_ZEROS),
        ),
    ],
)
def test_new_addresses_beside_old_ones_are_validated(
    field: str, value: list[str], error: tuple[str, str]
) -> None:
    old = service(**OLD_SPEC)
    (problem,) = validate_service(service(**OLD_SPEC | {field: value}), old)
    assert (problem.field, problem.body.rpartition('": ')[2]) == error


def test_an_old_external_address_is_still_compared_with_special_networks() -> None:
    old = service(**OLD_SPEC | {"externalIPs": ["127.0.0.01"]})
    (problem,) = validate_service(copy.deepcopy(old), old)
    assert problem.body.endswith("may not be in the loopback range (127.0.0.0/8, ::1/128)")


def test_an_annotation_that_does_not_change_is_not_validated() -> None:
    old = service()
    old["metadata"]["annotations"] = {ANNOTATION: "host"}
    assert list(validate_service(copy.deepcopy(old), old)) == []
    changed = service()
    changed["metadata"]["annotations"] = {ANNOTATION: "hosts"}
    assert [error.field for error in validate_service(changed, old)] == [
        f"metadata.annotations[{ANNOTATION}]"
    ]


def test_ranges_of_a_policy_stay_valid_anywhere_in_it() -> None:
    def policy(*blocks: dict[str, Any]) -> dict[str, Any]:
        peers = [{"ipBlock": block} for block in blocks]
        return {"spec": {"podSelector": {}, "egress": [{"to": peers}]}}

    old = policy({"cidr": "10.0.0.0/08", "except": ["10.1.0.1/16"]})
    moved = policy({"cidr": "10.0.0.0/7", "except": ["10.0.0.0/08"]}, {"cidr": "10.1.0.1/16"})
    assert list(validate_network_policy_update(moved, old)) == []
    (problem,) = validate_network_policy_update(policy({"cidr": "10.0.0.0/09"}), old)
    assert problem.body.endswith(RANGE_ZEROS)


def test_endpoints_that_do_not_change_are_not_validated() -> None:
    old = {"metadata": {}, "subsets": [{"addresses": [{"ip": "10.0.0.01"}]}]}
    assert list(validate_endpoints_update(copy.deepcopy(old), old)) == []
    changed = {**old, "subsets": [*old["subsets"], {"addresses": [{"ip": "10.0.0.1"}]}]}
    assert [error.field for error in validate_endpoints_update(changed, old)] == [
        "subsets[0].addresses[0].ip"
    ]
    old_slice = {"addressType": "IPv6", "endpoints": [{"addresses": ["2001:DB8::1"]}]}
    assert list(validate_endpoint_slice_update(copy.deepcopy(old_slice), old_slice)) == []
