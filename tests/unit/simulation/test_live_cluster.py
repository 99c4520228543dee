"""Answers of a server that is no API server, or a hostile one: errors with the place."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bench.fuzz.start_files import listed_from
from mooring.errors import ConfigError
from mooring.simulation.inputs.live_cluster import list_raw

POD = {"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"containers": []}}
PODS = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [POD]}


def listed(answer: Any) -> list[dict[str, Any]]:
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    objects: list[dict[str, Any]] = asyncio.run(listed_from(data, list_raw)).objects
    return objects


def test_items_get_kind_and_version_and_lose_their_managed_fields() -> None:
    expected = {"metadata": {"name": "a"}, "spec": POD["spec"], "kind": "Pod", "apiVersion": "v1"}
    assert listed(PODS) == [expected]
    assert listed({**PODS, "items": None}) == []
    assert listed({**PODS, "metadata": None}) == [expected]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"<html>", "/api/v1/pods: the API server does not send a list of objects: JSON is"),
        (b"[]", "the API server does not send a list of objects: Expected `object`, got `array`"),
        (b"[" * 100_000, "/api/v1/pods: the API server does not send a list of objects: "),
        ({**PODS, "items": [1]}, "Expected `object`, got `int` - at `$.items[0]`"),
        ({**PODS, "kind": 1}, "Expected `str`, got `int` - at `$.kind`"),
        ({"items": [POD]}, "/api/v1/pods: items[0].kind: must be a non-empty string"),
        ({"kind": "PodList", "items": [POD]}, "items[0].apiVersion: must be a non-empty string"),
        ({**PODS, "items": [POD, {**POD, "kind": []}]}, "items[1].kind: must be a non-empty"),
        ({**PODS, "items": [{}]}, "/api/v1/pods: items[0].metadata: must be an object"),
        ({**PODS, "items": [{"metadata": {}}]}, "items[0].metadata.name: must be a string"),
    ],
)
def test_an_answer_that_is_no_list_is_an_error_with_its_place(answer: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        listed(answer)
    assert problem in str(caught.value)


def test_a_page_that_comes_again_ends_the_list() -> None:
    pods = {**PODS, "metadata": {"continue": "t"}}
    with pytest.raises(ConfigError) as caught:
        asyncio.run(listed_from(json.dumps(pods).encode(), list_raw, repeats=True))
    assert str(caught.value) == "/api/v1/pods: the API server sends the same page again, got 't'"
