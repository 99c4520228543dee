"""Explains a decision to a user: why a pod is placed on its node, or why it is unschedulable.

The input is a ``Decision``, of any scheduler, and the cluster before it (``Utilization``). The
result is lines of text (``Explained.lines``), or a document (``document.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from mooring.decision import ERROR, GATED, SCHEDULED, UNSCHEDULABLE, Decision, Rejection
from mooring.explain.all_nodes import node_lines
from mooring.explain.binding import Binding
from mooring.explain.changes.search import Found, find_remedies, remedy_lines
from mooring.explain.missing_devices import explain_claims
from mooring.explain.preemption import preemption_lines
from mooring.explain.reasons.case import Case, count_text
from mooring.explain.rejections import Rejections, causes_on, rejection_lines
from mooring.explain.scores import WIDTH, placement_lines
from mooring.framework import Framework
from mooring.framework.runtime.all_rejections import all_rejections
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import PODS, Amounts, Utilization, amounts_text
from mooring.state import Snapshot


class Options(NamedTuple):
    """Options of an explanation.

    Attributes:
        has_all_rejections: Whether filters run past the first rejection of a node.
        has_all_nodes: Whether there is a line for every node.
        width: The columns that tables may have.
    """

    has_all_rejections: bool = False
    has_all_nodes: bool = False
    width: int = WIDTH


#: The first rejection of each node, by group of nodes.
DEFAULTS: Final = Options()


class Explained:
    """A decision with its causes.

    Args:
        pod: The pod as seen by the scheduler.
        decision: The decision to explain.
        utilization: The cluster before the decision, without the pod.
        weights: Plugin -> weight of its score; None = 1 for all.
        snapshot: The objects before the decision; None = causes are not looked up.
        framework: The plugins that decided; None = plugins with their default arguments, and
            only the rejections of the decision.
        options: What to explain.
        driver: The cluster, in which changes are tried; None = no changes are searched.
        bind: Carries the decision out, last of all; None = Reserve and Permit are not called.
    """

    def __init__(
        self,
        pod: Pod,
        decision: Decision,
        utilization: Utilization,
        *,
        weights: Mapping[str, int] | None = None,
        snapshot: Snapshot | None = None,
        framework: Framework | None = None,
        options: Options = DEFAULTS,
        driver: Driver | None = None,
        bind: Callable[[], Binding | None] = lambda: None,
    ) -> None:
        self._driver = driver
        self._bind = bind
        self._framework = framework
        self.pod = pod
        self.decision = decision
        self.utilization = utilization
        self.weights = weights
        self.options = options
        self.snapshot = snapshot
        self.case = None if snapshot is None else Case(pod, snapshot, framework)
        self.requests = utilization.requests(pod)
        utilization.names.add(self.requests)
        #: The rejections before any node was filtered, and those of the nodes.
        self.of_pod: tuple[Rejection, ...] = ()
        self.of_nodes: Rejections
        #: Plugin -> its error, where all filters ran.
        self.errors: dict[str, str] = {}
        if options.has_all_rejections and framework is not None and snapshot is not None:
            self.of_pod, self.of_nodes, self.errors = all_rejections(framework, pod, snapshot)
        else:
            self.of_pod = () if decision.prefilter is None else (decision.prefilter,)
            self.of_nodes = {name: (item,) for name, item in decision.rejected.items()}

    def lines(self) -> Iterator[str]:
        """Yields the explanation."""
        body = list(self._body())  # before the decision is carried out
        yield from (self.summary, *body)
        if self.binding is not None and self.binding.lines:
            yield from ("", "After the node was chosen:")
            yield from (f"  {line}" for line in self.binding.lines)

    @cached_property
    def binding(self) -> Binding | None:
        """The result of Reserve, Permit and the binding; the first call changes the cluster."""
        return self._bind()

    def _body(self) -> Iterator[str]:
        requests = _requests_text(self.requests, self.utilization)
        yield from ("", f"It requests {requests}.")
        if self.decision.result == SCHEDULED:
            yield from placement_lines(
                self.decision, self.weights, self.of_nodes, width=self.options.width
            )
        else:
            yield from rejection_lines(
                self.of_pod, self.of_nodes, self.requests, self.utilization, self.case
            )
        for plugin, error in self.errors.items():
            yield from ("", f"{plugin} failed: {error}")
        if self.options.has_all_nodes:
            yield from ("", "All nodes:")
            yield from node_lines(self.decision, self.causes, self.utilization)
        if self.snapshot is not None:
            yield from explain_claims(self.pod, self.decision, self.utilization, self.snapshot)
        yield from self._end()

    @property
    def summary(self) -> str:
        """The result in one sentence; it changes the cluster as ``binding`` does."""
        decision, name = self.decision, f"Pod {key(self.pod)}"
        if decision.node is not None:
            node = self.utilization.nodes.get(decision.node)
            kind = f" ({node.group})" if node else ""
            if self.binding is not None and not self.binding.is_bound:
                plugins = ", ".join(self.binding.rejected_by) or "the binding"
                return (
                    f"{name} is unschedulable: {decision.node} was chosen, {plugins} rejected it."
                )
            return f"{name} goes to {decision.node}{kind}."
        if decision.result == GATED:
            return f"{name} is gated{_gates_text(self.pod, decision)}"
        if decision.result == ERROR:
            return f"{name} was not scheduled: the attempt failed with an error."
        count = len(self.utilization.nodes)
        preemption = decision.preemption
        if preemption is not None and preemption.nominated is not None:
            pods = count_text(len(preemption.victims), "pod")
            return (
                f"{name} waits for node {preemption.nominated}: 0/{count} nodes are feasible now,"
                f" preemption evicts {pods} there."
            )
        return f"{name} is unschedulable: 0/{count} nodes are feasible."

    @cached_property
    def causes(self) -> dict[str, tuple[tuple[Rejection, tuple[str, ...]], ...]]:
        """The rejections of each node with their causes in words."""
        return {
            name: tuple(
                (item, causes_on(name, item, self.requests, self.utilization, self.case))
                for item in of_node
            )
            for name, of_node in self.of_nodes.items()
        }

    @cached_property
    def remedies(self) -> Found | None:
        """The smallest changes that help; None = they are not searched.

        They are searched for pods that are unschedulable or gated and preempt no pods.
        """
        decision, driver = self.decision, self._driver
        is_nominated = decision.preemption is not None and decision.preemption.nominated is not None
        if driver is None or self._framework is None or self.case is None or is_nominated:
            return None
        if decision.result not in (UNSCHEDULABLE, GATED):
            return None
        return find_remedies(driver, self.pod, self._every, self.utilization, case=self.case)

    @cached_property
    def _every(self) -> Rejections:
        """All rejections of each node."""
        if self._framework is None or self.snapshot is None:
            return self.of_nodes
        return all_rejections(self._framework, self.pod, self.snapshot).of_nodes

    def _nearest_causes(self, name: str) -> list[str]:
        """Returns why a node is rejected, with the plugins."""
        return [
            f"{item.plugin}: {cause}"
            for item in self._every.get(name, ())
            for cause in causes_on(name, item, self.requests, self.utilization, self.case)
        ]

    def _end(self) -> Iterator[str]:
        """Yields the preemption and the message of a pod without a node."""
        if self.decision.result == SCHEDULED:
            return
        yield from preemption_lines(self.decision, self.case)
        if self.decision.message:
            yield from ("", f"Message: {self.decision.message}")
        if self.remedies is not None:
            is_gated = self.decision.result == GATED  # whatever the node is
            causes = [] if is_gated else self._nearest_causes(self.remedies.nearest)
            yield from remedy_lines(self.remedies, causes)


def explain(
    pod: Pod,
    decision: Decision,
    utilization: Utilization,
    *,
    weights: Mapping[str, int] | None = None,
    snapshot: Snapshot | None = None,
    framework: Framework | None = None,
    options: Options = DEFAULTS,
) -> str:
    """Returns the explanation as text; the arguments are those of ``Explained``."""
    explained = Explained(
        pod,
        decision,
        utilization,
        weights=weights,
        snapshot=snapshot,
        framework=framework,
        options=options,
    )
    return text_of(explained)


def text_of(explained: Explained) -> str:
    """Returns an explanation as text."""
    return "\n".join(explained.lines())


def _gates_text(pod: Pod, decision: Decision) -> str:
    """Returns what gates a pod, and until when: its scheduling gates or a plugin (PreEnqueue)."""
    if gates := ", ".join(gate.name for gate in pod.spec.scheduling_gates):
        return f" by {gates}: it is not scheduled until its gates are removed."
    plugins = sorted({*decision.unschedulable_plugins, *decision.pending_plugins})
    by = f" by plugin {', '.join(plugins)}" if plugins else " by a plugin"
    return f"{by}: it is not scheduled until the plugin allows it."


def _requests_text(amounts: Amounts, utilization: Utilization) -> str:
    resources = {name: amount for name, amount in amounts.items() if name != PODS}
    return amounts_text(resources, names=utilization.names) if resources else "no resources"
