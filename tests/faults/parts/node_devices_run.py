"""Nodes with devices of their own beside shared pools, with claims that come and go.

Slices are for a node, a zone, all nodes, or list nodes for each device; they are replaced, and some
pools are incomplete for a while. Pods have claims, share them, or request an extended resource that
some nodes have by a device plugin. The plugin, its results that pods share, and the cache are real;
on each node, Filter and the devices of Reserve are those of ``node_devices_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.errors import SchedulerError
from mooring.framework import Code, FilterStatuses, NodeView, Status
from mooring.framework.runtime.filter import run_filters
from mooring.objects.meta import key
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.state import audit
from mooring.testing import Harness, make_pod
from tests.faults.parts.node_devices_claims import (
    Config,
    allocation_of,
    configs_of,
)
from tests.faults.parts.node_devices_cluster import NODES, RESOURCE
from tests.faults.parts.node_devices_in_use import (
    TOO_FEW,
    UNUSABLE,
    ClaimInUse,
    ClaimsInUse,
    Reserved,
)
from tests.faults.parts.node_devices_model import (
    INVALID,
    Taken,
)
from tests.faults.parts.node_devices_writes import WatchedClaims

STEPS: Final = 30
#: What happens.
PATHS: Final = (
    *("fits", "rejected", "reserved", "special", "config", "grown", "failed", "invalid"),
    "changed",
)
#: In such seeds, modulo four, attempts end after PreBind, too: so many of those that fail.
LATE_FAILURES: Final = 2
LATE_SHARE: Final = 0.6
#: In such seeds, modulo sixteen, the table of nodes grows: a node has one of the new rows then.
GROWS: Final = 13
#: In such seeds, modulo three, devices change between Filter and Reserve, before so many of them.
CHANGES: Final = 2
CHANGED_SHARE: Final = 0.5
#: So many steps begin with a change of a class, in seeds with such changes.
CLASS_SHARE: Final = 0.15
NOT_FOUND: Final = "claim allocation not found for node"
#: The reasons of statuses.
KINDS: Final = {
    "resourceclaim not available on the node": UNUSABLE,
    "cannot allocate all claims": TOO_FEW,
    "invalid resource pools were encountered": INVALID,
}
#: Request, pool, device, whether it is shared, and what is consumed of it.
Result = tuple[str, str, str, bool, dict[str, int]]


class NodeDevicesRun(ClaimsInUse):
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int, *, has_shared: bool = False) -> None:
        super().__init__(seed, has_shared=has_shared)
        self.problems: list[str] = []
        self.paths = dict.fromkeys(PATHS, 0)
        self._handle = OfflineHandle(self._cache, VirtualClock(), seeded_random(seed + 1))
        self._writer = self._handle.claim_writer = WatchedClaims(self._cache)
        self._late = seeded_random(seed + 5) if seed % 4 == LATE_FAILURES else None
        self._between = Random(f"{seed} between") if seed % 3 == CHANGES else None
        self._plugin = DynamicResources(handle=self._handle)
        self._grows_at = self._more.randrange(STEPS) if seed % 16 == GROWS else -1
        # With a filter whose results are cached, as in every profile.
        self._harness = Harness([], [NodeUnschedulable(), self._plugin])
        self._harness.cache = self._cache
        #: Why nodes were rejected for the last pod; None = that is not compared.
        self._kinds: dict[str, str] | None = None

    def _make_steps(self) -> None:
        rng = self._rng
        actions: tuple[Callable[[], None], ...] = (
            *(self._attempt,) * 8,
            *(self._end,) * 2,
            *(self._release,) * 3,
            self._republish,
            self._change_node,
            self._change_rule,
            self._reallocate,
        )
        for step in range(STEPS):
            if step == self._grows_at:
                self._grow()
                self.paths["grown"] += 1
            if self._class_changes is not None and self._class_changes.random() < CLASS_SHARE:
                self._change_class()
            rng.choice(actions)()
            if self.problems:
                return
        self.problems += audit(self._cache)
        self.problems += self._leftovers.problems()

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self) -> None:
        """Filters the nodes for a pod, and reserves a node at times."""
        rng = self._rng
        claims = self._claims_for()
        amount = rng.choice((1, 1, 2)) if self._has_resource and rng.random() < 0.35 else 0
        if not claims and not amount:
            return
        self._count += 1
        pod = make_pod(
            f"pod-{self._count}",
            uid=f"uid-of-pod-{self._count}",
            requests={RESOURCE: str(amount)} if amount else None,
            spec={"resourceClaims": [{"name": n, "resourceClaimName": n} for n in claims]},
        )
        cycle, view, refusal = self._harness.begin(pod)
        of_pod = [self._claims[name] for name in claims]
        is_refused = any(claim.is_in_flight for claim in of_pod)
        if (refusal is not None) is not is_refused:
            self.problems.append(f"{pod.metadata.name}: PreFilter returns {refusal}")
        if refusal is not None or is_refused:
            return
        names, actual = self._filter(cycle, view)
        searched = {name: self._search(name, of_pod, amount) for name in names}
        expected = {name: None if isinstance(it, str) else it for name, it in searched.items()}
        fitting = [name for name, taken in expected.items() if taken is not None]
        self.paths["fits"] += len(fitting)
        self.paths["rejected"] += len(expected) - len(fitting)
        if actual != fitting:
            self.problems.append(f"{pod.metadata.name} fits {actual}, not {fitting}")
            return
        kinds = {name: kind for name, kind in searched.items() if isinstance(kind, str)}
        if self._kinds is not None and kinds != self._kinds:
            self.problems.append(f"{pod.metadata.name} gets {self._kinds}, not {kinds}")
        is_failed = not set(kinds.values()) <= set(KINDS.values())
        self.paths["failed"] += is_failed
        self.paths["invalid"] += INVALID in kinds.values()
        if self.problems or is_failed:
            return
        scores = self._plugin.score(cycle, _view_of(view, fitting)).tolist()
        worth = [self._worth(of_pod, name, amount, expected[name]) for name in fitting]
        if scores != worth:
            self.problems.append(f"{pod.metadata.name} has the scores {scores}, not {worth}")
        elif fitting and rng.random() < 0.8 and not self._are_in_progress(of_pod):
            node = rng.choice(fitting)
            self._change_before_reserve()
            self._reserve(Reserved(pod, node, cycle, of_pod), amount, expected[node] or [])

    def _filter(self, cycle: Any, view: NodeView) -> tuple[list[str], list[str]]:
        """Filters all nodes with cached results, or some; returns these, and where the pod fits."""
        if self._rng.random() < 0.5:
            results = run_filters(self._harness.framework, cycle, None)
            statuses = [results.status(row) for row in view.rows.tolist()]
        else:
            view = _part_of(view, self._rng)
            statuses = _statuses_of(self._plugin.filter(cycle, view))
        of_node = dict(zip(view.names, statuses, strict=True))
        self._kinds = {name: _kind(status) for name, status in of_node.items() if status}
        return list(view.names), [name for name in view.names if name not in self._kinds]

    # -- reservations -----------------------------------------------------------------------------

    def _change_before_reserve(self) -> None:
        """Changes devices between Filter and Reserve at times, as while an extender is called."""
        if self._between is None or self._between.random() > CHANGED_SHARE:
            return
        self.paths["changed"] += 1
        rng, self._rng = self._rng, self._between
        try:
            self._between.choice((self._republish, self._change_rule, self._end))()
        finally:
            self._rng = rng

    def _reserve(self, reserved: Reserved, amount: int, by_filter: list[Taken]) -> None:
        """Reserves a node, and compares the devices; ends the binding now or later.

        Devices that Filter did not have to search for are those of the moment of Reserve.
        """
        node, free = reserved.node, [claim for claim in reserved.claims if not claim.taken]
        expected = self._on(node, reserved.claims, amount)
        status = self._plugin.reserve(reserved.cycle, node)
        if status is not None:
            if expected is not None or status.message != NOT_FOUND:
                self.problems.append(f"{reserved.pod.metadata.name} is not reserved: {status}")
            return
        if expected is None or _is_reserved(reserved, by_filter, self._plugin):
            expected = by_filter
        for spec in self._special_on(node, reserved.claims, amount):
            free.append(ClaimInUse(spec))
            reserved.claims = [*reserved.claims, free[-1]]
            self.paths["special"] += 1
        self.paths["reserved"] += 1
        attempt = reserved.cycle[self._plugin]
        actual = [_results(claim) for claim in attempt.reserved]
        due = [[_result_of(taken) for taken in due_of(expected, it)] for it in range(len(free))]
        if actual != due:
            self.problems.append(f"{reserved.pod.metadata.name} gets {actual}, not {due}")
            return
        selectors = [_selector(claim) for claim in attempt.reserved]
        due_selectors = [
            allocation_of(due_of(expected, number), node).node_selector
            for number in range(len(free))
        ]
        if selectors != due_selectors:
            name = reserved.pod.metadata.name
            self.problems.append(f"{name} gets the nodes {selectors}, not {due_selectors}")
        of_claims = [
            configs_of(claim.spec, due_of(expected, number), self._configs)
            for number, claim in enumerate(free)
        ]
        self.paths["config"] += sum(map(len, of_claims))
        if (configs := [_configs(claim) for claim in attempt.reserved]) != of_claims:
            name = reserved.pod.metadata.name
            self.problems.append(f"{name} gets the configurations {configs}, not {of_claims}")
        for number, claim in enumerate(free):
            claim.taken = due_of(expected, number)
            claim.node, claim.is_in_flight = node, True
        self._reserved.append(reserved)
        if self._rng.random() < 0.7:
            self._end()

    def _end(self) -> None:
        """Ends a binding: it succeeds, or Unreserve gives the devices back."""
        if not self._reserved:
            return
        reserved = self._reserved.pop(self._rng.randrange(len(self._reserved)))
        cycle, uid = reserved.cycle, reserved.pod.metadata.uid
        if self._rng.random() < 0.7:
            run_to_end(self._plugin.pre_bind(cycle, reserved.node))
            specs = [claim.spec for claim in reserved.claims if "special" in claim.spec]
            self.problems += self._writer.problems_with(reserved.pod, specs)
            for claim in reserved.claims:
                claim.users.add(uid)
                claim.is_in_flight = False
            self._bound.append(reserved)
            return
        is_written = self._late is not None and self._late.random() < LATE_SHARE
        if is_written:
            self._writer.fails = self._late
            with suppress(SchedulerError):
                run_to_end(self._plugin.pre_bind(cycle, reserved.node))
            self._writer.fails = None
        attempt = reserved.cycle[self._plugin]
        own = {item.metadata.name for item in attempt.reserved}
        self._plugin.unreserve(cycle, reserved.node)
        for claim in reserved.claims:
            names = {name for name, other in self._claims.items() if other is claim}
            if "special" in claim.spec or (names & own and not is_written):
                claim.taken, claim.node = [], ""
            if "special" in claim.spec or names & own:
                claim.is_in_flight = False
        self._check_unreserved()

    def _check_unreserved(self) -> None:
        """Compares the writes of Unreserve: of the newest versions, and of all that was created."""
        bound = [it.cycle[self._plugin].created for it in self._bound]
        names = {key(claim) for claim in bound if claim is not None}
        if left := self._writer.created - names:
            self.problems.append(f"{left} are not deleted")
        self.problems += self._writer.problems

    def _release(self) -> None:
        """Deletes a bound pod; the controller frees the claims that have no other user.

        A claim that another pod is about to reserve stays: ``claims_run`` has such races.
        """
        removable = [it for it in self._bound if not self._are_in_progress(it.claims)]
        if not removable:
            return
        reserved = self._rng.choice(removable)
        self._bound.remove(reserved)
        pod = reserved.pod
        self._handle.claim_writer.release(pod)
        for claim in reserved.claims:
            claim.users.discard(pod.metadata.uid)
            if not claim.users and not claim.is_in_flight:
                claim.taken, claim.node = [], ""
        if self._rng.random() < 0.3:
            unused = [name for name, it in self._claims.items() if self._is_unused(it)]
            for name in unused[:2]:
                del self._claims[name]
                self._cache.remove_object("ResourceClaim", f"default/{name}")

    def _reallocate(self) -> None:
        """Frees a claim and allocates it elsewhere; the watch shows only the last version."""
        names = [
            name
            for name, claim in self._claims.items()
            if claim.users and not claim.is_in_flight and not self._are_in_progress([claim])
        ]
        if not names:
            return
        name, node = self._rng.choice(names), self._rng.choice(NODES)
        claim = self._claims[name]
        before, claim.taken = claim.taken, []
        taken = self._on(node, [claim], 0)
        if not taken:
            claim.taken = before
            return
        claim.taken, claim.node = taken, node
        stored = self._cache.devices.claims.get(f"default/{name}")
        assert stored is not None
        status = replace(stored.status, allocation=allocation_of(taken, node))
        metadata = replace(stored.metadata, resource_version="")
        self._put("ResourceClaim", replace(stored, metadata=metadata, status=status))


def _kind(status: Status) -> str:
    """Returns why a node does not fit; of an error its text, which ends the attempt."""
    return status.message if status.code is Code.ERROR else KINDS[status.message]


def _is_reserved(reserved: Reserved, taken: list[Taken], plugin: DynamicResources) -> bool:
    """Returns whether the claims have exactly these devices, for the nodes that can use them."""
    claims = reserved.cycle[plugin].reserved
    of_claims = [due_of(taken, number) for number in range(len(claims))]
    results = [[_result_of(it) for it in devices] for devices in of_claims]
    selectors = [allocation_of(devices, reserved.node).node_selector for devices in of_claims]
    return [(_results(it), _selector(it)) for it in claims] == list(
        zip(results, selectors, strict=True)
    )


def due_of(taken: list[Taken], number: int) -> list[Taken]:
    """Returns the devices of one of the claims."""
    return [item for item in taken if item.claim == number]


def _part_of(view: NodeView, rng: Rng) -> NodeView:
    """Returns some nodes of a view, in any order."""
    rows = rng.sample(range(len(view)), k=rng.randint(1, len(view)))
    return view.subset(np.array(rows, dtype=np.intp))


def _statuses_of(results: FilterStatuses) -> list[Status | None]:
    return [results.table[code - 1] if code else None for code in results.codes.tolist()]


def _view_of(view: NodeView, names: list[str]) -> NodeView:
    return view.subset(np.array([list(view.names).index(name) for name in names], dtype=np.intp))


def _results(claim: ResourceClaim) -> list[Result]:
    assert claim.status.allocation is not None
    return [
        (
            result.request,
            result.pool,
            result.device,
            result.share_id is not None,
            {name: int(str(amount)) for name, amount in result.consumed_capacity.items()},
        )
        for result in claim.status.allocation.devices.results
    ]


def _selector(claim: ResourceClaim) -> Any:
    assert claim.status.allocation is not None
    return claim.status.allocation.node_selector


def _configs(claim: ResourceClaim) -> list[Config]:
    assert claim.status.allocation is not None
    return [
        (str(config.source), config.requests, config.opaque.parameters["text"])
        for config in claim.status.allocation.devices.config
        if config.opaque is not None
    ]


def _result_of(taken: Taken) -> Result:
    request = f"{taken.request}/{taken.alternative}" if taken.alternative else taken.request
    return request, *taken.device.id, taken.consumed is not None, dict(taken.consumed or {})


def run_node_devices(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod fits another node, or gets other devices, than by the model.
    """
    run = NodeDevicesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]


def run_shared_devices(seed: int) -> None:
    """Runs a seed in which devices are shared, or share the counters of their pool.

    Raises:
        AssertionError: a pod fits another node, or gets other devices, than by the model.
    """
    run = NodeDevicesRun(seed, has_shared=True)
    run.run()
    assert not run.problems, run.problems[0]
