"""Selectors of ``mooring.cel`` for devices of slices."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import CELCompiler, SelectorFailed
from mooring.dra.devices import PreparedSlice, SliceDevice
from tests.helpers.devices import make_device, make_slice

MODEL = 'device.attributes["gpu.test"].model == "x"'


def device(**fields: Any) -> SliceDevice:
    spec = make_device("d0", **fields)
    (result,) = PreparedSlice(make_slice("s", [spec], node="a")).devices
    return result


def attributes(**values: Any) -> dict[str, Any]:
    return {"attributes": values}


def test_devices_with_equal_values_of_what_is_read_share_an_answer() -> None:
    program = CELCompiler().compile(MODEL)
    one = device(**attributes(model={"string": "x"}, uuid={"string": "1"}))
    two = device(**attributes(model={"string": "x"}, uuid={"string": "2"}))
    qualified = device(**attributes(**{"gpu.test/model": {"string": "x"}}))
    other = device(**attributes(model={"string": "y"}))

    assert program.content(one) == program.content(two)
    assert program.content(one) != program.content(other)
    assert [program.matches(each) for each in (one, two, qualified, other)] == [
        *(True, True, True, False)
    ]


def test_an_expression_that_iterates_reads_everything() -> None:
    program = CELCompiler().compile("device.attributes.exists(domain, domain == 'gpu.test')")
    one = device(**attributes(uuid={"string": "1"}))
    two = device(**attributes(uuid={"string": "2"}))

    assert program.content(one) != program.content(two)
    assert program.matches(one)


def test_kinds_of_attributes_and_capacity() -> None:
    expression = (
        'device.attributes["gpu.test"].n == 3 && device.attributes["gpu.test"].b && '
        'device.attributes["gpu.test"].v.isGreaterThan(semver("1.2.0")) && '
        'device.capacity["gpu.test"].memory.compareTo(quantity("10Gi")) >= 0'
    )
    program = CELCompiler().compile(expression)
    values = {"n": {"int": 3}, "b": {"bool": True}, "v": {"version": "1.10.0"}}
    memory = {"memory": {"value": "10Gi"}}

    assert program.matches(device(attributes=values, capacity=memory))
    assert not program.matches(device(attributes=values, capacity={"memory": {"value": "9Gi"}}))


def test_errors_begin_as_in_messages_of_pods() -> None:
    with pytest.raises(SelectorFailed, match=r"^CEL compile error: compilation failed: ERROR: "):
        CELCompiler().compile("device.nosuch")
    with pytest.raises(SelectorFailed, match=r"^CEL runtime error: no such key: model$"):
        CELCompiler().compile(MODEL).matches(device())


def test_a_device_with_a_list_fails_every_selector() -> None:
    listed = device(**attributes(ids={"strings": ["a"]}, model={"string": "x"}))

    with pytest.raises(SelectorFailed, match="attribute ids: unsupported attribute value"):
        CELCompiler().compile(MODEL).matches(listed)
