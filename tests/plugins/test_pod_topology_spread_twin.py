"""PodTopologySpread equals its scalar reference: real and hypothetical nodes, all changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.state import audit
from mooring.testing import Harness, check_conformance
from tests.plugins import spread_clusters as clusters
from tests.plugins.reference_plugins import (
    SEED_BLOCKS,
    hypothetical_statuses,
    results,
    scores_among,
)
from tests.plugins.spread_twin import SpreadTwin

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=400, deadline=None)
def test_statuses_and_scores_are_those_of_the_twin(seed: int) -> None:
    case = clusters.case(seed)

    assert results(case.ours(), case.pod) == results(case.theirs(), case.pod)


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_scores_follow_from_the_nodes_that_can_take_the_pod(seed: int) -> None:
    case, rng = clusters.case(seed), seeded_random(seed)
    ours, theirs = case.ours(), case.theirs()
    names = ours.begin(case.pod).view.names
    some = rng.sample(range(len(names)), k=rng.randint(1, len(names)))

    assert scores_among(ours, case.pod, some) == scores_among(theirs, case.pod, some)


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_worlds_with_pods_more_and_fewer_are_those_of_the_twin(seed: int) -> None:
    case = clusters.case(seed)
    ours, theirs = case.ours(), case.theirs()

    def hypothetical(harness: Harness) -> Any:
        return hypothetical_statuses(harness, case.pod, clusters.pod, seeded_random(seed + 1))

    assert hypothetical(ours) == hypothetical(theirs)


@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_plugin_that_lives_on_says_what_a_fresh_twin_says_after_every_change(seed: int) -> None:
    case, rng = clusters.case(seed), seeded_random(seed + 2)
    ours, theirs = case.ours(), case.theirs()
    theirs.cache = ours.cache
    placed = {found.metadata.uid: found for found in case.objects if isinstance(found, Pod)}

    for step in range(12):
        change(ours, placed, rng, step)

        assert results(ours, case.pod) == results(theirs, case.pod)
        assert audit(ours.cache) == []


def change(harness: Harness, placed: dict[str, Pod], rng: Rng, step: int) -> None:
    """Makes one random change of the cluster."""
    cache, what = harness.cache, rng.random()
    names = [cache.nodes.names[row] for row in cache.nodes.order.rows()]
    if what < 0.4 and names:
        pod = clusters.pod(rng, f"new-{step}", node=rng.choice(names))
        cache.put_pod(pod)
        placed[pod.metadata.uid] = pod
    elif what < 0.55 and placed:
        cache.remove_pod(placed.pop(rng.choice(sorted(placed))).metadata.uid)
    elif what < 0.7 and placed:
        pod = placed[rng.choice(sorted(placed))]
        deleted = clusters.DELETED if rng.random() < 0.5 else pod.metadata.deletion_timestamp
        metadata = replace(pod.metadata, labels=clusters.labels(rng), deletion_timestamp=deleted)
        placed[pod.metadata.uid] = replace(pod, metadata=metadata)
        cache.put_pod(placed[pod.metadata.uid])
    elif what < 0.9:
        cache.put_node(clusters.node(rng, f"node-{rng.randrange(10)}"))
    elif len(names) > 1:
        cache.remove_node(rng.choice(names))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(PodTopologySpread(), reference=SpreadTwin(), seeds=seeds)


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 100, 20)])
def test_it_keeps_the_contract_on_clusters_made_for_it(seeds: range) -> None:
    # With an empty selector or a terminating pod, hypothetical nodes differ, as upstream.
    cases = [case for case in map(clusters.case, seeds) if _has_conditions(case.pod)]

    for case in cases:
        objects = [found for found in case.objects if not found.metadata.deletion_timestamp]
        check_conformance(
            PodTopologySpread(), reference=SpreadTwin(), seeds=(), objects=objects, pods=[case.pod]
        )

    assert len(cases) > 5


def _has_conditions(pod: Pod) -> bool:
    selectors = [each.label_selector for each in pod.spec.topology_spread_constraints]
    return bool(selectors) and all(
        each is None or each.match_labels or each.match_expressions for each in selectors
    )
