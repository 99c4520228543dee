"""Builds the parts of a running scheduler and connects them.

::

    informers ──> EventHandlers ──> cache, queue ──> Scheduler ──> binding cycles, preemptions
                                                        │
                                   events <── recorders, status writer <──┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mooring.client import Client, Elector, Informer, ObjectChange, Recorder
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.config import Extender, KubeSchedulerConfiguration
from mooring.dra import features_of
from mooring.errors import InvariantViolation
from mooring.framework import Framework
from mooring.framework.status import ClaimChange
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.kinds import GATED_KINDS, kind_named
from mooring.objects.pod import Pod
from mooring.objects.selector_text import LIVING_PODS
from mooring.queue import QueuedPod, QueueOptions, SchedulingQueue
from mooring.queue.watched_kinds import follow_kinds, watched_kinds
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_tasks import BINDINGS_MAX, BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.observer import Observer
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.profiles import load_profiles
from mooring.scheduler.reporting import Reporting, ScheduledNote
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.status_writer import StatusWriter
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state import PodInfo
from mooring.state.cache import Cache

if TYPE_CHECKING:
    from mooring.extenders import Extenders, ExtenderTransport
    from mooring.metrics.registry import Metrics


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Options that the configuration does not have.

    Attributes:
        queue: Backoff and flushing; None = the configuration's.
        plugins: Further plugins: objects, or ``module:attribute``.
        feature_gates: The gates whose value is not the default of kube-scheduler v1.36.
        bindings_max: Bindings with a request in progress at the same time.
        instance: Suffix of the reporting instance of events, after the profile's name.
        observer: Called for everything that happens.
        elector: Acquires the lease; the client's fence has to be its. None = no leader election.
        transport_factory: Makes the transport to an extender; HTTP by default.
        metrics: Records metrics, with the scheduler's clock; None = no metrics.
    """

    queue: QueueOptions | None = None
    plugins: Sequence[str | Any] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    bindings_max: int = BINDINGS_MAX
    instance: str = "mooring"
    observer: Observer = field(default_factory=Observer)
    elector: Elector | None = None
    transport_factory: Callable[[Extender], ExtenderTransport] | None = None
    metrics: Metrics | None = None


class SchedulerParts:
    """The parts of a running scheduler; also the backend of the plugins' handle.

    Args:
        client: The API server.
        config: With defaults.
        options: See ``ServiceOptions``.
        clock: For everything.
        rng: For everything.
        sleep: Waits; tests pass their own.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """

    def __init__(
        self,
        client: Client,
        config: KubeSchedulerConfiguration,
        options: ServiceOptions,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._ready = asyncio.Event()
        self._metrics_recorder = _recorder_of(options.metrics)
        self._gates = options.feature_gates
        self.cache = Cache(features_of(options.feature_gates))
        self.informers: dict[str, Informer] = {}
        self.handle = self._make_handle()
        self.profiles = self._load_profiles(config, options)
        self._config, self._options = config, options
        extenders = self.extenders.asked if config.extenders else ()
        for framework in self.profiles.values():
            framework.set_extenders(extenders, self.handle.random)
        self.queue = SchedulingQueue(
            self.profiles,
            clock=clock,
            options=options.queue or _queue_options(config, options.feature_gates),
            on_ready=self._ready.set,
            on_move=options.observer.moved,
            recorder=self._metrics_recorder,
        )
        listers = self.handle.listers
        self.writer = StatusWriter(client, clock=clock, rng=rng, sleep=sleep)
        self.events = EventHandlers(
            self.cache,
            self.queue,
            self.profiles,
            self.handle.waiting,
            listers=listers,
            resources=follow_kinds(self.profiles, self.queue.resources(), listers),
            on_object=self.handle.object_changed,
            recorder=self._metrics_recorder,
        )
        also = ["DeviceTaintRule"] if self.cache.devices.features.has_taint_rules else []
        kinds = watched_kinds(self.profiles, self.queue.resources(), listers, also)
        self.informers |= {kind: self._informer(kind) for kind in kinds}
        self.handle.is_complete = True
        self.bindings = self._make_bindings(options.bindings_max)
        self.handle.while_waiting = self.bindings.waiting_for_object
        self.recorders = {
            name: self._recorder(name, f"{name}-{options.instance}") for name in self.profiles
        }
        self._reporting = Reporting(self.recorders, self.writer, self._scheduled_notes())
        self._build_background(self._reporting)
        self.scheduler = self._scheduler(self._reporting, options.observer)
        self._connect_metrics(options.metrics)

    def _make_handle(self) -> PluginHandle:
        return PluginHandle(
            self.cache,
            self._client,
            clock=self._clock,
            rng=self._rng,
            backend=self,
            sleep=self._sleep,
            recorder=self._metrics_recorder,
        )

    def _load_profiles(
        self, config: KubeSchedulerConfiguration, options: ServiceOptions
    ) -> dict[str, Framework]:
        return load_profiles(
            config,
            self.handle,
            clock=self._clock,
            waiting=self.handle.waiting,
            plugins=options.plugins,
            gates=options.feature_gates,
        )

    @cached_property
    def extenders(self) -> Extenders:
        """The extenders; built on first use, which a scheduler without extenders does not need."""
        # Imported here: HTTP and TLS, which take longer to import than all the rest.
        from mooring.extenders import Extenders

        return Extenders(
            self._config.extenders,
            self._client,
            clock=self._clock,
            rng=self._rng,
            sleep=self._sleep,
            transport_factory=self._options.transport_factory,
        )

    def _build_background(self, reporting: Reporting) -> None:
        client, clock, sleep = self._client, self._clock, self._sleep
        self.preemption_executor = PreemptionExecutor(
            self.queue,
            self.cache.nominator,
            self.handle,
            self._pods,
            Evictor(client, clock=clock, rng=self._rng, sleep=sleep),
            reporting,
            self._metrics_recorder,
        )
        self.bind_verifier = self._make_bind_verifier()

    def _make_bind_verifier(self) -> BindVerifier:
        return BindVerifier(
            self._client, self.cache, self.queue, self._pods, clock=self._clock, sleep=self._sleep
        )

    def _make_bindings(self, limit: int) -> BindingTasks:
        return BindingTasks(self._rng, limit=limit)

    def _start_time(self) -> str | None:
        """Returns the status.startTime of an assumed pod; None: its kubelet will set it later."""
        return None

    @property
    def _pods(self) -> Mapping[str, Pod]:
        return self.informers["Pod"].objects

    # -- HandleBackend ----------------------------------------------------------------------------

    def activate(self, uids: Iterable[str]) -> None:
        """Moves these pods to the active queue.

        Raises:
            InvariantViolation: a plugin calls it while it is being built.
        """
        queue = getattr(self, "queue", None)
        if queue is None:
            raise InvariantViolation("activate() called before the scheduling queue exists")
        queue.activate(uids)

    def is_preempting(self, uid: str) -> bool:
        """Returns whether victims of this pod are being evicted."""
        return self.preemption_executor.is_running(uid)

    def store(self, kind: str) -> Mapping[str, Any] | None:
        """Returns the objects of a kind, by "namespace/name" or "name"; None = not watched."""
        informer = self.informers.get(kind)
        return informer.objects if informer is not None else None

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Writes an event of type Normal about the pod, for a plugin."""
        self._reporting.reported(pod, reason, action, note)

    # -- parts ------------------------------------------------------------------------------------

    def _scheduler(self, reporting: Reporting, observer: Observer) -> Scheduler:
        scheduler_class = ExtenderScheduler if self._config.extenders else Scheduler
        return scheduler_class(
            self.cache,
            self.queue,
            self.profiles,
            self._pods,
            self.bindings,
            reporting,
            preemptions=self.preemption_executor,
            pods_in_prebind=self.handle.pods_in_prebind,
            gates=self._gates,
            write_claim=self._write_claim,
            on_bound=self.bind_verifier.track,
            buffer_events=self.events.buffer_events,
            clock=self._clock,
            observer=observer,
            recorder=self._metrics_recorder,
            start_time=self._start_time,
        )

    def _write_claim(self, entry: QueuedPod, change: ClaimChange) -> None:
        """Writes the change of a claim; the pod is retried after its backoff if that fails."""
        self.handle.claim_writer.start(change, lambda: self.queue.retry_after_backoff(entry.uid))

    def _connect_metrics(self, metrics: Metrics | None) -> None:
        """Records what the frameworks do, and exposes the state of queue and cache."""
        if metrics is None:
            return
        # Imported here: HTTP and Prometheus, which a scheduler without metrics does not need.
        from mooring.load_metrics.metrics import MeasurementMetrics, metric_caches
        from mooring.scheduler.debugger import record_buffers
        from mooring.scheduler.metrics import SchedulerMetrics

        SchedulerMetrics(self.queue, self.cache, self.profiles, self.bindings).connect(metrics)
        record_buffers(metrics, self)
        metrics.register(self.extenders.metrics.registry)
        caches = metric_caches(self.profiles.values())
        if caches:
            metrics.register(MeasurementMetrics(caches, self._clock))
        metrics.set_pods(lambda: self._pods.values())

    def _scheduled_notes(self) -> dict[str, ScheduledNote]:
        notes = {
            name: framework.profile.scheduled_note() for name, framework in self.profiles.items()
        }
        return {name: note for name, note in notes.items() if note is not None}

    def _recorder(self, controller: str, instance: str) -> Recorder:
        return Recorder(
            self._client,
            controller=controller,
            instance=instance,
            clock=self._clock,
            rng=self._rng,
            sleep=self._sleep,
        )

    def _on_pod(self, change: ObjectChange) -> None:
        self.events.on_change("Pod", change)
        if change.new is None:
            self.writer.forget(change.old.metadata.uid)

    def _informer(self, kind: str) -> Informer:
        return Informer(
            self._client,
            kind,
            self._on_pod if kind == "Pod" else self.events.handler(kind),
            clock=self._clock,
            rng=self._rng,
            field_selector=LIVING_PODS if kind == "Pod" else "",
            # As kube-scheduler, a gate that is on waits for a server with its kind.
            is_optional=kind_named(kind).group == "resource.k8s.io" and kind not in GATED_KINDS,
            sleep=self._sleep,
        )

    def _all_informers(self) -> list[Informer]:
        of_extenders = self.extenders.informers if self._config.extenders else []
        return [*self.informers.values(), *of_extenders]


def _recorder_of(metrics: Metrics | None) -> SchedulerRecorder:
    return NO_SCHEDULER_METRICS if metrics is None else metrics.scheduler


def _queue_options(config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> QueueOptions:
    return QueueOptions(
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
        pop_from_backoff=gates.get("SchedulerPopFromBackoffQ", True),
    )
