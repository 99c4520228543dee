"""Attempts in clusters with more than a hundred nodes, of which some are evaluated.

The profile says which percentage of the nodes is enough. Each attempt begins after the nodes that
the one before has visited, in an order that takes turns between zones. Nodes come, go and change
their zones, PreFilter leaves some of them or rejects the pod, and pods are nominated. Which nodes
are evaluated, how many are feasible, where the next attempt begins, the node, and the message are
those of a loop over names.

Source: pkg/scheduler/schedule_one.go (findNodesThatFitPod, numFeasibleNodesToFind),
backend/cache/node_tree.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import numpy as np

from mooring.clock import VirtualClock, seeded_random
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    Framework,
    NodeView,
    Placement,
    Profile,
    Reject,
)
from mooring.framework.runtime.host_selection import feasible_nodes_to_find
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.runtime.with_extenders import still_fits
from mooring.framework.status import FilterStatuses, PreFilterResult, Status
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod

ATTEMPTS: Final = 16
#: Attempts before which PreFilter rejects another pod.
REJECTED: Final = 0.3
ZONES: Final = ("", "", "east", "west", "north")
#: As upstream: so many nodes are always enough, and so many percent at least.
NODES_MIN: Final = 100
PERCENTAGE_MIN: Final = 5
SCORE_MAX: Final = 100
#: How many clusters are compared by their size alone, and the largest one.
SIZES: Final = 8
SIZE_MAX: Final = 20_000
EXCLUDED: Final = "node(s) didn't satisfy plugin(s) [Table]"
REASONS: Final = ("no disk", "no slot")
NONE_LEFT: Final = "node(s) didn't satisfy plugin Table"
#: In so many runs the caller selects one of the best nodes.
TIE_BREAK_SHARE: Final = 0.3


class Table:
    """A plugin whose results a run draws."""

    name = "Table"

    def __init__(self, run: SampledRun) -> None:
        self._run = run

    def pre_filter(self, cycle: Cycle) -> PreFilterResult | Status | None:
        """Leaves some nodes, or all, or rejects the pod."""
        del cycle
        if self._run.is_rejecting:
            return Reject("no licence", resolvable=False)
        return None if self._run.left is None else PreFilterResult(frozenset(self._run.left))

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the status of each node."""
        del cycle
        return FilterStatuses.of([self._status(name) for name in nodes.names])

    def _status(self, name: str) -> Status | None:
        reason = self._run.reasons.get(name)
        return None if reason is None else Reject(reason)


class Scorer:
    """A plugin whose scores a run draws."""

    name = "Scorer"

    def __init__(self, run: SampledRun) -> None:
        self._run = run

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        """Returns the score of each node."""
        del cycle
        return np.array([self._run.scores[node.name] for node in nodes], dtype=np.int64)


class Zones:
    """The names of nodes by zone, in the order in which they came.

    The list of all is made by the first attempt after a node has come or gone; a node that changes
    its zone has its former place until then.
    """

    def __init__(self) -> None:
        self._zones: dict[str, list[str]] = {}
        self.of: dict[str, str] = {}
        self._listed: list[str] | None = None

    def add(self, name: str, zone: str) -> None:
        """Adds a node."""
        self._listed = None
        self.of[name] = zone
        self._zones.setdefault(zone, []).append(name)

    def remove(self, name: str) -> None:
        """Removes a node, and its zone if that was the last one."""
        self._listed = None
        zone = self.of.pop(name)
        self._zones[zone].remove(name)
        if not self._zones[zone]:
            del self._zones[zone]

    def move(self, name: str, zone: str) -> None:
        """Moves a node to the end of another zone."""
        if self.of[name] != zone:
            listed = self._listed
            self.remove(name)
            self.add(name, zone)
            self._listed = listed

    def order(self) -> list[str]:
        """Returns the nodes of an attempt: one of each zone, then the next ones."""
        if self._listed is None:
            self._listed = list(self._ordered())
        return self._listed

    def _ordered(self) -> Iterator[str]:
        for number in range(max(map(len, self._zones.values()), default=0)):
            for names in self._zones.values():
                yield from names[number : number + 1]


class TieBreak:
    """Selects one of the best nodes, as ``Framework`` lets its caller do.

    Attributes:
        tied: The names that it got last.
        chosen: That of the node it has selected.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.tied: list[str] = []
        self.chosen = ""

    def __call__(self, names: Sequence[str]) -> str:
        """Selects a node."""
        self.tied, self.chosen = list(names), self._rng.choice(names)
        return self.chosen


class SampledRun:
    """One run.

    Attributes:
        problems: Differences to the loop.
        left: The nodes that PreFilter leaves; None = all.
        is_rejecting: Whether PreFilter rejects the pod.
        reasons: Node -> why it is rejected.
        scores: Node -> its score.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._more = seeded_random(seed + 2_000_000)
        self.is_rejecting = False
        self._cache, self._zones, self._count = Cache(), Zones(), 0
        self.left: set[str] | None = None
        self.reasons: dict[str, str] = {}
        self.scores: dict[str, int] = {}
        self._percentage = rng.choice((None, 0, 1, 30, 60, 90, 100))
        self._has_scores = rng.random() < 0.7
        self._zone_names = rng.sample(ZONES, rng.randrange(1, len(ZONES)))
        table = Table(self)
        points: dict[str, Any] = {"pre_filter": [table], "filter": [table]}
        if self._has_scores:
            points["score"] = [Scorer(self)]
        profile = Profile("sampled", points, {"Scorer": 1}, self._percentage)
        self._own = own = Random(f"{seed} own")
        self._tie_break = TieBreak(own) if own.random() < TIE_BREAK_SHARE else None
        self._framework = Framework(profile, clock=VirtualClock(), tie_break=self._tie_break)
        self._start = 0
        for _ in range(rng.choice((40, 99, 101, 140, 230))):
            self._add()

    def run(self) -> None:
        """Makes all attempts, until one differs."""
        for number in range(ATTEMPTS):
            for _ in range(self._rng.choice((0, 0, 1, 3))):
                self._change()
            if self._more.random() < REJECTED:
                self._reject(f"rejected-{number}")
            for _ in range(self._more.choice((0, 0, 1, 5))):
                self._move()
            self._draw()
            self._attempt(f"pod-{number}")
            if self.problems:
                return

    # -- what is drawn ----------------------------------------------------------------------------

    def _add(self) -> None:
        self._count += 1
        name, zone = f"node-{self._count}", self._rng.choice(self._zone_names)
        self._zones.add(name, zone)
        self._cache.put_node(make_node(name, zone=zone or None))

    def _change(self) -> None:
        names = list(self._zones.of)
        if len(names) < 2 or self._rng.random() < 0.5:
            self._add()
            return
        name = self._rng.choice(names)
        self._zones.remove(name)
        self._cache.remove_node(name)

    def _move(self) -> None:
        name, zone = self._more.choice(list(self._zones.of)), self._more.choice(self._zone_names)
        self._zones.move(name, zone)
        self._cache.put_node(make_node(name, zone=zone or None))

    def _reject(self, name: str) -> None:
        """Attempts a pod that PreFilter rejects: no node is visited, but all are listed."""
        self.is_rejecting = self._own.random() < 0.7
        self.left = None if self.is_rejecting else set()
        text = "no licence" if self.is_rejecting else NONE_LEFT
        self._zones.order()
        snapshot = self._cache.snapshot()
        pod = PodInfo(make_pod(name, uid=name))
        cycle, attempt = self._framework.new_cycle(pod, snapshot), Attempt(snapshot, self._start)
        result = schedule_pod(self._framework, cycle, attempt)
        message = f"0/{len(self._zones.of)} nodes are available: {text}."
        if (
            not isinstance(result, Diagnosis)
            or result.message != message
            or attempt.next_start_index(self._start) != self._start
        ):
            self.problems.append(f"{name}, which PreFilter rejects: {result}, not {message}")
        self.is_rejecting = False

    def _draw(self) -> None:
        """Draws which nodes are feasible, and which of them PreFilter leaves."""
        rng, names = self._rng, list(self._zones.of)
        share = rng.choice((0.0, 0.05, 0.5, 0.9, 1.0))
        self.reasons = {name: rng.choice(REASONS) for name in names if rng.random() >= share}
        self.scores = {name: rng.randrange(SCORE_MAX + 1) for name in names}
        self.left = None
        if rng.random() < 0.3:
            self.left = set(rng.sample(names, rng.randrange(1, len(names))))

    # -- an attempt -------------------------------------------------------------------------------

    def _attempt(self, name: str) -> None:
        nominated = ""
        if self._rng.random() < 0.3:
            nominated = self._rng.choice((*self._zones.of, "gone"))
        status = {"nominatedNodeName": nominated} if nominated else None
        pod = PodInfo(make_pod(name, uid=name, status=status))
        self._zones.order()
        snapshot = self._cache.snapshot()
        cycle, attempt = self._framework.new_cycle(pod, snapshot), Attempt(snapshot, self._start)
        result = schedule_pod(self._framework, cycle, attempt)
        next_start = attempt.next_start_index(self._start)
        if nominated in self._zones.of and nominated not in self.reasons:
            expected: Any = ({nominated}, 1, 1), self._start
        else:
            expected = self._expected(nominated if nominated in self.reasons else "")
        real: Any = (
            result.message
            if isinstance(result, Diagnosis)
            else (result.node_name, result.feasible_count, result.evaluated_count)
        )
        outcome, expected_start = expected
        self._check_sampled(attempt, outcome)
        if not isinstance(real, str) and not isinstance(outcome, str) and real[0] in outcome[0]:
            real, outcome = real[1:], outcome[1:]
        if (real, next_start) != (outcome, expected_start):
            self.problems.append(
                f"{name} {real}, next from {next_start}, not {expected}; from {self._start} with "
                f"{self._percentage} % of {len(self._zones.of)}"
            )
        self._start = next_start
        if isinstance(result, Placement):
            self._check_tie(result, outcome_of_all=expected[0])
            self._check_still_fits(cycle, result.node_name)

    def _check_tie(self, result: Placement, *, outcome_of_all: Any) -> None:
        """Compares who selects one of the best nodes, and of which."""
        tie_break, best = self._tie_break, outcome_of_all[0]
        if tie_break is None:
            return
        due = sorted(best) if self._has_scores and len(best) > 1 else []
        if tie_break.tied != due or (due and tie_break.chosen != result.node_name):
            chosen = f"{tie_break.chosen!r} of {tie_break.tied}"
            self.problems.append(f"{chosen} are selected, not of {due}; then {result.node_name}")
        tie_break.tied = []

    def _check_still_fits(self, cycle: Cycle, name: str) -> None:
        """Changes the cluster, as while an extender is called, and compares whether a node fits."""
        own, names = self._own, list(self._zones.of)
        before = self.reasons, self.left
        self.is_rejecting = own.random() < 0.1
        if own.random() < 0.3:
            self.reasons = {other: REASONS[0] for other in names if own.random() < 0.5}
        if own.random() < 0.3:
            self.left = {other for other in names if own.random() < 0.5}
        is_left = self.left is None or name in self.left
        expected = is_left and name not in self.reasons and not self.is_rejecting
        is_gone = own.random() < 0.1
        later = self._framework.new_cycle(cycle.pod, self._cache.snapshot())
        if is_gone:
            name, expected = "gone", False
        if still_fits(self._framework, cycle, later, name) is not expected:
            self.problems.append(f"{name} still fits: {not expected}")
        self.is_rejecting = False
        self.reasons, self.left = before

    def _check_sampled(self, attempt: Attempt, outcome: Any) -> None:
        """Compares what is recorded as the evaluated nodes, if these are not all."""
        count = len(self._zones.of if self.left is None else self.left)
        expected = None if isinstance(outcome, str) or outcome[2] == count else outcome[2]
        if attempt.choice == "nominated":
            expected = None
        if attempt.sampled != expected:
            self.problems.append(f"{attempt.sampled} of {count} are sampled, not {expected}")

    def _expected(self, rejected: str) -> tuple[Any, int]:
        """Returns what an attempt ends with, and where the next one begins.

        Args:
            rejected: The nominated node, which was evaluated first; "" = none.
        """
        names = list(self._zones.order())
        listed = [name for name in names if self.left is None or name in self.left]
        feasible, refused = list[str](), {rejected} if rejected else set[str]()
        visited = set[str]()
        start = self._start % len(listed) if listed else 0
        for name in listed[start:] + listed[:start]:
            if name in self.reasons:
                visited.add(name)
            elif len(feasible) == self._enough(len(listed)):
                break
            else:
                feasible.append(name)
        refused |= visited
        next_start = (self._start + len(feasible) + len(refused)) % len(names)
        if not feasible:
            return self._message(names, listed, rejected), next_start
        return (self._best(feasible), len(feasible), len(feasible) + len(visited)), next_start

    def _best(self, feasible: list[str]) -> set[str]:
        """Returns the nodes that may be selected."""
        if not self._has_scores or len(feasible) == 1:
            return {feasible[0]}
        best = max(self.scores[name] for name in feasible)
        return {name for name in feasible if self.scores[name] == best}

    def _enough(self, count: int) -> int:
        """Returns how many feasible nodes are enough."""
        return _to_find(self._percentage, count) if self._has_scores else 1

    def _message(self, names: list[str], listed: list[str], rejected: str) -> str:
        of_nodes = {*listed, rejected} - {""}
        counts = Counter(self.reasons[name] for name in of_nodes)
        if excluded := len(names) - len(of_nodes):
            counts[EXCLUDED] = excluded
        texts = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f"0/{len(names)} nodes are available: {', '.join(texts)}."


def _to_find(percentage: int | None, count: int) -> int:
    """Returns how many feasible nodes are enough of so many."""
    if percentage is None or count < NODES_MIN:
        return count
    if percentage == 0:
        percentage = max(50 - count // 125, PERCENTAGE_MIN)
    return max(count * percentage // 100, NODES_MIN)


def _sizes_of_clusters(seed: int) -> Iterator[str]:
    """Compares how many nodes are enough in clusters of all sizes."""
    rng = seeded_random(seed + 1_000_000)
    for _ in range(SIZES):
        percentage, count = rng.choice((None, 0, 0, rng.randint(1, 100))), rng.randrange(SIZE_MAX)
        actual, due = feasible_nodes_to_find(percentage, count), _to_find(percentage, count)
        if actual != due:
            yield f"{percentage} % of {count} nodes: {actual} are enough, not {due}"


def run_sampled(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt evaluates other nodes than the loop, or begins elsewhere.
    """
    run = SampledRun(seed)
    run.run()
    run.problems += _sizes_of_clusters(seed)
    assert not run.problems, run.problems[0]
