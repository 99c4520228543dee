"""The plugins of a profile at each point, their order and weights."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.config import Profile, default_configuration, from_document
from mooring.errors import ConfigError
from mooring.framework import Framework
from mooring.framework.runtime.registry import Registry, build
from mooring.plugins import IN_TREE

HANDLE: Any = object()


def nothing(self: Any, cycle: Any, nodes: Any) -> Any: ...


def about_node(self: Any, cycle: Any, node_name: str) -> Any: ...


async def binds(self: Any, cycle: Any, node_name: str) -> Any: ...


METHODS: dict[str, Any] = {
    "less": lambda self, a, b: False,
    "filter": nothing,
    "score": nothing,
    "normalize": lambda self, cycle, scores, nodes: scores,
    "reserve": about_node,
    "unreserve": about_node,
    "pre_bind": binds,
    "pre_bind_pre_flight": about_node,
    "bind": binds,
}


def plugin(name: str, *methods: str) -> Any:
    return type(name, (), {"name": name, **{method: METHODS[method] for method in methods}})()


def registry(**methods: str) -> Registry:
    def factory(name: str) -> Any:
        return lambda args, handle: plugin(name, *methods[name].split())

    return Registry({name: factory(name) for name in methods})


def profile(*enabled: Any, **points: Any) -> Profile:
    """Returns a profile that runs these plugins and no default ones."""
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in enabled]
    multi_point = {"disabled": [{"name": "*"}], "enabled": entries}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "plugins": {"multiPoint": multi_point, **points}}],
    }
    return from_document(document).profiles[0]


def built(made: Profile, known: Registry, *extra: Any, percentage: int | None = None) -> Framework:
    return build(
        made,
        known,
        HANDLE,
        clock=VirtualClock(),
        extra=extra,
        percentage_of_nodes_to_score=percentage,
    )


def names_at(framework: Framework, point: str) -> list[str]:
    return [found.name for found in framework.plugins(point)]


KNOWN = {"Sort": "less", "Binder": "bind", "A": "filter score", "B": "filter score normalize"}


def test_multi_point_runs_a_plugin_at_every_point_it_implements() -> None:
    framework = built(profile("Sort", "A", "B", "Binder"), registry(**KNOWN))

    assert names_at(framework, "less") == ["Sort"]
    assert names_at(framework, "filter") == ["A", "B"]
    assert names_at(framework, "score") == ["A", "B"]
    assert names_at(framework, "normalize") == ["B"]
    assert names_at(framework, "bind") == ["Binder"]
    assert names_at(framework, "permit") == []
    assert framework.profile.scheduler_name == "s"


def test_one_object_serves_all_points_of_its_plugin() -> None:
    framework = built(profile("Sort", "B", "Binder"), registry(**KNOWN))

    assert framework.plugins("filter")[0] is framework.plugins("score")[0]


def test_companion_methods_come_with_their_point() -> None:
    known = registry(**KNOWN, R="reserve unreserve pre_bind pre_bind_pre_flight")
    framework = built(profile("Sort", "Binder", "R"), known)

    for point in ("reserve", "unreserve", "pre_bind", "pre_bind_pre_flight"):
        assert names_at(framework, point) == ["R"]


def test_multi_point_gives_the_weight_and_the_score_point_goes_before_it() -> None:
    both = profile(
        "Sort",
        {"name": "A", "weight": 5},
        {"name": "B", "weight": 7},
        "Binder",
        score={"enabled": [{"name": "B", "weight": 9}]},
    )
    framework = built(both, registry(**KNOWN))

    assert (framework.weight("A"), framework.weight("B")) == (5, 9)
    assert names_at(framework, "score") == ["B", "A"]  # the point's own choice comes first
    assert framework.weight("somebody else") == 1


def test_a_point_can_switch_a_plugin_off_for_itself_alone() -> None:
    made = profile("Sort", "A", "B", "Binder", filter={"disabled": [{"name": "A"}]})
    framework = built(made, registry(**KNOWN))

    assert names_at(framework, "filter") == ["B"]
    assert names_at(framework, "score") == ["A", "B"]


def test_extra_plugins_run_after_the_configured_ones_with_weight_one() -> None:
    made = profile("Sort", {"name": "A", "weight": 5}, "Binder")
    extra = plugin("Extra", "filter", "score", "normalize")
    framework = built(made, registry(**KNOWN), extra, plugin("More", "filter"))

    assert names_at(framework, "filter") == ["A", "Extra", "More"]
    assert names_at(framework, "score") == ["A", "Extra"]
    assert names_at(framework, "normalize") == ["Extra"]
    assert framework.weight("Extra") == 1


def test_an_extra_bind_plugin_is_asked_before_the_one_that_binds_everything() -> None:
    framework = built(profile("Sort", "Binder"), registry(**KNOWN), plugin("Mine", "bind"))

    assert names_at(framework, "bind") == ["Mine", "Binder"]


def test_an_extra_plugin_that_the_profile_names_runs_where_it_says() -> None:
    made = profile("Sort", "A", "Binder", score={"enabled": [{"name": "Mine", "weight": 7}]})
    framework = built(made, registry(**KNOWN), plugin("Mine", "filter", "score"))

    assert "Mine" in names_at(framework, "score")
    assert "Mine" not in names_at(framework, "filter")
    assert framework.weight("Mine") == 7


@pytest.mark.parametrize("extra", [["A"], ["X", "X"]])
def test_an_extra_plugin_needs_a_name_of_its_own(extra: list[str]) -> None:
    made = profile("Sort", "A", "Binder")

    with pytest.raises(ConfigError, match="--plugin: another plugin has this name"):
        built(made, registry(**KNOWN), *(plugin(name, "filter") for name in extra))


@pytest.mark.parametrize(
    ("enabled", "found"), [(["Binder"], []), (["Sort", "Other", "Binder"], ["Sort", "Other"])]
)
def test_exactly_one_queue_sort_must_run(enabled: list[str], found: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        built(profile(*enabled), registry(**KNOWN, Other="less"))

    assert str(caught.value) == (
        f"plugins.queueSort: exactly one queueSort plugin must be enabled, got {found!r}"
    )


def test_without_a_bind_plugin_no_pod_would_ever_be_bound() -> None:
    with pytest.raises(ConfigError, match=r"plugins\.bind: at least one bind plugin must be"):
        built(profile("Sort"), registry(**KNOWN))


def test_a_plugin_at_a_point_that_it_lacks_is_refused() -> None:
    made = profile("Sort", "Binder", score={"enabled": [{"name": "Sort"}]})

    with pytest.raises(ConfigError, match='plugin "Sort" does not extend ScorePlugin plugin'):
        built(made, registry(**KNOWN))


def test_an_unknown_plugin_in_a_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown plugin, got 'Nobody'") as refused:
        built(profile("Sort", "Binder", "Nobody"), registry(**KNOWN))
    assert refused.value.path == "plugins.multiPoint.enabled[2].name"


def test_default_plugins_that_are_not_built_yet_are_left_out() -> None:
    (made,) = default_configuration().profiles
    framework = built(made, Registry(IN_TREE))

    assert names_at(framework, "less") == ["PrioritySort"]
    assert names_at(framework, "bind") == ["DefaultBinder"]
    assert names_at(framework, "filter")[:3] == ["NodeUnschedulable", "NodeName", "TaintToleration"]
    assert set(names_at(framework, "filter")) <= set(IN_TREE)
    assert framework.weight("TaintToleration") == 3
    assert framework.weight("NodeAffinity") == 2


@pytest.mark.parametrize("percentage", [None, 0, 40])
def test_the_percentage_of_nodes_to_score_is_handed_on(percentage: int | None) -> None:
    framework = built(profile("Sort", "Binder"), registry(**KNOWN), percentage=percentage)

    assert framework.profile.percentage_of_nodes_to_score == percentage
