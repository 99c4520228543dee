"""Rules for the results of plugins, in plain loops: the model of a framework.

A result is ``None``, or the name of a kind of results: see ``points_run.py``, which draws them.

Source: pkg/scheduler/framework/runtime/framework.go (RunPreFilterPlugins to RunPostBindPlugins,
RunPostFilterPlugins), pkg/scheduler/schedule_one.go (findNodesThatFitPod, prioritizeNodes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

SKIPPED, REJECTED, UNRESOLVABLE, PENDING = "skip", "reject", "unresolvable", "pending"
#: Stands for DefaultPreemption, and what its calls are reported as.
PREEMPTING: Final = "P1"
PREEMPTION: Final = ("preemption", "attempted")
RAISED, NARROWED, WAITS, FAILED, NOMINATED = "raise", "narrow", "wait", "error", "nominate"
#: A PostFilter plugin has a record, or a claim to be changed.
RECORDED, CHANGED = "record", "change"
#: The codes of extension points.
SUCCESS, ERROR, SKIP, WAIT = "Success", "Error", "Skip", "Wait"
#: The kinds of results that make a pod unschedulable, and the codes of their statuses.
CODES: Final = {
    REJECTED: "Unschedulable",
    UNRESOLVABLE: "UnschedulableAndUnresolvable",
    PENDING: "Pending",
}
#: Plugin, extension point, node -> the result of the plugin, for the pod of the attempt.
Result = Callable[[str, str, str], str | None]


def reason_of(plugin: str, kind: str) -> str:
    """Returns the reason of a status."""
    return f"{plugin}: {kind}"


class Rejection(NamedTuple):
    """A status: the value of its code, its reasons, its plugin."""

    code: str
    reasons: tuple[str, ...]
    plugin: str


class _First(NamedTuple):
    """The first plugin that rejects a node, and how."""

    plugin: str
    kind: str


class PostFilterOutcome(NamedTuple):
    """The end of PostFilter.

    Attributes:
        rejection: None = a plugin nominates the pod.
        node: The nomination; "" clears an earlier one, None leaves it.
        record: The plugin whose record counts, "" = none.
        claim: The plugin whose change of a claim is made, "" = none.
    """

    rejection: Rejection | None
    node: str | None
    record: str = ""
    claim: str = ""


class PluginRaised(Exception):
    """A plugin has failed: of several, any of those in ``args``."""


@dataclass
class Outcome:
    """The end of an attempt without a node.

    Attributes:
        pre_filter: The rejection by PreFilter; None = the filters ran.
        reasons: How many nodes have each reason.
        plugins: The plugins that rejected the pod, or left nodes out.
        pending: Those of them whose rejection is pending.
    """

    pre_filter: Rejection | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)


@dataclass
class Evaluated:
    """The calls of an attempt up to the scores.

    Attributes:
        pre_filter: The plugins whose PreFilter has run and did not skip.
        skipped: The plugins whose Filter does not run.
        nodes: The nodes that are filtered at a time, and the plugin that rejects each; "" = none.
        failing: The nodes at which a filter fails, of all.
        pre_score: The plugins whose PreScore has run and did not skip.
        score: Those that score each node that fits.
        n_scored: The number of these nodes.
    """

    pre_filter: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    nodes: list[dict[str, str]] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    pre_score: list[str] = field(default_factory=list)
    score: list[str] = field(default_factory=list)
    n_scored: int = 0


class RulesOfAttempts:
    """The rules up to PostFilter.

    Args:
        plugins: Extension point -> the names of its plugins, in order.
        result: Returns the result of a plugin.
        left: Returns the nodes that PreFilter of a plugin leaves.
        idle: The plugins that do not apply to the pod.
    """

    def __init__(
        self,
        plugins: Mapping[str, Sequence[str]],
        result: Result,
        left: Callable[[str], Collection[str]],
        idle: Collection[str],
    ) -> None:
        self._plugins, self._result, self._left, self._idle = plugins, result, left, idle
        #: Node -> how it was rejected, of those that were evaluated.
        self.rejected: dict[str, Rejection] = {}
        #: Each extension point that has run, and its code, up to the selection of a node.
        self.reports: list[tuple[str, str]] = []
        #: The plugin and the point of errors that do not fail the pod.
        self.logged: list[tuple[str, str]] = []
        #: The calls by which plugins are counted.
        self.evaluated = Evaluated()

    def _of(self, point: str) -> list[str]:
        return [name for name in self._plugins.get(point, ()) if name not in self._idle]

    def fitting(self, nodes: Sequence[str], nominated: str) -> list[str] | Outcome:
        """Returns the nodes that fit, or why there are none; first the nominated one is tried.

        Raises:
            PluginRaised: a plugin has failed.
        """
        before = self.pre_filter()
        if isinstance(before, Outcome):
            return before
        skipped, narrowing, left = before
        self.evaluated.skipped = skipped
        filtered = {node: self.first_rejection(node, skipped) for node in nodes}
        if nominated in filtered:
            first = filtered[nominated]
            has_failed = first is not None and first.kind == FAILED
            self.evaluated.nodes.append({nominated: first.plugin if first else ""})
            self.reports.append(("Filter", ERROR if has_failed else SUCCESS))
            if first is None:
                return [nominated]
            if has_failed:
                self.logged.append((first.plugin, "Filter"))
        included = {node for node in nodes if left is None or node in left}
        fitting = [node for node, first in filtered.items() if not first and node in included]
        failing = {node: it.plugin for node, it in filtered.items() if it and it.kind == FAILED}
        failed = {plugin for node, plugin in failing.items() if node in included}
        self.evaluated.failing = {node for node in failing if node in included}
        self.reports.append(("Filter", ERROR if failed else SUCCESS))
        self.evaluated.nodes.append(
            {node: it.plugin if it else "" for node, it in filtered.items() if node in included}
        )
        if failed:
            raise PluginRaised(*failed)
        self.rejected = {
            node: Rejection(CODES[it.kind], (reason_of(*it),), it.plugin)
            for node, it in filtered.items()
            if it and it.kind != FAILED and node in {*included, nominated}
        }
        outcome = Outcome(plugins=set(narrowing))
        for node, first in filtered.items():
            # A node that is left out has a status if the pod is nominated to it.
            if first is None or first.kind == FAILED or node not in {*included, nominated}:
                continue
            outcome.reasons[reason_of(*first)] += 1
            outcome.plugins.add(first.plugin)
            if first.kind == PENDING:
                outcome.pending.add(first.plugin)
        return fitting or outcome

    def pre_filter(self) -> Outcome | tuple[set[str], list[str], set[str] | None]:
        """Returns the plugins that skip Filter, those that leave nodes out, and the nodes left.

        Raises:
            PluginRaised: a plugin has failed.
        """
        skipped = set(self._idle)
        narrowing: list[str] = []
        left: set[str] | None = None
        rejection: Rejection | None = None
        for plugin in self._of("pre_filter"):
            kind = self._result(plugin, "pre_filter", "")
            if kind == RAISED:
                self.reports.append(("PreFilter", ERROR))
                self.evaluated.pre_filter.append(plugin)
                raise PluginRaised(plugin)
            if kind == SKIPPED:
                skipped.add(plugin)
                continue
            self.evaluated.pre_filter.append(plugin)
            if kind == NARROWED:
                narrowing.append(plugin)
                names = set(self._left(plugin))
                left = names if left is None else left & names
                if not left:
                    self.reports.append(("PreFilter", CODES[UNRESOLVABLE]))
                    outcome = Outcome(Rejection(CODES[UNRESOLVABLE], (), ""))
                    outcome.plugins |= set(narrowing)
                    return outcome
            elif kind is not None:
                rejection = Rejection(CODES[kind], (reason_of(plugin, kind),), plugin)
                if kind == UNRESOLVABLE:
                    self.reports.append(("PreFilter", rejection.code))
                    return Outcome(rejection, plugins={plugin})
        self.reports.append(("PreFilter", rejection.code if rejection else SUCCESS))
        if rejection is not None:
            return Outcome(rejection, plugins={rejection.plugin, *narrowing})
        return skipped, narrowing, left

    def first_rejection(self, node: str, skipped: set[str]) -> _First | None:
        """Returns the first plugin that rejects a node, and its result; None = it fits."""
        for plugin in self._plugins.get("filter", ()):
            if plugin not in skipped and (kind := self._result(plugin, "filter", node)):
                return _First(plugin, kind)
        return None

    def scorers(self, node_count: int) -> list[str]:
        """Returns the plugins whose scores of so many nodes count.

        Raises:
            PluginRaised: PreScore of a plugin has failed.
        """
        skipped = set(self._idle)
        for plugin in self._of("pre_score"):
            kind = self._result(plugin, "pre_score", "")
            if kind == RAISED:
                self.reports.append(("PreScore", ERROR))
                self.evaluated.pre_score.append(plugin)
                raise PluginRaised(plugin)
            if kind == SKIPPED:
                skipped.add(plugin)
            else:
                self.evaluated.pre_score.append(plugin)
        self.reports += [("PreScore", SUCCESS), ("Score", SUCCESS)]
        scorers = [plugin for plugin in self._plugins.get("score", ()) if plugin not in skipped]
        self.evaluated.score = [*scorers, *self.zero_scorers()]
        self.evaluated.n_scored = node_count
        return scorers

    def with_failed_score(self, failed: tuple[str, str] | None, expected: Any) -> Any:
        """Returns the end of an attempt, ``expected`` but for a score plugin that has failed.

        The plugins up to it have scored one node, unless all scores are there.
        """
        if failed is None:
            return expected
        plugin, how = failed
        self.reports[self.reports.index(("Score", SUCCESS))] = ("Score", ERROR)
        if how == "score":
            names = [it for it in self._plugins["score"] if it in self.evaluated.score]
            self.evaluated.score = names[: names.index(plugin) + 1]
            self.evaluated.n_scored = 1
        return PluginRaised(plugin)

    def zero_scorers(self) -> list[str]:
        """Returns the plugins that count as scoring 0: they do not apply, and no PreScore skips."""
        with_pre_score = self._plugins.get("pre_score", ())
        scorers = self._plugins.get("score", ())
        return [it for it in scorers if it in self._idle and it not in with_pre_score]

    def post_filter(self) -> PostFilterOutcome:
        """Returns the end of PostFilter; a claim is changed whatever later plugins return."""
        reasons: list[str] = []
        first = claim = record = ""
        node: str | None = None
        plugins = self._plugins.get("post_filter", ())
        if not plugins:
            return PostFilterOutcome(None, "")
        for plugin in plugins:
            self.reports += [PREEMPTION] * (plugin == PREEMPTING)
            kind = self._result(plugin, "post_filter", "")
            if kind == RAISED:
                self.logged.append((plugin, "PostFilter"))
                return PostFilterOutcome(Rejection("Error", (), plugin), None, claim=claim)
            assert kind is not None
            claim = plugin if self._result(plugin, "claim", "") else claim
            own_record = plugin if self._result(plugin, "record", "") else ""
            if kind == NOMINATED:
                return PostFilterOutcome(None, f"by {plugin}", own_record, claim)
            if kind == FAILED:
                return PostFilterOutcome(Rejection("Error", (), plugin), None, claim=claim)
            own = self._result(plugin, "nomination", "")
            if kind == UNRESOLVABLE:
                rejection = Rejection(CODES[kind], (reason_of(plugin, kind),), plugin)
                return PostFilterOutcome(rejection, own, own_record, claim)
            node = node if own is None else own
            record = own_record or record
            reasons.append(reason_of(plugin, kind))
            first = first or plugin
        rejection = Rejection(CODES[REJECTED], tuple(reasons), first)
        return PostFilterOutcome(rejection, node, record, claim)

    def pre_enqueue(self, before: str) -> Rejection | None:
        """Returns the first rejection by PreEnqueue; that plugin is tried first.

        Raises:
            PluginRaised: a plugin has failed.
        """
        names = list(self._plugins.get("pre_enqueue", ()))
        names.sort(key=lambda name: name != before)
        for plugin in names:
            kind = self._result(plugin, "pre_enqueue", "")
            if kind == RAISED:
                self.reports.append(("PreEnqueue", ERROR))
                raise PluginRaised(plugin)
            if kind is not None:
                self.reports.append(("PreEnqueue", CODES[kind]))
                return Rejection(CODES[kind], (reason_of(plugin, kind),), plugin)
        self.reports.append(("PreEnqueue", SUCCESS))
        return None


class PointsModel(RulesOfAttempts):
    """All rules."""

    def kinds_at(self, point: str, *, of_all: bool = False) -> Iterator[str | None]:
        """Yields the results at an extension point, in order; also of idle plugins or not."""
        for plugin in self._plugins.get(point, ()) if of_all else self._of(point):
            yield self._result(plugin, point, "")

    def pre_binders(self, *, is_timed: bool) -> list[str] | None:
        """Returns the plugins that do not skip PreBind; None = PreBindPreFlight of one raises.

        If the attempt is timed, idle plugins are called too, and have nothing to do.
        """
        point, working = "pre_bind_pre_flight", list[str]()
        with_flight = self._plugins.get(point, ())
        for plugin in self._plugins.get("pre_bind", ()) if is_timed else self._of("pre_bind"):
            flight = None
            if plugin in with_flight:
                flight = SKIPPED if plugin in self._idle else self._result(plugin, point, "")
            if flight == RAISED:
                return None
            if flight != SKIPPED:
                working.append(plugin)
        return working

    def pre_bind(self, plugins: Iterable[str]) -> Iterator[str | None]:
        """Yields the results of these plugins at PreBind."""
        for plugin in plugins:
            yield None if plugin in self._idle else self._result(plugin, "pre_bind", "")

    def calls(self) -> tuple[list[tuple[str, str]], str, dict[str, None]]:
        """Returns the calls of a pod with a node, how it ends, and the plugins that delay it.

        The end is "" for a bound pod, or else the plugin that ends the attempt.
        """
        made: list[tuple[str, str]] = []
        delaying: dict[str, None] = {}
        ended_by = self._before_binding(made, delaying)
        if not ended_by:
            ended_by = self._bound(made)
        if ended_by:
            made += [("unreserve", plugin) for plugin in reversed(self._of("unreserve"))]
        else:
            made += [("post_bind", plugin) for plugin in self._plugins.get("post_bind", ())]
        return made, ended_by, delaying

    def _before_binding(self, made: list[tuple[str, str]], delaying: dict[str, None]) -> str:
        for plugin in self._of("reserve"):
            made.append(("reserve", plugin))
            if self._result(plugin, "reserve", ""):
                return plugin
        for plugin in self._plugins.get("permit", ()):
            made.append(("permit", plugin))
            kind = self._result(plugin, "permit", "")
            if kind == WAITS:
                delaying[plugin] = None
            elif kind:
                delaying.clear()
                return plugin
        working = []
        for plugin in self._of("pre_bind"):
            kind = None
            if plugin in self._plugins.get("pre_bind_pre_flight", ()):
                made.append(("pre_bind_pre_flight", plugin))
                kind = self._result(plugin, "pre_bind_pre_flight", "")
            if kind == RAISED:
                return plugin
            if kind != SKIPPED:
                working.append(plugin)
        for plugin in working:
            made.append(("pre_bind", plugin))
            if self._result(plugin, "pre_bind", ""):
                return plugin
        return ""

    def _bound(self, made: list[tuple[str, str]]) -> str:
        for plugin in self._plugins.get("bind", ()):
            made.append(("bind", plugin))
            kind = self._result(plugin, "bind", "")
            if kind != SKIPPED:
                return plugin if kind else ""
        return "all skip"
