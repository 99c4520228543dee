"""The load of a soak: pods and nodes that come and go for as long as it runs, all with new names.

``python -m bench.soak_load --kubeconfig F --nodes N --rate R`` creates the nodes, prints "ready",
then creates R pods a second and deletes as many. The number of pods and nodes stays the same, their
names and labels do not: what a scheduler keeps of objects that are gone adds up.

- Pods belong to ``APPS`` applications; each application has a new template hash from time to time,
  as after a rollout. Nine in ten are plain; others are spread, have anti-affinity, or fit no node.
- A node is replaced every ``NODE_INTERVAL_S``: its pods are deleted, then the node, and one with a
  new name is created. Another node gets a changed label at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from mooring.client import Client, Informer, ObjectChange
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.clock import SystemClock, seeded_random
from mooring.errors import NotFound
from mooring.event_loop import loop_factory
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod

APPS: Final = 40
ZONES: Final = 10
#: Pods of an application between two rollouts.
PODS_PER_ROLLOUT: Final = 500
NODE_INTERVAL_S: Final = 2.0
#: Pods on a node, on average, once the number of pods is constant.
PODS_PER_NODE: Final = 2
CREATORS: Final = 16


class Load:
    """Creates and deletes objects until cancelled.

    Args:
        client: Sends the requests.
        nodes: Number of nodes.
        rate: Pods a second.
    """

    def __init__(self, client: Client, *, nodes: int, rate: float) -> None:
        self._client = client
        self._nodes_max = nodes
        self._pods_max = nodes * PODS_PER_NODE
        self._rate = rate
        self._numbers = itertools.count()
        self._node_numbers = itertools.count()
        #: Names in the order of their creation.
        self._nodes: deque[str] = deque()
        self._pods: deque[str] = deque()
        self.counts = {"pods created": 0, "pods deleted": 0, "nodes replaced": 0}
        clock, rng = SystemClock(), seeded_random(3)
        self.informer = Informer(client, "Pod", self._on_pod, clock=clock, rng=rng)
        self._on_node: dict[str, dict[str, None]] = {}

    async def create_nodes(self) -> None:
        """Creates all nodes."""
        await _together([self._add_nodes() for _ in range(CREATORS)])

    async def _add_nodes(self) -> None:
        while len(self._nodes) < self._nodes_max:
            await self._add_node()

    async def _add_node(self) -> None:
        number = next(self._node_numbers)
        name = f"node-{number:06}"
        self._nodes.append(name)
        await self._client.create(make_node(name, zone=f"zone-{number % ZONES}"))

    def _on_pod(self, change: ObjectChange) -> None:
        pod = change.new or change.old
        if change.new is None:
            self._on_node.get(pod.spec.node_name, {}).pop(pod.metadata.name, None)
        elif pod.spec.node_name:
            self._on_node.setdefault(pod.spec.node_name, {})[pod.metadata.name] = None

    async def change_pods(self) -> None:
        """Creates pods at the rate; deletes the oldest while there are too many."""
        started_s, clock = asyncio.get_running_loop().time(), asyncio.get_running_loop().time
        for number in itertools.count():
            await asyncio.sleep(max(0.0, started_s + number / self._rate - clock()))
            pod = pod_number(next(self._numbers))
            await self._client.create(pod)
            self._pods.append(pod.metadata.name)
            self.counts["pods created"] += 1
            if len(self._pods) > self._pods_max:
                await self._delete(self._pods.popleft())

    async def change_nodes(self) -> None:
        """Replaces the oldest node, and changes a label of another one, again and again."""
        for number in itertools.count():
            await asyncio.sleep(NODE_INTERVAL_S)
            name = self._nodes.popleft()
            for pod in list(self._on_node.pop(name, {})):
                await self._delete(pod)
            await self._client.delete("Node", name)
            await self._add_node()
            self.counts["nodes replaced"] += 1
            labels = {"metadata": {"labels": {"example.com/revision": f"r{number}"}}}
            await self._client.patch("Node", self._nodes[number % len(self._nodes)], labels)

    async def _delete(self, pod: str) -> None:
        try:
            await self._client.delete("Pod", pod, "default", grace_period_s=0)
        except NotFound:
            return  # with its node, or as the oldest
        self.counts["pods deleted"] += 1


def pod_number(number: int) -> Pod:
    """The pod of a number: one of ten is special."""
    app = number % APPS
    # The rollouts of the applications follow each other, so that the cluster looks always alike.
    rollout = (number // APPS + app * PODS_PER_ROLLOUT // APPS) // PODS_PER_ROLLOUT
    labels = {"app": f"app-{app}", "pod-template-hash": f"{rollout}"}
    requests, spec, affinity = {"cpu": f"{10 + app}m", "memory": "100Mi"}, {}, None
    selector = {"matchLabels": {"app": f"app-{app}"}}
    match number // APPS % 30:
        case 0:
            spec = {"topologySpreadConstraints": [_spread(selector)]}
        case 1:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
            affinity = {"podAntiAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}}
        case 2:
            requests["cpu"] = "64"
    return make_pod(
        f"pod-{number:08}", labels=labels, requests=requests, affinity=affinity, spec=spec
    )


PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _spread(selector: dict[str, Any]) -> dict[str, Any]:
    return {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }


async def _together(work: list[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for coroutine in work:
            tasks.create_task(coroutine)


async def run(kubeconfig: str, *, nodes: int, rate: float) -> None:
    """Creates the nodes, then changes the cluster until SIGTERM."""
    access = find_access(kubeconfig, environment=os.environ)
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    load = Load(Client(transport, rng=seeded_random(2)), nodes=nodes, rate=rate)
    await load.create_nodes()
    print("ready", flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with asyncio.TaskGroup() as tasks:
        works = (load.informer.run(), load.change_pods(), load.change_nodes())
        running = [tasks.create_task(work) for work in works]
        await stopped.wait()
        for task in running:
            task.cancel()
    await transport.close()
    print(", ".join(f"{count} {name}" for name, count in load.counts.items()), flush=True)


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    words = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run(words.kubeconfig, nodes=words.nodes, rate=words.rate))


if __name__ == "__main__":
    main()
