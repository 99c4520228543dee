"""An extender made of plugins: what they filter and score in mooring, they do for kube-scheduler.

::

    kube-scheduler ── filter, prioritize, preempt, bind ──> Extender ──> plugins
                                                              │
                           the cluster as informers know it ──┘  (only with a kubeconfig)

Without a cluster the plugins see what was sent: the pod and the nodes, with no pods on them.

Source: pkg/scheduler/extender.go is the other side.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mooring.clock import Clock
from mooring.errors import ConfigError, PluginError, SchedulerError
from mooring.extender_server import wire
from mooring.framework import Cycle, Framework, Profile
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.runtime.evaluate import (
    filter_nodes,
    filter_nodes_without_victims,
    score_nodes,
)
from mooring.framework.runtime.plugin_checks import check_plugin
from mooring.framework.status import Code, Status
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod
from mooring.serial_executor import LARGE_BYTES, SerialExecutor
from mooring.state import PodInfo
from mooring.state.cache import Cache

T = TypeVar("T")

#: The extension points that an extender has a use for.
POINTS = ("pre_filter", "filter", "pre_score", "score", "normalize")

#: What kube-scheduler may ask.
VERBS = ("filter", "prioritize", "preempt", "bind")

#: (pod with its name, namespace and UID, node) -> done.
Bind = Callable[[Pod, str], Awaitable[None]]


class Extender:
    """Answers the calls of a kube-scheduler with mooring plugins.

    Example::

        extender = Extender([Lucky(seed=7)], clock=SystemClock())
        answer = await extender.answer("filter", body)

    Args:
        plugins: Objects with filter or score; each runs at every point that it has.
        clock: Times them.
        cluster: The cache of the cluster; None = only the nodes of each request.
        bind: Binds a pod; None = this extender does not bind.

    Raises:
        ConfigError: an object is no plugin, or has neither filter nor score.
    """

    def __init__(
        self,
        plugins: Iterable[Any],
        *,
        clock: Clock,
        cluster: Cache | None = None,
        bind: Bind | None = None,
    ) -> None:
        checked = [check_plugin(plugin) for plugin in plugins]
        for plugin in checked:
            if not hasattr(plugin, "filter") and not hasattr(plugin, "score"):
                raise ConfigError("neither filters nor scores", path="--plugin", value=plugin.name)
        points = {
            point: [plugin for plugin in checked if point in POINTS and hasattr(plugin, point)]
            for point in EXTENSION_POINTS
        }
        self._framework = Framework(Profile("extender", points, {}), clock=clock)
        self._cluster = cluster
        self._bind = bind
        self._calls = SerialExecutor()

    def allow_threads(self) -> None:
        """Lets large calls run in threads, which a virtual event loop does not have."""
        self._calls.has_threads = True

    @property
    def has_bind(self) -> bool:
        """True if it binds pods."""
        return self._bind is not None

    async def answer(self, verb: str, body: bytes) -> bytes:
        """Returns the response to a call; its field Error reports a bad request or a failed plugin.

        Raises:
            ConfigError: the arguments of ``prioritize`` cannot be read: its answer has no Error.
            PluginError: a plugin failed to score.
            KeyError: there is no such verb.
        """
        if verb == "bind":
            return await self.bind(body)
        methods = {"filter": self.filter, "prioritize": self.prioritize, "preempt": self.preempt}
        call = partial(methods[verb], body)
        if self._calls.has_threads and len(body) > LARGE_BYTES:
            return await self._calls.run_in_thread(call)
        return await self._calls.run(call)

    def filter(self, body: bytes) -> bytes:
        """Returns the feasible nodes."""
        try:
            request = wire.read_filtering(body)
            known_names, statuses = self._beside_cluster(partial(self._filtered, request))
        except (ConfigError, PluginError) as error:
            return wire.filter_error(str(error))
        unknown = dict.fromkeys(
            set(request.names) - set(known_names), "node is not known to the extender"
        )
        failed = dict(sorted(unknown.items()))
        failed_and_unresolvable: dict[str, str] = {}
        for name, status in statuses.items():
            if status is not None:
                is_hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                (failed_and_unresolvable if is_hopeless else failed)[name] = ",".join(
                    status.reasons
                )
        feasible = [name for name in request.names if statuses.get(name, True) is None]
        return wire.filter_result(request, feasible, failed, failed_and_unresolvable)

    def _filtered(
        self, request: wire.Filtering
    ) -> tuple[Sequence[str], Mapping[str, Status | None]]:
        cycle, known_names = self._open(request)
        return known_names, filter_nodes(self._framework, cycle, known_names)

    def _beside_cluster(self, evaluate: Callable[[], T]) -> T:
        """Evaluates on the event loop if there the cache of the cluster changes."""
        return evaluate() if self._cluster is None else self._calls.commit(evaluate)

    def prioritize(self, body: bytes) -> bytes:
        """Returns the score of each node, 0 to 10; unknown nodes get 0."""
        request = wire.read_filtering(body)
        scores = self._beside_cluster(partial(self._scores, request))
        return wire.priorities({name: scores.get(name, 0.0) for name in request.names})

    def _scores(self, request: wire.Filtering) -> Mapping[str, float]:
        cycle, known_names = self._open(request)
        return score_nodes(self._framework, cycle, known_names)

    def preempt(self, body: bytes) -> bytes:
        """Returns the nodes that are feasible without their victims; without a cluster, all."""
        request = wire.read_preempting(body)
        cluster = self._cluster
        if cluster is None:
            return wire.preempt_result(request.victims)
        feasible = self._beside_cluster(partial(self._feasible, request, cluster))
        return wire.preempt_result(
            {name: victims for name, victims in request.victims.items() if name in feasible}
        )

    def _feasible(self, request: wire.Preempting, cluster: Cache) -> Container[str]:
        """Returns the nodes that are feasible without their victims."""
        cycle = self._cycle(request.pod, cluster)
        pods, nodes = cluster.pods, cluster.nodes
        leaving = {}
        for name, victims in request.victims.items():
            placed = [pods.get(uid) for uid in victims.uids]
            row = nodes.live_row(name)
            here = [plugin.info for plugin in placed if plugin is not None and plugin.row == row]
            if row >= 0:
                leaving[name] = here
        return filter_nodes_without_victims(self._framework, cycle, leaving)

    async def bind(self, body: bytes) -> bytes:
        """Binds the pod."""
        try:
            request = wire.read_binding(body)
            if self._bind is None:
                return wire.bind_result("this extender does not bind: it was given no kubeconfig")
            metadata = ObjectMeta(name=request.name, namespace=request.namespace, uid=request.uid)
            await self._bind(Pod(metadata=metadata), request.node)
        except SchedulerError as error:
            return wire.bind_result(str(error))
        return wire.bind_result()

    def _open(self, request: wire.Filtering) -> tuple[Cycle, Sequence[str]]:
        """Returns a cycle over the requested nodes, and the names of those in the cache."""
        cluster = self._cluster
        if cluster is None:
            cluster = Cache()
            for node in request.nodes():
                cluster.put_node(node)
        known_names = [name for name in request.names if cluster.nodes.live_row(name) >= 0]
        return self._cycle(request.pod, cluster), known_names

    def _cycle(self, pod: Pod, cluster: Cache) -> Cycle:
        if self._cluster is None:
            self._framework.clear_cached_results()  # they are of another request's nodes
        return self._framework.new_cycle(PodInfo(pod), cluster.snapshot())
