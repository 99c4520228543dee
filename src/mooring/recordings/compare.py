"""Where two decisions about one pod differ, and which differences count.

``differences`` compares everything, or (``only``) what a set of plugins says, so that a scheduler
with half of the plugins can be checked against recordings of the whole one. The rules for the
second case follow from how an attempt runs:

- The first refusal of a node counts, in plugin order. So a recorded refusal by a plugin that is
  not ours hides what later plugins would have said of that node; earlier ones let it pass.
- Normalized scores depend on the set of nodes that passed; where our set is larger because nobody
  of ours would refuse what a foreign plugin refused, only raw scores of single nodes compare.
- The outcome compares when no foreign plugin took part in it: see ``fully_owned``.

Rules for the whole: ``tests/parity/data/README.md`` (any of ``acceptable`` for a nomination, any of
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

#: The plugins whose text follows the histogram of a failure.
POST_FILTERS: Final = frozenset({"DefaultPreemption", "DynamicResources"})

#: Where nominated pods count, filters run with them and again without. Taking pods away can turn
#: only these from yes to no, so only these may refuse a node that a later plugin refused at first.
_REFUSE_WITH_FEWER_PODS: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})

#: The raw score of these depends on all the nodes that passed, not on the node alone.
_RAW_NEEDS_ALL_NODES: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})

_GUILTY: Final = re.compile(r'plugin "([^"]+)"|running "([^"]+)"')

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
    """Returns every difference that counts between a recorded decision and ours, in a stable order.

    Args:
        step: number of the step, for the report.
        recorded: what was decided then.
        decided: what we decide now.
        pod: ``namespace/name``, for the report.
        only: names of the plugins to compare, None = the whole decision.
        weights: plugin -> weight of its score; needed with ``only`` where foreign plugins scored.
        filter_order: names of the filters in the order in which they run.
    """
    found = _Comparison(recorded, decided, only, weights or {}, filter_order).all()
    return [
        Difference(step, pod, field, plugin, node, _plain(then), _plain(now))
        for field, plugin, node, then, now in found
    ]


def fully_owned(decision: Decision, only: Collection[str] | None) -> bool:
    """True if no plugin outside ``only`` had a say in this decision.

    A foreign plugin had a say if it gated the pod, refused it or a node, raised, or gave nodes
    different scores. One that gave every node the same score changed no order.
    """
    if only is None:
        return True
    if decision.result == GATED:
        return set(decision.unschedulable_plugins) <= set(only)
    refusals = list(decision.rejected.values())
    if decision.prefilter is not None:
        refusals.append(decision.prefilter)
    if not all(_is_owned(refusal, only) for refusal in refusals):
        return False
    if decision.result == ERROR and not _guilty(decision.message or "") <= set(only):
        return False
    foreign = (nodes for plugin, nodes in (decision.scores or {}).items() if plugin not in only)
    return all(len(set(nodes.values())) <= 1 for nodes in foreign)


_Found = tuple[str, str | None, str | None, Any, Any]


class _Comparison:
    """The two decisions and what is known about both; each method yields one kind of difference."""

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
        # Without any score plugin a walk ends at the second node: ours does where all that score
        # are missing, which the record cannot show if fewer than two nodes passed.
        lacks_scores = decided.choice == FIRST != recorded.choice and only is not None
        self.is_whole = (
            fully_owned(recorded, only) and fully_owned(decided, only) and not lacks_scores
        )
        self.same_nodes = _keys(recorded.total) == _keys(decided.total)

    def all(self) -> Iterator[_Found]:
        if self._is_hidden(self.recorded) or self._is_hidden(self.decided):
            return
        if self.is_whole:
            yield from self._outcome()
        elif self.recorded.result != ERROR:
            yield from self._stopped_at_once()
        yield from self._refusals()
        if self.same_nodes or self.is_whole:
            yield from self._scores("raw", self.recorded.raw, self.decided.raw)
            yield from self._scores("scores", self.recorded.scores, self.decided.scores)
            yield from self._total()
        elif self.recorded.total is not None:
            yield from self._raw_of_common_nodes()
        if self.is_whole and self._owns("DefaultPreemption"):
            yield from self._preemption()

    def _owns(self, plugin: str) -> bool:
        return self.only is None or plugin in self.only

    def _is_hidden(self, decision: Decision) -> bool:
        """True if a foreign plugin stopped the attempt before ours could be heard."""
        if fully_owned(decision, self.only):
            return False
        refusal = decision.prefilter
        return decision.result == GATED or (
            refusal is not None and not _is_owned(refusal, self.only)
        )

    def _stopped_at_once(self) -> Iterator[_Found]:
        """What no foreign plugin can excuse: a pod held back, refused as a whole, or an error."""
        now = self.decided
        if now.result in (ERROR, GATED) and now.result != self.recorded.result:
            yield "result", None, None, self.recorded.result, now.result
        yield from _unequal("prefilter", self.recorded.prefilter, now.prefilter)

    def _outcome(self) -> Iterator[_Found]:
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

    def _message(self) -> Iterator[_Found]:
        then, now = self.recorded.message, self.decided.message
        cut = self.only is not None and not set(self.only) >= POST_FILTERS
        if cut and self.recorded.result == UNSCHEDULABLE:
            then, now = histogram_part(then), histogram_part(now)
        yield from _unequal("message", then, now)

    def _refusals(self) -> Iterator[_Found]:
        then, now = self.recorded.rejected, self.decided.rejected
        for node in [*then, *(node for node in now if node not in then)]:
            before, after = then.get(node), now.get(node)
            if before != after and self._refusal_counts(before, after):
                named = before if _is_owned(before, self.only) else after
                yield "rejected", named.plugin if named else None, node, before, after

    def _refusal_counts(self, before: Rejection | None, after: Rejection | None) -> bool:
        """True if two unequal verdicts on a node contradict each other in what our plugins say."""
        is_ours = _is_owned(before, self.only), _is_owned(after, self.only)
        if before is None:
            return is_ours[1] and not self._ended_early(self.recorded)
        if after is None:
            return is_ours[0] and not self._ended_early(self.decided)
        if all(is_ours):
            return True
        if is_ours[0]:
            return self._must_have_passed(before, after)
        return is_ours[1] and self._must_have_passed(after, before)

    def _ended_early(self, decision: Decision) -> bool:
        """True if this walk may have left out nodes that the other one looked at.

        Both walks end alike where all plugins are ours. Otherwise the one with fewer plugins finds
        its nodes sooner, or its nominated node fit for use, or never meets the error.
        """
        if self.is_whole:
            return False
        return decision.choice is not None or decision.result in (ERROR, GATED)

    def _must_have_passed(self, ours: Rejection, foreign: Rejection) -> bool:
        """True if our plugin, which refuses in one run, ran before the foreign one of the other."""
        if ours.is_left_out:
            # With a nominated node tried first, names of filters join those of PreFilter.
            return not foreign.is_left_out
        if foreign.is_left_out or ours.plugin in _REFUSE_WITH_FEWER_PODS:
            return False
        last = len(self.rank)
        first_foreign = min(self.rank.get(name, last) for name in foreign.plugins)
        return self.rank.get(ours.plugin, last) < first_foreign

    def _scores(self, field: str, then: Scores | None, now: Scores | None) -> Iterator[_Found]:
        # kube-scheduler's recordings leave out what is empty: every score plugin may skip a pod.
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

    def _total(self) -> Iterator[_Found]:
        then, now = self._total_of_ours(self.recorded), self._total_of_ours(self.decided)
        if then is None or now is None:
            if then is not now:
                yield "total", None, None, _presence(then), _presence(now)
            return
        yield from _by_node("total", None, then, now)

    def _total_of_ours(self, decision: Decision) -> dict[str, int] | None:
        """The totals, or the sums of our plugins' scores x weights if foreign ones scored too."""
        scores = decision.scores or {}
        if decision.total is None or all(self._owns(name) for name in scores):
            return decision.total
        ours = [name for name in scores if self._owns(name)]
        missing = [name for name in ours if name not in self.weights]
        if missing:
            raise ValueError(f"no weight given for {', '.join(missing)}")
        return {
            node: sum(scores[name][node] * self.weights[name] for name in ours)
            for node in decision.total
        }

    def _raw_of_common_nodes(self) -> Iterator[_Found]:
        """Raw scores of the nodes that passed in both, for plugins that look at one node a time."""
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

    def _preemption(self) -> Iterator[_Found]:
        then, now = self.recorded.preemption, self.decided.preemption
        after = self.recorded.nominated_node_after, self.decided.nominated_node_after
        if then is None or now is None:
            yield from _unequal("preemption", then, now)
            yield from _unequal("nominated_node_after", *after)
            return
        yield from _unequal("preemption.candidates", then.candidates, now.candidates)
        # The order in which equally good nodes are listed means nothing.
        yield from _unequal(
            "preemption.acceptable", sorted(then.acceptable), sorted(now.acceptable)
        )
        yield from self._nomination(then, now)
        if then.nominated is None or after[1] not in then.acceptable:
            yield from _unequal("nominated_node_after", *after)

    def _nomination(self, then: Preemption, now: Preemption) -> Iterator[_Found]:
        if then.nominated is None or now.nominated not in then.acceptable:
            yield from _unequal("preemption.nominated", then.nominated, now.nominated)
            return
        expected = then.candidates[now.nominated].victims
        yield from _unequal("preemption.victims", sorted(expected), sorted(now.victims))


def _is_owned(refusal: Rejection | None, only: Collection[str] | None) -> bool:
    if refusal is None:
        return False
    return only is None or all(name in only for name in refusal.plugins)


def _guilty(message: str) -> set[str]:
    """Returns the plugins that an error's message names; a made-up foreign one if it names none."""
    return {name for pair in _GUILTY.findall(message) for name in pair if name} or {ABSENT}


def _unequal(field: str, then: Any, now: Any) -> Iterator[_Found]:
    if then != now:
        yield field, None, None, then, now


def _by_node(
    field: str, plugin: str | None, then: Mapping[str, int], now: Mapping[str, int]
) -> Iterator[_Found]:
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
    """JSON's types, so that a report can be written as it is."""
    return msgspec.to_builtins(value)
