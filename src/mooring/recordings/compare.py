"""Compares two decisions about a pod and returns the relevant differences.

``differences`` compares everything, or (``only``) the results of a set of plugins, so that a
scheduler with half of the plugins can be checked against recordings of the complete one. A plugin
outside ``only`` is called foreign. The rules for that case follow from how an attempt runs:

- The first rejection of a node counts, in plugin order. So a recorded rejection by a foreign
  plugin hides the results of later plugins for that node; the node passed all earlier plugins.
- Normalized scores depend on the set of feasible nodes. If our set is larger, because no plugin of
  ours rejects the nodes that a foreign plugin rejected, only raw scores per node are compared.
- The outcome is compared if no foreign plugin took part in it: see ``fully_owned``.

Rules for all: ``tests/parity/data/README.md`` (any of ``acceptable`` for a nomination, any of
``tied`` when the choice was unordered).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.config import DEFAULT_FILTER_ORDER
from mooring.decision import (
    ERROR,
    FIRST,
    GATED,
    UNORDERED,
    UNSCHEDULABLE,
    Decision,
    Preemption,
    Rejection,
    Scores,
)
from mooring.recordings.difference import ABSENT, Difference, histogram_part

#: The plugins whose message follows the histogram of a failure.
POST_FILTERS: Final = frozenset({"DefaultPreemption", "DynamicResources"})

#: With nominated pods, filters run with them and again without. Only these filters may reject a
#: node because pods were removed, so only these may reject one that a later plugin rejected first.
_REFUSE_WITH_FEWER_PODS: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})

#: The raw scores of these depend on all feasible nodes, not on the node alone.
_RAW_NEEDS_ALL_NODES: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})

_PLUGIN_IN_ERROR: Final = re.compile(r'plugin "([^"]+)"|running "([^"]+)"')

#: The end of the message of a plugin that raised an exception: its file and line.
_LOCATION: Final = re.compile(r" \([^()]+\.py:[0-9]+\)$")

_OUTCOME_FIELDS: Final = (
    "result",
    "tied",
    "choice",
    "reason",
    "unschedulable_plugins",
    "pending_plugins",
)


def differences(
    step: int,
    recorded: Decision,
    decided: Decision,
    *,
    pod: str = "",
    only: Collection[str] | None = None,
    weights: Mapping[str, int] | None = None,
    filter_order: Sequence[str] = DEFAULT_FILTER_ORDER,
) -> list[Difference]:
    """Returns the relevant differences between a recorded decision and ours, in a stable order.

    Args:
        step: number of the step, for the report.
        recorded: the decision of the recording.
        decided: the decision to compare with it.
        pod: ``namespace/name``, for the report.
        only: names of the plugins to compare, None = the whole decision.
        weights: plugin -> weight of its score; required with ``only`` if foreign plugins scored.
        filter_order: names of the filters in the order in which they run.
    """
    comparison = _Comparison(recorded, decided, only, weights or {}, filter_order).all()
    return [
        Difference(step, pod, field, plugin, node, _plain(then), _plain(now))
        for field, plugin, node, then, now in comparison
    ]


def fully_owned(decision: Decision, only: Collection[str] | None) -> bool:
    """Returns True if no plugin outside ``only`` influenced this decision.

    A foreign plugin influenced it by gating the pod, rejecting it or a node, raising an error, or
    giving nodes different scores. The same score for every node changes no order.
    """
    if only is None:
        return True
    if decision.result == GATED:
        return set(decision.unschedulable_plugins) <= set(only)
    rejections = list(decision.rejected.values())
    if decision.prefilter is not None:
        rejections.append(decision.prefilter)
    if not all(_is_owned(refusal, only) for refusal in rejections):
        return False
    if decision.result == ERROR and not _plugins_in_error(decision.message or "") <= set(only):
        return False
    foreign = (nodes for plugin, nodes in (decision.scores or {}).items() if plugin not in only)
    return all(len(set(nodes.values())) <= 1 for nodes in foreign)


_Unequal = tuple[str, str | None, str | None, Any, Any]


class _Comparison:
    """A pair of decisions; each method yields one kind of difference."""

    def __init__(
        self,
        recorded: Decision,
        decided: Decision,
        only: Collection[str] | None,
        weights: Mapping[str, int],
        filter_order: Sequence[str],
    ) -> None:
        self.recorded = recorded
        self.decided = decided
        self.only = only
        self.weights = weights
        self.rank = {name: index for index, name in enumerate(filter_order)}
        # Without score plugins the search ends at the second feasible node. Ours may lack all
        # score plugins, which the record does not show if fewer than two nodes are feasible.
        lacks_scores = decided.choice == FIRST != recorded.choice and only is not None
        self.is_fully_owned = (
            fully_owned(recorded, only) and fully_owned(decided, only) and not lacks_scores
        )
        self.same_nodes = _keys(recorded.total) == _keys(decided.total)

    def all(self) -> Iterator[_Unequal]:
        if self._is_hidden(self.recorded) or self._is_hidden(self.decided):
            return
        if self.is_fully_owned:
            yield from self._outcome()
        elif self.recorded.result != ERROR:
            yield from self._early_results()
        yield from self._rejections()
        if self.same_nodes or self.is_fully_owned:
            yield from self._scores("raw", self.recorded.raw, self.decided.raw)
            yield from self._scores("scores", self.recorded.scores, self.decided.scores)
            yield from self._total()
        elif self.recorded.total is not None:
            yield from self._raw_of_common_nodes()
        if self.is_fully_owned and self._owns("DefaultPreemption"):
            yield from self._preemption()

    def _owns(self, plugin: str) -> bool:
        return self.only is None or plugin in self.only

    def _is_hidden(self, decision: Decision) -> bool:
        """Returns True if a foreign plugin ended the attempt before our plugins ran."""
        if fully_owned(decision, self.only):
            return False
        rejection = decision.prefilter
        return decision.result == GATED or (
            rejection is not None and not _is_owned(rejection, self.only)
        )

    def _early_results(self) -> Iterator[_Unequal]:
        """Yields differences that no foreign plugin causes: gates, PreFilter results, errors."""
        now = self.decided
        if now.result in (ERROR, GATED) and now.result != self.recorded.result:
            yield "result", None, None, self.recorded.result, now.result
        yield from _unequal("prefilter", self.recorded.prefilter, now.prefilter)

    def _outcome(self) -> Iterator[_Unequal]:
        then, now = self.recorded, self.decided
        for field in _OUTCOME_FIELDS:
            yield from _unequal(field, getattr(then, field), getattr(now, field))
        if then.choice == UNORDERED and then.node is not None:
            if now.node not in then.tied:
                yield "node", None, None, then.node, now.node
        else:
            yield from _unequal("node", then.node, now.node)
        yield from self._message()
        yield from _unequal("prefilter", then.prefilter, now.prefilter)

    def _message(self) -> Iterator[_Unequal]:
        then, now = _unlocated(self.recorded), _unlocated(self.decided)
        is_partial = self.only is not None and not set(self.only) >= POST_FILTERS
        if is_partial and self.recorded.result == UNSCHEDULABLE:
            then, now = histogram_part(then), histogram_part(now)
        yield from _unequal("message", then, now)

    def _rejections(self) -> Iterator[_Unequal]:
        then, now = self.recorded.rejected, self.decided.rejected
        for node in [*then, *(node for node in now if node not in then)]:
            before, after = then.get(node), now.get(node)
            if before != after and self._is_relevant(before, after):
                rejection = before if _is_owned(before, self.only) else after
                yield "rejected", rejection.plugin if rejection else None, node, before, after

    def _is_relevant(self, before: Rejection | None, after: Rejection | None) -> bool:
        """Returns True if our plugins cause the difference between two results for a node."""
        is_owned = _is_owned(before, self.only), _is_owned(after, self.only)
        if before is None:
            return is_owned[1] and not self._ended_early(self.recorded)
        if after is None:
            return is_owned[0] and not self._ended_early(self.decided)
        if all(is_owned):
            return True
        if is_owned[0]:
            return self._must_have_passed(before, after)
        return is_owned[1] and self._must_have_passed(after, before)

    def _ended_early(self, decision: Decision) -> bool:
        """Returns True if this attempt may have skipped nodes that the other one visited.

        Both end alike if all plugins are ours. Otherwise the one with fewer plugins may find
        enough nodes sooner, or its nominated node feasible, or may not encounter the error.
        """
        if self.is_fully_owned:
            return False
        return decision.choice is not None or decision.result in (ERROR, GATED)

    def _must_have_passed(self, ours: Rejection, foreign: Rejection) -> bool:
        """Returns True if our rejecting plugin runs before the foreign one of the other attempt."""
        if ours.is_left_out:
            # If the nominated node is tried first, names of filters join those of PreFilter.
            return not foreign.is_left_out
        if foreign.is_left_out or ours.plugin in _REFUSE_WITH_FEWER_PODS:
            return False
        last = len(self.rank)
        first_foreign = min(self.rank.get(name, last) for name in foreign.plugins)
        return self.rank.get(ours.plugin, last) < first_foreign

    def _scores(self, field: str, then: Scores | None, now: Scores | None) -> Iterator[_Unequal]:
        # kube-scheduler's recordings omit empty values: every score plugin may skip a pod.
        if self.only is None and bool(then) != bool(now):
            yield field, None, None, _presence(then), _presence(now)
            return
        then, now = then or {}, now or {}
        for plugin in sorted({*then, *now}):
            if not self._owns(plugin):
                continue
            if plugin not in then or plugin not in now:
                yield field, plugin, None, _presence(then.get(plugin)), _presence(now.get(plugin))
                continue
            yield from _by_node(field, plugin, then[plugin], now[plugin])

    def _total(self) -> Iterator[_Unequal]:
        then, now = self._total_of_ours(self.recorded), self._total_of_ours(self.decided)
        if then is None or now is None:
            if then is not now:
                yield "total", None, None, _presence(then), _presence(now)
            return
        yield from _by_node("total", None, then, now)

    def _total_of_ours(self, decision: Decision) -> dict[str, int] | None:
        """Returns the totals, or our plugins' weighted sums if foreign plugins scored, too."""
        scores = decision.scores or {}
        if decision.total is None or all(self._owns(name) for name in scores):
            return decision.total
        ours = [name for name in scores if self._owns(name)]
        missing = [name for name in ours if name not in self.weights]
        if missing:
            raise ValueError(f"no weight for {', '.join(missing)}")
        return {
            node: sum(scores[name][node] * self.weights[name] for name in ours)
            for node in decision.total
        }

    def _raw_of_common_nodes(self) -> Iterator[_Unequal]:
        """Compares raw scores of the nodes feasible in both, of plugins that score per node."""
        then, now = self.recorded.raw or {}, self.decided.raw or {}
        for plugin in sorted({*then} & {*now}):
            if not self._owns(plugin) or plugin in _RAW_NEEDS_ALL_NODES:
                continue
            common = [node for node in then[plugin] if node in now[plugin]]
            yield from _by_node(
                "raw",
                plugin,
                {node: then[plugin][node] for node in common},
                {node: now[plugin][node] for node in common},
            )

    def _preemption(self) -> Iterator[_Unequal]:
        then, now = self.recorded.preemption, self.decided.preemption
        after = self.recorded.nominated_node_after, self.decided.nominated_node_after
        if then is None or now is None:
            yield from _unequal("preemption", then, now)
            yield from _unequal("nominated_node_after", *after)
            return
        yield from _unequal("preemption.candidates", then.candidates, now.candidates)
        # The order of equally good nodes has no meaning.
        yield from _unequal(
            "preemption.acceptable", sorted(then.acceptable), sorted(now.acceptable)
        )
        yield from self._nomination(then, now)
        if then.nominated is None or after[1] not in then.acceptable:
            yield from _unequal("nominated_node_after", *after)

    def _nomination(self, then: Preemption, now: Preemption) -> Iterator[_Unequal]:
        if then.nominated is None or now.nominated not in then.acceptable:
            yield from _unequal("preemption.nominated", then.nominated, now.nominated)
            return
        expected = then.candidates[now.nominated].victims
        yield from _unequal("preemption.victims", sorted(expected), sorted(now.victims))


def _is_owned(rejection: Rejection | None, only: Collection[str] | None) -> bool:
    if rejection is None:
        return False
    return only is None or all(name in only for name in rejection.plugins)


def _unlocated(decision: Decision) -> str | None:
    """Returns the message without the line of code of an error, which each version may move."""
    message = decision.message
    return _LOCATION.sub("", message) if decision.result == ERROR and message else message


def _plugins_in_error(message: str) -> set[str]:
    """Returns the plugins that an error message names; a fictitious foreign one if none."""
    return {name for pair in _PLUGIN_IN_ERROR.findall(message) for name in pair if name} or {ABSENT}


def _unequal(field: str, then: Any, now: Any) -> Iterator[_Unequal]:
    if then != now:
        yield field, None, None, then, now


def _by_node(
    field: str, plugin: str | None, then: Mapping[str, int], now: Mapping[str, int]
) -> Iterator[_Unequal]:
    if then == now:
        return
    for node in [*then, *(node for node in now if node not in then)]:
        if then.get(node) != now.get(node):
            yield field, plugin, node, then.get(node), now.get(node)


def _keys(nodes: Mapping[str, int] | None) -> set[str] | None:
    return None if nodes is None else set(nodes)


def _presence(value: object) -> str:
    return ABSENT if value is None else "present"


def _plain(value: Any) -> Any:
    """Converts a value to JSON's types for the report."""
    return msgspec.to_builtins(value)
