"""The endpoint slice controller of an in-memory cluster: slices list the addresses of pods.

The API server makes the slice of a Service that has a selector; this module fills it. Pods are
watched from the first such Service on: most clusters have none.

Source: k8s.io/endpointslice (podToEndpoint, getEndpointPorts, ShouldPodBeInEndpoints).
Differs: a Service has one slice with at most ``ENDPOINTS_MAX`` endpoints, and pods whose named
ports have other numbers than those of the first pod are left out; addresses are IPv4; Endpoints
objects are not written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.rest.client import Patch
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import SchedulerError
from mooring.objects.kinds import Kind
from mooring.objects.meta import ApiStruct, ObjectMeta, controller_of, key
from mooring.objects.pod import FINISHED_PHASES
from mooring.objects.selectors import selector_of_labels
from mooring.simulation.controllers.objects import Json, Workload

#: The API server accepts no more in one slice.
ENDPOINTS_MAX: Final = 1000
ZONE: Final = "topology.kubernetes.io/zone"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_CONTROLLER: Final = "endpointslice-controller.k8s.io"

_log = logging.getLogger(__name__)


class EndpointSlice(ApiStruct, frozen=True, kw_only=True):
    """A slice; endpoints and ports are JSON."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None


# Spec and status as JSON: the scheduler's structs leave out addresses and ports.
_SERVICES: Final = Kind("Service", Workload, "", "v1", "services", namespaced=True)
_PODS: Final = Kind("Pod", Workload, "", "v1", "pods", namespaced=True)
_SLICES: Final = Kind(
    "EndpointSlice", EndpointSlice, "discovery.k8s.io", "v1", "endpointslices", namespaced=True
)


class EndpointActor:
    """Writes the endpoints of Services.

    Args:
        client: A client that may patch endpoint slices.
        clock: For the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
        self._first = Informer(
            client, _SERVICES, self._on_first_service, clock=clock, rng=rng, sleep=sleep
        )
        self._is_needed = asyncio.Event()
        #: Keys of Services that are queued.
        self._queued: set[str] = set()
        self._work: WorkQueue[str] = WorkQueue(
            client,
            {
                "Node": lambda _: None,
                _SERVICES.name: self._on_service,
                _PODS.name: self._on_pod,
                _SLICES.name: self._on_slice,
            },
            self._sync,
            _log_failure,
            kinds=[_SERVICES, _PODS, _SLICES],
            clock=clock,
            rng=rng,
            sleep=sleep,
        )

    async def run(self) -> None:
        """Writes endpoints until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(self._first.run())
            await self._is_needed.wait()
            first.cancel()
            await self._work.run()

    # -- events -----------------------------------------------------------------------------------

    def _on_first_service(self, change: ObjectChange) -> None:
        if change.new is not None and _has_endpoints(change.new):
            self._is_needed.set()

    def _on_service(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._add(key(change.new))

    def _on_slice(self, change: ObjectChange) -> None:
        endpoint_slice: EndpointSlice = change.new or change.old
        owner = controller_of(endpoint_slice.metadata)
        if owner is not None and owner.kind == "Service":
            self._add(f"{endpoint_slice.metadata.namespace}/{owner.name}")

    def _on_pod(self, change: ObjectChange) -> None:
        pods = [pod for pod in (change.old, change.new) if pod is not None]
        for service_key, service in self._work.objects(_SERVICES.name).items():
            if service.metadata.namespace == pods[0].metadata.namespace and any(
                _selects(service, pod) for pod in pods
            ):
                self._add(service_key)

    def _add(self, service_key: str) -> None:
        if service_key not in self._queued:
            self._queued.add(service_key)
            self._work.add(service_key)

    # -- writes -----------------------------------------------------------------------------------

    async def _sync(self, service_key: str) -> None:
        self._queued.discard(service_key)
        service: Workload | None = self._work.objects(_SERVICES.name).get(service_key)
        if service is None or service.is_deleted or not _has_endpoints(service):
            return
        endpoint_slice = self._slice_of(service)
        if endpoint_slice is None:
            return  # the API server makes it, and its event queues the Service again
        endpoints, ports = self._content(service)
        if endpoints == (endpoint_slice.endpoints or []) and ports == (endpoint_slice.ports or []):
            return
        metadata = endpoint_slice.metadata
        patch = {
            "metadata": {"uid": metadata.uid},
            "endpoints": endpoints,
            "ports": ports,
        }
        path = path_of(_SLICES, metadata.namespace, metadata.name)
        body = msgspec.json.encode(patch)
        await self._client.write("PATCH", path, body, content_type=Patch.MERGE.value)

    def _slice_of(self, service: Workload) -> EndpointSlice | None:
        """Returns the slice that the API server made for a Service."""
        for endpoint_slice in self._work.objects(_SLICES.name).values():
            owner = controller_of(endpoint_slice.metadata)
            is_own = owner is not None and owner.uid == service.metadata.uid
            if is_own and endpoint_slice.metadata.labels.get(_MANAGED_BY) == _CONTROLLER:
                return endpoint_slice  # type: ignore[no-any-return]
        return None

    def _content(self, service: Workload) -> tuple[list[Json], list[Json]]:
        """Returns the endpoints and the ports of a Service."""
        endpoints: list[Json] = []
        ports: list[Json] | None = None
        for pod in self._pods_of(service):
            pod_ports = ports_of(service, pod)
            if ports is None:
                ports = pod_ports
            if pod_ports == ports and len(endpoints) < ENDPOINTS_MAX:
                node = self._work.objects("Node").get(pod.spec.get("nodeName", ""))
                zone = "" if node is None else node.metadata.labels.get(ZONE, "")
                endpoints.append(endpoint_of(service, pod, zone))
        return endpoints, ports or []

    def _pods_of(self, service: Workload) -> Iterable[Workload]:
        """Returns the pods with an address that a Service selects, in order of their names."""
        selector = selector_of_labels(service.spec["selector"])
        pods = [
            pod
            for pod in self._work.objects(_PODS.name).values()
            if pod.metadata.namespace == service.metadata.namespace
            and selector.matches(pod.metadata.labels)
            and pod.status.get("podIP")
            and pod.status.get("phase") not in FINISHED_PHASES
        ]
        return sorted(pods, key=lambda pod: pod.metadata.name)


def endpoint_of(service: Workload, pod: Workload, zone: str) -> Json:
    """Returns the endpoint of a pod; terminating pods stay in the slice, and are not ready."""
    conditions = pod.status.get("conditions") or ()
    is_serving = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    publishes_all = bool(service.spec.get("publishNotReadyAddresses"))
    endpoint: Json = {
        "addresses": [pod.status["podIP"]],
        "conditions": {
            "ready": publishes_all or (is_serving and not pod.is_deleted),
            "serving": is_serving,
            "terminating": pod.is_deleted,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.get("nodeName"):
        endpoint["nodeName"] = pod.spec["nodeName"]
    if zone:
        endpoint["zone"] = zone
    subdomain = pod.spec.get("subdomain")
    if pod.spec.get("hostname") and subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec["hostname"]
    return endpoint


def ports_of(service: Workload, pod: Workload) -> list[Json]:
    """Returns the ports of a Service at a pod; a named port that the pod lacks is left out."""
    ports: list[Json] = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = port.get("targetPort") or port["port"]
        if isinstance(number, str):
            number = _named_port(pod, number, protocol)
        if number is None:
            continue
        entry: Json = {"name": port.get("name", ""), "port": number, "protocol": protocol}
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        ports.append(entry)
    return ports


def _named_port(pod: Workload, name: str, protocol: str) -> int | None:
    for container in pod.spec.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _has_endpoints(service: Workload) -> bool:
    return bool(service.spec.get("selector")) and service.spec.get("type") != "ExternalName"


def _selects(service: Workload, pod: Workload) -> bool:
    selector: dict[str, str] = service.spec.get("selector") or {}
    return bool(selector) and selector_of_labels(selector).matches(pod.metadata.labels)


def _log_failure(service_key: str, error: SchedulerError) -> None:
    _log.info("endpoints not written", extra={"service": service_key, "error": str(error)})
