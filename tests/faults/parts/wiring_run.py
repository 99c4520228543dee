"""A scheduler that is built from a drawn configuration and drawn options, with all its parts.

The whole runs have the default configuration. Here profiles, backoffs, extenders, feature gates and
options differ, and the scheduler runs for a minute over a sound API server. What must follow from
them is written down once more: which kinds it watches, and with which selector; who is named in
its events; when failed pods are retried; how many bindings run at the same time; what plugins,
observers, extenders and metrics get; and, without a kind of a feature that is on, that it waits.

Source: cmd/kube-scheduler/app/server.go (Setup, Run), pkg/scheduler/scheduler.go (New).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.client import Client, InProcessTransport, Request
from mooring.client.transport.transport import Response, Stream
from mooring.clock import seeded_random
from mooring.config import from_document
from mooring.metrics.registry import Metrics
from mooring.objects.meta import Lease, ObjectMeta
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service, ServiceOptions
from mooring.virtual_loop import LoopClock
from tests.faults.parts.virtual_runs import check_run
from tests.faults.parts.wiring_checks import ABSENT, BIND_S, EARLY_S, STORAGE, WiringChecks
from tests.faults.parts.wiring_plugin import ACTIVATED_S, VOLUME_S, Wired

PODS: Final = "/api/v1/namespaces/default/pods"
API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
#: No delayed pod is allowed so early, and so late all others are bound.
COUNTED_S: Final = 1.9
SETTLED_S: Final = 8.0
LEADING_S: Final = 3.0
RUN_S: Final = 60.0
#: Without a drain the last writes take so long at most.
STOPPED_S: Final = 2.5
PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
VOLUMES: Final = "/api/v1/persistentvolumes"
FATES: Final = ("plain", "plain", "plain", "raises", "rejected", "waits", "until")


class Wire:
    """The requests of the scheduler; bindings take a while.

    Args:
        inner: The API server.
        absent: The server has no paths that begin so; "" = it has all.

    Attributes:
        watched: Path -> the field selectors of its lists and watches.
        bindings_max: The most bindings at the same time, until ``is_counted``.
    """

    def __init__(self, inner: InProcessTransport, *, absent: str) -> None:
        self.watched: dict[str, set[str]] = defaultdict(set)
        self.bindings_max = self._bindings = 0
        self.is_counted = False
        self._inner, self._absent = inner, absent

    async def request(self, request: Request) -> Response:
        """Passes a request on."""
        if self._lacks(request):
            status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}
            return Response(404, {}, json.dumps(status).encode())
        if not request.path.endswith("/binding"):
            return await self._inner.request(request)
        self._bindings += 1
        if not self.is_counted:
            self.bindings_max = max(self.bindings_max, self._bindings)
        try:
            await asyncio.sleep(BIND_S)
            return await self._inner.request(request)
        finally:
            self._bindings -= 1

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Passes a list or a watch on."""
        self.watched[request.path].add(dict(request.query).get("fieldSelector", ""))
        absent = request._replace(path="/apis/absent.example/v1/things")
        async with self._inner.stream(
            absent if self._lacks(request) else request, idle_s=idle_s
        ) as stream:
            yield stream

    async def close(self) -> None:
        """Has nothing to close."""

    def _lacks(self, request: Request) -> bool:
        return bool(self._absent) and request.path.startswith(self._absent)


class WiringRun(WiringChecks):
    """One run.

    Attributes:
        problems: What does not follow from the configuration.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seeded_random(seed))
        self._loop = asyncio.get_running_loop()
        self._clock = LoopClock(self._loop)
        self._api = ApiServer(self._clock, seeded_random(seed + 1))
        inner = InProcessTransport(self._api.handle)
        self._user = Client(inner, rng=seeded_random(seed + 2))
        self._wire = Wire(inner, absent=self._absent)
        self._client = Client(self._wire, rng=seeded_random(seed + 3))
        needs = (self._need,)
        self._plugin = Wired(self._clock.monotonic_s, self.problems.append, needs)
        self._releases = 0

    # -- the scheduler ----------------------------------------------------------------------------

    def _service(self) -> Service:
        rng = seeded_random(0)
        if self._is_plain:
            return Service(self._client, clock=self._clock, rng=rng)
        initial_s, longest_s = (1, 1) if self._queue_backoffs else self._backoffs
        document = {
            "apiVersion": API_VERSION,
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": name} for name in self._profiles],
            "podInitialBackoffSeconds": initial_s,
            "podMaxBackoffSeconds": longest_s,
            "extenders": self._extenders,
            "delayCacheUntilActive": self._delays,
        }
        self._metrics = Metrics(clock=self._clock) if self._has_metrics else None
        backoffs = self._queue_backoffs
        options = ServiceOptions(
            queue=QueueOptions(*backoffs) if backoffs is not None else None,
            plugins=[self._plugin],
            feature_gates=self._gates,
            bindings_max=self._bindings_max,
            instance=self._instance,
            observer=self._observer,
            transport_factory=lambda config: partial(self._post, config.url_prefix),
            metrics=self._metrics,
            elector=self._elector() if self._has_elector else None,
        )
        config = from_document(document)
        service = Service(self._client, config, clock=self._clock, rng=rng, options=options)
        self._plugin.handle = service.handle
        return service

    def _elector(self) -> Any:
        """Returns a candidate that leads after a while, for ever."""

        async def leads() -> None:
            await asyncio.sleep(LEADING_S)

        async def stays() -> None:
            await asyncio.sleep(math.inf)

        async def releases() -> None:
            self._releases += 1

        return SimpleNamespace(
            wait_until_leading=leads,
            keep=stays,
            release=releases,
            is_term_over=False,
            failed_at_s=0.0,
            identity="me",
            lease=Lease(metadata=ObjectMeta(name="lease", namespace="default")),
        )

    async def _post(self, url: str, verb: str, body: bytes, _: int) -> bytes:
        """Answers a call of an extender: all nodes are fine, and alike."""
        self._calls[url, verb] += 1
        arguments = json.loads(body)
        is_capable = next(
            it["nodeCacheCapable"] for it in self._extenders if it["urlPrefix"] == url
        )
        if ("NodeNames" if is_capable else "Nodes") not in {k for k, v in arguments.items() if v}:
            self.problems.append(f"{url} {verb} is sent {sorted(arguments)}")
        await asyncio.sleep(0.0)
        if verb == "prioritize":
            return b"[]"
        return json.dumps({it: arguments[it] for it in ("NodeNames", "Nodes")}).encode()

    # -- a run ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Builds a scheduler, creates objects for a minute, and compares what has happened."""
        await self._create(PRIORITIES, "urgent", value=1000)
        for name in ("a", "b"):
            await self._create_node(name, pods=40)
        service = self._service()
        running = asyncio.create_task(service.run())
        await asyncio.sleep(LEADING_S / 2)
        self._check_leading(is_watching=bool(self._wire.watched))
        # As kube-scheduler, it waits for a kind of a gate that is on, but for no other of devices.
        waits = self._gates.get("DRADeviceTaintRules", False)
        waits |= self._absent == STORAGE
        waits |= self._need == ABSENT and not self._is_plain
        with suppress(TimeoutError):
            async with asyncio.timeout(RUN_S):
                await service.wait_until_synced()
        self._check_watched(is_synced=service.has_synced, waits=waits)
        if service.has_synced:
            await self._schedule()
            self._check_pods()
            self._check_metrics()
            self._check_errors(
                {name: it.errors.statistics() for name, it in service.profiles.items()}
            )
        await self._stop(service, running)

    async def _schedule(self) -> None:
        """Creates pods of each fate, and one that has to preempt another one."""
        began_s = self._clock.monotonic_s()
        self._plugin.began_s = began_s
        self._loop.call_later(COUNTED_S, setattr, self._wire, "is_counted", True)
        self._loop.call_later(ACTIVATED_S, self._plugin.activate_rejected)
        fates = [*FATES, *self._rng.choices(FATES, k=5)]
        # No pod of those that raise waits for the bindings of others.
        for number, fate in enumerate(sorted(fates, key=lambda it: (it == "raises", it))):
            if fate == "raises" and self._clock.monotonic_s() < began_s + SETTLED_S:
                await asyncio.sleep(began_s + SETTLED_S - self._clock.monotonic_s())
            profile = self._rng.choice(self._profiles)
            await self._create_pod(f"p{number}", fate, profile)
        await self._create_pod("foreign", "plain", "another-scheduler")
        await asyncio.sleep(VOLUME_S - (self._clock.monotonic_s() - began_s))
        source = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        await self._create(VOLUMES, "late", spec=source | {"hostPath": {"path": "/x"}})
        self._check_waiting_for_volume()
        await asyncio.sleep(10.0)
        await self._create_node("tiny", pods=1, label="tiny")
        await asyncio.sleep(1.0)
        selector = {"nodeSelector": {"size": "tiny"}}
        await self._create_pod("victim", "plain", self._rng.choice(self._profiles), **selector)
        await asyncio.sleep(8.0)
        urgent = selector | {"priorityClassName": "urgent"}
        self._preemptor_of = self._rng.choice(self._profiles)
        await self._create_pod("urgent", "plain", self._preemptor_of, **urgent)
        await asyncio.sleep(10.0)
        await self._create_pod("early", "event", self._rng.choice(self._profiles))
        await asyncio.sleep(EARLY_S)
        await self._create_node("c", pods=40)
        await asyncio.sleep(1.0)
        await self._create_pod("changed", "claim", self._rng.choice(self._profiles))
        await asyncio.sleep(RUN_S)

    async def _stop(self, service: Service, running: asyncio.Task[None]) -> None:
        """Stops the scheduler, which does not wait for a binding that waits for a volume."""
        if not service.is_idle:
            self.problems.append("the scheduler is not idle at the end")
        if service.has_synced:
            await self._create_pod("last", "ever", self._profiles[0])
            await asyncio.sleep(1.0)
        if not self._is_plain and service.is_idle is service.has_synced:
            self.problems.append(f"the scheduler is idle: {service.is_idle}")
        stopped_s = self._clock.monotonic_s()
        service.stop()
        await running
        if self._releases != (self._has_elector and not self._is_plain):
            self.problems.append(f"the lease is released {self._releases} times")
        if self._clock.monotonic_s() > stopped_s + STOPPED_S:
            self.problems.append(f"it stops in {self._clock.monotonic_s() - stopped_s} s")

    async def _create(self, path: str, name: str, labels: Any = None, **more: Any) -> None:
        resource = BY_PATH[_group_of(path)]
        version = "/".join(it for it in _group_of(path)[:2] if it)
        body = {
            "apiVersion": version,
            "kind": resource.kind,
            "metadata": {"name": name, "labels": labels or {}},
            **more,
        }
        await self._user.write("POST", path, json.dumps(body).encode())

    async def _create_node(self, name: str, *, pods: int, label: str = "") -> None:
        room = {"cpu": "64", "memory": "64Gi", "pods": str(pods)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        await self._create("/api/v1/nodes", name, {"size": label}, status=status)

    async def _create_pod(self, name: str, fate: str, profile: str, **more: Any) -> None:
        fate = "plain" if self._is_plain else fate
        self._pods[name] = fate, profile
        resources = {"requests": {"cpu": "10m"}}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        # Without a kubelet only a pod without a grace period can go.
        spec = {"schedulerName": profile, "containers": containers, **more}
        spec["terminationGracePeriodSeconds"] = 0
        await self._create(PODS, name, {"fate": fate}, spec=spec)


def _group_of(path: str) -> tuple[str, str, str]:
    parts = path.strip("/").split("/")
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    return group, version, parts[-1]


def run_wiring(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: something does not follow from the configuration.
    """
    check_run(WiringRun, seed)
