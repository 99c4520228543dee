"""Recorded calls of kube-scheduler's allocator of devices, whose slices come and go before.

A seed draws some of the recorded calls, and the feature gates. The slices of a call are put one by
one in any order, between other versions of them and those of other pools, while the pools of nodes
are read. Devices, configurations, node selector, error and the number of steps are those of the
record. Besides, each change of a node's pools is announced, a plan stands for the solution that it
was made of, and the deadline is read at every step of a drawn number, where the search ends.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.dra import (
    AllocationError,
    Allocator,
    DeviceFeatures,
    NodePools,
    PreparedClaim,
    Slices,
    Solution,
    TargetNode,
    features_of,
    plan_of,
    search,
    solution_of,
)
from mooring.dra import selectors as device_selectors
from mooring.objects.resource import ResourceSlice
from tests.faults.parts.limits import set_limit
from tests.parity.device_cases import (
    CASES,
    GATES_OFF,
    Answer,
    allocated_of,
    answer_of,
    claims_of,
    expected,
    expected_without,
    is_expected,
    node_of,
    selectors,
    slices_of,
)

#: The calls of one run.
CALLS: Final = 25
#: So many slices have another version before, and so many foreign ones come and go.
OTHER_SHARE: Final = 0.3
#: The pools of a node are read after so many of the changes.
READ_SHARE: Final = 0.5
ELSEWHERE: Final = "elsewhere"
#: Limits of the caches of answers; None = those of the scheduler.
FEW: Final = (None, None, 1, 2, 5)
LIMITS: Final = ("ANSWERS_MAX", "EXPRESSIONS_MAX", "DEVICES_MAX")
TIMED_OUT: Final = "timed out trying to allocate devices"

#: Driver, name, state and devices of each pool.
Summary = list[tuple[tuple[str, str], str, tuple[str, ...]]]


class SliceChanges:
    """Puts the slices of a call, between others.

    Attributes:
        problems: Changes that were not announced, and slices that differ in the end.

    Args:
        rng: Draws the changes.
        node: The node of the call.
        objects: The slices.
        features: The feature gates.
    """

    def __init__(
        self, rng: Rng, node: TargetNode, objects: list[ResourceSlice], features: DeviceFeatures
    ) -> None:
        self.problems: list[str] = []
        self._rng = rng
        self._node = node
        self._objects = objects
        self._announced: set[str] = set()
        self._slices = Slices(changed=self._announced.add, features=features)
        self._foreign = 0

    def made(self) -> Slices:
        """Makes all changes, and returns the slices, which are those of the call."""
        rng, slices = self._rng, self._slices
        for obj in rng.sample(self._objects, len(self._objects)):
            if rng.random() < OTHER_SHARE:
                self._change(self._other_version(obj))
            if rng.random() < OTHER_SHARE:
                self._foreign += 1
                name = f"foreign-{self._foreign}"
                self._change(replace(obj, metadata=replace(obj.metadata, name=name)))
                if rng.random() < 0.5:
                    self._change(name)
                    self._foreign -= 1
            self._change(obj)
        for number in range(self._foreign, 0, -1):
            self._change(f"foreign-{number}")
        self._change("unknown")
        expected_objects = {obj.metadata.name: obj for obj in self._objects}
        if {obj.metadata.name: obj for obj in slices.objects()} != expected_objects:
            self.problems.append("there are other slices than were put")
        keys = {(obj.spec.driver, obj.spec.pool.name) for obj in self._objects}
        if len(slices) != len(expected_objects) or len(slices.of_pools(keys)) != len(slices):
            self.problems.append(f"there are {len(slices)} slices, not {len(expected_objects)}")
        return slices

    def _other_version(self, obj: ResourceSlice) -> ResourceSlice:
        """Returns the slice as it was before: of another generation or node, or with less."""
        rng, spec = self._rng, obj.spec
        generation = spec.pool.generation + rng.choice((-1, 1))
        name = rng.choice((spec.pool.name, "other"))
        pool = replace(spec.pool, generation=generation, name=name)
        other = rng.choice(
            (
                replace(spec, pool=pool),
                replace(spec, devices=spec.devices[1:]),
                replace(spec, node_name=ELSEWHERE, all_nodes=None, node_selector=None),
                replace(spec, node_name=None, all_nodes=True, node_selector=None),
            )
        )
        return replace(obj, spec=other)

    def _change(self, change: ResourceSlice | str) -> None:
        """Puts a slice, or removes that of a name, and reads pools."""
        rng, node, slices = self._rng, self._node, self._slices
        before, version = self._summary(slices), slices.version
        objects = slices.objects()
        self._announced.clear()
        if isinstance(change, str):
            slices.remove(change)
        else:
            slices.put(change)
        if slices.objects() != objects and slices.version == version:
            self.problems.append("a change of the slices is no new version")
        if self._summary(slices) != before and not self._announced & {node.name, ""}:
            self.problems.append(f"the pools of {node.name} change: {self._announced}")
        if rng.random() < READ_SHARE:
            labels = rng.choice((node.labels, dict(node.labels), {"zone": "other"}))
            for target in (node._replace(labels=labels), TargetNode(ELSEWHERE, {})):
                with suppress(AllocationError):
                    slices.pools(target)

    def _summary(self, slices: Slices) -> Summary | str:
        """Returns the pools of the node as they are, or the error."""
        try:
            return _summary(slices.gather(self._node))
        except AllocationError as error:
            return str(error)


class AllocatorRun:
    """One run.

    Attributes:
        problems: Differences to the record.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._off: tuple[str, ...] = rng.choice(((), (), (), (), *GATES_OFF))
        self._features = features_of(dict.fromkeys(self._off, False))
        self._selectors = selectors("mooring.cel")
        self._steps_per_check = rng.choice((1, 2, 3, 7))
        self._few = rng.choice(FEW)

    def run(self) -> None:
        """Makes all calls, until one differs."""
        with pytest.MonkeyPatch.context() as patch:
            set_limit(patch, search, "STEPS_PER_CHECK", self._steps_per_check)
            for name in LIMITS if self._few is not None else ():
                set_limit(patch, device_selectors, name, self._few or 0)
            for case in self._rng.sample(CASES, CALLS):
                problems = self._problems(case)
                self.problems += [f"{case['name']}: {problem}" for problem in problems]
                if self.problems:
                    return

    def _problems(self, case: dict[str, Any]) -> list[str]:
        """Makes a call; returns what differs."""
        node, features = node_of(case), self._features
        changes = SliceChanges(self._rng, node, slices_of(case), features)
        slices, claims = changes.made(), claims_of(case, features)
        most, n_checks = self._rng.choice((None, None, None, 0, 1, 5)), 0
        solutions: list[Solution] = []

        def is_late() -> bool:
            nonlocal n_checks
            n_checks += 1
            return most is not None and n_checks > most

        def allocate() -> Solution | None:
            allocator = Allocator(allocated_of(case, features), self._selectors)
            solution = allocator.allocate(node, slices.pools(node), claims, deadline=is_late)
            solutions.extend([] if solution is None else [solution])
            return solution

        actual = answer_of(allocate)
        if most is not None and n_checks > most:
            late = Answer(None, f"node {node.name}: {TIMED_OUT}", False, 0)
            is_right = actual == late and n_checks == most + 1
            return [] if is_right else [f"{actual} after {n_checks} checks, not {late}"]
        problems = changes.problems + self._differences(case, actual)
        for solution in solutions:
            if n_checks != solution.steps // self._steps_per_check:
                problems.append(f"{n_checks} checks of the deadline in {solution.steps} steps")
            problems += _plan_problems(solution, slices.pools(node), claims)
        return problems

    def _differences(self, case: dict[str, Any], actual: Answer) -> list[str]:
        """Compares an answer with the record, which has steps with the default gates only."""
        answers = expected_without(case, self._off) if self._off else [expected(case)]
        is_right = is_expected(actual, answers) if self._off else actual == answers[0]
        return [] if is_right else [f"without {self._off}: {actual}, not {answers}"]


def _plan_problems(solution: Solution, pools: NodePools, claims: list[PreparedClaim]) -> list[str]:
    """Compares a solution with the one that its plan stands for; counters have no plans."""
    if pools.has_counters:
        return []
    planned = solution_of(plan_of(solution, pools), claims, pools, solution.node_name)
    is_equal = planned.claims == solution.claims and planned.node_name == solution.node_name
    return [] if is_equal else [f"the plan stands for {planned}, not {solution}"]


def _summary(pools: NodePools) -> Summary:
    return [
        (pool.key, pool.state, tuple(device.id.device for device in pool.devices))
        for pool in pools.pools
    ]


def run_allocator(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an answer differs from that of kube-scheduler.
    """
    run = AllocatorRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
