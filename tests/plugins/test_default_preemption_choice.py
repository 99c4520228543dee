"""DefaultPreemption: which of several nodes, and how many are looked at.

Cases follow upstream's default_preemption_test.go and preemption_test.go (v1.36.3).
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from mooring.config.types import DefaultPreemptionArgs
from mooring.framework import Cycle, FilterStatuses, NodeView
from mooring.objects.pod import Pod
from tests.plugins.preemption_builders import full, node, placed, preemptor
from tests.plugins.preemption_clusters import ALL_NODES, Bench, budget


def start(hour: int) -> str:
    return f"2026-01-01T{hour:02}:00:00Z"


@pytest.mark.parametrize(
    ("on_a", "on_b", "expected"),
    [
        # Fewer violations count more than anything else.
        (full("a", 0, 0, labels={"app": "db"}), full("b", 9, 9), "b"),
        # The highest priority of a victim.
        (full("a", 5, 0), full("b", 4, 4), "b"),
        # The sum of priorities: one victim more is never better, also below 0.
        (full("a", -5, -5), [placed("b-0", "b", -5, requests={"cpu": "2"})], "b"),
        (full("a", 3, 1), full("b", 3, 2), "a"),
        # The latest start among those of the highest priority.
        (full("a", 1, 1, start=start(1)), full("b", 1, 1, start=start(2)), "b"),
        (
            [placed("a-0", "a", 1, start=start(3)), placed("a-1", "a", 1, start=start(1))],
            full("b", 1, 1, start=start(2)),
            "b",
        ),
        (
            [placed("a-0", "a", 1, start=start(3)), placed("a-1", "a", 0, start=start(1))],
            [placed("b-0", "b", 1, start=start(2)), placed("b-1", "b", 0, start=start(9))],
            "a",
        ),
    ],
)
def test_the_best_node_is_chosen(on_a: list[Pod], on_b: list[Pod], expected: str) -> None:
    for order in ((*on_a, *on_b), (*on_b, *on_a)):
        bench = Bench([node("a"), node("b"), *order, budget("b", 0, app="db")])
        assert bench.preempt(preemptor(cpu="2", priority=50)).node_name == expected


def test_equally_good_nodes_are_all_acceptable_and_the_first_one_found_is_taken() -> None:
    nodes = [node(f"n{number}") for number in range(8)]
    pods = [pod for each in nodes for pod in full(each.metadata.name, 0, 0)]

    node_names = set()
    for seed in range(12):
        result = Bench([*nodes, *pods], seed=seed).preempt(preemptor())
        assert result.record is not None
        assert result.record().acceptable == tuple(f"n{number}" for number in range(8))
        node_names.add(result.node_name)

    assert len(node_names) > 3  # the dry run begins anywhere


# ---------------------------------------------------------------- how many are looked at


def many(count: int, priority: int = 0, **more: Any) -> list[Any]:
    names = [f"n{number:03}" for number in range(count)]
    return [
        *map(node, names),
        *(pod for name in names for pod in full(name, priority, priority, **more)),
    ]


@pytest.mark.parametrize(
    ("percentage", "absolute", "count", "looked_at"),
    [(10, 100, 30, 30), (10, 5, 100, 10), (10, 20, 100, 20), (0, 1, 100, 1), (100, 0, 50, 50)],
)
def test_as_many_candidates_are_looked_for_as_the_arguments_say(
    percentage: int, absolute: int, count: int, looked_at: int
) -> None:
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    result = Bench(many(count), args=args).preempt(preemptor())

    assert result.record is not None
    assert len(result.record().candidates) == looked_at


def test_the_search_goes_on_until_one_candidate_violates_no_budget() -> None:
    guarded, free = many(40, labels={"app": "db"}), [node("free"), *full("free", 9, 9)]
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=2)
    bench = Bench([*guarded, *free, budget("b", 0, app="db")], args=args, seed=1)

    result = bench.preempt(preemptor())

    assert result.node_name == "free"
    assert result.record is not None
    # Of those with violations no more are kept than are wanted in all.
    assert len(result.record().candidates) == 3


def test_no_more_nodes_are_filtered_than_it_takes() -> None:
    class Counts:
        name = "Counts"
        seen = 0

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            Counts.seen = max(Counts.seen, len(nodes) if nodes.has_deltas else 0)
            return FilterStatuses.feasible(len(nodes))

    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=0)
    bench = Bench(many(100), plugins=[*Bench([]).harness.plugins, Counts()], args=args)

    assert bench.preempt(preemptor()).status is None
    assert Counts.seen == 10


def test_its_arguments_are_kube_schedulers_by_default() -> None:
    bench = Bench(many(120))
    bench.plugin.__init__(None, bench.handle)

    result = bench.preempt(preemptor())

    assert result.record is not None
    assert len(result.record().candidates) == 100
    assert ALL_NODES.min_candidate_nodes_absolute == 100


def test_no_part_of_numpy_is_loaded_in_the_middle_of_a_preemption() -> None:
    """``np.unique`` and ``np.isin`` may load ``numpy.ma``: 20 ms at a pod's expense."""
    code = """
        import sys
        from mooring.clock import SystemClock, seeded_random
        from mooring.simulation.driver import Driver
        from mooring.testing import make_node, make_pod
        one = {"cpu": "1"}
        nodes = [make_node(f"n{at}", allocatable=one) for at in range(30)]
        driver = Driver(nodes, rng=seeded_random(0), clock=SystemClock())
        before = set(sys.modules)
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        affinity = {"podAntiAffinity": required}
        for at in range(30):
            there = make_pod(f"p{at}", node=f"n{at}", requests=one, labels={"app": "x"})
            driver.cache.put_pod(there)
        for at in range(3):
            pod = make_pod(f"urgent{at}", priority=9, requests=one, affinity=affinity)
            outcome = driver.attempt(pod)
            assert outcome.victims
            driver.apply(outcome)
        print(sorted(name for name in set(sys.modules) - before if name.startswith("numpy")))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
