"""Reference plugins: one node at a time, in plain Python ints and floats.

They follow the upstream source and use no code of ``mooring.plugins``; tests compare the default
plugins with them on random input. Those of the two resource plugins are in ``resource_twins``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mooring.clock import Rng
from mooring.cluster_event import ActionType
from mooring.config.types import NodeAffinityArgs
from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView, Reject, per_node
from mooring.framework.interface import Scores
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.status import Skip, Status
from mooring.objects.meta import NodeSelectorRequirement, NodeSelectorTerm
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod, PreferredSchedulingTerm, Toleration
from mooring.state import PodInfo
from mooring.testing import Harness
from tests.plugins.resource_twins import quotient

#: Random clusters for the conformance kit, 200 in all, in blocks that can run side by side.
SEED_BLOCKS = [range(first, first + 25) for first in range(0, 200, 25)]


def hints(plugin: Any) -> dict[tuple[str, ActionType], Any]:
    """Returns (kind, actions) -> hint function for a plugin's registered events."""
    return {(h.event.resource.value, h.event.action): h.hint for h in plugin.events()}


def assert_same(plugin: Any, twin: Any, objects: Iterable[Node | Pod], pod: Pod) -> None:
    """Statuses, raw and normalized scores of the plugin are those of its twin, on every node.

    So are the answers of the plugin's one-node forms, if it has them.
    """
    objects = list(objects)
    ours = Harness(objects, [plugin], cache_results=False)
    theirs = Harness(objects, [twin], cache_results=False)
    if hasattr(plugin, "filter"):
        statuses = ours.statuses(pod)
        assert statuses == theirs.statuses(pod)
        _assert_filter_node(plugin, ours, pod, statuses)
    if hasattr(plugin, "score") and len(ours.cache.nodes):
        raw = ours.raw_scores(pod)
        assert raw == theirs.raw_scores(pod)
        assert _told(ours, pod) == _told(theirs, pod)
        _assert_score_node(plugin, ours, pod, raw)


def _assert_filter_node(
    plugin: Any, harness: Harness, pod: Pod, statuses: dict[str, Status | None]
) -> None:
    cycle, view = harness.open(pod)
    if not hasattr(plugin, "filter_node") or plugin.name in cycle.skipped:
        return
    assert {node.name: plugin.filter_node(cycle, node) for node in view} == statuses


def _assert_score_node(plugin: Any, harness: Harness, pod: Pod, raw: dict[str, int] | None) -> None:
    if not hasattr(plugin, "score_node") or raw is None:
        return
    cycle, view = harness.open(pod)
    assert {node.name: plugin.score_node(cycle, node) for node in view} == raw


def _told(harness: Harness, pod: Pod) -> Any:
    """Returns the normalized scores, or the error that they are out of range."""
    try:
        return harness.scores(pod)
    except PluginError as error:
        return str(error)


def results(harness: Harness, pod: Pod) -> Any:
    """Returns statuses, raw scores and scores of every node."""
    return harness.statuses(pod), harness.raw_scores(pod), harness.scores(pod)


def scores_among(harness: Harness, pod: Pod, positions: Sequence[int]) -> Any:
    """Returns raw and normalized scores if only these nodes are feasible; None for a Skip."""
    cycle, view, _ = harness.begin(pod)
    part = view.subset(np.array(positions, dtype=np.intp))
    raw = harness.raw_scores_in(cycle, part, harness.plugins[0])
    if raw is None:
        return None
    column = np.array(list(raw.values()), dtype=np.int64)
    return raw, harness.plugins[0].normalize(cycle, column, part).tolist()


def hypothetical_statuses(
    harness: Harness, pod: Pod, new_pod: Callable[[Rng, str], Pod], rng: Rng
) -> list[list[Status | None]] | None:
    """Returns the filter's statuses with random pods added and removed; None for a Skip."""
    cycle, view, _ = harness.begin(pod)
    if harness.plugins[0].name in cycle.skipped:
        return None
    added = [
        tuple(PodInfo(new_pod(rng, f"more-{n}")) for n in range(rng.choice((0, 1, 3))))
        for _ in range(len(view))
    ]
    removed = []
    for row in view.rows.tolist():
        pods = [placed.info for placed in harness.cache.pods.on_row(row)]
        removed.append(tuple(rng.sample(pods, k=rng.randint(0, len(pods)))))
    filtered = filter_hypothetical(harness.framework, cycle, view.without(removed).plus(added))
    return [statuses.to_list() for _, statuses in filtered]


def normalized(scores: Sequence[int], *, reverse: bool) -> list[int]:
    """Does the same as ``helper.DefaultNormalizeScore``."""
    highest = max(scores, default=0)
    if highest == 0:
        return [100] * len(scores) if reverse else list(scores)
    scaled = [quotient(100 * score, highest) for score in scores]
    return [100 - score for score in scaled] if reverse else scaled


# ---------------------------------------------------------------- nodes by name, taints, labels


class NodeUnschedulableTwin:
    name = "NodeUnschedulable"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        if not node.unschedulable or any(covers(t, cordon) for t in pod.spec.tolerations):
            return None
        return Reject("node(s) were unschedulable", resolvable=False)


class NodeNameTwin:
    name = "NodeName"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.spec.node_name in ("", node.name):
            return None
        return Reject("node(s) didn't match the requested node name", resolvable=False)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Does the same as ``Toleration.ToleratesTaint`` with the gate of Gt and Lt off."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


class TaintTolerationTwin:
    name = "TaintToleration"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        for taint in node.taints:
            if taint.effect not in ("NoSchedule", "NoExecute"):
                continue
            if not any(covers(toleration, taint) for toleration in pod.spec.tolerations):
                return Reject("node(s) had untolerated taint(s)", resolvable=False)
        return None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        soft = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        intolerable = 0
        for taint in node.taints:
            if taint.effect != "PreferNoSchedule":
                continue
            if not any(covers(toleration, taint) for toleration in soft):
                intolerable += 1
        return intolerable

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        return np.array(normalized(scores.tolist(), reverse=True), dtype=np.int64)


class NodeAffinityTwin:
    """Takes only terms that can be compiled, as a random cluster has them."""

    name = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        self.added = args.added_affinity if args is not None else None

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        required = "required_during_scheduling_ignored_during_execution"
        enforced = getattr(self.added, required) if self.added else None
        if enforced is not None and not any(
            term_holds(term, node.node) for term in enforced.node_selector_terms
        ):
            reason = "node(s) didn't match scheduler-enforced node affinity"
            return Reject(reason, resolvable=False)
        refusal = Reject("node(s) didn't match Pod's node affinity/selector", resolvable=False)
        for key, value in pod.spec.node_selector.items():
            if node.labels.get(key) != value:
                return refusal
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        own = getattr(affinity, required) if affinity else None
        if own is None or any(term_holds(term, node.node) for term in own.node_selector_terms):
            return None
        return refusal

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        added = self._preferred(self.added)
        return None if added or self._preferred_of(cycle.pod) else SKIP

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        total = 0
        for preferred in (*self._preferred(self.added), *self._preferred_of(pod)):
            if preferred.weight != 0 and term_holds(preferred.preference, node.node):
                total += preferred.weight
        return total

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        return np.array(normalized(scores.tolist(), reverse=False), dtype=np.int64)

    def _preferred_of(self, pod: PodInfo) -> tuple[PreferredSchedulingTerm, ...]:
        return self._preferred(pod.spec.affinity.node_affinity if pod.spec.affinity else None)

    @staticmethod
    def _preferred(affinity: Any) -> tuple[PreferredSchedulingTerm, ...]:
        if affinity is None:
            return ()
        found: tuple[PreferredSchedulingTerm, ...] = (
            affinity.preferred_during_scheduling_ignored_during_execution
        )
        return found


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """Returns whether all conditions of a term hold; a term without any holds nowhere."""
    if not term.match_expressions and not term.match_fields:
        return False
    name = {"metadata.name": node.metadata.name}
    return all(condition_holds(c, node.metadata.labels) for c in term.match_expressions) and all(
        condition_holds(c, name) for c in term.match_fields
    )


def condition_holds(condition: NodeSelectorRequirement, labels: Any) -> bool:
    value = labels.get(condition.key)
    match condition.operator:
        case "In":
            return value in condition.values
        case "NotIn":
            return value not in condition.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.lstrip("+-").isdigit():
        return False
    bound = int(condition.values[0])
    return int(value) > bound if condition.operator == "Gt" else int(value) < bound


# ---------------------------------------------------------------- ports and images


class NodePortsTwin:
    name = "NodePorts"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        taken = [port for placed in node.pods for port in host_ports(placed)]
        for address, protocol, number in host_ports(pod):
            for other_address, other_protocol, other_number in taken:
                if (protocol, number) != (other_protocol, other_number):
                    continue
                if address == other_address or "0.0.0.0" in (address, other_address):
                    return Reject("node(s) didn't have free ports for the requested pod ports")
        return None


def host_ports(pod: PodInfo) -> list[tuple[str, str, int]]:
    """Returns (address, protocol, port) of containers and sidecars."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return [
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    ]


class ImageLocalityTwin:
    name = "ImageLocality"

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        images = node.images()
        containers = [*pod.spec.init_containers, *pod.spec.containers]
        names = [container.image for container in containers]
        names += [volume.image.reference for volume in pod.spec.volumes if volume.image]
        total = 0
        for name in names:
            if ":" not in name.rsplit("/", 1)[-1]:
                name = f"{name}:latest"
            if name in images:
                size_bytes, node_count = images[name]
                spread = float(node_count) / float(node.node_count)
                total += int(float(size_bytes) * spread)
        lowest, highest = 23 * 1024**2, 1000 * 1024**2 * len(containers)
        total = min(max(total, lowest), highest)
        return quotient(100 * (total - lowest), highest - lowest)
