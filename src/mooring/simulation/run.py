"""Runs a simulation: the pending pods of a workload arrive, and are scheduled until all is settled.

The scheduler is the real one: queue, backoff, preemption, Permit, binding. Time is virtual: a pod
that waits for its victims is bound when their grace period has passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from mooring.client import ObjectChange
from mooring.clock import Clock, Rng, seeded_random
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.errors import ConfigError, NotFound, PluginError, SchedulerError, first_error
from mooring.framework import Reject
from mooring.framework.runtime.bind import awaited_plugin
from mooring.garbage import rare_collections
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.plugins import IN_TREE
from mooring.queue import QueueName, profile_of
from mooring.scheduler.parts import ServiceOptions
from mooring.simulation.driver import merged_weights
from mooring.simulation.engine.claim_controller import ClaimController
from mooring.simulation.engine.disruption_controller import DisruptionController
from mooring.simulation.engine.engine import PHASE_ARRIVALS, PHASE_CONTROLLERS, Engine
from mooring.simulation.engine.kubelets import Kubelets
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.engine.scheduler import EngineScheduler
from mooring.simulation.engine.storage_protection import start_volume_controllers
from mooring.simulation.engine.workload_controllers import CRON_RUNS, WorkloadControllers
from mooring.simulation.inputs.unsupported import without_extenders
from mooring.simulation.outcome import Outcome
from mooring.simulation.results import (
    EVICTED,
    FAILED,
    FINISHED,
    GATED,
    NOT_OURS,
    PLACED,
    WAITING,
    Eviction,
    Observers,
    PodResult,
    Tracker,
)
from mooring.state import PodInfo
from mooring.virtual_loop import EndlessWait, LoopClock, VirtualLoop, no_running_loop

if TYPE_CHECKING:
    from mooring.scheduler.observer import Observer
    from mooring.simulation.engine.recorder import StepRecorder
    from mooring.simulation.workload import Workload

_Result = TypeVar("_Result")

#: In which order the pending pods arrive: as a queue orders them, or at random, by the seed.
ORDERS: Final = ("queue", "shuffle")


class Simulation(NamedTuple):
    """The end of a simulation.

    Attributes:
        results: What became of the pods that were to be scheduled, in order of arrival.
        evictions: All evictions, in order.
        pods: All pods at the end, by "namespace/name".
        end_s: Virtual seconds from the arrival of the pods to the last change.
    """

    results: list[PodResult]
    evictions: list[Eviction]
    pods: dict[str, Pod]
    end_s: float

    def outcome(self, *outcomes: str) -> list[PodResult]:
        """Returns the results with one of these outcomes."""
        return [result for result in self.results if result.outcome in outcomes]


class SimulationOptions(NamedTuple):
    """Options of a simulation.

    Attributes:
        config: Of the scheduler; None = kube-scheduler's defaults. Extenders are not called.
        plugins: Further plugins: objects, or ``module:attribute``.
        seed: Of all random numbers.
        order: One of ``ORDERS``.
        with_scores: Whether to note scores and the next best node of each placed pod.
        on_change: Called for every write of an object, with its kind.
        on_result: Called with each pod that has a new outcome.
        recorder: Records every attempt; None = nothing is recorded.
        gates: The feature gates whose value is not the default.
        cron_runs: For how many instants of its schedule each CronJob creates a Job.
    """

    config: KubeSchedulerConfiguration | None = None
    plugins: Sequence[str | Any] = ()
    seed: int = 0
    order: str = ORDERS[0]
    with_scores: bool = False
    on_change: Callable[[str, ObjectChange], None] = lambda *_: None
    on_result: Callable[[PodResult], None] = lambda _: None
    recorder: StepRecorder | None = None
    gates: Mapping[str, bool] = MappingProxyType({})
    cron_runs: int = CRON_RUNS


def run_simulation(workload: Workload, options: SimulationOptions | None = None) -> Simulation:
    """Schedules the pending pods of a workload, and returns what became of each.

    It runs on an event loop of its own, and may be called while another one runs.

    Raises:
        ConfigError: the configuration, a plugin or the order cannot be used.

    Example:
        >>> from mooring.simulation.workload import workload_of
        >>> from mooring.testing import make_node, make_pod
        >>> objects = [make_node("a"), make_pod("web", requests={"cpu": "1"})]
        >>> run_simulation(workload_of("example", objects)).results[0].node
        'a'
    """
    return SimulationRun(workload, options or SimulationOptions()).run()


def run_to_end(loop: VirtualLoop, run: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a simulation on its loop, and closes the loop; of several errors the first is raised.

    Raises:
        SchedulerError: a plugin awaits something that never comes, or never ends to call itself.
    """
    try:
        with no_running_loop(), rare_collections(), without_warnings():
            return loop.run_until_complete(run)
    except EndlessWait as error:
        raise _error_of_plugin(loop, error) or error from None
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    finally:
        if tasks := asyncio.all_tasks(loop):  # the run was ended from outside
            for task in tasks:
                task.cancel()
            with no_running_loop():
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def _error_of_plugin(loop: VirtualLoop, error: EndlessWait) -> SchedulerError | None:
    """Returns the error of a plugin for which the tasks of a loop wait; None = of no plugin."""
    callback = getattr(error.callback, "func", error.callback)  # of a partial
    module = getattr(callback, "__module__", None) or "mooring"
    if module.partition(".")[0] not in ("mooring", "asyncio", "_asyncio"):
        name = f"{module}.{getattr(callback, '__qualname__', callback)}"
        return SchedulerError(f"{name} is called again and again: {error}")
    calls = [awaited_plugin(task.get_coro()) for task in asyncio.all_tasks(loop)]
    of_plugins = [call for call in calls if call is not None and call.plugin not in IN_TREE]
    if not of_plugins:
        return None
    plugin, point, pod = min(of_plugins)
    return PluginError(plugin, point, f"has not returned for pod {pod}: {error}")


class SimulationRun:
    """One simulation, which can be run once.

    Args:
        workload: The cluster and its pending pods.
        options: See there.

    Raises:
        ConfigError: the configuration, a plugin or the order cannot be used.
    """

    def __init__(self, workload: Workload, options: SimulationOptions) -> None:
        if options.order not in ORDERS:
            raise ConfigError(
                f"must be one of {', '.join(ORDERS)}", path="order", value=options.order
            )
        self._workload = workload
        self._options = options
        self._loop = VirtualLoop()
        try:
            self._build()
        except BaseException:
            self._loop.close()
            raise

    def _build(self) -> None:
        workload, options = self._workload, self._options
        self._clock = clock = LoopClock(self._loop)
        self._rng = seeded_random(options.seed)
        self._tracker = Tracker(clock, with_scores=options.with_scores, on_result=options.on_result)
        # The recorder comes first: it reads the attempt before the tracker's callbacks change it.
        own = [self._tracker] if options.recorder is None else [options.recorder, self._tracker]
        self._observers = Observers(own)
        self._table = ObjectTable(workload.objects, clock=clock)
        self._scheduler = EngineScheduler(
            self._table,
            without_extenders(options.config or default_configuration()),
            ServiceOptions(
                plugins=options.plugins, observer=self._observers, feature_gates=options.gates
            ),
            clock=clock,
            rng=self._rng,
        )
        self._workloads = WorkloadControllers(
            self._table,
            workload.controlled,
            clock=clock,
            rng=seeded_random(options.seed),
            cron_runs=options.cron_runs,
        )
        self._budgets = DisruptionController(self._table, self._workloads.cluster, clock=clock)
        self._engine = Engine(
            self._loop, self._scheduler, [self._workloads, self._budgets], skips_retries=True
        )
        self._kubelets = Kubelets(self._table, self._engine, clock=clock)
        self._pods = {key(pod): pod for pod in self._arrivals()}

    def _arrivals(self) -> list[Pod]:
        pods = list(self._workload.pending)
        if self._options.order == "shuffle":
            for last in range(len(pods) - 1, 0, -1):
                other = self._rng.randrange(last + 1)
                pods[last], pods[other] = pods[other], pods[last]
        return pods

    @property
    def clock(self) -> Clock:
        """Virtual time."""
        return self._clock

    @property
    def weights(self) -> dict[str, int]:
        """The weights of the score plugins, of all profiles; the first profile counts."""
        return merged_weights(self._scheduler.profiles.values())

    @property
    def scheduler(self) -> EngineScheduler:
        """The scheduler; read only."""
        return self._scheduler

    @property
    def rng(self) -> Rng:
        """Draws which of several nodes with the best score is selected."""
        return self._rng

    def objects(self) -> list[Any]:
        """Returns all objects, those first that others refer to."""
        return [obj for _, obj in self._table.listed()]

    def scheduler_name_of(self, pod_key: str) -> str:
        """Returns the schedulerName of a pod that is to be scheduled."""
        pod = self._pods.get(pod_key)
        return "" if pod is None else pod.spec.scheduler_name

    def observe(self, observer: Observer) -> None:
        """Calls one more observer for everything that the scheduler does, before the others."""
        self._observers.add(observer)

    def delete_at(self, at_s: float, kind: str, object_key: str) -> None:
        """Deletes an object at an instant, if it is there; a pod on a node has its grace period."""
        self._engine.call_at(at_s, PHASE_CONTROLLERS, partial(self._delete, kind, object_key))

    def scale_at(self, at_s: float, kind: str, object_key: str, replicas: int) -> None:
        """Sets the replicas of a workload at an instant, if it is there."""
        self._engine.call_at(
            at_s, PHASE_CONTROLLERS, partial(self._scale, kind, object_key, replicas)
        )

    def _scale(self, kind: str, object_key: str, replicas: int) -> None:
        self._workloads.scale(kind, object_key, replicas)

    def _delete(self, kind: str, object_key: str) -> None:
        with suppress(NotFound):
            self._table.delete(kind, object_key)

    def run(self) -> Simulation:
        """Runs to the end."""
        return run_to_end(self._loop, self._run())

    async def _run(self) -> Simulation:
        async with asyncio.TaskGroup() as tasks:
            background = self._scheduler.start(tasks)
            start_volume_controllers(self._table)
            self._table.listen(ClaimController(self._table).on_change)
            self._kubelets.start()
            if self._workload.controlled:
                self._workloads.start(self._engine)
            self._budgets.start(self._engine)
            self._table.listen(self._options.on_change)
            self._table.listen(self._on_change)
            recorder = self._options.recorder
            if recorder is not None:
                recorder.nominator = self._scheduler.cache.nominator
                self._table.listen(recorder.on_change)
            self._engine.call_at(0.0, PHASE_ARRIVALS, self._arrive)
            try:
                await self._engine.run()
            finally:
                self._scheduler.stop()
                for task in background:
                    task.cancel()
        return self._end()

    def _arrive(self) -> None:
        for pod in self._pods.values():
            self._table.create(pod)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind != "Pod":
            return
        is_bound = change.new is not None and bool(change.new.spec.node_name)
        if change.new is None or is_bound:
            self._engine.note_progress()

    # -- the end ----------------------------------------------------------------------------------

    def _end(self) -> Simulation:
        live = self._table.objects("Pod")
        by = {eviction.pod: eviction.by for eviction in self._tracker.evictions}
        results = []
        for pod_key in dict.fromkeys([*self._pods, *self._workloads.created]):
            result = self._tracker.result_of(pod_key)
            self._conclude(result, live.get(pod_key), by.get(pod_key, ""))
            results.append(result)
        self._end_recording()
        end_s = self._clock.monotonic_s()
        return Simulation(results, self._tracker.evictions, dict(live), end_s)

    def _end_recording(self) -> None:
        """Records the pods that a gate holds back, which were never scheduled."""
        recorder = self._options.recorder
        if recorder is None:
            return
        recorder.flush()
        for pod in self._table.objects("Pod").values():
            result = self._tracker.results.get(key(pod))
            if result is not None and result.outcome == GATED and not result.attempts:
                info = PodInfo(pod)
                gate = Reject(result.message).named(result.plugins[0])
                recorder.gated(pod, Outcome.gated(info, gate).decision())

    def _conclude(self, result: PodResult, pod: Pod | None, evicted_by: str) -> None:
        """Sets the outcome of a pod."""
        if pod is None or pod.metadata.deletion_timestamp is not None:
            result.outcome = EVICTED if evicted_by else FINISHED
            result.evicted_by = evicted_by
        elif pod.status.phase in FINISHED_PHASES:
            result.outcome = FINISHED
        elif pod.spec.node_name:
            result.outcome, result.node = PLACED, pod.spec.node_name
        elif profile_of(pod) not in self._scheduler.profiles:
            result.outcome = NOT_OURS
        else:
            self._conclude_pending(result, pod)

    def _conclude_pending(self, result: PodResult, pod: Pod) -> None:
        uid = pod.metadata.uid
        queue, nominator = self._scheduler.queue, self._scheduler.cache.nominator
        if queue.queue_of(uid) is QueueName.GATED:
            framework = self._scheduler.profiles[profile_of(pod)]
            try:
                gate = framework.pre_enqueue(PodInfo(pod))
            except PluginError as error:
                result.outcome, result.message = FAILED, error.located
                return
            if gate is not None:
                result.outcome, result.plugins = GATED, [gate.plugin]
                result.message, result.reasons = gate.message, {gate.message: 1}
        elif nominator.node_of(uid) and result.victims:
            result.outcome, result.nominated_node = WAITING, nominator.node_of(uid) or ""


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silences the warnings of the scheduler: the results have the errors of all attempts."""
    logger = logging.getLogger("mooring.scheduler")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
