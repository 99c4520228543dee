"""JSON with sorted keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.objects.sorted_json import encode_sorted


@pytest.mark.parametrize("count", [2, 5_000])
def test_keys_are_sorted_at_each_level(count: int) -> None:
    keys = [f"k{number:05}" for number in range(count)]
    value = {"z": [dict.fromkeys(reversed(keys), 1)], "a": dict.fromkeys(["é", "b", *keys])}

    text = encode_sorted(value).decode()

    assert text == json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Key(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __lt__(self, other: Any) -> bool:
        Key.comparisons += 1
        return str.__lt__(self, other)


def test_a_mapping_of_many_keys_reaches_the_encoder_sorted() -> None:
    """msgspec sorts these in linear time; a large key in front made it quadratic."""
    keys = [Key(f"k{number:05}") for number in range(5_000)]
    mapping = dict.fromkeys([Key("z"), *keys], "")

    encode_sorted({"data": mapping})

    assert list(mapping) == [*keys, "z"]
    assert Key.comparisons < 20 * len(keys)


def test_deep_values_are_sorted() -> None:
    value: Any = {"b": "x" * 20_000, "a": 1}
    for _ in range(400):
        value = [value]
    assert encode_sorted(value).startswith(b"[" * 400 + b'{"a":1')
