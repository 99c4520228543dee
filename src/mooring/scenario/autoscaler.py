"""The cluster autoscaler of a simulation: it adds nodes for pods that wait, and removes idle ones.

Adding: ten seconds at most after a pod was refused, the pods that wait are packed onto template
nodes of every group, those that the scheduler's own filters allow, the largest first. An expander
selects one group; its nodes come after their provisioning time. A group whose nodes do not come in
time is left out for a while.

Removing: a node of a group whose pods ask for less than half of it for ten minutes, and whose pods
all fit elsewhere, is drained and removed; not within ten minutes of a scale-up. Nodes that go
together have room for the pods of all of them on the others.

Source: cluster-autoscaler's FAQ, core/static_autoscaler.go, core/scaleup, estimator (binpacking),
core/scaledown (planner).
Leaves out: similar groups, DRA, ProvisioningRequests, DaemonSets on new nodes, the limits of
deletions at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.chance import Streams
from mooring.clock import Clock
from mooring.objects.meta import controller_of, key
from mooring.objects.node import Node
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.scenario.document import Autoscaler as Settings
from mooring.scenario.object_reader import named_node
from mooring.scenario.scenario import NodeGroup
from mooring.scenario.template_nodes import TemplateNodes
from mooring.simulation.engine.engine import PHASE_CONTROLLERS, PHASE_NODES, Engine

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.clock import Rng
    from mooring.scenario.node_life import NodeLife
    from mooring.simulation.engine.object_table import ObjectTable

#: A group whose nodes did not come is left out for so long.
BACKOFF_S: Final = 300.0
EXPANDERS: Final = ("random", "most-pods", "least-waste", "least-nodes", "price", "priority")
_EPSILON: Final = 1e-9


class Option(NamedTuple):
    """Nodes of one group that would help.

    Attributes:
        group: The group.
        n_nodes: How many nodes.
        pods: Keys of the pods that they would take.
        waste: The share of cpu and memory (0..1) that stays free on them.
    """

    group: NodeGroup
    n_nodes: int
    pods: Sequence[str]
    waste: float


class _Request(NamedTuple):
    """A node that was asked for and is not there yet."""

    group: str
    name: str
    until_s: float


class Autoscaler:
    """Adds and removes the nodes of groups.

    Attributes:
        refusals: Key of a pod -> group -> why a node of the group would not help; of the last scan.
        on_scale_up: Called with a group and the number of nodes that are asked for.

    Args:
        groups: The groups.
        settings: Times, limits and expanders.
        table: The objects.
        engine: Calls back.
        nodes: Removes nodes.
        streams: Of the run.
        clock: Virtual time.
        template_nodes: Filters pods on nodes that are not there.
    """

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        settings: Settings,
        *,
        table: ObjectTable,
        engine: Engine,
        nodes: NodeLife,
        streams: Streams,
        clock: Clock,
        template_nodes: TemplateNodes,
    ) -> None:
        self.refusals: dict[str, dict[str, str]] = {}
        self.on_scale_up: Callable[[str, int], None] = lambda *_: None
        self._groups = groups
        self._settings = settings
        self._table = table
        self._engine = engine
        self._nodes = nodes
        self._clock = clock
        self._templates = template_nodes
        self._provision = {g.name: streams.stream("autoscaler", g.name) for g in groups}
        self._rng: Rng = streams.stream("autoscaler", "expander")
        self._numbers = {group.name: group.min for group in groups}
        self._group_of = {
            f"{group.name}-{number}": group for group in groups for number in range(group.min)
        }
        self._requests: list[_Request] = []
        self._backoff_until_s: dict[str, float] = {}
        self._scan_at_s = math.inf
        self._scanned_s = -math.inf
        self._scaled_up_s = -math.inf
        #: Node -> since when it is not needed.
        self._unneeded_s: dict[str, float] = {}

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Looks at the nodes again when something changes which of them are needed."""
        if not self._settings.scale_down:
            return
        old, new = change.old, change.new
        if kind == "Node":
            if old is None or new is None or _is_other_node(old, new):
                self.wake()
        elif kind == "Pod":
            is_bound = new is not None and new.spec.node_name and not (old and old.spec.node_name)
            has_left = new is None or new.status.phase in FINISHED_PHASES
            if has_left or (is_bound and self._unneeded_s):
                self.wake()

    # -- scans ------------------------------------------------------------------------------------

    def note_refused(self) -> None:
        """Plans a scan for a pod that was refused; one at this instant came before it."""
        interval_s = self._settings.scan_interval
        self._plan_scan(math.floor(self._clock.monotonic_s() / interval_s + _EPSILON) + 1)

    def wake(self) -> None:
        """Plans a scan: something has changed."""
        interval_s = self._settings.scan_interval
        self._plan_scan(math.ceil(self._clock.monotonic_s() / interval_s - _EPSILON))

    def _plan_scan(self, number: int) -> None:
        """Plans the scan with this number, or the next one if it is over; they never meet."""
        interval_s = self._settings.scan_interval
        at_s = max(number * interval_s, self._scanned_s + interval_s)
        if at_s < self._scan_at_s:
            self._scan_at_s = at_s
            self._engine.call_at(at_s, PHASE_CONTROLLERS, self._scan)

    def _scan(self) -> None:
        if self._clock.monotonic_s() < self._scan_at_s - _EPSILON:
            return  # another one came first
        self._scanned_s, self._scan_at_s = self._scan_at_s, math.inf
        self._give_up()
        if not self._scale_up() and self._settings.scale_down:
            self._scale_down()

    # -- adding -----------------------------------------------------------------------------------

    def _scale_up(self) -> bool:
        """Adds nodes for pods that wait; returns whether it did."""
        waiting = self._waiting()
        self.refusals = {}
        if not waiting:
            return False
        # Nodes that come already are counted: their pods need no others.
        waiting = self._templates.left_over(
            waiting, [(r.name, self._group_named(r.group).template) for r in self._requests]
        )
        made = [self._option(group, waiting) for group in self._groups]
        options = [option for option in made if option is not None]
        if not options:
            return False
        option = self._best(options)
        self._add(option.group, option.n_nodes)
        # What is left may need another group: looked at in the next scan.
        self._later(self._settings.scan_interval)
        return True

    def _waiting(self) -> list[Pod]:
        """Returns the pods that were refused, the largest first."""
        pods = [pod for pod in self._table.objects("Pod").values() if _is_refused(pod)]
        return sorted(pods, key=self._templates.size_of, reverse=True)

    def _option(self, group: NodeGroup, waiting: Sequence[Pod]) -> Option | None:
        n_more = group.max - self._count_of(group)
        now_s = self._clock.monotonic_s()
        problem = ""
        if n_more <= 0:
            problem = f"has its {group.max} nodes"
        elif self._backoff_until_s.get(group.name, -math.inf) > now_s:
            problem = "its last nodes did not come"
        if problem:
            for pod in waiting:
                self._refuse(pod, group, problem)
            return None
        packing = self._templates.pack(group.template, group.name, waiting, n_more)
        for pod, why in packing.refused:
            self._refuse(pod, group, why)
        if not packing.pods:
            return None
        return Option(group, packing.n_nodes, packing.pods, packing.waste)

    def _refuse(self, pod: Pod, group: NodeGroup, why: str) -> None:
        self.refusals.setdefault(key(pod), {})[group.name] = why

    def _best(self, options: list[Option]) -> Option:
        """Returns the option that the expanders select, one after another; then at random."""
        for name in self._settings.expander:
            if len(options) > 1 and name != "random":
                values = [_EXPANDER_VALUES[name](option) for option in options]
                best = min(values)
                options = [o for o, v in zip(options, values, strict=True) if v == best]
        return options[0] if len(options) == 1 else options[self._rng.randrange(len(options))]

    def _add(self, group: NodeGroup, count: int) -> None:
        now_s = self._scaled_up_s = self._clock.monotonic_s()
        self.on_scale_up(group.name, count)
        for _ in range(count):
            name = f"{group.name}-{self._numbers[group.name]}"
            self._numbers[group.name] += 1
            wait_s = group.provision.draw(self._provision[group.name])
            request = _Request(group.name, name, now_s + self._settings.max_node_provision_time)
            self._requests.append(request)
            if wait_s <= self._settings.max_node_provision_time:
                come = partial(self._come, request)
                self._engine.call_at(now_s + wait_s, PHASE_NODES, come)
            else:
                self._engine.call_at(request.until_s, PHASE_CONTROLLERS, self.wake)

    def _come(self, request: _Request) -> None:
        """Adds a node that was asked for."""
        if request not in self._requests:
            return
        self._requests.remove(request)
        group = self._group_named(request.group)
        self._group_of[request.name] = group
        self._table.put(named_node(group.template, request.name))
        self.wake()

    def _give_up(self) -> None:
        """Forgets nodes that did not come in time, and leaves their groups out for a while."""
        now_s = self._clock.monotonic_s()
        late = [request for request in self._requests if request.until_s <= now_s + _EPSILON]
        for request in late:
            self._requests.remove(request)
            self._backoff_until_s[request.group] = now_s + BACKOFF_S
        if late:
            # In the background: a group that never gives a node does not keep the run going.
            self._later(BACKOFF_S, is_background=True)

    def _later(self, wait_s: float, *, is_background: bool = False) -> None:
        at_s = self._clock.monotonic_s() + wait_s
        self._engine.call_at(at_s, PHASE_CONTROLLERS, self.wake, is_background=is_background)

    def _group_named(self, name: str) -> NodeGroup:
        return next(group for group in self._groups if group.name == name)

    def _count_of(self, group: NodeGroup) -> int:
        nodes = self._table.objects("Node")
        there = sum(own is group and name in nodes for name, own in self._group_of.items())
        return there + sum(request.group == group.name for request in self._requests)

    # -- removing ---------------------------------------------------------------------------------

    def _scale_down(self) -> None:
        """Removes nodes that were not needed for long enough."""
        now_s, settings = self._clock.monotonic_s(), self._settings
        unneeded: dict[str, float] = {}
        next_s = math.inf
        counts = Counter(self._group_of[name].name for name in self._own_nodes())
        for name in self._unneeded(counts):
            group = self._group_of[name]
            since_s = unneeded[name] = self._unneeded_s.get(name, now_s)
            due_s = max(
                since_s + settings.scale_down_unneeded_time,
                self._scaled_up_s + settings.scale_down_delay_after_add,
            )
            if due_s > now_s + _EPSILON:
                next_s = min(next_s, due_s)
            elif counts[group.name] > group.min:
                counts[group.name] -= 1
                del unneeded[name]
                self._remove(name)
        self._unneeded_s = unneeded
        if next_s < math.inf:
            self._engine.call_at(next_s, PHASE_CONTROLLERS, self.wake)

    def _own_nodes(self) -> list[str]:
        nodes = self._table.objects("Node")
        return [name for name in self._group_of if name in nodes]

    def _unneeded(self, counts: Mapping[str, int]) -> list[str]:
        """Returns the nodes that are little used, and whose pods all fit on the nodes that stay.

        Empty nodes come first, then those that were not needed before.
        """
        nodes = {
            name: [pod for pod in self._nodes.pods_on(name) if not _is_daemon(pod)]
            for name in self._own_nodes()
            if counts[self._group_of[name].name] > self._group_of[name].min
            and self._may_leave(name)
        }
        first = sorted(nodes, key=lambda name: (bool(nodes[name]), name not in self._unneeded_s))
        return self._templates.removable({name: nodes[name] for name in first})

    def _may_leave(self, name: str) -> bool:
        node: Node = self._table.objects("Node")[name]
        pods = self._nodes.pods_on(name)
        threshold = self._settings.scale_down_utilization_threshold
        if self._templates.utilization(node, pods) >= threshold:
            return False
        # Nothing would create a pod without a controller anew.
        return all(controller_of(pod.metadata) is not None for pod in pods)

    def _remove(self, name: str) -> None:
        self._nodes.cordon(name)
        for pod in self._nodes.pods_on(name):
            if not _is_daemon(pod):
                self._nodes.evict(pod, grace_s=0)
        self._nodes.remove(name)
        self._group_of.pop(name)


def explanations(refusals: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns for each group of equal reasons why no node was added, in words."""
    by_reason: dict[str, list[str]] = {}
    for pod_key, groups in refusals.items():
        text = "; ".join(f"{group}: {why}" for group, why in groups.items())
        by_reason.setdefault(text, []).append(pod_key)
    lines = []
    for text, pods in by_reason.items():
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        lines.append(f"no node was added for {', '.join(pods[:3])}{more}: {text}")
    return lines


_EXPANDER_VALUES: Final[dict[str, Callable[[Option], float]]] = {
    "most-pods": lambda option: -len(option.pods),
    "least-waste": lambda option: option.waste,
    "least-nodes": lambda option: option.n_nodes,
    "price": lambda option: option.n_nodes * option.group.price / len(option.pods),
    "priority": lambda option: -option.group.priority,
}


def _is_refused(pod: Pod) -> bool:
    """Returns whether the scheduler has refused a pod, and it waits for no victims."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    if pod.status.phase in FINISHED_PHASES or pod.status.nominated_node_name:
        return False
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def _is_other_node(old: Node, new: Node) -> bool:
    """Returns whether a change of a node may let pods move: not that of its conditions."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
    )


def _is_daemon(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "DaemonSet"


def unknown_expanders(names: Iterable[str]) -> list[str]:
    """Returns the names that are no expanders."""
    return [name for name in names if name not in EXPANDERS]
