"""Claims of devices under faults, generated from a seed, on virtual time.

Users create and delete pods with claims, a stand-in for the resource-claim controller releases the
claims of deleted pods, and slices are replaced. In a quarter of the runs some pods have a claim
that is allocated on a node which accepts no pods, so that the scheduler has to free it. After every
write of a claim no device is allocated twice. When the faults have ended, as many pods are bound as
there are devices, no claim is reserved for a pod that does not exist, and none has the device that
no pod can use.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.errors import ApiError
from mooring.objects.pod import Pod
from tests.faults.fault_fixture import Lab
from tests.faults.harness.checkers import SCHEDULER
from tests.faults.harness.faults import Faults
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.records import compared
from tests.helpers.virtual_loop import LimitedLoop

#: MOORING_SEEDS=1000 runs more of them.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200")) // 5
BLOCK = 10

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
NODES, DEVICES = 3, 1
#: At the start: more than there are devices.
PODS_FIRST = 8
#: In such seeds, modulo four, there is one more node, which is cordoned.
WITH_CORDONED = 2
CORDONED = f"node-{NODES}"
#: Of the actions there so many create a pod with a claim that is allocated on this node.
STUCK_SHARE = 0.25
BUSY_S, HEALED_S, QUIET_S = 90.0, 150.0, 400.0


class DeviceLab(Lab):
    """A lab that checks the claims after each write of one."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.rng = seeded_random(seed + 7)
        self.problems: list[str] = []
        self.created = 0
        self.stuck = seeded_random(seed + 11) if seed % 4 == WITH_CORDONED else None
        #: How many claims were allocated on the node that is cordoned.
        self.stuck_claims = 0
        inner = InProcessTransport(self.checked)
        self.transport._inner = FaultyTransport(self.network, inner)
        self.direct = Client(InProcessTransport(self.store.handler("user")), rng=self.rng)

    async def checked(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request of the scheduler, and checks the claims after a write."""
        handle = self.store.handler(SCHEDULER)
        response = await handle(method, path, query, headers, body)
        if method != "GET" and "resourceclaims" in path:
            self.problems += double_allocations(await self.claims())
        return response

    async def claims(self) -> list[dict[str, Any]]:
        body = await self.direct.read(Request("GET", CLAIMS, deadline_s=10.0))
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return items

    async def post(self, path: str, obj: Mapping[str, Any]) -> None:
        await self.direct.write("POST", path, msgspec.json.encode(obj))

    # -- users ------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        for number in range(NODES + (self.stuck is not None)):
            name = f"node-{number}"
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "50"}
            status = {"allocatable": amounts, "capacity": amounts}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            node |= {"spec": {"unschedulable": True}} if name == CORDONED else {}
            await self.post("/api/v1/nodes", {**node, "status": status})
            await self.post(f"{GROUP}/resourceslices", self.slice(number, 1))
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        await self.post(
            f"{GROUP}/deviceclasses", _object("DeviceClass", "gpu", {"selectors": [selector]})
        )

    def slice(self, number: int, generation: int) -> dict[str, Any]:
        devices = [{"name": f"gpu-{device}"} for device in range(DEVICES)]
        pool = {"name": f"node-{number}", "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
        return _object("ResourceSlice", f"slice-{number}", spec)

    async def act(self) -> None:
        if self.stuck is not None and self.stuck.random() < STUCK_SHARE:
            await self.create_stuck_pod()
        action = self.rng.choices(
            (self.create_pod, self.delete_pod, self.replace_slice, self.touch_claim),
            (6, 4, 1, 2),
        )[0]
        with suppress(ApiError, IndexError):  # no such pod exists, or it was changed concurrently
            await action()

    async def create_stuck_pod(self) -> None:
        """Creates a pod whose claim is allocated where no pod may go."""
        if self.on_cordoned(await self.claims()):
            return
        name = await self.create_claim()
        path = f"{CLAIMS}/{name}"
        claim = json.loads(await self.direct.read(Request("GET", path, deadline_s=10.0)))
        result = {"request": "r", "driver": DRIVER, "pool": CORDONED, "device": "gpu-0"}
        field = {"key": "metadata.name", "operator": "In", "values": [CORDONED]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
        claim["status"] = {"allocation": allocation}
        await self.direct.write("PUT", f"{path}/status", msgspec.json.encode(claim))
        self.stuck_claims += 1
        await self.create_user(name)

    def on_cordoned(self, claims: Sequence[Mapping[str, Any]]) -> list[str]:
        """Returns the claims that have the device of the cordoned node."""
        return [
            f"{claim['metadata']['name']} is still allocated on {CORDONED}"
            for claim in claims
            for result in _results(claim)
            if result["pool"] == CORDONED
        ]

    async def create_pod(self) -> None:
        await self.create_user(await self.create_claim())

    async def create_claim(self) -> str:
        self.created += 1
        name = f"pod-{self.created}"
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        await self.post(
            CLAIMS, _object("ResourceClaim", name, {"devices": {"requests": [request]}})
        )
        return name

    async def create_user(self, name: str) -> None:
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        }
        metadata = {"name": name, "namespace": "default"}
        await self.post(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )

    async def delete_pod(self) -> None:
        name = self.rng.choice(list(self.store.pods.values())).metadata.name
        await self.direct.delete("Pod", name, "default", grace_period_s=0)
        await self.direct.delete("ResourceClaim", name, "default")

    async def replace_slice(self) -> None:
        """Publishes the devices of a node in a new generation of their pool."""
        number = self.rng.randrange(NODES)
        path = f"{GROUP}/resourceslices/slice-{number}"
        stored = json.loads(await self.direct.read(Request("GET", path, deadline_s=10.0)))
        stored["spec"]["pool"]["generation"] += 1
        await self.direct.write("PUT", path, msgspec.json.encode(stored))

    async def touch_claim(self) -> None:
        """Changes a label of a claim: writes of the scheduler conflict."""
        claim = self.rng.choice(await self.claims())
        labels = {"metadata": {"labels": {"touched": str(self.rng.randrange(99))}}}
        name = claim["metadata"]["name"]
        await self.direct.patch("ResourceClaim", name, labels, namespace="default")

    async def control_claims(self) -> None:
        """Releases the claims of pods that do not exist any more, as the controller does."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 2.0))
            uids = set(self.store.pods)
            for claim in await self.claims():
                users = claim.get("status", {}).get("reservedFor", [])
                alive = [user for user in users if user["uid"] in uids]
                is_unused = not alive and "allocation" in claim.get("status", {})
                is_deleted = "deletionTimestamp" in claim["metadata"]
                if len(alive) < len(users) or (is_unused and is_deleted):
                    await self.release(claim, alive)

    async def release(self, claim: dict[str, Any], alive: list[Any]) -> None:
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        claim["status"]["reservedFor"] = alive
        if not alive:
            claim["status"].pop("allocation", None)
        with suppress(ApiError):  # changed concurrently: next time
            stored = await self.direct.write("PUT", f"{path}/status", msgspec.json.encode(claim))
            if not alive:
                unprotected = json.loads(stored)
                unprotected["metadata"]["finalizers"] = []
                await self.direct.write("PUT", path, msgspec.json.encode(unprotected))

    # -- the end ----------------------------------------------------------------------------------

    def unbound(self) -> str:
        """Returns what is wrong if fewer pods are bound than there are devices for."""
        pods = list(self.store.pods.values())
        bound = sum(bool(pod.spec.node_name) for pod in pods)
        expected = min(len(pods), NODES * DEVICES)
        return "" if bound == expected else f"{bound} of {len(pods)} pods are bound, not {expected}"


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _results(claim: Mapping[str, Any]) -> list[Any]:
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    results: list[Any] = allocation["devices"]["results"]
    return results


def double_allocations(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the devices that several claims have."""
    owners = Counter(
        f"{result['pool']}/{result['device']}" for claim in claims for result in _results(claim)
    )
    return [f"{device} is allocated {count} times" for device, count in owners.items() if count > 1]


def orphans(claims: Sequence[Mapping[str, Any]], pods: Mapping[str, Pod]) -> list[str]:
    """Returns the claims that are reserved for pods that do not exist."""
    return [
        f"{claim['metadata']['name']} is reserved for {user['name']}"
        for claim in claims
        for user in claim.get("status", {}).get("reservedFor", ())
        if user["uid"] not in pods
    ]


async def run(seed: int) -> tuple[int, int]:
    """Runs a seed; returns the numbers of faults and of bound pods."""
    lab = DeviceLab(seed)
    await lab.prepare()
    async with lab.running(), asyncio.TaskGroup() as tasks:
        controlling = tasks.create_task(lab.control_claims())
        lab.network.faults = replace(Faults.drawn(lab.rng), broken_pods=0.0, restarts=0.0)
        for _ in range(PODS_FIRST):
            await lab.create_pod()
        for _ in range(30):
            await lab.act()
            await asyncio.sleep(lab.rng.uniform(0.0, 2 * BUSY_S / 30))
        lab.network.heal()
        await asyncio.sleep(max(0.0, lab.network.healed_at_s - asyncio.get_running_loop().time()))
        await asyncio.sleep(HEALED_S)
        lab.problems += lab.on_cordoned(await lab.claims())
        await asyncio.sleep(QUIET_S)
        problems = [*lab.problems, *orphans(await lab.claims(), lab.store.pods)]
        problems += double_allocations(await lab.claims())
        problems += filter(None, [lab.unbound()])
        controlling.cancel()
        assert not problems, f"seed {seed}: {problems[:5]}"
    return lab.network.fired.total(), lab.checker.binds


def run_seed(seed: int) -> tuple[int, int]:
    """Runs a seed on a loop of its own; AssertionError if an invariant is violated."""
    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(seed))) as runner:
        return runner.run(run(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_device_is_allocated_twice_and_no_claim_is_left_behind(first: int) -> None:
    faults = binds = 0
    for seed in range(first, first + BLOCK):
        fired, bound = compared("device", seed, run_seed)
        faults, binds = faults + fired, binds + bound
    assert faults > BLOCK
    assert binds > 4 * BLOCK


def test_the_lab_finds_a_device_that_is_allocated_twice() -> None:
    result = {"pool": "node-0", "device": "gpu-0"}
    claim = {"status": {"allocation": {"devices": {"results": [result]}}}}
    assert double_allocations([claim]) == []
    assert double_allocations([claim, claim]) == ["node-0/gpu-0 is allocated 2 times"]
