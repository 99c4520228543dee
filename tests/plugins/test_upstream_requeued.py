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

from mooring.config import KubeSchedulerConfiguration, default_configuration, from_document
from mooring.state import audit
from tests.helpers.queue_cluster import QueueCluster
from tests.plugins.upstream_tables import read

FILE = Path(__file__).with_name("data") / "upstream_requeued.json.gz"


@cache
def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


class Cluster(QueueCluster):
    """Objects as raw documents, and a scheduler that gets their changes."""

    def __init__(self, config: KubeSchedulerConfiguration) -> None:
        super().__init__(config)
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
        self.tell(kind, read(old, kind), read(new, kind))

    def delete(self, kind: str, name: str) -> None:
        self.tell(kind, read(self.stored.pop((kind, name)), kind), None)


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
