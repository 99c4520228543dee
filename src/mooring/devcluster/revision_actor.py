"""The revisions of DaemonSets and StatefulSets in an in-memory cluster.

A ControllerRevision holds an earlier pod template; ``kubectl rollout history`` lists them, and
``kubectl rollout undo`` patches the workload with one.

Source: pkg/controller/daemon/update.go (getPatch, snapshot, constructHistory, cleanupHistory);
pkg/controller/statefulset/stateful_set_utils.go (newRevision).
Differs: old revisions are deleted after a rollout, not during one; two templates with the same hash
have one revision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.client import Client, ObjectChange
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.objects.kinds import Kind
from mooring.objects.meta import ApiStruct, ObjectMeta, controller_of
from mooring.simulation.controllers import daemonset
from mooring.simulation.controllers.objects import (
    WORKLOAD_KINDS,
    Json,
    Workload,
    owner_reference,
)
from mooring.simulation.controllers.workload_pods import template_hash

HASH_LABELS: Final = {
    "DaemonSet": daemonset.REVISION_LABEL,
    "StatefulSet": "controller.kubernetes.io/hash",
}

_log = logging.getLogger(__name__)


class Revision(ApiStruct, frozen=True, kw_only=True):
    """A ControllerRevision; ``data`` is the patch that restores its template."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    data: Any = None
    revision: int = 0


REVISIONS: Final = Kind(
    "ControllerRevision", Revision, "apps", "v1", "controllerrevisions", namespaced=True
)


class RevisionActor:
    """Creates a revision for each new template, and deletes those that are too many.

    Args:
        client: A client that may write ControllerRevisions.
        clock: For the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
        self._work: WorkQueue[tuple[str, str]] = WorkQueue(
            client,
            {REVISIONS.name: _ignore, **dict.fromkeys(HASH_LABELS, self._on_workload)},
            self._sync,
            _log_failure,
            kinds=[REVISIONS, *(WORKLOAD_KINDS[name] for name in HASH_LABELS)],
            clock=clock,
            rng=rng,
            sleep=sleep,
        )
        #: UID and version -> a workload whose template waits: each template gets its revision.
        self._waiting: dict[tuple[str, str], Workload] = {}
        #: UID of a workload -> its template, and whether all its pods have it.
        self._seen: dict[str, tuple[Json, bool]] = {}
        #: UID of a workload -> the number of the last revision that was written.
        self._last_number: dict[str, int] = {}

    async def run(self) -> None:
        """Writes revisions until cancelled."""
        await self._work.run()

    def _on_workload(self, change: ObjectChange) -> None:
        workload: Workload | None = change.new
        if workload is None:
            self._seen.pop(change.old.metadata.uid, None)
            self._last_number.pop(change.old.metadata.uid, None)
            return
        state = workload.spec["template"], _is_complete(workload)
        if not workload.is_deleted and self._seen.get(workload.metadata.uid) != state:
            self._seen[workload.metadata.uid] = state
            item = workload.metadata.uid, workload.metadata.resource_version
            self._waiting[item] = workload
            self._work.add(item)

    async def _sync(self, item: tuple[str, str]) -> None:
        workload = self._waiting.pop(item)
        data = {"spec": {"template": {**workload.spec["template"], "$patch": "replace"}}}
        own = sorted(self._own(workload), key=lambda revision: revision.revision)
        last = own[-1].revision if own else 0
        number = max(last, self._last_number.get(workload.metadata.uid, 0)) + 1
        current = next((revision for revision in own if revision.data == data), None)
        if current is None:
            await self._create(workload, data, number)
        elif current.revision < last:
            await self._renumber(current, number)
        if _is_complete(workload):
            await self._delete_oldest(workload, [old for old in own if old is not current])

    def _own(self, workload: Workload) -> Iterable[Revision]:
        for revision in self._work.objects(REVISIONS.name).values():
            owner = controller_of(revision.metadata)
            if owner is not None and owner.uid == workload.metadata.uid:
                yield revision

    async def _create(self, workload: Workload, data: Json, number: int) -> None:
        template, metadata = workload.spec["template"], workload.metadata
        digest = template_hash(template)
        labels = (template.get("metadata") or {}).get("labels") or {}
        manifest = {
            "apiVersion": REVISIONS.api_version,
            "kind": REVISIONS.name,
            "metadata": {
                "name": f"{metadata.name}-{digest}",
                "namespace": metadata.namespace,
                "labels": {**labels, HASH_LABELS[workload.kind]: digest},
                "annotations": dict(metadata.annotations),
                "ownerReferences": [owner_reference(workload)],
            },
            "data": data,
            "revision": number,
        }
        path = path_of(REVISIONS, metadata.namespace)
        try:
            await self._client.write("POST", path, msgspec.json.encode(manifest))
        except AlreadyExists as error:
            _log.info("revision exists already", extra={"error": str(error)})
        self._last_number[metadata.uid] = number

    async def _renumber(self, revision: Revision, number: int) -> None:
        """Makes an earlier revision the newest one: its template is in use again."""
        metadata = revision.metadata
        patch = {"metadata": {"uid": metadata.uid}, "revision": number}
        await self._client.patch(REVISIONS, metadata.name, patch, namespace=metadata.namespace)
        owner = controller_of(metadata)
        if owner is not None:
            self._last_number[owner.uid] = number

    async def _delete_oldest(self, workload: Workload, old: list[Revision]) -> None:
        limit = int(workload.spec.get("revisionHistoryLimit", 10))
        for revision in old[: max(0, len(old) - limit)]:
            metadata = revision.metadata
            try:
                await self._client.delete(
                    REVISIONS, metadata.name, metadata.namespace, uid=metadata.uid
                )
            except NotFound as error:
                _log.info("revision is gone", extra={"error": str(error)})


def _is_complete(workload: Workload) -> bool:
    """Returns whether all pods of a workload have its template."""
    status = workload.status
    if status.get("observedGeneration", 0) < workload.metadata.generation:
        return False
    if workload.kind == "StatefulSet":
        return bool(status.get("currentRevision") == status.get("updateRevision"))
    updated = status.get("updatedNumberScheduled", 0)
    return bool(updated >= status.get("desiredNumberScheduled", 0))


def _ignore(_change: ObjectChange) -> None:
    pass


def _log_failure(item: tuple[str, str], error: SchedulerError) -> None:
    _log.warning("cannot write a revision", extra={"uid": item[0], "error": str(error)})
