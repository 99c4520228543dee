"""The calls of plugins that ``scheduler_plugin_evaluation_total`` counts, beside plain rules.

A PreFilter or PreScore that skips the pod does not count, nor does a plugin that it skips. A filter
counts for each node that no filter before it has rejected, once more without the nominated pods of
the node, and once more if the node was tried first, since the pod is nominated to it. In an attempt
that fails the plugin that fails counts, and no node after the first at which it does: upstream,
which filters nodes in parallel, counts some more.

Source: pkg/scheduler/framework/runtime/instrumented_plugins.go, framework.go
(RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.clock import Clock
from mooring.framework import Attempt
from mooring.metrics.recorders import FrameworkRecorder
from mooring.metrics.registry import Metrics
from tests.faults.parts.decisions import Copies
from tests.faults.parts.points_model import Evaluated

NAME: Final = "scheduler_plugin_evaluation_total"
#: Extension point -> its method.
METHODS: Final = {
    "PreFilter": "pre_filter",
    "Filter": "filter",
    "PreScore": "pre_score",
    "Score": "score",
}
#: Attempts until a scrape.
ATTEMPTS: Final = 8
#: Without scores the visit of nodes ends at the second one that fits.
ENOUGH: Final = 2


class Evaluations:
    """Compares what a recorder has counted with what attempts have called.

    Attributes:
        recorder: Of the profile.

    Args:
        plugins: Method -> its plugins, in order.
        clock: Of the recorder.
        is_counting: False = nothing is counted.
    """

    def __init__(
        self, plugins: Mapping[str, Sequence[Any]], clock: Clock, *, is_counting: bool
    ) -> None:
        self.copies = Copies()
        self._names = {
            point: [plugin.name for plugin in plugins.get(method, ())]
            for point, method in METHODS.items()
        }
        self._metrics = Metrics(clock=clock)
        self._counting = self._metrics.profile("points", self._names) if is_counting else None
        self.recorder = self._counting or FrameworkRecorder()
        self._expected: Counter[tuple[str, str]] = Counter()
        self._attempts = 0

    def problems(
        self, attempt: Attempt, evaluated: Evaluated, crowded: Collection[str]
    ) -> Iterator[str]:
        """Follows an attempt; yields differences, those of counts some attempts later.

        Nodes are filtered until the first at which a filter fails: there the next attempt begins.

        Args:
            attempt: The attempt.
            evaluated: The calls, by plain rules.
            crowded: The nodes with nominated pods that count.
        """
        yield from _next_start(attempt, evaluated)
        if self._counting is None:
            return
        self._expected += self._calls(evaluated, crowded)
        self._attempts += 1
        if self._attempts < ATTEMPTS:
            return
        self._attempts = 0
        self._counting.fold()
        if (real := self._counted()) != self._expected:
            wrong = {key: (real[key], self._expected[key]) for key in {*real, *self._expected}}
            wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
            yield f"evaluations of plugins (counted, called): {wrong}"

    def _counted(self) -> Counter[tuple[str, str]]:
        children = self._metrics.numbers(NAME).children
        return +Counter(
            {(plugin, point): int(it.value) for (plugin, point, _), it in children.items()}
        )

    def _calls(self, evaluated: Evaluated, crowded: Collection[str]) -> Counter[tuple[str, str]]:
        calls = Counter((plugin, "PreFilter") for plugin in evaluated.pre_filter)
        for plugin in self._filters(evaluated, crowded):
            calls[plugin, "Filter"] += 1
        calls.update((plugin, "PreScore") for plugin in evaluated.pre_score)
        for plugin in evaluated.score:
            calls[plugin, "Score"] += evaluated.n_scored
        return calls

    def _filters(self, evaluated: Evaluated, crowded: Collection[str]) -> Iterator[str]:
        """Yields the plugin of each call of a filter."""
        filters = [name for name in self._names["Filter"] if name not in evaluated.skipped]
        for nodes in evaluated.nodes:
            for rejecting in self._visited(nodes, evaluated.failing).values():
                last = filters.index(rejecting) if rejecting else len(filters)
                yield from filters[: last + 1]
            # These were filtered before it is clear at which node the visit ends.
            for node, rejecting in nodes.items():
                if node in crowded and not rejecting:
                    yield from filters

    def _visited(self, nodes: dict[str, str], failing: Collection[str]) -> dict[str, str]:
        """Returns those of some nodes that are filtered, in order; the first that fails is last."""
        names = list(nodes)
        failed = [number for number, name in enumerate(names) if name in failing]
        if failed:
            names = names[: failed[0] + 1]
            nodes = {name: nodes[name] for name in names}
        fitting = [node for node, rejecting in nodes.items() if not rejecting]
        if self._names["Score"] or len(fitting) < ENOUGH:
            return nodes
        return {name: nodes[name] for name in names[: names.index(fitting[ENOUGH - 1])]}


def _next_start(attempt: Attempt, evaluated: Evaluated) -> Iterator[str]:
    """Compares where the next attempt begins: at the first node that fails."""
    nodes = attempt.snapshot.nodes
    names = [nodes.names[row] for row in nodes.order.rows()]
    if not evaluated.failing or [list(visited) for visited in evaluated.nodes] != [names]:
        return
    expected = min(names.index(node) for node in evaluated.failing)
    if (real := attempt.next_start_index(0)) != expected:
        yield f"the next attempt begins at {real}, not at {expected} of {names}"
