"""The unschedulable pods that an event requeues, from kube-scheduler's integration tests.

Cache, queue, frameworks and event handlers are the real ones; only the API server is left out. A
pod is attempted once and becomes unschedulable, then an object changes, and the queue is checked.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mooring.client import ObjectChange
from mooring.clock import VirtualClock, seeded_random
from mooring.config import KubeSchedulerConfiguration, default_configuration, from_document
from mooring.framework import Attempt, Diagnosis, schedule_pod
from mooring.queue import QueuedPod, QueueName, SchedulingQueue
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.offline import OfflineHandle
from mooring.state import audit
from mooring.state.cache import Cache
from tests.plugins.upstream_tables import read

FILE = Path(__file__).with_name("data") / "upstream_requeued.json.gz"


@cache
def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


class Cluster:
    """Objects as raw documents, and a scheduler that gets their changes."""

    def __init__(self, config: KubeSchedulerConfiguration) -> None:
        self.cache = Cache()
        clock = VirtualClock()
        handle = OfflineHandle(self.cache, clock, seeded_random(0))
        self.profiles = load_profiles(config, handle, clock=clock, waiting=handle.waiting)
        self.queue = SchedulingQueue(self.profiles, clock=clock)
        self.events = EventHandlers(self.cache, self.queue, self.profiles, handle.waiting)
        self.stored: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0

    def write(self, kind: str, raw: dict[str, Any], *, is_status: bool = False) -> None:
        """Creates or update: the status alone, or all but the status."""
        at, self.version = (kind, raw["metadata"]["name"]), self.version + 1
        old = self.stored.get(at)
        new = dict(raw)
        if old is not None and is_status:
            new = {**old, "status": raw.get("status", {})}
        elif old is not None:
            new = {**raw, "status": old.get("status", {})}
        uid = f"uid-{self.version}" if old is None else old["metadata"]["uid"]
        own = {"uid": uid, "resourceVersion": str(self.version)}
        new["metadata"] = {**new["metadata"], **own}
        self.stored[at] = new
        self._tell(kind, old, new)

    def delete(self, kind: str, name: str) -> None:
        self._tell(kind, self.stored.pop((kind, name)), None)

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        self.events.on_change(kind, ObjectChange(read(old, kind), read(new, kind)))

    def try_next(self) -> Diagnosis:
        """Attempts the next pod, which must become unschedulable."""
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            framework, snapshot = self.profiles["default-scheduler"], self.cache.snapshot()
            found = schedule_pod(
                framework, framework.new_cycle(entry.pod, snapshot), Attempt(snapshot)
            )
            assert isinstance(found, Diagnosis)
            self.queue.add_unschedulable(
                entry,
                entry.pod,
                refused_by=found.unschedulable_plugins,
                pending_on=found.pending_plugins,
            )
        return found

    def waiting_to_be_tried(self) -> list[QueuedPod]:
        return [
            e for e in self.queue.pods() if e.queue_name in (QueueName.ACTIVE, QueueName.BACKOFF)
        ]


def only(plugins: list[str] | None) -> KubeSchedulerConfiguration:
    """Returns a configuration with these plugins alone; None = the default one."""
    if plugins is None:
        return default_configuration()
    names = ["PrioritySort", "DefaultBinder", *plugins]
    points = {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": points}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return from_document(document)


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["number"])) for case in cases()])
def test_an_event_brings_back_the_pods_that_it_can_help(case: dict[str, Any]) -> None:
    cluster = Cluster(only(case["plugins"]))
    for kind, objects in case["initial"].items():
        for raw in objects:
            cluster.write(kind, raw)
    for raw in case["pods"]:
        cluster.write("Pod", raw)
    for _ in case["pods"]:
        cluster.try_next()
    assert cluster.waiting_to_be_tried() == []

    for change in case["changes"]:
        if change["verb"] == "delete":
            cluster.delete(change["kind"], change["name"])
        else:
            cluster.write(change["kind"], change["object"], is_status=change["is_status"])

    names = {raw["metadata"]["name"] for raw in case["pods"]}
    found = {entry.pod.metadata.name for entry in cluster.waiting_to_be_tried()}
    assert sorted(found & names) == case["requeued"]
    assert audit(cluster.cache) == []
