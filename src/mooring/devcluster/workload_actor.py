"""The workload controllers of an in-memory cluster: Deployments and the like get their pods.

``mooring.simulation.controllers`` has the logic; this module watches and writes. One task does the
work: before each turn it waits until the watches have reported what the turns before have written,
so that no pod is created twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.rest.client import Patch as PatchFormat
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.events.workloads import TurnEvents, error_text
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.objects.kinds import Kind, kind_named
from mooring.simulation.controllers.cluster import WorkloadKey
from mooring.simulation.controllers.job_pods.ended_pods import PODS
from mooring.simulation.controllers.manager import ControllerManager
from mooring.simulation.controllers.objects import (
    WORKLOAD_KINDS,
    Create,
    Delete,
    Json,
    Patch,
    Result,
    SetController,
    Write,
)

#: A workload whose write was refused is looked at again after so many seconds, then twice as many.
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0
#: A turn begins so many seconds after the change that leads to it, by default.
GATHER_S: Final = 0.01
#: The kinds that the controllers watch besides the workloads; pods last, after their owners.
_OTHER_KINDS: Final = (kind_named("Node"), PODS)

_log = logging.getLogger(__name__)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Stored(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_read_stored: Final = msgspec.json.Decoder(_Stored).decode


class WorkloadActor:
    """Creates, deletes and counts the pods of workloads.

    Args:
        client: A client that may write workloads, pods and volume claims.
        clock: For conditions, and for the watches.
        rng: For the names of pods, and for the watches.
        sleep: Sleeps so many seconds.
        gather_s: A turn begins so many seconds after the change that leads to it.
        events: Records the controllers' events; None = they are not recorded.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        gather_s: float = GATHER_S,
        events: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._sleep = sleep
        self._gather_s = gather_s
        self._manager = ControllerManager(clock=clock, rng=rng)
        kinds = [*WORKLOAD_KINDS.values(), *_OTHER_KINDS]
        self.informers = {
            kind.name: Informer(
                client, kind, partial(self._on_change, kind.name), clock=clock, rng=rng, sleep=sleep
            )
            for kind in kinds
        }
        self._changed = asyncio.Event()
        self._is_working = False
        #: Kind -> resourceVersion of the last object written.
        self._written: dict[str, int] = {}
        #: What was deleted and is not yet reported: (kind, key) -> UID.
        self._deleted: dict[tuple[str, str], str] = {}
        self._failures: dict[WorkloadKey, int] = {}
        self._timers: dict[WorkloadKey, asyncio.Task[None]] = {}

    @property
    def is_idle(self) -> bool:
        """True if every workload was looked at after the last change."""
        return not (self._is_working or self._manager.has_work) and self._has_caught_up

    def written_version(self, kind: str) -> int:
        """Returns the resourceVersion of the last object of a kind that was written."""
        return self._written.get(kind, 0)

    async def run(self) -> None:
        """Runs the controllers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.values():
                tasks.create_task(informer.run())
            for informer in self.informers.values():
                await informer.wait_until_synced()
            while True:
                self._changed.clear()
                if not (self._manager.has_work and self._has_caught_up):
                    await self._changed.wait()
                    continue
                self._is_working = True
                try:
                    # Changes of the same moment are one turn of each workload.
                    await self._sleep(self._gather_s)
                    await self._take_turn(tasks)
                finally:
                    self._is_working = False

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        self._manager.on_change(kind, change)
        self._changed.set()

    @property
    def _has_caught_up(self) -> bool:
        """True if the watches have reported all own writes."""
        for kind, version in self._written.items():
            informer = self.informers.get(kind)
            if informer is not None and int(informer.version or "0") < version:
                return False
        for (kind, object_key), uid in list(self._deleted.items()):
            obj = self.informers[kind].objects.get(object_key)
            if obj is not None and obj.metadata.uid == uid and not obj.metadata.deletion_timestamp:
                return False
            del self._deleted[kind, object_key]
        return True

    async def _take_turn(self, tasks: asyncio.TaskGroup) -> None:
        turn = self._manager.next_result()
        if turn is None:
            return
        workload_key, result = turn
        failure = await self._apply(result.writes, self._turn_events(workload_key, result))
        again_s = result.again_s
        if failure:
            count = self._failures[workload_key] = self._failures.get(workload_key, 0) + 1
            again_s = min(RETRY_S * 2 ** (count - 1), RETRY_S_MAX)
            self._manager.failures[workload_key] = failure
        else:
            self._failures.pop(workload_key, None)
            if self._manager.failures.pop(workload_key, ""):
                self._manager.add(workload_key)  # the condition goes away
        if (timer := self._timers.pop(workload_key, None)) is not None:
            timer.cancel()
        if again_s is not None:
            self._timers[workload_key] = tasks.create_task(self._add_later(workload_key, again_s))

    def _turn_events(self, workload_key: WorkloadKey, result: Result) -> TurnEvents | None:
        kind, object_key = workload_key
        cluster = self._manager.cluster
        workload = cluster.workloads[kind].get(object_key)
        if self._events is None or workload is None or not (result.writes or result.notes):
            return None
        events = TurnEvents(self._events, workload, cluster, result.writes)
        events.note(result.notes)
        return events

    async def _add_later(self, workload_key: WorkloadKey, wait_s: float) -> None:
        await self._sleep(wait_s)
        self._manager.add(workload_key)
        self._changed.set()

    # -- writing ----------------------------------------------------------------------------------

    async def _apply(self, writes: Iterable[Write], events: TurnEvents | None) -> str:
        """Applies writes; returns why one was refused, "" = none was.

        After a refused creation no more objects are created in this turn.
        """
        failure = ""
        for write in writes:
            if failure and isinstance(write, Create):
                continue
            if events is not None:
                events.before(write)
            error = await self._try(write)
            if events is not None:
                events.after(write, error)
            if error is not None and not isinstance(error, (AlreadyExists, NotFound)):
                failure = error_text(error)
        return failure

    async def _try(self, write: Write) -> SchedulerError | None:
        """Applies a write; returns its error."""
        try:
            await self._apply_one(write)
        except AlreadyExists as error:
            _log.info("object exists already", extra={"error": str(error)})
            return error
        except NotFound as error:
            _log.info("object is gone", extra={"error": str(error)})
            return error
        except SchedulerError as error:
            _log.info("write of a controller failed", extra={"error": str(error)})
            return error
        return None

    async def _apply_one(self, write: Write) -> None:
        if isinstance(write, Create):
            await self._create(write.manifest)
        elif isinstance(write, Delete):
            self._deleted[write.kind, f"{write.namespace}/{write.name}"] = write.uid
            try:
                await self._client.delete(
                    _kind(write.kind),
                    write.name,
                    write.namespace,
                    uid=write.uid,
                    propagation=write.propagation,
                )
            except SchedulerError:
                self._deleted.pop((write.kind, f"{write.namespace}/{write.name}"), None)
                raise
        elif isinstance(write, Patch):
            await self._patch(
                write.kind, write.namespace, write.name, write.patch, subresource=write.subresource
            )
        else:
            await self._set_controller(write)

    async def _create(self, manifest: Json) -> None:
        kind = _kind(manifest["kind"])
        path = path_of(kind, manifest["metadata"]["namespace"])
        body = await self._client.write("POST", path, msgspec.json.encode(manifest))
        self._note(kind.name, body)

    async def _patch(
        self,
        kind_name: str,
        namespace: str,
        name: str,
        patch: Json,
        *,
        subresource: str = "",
        how: PatchFormat = PatchFormat.MERGE,
    ) -> None:
        path = path_of(_kind(kind_name), namespace, name, subresource)
        body = await self._client.write(
            "PATCH", path, msgspec.json.encode(patch), content_type=how.value
        )
        self._note(kind_name, body)

    async def _set_controller(self, write: SetController) -> None:
        """Adopts or releases an object."""
        owner: Json = {"uid": write.owner_uid, "$patch": "delete"}
        if write.owner is not None:
            owner = write.owner
        patch = {"metadata": {"uid": write.uid, "ownerReferences": [owner]}}
        await self._patch(write.kind, write.namespace, write.name, patch, how=PatchFormat.STRATEGIC)

    def _note(self, kind: str, body: bytes) -> None:
        self._written[kind] = int(_read_stored(body).metadata.resource_version or "0")


def _kind(name: str) -> Kind:
    return WORKLOAD_KINDS.get(name) or kind_named(name)
