"""A cluster in plain Python, for the run ``scores``: which nodes a pod fits, and their scores.

Every rule walks over all nodes and pods. Nothing here is the scheduler's code.

Source: pkg/scheduler/framework/plugins/interpodaffinity/{filtering,scoring}.go;
noderesources/{resource_allocation,least_allocated,most_allocated,requested_to_capacity_ratio,
balanced_allocation}.go;
tainttoleration, nodeaffinity; helper/normalize_score.go; schedule_one.go (selectHost).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

#: What a container without a request counts for in scores: millicores and MiB.
DEFAULTS: Final = {"cpu": 100, "memory": 200}
UNSCHEDULABLE, UNRESOLVABLE = "Unschedulable", "UnschedulableAndUnresolvable"
WEIGHTS: Final = {
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesBalancedAllocation": 4,
}


class TermModel(NamedTuple):
    """An affinity term: pods with all these labels, in these namespaces, in a domain of the key.

    Attributes:
        key: Of the topology.
        labels: Of the pods.
        namespaces: None = that of the pod that has the term, unless others are selected.
        selected: Also the namespaces with these labels; None = no others.
    """

    key: str
    labels: tuple[tuple[str, str], ...]
    namespaces: tuple[str, ...] | None = None
    selected: tuple[tuple[str, str], ...] | None = None


class Terms(NamedTuple):
    """The affinity of a pod between pods; preferred terms have their weights."""

    affinity: tuple[TermModel, ...] = ()
    anti: tuple[TermModel, ...] = ()
    preferred: tuple[tuple[int, TermModel], ...] = ()
    preferred_anti: tuple[tuple[int, TermModel], ...] = ()


class Kind(NamedTuple):
    """A kind of pods. Amounts are millicores, MiB and devices; 0 = no request."""

    namespace: str = "default"
    labels: tuple[tuple[str, str], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    tolerates: tuple[str, ...] = ()
    terms: Terms = Terms()
    #: Weight, label and value of preferred nodes.
    prefers: tuple[tuple[int, str, str], ...] = ()


class Rejected(NamedTuple):
    """A node that is not feasible: the code, the reasons and the plugin of its status."""

    code: str
    reasons: tuple[str, ...]
    plugin: str


class Strategy(NamedTuple):
    """The scoring of resources: the weight of each, and the points of the curve, if it has one."""

    type: str
    weights: tuple[tuple[str, int], ...]
    shape: tuple[tuple[int, int], ...] = ()


@dataclass
class MachineModel:
    """A node. ``tainted`` are the keys of its PreferNoSchedule taints."""

    size: dict[str, int]
    labels: dict[str, str]
    tainted: tuple[str, ...] = ()
    pods: dict[str, Kind] = field(default_factory=dict)


class ScoresModel:
    """The nodes, and what the plugins have to say of a pod.

    Args:
        strategy: That of NodeResourcesFit.
        hard_weight: What a required term of another pod counts for in scores.
        ignores_preferred: True if terms of other pods count for pods with preferred terms only.
        balanced: The resources of NodeResourcesBalancedAllocation; none = the plugin is off.
    """

    def __init__(
        self,
        strategy: Strategy,
        hard_weight: int,
        *,
        ignores_preferred: bool,
        balanced: tuple[str, ...] = (),
    ) -> None:
        self._balanced = balanced
        self.nodes: dict[str, MachineModel] = {}
        #: Namespace -> its labels.
        self.namespaces: dict[str, dict[str, str]] = {}
        self._strategy = strategy
        self._hard_weight = hard_weight
        self._ignores_preferred = ignores_preferred

    def _pods(self) -> Iterator[tuple[MachineModel, Kind]]:
        for node in self.nodes.values():
            for pod in node.pods.values():
                yield node, pod

    def selects(self, term: TermModel, owner: Kind, subject: Kind) -> bool:
        """Returns whether a term of a pod selects another pod."""
        names = term.namespaces or ()
        if term.namespaces is None and term.selected is None:
            names = (owner.namespace,)
        labels = self.namespaces.get(subject.namespace, {})
        is_selected = term.selected is not None and set(term.selected) <= set(labels.items())
        is_near = subject.namespace in names or is_selected
        return is_near and set(term.labels) <= set(subject.labels)

    # -- filter -----------------------------------------------------------------------------------

    def rejected(self, name: str, kind: Kind) -> Rejected | None:
        """Returns why a node is not feasible; None = it is."""
        node = self.nodes[name]
        reasons = ["Too many pods"] if len(node.pods) >= node.size["pods"] else []
        is_too_small = False
        for resource, amount in kind.requests:
            used = sum(dict(pod.requests).get(resource, 0) for pod in node.pods.values())
            size = node.size.get(resource, 0)
            if amount and amount + used > size:
                reasons.append(f"Insufficient {resource}")
                is_too_small = is_too_small or amount > size
        if reasons:
            code = UNRESOLVABLE if is_too_small else UNSCHEDULABLE
            return Rejected(code, tuple(reasons), "NodeResourcesFit")
        code, reason = UNSCHEDULABLE, ""
        pods = [(other, place) for place, other in self._pods()]
        theirs = [(other, it, kind, place) for other, place in pods for it in other.terms.anti]
        if not self._has_company(node, kind):
            code, reason = UNRESOLVABLE, "node(s) didn't match pod affinity rules"
        elif self._is_near(node, [(kind, it, *other) for it in kind.terms.anti for other in pods]):
            reason = "node(s) didn't match pod anti-affinity rules"
        elif self._is_near(node, theirs):
            reason = "node(s) didn't satisfy existing pods anti-affinity rules"
        return Rejected(code, (reason,), "InterPodAffinity") if reason else None

    def _is_near(
        self, node: MachineModel, rules: Iterable[tuple[Kind, TermModel, Kind, MachineModel]]
    ) -> bool:
        """Returns whether a term of a pod selects another one, which is near the node.

        A rule is the owner of a term, the term, the pod that it may select, and where the other of
        the two pods is.
        """
        return any(
            self.selects(term, owner, subject) and _is_together(term.key, node, place)
            for owner, term, subject, place in rules
        )

    def _has_company(self, node: MachineModel, kind: Kind) -> bool:
        terms = kind.terms.affinity
        if any(term.key not in node.labels for term in terms):
            return False

        def is_company(other: Kind) -> bool:
            return all(self.selects(term, kind, other) for term in terms)

        company = [other_node for other_node, other in self._pods() if is_company(other)]
        if all(any(_is_together(term.key, node, it) for it in company) for term in terms):
            return True
        # The first one of a group needs no company.
        is_counted = any(term.key in it.labels for it in company for term in terms)
        return not is_counted and is_company(kind)

    # -- scores -----------------------------------------------------------------------------------

    def totals(self, names: list[str], kind: Kind) -> dict[str, int]:
        """Returns the weighted sum of all scores of each of some nodes."""
        totals: dict[str, int] = dict.fromkeys(names, 0)
        for plugin, scores in (
            ("InterPodAffinity", self._affinity_scores(names, kind)),
            ("NodeResourcesFit", [self._fit_score(self.nodes[name], kind) for name in names]),
            ("TaintToleration", self._taint_scores(names, kind)),
            ("NodeAffinity", self._node_affinity_scores(names, kind)),
            (
                "NodeResourcesBalancedAllocation",
                [self._balance_score(self.nodes[name], kind) for name in names],
            ),
        ):
            for name, score in zip(names, scores, strict=True):
                totals[name] += WEIGHTS[plugin] * score
        return totals

    def _affinity_scores(self, names: list[str], kind: Kind) -> list[int]:
        sums: defaultdict[tuple[str, str], int] = defaultdict(int)
        own = [*kind.terms.preferred, *((-w, term) for w, term in kind.terms.preferred_anti)]
        if not own and self._ignores_preferred:
            return [0] * len(names)
        for node, other in self._pods():
            weighted = [(weight, term, kind, other) for weight, term in own]
            weighted += [(self._hard_weight, term, other, kind) for term in other.terms.affinity]
            weighted += [(weight, it, other, kind) for weight, it in other.terms.preferred]
            weighted += [(-w, term, other, kind) for w, term in other.terms.preferred_anti]
            for weight, term, owner, subject in weighted:
                if term.key in node.labels and self.selects(term, owner, subject):
                    sums[term.key, node.labels[term.key]] += weight
        raw = []
        for name in names:
            labels = self.nodes[name].labels
            raw.append(
                sum(total for (key, value), total in sums.items() if has(labels, key, value))
            )
        lowest, highest = min(raw), max(raw)
        if lowest == highest:
            return [0] * len(raw)
        return [int(100 * ((value - lowest) / (highest - lowest))) for value in raw]

    def _fit_score(self, node: MachineModel, kind: Kind) -> int:
        total = weights = 0
        is_ratio = self._strategy.type == "RequestedToCapacityRatio"
        for resource, weight in self._strategy.weights:
            size = node.size.get(resource, 0)
            is_scalar = resource not in DEFAULTS
            if not size or (is_scalar and not dict(kind.requests).get(resource, 0)):
                continue
            requested = sum(
                dict(pod.requests).get(resource, 0) or DEFAULTS.get(resource, 0)
                for pod in (kind, *node.pods.values())
            )
            score = self._share_score(requested, size)
            if not is_ratio or score > 0:
                total += score * weight
                weights += weight
        if not weights:
            return 0
        return math.floor(total / weights + 0.5) if is_ratio else total // weights

    def _share_score(self, requested: int, size: int) -> int:
        if self._strategy.type == "LeastAllocated":
            return (size - requested) * 100 // size if requested <= size else 0
        if self._strategy.type == "MostAllocated":
            return min(requested, size) * 100 // size
        share = requested * 100 // size if requested <= size else 100
        return on_line(self._strategy.shape, share)

    def _balance_score(self, node: MachineModel, kind: Kind) -> int:
        requests = dict(kind.requests)
        if not any(requests.get(resource, 0) for resource in self._balanced):
            return 0
        counted = [name for name in self._balanced if name in DEFAULTS or requests.get(name, 0)]
        scores = []
        for pods in ((kind, *node.pods.values()), tuple(node.pods.values())):
            shares = []
            for resource in counted:
                used = sum(dict(pod.requests).get(resource, 0) for pod in pods)
                if size := node.size.get(resource, 0):
                    shares.append(min(used / size, 1.0))
            scores.append(int((1 - spread_of(shares)) * 100))
        return 50 + (50 + scores[0] - scores[1]) // 2

    def _taint_scores(self, names: list[str], kind: Kind) -> list[int]:
        counts = [
            sum(key not in kind.tolerates for key in self.nodes[name].tainted) for name in names
        ]
        return [100 - score for score in _scaled(counts)]

    def _node_affinity_scores(self, names: list[str], kind: Kind) -> list[int]:
        return _scaled(
            [
                sum(w for w, key, value in kind.prefers if has(self.nodes[name].labels, key, value))
                for name in names
            ]
        )


def has(labels: dict[str, str], key: str, value: str) -> bool:
    """Returns whether there is this label with this value."""
    return key in labels and labels[key] == value


def _is_together(key: str, node: MachineModel, other: MachineModel) -> bool:
    return key in node.labels and key in other.labels and node.labels[key] == other.labels[key]


def spread_of(shares: list[float]) -> float:
    """Returns how far shares are from their mean: of two half of what is between them."""
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    total = 0.0
    for share in shares:
        total += share
    if len(shares) < 2:
        return 0.0
    mean, squares = total / len(shares), 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))


def _scaled(values: list[int]) -> list[int]:
    highest = max(values)
    return [value * 100 // highest if highest else 0 for value in values]


def on_line(shape: tuple[tuple[int, int], ...], share: int) -> int:
    """Returns the score (0..100) at a share, between two points of the curve."""
    points = [(at, score * 10) for at, score in shape]
    for index, (at, score) in enumerate(points):
        if share <= at:
            if not index:
                return score
            before, low = points[index - 1]
            return low + math.trunc((score - low) * (share - before) / (at - before))
    return points[-1][1]
