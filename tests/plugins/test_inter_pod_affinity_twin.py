"""InterPodAffinity equals its scalar reference: real and hypothetical nodes, all changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity import domains
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.state import audit
from mooring.testing import Harness, check_conformance
from tests.plugins import affinity_clusters as clusters
from tests.plugins.affinity_twin import AffinityTwin
from tests.plugins.reference_plugins import (
    SEED_BLOCKS,
    hypothetical_statuses,
    results,
    scores_among,
)

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=500, deadline=None)
def test_statuses_and_scores_are_those_of_the_twin(seed: int) -> None:
    case = clusters.case(seed)

    assert results(case.ours(), case.pod) == results(case.theirs(), case.pod)


@contextmanager
def limits(**values: int) -> Iterator[None]:
    """Changes these limits during a test."""
    before = {name: getattr(domains, name) for name in values}
    try:
        for name, value in values.items():
            setattr(domains, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(domains, name, value)


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_so_they_are_with_more_terms_and_keys_than_get_counters_and_columns(seed: int) -> None:
    case = clusters.case(seed, terms=6)
    with limits(COUNTERS_MAX=1, KEYS_MAX=1):
        assert results(case.ours(), case.pod) == results(case.theirs(), case.pod)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_scores_are_scaled_over_the_nodes_that_can_take_the_pod(seed: int) -> None:
    case, rng = clusters.case(seed), seeded_random(seed)
    ours, theirs = case.ours(), case.theirs()
    names = ours.begin(case.pod).view.names
    some = rng.sample(range(len(names)), k=rng.randint(1, len(names)))

    assert scores_among(ours, case.pod, some) == scores_among(theirs, case.pod, some)


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_worlds_with_pods_more_and_fewer_are_those_of_the_twin(seed: int) -> None:
    case = clusters.case(seed)
    ours, theirs = case.ours(), case.theirs()

    def hypothetical(harness: Harness) -> Any:
        return hypothetical_statuses(harness, case.pod, clusters.pod, seeded_random(seed + 1))

    assert hypothetical(ours) == hypothetical(theirs)


@pytest.mark.parametrize("new_keys_max", [domains.NEW_KEYS_MAX, 0])
@given(seed=SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_plugin_that_lives_on_says_what_a_fresh_twin_says_after_every_change(
    seed: int, new_keys_max: int
) -> None:
    case, rng = clusters.case(seed), seeded_random(seed + 2)
    ours, theirs = case.ours(), case.theirs()
    twin = theirs.plugins[0]
    theirs.cache = ours.cache
    placed = {found.metadata.uid: found for found in case.objects if isinstance(found, Pod)}

    for step in range(12):
        change(ours, twin, placed, rng, step)

        with limits(NEW_KEYS_MAX=new_keys_max):
            assert results(ours, case.pod) == results(theirs, case.pod)
        assert audit(ours.cache) == []


def change(
    harness: Harness, twin: AffinityTwin, placed: dict[str, Pod], rng: Rng, step: int
) -> None:
    """Makes one random change of the cluster."""
    cache, what = harness.cache, rng.random()
    names = [cache.nodes.names[row] for row in cache.nodes.order.rows()]
    if what < 0.35 and names:
        pod = clusters.pod(rng, f"new-{step}", node=rng.choice(names))
        cache.put_pod(pod)
        placed[pod.metadata.uid] = pod
    elif what < 0.5 and placed:
        cache.remove_pod(placed.pop(rng.choice(sorted(placed))).metadata.uid)
    elif what < 0.6 and placed:
        pod = placed[rng.choice(sorted(placed))]
        placed[pod.metadata.uid] = replace(
            pod, metadata=replace(pod.metadata, labels=clusters.labels(rng))
        )
        cache.put_pod(placed[pod.metadata.uid])
    elif what < 0.75:
        name = rng.choice(clusters.NAMESPACES)
        if rng.random() < 0.3:
            cache.remove_object("Namespace", name)
            twin.namespaces.pop(name, None)
        else:
            twin.namespaces[name] = clusters.namespace_labels(rng)
            cache.put_object("Namespace", clusters.namespace(name, twin.namespaces[name]))
    elif what < 0.9:
        cache.put_node(clusters.node(rng, f"node-{rng.randrange(10)}"))
    elif len(names) > 1:
        cache.remove_node(rng.choice(names))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(InterPodAffinity(), reference=AffinityTwin(), seeds=seeds)


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 100, 20)])
def test_it_keeps_the_contract_on_clusters_made_for_it(seeds: range) -> None:
    for case in map(clusters.case, seeds):
        check_conformance(
            InterPodAffinity(),
            reference=AffinityTwin(),
            seeds=(),
            objects=case.objects,
            pods=[case.pod],
        )
