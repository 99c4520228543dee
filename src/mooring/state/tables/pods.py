"""Pods as the scheduler sees them, and the table of the pods on nodes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from mooring.errors import InvariantViolation
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod, PodSpec, PodStatus
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import (
    NON_MISSING,
    host_ports,
    nonzero_requests,
    pod_requests,
    scheduler_units,
)
from mooring.state.columns.ports import HostPort

#: Requests as plugins read them: resource name -> amount; cpu in millicores, the rest in units.
Amounts = dict[str, int]

#: The resources with a column in the pod table; their position is their id in the node table.
FIXED_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")

#: Start time of a pod that has not started: later than any other.
NOT_STARTED: Final = 2**62

#: requests, usage, requests with defaults, nonzero usage, host ports of a PodInfo.
Derived = tuple[Amounts, Amounts, Amounts, tuple[int, int], tuple[HostPort, ...]]


class PodInfo:
    """One version of a pod, with derived values that are computed at most once.

    It has the pod's ``metadata``, ``spec`` and ``status``: plain attributes, since they are read
    dozens of times for each pod. Requests come in three forms, as
    upstream:

    - ``requests``: the requests of the spec; filters compare them with a node's free resources.
    - ``usage``: the amounts counted on its node (a resize in progress included).
    - ``nonzero_usage``: (cpu millicores, memory bytes) of ``usage`` with 100m and 200 MiB for
      containers without requests; only scoring reads it.

    Source: pkg/scheduler/framework/types.go (PodInfo, CalculateResource).
    """

    __slots__ = (
        "_defaulted",
        "_host_ports",
        "_nonzero_usage",
        "_requests",
        "_usage",
        "key",
        "metadata",
        "pod",
        "signature",
        "spec",
        "status",
        "uid",
    )

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.metadata: ObjectMeta = pod.metadata
        self.spec: PodSpec = pod.spec
        self.status: PodStatus = pod.status
        self.uid = pod.metadata.uid
        self.key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        #: (framework, id of this pod's signature); only the framework reads and writes it.
        self.signature: tuple[Any, Any] | None = None
        self._requests: Amounts | None = None
        self._usage: Amounts | None = None
        self._defaulted: Amounts | None = None
        self._nonzero_usage: tuple[int, int] | None = None
        self._host_ports: tuple[HostPort, ...] | None = None

    def __repr__(self) -> str:
        return f"PodInfo({self.key}, uid={self.uid!r}, node={self.node_name!r})"

    def on_node(self, node_name: str, *, start_time: str | None = None) -> PodInfo:
        """Returns the pod bound to ``node_name``, without nomination, with ``start_time`` if given.

        Derived values are copied: none of them depends on the node.
        """
        pod = self.pod
        copy = PodInfo(
            replace(
                pod,
                spec=replace(pod.spec, node_name=node_name),
                status=replace(
                    pod.status,
                    nominated_node_name="",
                    start_time=start_time or pod.status.start_time,
                ),
            )
        )
        copy._requests, copy._usage = self._requests, self._usage
        copy._defaulted, copy._nonzero_usage = self._defaulted, self._nonzero_usage
        copy._host_ports = self._host_ports
        return copy

    def derived(self) -> Derived:
        """Returns all derived values, for pods that are equal in the fields they derive from."""
        usage, nonzero, ports = self.usage, self.nonzero_usage, self.host_ports
        self.score_request("cpu", exact=False)
        assert self._defaulted is not None
        return self.requests, usage, self._defaulted, nonzero, ports

    def adopt_derived(self, derived: Derived) -> None:
        """Adopts the derived values of a pod with equal fields."""
        self._requests, self._usage, self._defaulted = derived[:3]
        self._nonzero_usage, self._host_ports = derived[3:]

    @property
    def node_name(self) -> str:
        """The name of the pod's node; "" while pending."""
        return self.pod.spec.node_name

    @property
    def priority(self) -> int:
        """The value of ``spec.priority``; 0 if unset."""
        return self.pod.spec.priority or 0

    @property
    def start_s(self) -> int:
        """The value of ``status.startTime`` as seconds since 1970; NOT_STARTED if unset."""
        text = self.status.start_time
        return _seconds(text) if text else NOT_STARTED

    @property
    def requests(self) -> Amounts:
        """The requests of the spec. Shared: read-only."""
        if self._requests is None:
            self._requests = scheduler_units(pod_requests(self.pod))
        return self._requests

    @property
    def usage(self) -> Amounts:
        """The amounts counted on the pod's node. Shared: read-only."""
        if self._usage is None and self._is_plain:
            self._usage = self.requests
        if self._usage is None:
            self._usage = scheduler_units(pod_requests(self.pod, use_status=True))
        return self._usage

    @property
    def nonzero_usage(self) -> tuple[int, int]:
        """The (cpu millicores, memory bytes), with defaults for containers without requests."""
        if self._nonzero_usage is None and self._is_plain:
            cpu_milli = self.score_request("cpu", exact=False)
            self._nonzero_usage = cpu_milli, self.score_request("memory", exact=False)
        if self._nonzero_usage is None:
            self._nonzero_usage = nonzero_requests(self.pod, use_status=True)
        return self._nonzero_usage

    def score_request(self, resource: str, *, exact: bool) -> int:
        """Returns the amount of ``resource`` that scoring uses for the pod; 0 if none.

        ``exact`` means ``usage``, as NodeResourcesBalancedAllocation reads it. NodeResourcesFit
        counts 100m and 200 MiB for a container without a request for cpu or memory, and ignores
        pod-level requests and a resize in progress: upstream creates its scorer without those
        feature gates.

        Source: noderesources/resource_allocation.go (calculatePodResourceRequest), fit.go (NewFit).
        """
        if exact:
            return self.usage.get(resource, 0)
        if self._defaulted is None:
            self._defaulted = scheduler_units(
                pod_requests(self.pod, non_missing=NON_MISSING, use_pod_level=False)
            )
        return self._defaulted.get(resource, 0)

    @property
    def _is_plain(self) -> bool:
        """True if the pod has neither pod-level resources nor a resize in progress, as most pods.

        Then ``usage`` equals ``requests``, and all forms of defaults agree.
        """
        spec, status = self.pod.spec, self.pod.status
        return (
            spec.resources is None
            and status.resources is None
            and not status.container_statuses
            and not status.init_container_statuses
        )

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The (address, protocol, port) of each host port, with defaults."""
        if self._host_ports is None:
            self._host_ports = host_ports(self.pod)
        return self._host_ports


@lru_cache(maxsize=256)
def _seconds(text: str) -> int:
    """Returns a time as seconds since 1970; pods are often started within the same second."""
    try:
        started = datetime.fromisoformat(text)
    except ValueError:
        return NOT_STARTED  # no API server writes such a time
    return int(started.timestamp() // 1) if started.tzinfo is not None else NOT_STARTED


class PlacedPod:
    """A pod on a row, in the version that is counted there.

    Its ``usage``, ``nonzero_usage`` and ``host_ports`` were added to the columns. A PodInfo never
    changes, so removal subtracts the same amounts, whatever happened to the pod or its node.
    """

    __slots__ = ("info", "position", "row", "slot")

    def __init__(self, info: PodInfo, row: int) -> None:
        self.info = info
        self.row = row
        #: The slot of this pod in the PodTable; -1 until it is added.
        self.slot = -1
        #: Its position among the pods on its row.
        self.position = -1


class PodTable:
    """One slot per pod on a node, assumed pods included; slots are reused.

    Columns, shape (capacity,): ``node_row`` int32 (-1 = free slot), ``priority`` int32, ``start_s``
    int64 (seconds since 1970, or NOT_STARTED); and ``usage`` int64 shape (3, capacity), one line
    per resource of FIXED_RESOURCES.

    The pods of a row are in kube-scheduler's order, on which a preemption's victims may depend: a
    removed pod is replaced by the last one, and an update removes the pod and appends it again.
    """

    __slots__ = (
        "_by_uid",
        "_free",
        "_on_row",
        "_placed",
        "_slots_on_row",
        "node_row",
        "priority",
        "start_s",
        "usage",
    )

    def __init__(self, capacity: int = 1024) -> None:
        self.node_row: npt.NDArray[np.int32] = np.full(capacity, -1, dtype=np.int32)
        self.priority: npt.NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.start_s: npt.NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.usage: npt.NDArray[np.int64] = np.zeros((3, capacity), dtype=np.int64)
        self._by_uid: dict[str, PlacedPod] = {}
        self._placed: list[PlacedPod | None] = []
        self._free: list[int] = []
        self._on_row: dict[int, list[PlacedPod]] = {}
        self._slots_on_row: dict[int, array[int]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[PlacedPod]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> PlacedPod | None:
        """Returns the pod with this UID, if it is on a node."""
        return self._by_uid.get(uid)

    def at(self, slot: int) -> PodInfo:
        """Returns the pod in a slot that is in use."""
        placed = self._placed[slot]
        assert placed is not None
        return placed.info

    def on_row(self, row: int) -> Sequence[PlacedPod]:
        """Returns the pods on ``row``, in kube-scheduler's order. Shared: read-only."""
        return self._on_row.get(row, [])

    def slots_on(
        self, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Returns the slots of the pods on these rows, row by row, and the pod count of each row.

        Complexity: O(rows + pods on them), vectorized.
        """
        no_slots: array[int] = array("i")
        slots_by_row = [self._slots_on_row.get(row, no_slots) for row in rows.tolist()]
        slots = np.frombuffer(b"".join(slots_by_row), dtype=np.int32)
        return slots.astype(np.intp), np.fromiter(
            map(len, slots_by_row), np.intp, count=len(slots_by_row)
        )

    def has_lower_priority(self, priority: int) -> bool:
        """Returns whether a pod of a lower priority is placed. Complexity: O(slots), in C."""
        is_lower = self.priority < priority
        is_lower &= self.node_row >= 0  # a free slot has priority 0
        return bool(is_lower.any())

    def add(self, placed: PlacedPod) -> None:
        """Adds a pod.

        Raises:
            InvariantViolation: if a pod with its UID exists already.
        """
        uid = placed.info.uid
        if uid in self._by_uid:
            raise InvariantViolation(f"pod {placed.info.key} ({uid}) is placed twice")
        if self._free:
            placed.slot = self._free.pop()
            self._placed[placed.slot] = placed
        else:
            placed.slot = len(self._placed)
            self._placed.append(placed)
            self._grow_to(placed.slot + 1)
        self._by_uid[uid] = placed
        self._append(placed)
        self._write(placed)

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """Stores a newer version, with the same amounts and ports, as the last pod of its node."""
        placed.info = info
        if self._on_row[placed.row][-1] is not placed:
            self._detach(placed)
            self._append(placed)
        self.priority[placed.slot] = info.priority
        self.start_s[placed.slot] = info.start_s

    def remove(self, uid: str) -> PlacedPod:
        """Removes a pod, and returns it.

        Raises:
            InvariantViolation: if there is no such pod.
        """
        placed = self._by_uid.pop(uid, None)
        if placed is None:
            raise InvariantViolation(f"pod with UID {uid} is not placed")
        self._detach(placed)
        self._placed[placed.slot] = None
        self._free.append(placed.slot)
        self.node_row[placed.slot] = -1
        self.priority[placed.slot] = 0
        return placed

    def _append(self, placed: PlacedPod) -> None:
        on_row = self._on_row.setdefault(placed.row, [])
        placed.position = len(on_row)
        on_row.append(placed)
        self._slots_on_row.setdefault(placed.row, array("i")).append(placed.slot)

    def _detach(self, placed: PlacedPod) -> None:
        on_row, slots = self._on_row[placed.row], self._slots_on_row[placed.row]
        last = on_row.pop()
        slots.pop()
        if last is not placed:
            on_row[placed.position], slots[placed.position] = last, last.slot
            last.position = placed.position
        if not on_row:
            del self._on_row[placed.row], self._slots_on_row[placed.row]

    def _write(self, placed: PlacedPod) -> None:
        slot, usage = placed.slot, placed.info.usage
        self.node_row[slot] = placed.row
        self.priority[slot] = placed.info.priority
        self.start_s[slot] = placed.info.start_s
        for line, resource in enumerate(FIXED_RESOURCES):
            amount = usage.get(resource, 0)
            try:
                self.usage[line, slot] = amount
            except OverflowError:
                self.usage[line, slot] = wrap_int64(amount)

    def _grow_to(self, length: int) -> None:
        old_length = len(self.node_row)
        if length <= old_length:
            return
        capacity = max(length, 2 * old_length)
        node_row = np.full(capacity, -1, dtype=np.int32)
        priority = np.zeros(capacity, dtype=np.int32)
        start_s = np.zeros(capacity, dtype=np.int64)
        usage = np.zeros((len(FIXED_RESOURCES), capacity), dtype=np.int64)
        node_row[:old_length], priority[:old_length] = self.node_row, self.priority
        start_s[:old_length], usage[:, :old_length] = self.start_s, self.usage
        self.node_row, self.priority = node_row, priority
        self.start_s, self.usage = start_s, usage
