"""Duplicate keys in a body are detected in any format."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.endpoints.body import find_duplicates

TEXTS = st.sampled_from(["a", "b", 'c":', "d\n", "\u2028é", '"'])
LEAVES = st.one_of(TEXTS, st.integers(-3, 3), st.sampled_from([1.5, 1e22, None, True]))


def members(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects as lists of members, so that a key may stand there twice."""
    pairs = st.lists(st.tuples(TEXTS, inner), max_size=4)
    return st.one_of(pairs.map(tuple), st.lists(inner, max_size=3))


VALUES = st.recursive(LEAVES, members, max_leaves=12)


def written(value: Any, colon: str) -> str:
    if isinstance(value, tuple):
        inside = (f"{json.dumps(key)}{colon}{written(item, colon)}" for key, item in value)
        return "{" + ",".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, colon) for item in value) + "]"
    return json.dumps(value)


def twice(value: Any, path: str = "") -> list[str]:
    """Returns the reference: walk through the members themselves."""
    items = []
    if isinstance(value, tuple):
        seen = []
        for key, item in value:
            inner = f"{path}.{key}" if path else key
            items += [inner] if key in seen else []
            seen.append(key)
            items += twice(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            items += twice(item, f"{path}[{number}]")
    return items


@given(VALUES, st.sampled_from([":", ": ", " : ", "\t:"]), st.sampled_from(["", "\n"]))
def test_duplicates_are_detected_in_any_format(value: Any, colon: str, end: str) -> None:
    body = (written(value, colon) + end).encode()

    keys = find_duplicates(body, msgspec.json.decode(body))
    assert [key.path for key in keys if key.is_repeated] == twice(value)


@pytest.mark.parametrize("body", [b'{"a":1,"a":1}', b'{"a":{"b":1,"b":22}}', b'[{"a":1,"a":11}]'])
def test_a_text_as_we_write_it_can_hold_a_key_twice(body: bytes) -> None:
    assert find_duplicates(body, msgspec.json.decode(body)) != []
