"""Arrivals: the pods of traces, and objects that come by a process."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from mooring.chance import Streams
from mooring.errors import AlreadyExists, ConfigError
from mooring.objects.generic import GenericObject
from mooring.objects.meta import ObjectMeta, ResourceRequirements, controller_of, key
from mooring.objects.pod import Container, Pod, PodSpec, PodStatus, Toleration
from mooring.scenario.run_times import Draws, RunTimes
from mooring.scenario.scenario import ArrivalItem, Template, TraceItem
from mooring.simulation.engine.engine import PHASE_ARRIVALS, Engine
from mooring.traces.openb import GPU_RESOURCE, model_affinity

if TYPE_CHECKING:
    from mooring.objects.types import Object
    from mooring.simulation.engine.object_table import ObjectTable
    from mooring.simulation.engine.workload_controllers import WorkloadControllers

#: Names that the API accepts for pods, with space for the number of a copy.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH_MAX: Final = 240
_PENDING: Final = PodStatus(phase="Pending")
#: A pod without them leaves a node that fails at once: admission adds them.
_TOLERATIONS: Final = tuple(
    Toleration(
        key=f"node.kubernetes.io/{taint}",
        operator="Exists",
        effect="NoExecute",
        toleration_seconds=300,
    )
    for taint in ("not-ready", "unreachable")
)
_SCHEDULER: Final = "default-scheduler"


class Creator:
    """Creates the objects of templates, with the run times of their pods.

    Args:
        table: Gets pods and other objects.
        workloads: Get Deployments and the like.
        run_times: Get the draws of the pods.
    """

    def __init__(
        self, table: ObjectTable, workloads: WorkloadControllers, run_times: RunTimes
    ) -> None:
        self._table = table
        self._workloads = workloads
        self._run_times = run_times
        #: (kind, "namespace/name") of a workload -> the draws of its pods.
        self.draws_of: dict[tuple[str, str], Draws] = {}

    def create(self, template: Template, draws: Draws, number: int | None = None) -> None:
        """Creates the objects of a template; ``number`` is appended to their names."""
        suffix = "" if number is None else f"-{number}"
        for obj in template.others:
            self._table.put(_renamed(obj, suffix))
        for raw in template.workloads:
            self.create_workload(raw, draws, suffix)
        for pod in template.pods:
            self.create_pod(_renamed(pod, suffix), draws)

    def create_pod(self, pod: Pod, draws: Draws, duration_s: float = math.nan) -> None:
        """Creates a pod; ``duration_s`` is its run time if it is known.

        Raises:
            ConfigError: another item has created a pod with this name, which is still there.
        """
        self._run_times.plans[key(pod)] = draws.next(pod.metadata.annotations, duration_s)
        try:
            self._table.create(pod)
        except AlreadyExists as error:
            problem = f"item {draws.group!r} of the workload: {error}"
            raise ConfigError(problem) from error

    def create_workload(self, raw: Object, draws: Draws, suffix: str = "") -> None:
        """Creates a workload object."""
        metadata = {**raw["metadata"], "name": raw["metadata"]["name"] + suffix}
        self.draws_of[raw["kind"], f"{metadata['namespace']}/{metadata['name']}"] = draws
        self._workloads.create({**raw, "metadata": metadata})

    def draws_for(self, pod: Pod) -> Draws | None:
        """Returns the draws of the workload that a pod belongs to, at whatever distance."""
        owner = controller_of(pod.metadata)
        workloads = self._workloads.cluster.workloads
        while owner is not None:
            name = f"{pod.metadata.namespace}/{owner.name}"
            if (draws := self.draws_of.get((owner.kind, name))) is not None:
                return draws
            workload = workloads.get(owner.kind, {}).get(name)
            owner = None if workload is None else controller_of(workload.metadata)
        return None


def _renamed(obj: Any, suffix: str) -> Any:
    metadata = obj.metadata
    name = metadata.name + suffix
    if isinstance(obj, GenericObject):
        return type(obj)({**obj, "metadata": {**obj["metadata"], "name": name}})
    uid = f"{metadata.namespace}/{name}" if isinstance(obj, Pod) else metadata.uid
    return replace(obj, metadata=replace(metadata, name=name, uid=uid))


class ArrivalProcess:
    """Creates the objects of one item, one arrival after another.

    Args:
        instants: When; in order.
        arrive: Called with the number of each arrival.
        engine: Calls back.
    """

    def __init__(
        self, instants: Iterator[float], arrive: Callable[[int], None], engine: Engine
    ) -> None:
        self._instants = instants
        self._arrive = arrive
        self._engine = engine
        self._number = 0

    def start(self) -> None:
        """Waits for the first arrival."""
        instant_s = next(self._instants, None)
        if instant_s is not None:
            self._engine.call_at(instant_s, PHASE_ARRIVALS, self._next)

    def _next(self) -> None:
        number = self._number
        self._number += 1
        self.start()
        self._arrive(number)


def arrivals_of_item(
    item: ArrivalItem, creator: Creator, streams: Streams, engine: Engine
) -> ArrivalProcess:
    """Returns the process of an item."""
    draws = Draws(item.name, item.run_time, streams)
    instants = item.arrivals.instants(streams.stream(item.name, "arrivals"))

    def arrive(number: int) -> None:
        creator.create(item.template, draws, number)

    return ArrivalProcess(instants, arrive, engine)


def arrivals_of_trace(
    item: TraceItem, creator: Creator, streams: Streams, engine: Engine
) -> ArrivalProcess:
    """Returns the process of a trace: its pods at its times, stretched and copied."""
    pods = TracePods(item)
    draws = Draws(item.name, item.run_time, streams)

    def arrive(number: int) -> None:
        pod, duration_s = pods.pod(number)
        creator.create_pod(pod, draws, duration_s)

    return ArrivalProcess(pods.instants(), arrive, engine)


class TracePods:
    """The pods of a trace.

    Args:
        item: The trace, its stretch, copies and limit.
    """

    def __init__(self, item: TraceItem) -> None:
        self._item = item
        trace = item.trace
        self._copies = item.item.copies
        #: The row of each pod: one with a count stands for several.
        self._rows: list[int] = np.repeat(np.arange(len(trace)), trace.count).tolist()
        names = set(trace.names.tolist())
        self._has_unique_names = len(names) == len(self._rows) and all(map(_is_name, names))
        self._specs: dict[tuple[Any, ...], PodSpec] = {}

    def __len__(self) -> int:
        """Returns the number of pods."""
        total = len(self._rows) * self._copies
        limit = self._item.item.limit
        return total if limit is None else min(limit, total)

    def instants(self) -> Iterator[float]:
        """Yields when the pods arrive, in seconds."""
        submit_s, stretch = self._item.trace.submit_s, self._item.item.stretch
        rows = (row for row in self._rows for _ in range(self._copies))
        return (float(submit_s[row]) * stretch for row in islice(rows, len(self)))

    def pod(self, number: int) -> tuple[Pod, float]:
        """Returns a pod, and its run time in seconds; nan = unknown."""
        at, copy = divmod(number, self._copies)
        row, trace = self._rows[at], self._item.trace
        name = trace.names[row] if self._has_unique_names else f"{self._item.name}-{at}"
        if self._copies > 1:
            name = f"{name}-{copy}"
        metadata = ObjectMeta(name=name, namespace="default", uid=name)
        pod = Pod(metadata=metadata, spec=self._spec(row), status=_PENDING)
        return pod, trace.duration_of(row) * self._item.item.stretch_duration

    def _spec(self, row: int) -> PodSpec:
        trace = self._item.trace
        shape = (
            int(trace.cpu_milli[row]),
            int(trace.memory_bytes[row]),
            int(trace.gpu_count[row] * trace.gpu_milli[row]),
            str(trace.gpu_models[row]),
            int(trace.priority[row]),
        )
        spec = self._specs.get(shape)
        if spec is None:
            spec = self._specs[shape] = _pod_spec(*shape)
        return spec


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_LENGTH_MAX and _NAME.fullmatch(text) is not None


def _pod_spec(
    cpu_milli: int, memory_bytes: int, gpu_milli: int, models: str, priority: int
) -> PodSpec:
    amounts: dict[str, str | int | float] = {}
    if cpu_milli:
        amounts["cpu"] = f"{cpu_milli}m"
    if memory_bytes:
        amounts["memory"] = str(memory_bytes)
    if gpu_milli:
        amounts[GPU_RESOURCE] = str(gpu_milli)
    requirements = ResourceRequirements(requests=amounts)
    return PodSpec(
        containers=(Container(name="main", image="trace", resources=requirements),),
        affinity=model_affinity(models) if models and gpu_milli else None,
        priority=priority,
        scheduler_name=_SCHEDULER,
        tolerations=_TOLERATIONS,
    )
