"""Framework: the plugins of one profile, and the only code that calls them.

The stages from a pod to a node::

    pre_filter -> [nominated node] -> filter -> sampling -> pre_score -> score -> normalize
                                        |                                            |
                                        v                                            v
                                    Diagnosis                                    Placement

This file calls the plugins, times them and wraps their errors. ``scheduling_algorithm.py``
runs the stages above; ``bind.py`` runs the extension points after the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.clock import Clock
from mooring.errors import ConfigError, InvariantViolation, PluginError, exception_text
from mooring.framework.cycle_state import Cycle
from mooring.framework.extender import EXTENDER, Extender
from mooring.framework.node_info import NodeInfo
from mooring.framework.runtime.filter_plans import FilterPlans, ScorePlans
from mooring.framework.runtime.filter_results import MAX_FILTERS
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch
from mooring.framework.runtime.plugin_errors import PluginErrors
from mooring.framework.runtime.result_cache import CacheablePlugin, CachedResults, ResultCache
from mooring.framework.runtime.selection import PluginSelection
from mooring.framework.runtime.signatures import Signatures, sign
from mooring.framework.runtime.timings import ERROR, SUCCESS, Timings
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.metrics.recorders import NO_FRAMEWORK_METRICS, FrameworkRecorder
from mooring.state.snapshot import Snapshot
from mooring.state.tables.pods import PodInfo

#: One attempt in so many is timed: reading the clock twice per call costs a tenth of an attempt.
TIMED_EVERY: Final = 10


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins and parameters of a framework.

    ``plugins`` are the plugins of each extension point in order, ``weights`` those of the score
    plugins; ``percentage_of_nodes_to_score`` None = all nodes.
    """

    scheduler_name: str
    plugins: Mapping[str, Sequence[Any]]
    weights: Mapping[str, int]
    percentage_of_nodes_to_score: int | None = None

    def all_plugins(self) -> list[Any]:
        """Returns every plugin once."""
        return _distinct(self.plugins)

    def background(self) -> list[Any]:
        """Returns the plugins that have a background task."""
        return [plugin for plugin in self.all_plugins() if hasattr(plugin, "background")]

    def needs(self) -> list[str]:
        """Returns the kinds of objects that plugins read besides nodes and pods, each once."""
        kinds = [kind for plugin in self.all_plugins() for kind in _needed(plugin)]
        return list(dict.fromkeys(kinds))

    def scheduled_note(self) -> Callable[[PodInfo, str], str] | None:
        """Returns the bind plugins' function for the message of the Scheduled event, if any."""
        binders = self.plugins.get("bind", ())
        notes = (getattr(plugin, "scheduled_note", None) for plugin in binders)
        return next((note for note in notes if note is not None), None)


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
        """Creates the framework of ``profile``; the profiles of a scheduler share ``waiting``.

        ``cache_results`` False calls every plugin for every node and pod: the uncached reference
        path, which tests compare with the cached one. ``tie_break`` selects one of the names of
        the nodes with the highest score, sorted; None = the node that kube-scheduler selects.
        """
        self.profile = profile
        self.selection = PluginSelection(profile.plugins)
        #: Returns the plugins of an extension point, in order.
        self.plugins = self.selection.of
        self.timings = Timings()
        #: Records the extension points and plugins as metrics; ``timings`` has the same one.
        self.recorder: FrameworkRecorder = NO_FRAMEWORK_METRICS
        self.tie_break = tie_break
        #: Set when profiles are loaded; None = the gate is off, or not all plugins can sign pods.
        self.batch: OpportunisticBatch | None = None
        self.has_batching_gate = False
        self.errors = PluginErrors()
        self._cycle_count = 0
        #: Attempts from one that is timed to the next; 0 = none is timed.
        self.timed_every = TIMED_EVERY
        self.is_timed = True
        self.waiting = waiting if waiting is not None else WaitingPods()
        self.filters = tuple(self.plugins("filter"))
        self.scorers = tuple(self.plugins("score"))
        #: The extenders, in the order in which they filter.
        self.extenders: tuple[Extender, ...] = ()
        #: False if the first feasible node is selected, because nothing scores nodes.
        self.needs_scoring = bool(self.scorers)
        self._random: Callable[[], float] | None = None
        self._clock = clock
        plugins = profile.all_plugins() if cache_results else []
        self._cacheable = tuple(plugin for plugin in plugins if _is_cacheable(plugin))
        self._selective = tuple(plugin for plugin in plugins if hasattr(plugin, "applies_to"))
        self._signatures = Signatures(self._cacheable, self._selective)
        #: Plugins with ``sign`` but without ``reads``: not cached, but their hints may be pure.
        self._signers = {
            plugin.name: plugin
            for plugin in _distinct(profile.plugins)
            if callable(getattr(plugin, "sign", None)) and not hasattr(plugin, "reads")
        }
        names = tuple(plugin.name for plugin in self.filters)
        if len(names) > MAX_FILTERS:
            raise ConfigError(f"a profile runs at most {MAX_FILTERS} filters", value=len(names))
        self._cache = ResultCache(names, len(self.scorers))
        #: The version of the device classes that the cached results depend on.
        self._classes_version = 0
        cacheable = {plugin.name for plugin in self._cacheable}
        #: The split of the filters into cached and uncached ones.
        self.filter_plans = FilterPlans(
            names, _cacheable_plugins(self.filters, cacheable, "filter_node", {})
        )
        self._score_plans = ScorePlans(
            _cacheable_plugins(self.scorers, cacheable, "score_node", profile.weights)
        )

    def weight(self, plugin: str) -> int:
        """Returns the weight of a score plugin."""
        return self.profile.weights.get(plugin, 1)

    def new_cycle(self, pod: PodInfo, snapshot: Snapshot, *, number: int | None = None) -> Cycle:
        """Creates the state of a new attempt of ``pod``.

        ``number`` counts the pods that were popped from the queue, of all profiles; None = there is
        no queue, and each attempt is for itself.
        """
        cycle = Cycle(pod, snapshot, self.profile.scheduler_name, self)
        cycle.number = number
        every = self.timed_every
        cycle.is_timed = self.is_timed = every > 0 and self._cycle_count % every == 0
        self._cycle_count += 1
        return cycle

    # -- extenders --------------------------------------------------------------------------------

    def set_extenders(self, extenders: Sequence[Extender], random: Callable[[], float]) -> None:
        """Sets the extenders; ignorable ones are called last.

        ``random`` returns numbers in [0, 1), for ties among nodes that extenders scored.
        """
        if extenders:
            self.batch = None
        self.extenders = tuple(sorted(extenders, key=lambda extender: extender.is_ignorable))
        has_verb = any(extender.has_filter or extender.has_prioritize for extender in extenders)
        self.needs_scoring = bool(self.scorers) or has_verb
        self._random = random
        self._cache.reuses_buffers = not extenders  # attempts are suspended while extenders run

    def needs_extenders(self, pod: PodInfo) -> bool:
        """Returns True if an extender is interested in this pod, so that its attempt may wait."""
        return any(extender.is_interested(pod) for extender in self.extenders)

    def random_index(self, count: int) -> int:
        """Returns a random number from 0 to ``count`` - 1."""
        assert self._random is not None, "call set_extenders() first"
        return int(self._random() * count)

    # -- before the queue -------------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo, *, first: str = "") -> Status | None:
        """Returns the first rejection by a PreEnqueue plugin; None = admit the pod.

        The plugin named ``first``, which rejected the pod last time, is called first.

        Raises:
            PluginError: if a plugin failed.
        """
        plugins = self.plugins("pre_enqueue")
        if first:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != first)
        started_s, code, rejection = self.recorder.now(), ERROR, None
        try:
            for plugin in plugins:
                status = self.call(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
                if status is not None:
                    rejection = self.status_of(plugin, "PreEnqueue", status)
                    break
            code = SUCCESS if rejection is None else rejection.code.value
        finally:
            self.recorder.point("PreEnqueue", code, started_s)
        return rejection

    def sort_key(self) -> Callable[[Any], Any] | None:
        """Returns the sort key of the queue, if the QueueSort plugin has one."""
        (plugin,) = self.plugins("less")
        key: Callable[[Any], Any] | None = getattr(plugin, "sort_key", None)
        return key

    def rejecting_plugins(self) -> list[Any]:
        """Returns every plugin that can reject a pod, once: their events requeue pods."""
        plugins = {
            plugin.name: plugin
            for point in ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
            for plugin in self.plugins(point)
        }
        # Extenders register no events: any event requeues the pods that they rejected.
        return [*plugins.values(), *([_ANY_EXTENDER] if self.extenders else [])]

    def fragment(self, plugin: str, pod: PodInfo) -> Hashable | None:
        """Returns the plugin's fragment of the pod's signature; None = it has none."""
        fragments = self._signatures.of(pod, self.call).fragments
        if plugin in fragments:
            return fragments[plugin]
        signer = self._signers.get(plugin)
        return None if signer is None else sign(signer, pod, self.call)

    def less(self, a: Any, b: Any) -> bool:
        """Returns True if ``a`` is popped before ``b``."""
        (plugin,) = self.plugins("less")
        return bool(plugin.less(a, b))

    # -- cached results ---------------------------------------------------------------------------

    def cached_results(self, cycle: Cycle) -> tuple[CachedResults | None, frozenset[str]]:
        """Returns the cached results for the cycle's pod, and the names of the cached plugins."""
        if cycle.cached_results is None:
            version = cycle.snapshot.device_classes.version
            if version != self._classes_version:
                self._classes_version = version
                self._signatures = Signatures(self._cacheable, self._selective)
                self.clear_cached_results()
            started_s = self.recorder.now()
            signature = self._signatures.of(cycle.pod, self.call)
            self.recorder.succeeded["Sign"](self.recorder.now() - started_s)
            cached = None
            if signature.cached_plugins:
                cached = self._cache.of(signature, cycle.snapshot.nodes.capacity)
            cycle.cached_results = (cached, signature.cached_plugins)
            cycle.idle_plugins = signature.idle_plugins
            cycle.restore_all(signature.idle_states)
        return cycle.cached_results

    def cache_statistics(self) -> dict[str, int]:
        """Returns how many lookups in the result cache were a ``hit``, and how many a ``miss``."""
        return {"hit": self._cache.hits, "miss": self._cache.misses}

    def clear_cached_results(self) -> None:
        """Invalidates all cached results, when an object that is not a node or pod has changed."""
        self._cache.clear()

    def cacheable_scorers(self, cached_plugins: frozenset[str]) -> list[CacheablePlugin]:
        """Returns the score plugins among ``cached_plugins``."""
        return self._score_plans.of(cached_plugins)

    # -- calling a plugin -------------------------------------------------------------------------

    def call(self, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a method of a plugin: the only broad catch of plugins' exceptions.

        One of ``TIMED_EVERY`` attempts is timed, as upstream does for its metrics. A cancellation,
        or what ends a program or a generator, is the plugin's own: the method awaits nothing.

        Raises:
            PluginError: for any exception of the plugin, with its name.
        """
        try:
            if self.is_timed:
                return self.timings.timed(self._clock, plugin.name, point, method, *arguments)
            return method(*arguments)
        except (InvariantViolation, KeyboardInterrupt):
            raise
        except BaseException as error:  # a plugin may do anything; its pod alone fails
            self.recorder.plugin_failed(plugin.name, point)
            if isinstance(error, PluginError):
                raise
            raise PluginError(plugin.name, point, exception_text(error)) from error

    def log_error(self, error: PluginError, **facts: Any) -> None:
        """Counts and logs an error that does not fail the pod, with its traceback."""
        self.errors.log(error, **facts)

    def call_each(
        self,
        plugin: Any,
        point: str,
        method: Callable[[Cycle, NodeInfo], Any],
        cycle: Cycle,
        nodes: Sequence[NodeInfo],
    ) -> list[Any]:
        """Calls a method for each of some nodes, within one ``call``."""
        results: list[Any] = self.call(plugin, point, _for_each, method, cycle, nodes)
        return results

    def status_of(self, plugin: Any, point: str, result: Any) -> Status:
        """Returns a plugin's rejection with the plugin's name.

        Raises:
            PluginError: if ``result`` is not a rejection.
        """
        if not isinstance(result, Status):
            raise PluginError(plugin.name, point, f"returned {result!r}")
        status = result.named(plugin.name)
        if not status.is_rejection:
            raise PluginError(plugin.name, point, status.message)
        return status


class _AnyExtender:
    """Represents all extenders among the plugins that can reject a pod."""

    name = EXTENDER


_ANY_EXTENDER = _AnyExtender()


def _for_each(
    method: Callable[[Cycle, NodeInfo], Any], cycle: Cycle, nodes: Sequence[NodeInfo]
) -> list[Any]:
    return [method(cycle, node) for node in nodes]


def _distinct(plugins: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Returns every plugin once, in order of first appearance."""
    by_name: dict[str, Any] = {}
    for plugins_of_point in plugins.values():
        for plugin in plugins_of_point:
            by_name.setdefault(plugin.name, plugin)
    return list(by_name.values())


def _cacheable_plugins(
    plugins: Sequence[Any], cacheable: set[str], one_node_method: str, weights: Mapping[str, int]
) -> list[tuple[str, CacheablePlugin]]:
    """Returns (name, CacheablePlugin) of the cacheable ones of ``plugins``.

    The columns they read are plain ints: flags of ``Change`` are ten times slower to combine.
    """
    return [
        (
            plugin.name,
            CacheablePlugin(
                number,
                int(plugin.reads),
                int(getattr(plugin, "reads_other_nodes", 0)),
                hasattr(plugin, one_node_method),
                amounts_only=getattr(plugin, "amounts_only", False),
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
