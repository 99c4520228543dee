"""Merging plugin sets and expanding multiPoint.

The cases follow upstream's tables (pkg/scheduler/apis/config/v1/default_plugins_test.go and
pkg/scheduler/framework/runtime/framework_test.go) in what they try, not in their words.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config import DEFAULT_PLUGINS, expand_multi_point
from mooring.config.plugin_sets import default_plugins, merge, merge_plugin_set, names_enabled
from mooring.config.types import PluginEntry, Plugins, PluginSet
from mooring.errors import ConfigError

Spec = str | tuple[str, int]


def entries(*specs: Spec) -> tuple[PluginEntry, ...]:
    return tuple(
        PluginEntry(name=spec)
        if isinstance(spec, str)
        else PluginEntry(name=spec[0], weight=spec[1])
        for spec in specs
    )


def plugin_set(*enabled: Spec, off: tuple[str, ...] = ()) -> PluginSet:
    return PluginSet(enabled=entries(*enabled), disabled=entries(*off))


MERGES = [
    ("nothing said", plugin_set(), ["a", "b", "c"]),
    ("one off", plugin_set(off=("b",)), ["a", "c"]),
    ("all off", plugin_set(off=("*",)), []),
    ("all off, some on", plugin_set("z", "b", off=("*",)), ["z", "b"]),
    ("appended", plugin_set("z", "y"), ["a", "b", "c", "z", "y"]),
    ("replaced in place", plugin_set(("b", 7)), ["a", ("b", 7), "c"]),
    ("off and on again goes to the end", plugin_set(("a", 2), off=("a",)), ["b", "c", ("a", 2)]),
    ("replaced and appended", plugin_set("z", ("c", 5)), ["a", "b", ("c", 5), "z"]),
    # The last of two takes the default's place; the other stays, to be refused later.
    ("twice", plugin_set(("a", 1), ("a", 2)), [("a", 2), "b", "c", ("a", 1)]),
    ("off but never on", plugin_set(off=("nobody",)), ["a", "b", "c"]),
]


@pytest.mark.parametrize(("own", "expected"), [case[1:] for case in MERGES], ids=lambda case: "")
def test_merge_of_one_set(own: PluginSet, expected: list[Spec]) -> None:
    merged = merge_plugin_set(plugin_set("a", "b", "c"), own)
    assert merged.enabled == entries(*expected)
    assert merged.disabled == own.disabled


def test_what_defaults_switch_off_stays_off() -> None:
    merged = merge_plugin_set(plugin_set("a", "b", off=("b",)), plugin_set("c"))
    assert merged == PluginSet(enabled=entries("a", "c"), disabled=entries("b"))


def test_a_weight_left_out_is_lost_with_the_default() -> None:
    own = Plugins(multi_point=plugin_set("NodeAffinity"))
    merged = merge(default_plugins(), own)
    expanded = expand_multi_point(merged, ["score"], lambda name, _: name == "NodeAffinity")
    assert expanded == {"score": [("NodeAffinity", 1)]}


def test_defaults_are_kube_schedulers_list() -> None:
    # `kube-scheduler --write-config-to` of v1.36 lists these, in this order.
    assert list(DEFAULT_PLUGINS)[:3] == ["SchedulingGates", "PrioritySort", "NodeUnschedulable"]
    assert list(DEFAULT_PLUGINS).index("DynamicResources") + 1 == list(DEFAULT_PLUGINS).index(
        "DefaultPreemption"
    )
    weights = {name: weight for name, weight in DEFAULT_PLUGINS.items() if weight}
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


POINTS = {"a": "filter score", "b": "filter", "c": "score", "d": "filter score", "x": "score"}


def implements(name: str, point: str) -> bool:
    return point in POINTS[name].split()


def expand(**sets: PluginSet) -> dict[str, list[tuple[str, int]]]:
    return expand_multi_point(Plugins(**sets), ["filter", "score"], implements)


def names(enabled: list[tuple[str, int]]) -> str:
    return "".join(name for name, _ in enabled)


def test_multi_point_reaches_what_a_plugin_implements() -> None:
    found = expand(multi_point=plugin_set("a", "b", ("c", 4)))
    assert found == {"filter": [("a", 1), ("b", 1)], "score": [("a", 1), ("c", 4)]}


def test_overridden_first_then_multi_point_then_the_rest() -> None:
    found = expand(multi_point=plugin_set("a", "c", "d"), score=plugin_set("x", ("d", 9), ("c", 2)))
    assert found["score"] == [("d", 9), ("c", 2), ("a", 1), ("x", 1)]
    assert names(found["filter"]) == "ad"


def test_a_point_can_switch_one_off_or_all() -> None:
    one = expand(multi_point=plugin_set("a", "d"), score=plugin_set(off=("a",)))
    assert (names(one["score"]), names(one["filter"])) == ("d", "ad")
    every = expand(multi_point=plugin_set("a", "d"), score=plugin_set("c", off=("*",)))
    assert (names(every["score"]), names(every["filter"])) == ("c", "ad")


def test_weight_of_the_point_beats_multi_point_and_zero_means_one() -> None:
    found = expand(multi_point=plugin_set(("a", 5), ("c", 0)), score=plugin_set(("a", 3)))
    assert found["score"] == [("a", 3), ("c", 1)]
    # An entry at the point without a weight weighs 1, whatever multiPoint says.
    found = expand(multi_point=plugin_set(("a", 5)), score=plugin_set("a"))
    assert found["score"] == [("a", 1)]


def test_twice_in_multi_point_is_refused() -> None:
    with pytest.raises(ConfigError, match='plugin "a" already registered as "FilterPlugin"'):
        expand(multi_point=plugin_set("a", "b", "a"))


def test_twice_at_a_point_is_refused() -> None:
    with pytest.raises(ConfigError, match='plugin "c" already registered as "ScorePlugin"'):
        expand(score=plugin_set("c", "c"))


def test_a_point_that_the_plugin_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        expand(filter=plugin_set("c"))
    assert caught.value.problem == 'plugin "c" does not extend FilterPlugin plugin'
    assert caught.value.path == "plugins.filter.enabled[0]"


@pytest.mark.parametrize(
    ("weights", "is_accepted"),
    [((-1,), True), ((-1, 1), False), ((5, -1, 2), True), ((5, -6, 2), False), ((5, 2, -9), True)],
)
def test_a_sum_of_weights_that_is_negative_before_the_last_is_refused(
    weights: tuple[int, ...], is_accepted: bool
) -> None:
    entries = tuple(
        PluginEntry(name=name, weight=weight) for name, weight in zip("cdx", weights, strict=False)
    )
    if is_accepted:
        expand(score=PluginSet(enabled=entries))
        return
    with pytest.raises(ConfigError, match="could overflow") as caught:
        expand(score=PluginSet(enabled=entries))
    assert caught.value.path == "plugins.score.enabled"


def test_names_of_points_are_as_in_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        expand_multi_point(Plugins(pre_filter=plugin_set("a")), ["pre_filter"], implements)
    assert caught.value.path == "plugins.preFilter.enabled[0]"


def test_names_enabled_are_of_all_points() -> None:
    plugins = Plugins(multi_point=plugin_set("a"), bind=plugin_set("b"), score=plugin_set("a"))
    assert names_enabled(plugins) == {"a", "b"}


NAMES = st.lists(st.sampled_from("acdx"), unique=True)


@given(multi=NAMES, own=NAMES, off=NAMES)
def test_expansion_is_a_union_in_the_stated_order(
    multi: list[str], own: list[str], off: list[str]
) -> None:
    found = names(
        expand(multi_point=plugin_set(*multi), score=plugin_set(*own, off=tuple(off)))["score"]
    )
    listed = "".join(own)
    # Upstream looks at "disabled" before "override": such a plugin counts as the point's own.
    overridden = [name for name in listed if name in multi and name not in off]
    inherited = [name for name in multi if name not in own and name not in off]
    rest = [name for name in listed if name not in overridden]
    assert found == "".join([*overridden, *inherited, *rest])
