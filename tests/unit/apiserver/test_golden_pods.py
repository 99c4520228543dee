"""Pods as written, and as kube-apiserver v1.36.3 stored them (tests/unit/data/README.md)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from mooring.objects.defaulting.pods import add_default_tolerations, merge_label_keys
from mooring.objects.schema.decoding import reader_of
from tests.helpers.paths import UNIT_DATA

FILE = UNIT_DATA / "pods.jsonl.gz"
LINES = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).decode().splitlines()]


def read(obj: Any) -> Any:
    return reader_of("core.Pod").read(obj)


@pytest.mark.parametrize("number", range(len(LINES)))
def test_a_pod_is_filled_in_as_kube_apiserver_does(number: int) -> None:
    written, stored = LINES[number]["written"], LINES[number]["stored"]
    obj = read(written)
    merge_label_keys(obj["spec"], obj["metadata"].get("labels", {}))
    add_default_tolerations(obj)
    # Read again: the recording may write out values that are empty.
    assert read(obj)["spec"] == read(stored)["spec"]
