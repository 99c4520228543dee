"""Null as Go reads it, type by type."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.objects.codec.nulls import without_nulls
from mooring.objects.meta import RawQuantity


class Inner(msgspec.Struct):
    text: str = ""


class Outer(msgspec.Struct, rename="camel"):
    one_text: str = ""
    pointer: int | None = None
    inner: Inner = msgspec.field(default_factory=Inner)
    maybe: Inner | None = None
    texts: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    flags: tuple[bool, ...] = ()
    inners: tuple[Inner, ...] = ()
    nested: tuple[tuple[str, ...], ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    amounts: dict[str, RawQuantity] = msgspec.field(default_factory=dict)
    times: dict[str, str | None] = msgspec.field(default_factory=dict)
    inner_of: dict[str, Inner] = msgspec.field(default_factory=dict)
    anything: Any = None


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ({"oneText": None}, {}),
        ({"pointer": None, "inner": None, "maybe": None}, {}),
        ({"maybe": {"text": None}}, {"maybe": {}}),
        ({"texts": [None, "a"]}, {"texts": ["", "a"]}),
        ({"numbers": [1, None], "flags": [None]}, {"numbers": [1, 0], "flags": [False]}),
        ({"inners": [None, {"text": None}]}, {"inners": [{}, {}]}),
        ({"nested": [None, ["a", None]]}, {"nested": [[], ["a", ""]]}),
        ({"labels": {"a": None}}, {"labels": {"a": ""}}),
        ({"amounts": {"cpu": None, "memory": "1"}}, {"amounts": {"cpu": 0, "memory": "1"}}),
        ({"times": {"pod": None}}, {"times": {"pod": None}}),
        ({"innerOf": {"a": None}}, {"innerOf": {"a": {}}}),
        # Fields of type any keep nulls; unread fields are dropped.
        ({"anything": {"a": [None]}}, {"anything": {"a": [None]}}),
        ({"unknown": {"a": None}}, {}),
    ],
)
def test_null_becomes_absent_or_the_zero_of_its_type(
    raw: dict[str, Any], cleaned: dict[str, Any]
) -> None:
    found = without_nulls(raw, Outer)
    assert found == cleaned
    assert isinstance(msgspec.convert(found, Outer), Outer)


@pytest.mark.parametrize("raw", [{"texts": {"a": None}}, {"labels": [None]}, {"inner": 3}, [None]])
def test_values_of_the_wrong_shape_are_left_for_the_decoder_to_refuse(raw: Any) -> None:
    assert without_nulls(raw, Outer) == raw
