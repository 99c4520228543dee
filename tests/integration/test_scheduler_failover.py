"""Two replicas of ``mooring run`` on a real control plane: ended, killed and stopped under load.

At no time do two of them write, every pod gets a node, and no node gets more than it has.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import make_list, make_node
from tests.integration.processes import Program, mooring, wait_until

pytestmark = pytest.mark.slow

#: As kube-scheduler: at its next try after a release, and after a lease and a try otherwise.
HANDOVER_S_MAX = 5.0
TAKEOVER_S_MAX = 20.0

NODES = 6
PODS_PER_NODE = 30


@pytest.fixture(scope="module")
def plane(programs: Path) -> Iterator[ControlPlane]:
    """Yields a control plane without kube-scheduler."""
    with ControlPlane() as found:
        nodes = [make_node(f"node-{number}") for number in range(NODES)]
        for node in nodes:
            node["status"]["allocatable"]["pods"] = str(PODS_PER_NODE)
            node["status"]["capacity"]["pods"] = str(PODS_PER_NODE)
        found.kubectl("create", "--filename=-", stdin=json.dumps(make_list(*nodes)))
        yield found


class Replicas:
    """Replicas of ``mooring run``, and the load on them."""

    def __init__(self, plane: ControlPlane, folder: Path, stack: ExitStack) -> None:
        self.plane = plane
        self._folder = folder
        self._stack = stack
        self._count = 0
        self._pods = 0

    def start(self) -> Program:
        folder = self._folder / f"replica-{self._count}"
        folder.mkdir()
        self._count += 1
        kubeconfig = f"--kubeconfig={self.plane.kubeconfig('mooring')}"
        return self._stack.enter_context(mooring(folder, "run", kubeconfig))

    def create_pods(self, count: int) -> None:
        """Creates pods of which each needs a place on a node."""
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"pod-{self._pods + number:03}"},
                "spec": {"containers": [{"name": "main", "image": "some"}]},
            }
            for number in range(count)
        ]
        self._pods += count
        self.plane.kubectl("create", "--filename=-", stdin=json.dumps(make_list(*pods)))

    def holder(self) -> str:
        """Returns the holder of the lease; "" if there is none."""
        result = self.plane.kubectl_result(
            "get", "lease", "kube-scheduler", "--namespace=kube-system",
            "--output=jsonpath={.spec.holderIdentity}",
        )  # fmt: skip
        return result.stdout

    def seconds_until_another_leads(self, before: str) -> float:
        begun_s = time.monotonic()
        wait_until(lambda: self.holder() not in ("", before))
        return time.monotonic() - begun_s

    def placed(self) -> Counter[str]:
        """Returns the number of pods on each node; "" for those without."""
        pods = json.loads(self.plane.kubectl("get", "pods", "--output=json"))["items"]
        return Counter(pod["spec"].get("nodeName", "") for pod in pods)

    def assert_all_are_placed(self) -> None:
        wait_until(lambda: self.placed()[""] == 0)
        on_node = self.placed()
        assert sum(on_node.values()) == self._pods
        assert max(on_node.values()) <= PODS_PER_NODE


def test_one_replica_follows_another_and_no_pod_is_lost(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        replicas = Replicas(plane, tmp_path, stack)
        first = replicas.start()
        first.wait_for("caches synced")
        second = replicas.start()
        second.wait_for("waiting for the lease")
        leader = replicas.holder()

        replicas.create_pods(40)
        assert first.end(signal.SIGTERM) == 0
        handover_s = replicas.seconds_until_another_leads(leader)
        replicas.create_pods(20)
        replicas.assert_all_are_placed()

        third = replicas.start()
        third.wait_for("waiting for the lease")
        leader = replicas.holder()
        replicas.create_pods(40)
        second.process.kill()
        killed_s = replicas.seconds_until_another_leads(leader)
        replicas.assert_all_are_placed()

        fourth = replicas.start()
        fourth.wait_for("waiting for the lease")
        leader = replicas.holder()
        third.process.send_signal(signal.SIGSTOP)
        replicas.create_pods(40)
        stopped_s = replicas.seconds_until_another_leads(leader)
        third.process.send_signal(signal.SIGCONT)
        # Its lease has ended meanwhile: it must notice that before it writes anything.
        assert third.process.wait(30) == 1
        replicas.create_pods(20)
        replicas.assert_all_are_placed()

        plane.kubectl("delete", "lease", "kube-scheduler", "--namespace=kube-system")
        leader = replicas.holder() or leader
        wait_until(lambda: replicas.holder() != "")
        replicas.create_pods(20)
        replicas.assert_all_are_placed()
        assert fourth.process.poll() is None, "a lease that is deleted is made again"
        assert "Traceback" not in fourth.said()
        print(f"SIGTERM {handover_s:.1f} s, SIGKILL {killed_s:.1f} s, SIGSTOP {stopped_s:.1f} s")
        assert handover_s < HANDOVER_S_MAX
        assert killed_s < TAKEOVER_S_MAX
        assert stopped_s < TAKEOVER_S_MAX
