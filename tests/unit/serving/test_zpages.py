"""/configz, /flagz and /statusz; their formats are compared with the peer elsewhere."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.serving.messages import Handler, Reply
from mooring.serving.zpages import Versions, configz, flagz, statusz
from tests.helpers.serving import asking

VERSIONS = Versions("Python 3.13", "1.36.3", "1.36")
STRUCTURED = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"


def get(handler: Handler, accept: str = "") -> Reply:
    found: Any = handler(asking("/", headers={"Accept": accept} if accept else {}))
    return asyncio.run(found)  # type: ignore[no-any-return]


def test_statusz_counts_the_time() -> None:
    clock = VirtualClock()
    handler = statusz(VERSIONS, ["/metrics/slis", "/livez", "/metrics"], clock, seeded_random(1))
    clock.advance(3725)
    clock.step_wall(-9999)  # uptime does not follow the wall clock
    value = json.loads(get(handler, STRUCTURED).body)
    assert value["startTime"] == "2026-01-01T00:00:00Z"
    assert value["uptimeSeconds"] == 3725
    assert value["paths"] == ["/livez", "/metrics"]
    text = get(handler).body.decode()
    assert "1 hr 02 min 05 sec" in text
    assert "Thu Jan  1 00:00:00 UTC 2026" in text


def test_statusz_draws_a_delimiter_each_time_and_flagz_once() -> None:
    status = statusz(VERSIONS, [], VirtualClock(), seeded_random(1))
    assert len({get(status).body for _ in range(50)}) == 4
    flags = flagz({"v": "2", "a": "1"}, seeded_random(1))
    assert len({get(flags).body for _ in range(50)}) == 1
    assert len({get(flagz({"v": "2"}, seeded_random(seed))).body for seed in range(50)}) == 4


def test_flags_are_sorted() -> None:
    page = flagz({"v": "2", "a": "1"}, seeded_random(1))
    value = json.loads(get(page, STRUCTURED.replace("Statusz", "Flagz")).body)
    assert list(value["flags"]) == ["a", "v"]
    assert get(page).body.decode().splitlines()[3][0] == "a"


@pytest.mark.parametrize(("version", "is_deprecated"), [("v1alpha1", True), ("v1beta1", False)])
def test_a_deprecated_version_has_a_warning(version: str, is_deprecated: bool) -> None:
    accept = STRUCTURED.replace("v1beta1", version)
    reply = get(statusz(VERSIONS, [], VirtualClock(), seeded_random(1)), accept)
    assert ("Warning" in reply.headers) is is_deprecated
    assert json.loads(reply.body)["apiVersion"] == f"config.k8s.io/{version}"


def test_without_emulation_there_is_none() -> None:
    handler = statusz(Versions("p", "1"), [], VirtualClock(), seeded_random(1))
    assert "emulationVersion" not in json.loads(get(handler, STRUCTURED).body)
    assert "Emulation" not in get(handler).body.decode()


def test_configz_is_the_configuration_of_now_with_kind_first() -> None:
    document = {"b": 50.0, "c": [1.5, {"d": 2.0}], "apiVersion": "v1", "kind": "K"}
    handler = configz(lambda: document)
    assert get(handler, "text/plain").body == (
        b'{"componentconfig":{"kind":"K","apiVersion":"v1","b":50,"c":[1.5,{"d":2}]}}'
    )
    document["b"] = 51.0
    assert b'"b":51' in get(handler).body
