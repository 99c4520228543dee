"""The verdict of a soak: what counts as growing, and which containers are sampled."""

from __future__ import annotations

import pytest

from bench.soak_samples import LOAD, RSS, Growth, Samples, container_sample, growths
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod


def samples(*values: float, name: str = "x") -> Samples:
    series = Samples(len(values) + 2)
    for value in values:
        series.add({name: value})
    return series


def test_medians_of_the_thirds_after_the_warm_up_are_compared() -> None:
    (growth,) = growths(samples(9, 9, 9, 1, 2, 30, 4, 5, 6, 7, 80, 9), warm_up=0.25)
    assert (growth.first, growth.last) == (2, 9)


def test_a_series_that_appears_later_was_0_before() -> None:
    series = samples(1, 1, 1)
    series.add({"x": 1, "later": 5})
    series.add({"later": 6})
    assert list(series.series["later"]) == [0, 0, 0, 5, 6]
    assert list(series.series["x"]) == [1, 1, 1, 1, 0]


def test_what_is_kept_for_each_node_with_pods_may_grow_with_their_number() -> None:
    series = Samples(12)
    for number in range(12):
        sample = {LOAD: 1000 + 100 * number, "of nodes": 100 + 100 * number, RSS: number << 20}
        series.add({**sample, "leak": 100 + 200 * number})
    grown = {growth.name: growth for growth in growths(series, warm_up=0.0)}
    assert not grown["of nodes"].is_growing
    assert grown["leak"].is_growing
    assert grown[RSS].is_growing


@pytest.mark.parametrize(
    ("name", "first", "last", "is_growing"),
    [
        ("x", 100, 164, False),
        ("x", 100, 165, True),
        ("x", 10_000, 10_500, False),
        ("x", 10_000, 10_501, True),
        ("x", 10_000, 100, False),
        (RSS, 100 << 20, 104 << 20, False),
        (RSS, 100 << 20, 105 << 20, True),
    ],
)
def test_growth_is_more_than_noise(name: str, first: float, last: float, is_growing: bool) -> None:
    assert Growth(name, first, last).is_growing is is_growing


def test_every_container_of_an_object_is_sampled_by_its_path() -> None:
    cache = Cache()
    before = container_sample(cache)
    for number in range(3):
        cache.put_node(make_node(f"node-{number}"))
        cache.put_pod(make_pod(f"pod-{number}", node=f"node-{number}"))
    after = container_sample(cache)
    longer = {path: after[path] - before[path] for path in before if after[path] > before[path]}
    assert longer["Cache._uid_of"] == 3
    # Below it are the tables, without the objects of the cluster.
    assert any(path.startswith("Cache.nodes.") for path in longer)
    assert any(path.startswith("Cache.pods.") for path in longer)
    assert not any("node-0" in path for path in after)
