"""The controllers of endpoints of an in-memory cluster: slices list the addresses of pods.

The API server makes the first slice of a Service that has a selector; this module fills it, adds
others, and writes the Endpoints object. Pods are watched from the first such Service on: most
clusters have none.

::

    pod changed ──> its Services are queued ──GATHER_S──> each is compared with its slices once

Source: pkg/controller/endpointslice/endpointslice_controller.go and
pkg/controller/endpoint/endpoints_controller.go.
Differs: the annotation with the time of the last change is not written; a Service with a failed
write waits for its next event; Endpoints without a Service are left alone when it starts.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.rest.client import Patch
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.endpoints.content import (
    ZONE,
    endpoint_of,
    has_address,
    has_endpoints,
    ports_of,
    state_of,
)
from mooring.devcluster.endpoints.index import ServiceIndex
from mooring.devcluster.endpoints.slices import (
    CONTROLLER,
    MANAGED_BY,
    SERVICE_NAME,
    Content,
    EndpointSlice,
    Group,
    labels_of,
    plan,
    ports_key,
)
from mooring.devcluster.endpoints.writer import ENDPOINTS, EndpointsWriter
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import NotFound, SchedulerError
from mooring.objects.kinds import Kind
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.simulation.controllers.objects import Json, Workload, owner_reference

#: Changes within so many seconds are one comparison of each Service.
GATHER_S: Final = 0.05

# Spec and status as JSON: the scheduler's structs leave out addresses and ports.
_SERVICES: Final = Kind("Service", Workload, "", "v1", "services", namespaced=True)
_PODS: Final = Kind("Pod", Workload, "", "v1", "pods", namespaced=True)
_SLICES: Final = Kind(
    "EndpointSlice", EndpointSlice, "discovery.k8s.io", "v1", "endpointslices", namespaced=True
)

_log = logging.getLogger(__name__)
_read_slice: Final = msgspec.json.Decoder(EndpointSlice).decode


@dataclass
class _ServiceState:
    """A Service, its slices, and the endpoints of its pods.

    Attributes:
        service: The Service to which ``endpoints`` belong.
        slices: Its slices by name, with own writes that the watch has not reported.
        has_slice: True if the API server has made its first slice.
        endpoints: Key of a pod -> the pod, its zone, and its endpoint with ports and their key.
        lacks_nodes: True if pods were left out because their nodes do not exist.
    """

    service: Workload | None = None
    slices: dict[str, EndpointSlice] = field(default_factory=dict)
    has_slice: bool = False
    endpoints: dict[str, tuple[Workload, str, Json, list[Json], Any]] = field(default_factory=dict)
    lacks_nodes: bool = False


class EndpointActor:
    """Writes the endpoints of Services.

    Args:
        client: A client that may write endpoint slices and Endpoints.
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
        self._index = ServiceIndex()
        self._states: dict[str, _ServiceState] = {}
        #: Key of a slice -> the resourceVersion of the last own write, None = deleted.
        self._written: dict[str, int | None] = {}
        self._old_form = EndpointsWriter(client, lambda: self._work.objects(ENDPOINTS.name))
        self._work: WorkQueue[str] = WorkQueue(
            client,
            {
                "Node": self._on_node,
                _SERVICES.name: self._on_service,
                _PODS.name: self._on_pod,
                _SLICES.name: self._on_slice,
                ENDPOINTS.name: self._on_endpoints,
            },
            self._sync,
            _log_failure,
            kinds=[_SERVICES, _PODS, _SLICES, ENDPOINTS],
            gather_s=GATHER_S,
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
        if change.new is not None and has_endpoints(change.new):
            self._is_needed.set()

    def _on_node(self, change: ObjectChange) -> None:
        if change.old is None:
            for service_key, state in self._states.items():
                if state.lacks_nodes:
                    self._work.add(service_key)

    def _on_service(self, change: ObjectChange) -> None:
        self._index.put_service(change.old, change.new)
        self._work.add(key(change.new or change.old))

    def _on_pod(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        self._index.put_pod(old, new)
        if old is not None and new is not None and state_of(old) == state_of(new):
            return
        for pod in (old, new):
            if pod is not None:
                for service in self._index.services_of(pod):
                    self._work.add(service.key)

    def _on_slice(self, change: ObjectChange) -> None:
        """Follows the slices of the controller; those that it wrote itself need no comparison."""
        for part, exists in ((change.old, False), (change.new, True)):
            if part is None:
                continue
            metadata = part.metadata
            slice_key = key(part)
            written = self._written.get(slice_key, 0)
            if change.new is None:
                self._written.pop(slice_key, None)
            elif written is None or written >= int(change.new.metadata.resource_version):
                return
            if metadata.labels.get(MANAGED_BY) == CONTROLLER:
                self._put_slice(part, exists=exists, is_expected=written is None)

    def _put_slice(self, part: EndpointSlice, *, exists: bool, is_expected: bool) -> None:
        name, metadata = part.metadata.labels.get(SERVICE_NAME, ""), part.metadata
        service_key = f"{metadata.namespace}/{name}"
        state = self._states.setdefault(service_key, _ServiceState())
        if exists:
            state.slices[metadata.name] = part
            state.has_slice = True
        else:
            state.slices.pop(metadata.name, None)
        if not is_expected:
            self._work.add(service_key)

    def _on_endpoints(self, change: ObjectChange) -> None:
        if change.new is None:
            self._old_form.forget(key(change.old))
            self._work.add(key(change.old))

    # -- comparison -------------------------------------------------------------------------------

    async def _sync(self, service_key: str) -> None:
        service: Workload | None = self._work.objects(_SERVICES.name).get(service_key)
        if service is None:
            self._states.pop(service_key, None)
            await self._old_form.delete(service_key)
            return
        if service.is_deleted or not has_endpoints(service):
            return
        state = self._states.setdefault(service_key, _ServiceState())
        if not state.has_slice:
            return  # the API server makes it, and its event queues the Service again
        groups = self._groups(service, state)
        await self._old_form.write(service, groups.values())
        changes = plan(service, [*state.slices.values()], groups)
        for content in changes.create:
            await self._create(service, state, content)
        for part, content in changes.update:
            await self._update(service, state, part, content)
        for part in changes.delete:
            await self._delete(state, part)

    def _groups(self, service: Workload, state: _ServiceState) -> dict[Any, Group]:
        """Returns the endpoints of a Service by their ports."""
        nodes = self._work.objects("Node")
        is_same = state.service is not None and state.service.spec == service.spec
        earlier = state.endpoints if is_same else {}
        state.service, state.endpoints, state.lacks_nodes = service, {}, False
        groups: dict[Any, Group] = {}
        for pod in self._index.pods_of(service):
            if not has_address(pod):
                continue
            node: Node | None = nodes.get(pod.spec.get("nodeName", ""))
            if node is None and not service.spec.get("publishNotReadyAddresses"):
                state.lacks_nodes = True
                continue
            zone = "" if node is None else node.metadata.labels.get(ZONE, "")
            pod_key = pod.key
            entry = earlier.get(pod_key)
            if entry is None or entry[0] is not pod or entry[1] != zone:
                ports = ports_of(service, pod)
                entry = pod, zone, endpoint_of(service, pod, zone), ports, ports_key(ports)
            state.endpoints[pod_key] = entry
            group = groups.get(entry[4])
            if group is None:
                group = groups[entry[4]] = Group(entry[3])
            group.add(entry[2])
        return groups

    # -- writes -----------------------------------------------------------------------------------

    async def _create(self, service: Workload, state: _ServiceState, content: Content) -> None:
        namespace = service.metadata.namespace
        manifest = {
            "apiVersion": _SLICES.api_version,
            "kind": _SLICES.name,
            "metadata": {
                "generateName": f"{service.metadata.name}-",
                "namespace": namespace,
                "labels": labels_of(service),
                "ownerReferences": [
                    {**owner_reference(service), "apiVersion": "v1", "kind": "Service"}
                ],
            },
            "addressType": "IPv4",
            **content._asdict(),
        }
        body = msgspec.json.encode(manifest)
        self._note(state, await self._client.write("POST", path_of(_SLICES, namespace), body))

    async def _update(
        self, service: Workload, state: _ServiceState, part: EndpointSlice, content: Content
    ) -> None:
        metadata = part.metadata
        labels = {**dict.fromkeys(metadata.labels), **labels_of(service)}
        patch = {"metadata": {"uid": metadata.uid, "labels": labels}, **content._asdict()}
        path = path_of(_SLICES, metadata.namespace, metadata.name)
        body = msgspec.json.encode(patch)
        written = await self._client.write("PATCH", path, body, content_type=Patch.MERGE.value)
        self._note(state, written)

    async def _delete(self, state: _ServiceState, part: EndpointSlice) -> None:
        metadata = part.metadata
        self._written[key(part)] = None
        try:
            await self._client.delete(_SLICES, metadata.name, metadata.namespace, uid=metadata.uid)
        except NotFound as error:
            _log.info("slice is gone", extra={"error": str(error)})
        state.slices.pop(metadata.name, None)

    def _note(self, state: _ServiceState, body: bytes) -> None:
        """Keeps a slice as it was written: the watch may be late."""
        part = _read_slice(body)
        state.slices[part.metadata.name] = part
        self._written[key(part)] = int(part.metadata.resource_version)


def _log_failure(service_key: str, error: SchedulerError) -> None:
    _log.info("endpoints not written", extra={"service": service_key, "error": str(error)})
