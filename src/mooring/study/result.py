"""The result of a simulation, as tables and explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mooring.errors import ConfigError
from mooring.simulation.answers import PREEMPTED, count
from mooring.simulation.report import OutcomeCounts, Summary, plain_text, summarize
from mooring.simulation.results import (
    EVICTED,
    FAILED,
    FINISHED,
    GATED,
    PLACED,
    REFUSED,
    WAITING,
    PodResult,
)
from mooring.simulation.run import Simulation
from mooring.simulation.utilization import PODS, NodeUtilization, Utilization
from mooring.study.explanation import Explanation
from mooring.study.table import Table

#: Groups of nodes that ``fill`` knows, besides labels of nodes.
_BY_NODE, _BY_GROUP = "node", "group"


class PodOutcome:
    """One pod of a result.

    Attributes:
        pod: "namespace/name".
        outcome: "placed", "refused", "gated", "error", "waiting", "evicted", "finished" or
            "not ours".
        node: Its node; "" = none.
        details: All fields.
    """

    def __init__(self, details: PodResult, explain: Callable[[str], Explanation]) -> None:
        self.details = details
        self._explain = explain

    @property
    def pod(self) -> str:
        """The pod's "namespace/name"."""
        return self.details.pod

    @property
    def outcome(self) -> str:
        """The pod's outcome, such as "placed"."""
        return self.details.outcome

    @property
    def node(self) -> str:
        """The pod's node; "" = none."""
        return self.details.node

    def explain(self) -> Explanation:
        """Explains every attempt at the pod; the simulation runs again for it."""
        return self._explain(self.pod)

    def __repr__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        why = f": {self.details.message}" if self.details.message else ""
        return f"{self.pod} {self.outcome}{where}{why}"


class Result:
    """The end of a simulation.

    ``result["web-1"]`` is one pod, by name or "namespace/name"; iteration yields all pods.

    Attributes:
        simulation: The values that the tables are made of.
    """

    def __init__(
        self,
        name: str,
        simulation: Simulation,
        utilization: Utilization,
        explain: Callable[[str], Explanation],
        duration_s: float,
        labels: dict[str, dict[str, str]],
    ) -> None:
        self.simulation = simulation
        self._name = name
        self._utilization = utilization
        self._explain = explain
        self._duration_s = duration_s
        self._labels = labels
        self._by_key = {result.pod: result for result in simulation.results}

    # -- pods -------------------------------------------------------------------------------------

    def __getitem__(self, pod: str) -> PodOutcome:
        """Returns a pod by name or "namespace/name".

        Raises:
            KeyError: no pod, or several pods, have this name.
        """
        matches = [key for key in self._by_key if pod in (key, key.rpartition("/")[2])]
        if len(matches) != 1:
            problem = f"several pods are named {pod!r}: {', '.join(matches)}"
            raise KeyError(problem if matches else f"no pod {pod!r} in this result")
        return PodOutcome(self._by_key[matches[0]], self._explain)

    def __iter__(self) -> Iterator[PodOutcome]:
        """Yields all pods, in order of arrival."""
        return (PodOutcome(result, self._explain) for result in self.simulation.results)

    def __len__(self) -> int:
        """Returns the number of pods that were to be scheduled."""
        return len(self.simulation.results)

    # -- tables -----------------------------------------------------------------------------------

    @property
    def placements(self) -> Table:
        """The placed pods: pod, node, attempt, time_s, score, runner_up, victims."""
        names = ("pod", "node", "attempt", "time_s", "score", "runner_up", "victims")
        rows = [
            (own.pod, own.node, own.attempts, own.time_s, own.score, own.runner_up, own.victims)
            for own in self.simulation.outcome(PLACED, FINISHED)
        ]
        return Table.of_rows(names, rows)

    @property
    def refused(self) -> Table:
        """The pods without a node: a row for each reason, with the number of nodes."""
        rows: list[tuple[Any, ...]] = []
        for own in self.simulation.outcome(REFUSED, GATED, FAILED, EVICTED, WAITING):
            plugins = ", ".join(own.plugins)
            reasons = own.reasons or {own.message or own.outcome: 0}
            if own.outcome == EVICTED:
                reasons = {PREEMPTED: 0}
            rows += [(own.pod, own.outcome, plugins, text, n) for text, n in reasons.items()]
        return Table.of_rows(("pod", "outcome", "plugin", "reason", "nodes"), rows)

    @property
    def evicted(self) -> Table:
        """The evictions: pod, node, by, time_s."""
        rows = [(own.pod, own.node, own.by, own.time_s) for own in self.simulation.evictions]
        return Table.of_rows(("pod", "node", "by", "time_s"), rows)

    def fill(self, by: str = _BY_GROUP) -> Table:
        """Returns how full nodes are: allocatable, requested and share of each resource.

        Args:
            by: "node", "group" (nodes of the same kind), or the key of a label of nodes; "zone"
                is topology.kubernetes.io/zone.

        Raises:
            ConfigError: no node has the label.
        """
        rows: list[tuple[Any, ...]] = []
        for name, nodes in self._groups(by).items():
            resources = dict.fromkeys(
                resource for node in nodes for resource in node.allocatable if resource != PODS
            )
            for resource in resources:
                allocatable = sum(node.allocatable.get(resource, 0) for node in nodes)
                requested = sum(node.requested.get(resource, 0) for node in nodes)
                share = requested / allocatable if allocatable else 0.0
                rows.append((name, len(nodes), resource, allocatable, requested, round(share, 4)))
        names = (by, "nodes", "resource", "allocatable", "requested", "share")
        return Table.of_rows(names, rows)

    def _groups(self, by: str) -> dict[str, list[NodeUtilization]]:
        if by == _BY_GROUP:
            return self._utilization.groups()
        if by == _BY_NODE:
            return {name: [node] for name, node in self._utilization.nodes.items()}
        label = "topology.kubernetes.io/zone" if by == "zone" else by
        if by != "zone" and self._labels and all(label not in own for own in self._labels.values()):
            problem = 'no node has this label; otherwise "group", "node" or "zone"'
            raise ConfigError(problem, path="by", value=by)
        groups: dict[str, list[NodeUtilization]] = {}
        for name, node in self._utilization.nodes.items():
            groups.setdefault(self._labels.get(name, {}).get(label, ""), []).append(node)
        return groups

    # -- summary ----------------------------------------------------------------------------------

    @property
    def summary(self) -> Summary:
        """The numbers that ``mooring simulate -o json`` prints."""
        from mooring.simulation.simulate import peak_rss_bytes

        counts = OutcomeCounts()
        count(self.simulation, counts)
        return summarize(
            self._name,
            self._utilization,
            counts,
            duration_s=self._duration_s,
            peak_rss_bytes=peak_rss_bytes(),
        )

    def __repr__(self) -> str:
        return plain_text(self.summary)

    def _repr_html_(self) -> str:
        """Returns the summary for a notebook."""
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"
