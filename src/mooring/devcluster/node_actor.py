"""The nodes as their kubelets report them: version, addresses, Ready condition, and a lease.

A status that a node has already stays: nodes of files may be not ready. Leases are renewed for all
nodes in turn, each every ten seconds.

Source: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/kubelet.go (leases).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.rest.client import Patch
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng, rfc3339, rfc3339_micro
from mooring.devcluster.events.kubelet import (
    record_cordon,
    record_node_added,
    record_node_removed,
)
from mooring.devcluster.events.recorder import EventRecorder
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.objects.kinds import Kind, kind_named
from mooring.simulation.controllers.objects import Workload

KUBELET_VERSION: Final = "v1.36.3"
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_S: Final = 40
#: A quarter of the duration, as a kubelet's.
RENEW_S: Final = LEASE_S / 4
#: Number of leases renewed before other tasks run.
BATCH: Final = 20

#: Nodes with their status as JSON.
_NODES: Final = Kind("Node", Workload, "", "v1", "nodes", namespaced=False)

_log = logging.getLogger(__name__)


class NodeActor:
    """Writes the status and the lease of every node.

    Args:
        client: A client that may update nodes and leases.
        clock: For timestamps.
        rng: For the watch's backoff.
        sleep: Sleeps so many seconds.
        events: Records what happens to nodes; None = it is not recorded.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        events: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._clock = clock
        self._sleep = sleep
        self._work: asyncio.Queue[Workload] = asyncio.Queue()
        self._informer = Informer(
            client, _NODES, self._on_change, clock=clock, rng=rng, sleep=sleep
        )
        #: Nodes by name; the value is the number of their address.
        self._numbers: dict[str, int] = {}
        self._next_number = 1

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(self._renew())
            while True:
                node = await self._work.get()
                try:
                    await self._begin(node)
                except SchedulerError as error:
                    name = node.metadata.name
                    _log.info("node not written", extra={"node": name, "error": str(error)})

    def _on_change(self, change: ObjectChange) -> None:
        if self._events is not None:
            _record(self._events, change.old, change.new)
        if change.new is None:
            self._numbers.pop(change.old.metadata.name, None)
        elif change.old is None:
            self._numbers[change.new.metadata.name] = self._next_number
            self._next_number += 1
            self._work.put_nowait(change.new)

    async def _begin(self, node: Workload) -> None:
        name = node.metadata.name
        number = self._numbers.get(name)
        if number is None:
            return  # it is gone already
        patch = missing_status(node.status, name, number, rfc3339(self._clock.wall_s()))
        if patch:
            body = {"metadata": {"uid": node.metadata.uid}, "status": patch}
            await self._client.patch("Node", name, body, how=Patch.STRATEGIC, subresource="status")
        now = rfc3339_micro(self._clock.wall_s())
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
                ],
            },
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": now},
        }
        path = path_of(kind_named("Lease"), LEASE_NAMESPACE)
        try:
            await self._client.write("POST", path, msgspec.json.encode(lease))
        except AlreadyExists:
            await self._renew_one(name)

    async def _renew(self) -> None:
        while True:
            await self._sleep(RENEW_S)
            for count, name in enumerate(list(self._numbers)):
                if count % BATCH == 0:
                    await asyncio.sleep(0)
                try:
                    await self._renew_one(name)
                except NotFound:
                    continue  # the node has no lease yet, or is gone
                except SchedulerError as error:
                    _log.info("lease not renewed", extra={"node": name, "error": str(error)})

    async def _renew_one(self, name: str) -> None:
        patch = {"spec": {"renewTime": rfc3339_micro(self._clock.wall_s())}}
        await self._client.patch("Lease", name, patch, namespace=LEASE_NAMESPACE)


def _record(events: EventRecorder, old: Workload | None, new: Workload | None) -> None:
    if new is None:
        if old is not None:
            record_node_removed(events, old.metadata.name, old.metadata.uid)
    elif old is None:
        record_node_added(events, new.metadata.name, new.metadata.uid)
    else:
        was_unschedulable, is_unschedulable = (
            bool(node.spec.get("unschedulable")) for node in (old, new)
        )
        if was_unschedulable != is_unschedulable:
            record_cordon(events, new.metadata.name, is_unschedulable=is_unschedulable)


def missing_status(status: dict[str, Any], name: str, number: int, now: str) -> dict[str, Any]:
    """Returns the fields that a kubelet adds to its node's status; empty if none is missing.

    Args:
        status: The status as it is.
        name: The node.
        number: Of its address.
        now: The time for the condition.
    """
    patch: dict[str, Any] = {}
    if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
        patch["nodeInfo"] = {
            "kubeletVersion": KUBELET_VERSION,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "containerRuntimeVersion": "mooring://simulated",
        }
    if not status.get("addresses"):
        address = f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{number & 255}"
        patch["addresses"] = [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ]
    if not any(item.get("type") == "Ready" for item in status.get("conditions") or ()):
        patch["conditions"] = [
            {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
        ]
    return patch
