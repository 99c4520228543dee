"""The workload controllers of a simulation: workload objects of files become their pods.

The controllers are those of ``mooring start``; here their writes change a table. The table has a
ReplicaSet and a StatefulSet as the scheduler reads them; the whole objects are kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import convert as to_struct
from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Clock, Rng, random_uuid, rfc3339
from mooring.errors import AlreadyExists, ConfigError, NotFound
from mooring.objects.codec.decode import convert, to_builtins
from mooring.objects.defaulting.admission import Neighbors, admit, with_defaults
from mooring.objects.kinds import KINDS, kind_named
from mooring.objects.meta import OwnerReference, controller_of, key
from mooring.objects.pod import Pod
from mooring.objects.schema.decoding import reader_of
from mooring.objects.schema.types import struct_of
from mooring.simulation.claim_controller import with_statuses
from mooring.simulation.controllers.cluster import ControlledObjects, WorkloadKey
from mooring.simulation.controllers.manager import ControllerManager
from mooring.simulation.controllers.objects import (
    WORKLOAD_KINDS,
    Create,
    Delete,
    Json,
    Patch,
    Result,
    SetController,
    Workload,
    Write,
)
from mooring.simulation.engine.engine import PHASE_PODS
from mooring.simulation.engine.kubelets import START_S, run_pod
from mooring.simulation.generated_claims import new_claims_of

if TYPE_CHECKING:
    from mooring.simulation.engine.engine import Engine
    from mooring.simulation.engine.object_table import ObjectTable

#: Jobs that a CronJob creates: without a limit, a simulation would not end.
CRON_RUNS: Final = 1
#: The kinds that admission reads.
_READ: Final = ("PriorityClass", "RuntimeClass", "StorageClass", "Node")
_WATCHED: Final = frozenset({"Pod", "Node"})


class WorkloadControllers:
    """Creates and deletes the pods of workloads.

    Attributes:
        created: The keys of all pods that were created, in order.

    Args:
        table: The objects.
        workloads: Workload objects as JSON with their defaults.
        clock: Virtual time.
        rng: For the names and UIDs of pods.
        cron_runs: For how many instants of its schedule a CronJob creates a Job.
        starts_pods: Whether bound pods of workloads become Running and Ready; else the caller does.
        on_store: Called with every workload that is stored or removed: old and new.
    """

    def __init__(
        self,
        table: ObjectTable,
        workloads: Sequence[Json],
        *,
        clock: Clock,
        rng: Rng,
        cron_runs: int = CRON_RUNS,
        starts_pods: bool = True,
        on_store: Callable[[Workload | None, Workload | None], None] = lambda *_: None,
    ) -> None:
        self._starts_pods = starts_pods
        self._on_store = on_store
        self._cron_runs = CronRuns(cron_runs)
        self.created: list[str] = []
        self._table = table
        self._workloads = [to_struct(raw, Workload) for raw in workloads]
        self._clock = clock
        self._rng = rng
        # Without run times, pods are placed once: no deadline ends them.
        self._manager = ControllerManager(clock=clock, rng=rng, has_deadlines=not starts_pods)
        self._engine: Engine | None = None
        self._neighbors: Neighbors | None = None

    @property
    def has_work(self) -> bool:
        """True if a workload must be looked at."""
        return self._manager.has_work

    @property
    def cluster(self) -> ControlledObjects:
        """The workloads and their pods; read only."""
        return self._manager.cluster

    def create(self, manifest: Json) -> None:
        """Creates a workload, or replaces the spec of one with its name.

        Raises:
            ConfigError: it cannot be admitted.
        """
        metadata = manifest["metadata"]
        object_key = f"{metadata['namespace']}/{metadata['name']}"
        existing = self._manager.cluster.workloads[manifest["kind"]].get(object_key)
        if existing is None:
            self._create(manifest)
        else:
            self._store(existing, patched(existing, {"spec": manifest["spec"]}))

    def replace(self, kind: str, object_key: str, manifest: Json) -> None:
        """Replaces metadata and spec of a workload that is there."""
        old = self._manager.cluster.workloads[kind][object_key]
        new = to_struct({**manifest, "kind": kind}, Workload)
        generation = old.metadata.generation + (new.spec != old.spec)
        metadata = replace(new.metadata, generation=generation)
        self._store(old, replace(new, metadata=metadata, status=old.status))

    def delete(self, kind: str, object_key: str) -> bool:
        """Deletes a workload with all that it controls; returns whether there was one."""
        workload = self._manager.cluster.workloads[kind].get(object_key)
        if workload is None:
            return False
        self._store(workload, None)
        uid = workload.metadata.uid
        for own_kind, workloads in self._manager.cluster.workloads.items():
            for own in [*workloads.values()]:
                owner = controller_of(own.metadata)
                if owner is not None and owner.uid == uid:
                    self.delete(own_kind, own.key)
        for pod in self._manager.cluster.pods_of(workload):
            self._table.delete("Pod", key(pod))
        return True

    def start(self, engine: Engine) -> None:
        """Watches the table; the engine calls ``work``."""
        self._engine = engine
        for kind, obj in self._table.listed():
            self._on_change(kind, ObjectChange(None, obj))
        for workload in sorted(self._workloads, key=_place_in_lists):
            generation = max(1, workload.metadata.generation)
            metadata = replace(workload.metadata, generation=generation)
            if workload.kind == "CronJob":
                # The instants are those after the start of the simulation, whenever it was created.
                metadata = replace(metadata, creation_timestamp=rfc3339(self._clock.wall_s()))
                workload = replace(workload, status={})
            self._store(None, replace(workload, metadata=metadata))
        self._table.listen(self._on_change)

    def scale(self, kind: str, object_key: str, replicas: int) -> bool:
        """Sets the replicas of a workload; returns whether there is one."""
        workload = self._manager.cluster.workloads[kind].get(object_key)
        if workload is None:
            return False
        self._store(workload, patched(workload, {"spec": {"replicas": replicas}}))
        return True

    async def work(self) -> None:
        """Gives the next workload its turn.

        Raises:
            ConfigError: a pod of it cannot be created.
        """
        turn = self._manager.next_result()
        if turn is None:
            return
        workload_key, result = turn
        if workload_key[0] == "CronJob":
            result = self._cron_runs.limited(workload_key[1], result)
        for write in result.writes:
            try:
                self._apply(write)
            except (AlreadyExists, NotFound):
                continue  # another change came first, and is reported
            except ConfigError as error:
                kind, object_key = workload_key
                path = f"{kind} {object_key}, its pod: {error.path or ''}"
                raise ConfigError(error.problem, path=path, value=error.value) from error
        # A rollout that makes no progress is not waited for: nothing would change.
        if result.again_s is not None and workload_key[0] != "Deployment":
            self._add_later(workload_key, result.again_s)

    def _add_later(self, workload_key: WorkloadKey, wait_s: float) -> None:
        self._call_later(wait_s, partial(self._add, workload_key))

    def _add(self, workload_key: WorkloadKey) -> None:
        self._cron_runs.waiting.discard(workload_key[1])
        self._manager.add(workload_key)

    def _call_later(self, wait_s: float, run: Any) -> None:
        if self._engine is not None:
            self._engine.call_at(self._clock.monotonic_s() + wait_s, PHASE_PODS, run)

    # -- changes ----------------------------------------------------------------------------------

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind in _READ:
            self._neighbors = None
        if kind not in _WATCHED:
            return
        self._manager.on_change(kind, change)
        pod = change.new
        if not self._starts_pods or kind != "Pod" or pod is None or not pod.spec.node_name:
            return
        was_bound = change.old is not None and bool(change.old.spec.node_name)
        owner = controller_of(pod.metadata)
        is_ours = owner is not None and owner.kind in WORKLOAD_KINDS
        if is_ours and not was_bound and pod.status.phase in ("", "Pending"):
            run = partial(run_pod, self._table, key(pod), pod.metadata.uid, self._clock)
            self._call_later(START_S, run)

    # -- writes -----------------------------------------------------------------------------------

    def _apply(self, write: Write) -> None:
        if isinstance(write, Create):
            self._create(write.manifest)
        elif isinstance(write, Delete):
            object_key = f"{write.namespace}/{write.name}"
            if write.kind in WORKLOAD_KINDS:
                self.delete(write.kind, object_key)
            else:
                self._table.delete(write.kind, object_key, uid=write.uid)
        elif isinstance(write, Patch):
            workload = self._manager.cluster.workloads[write.kind].get(
                f"{write.namespace}/{write.name}"
            )
            if workload is not None:
                self._store(workload, patched(workload, write.patch))
        else:
            self._set_controller(write)

    def _store(self, old: Workload | None, new: Workload | None) -> None:
        """Stores a workload; the scheduler's view of it is in the table."""
        workload = new if new is not None else old
        if workload is None:
            return
        kind = workload.kind
        self._on_store(old, new)
        self._manager.on_change(kind, ObjectChange(old, new))
        if kind not in KINDS:
            return
        if new is None:
            self._table.delete(kind, workload.key)
        elif old is None or old.spec != new.spec:
            self._table.put(convert(to_builtins(new), kind))

    def _create(self, manifest: Json) -> None:
        kind = manifest["kind"]
        metadata = {
            **manifest["metadata"],
            "uid": random_uuid(self._rng),
            "creationTimestamp": rfc3339(self._clock.wall_s()),
        }
        if kind in WORKLOAD_KINDS:
            if kind == "Job":
                manifest = reader_of(struct_of("batch", kind)).read(manifest)
                metadata = {**manifest["metadata"], **metadata}
            workload = to_struct({**manifest, "kind": kind, "metadata": metadata}, Workload)
            generation = replace(workload.metadata, generation=1)
            self._store(None, replace(workload, metadata=generation))
            return
        obj = with_defaults(deepcopy({**manifest, "metadata": metadata}), kind_named(kind))
        if self._neighbors is None:
            objects = [obj for kind in _READ for obj in self._table.objects(kind).values()]
            self._neighbors = Neighbors([{**to_builtins(obj), "kind": obj.kind} for obj in objects])
        admit(obj, self._neighbors)
        created = convert(obj, kind)
        if kind == "Pod":
            created = self._with_claims(created)
            self.created.append(key(created))
        self._table.create(created)

    def _with_claims(self, pod: Pod) -> Pod:
        """Creates the claims of a pod that come from templates; returns the pod with them."""
        templates = self._table.objects("ResourceClaimTemplate")
        if not pod.spec.resource_claims or not templates:
            return pod
        names, claims = new_claims_of(pod, templates, self._table.objects("ResourceClaim"))
        for claim in claims:
            self._table.create(claim)
        statuses = with_statuses(pod, names)
        return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))

    def _set_controller(self, write: SetController) -> None:
        object_key = f"{write.namespace}/{write.name}"
        obj: Any
        if write.kind in WORKLOAD_KINDS:
            obj = self._manager.cluster.workloads[write.kind].get(object_key)
        else:
            obj = self._table.get(write.kind, object_key, uid=write.uid)
        if obj is None:
            return
        owners = [o for o in obj.metadata.owner_references if o.uid != write.owner_uid]
        if write.owner is not None:
            owners.append(to_struct(write.owner, OwnerReference))
        new = replace(obj, metadata=replace(obj.metadata, owner_references=tuple(owners)))
        if write.kind in WORKLOAD_KINDS:
            self._store(obj, new)
        else:
            self._table.put(new)


class CronRuns:
    """Ends the schedules of CronJobs after some instants.

    Attributes:
        waiting: The keys of CronJobs that wait for their next instant.

    Args:
        limit: The instants of each CronJob.
    """

    def __init__(self, limit: int) -> None:
        self.waiting: set[str] = set()
        self._limit = limit
        self._instants: dict[str, int] = {}

    def limited(self, object_key: str, result: Result) -> Result:
        """Returns the result of a CronJob without the instants and Jobs beyond the limit."""
        count = self._instants.get(object_key, 0)
        if result.again_s is None or object_key in self.waiting or count >= self._limit:
            return result._replace(again_s=None)
        self._instants[object_key] = count + 1
        self.waiting.add(object_key)
        return result


def _place_in_lists(workload: Workload) -> tuple[int, str]:
    """Returns the place of a workload among those that a controller lists, kind by kind.

    In a real cluster the order of kinds is open; that of names is the order of a list.
    """
    return list(WORKLOAD_KINDS).index(workload.kind), workload.key


def patched(workload: Workload, patch: Json) -> Workload:
    """Returns a workload after a merge patch; a changed spec is a new generation."""
    metadata = workload.metadata
    changes = patch.get("metadata", {}).get("annotations")
    if changes:
        metadata = replace(metadata, annotations={**metadata.annotations, **changes})
    spec = {**workload.spec, **patch.get("spec", {})}
    if spec != workload.spec:
        metadata = replace(metadata, generation=metadata.generation + 1)
    status = {**workload.status, **patch.get("status", {})}
    status = {name: value for name, value in status.items() if value is not None}
    return replace(workload, metadata=metadata, spec=spec, status=status)
