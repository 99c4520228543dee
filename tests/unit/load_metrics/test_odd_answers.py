"""Sources that say odd things: a sample may be lost by that, never a decision."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.errors import ConfigError
from mooring.load_metrics import MetricCache, MetricFile, MetricsApi, Prometheus, measured_load
from mooring.load_metrics.sources import MeasuringError
from mooring.testing import make_node
from tests.unit.load_metrics.test_load_metrics import asked, handle, vector


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "vector", "result": 5},
        {"resultType": "vector", "result": [5]},
        {"resultType": "vector", "result": {"a": 1}},
        {"resultType": "vector", "result": [{"metric": 5, "value": [1, "2"]}]},
        {"resultType": "vector", "result": [{"metric": {"node": 5}, "value": [1, "2"]}]},
        {"resultType": 7, "result": []},
        {"resultType": "scalar", "result": [1, "2"]},
        5,
        None,
    ],
)
def test_an_answer_of_another_shape_is_reported_as_one(data: Any) -> None:
    with pytest.raises(MeasuringError):
        asked(200, json.dumps({"status": "success", "data": data}).encode())


def test_nothing_is_measured_without_a_sample() -> None:
    empty: list[Any] = [None, []]
    for result in empty:
        data = {"resultType": "vector", "result": result}
        assert asked(200, json.dumps({"status": "success", "data": data}).encode()) == {}
    body = {"resultType": "vector", "result": [{"metric": None, "value": [1, "2"]}]}
    assert asked(200, json.dumps({"status": "success", "data": body}).encode()) == {}


def test_the_last_sample_of_a_node_counts() -> None:
    assert asked(200, vector(({"node": "a"}, [1, "1"]), ({"node": "a:9"}, [1, "2"]))) == {"a": 2.0}


class Told:
    """A handle that reads one answer."""

    def __init__(self, document: Any) -> None:
        self.body = json.dumps(document).encode()
        nodes = [make_node(name, allocatable={"cpu": "4"}) for name in "ab"]
        self.snapshot = handle(*nodes).snapshot

    async def read(self, path: str) -> bytes:
        return self.body


def fetched(document: Any) -> Any:
    told: Any = Told(document)
    return asyncio.run(MetricsApi(told).fetch())


@pytest.mark.parametrize("document", [{"items": 5}, {"items": [5]}, {"items": [{"usage": 5}]}])
def test_the_metrics_api_may_be_something_else(document: Any) -> None:
    with pytest.raises(MeasuringError):
        fetched(document)


@pytest.mark.parametrize("amount", ["much", "", "1.5.5", True, [], {}])
def test_an_amount_that_is_none_is_lost_alone(amount: Any) -> None:
    items = [
        {"metadata": {"name": "a"}, "usage": {"cpu": amount}},
        {"metadata": {"name": "b"}, "usage": {"cpu": "1"}},
        {"metadata": None, "usage": None},
    ]
    found = fetched({"items": items})
    assert found["b"] == 0.25
    assert math.isnan(found["a"])


def test_no_list_is_no_numbers() -> None:
    assert fetched({"items": None}) == {}


def test_a_number_beyond_all_numbers_is_reported(tmp_path: Any) -> None:
    path = tmp_path / "load.json"
    path.write_text('{"a": 1' + "0" * 400 + "}")
    with pytest.raises(MeasuringError):
        asyncio.run(MetricFile(str(path)).fetch())


def test_a_password_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = Prometheus("http://me:secret@127.0.0.1:1", "up")

    async def refresh() -> None:
        await MetricCache(source).refresh(VirtualClock().monotonic_s)
        await source.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(refresh())
    assert caplog.records
    assert all("secret" not in str(record.__dict__) for record in caplog.records)


@pytest.mark.parametrize(
    "url", ["http://", "http://:9090", "http://me:secret@[::1", "http://me:secret@x:99999"]
)
def test_a_url_that_leads_nowhere_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match=r"prometheus\.url") as found:
        measured_load({"prometheus": {"url": url, "query": "up"}}, handle())
    assert "secret" not in str(found.value)


def test_a_host_that_can_be_none_is_an_outage() -> None:
    async def ask() -> None:
        source = Prometheus(f"http://{'a' * 70}.b", "up")
        try:
            await source.fetch()
        finally:
            await source.close()

    with pytest.raises(MeasuringError, match="no answer"):
        asyncio.run(ask())
