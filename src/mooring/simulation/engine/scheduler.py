"""The scheduler of a simulation: the parts of a running one, over a table of objects.

Queue, event handlers, framework, binding cycle, preemption and status writer are those of
``mooring run``. Three parts differ: the table replaces the informers, a binding that cannot wait is
no task, and no events are recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from mooring.client import Informer, ObjectChange, Recorder
from mooring.clock import Clock, Rng, rfc3339
from mooring.config import KubeSchedulerConfiguration
from mooring.errors import InvariantViolation
from mooring.objects.pod import Pod
from mooring.plugins import IN_TREE
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_cycle import BindingContext
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.parts import SchedulerParts, ServiceOptions
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.simulation.engine.object_table import ObjectTable, living
from mooring.simulation.engine.table_client import TableClient
from mooring.state import PodInfo

#: The plugins whose ``pre_bind`` does not wait for a pod without volumes and claims.
_IN_TREE: Final[frozenset[str]] = frozenset(IN_TREE)


class EngineScheduler(SchedulerParts):
    """A scheduler whose API server is a table.

    Args:
        table: The objects of the cluster.
        config: With defaults; without extenders.
        options: As of a running scheduler.
        clock: That of the virtual loop.
        rng: For everything.
    """

    def __init__(
        self,
        table: ObjectTable,
        config: KubeSchedulerConfiguration,
        options: ServiceOptions,
        *,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._table = table
        #: The last second in which a pod was started, and its text.
        self._started = (-1, "")
        client = TableClient(table, rng=rng)
        super().__init__(client, config, options, clock=clock, rng=rng, sleep=asyncio.sleep)
        self._kinds = frozenset(self.informers)
        for framework in self.profiles.values():
            framework.timed_every, framework.is_timed = 0, False  # there are no metrics

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Reads the table, and starts what runs in the background; the caller cancels it."""
        self.bindings.open(tasks)
        self.preemption_executor.open(tasks)
        for kind, obj in self._table.listed():
            self.on_change(kind, ObjectChange(None, obj))
        self._table.listen(self.on_change)
        return [tasks.create_task(self.writer.run())]

    def stop(self) -> None:
        """Cancels the bindings and preemptions that still wait."""
        self.bindings.cancel()
        self.preemption_executor.cancel()
        self.handle.claim_writer.cancel()

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Passes a write on, if the scheduler watches the kind."""
        if kind not in self._kinds:
            return
        if kind == "Pod":
            of_living = living(change)
            if of_living is None:
                return
            change = of_living
        self.events.on_change(kind, change)

    @property
    def has_tasks(self) -> bool:
        """True if a binding, a preemption or a write is under way, or waits for something."""
        return bool(
            len(self.bindings)
            or len(self.preemption_executor)
            or len(self.writer)
            or len(self.handle.claim_writer)
        )

    # -- parts that differ ------------------------------------------------------------------------

    @property
    def _pods(self) -> Mapping[str, Pod]:
        return self._table.objects("Pod")

    def store(self, kind: str) -> Mapping[str, Any] | None:
        """Returns the objects of a kind."""
        return self._table.objects(kind)

    def _make_handle(self) -> PluginHandle:
        return TableHandle(
            self.cache,
            self._client,
            clock=self._clock,
            rng=self._rng,
            backend=self,
            table=self._table,
            recorder=self._metrics_recorder,
        )

    def _make_bind_verifier(self) -> BindVerifier:
        return _NothingToVerify(self._client, self.cache, self.queue, self._pods, clock=self._clock)

    def _make_bindings(self, limit: int) -> BindingTasks:
        return InlineBindings(self._rng, limit=limit)

    def _recorder(self, controller: str, instance: str) -> Recorder:
        return _NoEvents(
            self._client,
            controller=controller,
            instance=instance,
            clock=self._clock,
            rng=self._rng,
            sleep=self._sleep,
        )

    def _start_time(self) -> str:
        """Returns the time of now: the kubelet of a bound pod starts it at once."""
        second = int(self._clock.wall_s())
        if second != self._started[0]:
            self._started = second, rfc3339(second)
        return self._started[1]

    def _informer(self, kind: str) -> Informer:
        return Informer(self._client, kind, lambda _: None, clock=self._clock, rng=self._rng)


class TableHandle(PluginHandle):
    """The handle of plugins; a binding is one write to the table."""

    def __init__(self, *arguments: Any, table: ObjectTable, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = table

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod.

        Raises:
            Conflict, NotFound: it is refused.
        """
        placed = self._cache.pods.get(pod.uid)
        assumed = None if placed is None else placed.info.pod
        self._table.bind(pod.pod, node_name, as_assumed=assumed)


class InlineBindings(BindingTasks):
    """Runs a binding cycle to its end at once, if nothing in it can wait.

    Args:
        rng: As for ``BindingTasks``.
        limit: As for ``BindingTasks``.
    """

    def __init__(self, rng: Rng, *, limit: int) -> None:
        super().__init__(rng, limit=limit)
        #: schedulerName -> whether a plugin of the profile that is not in-tree may wait.
        self._may_wait: dict[str, bool] = {}

    def request(self, namespace: str) -> None:
        """Returns None: a write to a table takes no time, so none is in progress."""

    def start(self, binding: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a binding; as a task if a plugin may wait in it."""
        assert isinstance(binding, partial)
        if self._waits(binding.args[0]):
            super().start(binding)
            return
        work = binding()
        try:
            work.send(None)
        except StopIteration:
            return
        work.close()
        raise InvariantViolation("a binding cycle waited that must not")

    def _waits(self, binding_ctx: BindingContext) -> bool:
        """Returns whether a binding cycle may wait: in Permit, PreBind or Bind."""
        cycle, framework = binding_ctx.cycle, binding_ctx.framework
        spec = cycle.pod.spec
        if binding_ctx.waiting is not None or spec.volumes or spec.resource_claims:
            return True
        if len(cycle.snapshot.device_classes):
            return True
        may_wait = self._may_wait.get(cycle.profile)
        if may_wait is None:
            plugins = (*framework.plugins("pre_bind"), *framework.plugins("bind"))
            may_wait = any(plugin.name not in _IN_TREE for plugin in plugins)
            self._may_wait[cycle.profile] = may_wait
        return may_wait


class _NothingToVerify(BindVerifier):
    """Does not track bindings: the table has confirmed them."""

    def track(self, pod: PodInfo, node_name: str) -> None:
        """Does nothing."""


class _NoEvents(Recorder):
    """Records no events."""

    def record(self, *_: Any, **__: Any) -> None:
        """Does nothing."""
