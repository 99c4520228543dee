"""Leads the pods and nodes of an API server through stages: what KWOK does in a cluster.

::

    watch ──> the stage that follows, one of those that match ──delay──> queue ──> writes
      ▲                                                                              │
      └────────────────────────── status, finalizers, deletion <─────────────────────┘

A change of an object lets the delay of its next stage begin again. A stage that changes nothing has
no event, and so it is not entered again.

Source: KWOK's pkg/kwok/controllers (pod_controller.go, node_controller.go).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.apiserver.errors import ApiStatusError
from mooring.client import Client, Informer, ObjectChange, Recorder
from mooring.client.rest.client import Patch
from mooring.client.retry import RetryPolicy
from mooring.clock import Clock, Rng, rfc3339
from mooring.errors import NotFound, SchedulerError
from mooring.objects.kinds import KINDS, Kind
from mooring.objects.meta import key
from mooring.scenario.stages.stage import Effect, Stage, StageEvent, chosen
from mooring.scenario.stages.surroundings import message_for, status_after
from mooring.scenario.stages.template_syntax import TemplateError
from mooring.simulation.controllers.objects import Workload

if TYPE_CHECKING:
    from mooring.chance import Streams

#: An object that enters more stages within a second is in a circle without delays.
STAGES_PER_SECOND_MAX: Final = 100
#: The reporting controller of events.
CONTROLLER: Final = "mooring-stages"
#: The waits after writes that failed.
RETRY: Final = RetryPolicy(math.inf, initial_s=1.0, max_s=60.0, jitter=0.1)
#: Objects changed concurrently.
WORKERS: Final = 4

#: The kinds with stages; their objects as JSON.
_KINDS: Final = {
    "Pod": Kind("Pod", Workload, "", "v1", "pods", namespaced=True),
    "Node": Kind("Node", Workload, "", "v1", "nodes", namespaced=False),
}

_log = logging.getLogger(__name__)


class _Life:
    """One object that goes through stages."""

    def __init__(self, obj: Workload, kind: str, number: int, rng: Rng) -> None:
        self.obj = obj
        self.kind = kind
        self.number = number
        self.rng = rng
        self.timer: asyncio.TimerHandle | None = None
        #: Of the plan: an older one means nothing any more.
        self.generation = 0
        #: Whether a stage is being entered, and whether the object has changed meanwhile.
        self.is_changing = self.has_changed = False
        self.n_in_second = 0
        self.second_began_s = 0.0
        self.is_stopped = False
        #: Writes of the stage in a row that have failed.
        self.n_failed = 0

    @property
    def view(self) -> dict[str, Any]:
        """The object as JSON."""
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.obj))
        return {**document, "status": document.get("status", {})}


class LiveStages:
    """Leads objects through stages.

    Attributes:
        kinds: The kinds that have stages.

    Args:
        client: A client that may change pods and nodes.
        stages: The stages of all kinds.
        clock: For timestamps.
        rng: For the watches.
        streams: Each object has one of its own, as in ``mooring simulate``.
    """

    def __init__(
        self, client: Client, stages: Sequence[Stage], *, clock: Clock, rng: Rng, streams: Streams
    ) -> None:
        self._client = client
        self._clock = clock
        self._streams = streams
        self._stages = {
            kind: own
            for kind in _KINDS
            if (own := [stage for stage in stages if stage.kind == kind])
        }
        self.kinds = frozenset(self._stages)
        self._informers = [
            Informer(client, _KINDS[kind], self._handler(kind), clock=clock, rng=rng)
            for kind in self._stages
        ]
        self._lives: dict[tuple[str, str], _Life] = {}
        self._count = 0
        #: An object, the stage that it enters, and the generation of this plan.
        self._due: asyncio.Queue[tuple[_Life, Stage, int]] = asyncio.Queue()
        self._n_working = 0
        self._recorder = Recorder(
            client, controller=CONTROLLER, instance=CONTROLLER, clock=clock, rng=rng
        )

    @property
    def is_idle(self) -> bool:
        """True if no object is about to change at once."""
        return self._due.empty() and not self._n_working

    async def run(self) -> None:
        """Leads objects through stages until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._informers:
                    tasks.create_task(informer.run())
                tasks.create_task(self._recorder.run())
                for _ in range(WORKERS):
                    tasks.create_task(self._work())
        finally:
            for life in self._lives.values():
                _stop_timer(life)

    # -- the next stage ---------------------------------------------------------------------------

    def _handler(self, kind: str) -> Any:
        return lambda change: self._on_change(kind, change)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        place = kind, key(change.new or change.old)
        life = self._lives.get(place)
        if life is not None and (
            change.new is None or life.obj.metadata.uid != change.new.metadata.uid
        ):
            _stop_timer(self._lives.pop(place))
            life = None
        obj: Workload | None = change.new
        if obj is None or (kind == "Pod" and not obj.spec.get("nodeName")):
            return
        if life is None:
            self._count += 1
            rng = self._streams.stream("stages", *place)
            life = self._lives[place] = _Life(obj, kind, self._count, rng)
        life.obj = obj
        if life.is_changing:
            life.has_changed = True
        else:
            self._plan(life)

    def _plan(self, life: _Life) -> None:
        """Plans the next stage of an object; an earlier plan is dropped."""
        _stop_timer(life)
        if life.is_stopped:
            return
        view = life.view
        stage, _ = chosen(self._stages[life.kind], view, life.rng)
        if stage is None:
            return
        delay_s = stage.delay_s(view, self._clock.wall_s(), life.rng)
        self._enter_later(life, stage, delay_s)

    def _enter_later(self, life: _Life, stage: Stage, delay_s: float) -> None:
        """Enters a stage after a delay, unless the object gets another plan before."""
        plan = life, stage, life.generation
        if delay_s:
            loop = asyncio.get_running_loop()
            life.timer = loop.call_later(delay_s, self._due.put_nowait, plan)
        else:
            self._due.put_nowait(plan)

    # -- effects ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            life, stage, generation = await self._due.get()
            if life.generation != generation or life.is_changing:
                continue  # the object has changed since, and its plan with it
            self._n_working += 1
            life.is_changing, life.has_changed = True, False
            try:
                if self._may_enter(life, stage):
                    await self._enter(life, stage)
                life.n_failed = 0
            except NotFound:
                _stop_timer(life)
            except (TemplateError, ApiStatusError, msgspec.ValidationError) as error:
                self._stop(life, stage, f"its template {error}")
            except SchedulerError as error:
                self._retry(life, stage, error)
            finally:
                self._n_working -= 1
                life.is_changing = False
            if life.has_changed:
                self._plan(life)

    def _retry(self, life: _Life, stage: Stage, error: SchedulerError) -> None:
        """Enters a stage again after a wait; a change of the object replaces this plan."""
        life.n_failed += 1
        wait_s = RETRY.wait_s(life.n_failed, error, life.rng)
        _log.warning(
            "stage not entered",
            extra={**_fields(life, stage, str(error)), "next_try_s": round(wait_s, 1)},
        )
        self._enter_later(life, stage, wait_s)

    def _may_enter(self, life: _Life, stage: Stage) -> bool:
        """Counts the stages of an object; one in a circle without delays is stopped."""
        now_s = self._clock.monotonic_s()
        if now_s - life.second_began_s >= 1:
            life.second_began_s, life.n_in_second = now_s, 0
        life.n_in_second += 1
        if life.n_in_second > STAGES_PER_SECOND_MAX:
            self._stop(life, stage, f"enters {STAGES_PER_SECOND_MAX} stages within a second")
            return False
        return True

    def _stop(self, life: _Life, stage: Stage, problem: str) -> None:
        life.is_stopped = True
        _log.error("object has no more stages", extra=_fields(life, stage, problem))

    async def _enter(self, life: _Life, stage: Stage) -> None:
        """Does what a stage does.

        Raises:
            TemplateError: a template does not apply to the object.
            SchedulerError: a write failed.
        """
        metadata = life.obj.metadata
        view = life.view
        for effect in stage.effects:
            if effect.event is not None:
                self._record(life, view, effect.event)
            before = view["metadata"].get("finalizers", [])
            finalizers = effect.finalizers_after(before)
            if finalizers != before:
                view["metadata"]["finalizers"] = finalizers
                change = {"metadata": {"uid": metadata.uid, "finalizers": finalizers}}
                await self._client.patch(
                    _KINDS[life.kind], metadata.name, change, namespace=metadata.namespace
                )
            if effect.deletes:
                await self._client.delete(
                    life.kind, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_s=0
                )
                return
            if effect.template is not None:
                await self._patch_status(life, view, effect)

    def _record(self, life: _Life, view: dict[str, Any], event: StageEvent) -> None:
        now = rfc3339(self._clock.wall_s())
        self._recorder.record(
            KINDS[life.kind].struct(metadata=life.obj.metadata),
            type=event.type,
            reason=event.reason,
            action=event.reason,
            note=message_for(event.message, view, life.kind, life.number, now),
        )

    async def _patch_status(self, life: _Life, view: dict[str, Any], effect: Effect) -> None:
        assert effect.template is not None
        metadata = life.obj.metadata
        now = rfc3339(self._clock.wall_s())
        patch, merged = status_after(effect.template, view, life.kind, life.number, now)
        if merged == view["status"]:
            return
        view["status"] = merged
        await self._client.patch(
            _KINDS[life.kind],
            metadata.name,
            {"metadata": {"uid": metadata.uid}, "status": patch},
            namespace=metadata.namespace,
            how=Patch.STRATEGIC,
            subresource="status",
        )


def _stop_timer(life: _Life) -> None:
    life.generation += 1
    if life.timer is not None:
        life.timer.cancel()
        life.timer = None


def _fields(life: _Life, stage: Stage, problem: str) -> dict[str, str]:
    return {
        "object": f"{life.kind} {key(life.obj)}",
        "stage": f"{stage.name} ({stage.where})",
        "error": problem,
    }
