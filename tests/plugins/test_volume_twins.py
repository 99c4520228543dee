"""The volume plugins equal their scalar references: real and hypothetical nodes, all changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import Rng, seeded_random
from mooring.errors import PluginError
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.plugins import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone
from mooring.state import PodInfo, audit
from mooring.testing import Harness, check_conformance
from tests.plugins import volume_clusters as clusters
from tests.plugins.reference_plugins import SEED_BLOCKS
from tests.plugins.volume_binding_twin import BindingTwin
from tests.plugins.volume_limits_twin import LimitsTwin
from tests.plugins.volume_twins import Facts, RestrictionsTwin, ZoneTwin

SEEDS = st.integers(0, 2**32)
PAIRS: list[tuple[Any, Any]] = [
    (VolumeRestrictions, RestrictionsTwin),
    (NodeVolumeLimits, LimitsTwin),
    (VolumeBinding, BindingTwin),
    (VolumeZone, ZoneTwin),
]
EACH_PAIR = pytest.mark.parametrize(("ours", "twin"), PAIRS, ids=lambda each: each.__name__)


def answers(harness: Harness, pod: Pod) -> Any:
    """Returns the status of every node, or that the attempt fails."""
    try:
        return {name: told(status) for name, status in harness.statuses(pod).items()}
    except PluginError:
        return "error"


def told(status: Any) -> Any:
    """Returns an Error's text may be another one where several things are wrong."""
    if status is None:
        return None
    return status.code, sorted(status.reasons) if status.is_rejection else ()


@EACH_PAIR
@given(seed=SEEDS)
@settings(max_examples=300, deadline=None)
def test_statuses_are_those_of_the_twin(ours: Any, twin: Any, seed: int) -> None:
    case = clusters.case(seed)

    assert answers(case.harness(ours()), case.pod) == answers(
        case.harness(twin(case.facts())), case.pod
    )


@EACH_PAIR
@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_worlds_with_pods_more_and_fewer_are_those_of_the_twin(
    ours: Any, twin: Any, seed: int
) -> None:
    case = clusters.case(seed)

    def worlds(plugin: Any) -> Any:
        rng, harness = seeded_random(seed + 1), case.harness(plugin)
        try:
            cycle, view, refusal = harness.begin(case.pod)
        except PluginError:
            return "error"
        if plugin.name in cycle.skipped or refusal is not None:
            return refusal
        more = [
            tuple(PodInfo(clusters.pod(rng, f"more-{n}")) for n in range(rng.choice((0, 1, 2))))
            for _ in range(len(view))
        ]
        fewer = []
        for row in view.rows.tolist():
            there = [placed.info for placed in harness.cache.pods.on_row(row)]
            fewer.append(tuple(rng.sample(there, k=rng.randint(0, len(there)))))
        results = filter_hypothetical(harness.framework, cycle, view.without(fewer).plus(more))
        return [[told(status) for status in statuses.to_list()] for _, statuses in results]

    assert worlds(ours()) == worlds(twin(case.facts()))


@EACH_PAIR
@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_plugin_that_lives_on_says_what_a_twin_says_after_every_change(
    ours: Any, twin: Any, seed: int
) -> None:
    case, rng = clusters.case(seed), seeded_random(seed + 2)
    facts = case.facts()
    harness, theirs = case.harness(ours()), case.harness(twin(facts))
    theirs.cache = harness.cache

    for step in range(12):
        change(harness, facts, rng, step)

        pod = clusters.pod(rng, "incoming", is_whole=True)
        assert answers(harness, pod) == answers(theirs, pod)
        assert audit(harness.cache) == []


def change(harness: Harness, facts: Facts, rng: Rng, step: int) -> None:
    """Makes one random change of the cluster."""
    cache, what = harness.cache, rng.random()
    names = [cache.nodes.names[row] for row in cache.nodes.order.rows()]
    placed = sorted(placed.info.uid for placed in cache.pods)
    if what < 0.2 and names:
        cache.put_pod(clusters.pod(rng, f"new-{step}", node=rng.choice(names)))
    elif what < 0.3 and placed:
        cache.remove_pod(rng.choice(placed))
    elif what < 0.4:
        cache.put_node(clusters.node(rng, rng.choice(clusters.NODES)))
    elif what < 0.45 and len(names) > 1:
        cache.remove_node(rng.choice(names))
    elif what < 0.85:
        for obj in rng.sample(clusters.storage(rng), k=3):
            facts.put(obj)
            cache.put_object(type(obj).__name__, obj)
    else:
        known = [obj for objects in facts.objects.values() for obj in objects.values()]
        obj = rng.choice(known)
        facts.remove(type(obj).__name__, key(obj))
        cache.remove_object(type(obj).__name__, key(obj))


@EACH_PAIR
@pytest.mark.parametrize("seeds", SEED_BLOCKS[:4], ids=str)
def test_they_keep_the_contract(ours: Any, twin: Any, seeds: range) -> None:
    check_conformance(ours(), reference=twin(Facts()), seeds=seeds)


@EACH_PAIR
@pytest.mark.parametrize("seeds", SEED_BLOCKS[:2], ids=str)
def test_they_keep_the_contract_with_disks_in_the_pods_themselves(
    ours: Any, twin: Any, seeds: range
) -> None:
    for case in map(clusters.case, seeds):
        objects = [found for found in case.objects if not _has_claims(found)]
        pod = clusters.pod(seeded_random(seeds.start), "incoming")
        if not _has_claims(pod):
            check_conformance(
                ours(), reference=twin(Facts()), seeds=(), objects=objects, pods=[pod]
            )


def _has_claims(found: Any) -> bool:
    return isinstance(found, Pod) and any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in found.spec.volumes
    )


def test_the_random_clusters_meet_every_answer() -> None:
    reasons = set()
    for seed in range(400):
        case = clusters.case(seed)
        for ours, _ in PAIRS:
            try:
                statuses = case.harness(ours()).statuses(case.pod)
            except PluginError as error:
                reasons.add(error.problem.partition('"')[0])
                continue
            for status in statuses.values():
                texts = status.reasons if status is not None else ("fits",)
                reasons.update(text.partition('"')[0].partition(" of ")[0] for text in texts)

    assert {
        "fits",
        "node(s) had no available disk",
        "node(s) exceed max volume count",
        "node(s) had no available volume zone",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "pod has unbound immediate PersistentVolumeClaims",
        "PersistentVolume had no name",
    } <= reasons
