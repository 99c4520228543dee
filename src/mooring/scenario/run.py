"""Runs a scenario: what arrives, runs, leaves and fails, on virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from mooring.chance import Streams
from mooring.client import ObjectChange
from mooring.clock import seeded_random
from mooring.config import default_configuration
from mooring.framework import Framework
from mooring.objects.meta import controller_of, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from mooring.scenario.actions import Actions
from mooring.scenario.actors.stage_actor import StageActor
from mooring.scenario.actors.step_player import StepPlayer
from mooring.scenario.arrivals import Creator, arrivals_of_item, arrivals_of_trace
from mooring.scenario.autoscaler import Autoscaler, explanations
from mooring.scenario.curves import Curves
from mooring.scenario.failures import FailureActor
from mooring.scenario.history import History
from mooring.scenario.hooks import RunHooks
from mooring.scenario.node_life import NodeLife
from mooring.scenario.object_reader import named_node
from mooring.scenario.results import Result, RunRecord, result_of
from mooring.scenario.run_times import Draws, RunTimes
from mooring.scenario.scenario import (
    ActionItem,
    ArrivalItem,
    Creation,
    NodeAction,
    Scenario,
    Template,
    TraceItem,
)
from mooring.scenario.template_nodes import TemplateNodes
from mooring.scenario.usage import ClusterUsage, curve_names
from mooring.scheduler.observer import Observer, ObserverGroup
from mooring.scheduler.parts import ServiceOptions
from mooring.simulation.controllers.objects import Workload
from mooring.simulation.engine.claim_controller import ClaimController
from mooring.simulation.engine.disruption_controller import DisruptionController
from mooring.simulation.engine.engine import (
    PHASE_ARRIVALS,
    PHASE_CONTROLLERS,
    PHASE_NODES,
    Engine,
)
from mooring.simulation.engine.kubelets import Kubelets
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.engine.scheduler import EngineScheduler
from mooring.simulation.engine.storage_protection import start_volume_controllers
from mooring.simulation.engine.workload_controllers import WorkloadControllers
from mooring.simulation.inputs.unsupported import without_extenders
from mooring.simulation.run import run_to_end
from mooring.virtual_loop import LoopClock, VirtualLoop

#: A CronJob goes on for as long as the run.
_CRON_RUNS: Final = 1_000_000
NO_HOOKS: Final = RunHooks()
#: What the objects of the files belong to.
CLUSTER_GROUP: Final = "cluster"


class ScenarioRun:
    """One run of a scenario, which can be run once.

    Args:
        scenario: The scenario.
        hooks: Functions that are called during the run.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """

    def __init__(self, scenario: Scenario, hooks: RunHooks = NO_HOOKS) -> None:
        self.scenario = scenario
        self._hooks = hooks
        self._loop = VirtualLoop(before_move=hooks.before_instant)
        try:
            self._build()
        except BaseException:
            self._loop.close()
            raise

    def _build(self) -> None:
        scenario = self.scenario
        self._clock = clock = LoopClock(self._loop)
        self._streams = Streams(scenario.seed)
        objects = [*scenario.objects, *group_nodes(scenario)]
        self._table = ObjectTable(objects, clock=clock)
        self.usage = ClusterUsage(_resources(scenario, objects))
        self.curves = Curves(curve_names(self.usage.resources))
        self.history = History(self.usage, clock=clock)
        observer: Observer = self.history
        if self._hooks.observer is not None:
            observer = ObserverGroup(self.history, self._hooks.observer)
        self._scheduler = EngineScheduler(
            self._table,
            without_extenders(scenario.config or default_configuration()),
            ServiceOptions(
                plugins=scenario.plugins, observer=observer, feature_gates=scenario.gates
            ),
            clock=clock,
            rng=seeded_random(scenario.seed),
        )
        self._workloads = WorkloadControllers(
            self._table,
            scenario.controlled,
            clock=clock,
            rng=self._streams.stream("names"),
            cron_runs=_CRON_RUNS if scenario.end_s is not None else 1,
            starts_pods=False,
            on_store=self._on_workload,
        )
        self._budgets = DisruptionController(
            self._table, self._workloads.cluster, clock=clock, starts_pods=False
        )
        self._engine = Engine(
            self._loop,
            self._scheduler,
            [self._workloads, self._budgets],
            attempt_s=scenario.attempt_s,
        )
        writes_phases = any(map(_is_budget, _all_objects(scenario, objects)))
        self._run_times = RunTimes(
            self._table, self._engine, clock=clock, writes_phases=writes_phases
        )
        self._nodes = NodeLife(
            self._table, self._engine, self._run_times, clock=clock, gates=scenario.gates
        )
        self._build_actors()
        self._defaults = Draws(CLUSTER_GROUP, scenario.defaults, self._streams)
        self.history.group_of = self._group_of
        self.history.running_since = self._run_times.running_since
        self._run_times.on_end = self.history.will_end
        self._run_times.on_running = self._hooks.on_running
        self._nodes.on_evict = self.history.evicted
        self._nodes.on_crash = self.history.crashed
        self._nodes.on_fail = self.history.events.node_failed
        self._autoscaler = self._make_autoscaler(objects) if scenario.groups else None
        self._sampled_s = 0.0
        self._nodes_at_start = sum(isinstance(obj, Node) for obj in objects)

    def _build_actors(self) -> None:
        """Makes what creates, starts and removes pods."""
        scenario, nodes = self.scenario, self._nodes
        self._stages = StageActor(
            scenario.stages,
            table=self._table,
            engine=self._engine,
            run_times=self._run_times,
            nodes=nodes,
            clock=self._clock,
            streams=self._streams,
            has_end=scenario.end_s is not None,
        )
        self._kubelets = Kubelets(
            self._table,
            self._engine,
            clock=self._clock,
            is_away=lambda node: self._stages.removes_pods or node in nodes.down,
        )
        self._creator = Creator(self._table, self._workloads, self._run_times)
        self._actions = Actions(self._table, self._workloads, self._creator, nodes, self._streams)
        self._steps = StepPlayer(
            scenario.steps,
            table=self._table,
            workloads=self._workloads,
            creator=self._creator,
            nodes=nodes,
            streams=self._streams,
        )

    def _make_autoscaler(self, objects: list[Any]) -> Autoscaler:
        scenario = self.scenario
        template_nodes = TemplateNodes(scenario, objects)
        autoscaler = Autoscaler(
            scenario.groups,
            scenario.autoscaler,
            table=self._table,
            engine=self._engine,
            nodes=self._nodes,
            streams=self._streams,
            clock=self._clock,
            template_nodes=template_nodes,
        )
        self.history.on_pending = autoscaler.note_refused
        autoscaler.on_scale_up = self.history.events.scaled_up
        self._table.listen(template_nodes.on_change)
        self._table.listen(autoscaler.on_change)
        return autoscaler

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> Result:
        """Runs to the end, and returns the results.

        Raises:
            ConfigError: an object cannot be created.
        """
        run_to_end(self._loop, self._run())
        self.history.note_gated(self._scheduler.queue.pods())
        record = RunRecord(
            self.scenario,
            self.history,
            self.curves,
            self.usage.resources,
            self._nodes_at_start,
            self._clock.monotonic_s(),
            _notes(self._actions, self._autoscaler),
            _plugins_of(self._scheduler.profiles.values()),
        )
        return result_of(record)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._table.listen(self._before_change)
            if self._hooks.on_change is not None:
                self._table.listen(self._hooks.on_change)
            background = self._scheduler.start(tasks)
            start_volume_controllers(self._table)
            self._table.listen(ClaimController(self._table).on_change)
            self._begin()
            self._kubelets.start()
            self._budgets.start(self._engine)
            self._nodes.start()
            self._workloads.start(self._engine)
            self._table.listen(self._run_times.on_change)
            self._stages.start()
            self._plan()
            try:
                end_s = self.scenario.end_s
                await self._engine.run(math.inf if end_s is None else end_s, self._steps.play_next)
            finally:
                self._scheduler.stop()
                for task in background:
                    task.cancel()
        self._sample()
        self.curves.finish(self._clock.monotonic_s())

    def _begin(self) -> None:
        """Notes the nodes and pods of the start."""
        for node in self._table.objects("Node").values():
            self.usage.on_change("Node", ObjectChange(None, node))
            self.history.on_change("Node", ObjectChange(None, node))
        for pod in [*self._table.objects("Pod").values()]:
            self._draw(pod)
            self.usage.on_change("Pod", ObjectChange(None, pod))
            self.history.on_change("Pod", ObjectChange(None, pod))
            self._run_times.begin(pod)

    def _plan(self) -> None:
        """Plans what arrives and happens."""
        engine, streams = self._engine, self._streams
        if self.scenario.pending:
            engine.call_at(0.0, PHASE_ARRIVALS, self._arrive)
        for item in self.scenario.items:
            if isinstance(item, ArrivalItem):
                arrivals_of_item(item, self._creator, streams, engine).start()
            elif isinstance(item, TraceItem):
                arrivals_of_trace(item, self._creator, streams, engine).start()
            else:
                phase = PHASE_NODES if isinstance(item.action, NodeAction) else PHASE_CONTROLLERS
                engine.call_at(item.at_s, phase, partial(self._actions.do, item))
        for process in self.scenario.failures:
            FailureActor(process, self._table, self._nodes, streams, engine).start()

    def _arrive(self) -> None:
        for pod in self.scenario.pending:
            self._table.create(pod)

    # -- changes ----------------------------------------------------------------------------------

    def _before_change(self, kind: str, change: ObjectChange) -> None:
        """Follows a write, before the scheduler and the controllers."""
        now_s = self._clock.monotonic_s()
        if now_s != self._sampled_s:
            self._sample()
            self._sampled_s = now_s
            if self._hooks.on_instant is not None:
                self._hooks.on_instant(now_s)
        if kind == "Pod":
            new = change.new
            if change.old is None:
                self._draw(new)
            if new is None or new.spec.node_name:
                self._engine.note_progress()
        self.usage.on_change(kind, change)
        self.history.on_change(kind, change)

    def _draw(self, pod: Pod) -> None:
        """Draws the run time of a pod that a controller has created, or that was there."""
        plans, pod_key = self._run_times.plans, key(pod)
        if pod_key in plans:
            return
        owner = controller_of(pod.metadata)
        ends = owner is None or owner.kind == "Job"
        draws = self._creator.draws_for(pod) if owner is not None else None
        plans[pod_key] = (draws or self._defaults).next(pod.metadata.annotations, ends=ends)

    def _group_of(self, pod: Pod) -> str:
        plan = self._run_times.plans.get(key(pod))
        return CLUSTER_GROUP if plan is None else plan.group

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if self._hooks.on_workload is not None:
            self._hooks.on_workload(old, new)
        workload = new if new is not None else old
        if new is None and old is not None and old.kind == "Job":
            self.history.remove_job(old.key)
        elif workload is not None and workload.kind == "Job":
            draws = self._creator.draws_of.get(("Job", workload.key))
            owner = controller_of(workload.metadata)
            if draws is None and owner is not None:
                name = f"{workload.metadata.namespace}/{owner.name}"
                draws = self._creator.draws_of.get((owner.kind, name))
            group = CLUSTER_GROUP if draws is None else draws.group
            self.history.on_job(workload.key, workload.status, group)

    def _sample(self) -> None:
        """Notes what holds from the last instant on."""
        self.curves.set(self._sampled_s, self.usage.point())


def _notes(actions: Actions, autoscaler: Autoscaler | None) -> list[str]:
    """Returns the actions without effect, and why no node was added for pods that wait."""
    refusals = {} if autoscaler is None else autoscaler.refusals
    return [*actions.notes, *explanations(refusals)]


def _all_objects(scenario: Scenario, objects: list[Any]) -> Iterator[Any]:
    """Yields the objects of the start, and those of all templates that are no pods."""
    yield from objects
    for item in scenario.items:
        if isinstance(item, ArrivalItem):
            yield from item.template.others
        elif isinstance(item, ActionItem) and isinstance(item.action, Template):
            yield from item.action.others
    for step in scenario.steps:
        for operation in step.operations:
            if isinstance(operation.action, Creation):
                yield from operation.action.template.others


def _is_budget(obj: Any) -> bool:
    return isinstance(obj, PodDisruptionBudget)


def _resources(scenario: Scenario, objects: list[Any]) -> tuple[str, ...]:
    """Returns the resources that nodes have: cpu and memory first."""
    names: dict[str, None] = {"cpu": None, "memory": None}
    templates = [group.template for group in scenario.groups]
    every = [obj for obj in _all_objects(scenario, objects) if isinstance(obj, Node)]
    for node in [*every, *templates]:
        names |= dict.fromkeys(node.status.allocatable)
    return tuple(name for name in names if name != "pods")


def _plugins_of(frameworks: Iterable[Framework]) -> list[str]:
    """Returns the names of the plugins of all profiles."""
    plugins = [plugin for own in frameworks for plugin in own.profile.all_plugins()]
    return sorted({plugin.name for plugin in plugins})


def group_nodes(scenario: Scenario) -> list[Node]:
    """Returns the nodes that the autoscaler's groups have at the start."""
    return [
        named_node(group.template, f"{group.name}-{number}")
        for group in scenario.groups
        for number in range(group.min)
    ]
