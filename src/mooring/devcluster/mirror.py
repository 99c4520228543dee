"""Writes what happens in a simulated cluster to an API server, so that kubectl can watch it.

::

    table of objects ──changes, in order──▶ Mirror ──POST, PATCH, binding, DELETE──▶ API server
       (its own thread)                  (the server's event loop)

The objects have other UIDs and creation times there: those of the API server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mooring.client import Client, ObjectChange, Patch
from mooring.client.rest.paths import path_of
from mooring.devcluster.seeding import Seed, Seeder, in_order, seeds_of_objects
from mooring.errors import ConfigError, NotFound, SchedulerError
from mooring.objects.codec.decode import to_builtins
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.types import Object
from mooring.simulation.controllers.objects import WORKLOAD_KINDS, Workload

#: Changes that wait to be written: a simulation that is further ahead has to wait.
BACKLOG_MAX: Final = 2_000
#: Refused writes that are kept with their reason.
PROBLEMS_MAX: Final = 5
_METADATA: Final = ("labels", "annotations")


class Mirror:
    """Writes changes of objects through a client.

    Attributes:
        n_refused: The number of writes that the API server refused.
        problems: The first of them: object, and why.

    Args:
        client: A client that may write everything.
    """

    def __init__(self, client: Client) -> None:
        self.n_refused = 0
        self.problems: list[str] = []
        self._client = client
        self._seeder = Seeder(client)
        self._changes: deque[tuple[str, ObjectChange]] = deque()
        self._loop = asyncio.get_running_loop()
        self._has_changes = asyncio.Event()
        self._is_written = asyncio.Event()

    @property
    def backlog(self) -> int:
        """The number of changes that wait to be written."""
        return len(self._changes)

    # -- called by the simulation, in its thread --------------------------------------------------

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Takes a change of a table; workloads are reported by ``on_workload``."""
        if kind not in WORKLOAD_KINDS:
            self._add(kind, change)

    def on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Takes a change of a Deployment and the like."""
        workload = new if new is not None else old
        if workload is not None:
            self._add(workload.kind, ObjectChange(old, new))

    def on_running(self, pod: Pod) -> None:
        """Takes a pod that begins to run, and whose phase the table does not have."""
        running = replace(pod, status=replace(pod.status, phase="Running"))
        self._add("Pod", ObjectChange(pod, running))

    def _add(self, kind: str, change: ObjectChange) -> None:
        self._changes.append((kind, change))
        self._loop.call_soon_threadsafe(self._has_changes.set)

    # -- writing ----------------------------------------------------------------------------------

    async def create(self, objects: Iterable[Any]) -> None:
        """Creates the objects of the start.

        Raises:
            ConfigError: the API server refuses one.
        """
        cluster, pending = in_order(seeds_of_objects(objects))
        async for _ in self._seeder.create_all([*cluster, *pending]):
            pass

    async def run(self) -> None:
        """Writes changes until cancelled."""
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            while self._changes:
                await self._write(*self._changes.popleft())
            self._is_written.set()

    async def flush(self) -> None:
        """Waits until all changes so far are written."""
        self._is_written.clear()
        self._has_changes.set()
        await self._is_written.wait()

    async def _write(self, kind: str, change: ObjectChange) -> None:
        old, new = change.old, change.new
        try:
            if new is None:
                await self._delete(kind, old)
            elif old is None:
                await self._create(new)
            else:
                await self._update(kind, old, new)
        except NotFound:
            pass  # it was refused when it was created, or the API server has removed it
        except (ConfigError, SchedulerError) as error:
            self.n_refused += 1
            if len(self.problems) < PROBLEMS_MAX:
                metadata = (new if new is not None else old).metadata
                self.problems.append(f"{kind} {metadata.name}: {error}")

    async def _create(self, obj: Any) -> None:
        is_workload = isinstance(obj, Workload)
        seeds = [Seed(to_builtins(obj))] if is_workload else seeds_of_objects([obj])
        before, pending = in_order(seeds)
        for seed in (*before, *pending):
            await self._seeder.create(seed)

    async def _delete(self, kind: str, obj: Any) -> None:
        metadata = obj.metadata
        grace_s = 0 if kind == "Pod" else None
        await self._client.delete(
            _kind(kind), metadata.name, metadata.namespace, grace_period_s=grace_s
        )

    async def _update(self, kind: str, old: Any, new: Any) -> None:
        metadata = new.metadata
        if isinstance(new, Pod):
            await self._bind(old, new)
        changes = _difference(_writable(old), _writable(new))
        status = changes.pop("status", None)
        if isinstance(new, Pod):
            changes.pop("spec", None)  # only its node changes
            if status and status.get("phase"):
                status["containerStatuses"] = _container_statuses(new)
        path = path_of(_kind(kind), metadata.namespace, metadata.name)
        if changes:
            await self._patch(path, changes)
        if status:
            await self._patch(f"{path}/status", {"status": status})
        if metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            grace_s = metadata.deletion_grace_period_seconds
            await self._client.delete(
                _kind(kind), metadata.name, metadata.namespace, grace_period_s=grace_s
            )

    async def _bind(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name or not new.spec.node_name or new.status.phase in FINISHED_PHASES:
            return
        path = path_of(_kind("Pod"), new.metadata.namespace, new.metadata.name, "binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": new.metadata.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": new.spec.node_name},
        }
        await self._client.write("POST", path, msgspec.json.encode(body))

    async def _patch(self, path: str, patch: Object) -> None:
        body = msgspec.json.encode(patch)
        await self._client.write("PATCH", path, body, content_type=Patch.MERGE.value)


def _kind(name: str) -> Kind:
    return WORKLOAD_KINDS.get(name) or kind_named(name)


def _writable(obj: Any) -> Object:
    """Returns the parts of an object that a change is written of."""
    raw = to_builtins(obj)
    metadata = raw.get("metadata", {})
    parts = {name: raw[name] for name in ("spec", "status") if name in raw}
    return {"metadata": {name: metadata.get(name, {}) for name in _METADATA}, **parts}


def _container_statuses(pod: Pod) -> list[Object]:
    """Returns the statuses of a pod's containers, as its kubelet writes them."""
    phase = pod.status.phase
    state: Object = {"waiting": {"reason": "ContainerCreating"}}
    if phase == "Running":
        state = {"running": {}}
    elif phase in FINISHED_PHASES:
        is_good = phase == "Succeeded"
        reason = "Completed" if is_good else "Error"
        state = {"terminated": {"exitCode": 0 if is_good else 1, "reason": reason}}
    is_ready = phase == "Running"
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": is_ready,
            "started": is_ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec.containers
    ]


def _difference(old: Object, new: Object) -> Object:
    """Returns the merge patch that turns one value into another.

    Example:
        >>> _difference({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2, "d": 4}})
        {'a': None, 'b': {'d': 4}}
    """
    patch: Object = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _difference(before, value):
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
