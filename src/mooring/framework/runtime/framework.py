"""Framework: the plugins of one profile, and the one place that calls them.

From a pod to a node it goes ::

    pre_filter -> [nominated node] -> filter -> sampling -> pre_score -> score -> normalize
                                        |                                            |
                                        v                                            v
                                    Diagnosis                                    Placement

This file calls the plugins, times them and names the one that failed. ``scheduling_algorithm.py``
runs the stages above; ``bind.py`` runs the extension points after the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.clock import Clock
from mooring.errors import ConfigError, InvariantViolation, PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.extender import EXTENDER, Extender
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.node_info import NodeInfo
from mooring.framework.runtime.filter_plans import FilterPlans
from mooring.framework.runtime.filter_results import MAX_FILTERS
from mooring.framework.runtime.plugin_errors import PluginErrors
from mooring.framework.runtime.result_cache import CacheablePlugin, CachedResults, ResultCache
from mooring.framework.runtime.signatures import Signatures
from mooring.framework.runtime.timings import Timings
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.state.snapshot import Snapshot
from mooring.state.tables.pods import PodInfo

#: One attempt of so many is timed: to look at the clock twice a call costs a tenth of a decision.
TIMED_EVERY: Final = 10


@dataclass(frozen=True, slots=True)
class Profile:
    """What a framework is made of.

    ``plugins`` holds for each extension point its plugins in order, ``weights`` those of the score
    plugins; ``percentage_of_nodes_to_score`` None = look at all nodes.
    """

    scheduler_name: str
    plugins: Mapping[str, Sequence[Any]]
    weights: Mapping[str, int]
    percentage_of_nodes_to_score: int | None = None


class Framework:
    """Runs the plugins of one profile. One per schedulerName; owns no state of the cluster.

    Example: see ``mooring.simulation.driver``, a complete scheduler without an API server.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        clock: Clock,
        cache_results: bool = True,
        waiting: WaitingPods | None = None,
        tie_break: Callable[[Sequence[str]], str] | None = None,
    ) -> None:
        """Takes the plugins of ``profile``; ``waiting`` is shared by the profiles of a scheduler.

        ``cache_results`` False asks every plugin about every node for every pod: the slow twin
        that the tests hold the fast path against. ``tie_break`` chooses among the names of the
        nodes with the highest score, sorted; None = the node that kube-scheduler would take.
        """
        self.profile = profile
        self.timings = Timings()
        self.tie_break = tie_break
        self.errors = PluginErrors()
        self._opened = 0
        self._is_timed = True
        self.waiting = waiting if waiting is not None else WaitingPods()
        self.filters = tuple(self.plugins("filter"))
        self.scorers = tuple(self.plugins("score"))
        #: Those that are asked besides the plugins, in the order in which they filter.
        self.extenders: tuple[Extender, ...] = ()
        #: Whether a node is compared with others, or the first one that will do is taken.
        self.compares = bool(self.scorers)
        self._random: Callable[[], float] | None = None
        self._clock = clock
        self._cacheable = tuple(
            plugin
            for plugin in _distinct(profile.plugins)
            if cache_results and _is_cacheable(plugin)
        )
        self._signatures = Signatures(self._cacheable)
        #: Those that say what they read of a pod, and share no answers: their hints may be pure.
        self._signers = {
            plugin.name: plugin
            for plugin in _distinct(profile.plugins)
            if callable(getattr(plugin, "sign", None)) and not hasattr(plugin, "reads")
        }
        names = tuple(plugin.name for plugin in self.filters)
        if len(names) > MAX_FILTERS:
            raise ConfigError(f"a profile runs at most {MAX_FILTERS} filters", value=len(names))
        self._answers = ResultCache(names, len(self.scorers))
        #: The device classes that the answers rest on.
        self._classes_version = 0
        cacheable = {plugin.name for plugin in self._cacheable}
        #: How the filters are asked, by who shares answers and who is skipped.
        self.filter_plans = FilterPlans(
            names, _cacheable_plugins(self.filters, cacheable, "filter_node", {})
        )
        self._cacheable_scorers = _cacheable_plugins(
            self.scorers, cacheable, "score_node", profile.weights
        )

    def plugins(self, point: str) -> Sequence[Any]:
        """Returns the plugins of an extension point, in order."""
        if point not in EXTENSION_POINTS:
            raise InvariantViolation(f"{point} unknown extension point")
        return self.profile.plugins.get(point, ())

    def weight(self, plugin: str) -> int:
        """Returns the weight of a score plugin."""
        return self.profile.weights.get(plugin, 1)

    def open(self, pod: PodInfo, snapshot: Snapshot) -> Cycle:
        """Begins an attempt at ``pod``."""
        self._is_timed = self._opened % TIMED_EVERY == 0
        self._opened += 1
        return Cycle(pod, snapshot, self.profile.scheduler_name, self)

    # -- extenders --------------------------------------------------------------------------------

    def extend(self, extenders: Sequence[Extender], random: Callable[[], float]) -> None:
        """Asks these besides the plugins; those that may be ignored are asked last.

        ``random`` gives numbers in [0, 1): of nodes that extenders find equally good, one is drawn.
        """
        self.extenders = tuple(sorted(extenders, key=lambda extender: extender.is_ignorable))
        has_more = any(each.has_filter or each.has_prioritize for each in extenders)
        self.compares = bool(self.scorers) or has_more
        self._random = random
        self._answers.reuses_buffers = not extenders  # an attempt stays open while they are asked

    def asks(self, pod: PodInfo) -> bool:
        """Whether an extender is to be asked about this pod, so that its attempt has to wait."""
        return any(extender.is_interested(pod) for extender in self.extenders)

    def draw(self, count: int) -> int:
        """Returns a number below ``count``, by chance."""
        assert self._random is not None, "extend() comes first"
        return int(self._random() * count)

    # -- before the queue -------------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo, *, first: str = "") -> Status | None:
        """Returns the first refusal to let the pod into the queue; None = let it in.

        The plugin called ``first`` is asked before the others: it refused last time.

        Raises:
            PluginError: if a plugin failed.
        """
        plugins = self.plugins("pre_enqueue")
        if first:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != first)
        for plugin in plugins:
            status = self.call(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            if status is not None:
                return self.status_of(plugin, "PreEnqueue", status)
        return None

    def sort_key(self) -> Callable[[Any], Any] | None:
        """Returns the queue's order as a key, if the QueueSort plugin has one."""
        (plugin,) = self.plugins("less")
        key: Callable[[Any], Any] | None = getattr(plugin, "sort_key", None)
        return key

    def rejecting_plugins(self) -> list[Any]:
        """Returns every plugin that can refuse a pod, once: those whose events can wake it."""
        found = {
            plugin.name: plugin
            for point in ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
            for plugin in self.plugins(point)
        }
        # Extenders cannot say what may help: pods that they refuse wake on any event.
        return [*found.values(), *([_REFUSED_BY_EXTENDERS] if self.extenders else [])]

    def fragment(self, plugin: str, pod: PodInfo) -> Hashable | None:
        """What ``plugin`` reads of the pod; None = it does not say."""
        fragments = self._signatures.of(pod, self.call).fragments
        if plugin in fragments:
            return fragments[plugin]
        signer = self._signers.get(plugin)
        if signer is None:
            return None
        fragment: Hashable | None = self.call(signer, "Sign", signer.sign, pod)
        return fragment

    def needs(self) -> list[str]:
        """Returns the kinds of objects that plugins read beside nodes and pods, each once."""
        kinds = [kind for plugin in _distinct(self.profile.plugins) for kind in _needed(plugin)]
        return list(dict.fromkeys(kinds))

    def scheduled_note(self) -> Callable[[PodInfo, str], str] | None:
        """What the event of a bound pod says, if a bind plugin wants it in its own words."""
        found = (getattr(each, "scheduled_note", None) for each in self.plugins("bind"))
        return next((note for note in found if note is not None), None)

    def background(self) -> list[Any]:
        """Returns the plugins that do something beside the decisions."""
        return [each for each in _distinct(self.profile.plugins) if hasattr(each, "background")]

    def less(self, a: Any, b: Any) -> bool:
        """Returns whether ``a`` is tried before ``b``."""
        (plugin,) = self.plugins("less")
        return bool(plugin.less(a, b))

    # -- cached results ---------------------------------------------------------------------------

    def answers(self, cycle: Cycle) -> tuple[CachedResults | None, frozenset[str]]:
        """The shared answers for the cycle's pod, and the names of the plugins they speak for."""
        if cycle.shared is None:
            version = cycle.snapshot.device_classes.version
            if version != self._classes_version:
                self._classes_version = version
                self.clear_cached_results()
            signature = self._signatures.of(cycle.pod, self.call)
            answers = None
            if signature.cached_plugins:
                answers = self._answers.of(signature, cycle.snapshot.nodes.capacity)
            cycle.shared = (answers, signature.cached_plugins)
        return cycle.shared

    def clear_cached_results(self) -> None:
        """Drops the shared answers: something they rest on beside pods and nodes has changed."""
        self._answers.clear()

    def cacheable_scorers(self, cached_plugins: frozenset[str]) -> list[CacheablePlugin]:
        """Number and columns read, for those score plugins that share their answers."""
        return [reader for name, reader in self._cacheable_scorers if name in cached_plugins]

    # -- calling a plugin -------------------------------------------------------------------------

    def call(self, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a plugin and name it if it raises: the only broad catch for plugins.

        Of ``TIMED_EVERY`` attempts one is timed, as upstream does for its metrics.

        Raises:
            PluginError: whatever the plugin raised, with its name.
        """
        try:
            if self._is_timed:
                return self.timings.timed(self._clock, plugin.name, point, method, *arguments)
            return method(*arguments)
        except (PluginError, InvariantViolation):
            raise
        except Exception as error:  # a plugin may raise anything; its pod alone fails
            raise PluginError(plugin.name, point, _told(error)) from error

    def call_each(
        self,
        plugin: Any,
        point: str,
        method: Callable[[Cycle, NodeInfo], Any],
        cycle: Cycle,
        nodes: Sequence[NodeInfo],
    ) -> list[Any]:
        """Calls a plugin about each of some nodes; as ``call``, once for all of them."""
        answers: list[Any] = self.call(plugin, point, _each, method, cycle, nodes)
        return answers

    def status_of(self, plugin: Any, point: str, answer: Any) -> Status:
        """Returns a plugin's refusal, signed with its name.

        Raises:
            PluginError: if it is no refusal at all, or an Error.
        """
        if not isinstance(answer, Status):
            raise PluginError(plugin.name, point, f"returned {answer!r}")
        status = answer.named(plugin.name)
        if not status.is_rejection:
            raise PluginError(plugin.name, point, status.message)
        return status


class _RefusedByExtenders:
    """Stands for all extenders among the plugins that can refuse a pod."""

    name = EXTENDER


_REFUSED_BY_EXTENDERS = _RefusedByExtenders()


def _each(
    method: Callable[[Cycle, NodeInfo], Any], cycle: Cycle, nodes: Sequence[NodeInfo]
) -> list[Any]:
    return [method(cycle, node) for node in nodes]


def _distinct(plugins: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Returns every plugin once, in order of first appearance."""
    found: dict[str, Any] = {}
    for of_point in plugins.values():
        for plugin in of_point:
            found.setdefault(plugin.name, plugin)
    return list(found.values())


def _cacheable_plugins(
    plugins: Sequence[Any], cacheable: set[str], one_node_method: str, weights: Mapping[str, int]
) -> list[tuple[str, CacheablePlugin]]:
    """Name, number and columns read of the plugins that may share.

    The columns are plain ints: flags of ``Change`` are ten times slower to combine.
    """
    return [
        (
            plugin.name,
            CacheablePlugin(
                number,
                int(plugin.reads),
                int(getattr(plugin, "reads_other_nodes", 0)),
                hasattr(plugin, one_node_method),
                is_final=not hasattr(plugin, "normalize"),
                normalized_zero=getattr(plugin, "normalized_zero", None),
                weight=weights.get(plugin.name, 1),
            ),
        )
        for number, plugin in enumerate(plugins)
        if plugin.name in cacheable
    ]


def _needed(plugin: Any) -> Sequence[str]:
    kinds: Sequence[str] = getattr(plugin, "needs", ())
    return kinds


def _is_cacheable(plugin: Any) -> bool:
    return callable(getattr(plugin, "sign", None)) and hasattr(plugin, "reads")


def _told(error: Exception) -> str:
    """Returns an exception as one line of a message."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
