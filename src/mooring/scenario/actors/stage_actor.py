"""Leads pods and nodes through their stages, on virtual time.

::

    an object appears or changes ──> the stages that match ──> one of them, by weight
              ▲                                                      │ delay
              └────────────── its status, finalizers, deletion <─────┘

With stages for pods, nothing else starts, ends or removes them: as with KWOK, which takes the part
of all kubelets. A change of an object lets the delay of its next stage begin again.

Source: KWOK's pkg/kwok/controllers (pod_controller.go, node_controller.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from mooring.apiserver.errors import ApiStatusError
from mooring.chance import Streams
from mooring.clock import Clock, Rng, rfc3339
from mooring.errors import ConfigError, SchedulerError
from mooring.objects.meta import key
from mooring.objects.node import Node, NodeCondition
from mooring.objects.pod import FINISHED_PHASES, Pod, PodCondition
from mooring.objects.quantity import Quantity
from mooring.scenario.stages.stage import Effect, Stage, chosen
from mooring.scenario.stages.surroundings import NODE_CONDITIONS, status_after
from mooring.scenario.stages.template_syntax import TemplateError
from mooring.simulation.engine.engine import PHASE_NODES, PHASE_PODS, Engine

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.scenario.node_life import NodeLife
    from mooring.scenario.run_times import RunTimes
    from mooring.simulation.engine.object_table import ObjectTable

#: An object that enters more stages at one instant is in a circle without delays.
STAGES_AT_ONCE_MAX: Final = 100
#: The same for a run without an end.
STAGES_WITHOUT_END_MAX: Final = 10_000
_PHASES: Final = ("", "Pending", "Running", "Unknown", *FINISHED_PHASES)
_READY: Final = "Ready"
_PRESSURES: Final = tuple(name for name, _, _ in NODE_CONDITIONS if name != _READY)
#: Fields that change whenever a status is written.
_TIMES: Final = frozenset(
    {
        *("lastHeartbeatTime", "lastTransitionTime", "lastProbeTime", "startTime"),
        *("startedAt", "finishedAt"),
    }
)


class _Life:
    """One object that goes through stages."""

    __slots__ = (
        "at_s", "extra", "finalizers", "generation", "is_changing", "key", "kind", "n_at_once",
        "n_stages", "number", "rng", "uid",
    )  # fmt: skip

    def __init__(self, kind: str, obj: Any, number: int, rng: Rng) -> None:
        self.kind = kind
        self.key = key(obj)
        self.uid = obj.metadata.uid
        self.number = number
        self.rng = rng
        self.finalizers = list(obj.metadata.finalizers)
        #: Fields of the status that no struct has.
        self.extra: dict[str, Any] = {}
        #: Of the plan: an older one means nothing any more.
        self.generation = 0
        self.is_changing = False
        self.n_stages = self.n_at_once = 0
        self.at_s = -1.0


class StageActor:
    """Leads the pods and nodes of a run through stages.

    Args:
        stages: The stages of all kinds.
        table: The objects.
        engine: Calls back.
        run_times: Ends pods.
        nodes: Marks nodes that are not ready.
        clock: Virtual time.
        streams: Of the run: each object has its own.
        has_end: Whether the run ends at a time.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        table: ObjectTable,
        engine: Engine,
        run_times: RunTimes,
        nodes: NodeLife,
        clock: Clock,
        streams: Streams,
        has_end: bool,
    ) -> None:
        self._stages = {
            kind: own
            for kind in ("Node", "Pod")
            if (own := [stage for stage in stages if stage.kind == kind])
        }
        self._table = table
        self._engine = engine
        self._run_times = run_times
        self._nodes = nodes
        self._clock = clock
        self._streams = streams
        self._has_end = has_end
        self._lives: dict[tuple[str, str], _Life] = {}
        self._count = 0
        if "Pod" in self._stages:
            run_times.begin_elsewhere = self.begin

    @property
    def removes_pods(self) -> bool:
        """True if deleted pods stay until a stage removes them."""
        return any(stage.deletes for stage in self._stages.get("Pod", ()))

    def start(self) -> None:
        """Watches the objects; nodes that are there enter their first stages."""
        if "Node" in self._stages:
            for node in [*self._table.objects("Node").values()]:
                self._follow("Node", node)
        self._table.listen(self.on_change, self._stages)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows a write."""
        old, new = change.old, change.new
        if kind not in self._stages:
            return
        if new is None:
            self._lives.pop((kind, key(old)), None)
        elif kind == "Node" or (old is not None and old.spec.node_name):
            self._follow(kind, new)

    def begin(self, pod: Pod) -> None:
        """Follows a pod that is on its node now, or whose node is back."""
        self._follow("Pod", pod)

    def _follow(self, kind: str, obj: Any) -> None:
        if kind == "Pod" and not obj.spec.node_name:
            return
        place = kind, key(obj)
        life = self._lives.get(place)
        if life is None or life.uid != obj.metadata.uid:
            self._count += 1
            rng = self._streams.stream("stages", *place)
            life = self._lives[place] = _Life(kind, obj, self._count, rng)
        if not life.is_changing:
            self._plan(life)

    # -- the next stage ---------------------------------------------------------------------------

    def _plan(self, life: _Life) -> None:
        """Plans the next stage of an object; an earlier plan is dropped."""
        life.generation += 1
        obj = self._table.objects(life.kind).get(life.key)
        if obj is None or (life.kind == "Pod" and obj.spec.node_name in self._nodes.down):
            return
        view = self._view(life, obj)
        stage, is_only = chosen(self._stages[life.kind], view, life.rng)
        if stage is None:
            return
        delay_s = stage.delay_s(view, self._clock.wall_s(), life.rng)
        is_node = life.kind == "Node"
        if is_node and delay_s and not life.n_stages and _ready_of(view["status"]) is None:
            # As by admission: a node that has not said that it is ready takes no pods.
            life.is_changing = True
            self._nodes.mark(life.key, "False", evicts=False)
            life.is_changing = False
        self._engine.call_at(
            self._clock.monotonic_s() + delay_s,
            PHASE_NODES if is_node else PHASE_PODS,
            partial(self._enter, life, life.generation, stage, is_only),
        )

    def _enter(self, life: _Life, generation: int, stage: Stage, is_only: bool) -> None:
        """Lets an object enter the stage that was planned."""
        if life.generation != generation or self._lives.get((life.kind, life.key)) is not life:
            return
        self._count_stage(life, stage)
        life.is_changing = True
        try:
            is_changed = self._apply(life, stage)
        finally:
            life.is_changing = False
        # A stage that changes nothing would come again and again, to no effect.
        if (is_changed or not is_only) and self._lives.get((life.kind, life.key)) is life:
            self._plan(life)

    def _count_stage(self, life: _Life, stage: Stage) -> None:
        """Counts the stages of an object.

        Raises:
            ConfigError: there is no end of them.
        """
        now_s = self._clock.monotonic_s()
        life.n_stages += 1
        life.n_at_once = life.n_at_once + 1 if life.at_s == now_s else 1
        life.at_s = now_s
        if life.n_at_once > STAGES_AT_ONCE_MAX:
            raise _error(life, stage, f"enters {STAGES_AT_ONCE_MAX} stages at one instant")
        if not self._has_end and life.n_stages > STAGES_WITHOUT_END_MAX:
            problem = f"has entered {STAGES_WITHOUT_END_MAX} stages: give the scenario an end.at"
            raise _error(life, stage, problem)

    # -- effects ----------------------------------------------------------------------------------

    def _apply(self, life: _Life, stage: Stage) -> bool:
        """Does what a stage does; returns whether the object has changed.

        Raises:
            ConfigError: it cannot be done.
        """
        is_changed = is_deleted = False
        for effect in stage.effects:
            finalizers = effect.finalizers_after(life.finalizers)
            is_changed |= finalizers != life.finalizers
            life.finalizers = finalizers
            if effect.deletes:
                is_changed = is_deleted = True
                self._delete(life)
            elif effect.template is not None and not is_deleted:
                is_changed |= self._patch_status(life, stage, effect)
        return is_changed

    def _delete(self, life: _Life) -> None:
        if life.kind == "Node":
            self._nodes.remove(life.key)
            return
        with suppress(SchedulerError):
            # With finalizers it is marked as deleted, and stays until a stage takes them away.
            grace_s = None if life.finalizers else 0
            self._table.delete("Pod", life.key, uid=life.uid, grace_period_s=grace_s)

    def _patch_status(self, life: _Life, stage: Stage, effect: Effect) -> bool:
        obj = self._table.objects(life.kind).get(life.key)
        assert effect.template is not None
        if obj is None:
            return False
        view = self._view(life, obj)
        try:
            now = rfc3339(self._clock.wall_s())
            _, merged = status_after(effect.template, view, life.kind, life.number, now)
            conditions = merged.get("conditions") or []
            if life.kind == "Pod":
                own = msgspec.convert(conditions, tuple[PodCondition, ...])
                self._set_pod(life, stage, obj, merged, own)
            else:
                self._set_node(
                    life, stage, obj, merged, msgspec.convert(conditions, tuple[NodeCondition, ...])
                )
        except (TemplateError, msgspec.ValidationError, ApiStatusError) as error:
            raise _error(life, stage, f"its template {error}") from error
        return bool(_timeless(merged) != _timeless(view["status"]))

    def _set_pod(
        self,
        life: _Life,
        stage: Stage,
        pod: Pod,
        status: Mapping[str, Any],
        conditions: tuple[PodCondition, ...],
    ) -> None:
        phase = status.get("phase") or ""
        if phase not in _PHASES:
            raise _error(life, stage, f"there is no phase {phase!r}")
        life.extra = _without(status, "phase", "conditions")
        if pod.status.phase in FINISHED_PHASES:
            if phase != pod.status.phase:
                problem = f"a pod that has {pod.status.phase.lower()} keeps its phase"
                raise _error(life, stage, problem)
            return
        changed = replace(pod, status=replace(pod.status, conditions=conditions))
        if phase in FINISHED_PHASES:
            self._run_times.finish(changed, phase)
            return
        if phase == "Running":
            self._run_times.note_running(life.key)
        if phase != pod.status.phase or conditions != pod.status.conditions:
            self._table.put(replace(changed, status=replace(changed.status, phase=phase)))

    def _set_node(
        self,
        life: _Life,
        stage: Stage,
        node: Node,
        status: Mapping[str, Any],
        conditions: tuple[NodeCondition, ...],
    ) -> None:
        for condition in conditions:
            if condition.type in _PRESSURES and condition.status == "True":
                problem = f"nodes have no {condition.type} here: what follows is not simulated"
                raise _error(life, stage, problem)
        amounts = {
            name: _amounts(life, stage, status.get(name) or {})
            for name in ("allocatable", "capacity")
        }
        life.extra = _without(status, "conditions", "allocatable", "capacity")
        own = replace(node.status, conditions=conditions, **amounts)
        if own != node.status:
            self._table.put(replace(node, status=own))
        ready = _ready_of(status)
        if ready is not None:
            self._nodes.mark(life.key, ready)

    # -- views ------------------------------------------------------------------------------------

    def _view(self, life: _Life, obj: Any) -> dict[str, Any]:
        """Returns an object as JSON, as KWOK would see it."""
        view: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
        metadata = {**view.get("metadata", {}), "finalizers": life.finalizers}
        if not life.finalizers:
            del metadata["finalizers"]
        return {**view, "metadata": metadata, "status": {**view.get("status", {}), **life.extra}}


def _amounts(life: _Life, stage: Stage, amounts: Any) -> dict[str, Any]:
    """Returns amounts of resources as a node has them."""
    if not isinstance(amounts, dict):
        raise _error(life, stage, f"its template gives no amounts, but {amounts!r:.40}")
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, str | int | float):
            raise _error(life, stage, f"its template gives no amount of {name}: {amount!r:.40}")
        try:
            Quantity.parse(str(amount))
        except ValueError as error:
            raise _error(life, stage, f"its template gives no amount of {name}: {error}") from error
    return amounts


def _ready_of(status: Mapping[str, Any]) -> str | None:
    """Returns the status of the condition Ready; None = there is none."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == _READY:
            return str(condition.get("status"))
    return None


def _without(status: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in names}


def _timeless(value: Any) -> Any:
    """Returns a value without the times in it."""
    if isinstance(value, dict):
        return {name: _timeless(own) for name, own in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value


def _error(life: _Life, stage: Stage, problem: str) -> ConfigError:
    return ConfigError(f"stage {stage.name} of {life.kind} {life.key}: {problem}", file=stage.where)
