"""Errors of plugins are counted by plugin and extension point."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from mooring.errors import PluginError
from mooring.framework import PostFilterResult, Reject
from mooring.framework.runtime.plugin_errors import OTHER, PAIRS_MAX, PluginErrors
from mooring.scheduler.metrics import PluginErrorMetrics
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.running_scheduler import run_scheduler, virtually


class Raises:
    """Raises at one extension point, the first time that it is called."""

    name = "Raises"

    def __init__(self, point: str) -> None:
        self._has_raised = False
        setattr(self, point, self._raise)

    def _raise(self, *_: Any) -> Any:
        if not self._has_raised:
            self._has_raised = True
            raise KeyError("x")
        return PostFilterResult(Reject("no")) if hasattr(self, "post_filter") else None

    def events(self) -> list[Any]:
        return []


def test_each_pair_has_its_own_count() -> None:
    errors = PluginErrors()

    for plugin, point in [("A", "Filter"), ("A", "Filter"), ("B", "Permit")]:
        errors.count(PluginError(plugin, point, "x"))

    assert errors.statistics() == {("A", "Filter"): 2, ("B", "Permit"): 1}


def test_the_log_has_the_line_of_the_plugin(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness([make_node("a")], [Raises("filter")])
    with pytest.raises(PluginError) as raised:
        harness.diagnose(make_pod("web"))

    PluginErrors().log(raised.value, pod="default/web")

    (record,) = caplog.records
    fields = vars(record)
    assert (fields["plugin"], fields["extension_point"]) == ("Raises", "Filter")
    assert fields["pod"] == "default/web"
    line = Raises._raise.__code__.co_firstlineno + 3
    assert fields["at"].endswith(f"test_plugin_errors.py:{line}")


def test_the_number_of_pairs_has_a_limit() -> None:
    errors = PluginErrors()

    for number in range(PAIRS_MAX + 5):
        errors.count(PluginError(f"plugin-{number}", "Filter", "x"))
    errors.count(PluginError("plugin-0", "Filter", "x"))

    counts = errors.statistics()
    assert len(counts) == PAIRS_MAX + 1
    assert counts[OTHER] == 5
    assert counts["plugin-0", "Filter"] == 2


def test_the_metric_adds_up_all_profiles() -> None:
    frameworks = [Harness([make_node("a")], []).framework for _ in range(2)]
    for framework in frameworks:
        framework.errors.count(PluginError("A", "Filter", "x"))
    registry = CollectorRegistry()
    registry.register(PluginErrorMetrics(frameworks))

    text = generate_latest(registry).decode()

    line = 'scheduler_plugin_errors_total{extension_point="Filter",plugin="A"} 2.0'
    assert line in text.splitlines()


@pytest.mark.parametrize(
    ("method", "point"),
    [("pre_filter", "PreFilter"), ("permit", "Permit"), ("post_filter", "PostFilter")],
)
def test_an_error_that_is_in_the_status_of_a_pod_is_counted(method: str, point: str) -> None:
    @virtually
    async def main() -> None:
        async with run_scheduler(make_node("a"), plugins=[Raises(method)]) as life:
            cpu = "1000" if method == "post_filter" else "1"
            await life.create(make_pod("web", requests={"cpu": cpu}))
            await life.until_seen("failed", "web")
            (framework,) = life.service.profiles.values()
            assert framework.errors.statistics() == {("Raises", point): 1}

    main()


@virtually
async def test_an_error_in_pre_enqueue_is_counted() -> None:
    async with run_scheduler(make_node("a"), plugins=[Raises("pre_enqueue")]) as life:
        await life.create(make_pod("web"))
        await life.settle()
        (framework,) = life.service.profiles.values()
        assert framework.errors.statistics() == {("Raises", "PreEnqueue"): 1}
