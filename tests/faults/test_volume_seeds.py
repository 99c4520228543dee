"""Volumes under faults, generated from a seed, on virtual time.

Users create and delete pods with claims of each binding mode; a controller that is slow and fails
binds them. The invariants are those of ``volume_checker``. When the faults have ended, each zone
gets enough volumes: then every pod is bound that its volumes allow.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.config import KubeSchedulerConfiguration, loads
from mooring.errors import ApiError
from tests.faults.fault_fixture import Lab
from tests.faults.harness.checkers import SCHEDULER
from tests.faults.harness.faults import Faults, now_s
from tests.faults.harness.records import compared
from tests.faults.harness.scheduler_checker import leaks
from tests.faults.harness.trace import InvariantBroken
from tests.faults.harness.volume_checker import VolumeChecker
from tests.faults.harness.volume_controller import (
    CLAIMS,
    CLASSES,
    HOST,
    VOLUMES,
    ZONE,
    VolumeController,
    volume,
)
from tests.faults.planted.volume_runs import VOLUME_MUTATIONS
from tests.faults.twins.attached_volumes import AttachedVolumes
from tests.helpers.virtual_loop import LimitedLoop

#: MOORING_SEEDS=1000 runs more of them.
SEEDS: Final = int(os.environ.get("MOORING_SEEDS", "200")) // 10
BLOCK: Final = 10
#: A planted bug must be detected within so many seeds; most are in the first two.
SEEDS_OF_MUTATIONS: Final = 20

ZONES: Final = ("a", "b")
NODES: Final = 4
PODS_FIRST: Final = 8
ACTIONS: Final = 40
BUSY_S: Final = 120.0
#: Seconds that PreBind waits for the controller: less than some of its pauses.
BIND_TIMEOUT_S: Final = 30
#: Seconds from the end of the faults until all is bound: a wait in PreBind, an informer's pause of
#: a minute, a backoff. Less than the five minutes after which each unschedulable pod is retried.
HEALED_S: Final = 150.0

#: Path -> least number in a block of ten seeds: about a third of what was counted.
LEAST: Final = {
    "pod with claims bound": 50,
    "scheduler chose a volume": 14,
    "scheduler selected a node": 20,
    "bound": 60,
    "bound immediately": 10,
    "provisioned": 25,
    "provisioning refused": 4,
    "interrupted": 45,
    "released": 25,
    "volume prebound": 14,
    "claim shared": 12,
    "local volume": 20,
}


class VolumeLab(Lab):
    """A lab with volumes, their users and their controller."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed, config=_config())
        self.rng = seeded_random(seed + 11)
        self.volumes = VolumeChecker(self.api, lambda: self.store._actor, SCHEDULER)
        self.direct = Client(InProcessTransport(self.store.handler("user")), rng=self.rng)
        self.controller = VolumeController(self.direct, self.volumes, self.rng)
        self.done: Counter[str] = Counter()
        self.attached = AttachedVolumes(self.service, partial(self.findings.report, "T1"))
        self._number = 0

    async def tick(self) -> None:
        """Compares the waits with their model once per second."""
        while True:
            await asyncio.sleep(1.0)
            self.attached.on_tick()

    async def post(self, path: str, obj: Mapping[str, Any]) -> None:
        await self.direct.write("POST", path, msgspec.json.encode(obj))

    async def prepare(self) -> None:
        for number in range(NODES):
            name = f"node-{number}"
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "100"}
            labels = {HOST: name, ZONE: ZONES[number % len(ZONES)]}
            metadata = {"name": name, "labels": labels}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            await self.post(
                "/api/v1/nodes", {**node, "status": {"allocatable": amounts, "capacity": amounts}}
            )
        for name, (mode, is_provisioned) in CLASSES.items():
            provisioner = "csi.example.com" if is_provisioned else "kubernetes.io/no-provisioner"
            await self.post(
                "/apis/storage.k8s.io/v1/storageclasses",
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": name},
                    "provisioner": provisioner,
                    "volumeBindingMode": mode,
                },
            )
        for _ in range(6):
            await self.create_volume()

    # -- users ------------------------------------------------------------------------------------

    async def act(self) -> None:
        action = self.rng.choices(
            (self.create_pod, self.delete_pod, self.create_volume, self.touch_volume),
            (6, 4, 3, 3),
        )[0]
        with suppress(ApiError, IndexError):  # it does not exist, or was changed concurrently
            await action()

    async def create_volume(self) -> None:
        """Creates a volume of a class without a provisioner, in a zone or on a node."""
        self._number += 1
        key, values = self.rng.choice(((ZONE, ZONES), (HOST, ("node-0", "node-1", "node-2"))))
        class_name = self.rng.choice(("static", "static", "immediate"))
        self.done["local volume"] += key == HOST
        name = f"volume-{self._number}"
        await self.post(VOLUMES, volume(name, class_name, key, self.rng.choice(values)))

    async def create_pod(self) -> None:
        """Creates a pod with one or two claims, of which one may be another pod's.

        One of five pods has two that are provisioned, one after the other.
        """
        self._number += 1
        name, names = f"pod-{self._number}", []
        if self._number % 5 == 0:
            names = [f"{name}-{number}" for number in range(2)]
            for claim_name in names:
                await self.create_claim(claim_name, "provisioned")
        for number in range(0 if names else self.rng.choice((1, 1, 2))):
            shared = list(self.volumes.objects("persistentvolumeclaims"))
            if number and shared and self.rng.random() < 0.4:
                names.append(self.rng.choice(shared))
                self.done["claim shared"] += 1
                continue
            names.append(f"{name}-{number}")
            await self.create_claim(names[-1])
        volumes = [_use(claim) for claim in dict.fromkeys(names)]
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self.post("/api/v1/namespaces/default/pods", pod)

    async def create_claim(self, name: str, class_name: str = "") -> None:
        """Creates a claim, of any class if it is ""; some name a volume that is free now."""
        class_name, number = class_name or self.rng.choice(list(CLASSES)), self._number
        spec: dict[str, Any] = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class_name,
        }
        free = [
            at
            for at, stored in self.volumes.objects("persistentvolumes").items()
            if "claimRef" not in stored["spec"] and stored["spec"]["storageClassName"] == class_name
        ]
        claimed = {
            claim["spec"].get("volumeName")
            for claim in self.volumes.objects("persistentvolumeclaims").values()
        }
        free = [at for at in free if at not in claimed]
        if free and self.rng.random() < 0.3:
            spec["volumeName"] = self.rng.choice(free)
            self.done["volume prebound"] += 1
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            # Claims with another annotation keep it when a provisioner refuses a node.
            "metadata": {"name": name, "annotations": {"owner": "team"} if number % 2 else {}},
            "spec": spec,
        }
        await self.post(CLAIMS, claim)

    async def delete_pod(self) -> None:
        """Deletes a pod and its claims."""
        name = self.rng.choice(list(self.volumes.objects("pods")))
        await self.direct.delete("Pod", name, "default", grace_period_s=0)
        for number in range(2):
            claim = f"{name}-{number}"
            if claim in self.volumes.objects("persistentvolumeclaims"):
                await self.direct.delete("PersistentVolumeClaim", claim, "default")

    async def touch_volume(self) -> None:
        """Changes a label of a volume or claim: writes of the scheduler conflict."""
        labels = {"metadata": {"labels": {"touched": str(self.rng.randrange(99))}}}
        if self.rng.random() < 0.5:
            name = self.rng.choice(list(self.volumes.objects("persistentvolumes")))
            await self.direct.patch("PersistentVolume", name, labels)
            return
        name = self.rng.choice(list(self.volumes.objects("persistentvolumeclaims")))
        await self.direct.patch("PersistentVolumeClaim", name, labels, namespace="default")

    async def provide_volumes(self) -> None:
        """Creates a free volume of each class for each claim, in each zone."""
        count = len(self.volumes.objects("persistentvolumeclaims"))
        for class_name in ("static", "immediate"):
            for zone in ZONES:
                for _ in range(count):
                    self._number += 1
                    name = f"volume-{self._number}"
                    await self.post(VOLUMES, volume(name, class_name, ZONE, zone))

    # -- the end ----------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Returns all violations; call it at rest."""
        volumes, claims = self.service.cache.storage.assumed()
        reserved = [f"V4 {name} is still assumed" for name in (*volumes, *claims)]
        left = [*self.volumes.left_reserved(), *self.volumes.unbound_pods()]
        return [*self.volumes.problems, *reserved, *left, *leaks(self.service)]


def _config() -> KubeSchedulerConfiguration:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "VolumeBindingArgs",
        "bindTimeoutSeconds": BIND_TIMEOUT_S,
    }
    profile = {"pluginConfig": [{"name": "VolumeBinding", "args": args}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return loads(json.dumps(document))


async def run(seed: int) -> Counter[str]:
    """Runs a seed; returns the paths that it took."""
    lab = VolumeLab(seed)
    await lab.prepare()
    try:
        async with lab.running(), asyncio.TaskGroup() as tasks:
            controlling = tasks.create_task(lab.controller.run())
            ticking = tasks.create_task(lab.tick())
            lab.network.faults = replace(Faults.drawn(lab.rng), broken_pods=0.0, restarts=0.0)
            for _ in range(PODS_FIRST):
                await lab.create_pod()
            for _ in range(ACTIONS):
                await lab.act()
                await asyncio.sleep(lab.rng.uniform(0.0, 2 * BUSY_S / ACTIONS))
            lab.network.heal()
            lab.controller.is_faulty = False
            await lab.provide_volumes()
            await asyncio.sleep(max(0.0, lab.network.healed_at_s - now_s()) + HEALED_S)
            problems = lab.problems()
            controlling.cancel()
            ticking.cancel()
            assert not problems, f"seed {seed}: {problems[:5]}"
    finally:
        lab.store.close()
    lab.findings.raise_first()
    return lab.volumes.paths + lab.controller.done + lab.done


def run_seed(seed: int) -> Counter[str]:
    """Runs a seed on a loop of its own; AssertionError if an invariant is violated."""
    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(seed))) as runner:
        return runner.run(run(seed))


def run_seeds(seeds: Iterable[int]) -> Counter[str]:
    """Runs seeds, up to the first that fails; returns the paths of all."""
    return sum(map(run_seed, seeds), Counter())


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_claims_and_volumes_are_bound_once_and_nothing_is_left_reserved(first: int) -> None:
    runs = partial(compared, "volume", run=run_seed)
    paths = sum(map(runs, range(first, first + BLOCK)), Counter())
    assert {name: paths[name] for name in LEAST if paths[name] < LEAST[name]} == {}, paths


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutation", VOLUME_MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_planted_bug_about_volumes_is_detected(
    mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises((ExceptionGroup, AssertionError, InvariantBroken)):
        run_seeds((VOLUME_MUTATIONS[mutation], *range(SEEDS_OF_MUTATIONS)))


def test_a_pod_whose_provisioning_is_refused_again_and_again_has_the_usual_backoff() -> None:
    async def work() -> None:
        lab = VolumeLab(1)
        await lab.prepare()
        async with lab.running(), asyncio.TaskGroup() as tasks:
            lab.controller.is_faulty, lab.controller.refusals = False, 4
            controlling = tasks.create_task(lab.controller.run())
            await lab.create_claim("full", "provisioned")
            spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [_use("full")]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
            await lab.post("/api/v1/namespaces/default/pods", pod)
            # Backoffs of 1, 2, 4 and 8 s, and the steps of the controller.
            await lab.wait_until(lambda: lab.node_of("web"), within_s=30.0)
            controlling.cancel()
        assert lab.controller.done["provisioning refused"] == 4
        assert lab.service.queue.quarantine.counts == {}

    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(1))) as runner:
        runner.run(work())


def _use(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
