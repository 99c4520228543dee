"""Compiled selectors: inputs, answers, and what they read."""

from __future__ import annotations

import pytest

from mooring.cel import CompileError, DeviceInput, EvaluationError, Version, compile_selector
from mooring.objects.quantity import Quantity

GPU = DeviceInput(
    "gpu.example.com",
    attributes={"model": "A100", "rack.example.com/row": 3, "version": Version("1.2.3")},
    capacity={"memory": Quantity.parse("80Gi")},
)


def matches(expression: str, device: DeviceInput = GPU) -> bool:
    return compile_selector(expression).matches(device)


def test_names_without_a_domain_belong_to_the_driver() -> None:
    assert matches('device.attributes["gpu.example.com"].model == "A100"')
    assert matches('device.attributes["rack.example.com"].row == 3')


def test_the_domain_of_a_name_ends_at_its_first_slash() -> None:
    # Names with two slashes pass the API server's validation.
    device = DeviceInput("gpu.test", attributes={"a.test/b/c": 1})
    assert matches('device.attributes["a.test"]["b/c"] == 1', device)
    assert matches('!("a.test/b" in device.attributes)', device)


def test_an_unknown_domain_reads_as_an_empty_map_but_is_not_there() -> None:
    assert matches('device.attributes["nowhere"] == {}')
    assert not matches('"nowhere" in device.attributes')
    assert matches("size(device.attributes) == 2")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(EvaluationError, match=r"^no such key: color$"):
        matches('device.attributes["gpu.example.com"].color == "red"')


def test_capacity_of_the_api_can_be_compared() -> None:
    assert matches('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))')
    assert matches('device.capacity["gpu.example.com"].memory.asInteger() == 85899345920')


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"list": None}, "attribute list: unsupported attribute value"),
        (
            {"v": Version("1.2")},
            "attribute v: parse semantic version: No Major.Minor.Patch elements found",
        ),
    ],
)
def test_a_device_with_an_invalid_attribute_fails_for_every_selector(
    attributes: dict[str, Version | None], problem: str
) -> None:
    device = DeviceInput("gpu.example.com", attributes=attributes)
    for evaluate in (compile_selector("true").matches, compile_selector("true").evaluate):
        with pytest.raises(EvaluationError) as failure:
            evaluate(device)
        assert str(failure.value) == problem


def test_a_sum_of_quantities_equals_a_quantity_only_on_the_left() -> None:
    # k8s.io/apiserver, pkg/cel: add returns a pointer, which Equal does not take for a quantity.
    assert matches('quantity("1").add(1) == quantity("2")')
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        matches('quantity("2") == quantity("1").add(1)')


def test_the_cost_is_counted_and_limited() -> None:
    usual = 'device.driver == "x" && device.attributes["x"].model == "y"'
    assert compile_selector(usual).evaluate(GPU).cost == 3
    with pytest.raises(EvaluationError, match="actual cost limit exceeded") as failure:
        matches("lists.range(2000).all(x, lists.range(1000).size() > 0)")
    assert failure.value.cost is not None
    assert failure.value.cost > 1_000_000


def test_the_result_must_be_bool() -> None:
    with pytest.raises(CompileError, match="must evaluate to bool or the unknown type, not int"):
        compile_selector("1")


def test_reads_has_the_names_of_a_selector() -> None:
    reads = compile_selector(
        'device.driver == "x" && device.attributes["x"].a == 1 '
        '|| device.attributes.y[?"b"].hasValue() && device.capacity["x"].c.isInteger()'
    ).reads
    assert not reads.everything
    assert reads.driver
    assert not reads.allow_multiple_allocations
    assert reads.attributes == {("x", "a"), ("y", "b")}
    assert reads.capacity == {("x", "c")}


@pytest.mark.parametrize(
    "expression",
    [
        "size(device.attributes) == 1",
        'device.attributes["x"].exists(k, k == "a")',
        'device.attributes[device.driver].a == "b"',
        'cel.bind(d, device.attributes["x"], d.a == 1)',
        "dyn(device) == 1",
    ],
)
def test_a_selector_that_iterates_or_computes_names_reads_everything(expression: str) -> None:
    assert compile_selector(expression).reads.everything


def test_a_name_that_a_loop_hides_is_not_the_device() -> None:
    reads = compile_selector("[{'a': 1}].all(device, device.a == 1)").reads
    assert not reads.everything
    assert not reads.attributes


@pytest.mark.parametrize(
    ("key", "name"),
    [('b"a"', "types.Bytes"), ('bytes("a")', "types.Bytes"), ('dyn(b"")', "types.Bytes")],
)
def test_a_constant_map_with_a_key_that_upstream_cannot_hash_is_refused(
    key: str, name: str
) -> None:
    # Upstream's compiler panics, and with it a scheduler that reads such a selector.
    with pytest.raises(CompileError) as failure:
        compile_selector(f"{{{key}: 1}}.size() == 1")
    assert str(failure.value) == (
        "program instantiation failed: internal error: runtime error: "
        f"hash of unhashable type {name}"
    )


@pytest.mark.parametrize(("digit", "is_zone"), [("0", True), ("9", False)])
def test_a_time_zone_may_have_thousands_of_digits(digit: str, *, is_zone: bool) -> None:
    selector = compile_selector(f'timestamp(0).getHours("{digit * 5_000}:00") == 0')
    if is_zone:
        assert selector.matches(DeviceInput("a"))
        return
    with pytest.raises(EvaluationError, match="value out of range"):
        selector.matches(DeviceInput("a"))
