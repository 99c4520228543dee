"""A controller of volumes that is slow and fails: it may stop between any two of its writes.

::

    claim names a volume, or a volume names it ─┐
    binding mode Immediate: the smallest volume ┼─> claimRef ─> Bound ─> volumeName ─> Bound
    a node is selected: provision, or refuse ───┘

It is written from the API's rules on plain JSON, and shares no code with ``devcluster``, so that
the runs also check what the scheduler expects of a controller.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (syncUnboundClaim, bind).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import msgspec

from mooring.client import Client
from mooring.clock import Rng
from mooring.errors import ApiError
from tests.faults.harness.volume_checker import BIND_COMPLETED, SELECTED_NODE, VolumeChecker

Object = dict[str, Any]

VOLUMES: Final = "/api/v1/persistentvolumes"
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
MERGE: Final = "application/merge-patch+json"

#: Class -> (binding mode, whether volumes are provisioned).
CLASSES: Final = {
    "static": ("WaitForFirstConsumer", False),
    "provisioned": ("WaitForFirstConsumer", True),
    "immediate": ("Immediate", False),
    "immediate-provisioned": ("Immediate", True),
}

#: How often a step fails, and provisioning for a node is refused, in the first phase.
FAILS: Final = 0.15
REFUSES: Final = 0.3
#: Seconds of a pause of the controller: mostly short, at times longer than a pod waits to be bound.
PAUSES_S: Final = (0.1, 0.5, 1.0, 3.0, 40.0)


class Interrupted(Exception):
    """The controller stops between two writes."""


class VolumeController:
    """Binds claims, provisions volumes, and releases those of deleted claims.

    Attributes:
        is_faulty: Whether steps fail and pauses are long.
        refusals: How often provisioning for a node is refused next.
        done: Step -> how often it was done.

    Args:
        client: An administrator's.
        checker: The stored objects.
        rng: Draws pauses and failures.
    """

    def __init__(self, client: Client, checker: VolumeChecker, rng: Rng) -> None:
        self.is_faulty = True
        self.refusals = 0
        self.done: Counter[str] = Counter()
        self._client = client
        self._checker = checker
        self._rng = rng
        self._n_provisioned = 0

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            pause_s = self._rng.choice(PAUSES_S) if self.is_faulty else 0.5
            await asyncio.sleep(pause_s)
            for name in self._checker.objects("persistentvolumeclaims"):
                await self._try(self._sync_claim, name)
            for name in self._checker.objects("persistentvolumes"):
                await self._try(self._sync_volume, name)

    async def _try(self, sync: Any, name: str) -> None:
        try:
            await sync(name)
        except ApiError:
            self.done["changed concurrently"] += 1
        except Interrupted:
            self.done["interrupted"] += 1

    async def _step(self, method: str, path: str, obj: Object) -> None:
        """Writes, after a pause; the controller may stop before it."""
        if self.is_faulty:
            await asyncio.sleep(self._rng.random() * 0.5)
            if self._rng.random() < FAILS:
                raise Interrupted
        body = msgspec.json.encode(obj)
        if method == "PATCH":
            await self._client.write(method, path, body, content_type=MERGE)
        else:
            await self._client.write(method, path, body)

    # -- claims -----------------------------------------------------------------------------------

    async def _sync_claim(self, name: str) -> None:
        claim = self._checker.objects("persistentvolumeclaims").get(name)
        if claim is None or claim.get("status", {}).get("phase") == "Bound":
            return
        volume = self._named(claim)
        mode, is_provisioned = CLASSES[claim["spec"]["storageClassName"]]
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
        if volume is not None:
            await self._bind(claim, volume)
        elif claim["spec"].get("volumeName"):
            self.done["named volume is missing or in use"] += 1
        elif mode == "Immediate" and (smallest := self._smallest(claim)) is not None:
            await self._bind(claim, smallest)
            self.done["bound immediately"] += 1
        elif is_provisioned and (mode == "Immediate" or node_name):
            await self._provision(claim, node_name)

    def _named(self, claim: Object) -> Object | None:
        """Returns the volume that the claim names, or the first one that names the claim."""
        volumes, uid = self._checker.objects("persistentvolumes"), claim["metadata"]["uid"]
        named = volumes.get(claim["spec"].get("volumeName", ""))
        if named is not None:
            owner = named["spec"].get("claimRef")
            is_ours = owner is None or _is_reference(owner, claim)
            return named if is_ours else None
        if claim["spec"].get("volumeName"):
            return None
        naming = [v for v in volumes.values() if v["spec"].get("claimRef", {}).get("uid") == uid]
        return naming[0] if naming else None

    def _smallest(self, claim: Object) -> Object | None:
        free = [
            volume
            for volume in self._checker.objects("persistentvolumes").values()
            if "claimRef" not in volume["spec"]
            and volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
        ]
        return min(free, key=lambda v: v["metadata"]["name"], default=None)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Binds in four writes; after an interruption the next try goes on."""
        version = volume["metadata"]["resourceVersion"]
        name, at = claim["metadata"]["name"], volume["metadata"]["name"]
        if volume["spec"].get("claimRef", {}).get("uid") != claim["metadata"]["uid"]:
            patch = {
                "metadata": {"resourceVersion": version},
                "spec": {"claimRef": reference(claim)},
            }
            await self._step("PATCH", f"{VOLUMES}/{at}", patch)
        await self._step("PATCH", f"{VOLUMES}/{at}/status", {"status": {"phase": "Bound"}})
        metadata = {"uid": claim["metadata"]["uid"], "annotations": {BIND_COMPLETED: "yes"}}
        patch = {"metadata": metadata, "spec": {"volumeName": at}}
        await self._step("PATCH", f"{CLAIMS}/{name}", patch)
        status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"]}
        await self._step("PATCH", f"{CLAIMS}/{name}/status", {"status": status})
        self.done["bound"] += 1

    async def _provision(self, claim: Object, node_name: str) -> None:
        name = claim["metadata"]["name"]
        is_refused = self.refusals > 0 or (self.is_faulty and self._rng.random() < REFUSES)
        if node_name and is_refused:
            self.refusals = max(0, self.refusals - 1)
            # A provisioner without capacity there has the scheduler choose again.
            annotations = {"annotations": {SELECTED_NODE: None}}
            await self._step("PATCH", f"{CLAIMS}/{name}", {"metadata": annotations})
            self.done["provisioning refused"] += 1
            return
        self._n_provisioned += 1
        node = self._checker.objects("nodes").get(node_name)
        zone = node["metadata"]["labels"][ZONE] if node is not None else ""
        made = volume(f"made-{self._n_provisioned}", claim["spec"]["storageClassName"], ZONE, zone)
        made["spec"]["claimRef"] = reference(claim)
        await self._step("POST", VOLUMES, made)
        self.done["provisioned"] += 1

    # -- volumes ----------------------------------------------------------------------------------

    async def _sync_volume(self, name: str) -> None:
        """Frees a volume whose claim is deleted, or has got another volume meanwhile."""
        volume = self._checker.objects("persistentvolumes").get(name)
        if volume is None:
            return
        if "claimRef" not in volume["spec"]:
            if volume.get("status", {}).get("phase") != "Available":
                status = {"status": {"phase": "Available"}}
                await self._step("PATCH", f"{VOLUMES}/{name}/status", status)
            return
        owner = volume["spec"]["claimRef"]
        claim = self._checker.objects("persistentvolumeclaims").get(owner["name"])
        is_owned = claim is not None and _is_reference(owner, claim)
        if is_owned and claim is not None and claim["spec"].get("volumeName", name) == name:
            return
        metadata = {
            "resourceVersion": volume["metadata"]["resourceVersion"],
            "annotations": {"pv.kubernetes.io/bound-by-controller": None},
        }
        await self._step(
            "PATCH", f"{VOLUMES}/{name}", {"metadata": metadata, "spec": {"claimRef": None}}
        )
        self.done["released" if not is_owned else "second volume released"] += 1


def _is_reference(owner: Object, claim: Object) -> bool:
    is_named: bool = owner["name"] == claim["metadata"]["name"]
    return is_named and owner.get("uid") in (None, "", claim["metadata"]["uid"])


def reference(claim: Object) -> Object:
    """Returns the claimRef for a claim."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def volume(name: str, class_name: str, key: str, value: str) -> Object:
    """Returns a volume that is reachable from nodes with this label; everywhere if it is ""."""
    spec: Object = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": class_name,
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    if value:
        rule = {"key": key, "operator": "In", "values": [value]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }
