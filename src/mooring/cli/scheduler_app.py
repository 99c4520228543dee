"""The program that ``mooring run`` is: HTTPS endpoints, metrics, leader election, the scheduler.

::

    SchedulerApp ── bind ──> the port is ours, nothing has talked to the cluster yet
         └── run ──> endpoints ──> informers ──> the lease ──> scheduling ──> stop

Source: cmd/kube-scheduler/app/server.go (Run).
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from mooring.client import Client, Elector, no_fence
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.metered import MeteredTransport
from mooring.client.transport.rate_limit import limited
from mooring.clock import Clock, Rng
from mooring.component.options import CommandFailed
from mooring.component.version import BINARY_VERSION
from mooring.config.upstream_yaml import upstream_document
from mooring.errors import ConfigError, first_error
from mooring.explain.handler import ExplainHandler
from mooring.explain.running import EXPLAIN_PATH
from mooring.metrics.exposition import Exposition
from mooring.metrics.options import Feature, MetricsOptions
from mooring.metrics.pauses import measure_loop_lag, measured_gc
from mooring.metrics.registry import Metrics
from mooring.queue import QueueOptions
from mooring.scheduler.debugger import CacheAudit, debug_entries, record_buffers
from mooring.scheduler.heap_trim import keep_heap_trimmed
from mooring.scheduler.leader_election import (
    make_candidate,
    make_coordinated_elector,
    make_elector,
)
from mooring.scheduler.metrics import record_audit
from mooring.scheduler.observer import LoggingObserver
from mooring.scheduler.service import Service, ServiceOptions
from mooring.serving.delegates import delegated_transport
from mooring.serving.health import HealthChecks
from mooring.serving.metrics import ServingMetrics
from mooring.serving.options import ServingOptions, SniCertificate
from mooring.serving.routes import Debugging, Endpoints, MetricsRoutes
from mooring.serving.server import SecureServer
from mooring.serving.zpages import Versions
from mooring.watchdog import Watchdog

if TYPE_CHECKING:
    from mooring.client.lease_candidate import Candidate
    from mooring.client.transport.transport import Transport
    from mooring.component.flags import Options
    from mooring.component.klog import LogControl
    from mooring.component.options import Effective

#: The names of the health checks, as upstream.
LEADER_ELECTION = "leaderElection"
HANDLERS_SYNCED = "sched-handler-sync"
SHUTDOWN = "shutdown"
INFORMER_SYNCED = "informer-sync"
#: Ours alone.
QUARANTINE = "quarantine"

_log = logging.getLogger(__name__)


class SchedulerApp:
    """One running scheduler with everything around it.

    Args:
        options: The command line.
        settings: The configuration in effect.
        access: The API server.
        log: Sets the verbosity at run time.
        clock: For everything.
        rng: For everything.
    """

    def __init__(
        self,
        options: Options,
        settings: Effective,
        access: Access,
        log: LogControl,
        *,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._options = options
        self._settings = settings
        self._access = access
        self._log_control = log
        self._clock = clock
        self._rng = rng
        self._service: Service | None = None
        self._is_stopping = False
        self._metrics = Metrics(metrics_options(options, settings), clock=clock)
        self._transport = limited(
            MeteredTransport(
                connect(access, clock=clock, environment=os.environ),
                self._metrics.client,
                server=access.server,
            ),
            settings.rate_limit,
            clock=clock,
        )
        self._elector: Elector | None = None
        self._candidate: Candidate | None = None
        self._delegates = delegate_transports(options, clock)
        self._server = SecureServer(
            serving_options(options),
            self._endpoints(),
            self._health_checks(),
            authentication=self._delegates.get("authentication"),
            authorization=self._delegates.get("authorization"),
            clock=clock,
            rng=rng,
            observer=ServingMetrics(self._metrics),
        )
        record_buffers(self._metrics, self._server)

    def bind(self) -> None:
        """Binds the port, before anything talks to the cluster.

        Raises:
            CommandFailed: the port is in use, or a certificate cannot be read.
        """
        try:
            self._server.bind()
        except ConfigError as error:
            raise CommandFailed(str(error)) from None

    def close(self) -> None:
        """Closes the port, also if nothing was served."""
        self._server.close_listener()

    async def run(self) -> None:
        """Serves and schedules until SIGINT or SIGTERM.

        Raises:
            CommandFailed: it ended without leader election: exit code 1, as kube-scheduler.
            LeaseLost: the lease is lost.
        """
        config = self._settings.config
        elector = self._make_elector()
        service = Service(
            Client(
                self._transport,
                rng=self._rng,
                fence=no_fence if elector is None else elector.fence,
            ),
            config,
            clock=self._clock,
            rng=self._rng,
            options=ServiceOptions(
                queue=QueueOptions(
                    initial_backoff_s=config.pod_initial_backoff_seconds,
                    max_backoff_s=config.pod_max_backoff_seconds,
                    max_unschedulable_s=self._settings.unschedulable_timeout_s,
                    pop_from_backoff=self._settings.gates.enabled("SchedulerPopFromBackoffQ"),
                ),
                plugins=self._options.plugin,
                feature_gates=self._settings.gates.changed,
                instance=os.uname().nodename,
                elector=elector,
                metrics=self._metrics,
                observer=LoggingObserver(),
            ),
        )
        plugins = [
            plugin
            for framework in service.profiles.values()
            for plugin in framework.profile.all_plugins()
        ]
        watchdog = Watchdog(lambda: plugins, clock=self._clock)
        watchdog.handle_signals(self._stop)
        self._service = service
        _dump_on_signal(service)
        version = {"version": self._options.reported_version}
        _log.info("Starting Kubernetes Scheduler", extra=version)
        now = self._clock.monotonic_s
        try:
            await self._server.start()
            names = ", ".join(service.profiles)
            text = f"mooring run: scheduling for {names} on {self._access.server}"
            _log.info("%s", text, extra={"bare": True})
            with watchdog.watch(), measured_gc(self._metrics, now):
                await self._schedule(service)
        finally:
            await self._server.stop()
            for transport in (self._transport, *self._delegates.values()):
                await transport.close()
        if elector is None:
            raise CommandFailed("finished without leader elect")
        _log.info("Requested to terminate, exiting")

    async def _schedule(self, service: Service) -> None:
        """Runs the scheduler; meanwhile measures how late timers are, and answers elections.

        Raises:
            LeaseLost: the lease is lost.
        """
        work: list[Coroutine[Any, Any, None]] = [
            measure_loop_lag(self._metrics, self._clock.monotonic_s, asyncio.sleep),
            _audit(service, self._metrics, self._clock),
            keep_heap_trimmed(),
        ]
        if self._candidate is not None:
            work.append(self._candidate.run())
        await _run_beside(service, work)

    def _make_elector(self) -> Elector | None:
        """Returns the candidate for the lease, and exposes whether it leads."""
        make = make_coordinated_elector if self._is_coordinated else make_elector
        elector = self._elector = make(
            self._transport,
            self._settings.config,
            clock=self._clock,
            rng=self._rng,
            on_slow_path=self._metrics.client.renewed_slowly,
        )
        if elector is None:
            return None
        self._metrics.watch_lease(lambda: elector.is_leading)
        if self._is_coordinated:
            self._candidate = make_candidate(
                self._transport,
                self._settings.config,
                elector,
                binary_version=BINARY_VERSION,
                emulation_version=f"{self._settings.gates.emulation}.0",
                clock=self._clock,
                rng=self._rng,
            )
        return elector

    @property
    def _is_coordinated(self) -> bool:
        """True if kube-apiserver chooses the leader."""
        is_elected = self._settings.config.leader_election.leader_elect
        return is_elected and self._settings.gates.enabled("CoordinatedLeaderElection")

    def _stop(self) -> None:
        self._is_stopping = True
        assert self._service is not None
        self._service.stop()

    # -- endpoints --------------------------------------------------------------------------------

    def _resources(self, form: Exposition) -> tuple[bytes, str]:
        """Returns /metrics/resources: empty on a standby."""
        return self._metrics.expose_resources(form) if self._is_scheduling else (b"", "")

    def _endpoints(self) -> Endpoints:
        metrics, settings, gates = self._metrics, self._settings, self._settings.gates
        control = self._log_control
        return Endpoints(
            metrics=MetricsRoutes(
                metrics=metrics.expose,
                slis=metrics.expose_slis,
                resources=self._resources,
                reset=metrics.reset,
                reset_slis=metrics.reset_slis,
            ),
            configuration=lambda: upstream_document(settings.config),
            flags=self._options.texts if gates.enabled("ComponentFlagz") else None,
            versions=(
                Versions(
                    language=platform.python_version(),
                    binary=BINARY_VERSION,
                    emulation=str(gates.emulation),
                )
                if gates.enabled("ComponentStatusz")
                else None
            ),
            debugging=(
                Debugging(lambda verbosity: _set_verbosity(control, verbosity))
                if settings.config.enable_profiling
                else None
            ),
            more={EXPLAIN_PATH: ExplainHandler(self._scheduling, self._leader, self._clock)},
        )

    def _health_checks(self) -> HealthChecks:
        record = self._metrics.record_healthcheck
        checks = HealthChecks(
            on_result=lambda name, endpoint, passed: record(name, endpoint, passed=passed)
        )
        if self._settings.config.leader_election.leader_elect:
            checks.add(["healthz", "readyz"], LEADER_ELECTION, self._check_lease)
        checks.add(["readyz"], SHUTDOWN, self._check_shutdown)
        checks.add(["readyz"], HANDLERS_SYNCED, self._check_synced)
        plugins = PluginHealth(lambda: self._service)
        checks.add(["readyz"], QUARANTINE, plugins.check, remark=plugins.remark)
        if self._is_coordinated:
            checks.add(["readyz"], INFORMER_SYNCED, self._check_candidate)
        return checks

    def _check_lease(self) -> str | None:
        return self._elector.check_health() if self._elector is not None else None

    def _check_candidate(self) -> str | None:
        return self._candidate.check_synced() if self._candidate is not None else "not started"

    def _check_shutdown(self) -> str | None:
        return "process is shutting down" if self._is_stopping else None

    def _check_synced(self) -> str | None:
        if self._service is not None and self._service.has_listed:
            return None
        return "handlers are not fully synchronized"

    @property
    def _is_scheduling(self) -> bool:
        return self._scheduling() is not None

    def _scheduling(self) -> Service | None:
        """Returns the scheduler if it is scheduling."""
        return self._service if self._service is not None and self._service.has_synced else None

    def _leader(self) -> str:
        return self._elector.leader if self._elector is not None else ""


class PluginHealth:
    """The health check of plugins: it fails if one raises at most pods.

    Args:
        service: Returns the scheduler; None = not started.
    """

    def __init__(self, service: Callable[[], Service | None]) -> None:
        self._service = service

    def check(self) -> str | None:
        """Returns which plugin is broken, or None."""
        service = self._service()
        return service.queue.quarantine.broken_plugin() if service is not None else None

    def remark(self) -> str:
        """Returns the number of quarantined pods, if there are any."""
        service = self._service()
        count = service.queue.quarantined_count if service is not None else 0
        return f"({count} pods are quarantined)" if count else ""


def delegate_transports(options: Options, clock: Clock) -> dict[str, Transport]:
    """Returns the connections for reviews, by purpose: with their kubeconfigs, or as this pod.

    Raises:
        CommandFailed: a kubeconfig cannot be used.
    """
    paths = {
        "authentication": options.authentication.authentication_kubeconfig,
        "authorization": options.authorization.authorization_kubeconfig,
    }
    transports: dict[str, Transport] = {}
    try:
        for name, path in paths.items():
            transport = delegated_transport(path, name, clock=clock, environment=os.environ)
            if transport is not None:
                transports[name] = transport
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    return transports


async def _run_beside(service: Service, work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs the scheduler to its end, and the other work until then."""
    try:
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(coroutine) for coroutine in work]
            await service.run()
            for task in beside:
                task.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def _audit(service: Service, metrics: Metrics, clock: Clock) -> None:
    """Audits the cache, once it is complete."""
    audit = CacheAudit(
        service.cache,
        service.queue,
        service.events,
        lambda kind: service.informers[kind].objects,
        service.profiles,
        clock=clock,
    )
    record_audit(metrics, audit)
    await service.wait_until_synced()
    await audit.run()


def _dump_on_signal(service: Service) -> None:
    """Logs cache and queue on SIGUSR2."""
    loop = asyncio.get_running_loop()

    def dump() -> None:
        nodes, pods = (service.informers[kind].objects.values() for kind in ("Node", "Pod"))
        for entry in debug_entries(service.cache, service.queue, nodes, pods):
            _log.info(entry.message, extra=dict(entry.fields))

    signal.signal(signal.SIGUSR2, lambda *_: loop.call_soon_threadsafe(dump))


def _set_verbosity(control: LogControl, verbosity: int) -> None:
    control.set_verbosity(str(verbosity))


def metrics_options(options: Options, settings: Effective) -> MetricsOptions:
    """Returns the options of the metrics."""
    return MetricsOptions(
        disabled=options.metrics.disabled_metrics,
        allowed_labels=options.metrics.allow_metric_labels,
        features=[
            Feature(item.name, item.stage, item.is_enabled) for item in settings.gates.items()
        ],
    )


def serving_options(options: Options) -> ServingOptions:
    """Returns the options of the HTTPS server."""
    serving, authn, authz = options.serving, options.authentication, options.authorization
    values: dict[str, Any] = {
        "bind_address": serving.bind_address,
        "port": serving.secure_port,
        "cert_dir": serving.cert_dir,
        "tls_cert_file": serving.tls_cert_file,
        "tls_private_key_file": serving.tls_private_key_file,
        "tls_min_version": serving.tls_min_version,
        "tls_cipher_suites": serving.tls_cipher_suites,
        "tls_sni_cert_keys": tuple(SniCertificate(*pair) for pair in serving.tls_sni_cert_key),
        "permit_port_sharing": serving.permit_port_sharing,
        "permit_address_sharing": serving.permit_address_sharing,
        "authentication_skip_lookup": authn.authentication_skip_lookup,
        "authentication_tolerate_lookup_failure": authn.authentication_tolerate_lookup_failure,
        "token_cache_ttl_s": authn.authentication_token_webhook_cache_ttl,
        "client_ca_file": authn.client_ca_file,
        "requestheader_client_ca_file": authn.requestheader_client_ca_file,
        "requestheader_allowed_names": authn.requestheader_allowed_names,
        "requestheader_username_headers": authn.requestheader_username_headers,
        "requestheader_uid_headers": authn.requestheader_uid_headers,
        "requestheader_group_headers": authn.requestheader_group_headers,
        "requestheader_extra_headers_prefix": authn.requestheader_extra_headers_prefix,
        "authorized_ttl_s": authz.authorization_webhook_cache_authorized_ttl,
        "unauthorized_ttl_s": authz.authorization_webhook_cache_unauthorized_ttl,
        "always_allow_paths": authz.authorization_always_allow_paths,
    }
    return ServingOptions(**values)
