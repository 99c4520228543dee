"""Opportunistic batching beside kube-scheduler: equal pods on equal nodes get the same nodes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import make_list, make_node
from tests.integration.processes import free_port, mooring, wait_until

pytestmark = pytest.mark.slow

SCHEDULERS = ("kube", "mooring")
#: The capacity of each scheduler's nodes, in cpus: one pod each, and equal scores among them.
CPUS = ("2", "1", "2", "1", "2", "2", "3", "1")
PODS = 7
#: Sorted nodes are used for half a second.
AGE_S = 0.4
ROUNDS = 20

#: Without default spread constraints, so that pods can be signed.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 1
percentageOfNodesToScore: 100
leaderElection: {leaderElect: false}
profiles:
- schedulerName: NAME
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List}
"""


def nodes() -> list[dict[str, Any]]:
    """Returns the nodes of the two schedulers by turns."""
    found = []
    for number, cpus in enumerate(CPUS):
        for name in SCHEDULERS:
            node = make_node(f"{name}-{number}", cpu=cpus)
            node["metadata"]["labels"] = {"for": name}
            found.append(node)
    return found


def pods(scheduler: str) -> list[dict[str, Any]]:
    """Returns equal pods for the nodes of one scheduler; a node has a free port for one."""
    container = {"name": "main", "image": "some", "ports": [{"containerPort": 80, "hostPort": 80}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{scheduler}-{number}", "namespace": "default"},
            "spec": {
                "schedulerName": scheduler,
                "nodeSelector": {"for": scheduler},
                "containers": [container],
            },
        }
        for number in range(PODS)
    ]


@contextmanager
def kube_scheduler(programs: Path, plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Runs the real scheduler while the block does."""
    (folder / "kube.yaml").write_text(
        CONFIG.replace("NAME", "kube")
        + f"clientConnection: {{kubeconfig: {plane.kubeconfig('system:kube-scheduler')}}}\n"
    )
    words = [f"--config={folder / 'kube.yaml'}", f"--secure-port={free_port()}"]
    with (folder / "kube.log").open("wb") as log:
        process = subprocess.Popen([str(programs / "kube-scheduler"), *words], stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def nodes_of(plane: ControlPlane, scheduler: str) -> list[str]:
    """Returns the numbers of the nodes of a scheduler's pods, in the pods' order."""
    pods = json.loads(plane.kubectl("get", "pods", "--output=json"))["items"]
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
    return [nodes[f"{scheduler}-{number}"].removeprefix(f"{scheduler}-") for number in range(PODS)]


def answers(plane: ControlPlane, scheduler: str) -> bool:
    """Returns whether the scheduler has tried its first pod without nodes."""
    path = "--output=jsonpath={.status.conditions[*].message}"
    return "no nodes" in plane.kubectl("get", "pod", f"{scheduler}-0", path)


def placed(plane: ControlPlane, scheduler: str) -> list[str]:
    """Returns the nodes of new pods that were created within the age of a batch."""
    for _ in range(ROUNDS):
        started_s = time.monotonic()
        create(plane, pods(scheduler))
        took_s = time.monotonic() - started_s
        wait_until(lambda: all(nodes_of(plane, scheduler)))
        chosen = nodes_of(plane, scheduler)
        if took_s < AGE_S:
            return chosen
        names = [pod["metadata"]["name"] for pod in pods(scheduler)]
        plane.kubectl("delete", "pod", "--grace-period=0", "--force", *names)
    raise AssertionError(f"the machine never created {PODS} pods within {AGE_S} s")


def create(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    plane.kubectl("create", "--filename=-", stdin=json.dumps(make_list(*objects)))


def test_the_next_replica_gets_the_node_that_kube_scheduler_gives_it(
    programs: Path, tmp_path: Path
) -> None:
    """The nodes come one after another, so that both schedulers list them in the same order."""
    (tmp_path / "mooring.yaml").write_text(CONFIG.replace("NAME", "mooring"))
    with ControlPlane() as plane:
        words = ("run", f"--kubeconfig={plane.kubeconfig('mooring')}", "--config=mooring.yaml")
        with (
            kube_scheduler(programs, plane, tmp_path),
            mooring(tmp_path, *words),
        ):
            for name in SCHEDULERS:  # a scheduler that answers has synced its caches
                create(plane, pods(name)[:1])
                wait_until(partial(answers, plane, name))
                plane.kubectl("delete", "pod", "--grace-period=0", "--force", f"{name}-0")
            create(plane, nodes())
            theirs, ours = placed(plane, "kube"), placed(plane, "mooring")
    assert ours == theirs
    # Without batching the next pod takes the first of the best nodes each time.
    best_first = sorted(range(len(CPUS)), key=lambda number: -int(CPUS[number]))
    assert [int(number) for number in theirs] != best_first[:PODS]
