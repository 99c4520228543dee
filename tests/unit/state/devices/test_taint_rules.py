"""Slices with the taints of DeviceTaintRules.

The expected taints follow the cases of upstream's tracker
(k8s.io/dynamic-resource-allocation resourceslice/tracker/tracker_test.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import features_of
from mooring.objects.codec.decode import convert
from mooring.objects.resource import DeviceTaintRule, ResourceSlice
from mooring.state.audit.devices import audit_devices
from mooring.state.devices.devices import Devices
from mooring.state.kinds.device_classes import DeviceClasses
from tests.helpers.devices import make_device, make_slice

GATES = {"DRADeviceTaintRules": True}


def devices(gates: dict[str, bool] | None = None) -> Devices:
    return Devices(DeviceClasses(), features_of(GATES if gates is None else gates))


def rule(name: str, *, effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": name, "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    document = {"metadata": {"name": name}, "spec": spec}
    decoded: DeviceTaintRule = convert(document, "DeviceTaintRule")
    return decoded


def taints(there: Devices, name: str = "s") -> dict[str, list[str]]:
    """Returns the keys of the taints of each device of a slice."""
    obj = next(obj for obj in there.slices.objects() if obj.metadata.name == name)
    return {device.name: [taint.key for taint in device.taints] for device in obj.spec.devices}


def two_devices(**first: Any) -> ResourceSlice:
    return make_slice("s", [make_device("d0", **first), make_device("d1")], pool="p", node="a")


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, ["d0", "d1"]),
        ({"driver": "gpu.test"}, ["d0", "d1"]),
        ({"pool": "p"}, ["d0", "d1"]),
        ({"device": "d1"}, ["d1"]),
        ({"driver": "gpu.test", "pool": "p", "device": "d0"}, ["d0"]),
        ({"driver": "other"}, []),
        ({"driver": "gpu.test", "pool": "other"}, []),
        ({"driver": "other", "device": "d0"}, []),
        ({"device": "d9"}, []),
    ],
)
@pytest.mark.parametrize("is_rule_first", [True, False])
def test_all_set_fields_of_the_selector_must_match(
    selector: dict[str, str], selected: list[str], is_rule_first: bool
) -> None:
    there = devices()
    objects = [two_devices(), rule("broken", **selector)]
    for obj in reversed(objects) if is_rule_first else objects:
        there.put(obj)  # type: ignore[arg-type]

    assert [name for name, keys in taints(there).items() if keys] == selected
    assert audit_devices(there) == []


def test_taints_of_rules_come_after_those_of_the_driver_by_name_of_the_rule() -> None:
    there = devices()
    there.put(two_devices(taints=[{"key": "own", "effect": "NoSchedule"}]))
    there.put(rule("b"))
    there.put(rule("a", device="d0"))

    assert taints(there) == {"d0": ["own", "a", "b"], "d1": ["b"]}
    assert audit_devices(there) == []


def test_a_changed_rule_and_a_deleted_rule_give_taints_back() -> None:
    there = devices()
    there.put(two_devices())
    there.put(rule("r", device="d0"))
    there.put(rule("r", device="d1"))
    assert taints(there) == {"d0": [], "d1": ["r"]}

    there.remove("DeviceTaintRule", "r")
    there.remove("DeviceTaintRule", "unknown")
    assert taints(there) == {"d0": [], "d1": []}
    assert audit_devices(there) == []


def pool_slice(name: str) -> ResourceSlice:
    """Returns a slice with the pool and the device of this name."""
    return make_slice(name, [make_device(name)], pool=name, node="a")


@pytest.mark.parametrize("selector", ["pool", "device"])
def test_a_rule_that_selects_another_slice_gives_back_the_taint_of_the_first(selector: str) -> None:
    there = devices()
    for name in ("s", "t", "u"):
        there.put(pool_slice(name))
    changes: list[str] = []

    def on_change(old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        assert old is not None
        assert new is not None
        assert old.spec.devices[0].taints != new.spec.devices[0].taints
        assert new in there.slices.objects()
        changes.append(new.metadata.name)

    there.taint_rules.listen(on_change)

    there.put(rule("r", **{selector: "s"}))
    assert (taints(there, "s"), taints(there, "t")) == ({"s": ["r"]}, {"t": []})
    assert changes == ["s"]
    there.put(rule("r", **{selector: "t"}))
    assert (taints(there, "s"), taints(there, "t")) == ({"s": []}, {"t": ["r"]})
    assert changes == ["s", "s", "t"]
    there.put(rule("r", **{selector: "t", "driver": "other"}))
    assert taints(there, "t") == {"t": []}
    assert changes == ["s", "s", "t", "t"]
    assert audit_devices(there) == []


def test_a_rule_with_another_taint_replaces_its_own_alone() -> None:
    there = devices()
    there.put(two_devices())
    there.put(rule("q"))
    there.put(rule("r"))
    there.put(rule("r", effect="NoExecute"))
    obj = next(iter(there.slices.objects()))
    for device in obj.spec.devices:
        assert [(taint.key, taint.effect) for taint in device.taints] == [
            ("q", "NoSchedule"),
            ("r", "NoExecute"),
        ]
    assert audit_devices(there) == []


def test_a_rule_with_effect_none_prevents_no_allocation() -> None:
    there = devices()
    there.put(two_devices())
    there.put(rule("seen", effect="None", device="d0"))
    there.put(rule("broken", effect="NoExecute", device="d1"))

    prepared = there.slices.candidates("a")[0].devices
    assert [[taint.key for taint in device.taints] for device in prepared] == [[], ["broken"]]


def test_listeners_get_a_change_of_each_slice_whose_taints_change() -> None:
    there = devices()
    changes: list[tuple[bool, bool]] = []
    there.put(two_devices())
    there.put(make_slice("other", [make_device("d0")], driver="other", node="a"))
    there.taint_rules.listen(lambda old, new: changes.append((old is not None, new is not None)))

    there.put(rule("r", driver="gpu.test"))
    there.put(rule("r", driver="gpu.test", pool="p"))  # the same taints
    assert changes == [(True, True)]
    there.put(two_devices())  # a change of the slice is always reported
    there.remove("ResourceSlice", "s")
    there.remove("ResourceSlice", "s")
    assert changes == [(True, True), (True, True), (True, False)]
    assert audit_devices(there) == []


def test_nodes_with_a_tainted_device_have_another_version() -> None:
    there = devices()
    there.put(two_devices())
    before = there.version
    there.put(rule("r", driver="other"))
    assert there.version == before
    there.put(rule("r"))
    assert there.version > before


def test_rules_are_ignored_without_the_gate() -> None:
    there = devices({})
    there.put(rule("r"))
    there.put(two_devices())
    there.put(rule("r2"))
    there.remove("DeviceTaintRule", "r")

    assert taints(there) == {"d0": [], "d1": []}
    assert there.taint_rules.rules == []


def test_the_audit_reports_a_slice_without_the_taint_of_its_rule() -> None:
    there = devices()
    there.put(rule("r"))
    there.put(two_devices())
    there.slices.put(two_devices())

    assert audit_devices(there) == ["slice s does not have the taints of its DeviceTaintRules"]


def test_the_rule_of_each_taint_is_told_from_the_taints_of_the_driver() -> None:
    there = devices()
    own = {"key": "own", "effect": "NoSchedule"}
    there.put(two_devices(taints=[own, {"key": "b", "effect": "NoSchedule"}]))
    pool = ("gpu.test", "p")

    def rules_of(device: str, pool_key: tuple[str, str] = pool) -> list[tuple[str, str]]:
        obj = next(iter(there.slices.objects()))
        (found,) = (entry for entry in obj.spec.devices if entry.name == device)
        return [
            (taint.key, there.taint_rules.rule_of(taint, found, pool_key)) for taint in found.taints
        ]

    assert rules_of("d0") == [("own", ""), ("b", "")]
    there.put(rule("b"))
    there.put(rule("a", device="d0"))
    there.put(rule("c", pool="p", driver="gpu.test"))
    there.put(rule("of-another-pool", pool="q"))
    there.put(rule("of-another-driver", driver="other"))

    assert rules_of("d0") == [("own", ""), ("b", ""), ("a", "a"), ("b", "b"), ("c", "c")]
    assert rules_of("d1") == [("b", "b"), ("c", "c")]


def test_rules_are_listed_by_name_and_slices_as_they_were_published() -> None:
    there = devices()
    published = two_devices()
    for name in ("b", "a", "c"):
        there.put(rule(name))
    there.put(published)
    there.remove("DeviceTaintRule", "b")

    assert [entry.metadata.name for entry in there.taint_rules.rules] == ["a", "c"]
    assert there.taint_rules.published == [published]
    assert taints(there) == {"d0": ["a", "c"], "d1": ["a", "c"]}


def test_the_audit_reports_slices_that_are_missing_or_too_many() -> None:
    there = devices()
    there.put(two_devices())
    there.slices.put(make_slice("surplus", [make_device("d0")], node="a"))
    there.slices.remove("s")

    assert audit_devices(there) == [
        "slice s does not have the taints of its DeviceTaintRules",
        "slice surplus does not have the taints of its DeviceTaintRules",
    ]
