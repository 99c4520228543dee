"""The class of an extended resource; the slips are kube-scheduler's."""

from __future__ import annotations

from mooring.objects.resource import DeviceClass
from mooring.state.kinds.device_classes import DeviceClasses
from tests.helpers.devices import make_class

GPU = "example.com/gpu"
PREFIX = "deviceclass.resource.kubernetes.io/"


def classes(*objects: DeviceClass) -> DeviceClasses:
    there = DeviceClasses()
    for obj in objects:
        there.put(obj)
    return there


def test_a_class_has_the_resource_that_it_names_and_one_with_its_own_name() -> None:
    there = classes(make_class("a", resource=GPU))

    assert (len(there), there.class_of(GPU), there.class_of(PREFIX + "a")) == (1, "a", "a")
    there.put(make_class("a", resource="example.com/tpu"))
    assert (there.class_of(GPU), there.class_of("example.com/tpu")) == (None, "a")
    there.remove("DeviceClass", "a")
    there.remove("DeviceClass", "never there")
    assert (len(there), there.class_of(PREFIX + "a"), there.get("a")) == (0, None, None)


def test_the_newer_class_has_a_resource_that_two_name() -> None:
    old = make_class("a", resource=GPU, created="2026-01-01T00:00:00Z")
    new = make_class("b", resource=GPU, created="2026-02-01T00:00:00Z")

    assert classes(old, new).class_of(GPU) == "b"
    assert classes(new, old).class_of(GPU) == "b"


def test_of_two_equally_old_classes_the_first_by_name_has_it() -> None:
    first, second = (make_class(name, resource=GPU) for name in ("a", "b"))

    assert classes(first, second).class_of(GPU) == "a"
    assert classes(second, first).class_of(GPU) == "a"


def test_a_class_that_loses_has_not_even_its_implicit_resource() -> None:
    there = classes(make_class("a", resource=GPU), make_class("b", resource=GPU))

    assert there.class_of(PREFIX + "b") is None
    assert there.get("b") is not None


def test_when_one_of_two_classes_is_deleted_nothing_has_the_resource_until_an_update() -> None:
    there = classes(make_class("a", resource=GPU), make_class("b", resource=GPU))
    there.remove("DeviceClass", "b")
    assert there.class_of(GPU) is None

    there.put(make_class("a", resource=GPU))
    assert there.class_of(GPU) == "a"


def test_without_the_gate_no_resource_stands_for_a_class() -> None:
    there = DeviceClasses(maps_resources=False)
    there.put(make_class("a", resource=GPU))

    assert (there.class_of(GPU), there.class_of(PREFIX + "a")) == (None, None)
    assert (len(there), there.names()) == (1, ["a"])
    there.remove("DeviceClass", "a")
    assert (len(there), there.names()) == (0, [])


def test_the_version_rises_with_each_change_and_not_with_the_end_of_an_unknown_class() -> None:
    there = DeviceClasses()
    there.put(make_class("a"))
    there.put(make_class("a"))
    assert there.version == 2
    there.remove("DeviceClass", "unknown")
    assert there.version == 2
    there.remove("DeviceClass", "a")
    assert there.version == 3


def test_a_class_that_loses_its_resource_keeps_the_one_with_its_own_name() -> None:
    there = classes(make_class("a", resource=GPU))
    there.put(make_class("a"))

    assert (there.class_of(GPU), there.class_of(PREFIX + "a")) == (None, "a")


def test_a_class_may_be_updated_under_its_own_resource() -> None:
    there = classes(make_class("a", resource=GPU, created="2026-01-01T00:00:00Z"))
    newer = make_class("a", "model=x", resource=GPU, created="2026-02-01T00:00:00Z")
    there.put(newer)

    assert there.get("a") is newer
    assert (there.class_of(GPU), there.class_of(PREFIX + "a")) == ("a", "a")
