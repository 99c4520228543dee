"""Feature gates that concern devices: their defaults, and what each of them turns off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.dra import (
    ALL_FEATURES,
    CELCompiler,
    DeviceFeatures,
    Selectors,
    TargetNode,
    features_of,
)
from mooring.dra.devices import PreparedSlice
from tests.helpers.devices import make_device, make_slice

FIELDS = {
    "DRAPrioritizedList": ("has_alternatives", True),
    "DRAPartitionableDevices": ("has_partitions", True),
    "DRADeviceTaints": ("has_taints", True),
    "DRADeviceTaintRules": ("has_taint_rules", False),
    "DRAConsumableCapacity": ("is_shareable", True),
    "DRADeviceBindingConditions": ("has_binding_conditions", True),
    "DRAResourceClaimDeviceStatus": ("has_binding_conditions", True),
    "DRAExtendedResource": ("maps_resources", True),
    "DRASchedulerFilterTimeout": ("has_filter_timeout", True),
}


@pytest.mark.parametrize("gate", FIELDS)
def test_a_gate_changes_its_own_field_alone(gate: str) -> None:
    field, default = FIELDS[gate]
    changes: dict[str, Any] = {field: not default}

    assert features_of({gate: not default}) == replace(ALL_FEATURES, **changes)
    assert features_of({gate: default}) == ALL_FEATURES == DeviceFeatures()


def test_binding_conditions_need_both_of_their_gates() -> None:
    gates = {"DRADeviceBindingConditions": True, "DRAResourceClaimDeviceStatus": False}
    assert not features_of(gates).has_binding_conditions
    gates = {"DRADeviceBindingConditions": False, "DRAResourceClaimDeviceStatus": True}
    assert not features_of(gates).has_binding_conditions


@pytest.mark.parametrize(
    ("is_shareable", "has_binding_conditions", "is_stable"),
    [(True, True, False), (True, False, False), (False, True, False), (False, False, True)],
)
def test_the_stable_allocator_has_neither_shares_nor_binding_conditions(
    is_shareable: bool, has_binding_conditions: bool, is_stable: bool
) -> None:
    features = replace(
        ALL_FEATURES, is_shareable=is_shareable, has_binding_conditions=has_binding_conditions
    )
    assert features.is_stable is is_stable


def prepared(device: dict[str, Any], features: DeviceFeatures, **spec: Any) -> PreparedSlice:
    return PreparedSlice(make_slice("s", [device], node="a", **spec), features)


STABLE = replace(ALL_FEATURES, is_shareable=False, has_binding_conditions=False)
UNSHAREABLE = replace(ALL_FEATURES, is_shareable=False)
WITHOUT_CONDITIONS = replace(ALL_FEATURES, has_binding_conditions=False)
SHARED = make_device(
    "d0",
    allowMultipleAllocations=True,
    capacity={"memory": {"value": "4Gi"}},
    bindsToNode=True,
    bindingConditions=["ready"],
)


@pytest.mark.parametrize(
    ("features", "allows_sharing", "is_shared", "binds_to_node", "is_selectable"),
    [
        (ALL_FEATURES, True, True, True, True),
        (UNSHAREABLE, True, False, True, True),
        (WITHOUT_CONDITIONS, True, True, True, False),
        (STABLE, False, False, False, False),
    ],
)
def test_what_a_device_may_do_depends_on_the_gates(
    features: DeviceFeatures,
    allows_sharing: bool,
    is_shared: bool,
    binds_to_node: bool,
    is_selectable: bool,
) -> None:
    (device,) = prepared(SHARED, features).devices

    assert device.allows_sharing is allows_sharing
    assert device.is_shared is is_shared
    assert device.binds_to_node is binds_to_node
    assert device.is_selectable is is_selectable
    assert list(device.capacity) == (["memory"] if features.is_shareable else [])
    answers = Selectors(CELCompiler())
    assert answers.answer("device.allowMultipleAllocations", device) is allows_sharing


@pytest.mark.parametrize("features", [ALL_FEATURES, UNSHAREABLE, WITHOUT_CONDITIONS, STABLE])
def test_a_plain_device_is_the_same_with_all_gates(features: DeviceFeatures) -> None:
    (device,) = prepared(make_device("d0"), features).devices

    assert not device.allows_sharing
    assert not device.is_shared
    assert not device.binds_to_node
    assert device.is_selectable
    assert not device.is_blocked
    assert (device.consumption, device.taints, device.capacity) == ((), (), {})


@pytest.mark.parametrize("has_taints", [True, False])
def test_only_taints_that_prevent_the_allocation_count_with_the_gate(has_taints: bool) -> None:
    taints = [
        {"key": name, "effect": name} for name in ("NoSchedule", "None", "NoExecute", "Other")
    ]
    features = replace(ALL_FEATURES, has_taints=has_taints)
    (device,) = prepared(make_device("d0", taints=taints), features).devices

    expected = ["NoSchedule", "NoExecute"] if has_taints else []
    assert [taint.key for taint in device.taints] == expected


COUNTERS: dict[str, Any] = {"memory": {"value": "2"}, "cores": {"value": "500m"}}
CONSUMING = make_device(
    "d0",
    consumesCounters=[
        {"counterSet": "gpu", "counters": COUNTERS},
        {"counterSet": "net", "counters": {"ports": {"value": "1"}}},
    ],
)


@pytest.mark.parametrize("has_partitions", [True, False])
def test_devices_that_consume_counters_are_blocked_without_the_gate(has_partitions: bool) -> None:
    features = replace(ALL_FEATURES, has_partitions=has_partitions)
    (device,) = prepared(CONSUMING, features).devices

    assert device.is_blocked is not has_partitions
    assert device.consumption == (
        (("gpu", "memory"), 2 * 10**9),
        (("gpu", "cores"), 5 * 10**8),
        (("net", "ports"), 10**9),
    )


@pytest.mark.parametrize(
    ("spec", "is_ignored"),
    [
        ({}, False),
        ({"perDeviceNodeSelection": True}, True),
        ({"perDeviceNodeSelection": False}, True),
        ({"sharedCounters": [{"name": "gpu", "counters": COUNTERS}]}, True),
    ],
)
def test_slices_for_partitions_are_ignored_without_the_gate(
    spec: dict[str, Any], is_ignored: bool
) -> None:
    without = replace(ALL_FEATURES, has_partitions=False)
    assert prepared(make_device("d0"), without, **spec).is_ignored is is_ignored
    assert not prepared(make_device("d0"), ALL_FEATURES, **spec).is_ignored


def test_a_slice_with_counters_has_no_devices_and_is_for_all_nodes() -> None:
    counters = [{"name": "gpu", "counters": COUNTERS}]
    with_counters = prepared(make_device("d0"), ALL_FEATURES, sharedCounters=counters)
    plain = prepared(make_device("d0"), ALL_FEATURES)

    assert (with_counters.devices, len(with_counters.all_devices)) == ((), 1)
    assert (with_counters.only_node, plain.only_node) == ("", "a")
    assert (with_counters.has_counters, plain.has_counters) == (True, False)


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"nodeName": "a"}, "a"),
        ({"allNodes": True}, "abc"),
        ({}, ""),
        (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}
                    ]
                }
            },
            "bc",
        ),
    ],
)
def test_devices_have_nodes_of_their_own_if_the_slice_says_so(
    fields: dict[str, Any], nodes: str
) -> None:
    device = make_device("d0", **fields)
    labels = {"a": {"zone": "2"}, "b": {"zone": "1"}, "c": {"zone": "1"}}
    targets = {name: TargetNode(name, of) for name, of in labels.items()}
    own = PreparedSlice(make_slice("s", [device], perDeviceNodeSelection=True)).devices[0]
    of_slice = PreparedSlice(make_slice("s", [device], allNodes=True)).devices[0]

    assert {name for name, target in targets.items() if own.is_on(target)} == set(nodes)
    assert of_slice.reach is None
    assert all(of_slice.is_on(target) for target in targets.values())


def test_the_names_of_a_device() -> None:
    (device,) = prepared(make_device("d0"), ALL_FEATURES, pool="p").devices

    assert str(device.id) == "gpu.test/p/d0"
    assert repr(device) == "SliceDevice(gpu.test/p/d0)"
    assert (device.driver, device.pool_key) == ("gpu.test", ("gpu.test", "p"))


@pytest.mark.parametrize(
    ("attributes", "has_problem"),
    [
        ({}, False),
        ({"a": {"string": ""}, "b": {"int": 0}, "c": {"bool": False}}, False),
        ({"a": {"version": "1.2.3"}}, False),
        ({"a": {"string": "x"}, "b": {"version": "not a version"}}, True),
    ],
)
def test_a_device_with_an_unreadable_version_has_a_problem(
    attributes: dict[str, Any], has_problem: bool
) -> None:
    (device,) = prepared({"name": "d0", "attributes": attributes}, ALL_FEATURES).devices

    assert bool(device.problem) is has_problem
    assert (device.problem or "") == device.selector_input.problem
