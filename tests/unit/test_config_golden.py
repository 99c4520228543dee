"""Configurations against kube-scheduler v1.36.3: the same files are good, and mean the same.

The answers were recorded from upstream's own code (``data/README.md``). Where mooring refuses more,
the names are listed below with the reason; nothing that upstream refuses gets through.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.config import ConfigFaults, loads, to_document
from mooring.errors import ConfigError
from mooring.objects.documents import yaml_documents

DATA = Path(__file__).parent / "data" / "configs.jsonl.gz"
CASES: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()
]
GOOD = [case for case in CASES if case["ok"]]
BAD = [case for case in CASES if not case["ok"]]

#: Refused here, accepted by upstream's reader.
STRICTER = {
    # client-go's elector refuses them when it starts.
    "leader-renewDeadline: 2s",
    "leader-renewDeadline: 2.4s",
    "leader-retryPeriod: 9s",
    "leader-retryPeriod: 8.5s",
    # The framework refuses them when it is built: no plugin has the empty or the removed name.
    "entry-noname",
    "args-noname",
    "removed-multi",
    # On purpose: what the file says must be what it means.
    "profile-null",
    "two-documents",
    "anchor",
    "extender-tls-none",
}

#: Upstream leaves this to the moment when it calls the extender; here it is part of the defaults.
EXTENDER_TIMEOUT = "5s"

_UPSTREAM_PATH = re.compile(
    r"(?:^|[\[,] ?)([a-zA-Z][\w.\[\]]*): (?:Invalid|Required|Duplicate|Unsupported|Forbidden)\b"
)


def ids(case: dict[str, Any]) -> str:
    return str(case["name"])


def meaningful(value: Any) -> Any:
    """The value without zeros, which Go's writer shows or leaves out by field."""
    if isinstance(value, dict):
        kept = {key: meaningful(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [], "", 0, "0s")}
    if isinstance(value, list):
        return [meaningful(each) for each in value]
    return value


@pytest.mark.parametrize("case", GOOD, ids=ids)
def test_good_files_load_and_get_the_same_defaults(case: dict[str, Any]) -> None:
    if case["name"] in STRICTER:
        with pytest.raises(ConfigError):
            loads(case["text"])
        return
    found = meaningful(to_document(loads(case["text"])))
    ((_, expected),) = yaml_documents(case["defaulted"])
    for extender in expected.get("extenders", ()):
        if extender["httpTimeout"] == "0s":
            extender["httpTimeout"] = EXTENDER_TIMEOUT
    assert found == meaningful(expected)


@pytest.mark.parametrize("case", BAD, ids=ids)
def test_bad_files_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(case["text"], file="config.yaml")
    assert str(caught.value).startswith("config.yaml: ")


#: Upstream points at its own compiled selector, at "Enabled", or at a list without a position.
OTHER_PATHS = re.compile(r"args-nodeaffinity-|queuesort-two|queuesort-args-differ")

#: The checks of NodeResourcesFit were asked without saying where the arguments stand.
FIT_ARGS = re.compile(r"^profiles\[0\]\.pluginConfig\[0\]\.args\.(?=scoring|ignored)")

WITH_PATHS = [case for case in BAD if _UPSTREAM_PATH.search(case["error"])]


@pytest.mark.parametrize("case", WITH_PATHS, ids=ids)
def test_the_same_places_are_at_fault(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigFaults) as caught:
        loads(case["text"])
    found = {FIT_ARGS.sub("", fault.path or "") for fault in caught.value.faults}
    expected = {FIT_ARGS.sub("", path) for path in _UPSTREAM_PATH.findall(case["error"])}
    if OTHER_PATHS.match(case["name"]):
        assert len(found) == len(expected)
    else:
        assert found == expected


def test_the_recorded_files_are_many_enough() -> None:
    assert (len(GOOD), len(BAD)) == (163, 153)
    assert {case["name"] for case in GOOD} >= STRICTER
