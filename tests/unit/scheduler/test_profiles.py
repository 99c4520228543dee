"""Profiles: a framework for each schedulerName."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.errors import ConfigError
from mooring.framework.waiting_pods import WaitingPods
from mooring.scheduler.profiles import _in_profile, load_profiles
from mooring.simulation.offline import OfflineHandle
from mooring.state.cache import Cache
from tests.helpers.scripted_plugins import ReservePlugin


class Own:
    """A plugin that is loaded by name."""

    name = "Own"

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def reserve(self, cycle: Any, node_name: str) -> None:
        """Does nothing."""

    def unreserve(self, cycle: Any, node_name: str) -> None:
        """Does nothing."""


def config(*names: str, **more: Any) -> KubeSchedulerConfiguration:
    found = default_configuration()
    (profile,) = found.profiles
    return replace(found, profiles=tuple(replace(profile, scheduler_name=n) for n in names), **more)


def load(configuration: KubeSchedulerConfiguration, *plugins: Any, **more: Any) -> Any:
    clock = VirtualClock()
    handle = OfflineHandle(Cache(), clock=clock, rng=seeded_random(0))
    waiting = WaitingPods()
    return load_profiles(
        configuration, handle, clock=clock, waiting=waiting, plugins=plugins, **more
    )


def test_each_name_has_a_framework_of_its_own() -> None:
    profiles = load(config("one", "two"))
    assert list(profiles) == ["one", "two"]
    assert profiles["one"] is not profiles["two"]
    assert profiles["two"].profile.scheduler_name == "two"


def test_pods_that_permit_holds_back_are_one_list_for_all() -> None:
    profiles = load(config("one", "two"))
    assert profiles["one"].waiting is profiles["two"].waiting


def test_further_plugins_are_in_every_profile() -> None:
    keeps = ReservePlugin()
    profiles = load(config("one", "two"), keeps, f"{__name__}:Own")
    for framework in profiles.values():
        reserving = [plugin.name for plugin in framework.plugins("reserve")]
        assert reserving == ["VolumeBinding", "DynamicResources", "ReservePlugin", "Own"]
    one, two = (framework.plugins("reserve")[3] for framework in profiles.values())
    assert one is two
    assert one.handle is not None


def test_a_profiles_own_percentage_goes_before_that_of_all() -> None:
    found = config("one", "two", percentage_of_nodes_to_score=30)
    first, second = found.profiles
    own = replace(first, percentage_of_nodes_to_score=70)
    profiles = load(replace(found, profiles=(own, second)))
    percentages = [each.profile.percentage_of_nodes_to_score for each in profiles.values()]
    assert percentages == [70, 30]


def test_without_a_percentage_all_nodes_are_looked_at() -> None:
    (framework,) = load(config("one")).values()
    assert framework.profile.percentage_of_nodes_to_score is None


def test_a_percentage_of_zero_is_the_adaptive_number() -> None:
    (framework,) = load(config("one", percentage_of_nodes_to_score=0)).values()
    assert framework.profile.percentage_of_nodes_to_score == 0


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("no_such_module:Own", "no_such_module"),
        ("nonsense", "MODULE:ATTRIBUTE"),
        (object(), "name"),
    ],
)
def test_what_is_no_plugin_is_refused(plugin: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(config("one"), plugin)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match="another plugin has this name"):
        load(config("one"), ReservePlugin(), ReservePlugin())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("plugins.filter.enabled[0]", "profiles[1].plugins.filter.enabled[0]"),
        ("pluginConfig", "pluginConfig"),
        ("", None),
        (None, None),
    ],
)
def test_an_error_about_a_plugin_names_the_profile(path: str | None, expected: str | None) -> None:
    error = ConfigError("odd", path=path, value="x", suggestion="y")
    named = _in_profile(error, 1)
    assert (named.path, named.problem) == (expected, "odd")
    assert (named.value, named.suggestion) == ("x", "y")


@pytest.mark.parametrize(
    ("gates", "expected"), [({}, True), ({"OpportunisticBatching": False}, False)]
)
def test_pods_may_be_batched_unless_the_gate_is_off(gates: Any, expected: bool) -> None:
    frameworks = load(config("one", "two"), gates=gates).values()
    assert [framework.has_batching_gate for framework in frameworks] == [expected] * 2
