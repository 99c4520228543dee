"""Changes of objects, after which no pod that fits may wait for another one.

Pods that fit nowhere are tried; then nodes, pods, volumes, claims and other objects change, one at
a time. After each change every pod that waits for an event is decided again, without cached
results. If it has a node now, the plugins' queueing hints or the queue have missed the change.
The reference are the filters, which share no code with the hints.

Half of the clusters are those of ``small_cluster.py``, whose pods are retried after each change,
and bound when they fit. The others have more kinds of objects and fields, and their pods are tried
once.

Some changes have no event in kube-scheduler, and so none here: a pod that they help waits for the
flush of the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from mooring.clock import Rng, seeded_random
from mooring.config import KubeSchedulerConfiguration, default_configuration, from_document
from mooring.errors import PluginError
from mooring.framework import Attempt, Diagnosis, schedule_pod
from mooring.objects.codec.decode import convert
from mooring.queue import QueuedPod, QueueName
from tests.faults.parts.hints_events import default_keys, is_without_event
from tests.faults.parts.small_cluster import SmallCluster
from tests.helpers.queue_cluster import QueueCluster
from tests.parity.differential_themes import Document
from tests.parity.requeue import refused
from tests.parity.requeue_cases import ADD, Change, random_requeue_case

#: The share of the clusters that are about devices, and of the updates of one field of a node.
DEVICES_SHARE: Final = 0.2
PARTIAL_SHARE: Final = 0.6
#: The changes of a small cluster, and the time between them: no backoff is longer.
CHANGES: Final = 60
BACKOFF_S: Final = 11.0
HOSTNAME: Final = "kubernetes.io/hostname"


class HintsRun:
    """One run.

    Attributes:
        problems: The pods that wait, although they fit.
    """

    def __init__(self, config: KubeSchedulerConfiguration) -> None:
        self.problems: list[str] = []
        #: The pods that fit since a change without an event.
        self._unnoticed: set[str] = set()
        self._cluster = QueueCluster(config)
        self._default_keys = default_keys(config)

    def tell(self, change: Change) -> None:
        """Reports a change of an object."""
        kind = change.object["kind"]
        old, new = (
            convert(obj, kind) if obj is not None else None for obj in (change.old, change.new)
        )
        self._cluster.tell(kind, old, new)

    def check(self, change: Change) -> None:
        """Decides the pods that wait for an event, after a change."""
        for entry in self._parked():
            if (node := self._node_for(entry)) is not None:
                self._compare(change, entry, node)
            else:
                # What helps it later has an event of its own.
                self._unnoticed.discard(entry.uid)

    def _compare(self, change: Change, entry: QueuedPod, node: str) -> None:
        """Reports a pod that waits, although it fits a node."""
        if is_without_event(change, entry, self._default_keys):
            self._unnoticed.add(entry.uid)
        if entry.uid not in self._unnoticed:
            kind, name = change.object["kind"], change.object["metadata"]["name"]
            plugins = ", ".join(sorted(entry.unschedulable_plugins))
            self.problems.append(
                f"after {change.verb} of {kind} {name} {entry.pod.key} waits, which {plugins} "
                f"rejected, but fits {node}"
            )

    def _parked(self) -> Iterator[QueuedPod]:
        """Yields the pods that wait for an event."""
        waiting = {entry.uid for entry in self._cluster.waiting_to_be_tried()}
        for entry in self._cluster.queue.pods():
            if entry.uid not in waiting and not entry.pod.spec.scheduling_gates:
                yield entry

    def _node_for(self, entry: QueuedPod) -> str | None:
        """Returns a node for a pod; None = none fits, or its attempt ends in an error."""
        try:
            result = self._decide(entry)
        except PluginError:
            return None
        return None if isinstance(result, Diagnosis) else result

    def _decide(self, entry: QueuedPod) -> Diagnosis | str:
        """Returns the node of a pod, or why there is none, without cached results."""
        framework = self._cluster.profiles["default-scheduler"]
        framework.clear_cached_results()
        snapshot = self._cluster.cache.snapshot()
        result = schedule_pod(
            framework, framework.new_cycle(entry.pod, snapshot), Attempt(snapshot)
        )
        return result if isinstance(result, Diagnosis) else result.node_name


class LargeRun(HintsRun):
    """A run with many kinds of objects."""

    def __init__(self, seed: int) -> None:
        #: Of changes of a single field; they change nothing else that is drawn.
        self._more = seeded_random(seed + 1)
        self._nodes: dict[str, Document] = {}
        rng = seeded_random(seed)
        with_devices = rng.random() < DEVICES_SHARE
        self._case = case = refused(random_requeue_case(rng, with_devices=with_devices))
        super().__init__(from_document(case.config))
        for obj in [*case.objects, *case.pods]:
            self.tell(Change(ADD, None, obj))

    def run(self) -> None:
        """Tries all pods, and makes all changes, until a pod waits that fits."""
        while any(entry.queue_name is QueueName.ACTIVE for entry in self._cluster.queue.pods()):
            self._cluster.try_next()
        for change in self._case.changes:
            self.tell(self._perhaps_partial(change))
            self.check(change)
            if self.problems:
                return

    def _perhaps_partial(self, change: Change) -> Change:
        """Returns the change, or that of a single field of a node."""
        if change.object["kind"] != "Node":
            return change
        name, new = change.object["metadata"]["name"], change.new
        old = self._nodes.pop(name, change.old)
        if old is not None and new is not None and self._more.random() < PARTIAL_SHARE:
            new = _with_one_field(self._more, old, new)
        if new is not None:
            self._nodes[name] = new
        return Change(change.verb, old, new)


class SmallRun(HintsRun):
    """A run of a small cluster, whose pods are retried."""

    def __init__(self, seed: int) -> None:
        super().__init__(default_configuration())
        self._small = SmallCluster(seeded_random(seed))
        for obj in list(self._small.objects.values()):
            self.tell(Change(ADD, None, obj))

    def run(self) -> None:
        """Makes changes, and tries the pods, until a pod waits that fits."""
        for _ in range(CHANGES):
            self._try_all()
            if (change := self._small.change()) is None:
                continue
            self.tell(change)
            self.check(change)
            if self.problems:
                return

    def _try_all(self) -> None:
        """Tries the pods whose backoff is over; those that fit are bound."""
        queue = self._cluster.queue
        self._cluster.clock.advance(BACKOFF_S)
        queue.flush()
        while (entry := queue.pop()) is not None:
            self._unnoticed.discard(entry.uid)
            with queue.in_flight(entry):
                result = self._decide(entry)
                if isinstance(result, Diagnosis):
                    queue.add_unschedulable(
                        entry,
                        entry.pod,
                        refused_by=result.unschedulable_plugins,
                        pending_on=result.pending_plugins,
                    )
                    continue
            binding = self._small.bind(entry.pod.key, result)
            self.tell(binding)
            self.check(binding)


def _with_one_field(rng: Rng, old: Document, new: Document) -> Document:
    """Returns a node in which one label, or one other field, is that of a later version."""
    changed = deepcopy(old)
    labels = changed["metadata"].setdefault("labels", {})
    later = new["metadata"].get("labels", {})
    keys = sorted({*labels, *later} - {HOSTNAME})
    field = rng.choice((*keys, "taints", "unschedulable", "allocatable"))
    if field in keys:
        labels.pop(field, None)
        labels |= {field: later[field]} if field in later else {}
    elif field == "allocatable":
        changed["status"] = {**changed.get("status", {}), field: new["status"].get(field, {})}
    else:
        changed["spec"] = {**changed.get("spec", {}), field: new.get("spec", {}).get(field)}
    return changed


def run_hints(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod that fits waits for an event.
    """
    hints = SmallRun(seed) if seed % 2 else LargeRun(seed)
    hints.run()
    assert not hints.problems, hints.problems[0]
