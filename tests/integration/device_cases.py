"""Pods that claim devices, one at a time, for two schedulers: what exists, and each outcome.

Nothing is left to chance: pods come one after another, and claims are freed before the next one.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from mooring.client import Client, Informer, ObjectChange
from mooring.client.transport.transport import Request
from mooring.clock import SystemClock, seeded_random
from mooring.errors import ApiError
from mooring.objects.pod import Pod
from mooring.testing import make_node

GPU, NIC = "gpu.example.com", "nic.example.com"
NODES = 5
RESOURCE = "example.com/gpu"
GROUP = "/apis/resource.k8s.io/v1"
TAINT = {"key": "health", "value": "bad", "effect": "NoSchedule"}
#: A device that is attached after its allocation.
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
#: Before these pods a device gets a taint.
TAINTED_AT = (40, 90)
#: Before these pods a DeviceTaintRule is created, changed or deleted: its name and its spec.
RULES: Mapping[int, tuple[str, dict[str, Any] | None]] = {
    5: ("pool", {"deviceSelector": {"driver": GPU, "pool": "node-1"}, "taint": TAINT}),
    15: ("none", {"taint": {"key": "seen", "effect": "None"}}),
    25: (
        "device",
        {
            "deviceSelector": {"driver": GPU, "pool": "node-0", "device": "gpu-1"},
            "taint": {"key": "broken", "effect": "NoExecute"},
        },
    ),
    40: ("pool", {"deviceSelector": {"driver": GPU, "pool": "node-3"}, "taint": TAINT}),
    55: ("shared", {"deviceSelector": {"driver": NIC}, "taint": TAINT}),
    70: ("device", {"deviceSelector": {"driver": GPU}, "taint": TAINT}),
    80: ("device", None),
    90: ("shared", None),
}
RULES_PATH = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


class Outcome(NamedTuple):
    """The outcome of a pod: its node or its message, and the results of its claims, with users."""

    pod: str
    node: str
    message: str
    claims: tuple[Any, ...]


# -- the cluster ----------------------------------------------------------------------------------


def slices() -> Iterator[dict[str, Any]]:
    """Yields GPUs of two models on the nodes, and network devices that two nodes share."""
    for node in range(NODES):
        devices = [
            {
                "name": f"gpu-{number}",
                "attributes": {
                    "model": {"string": "large" if (node + number) % 3 == 0 else "small"},
                    "numa": {"int": number % 2},
                    f"{GPU}/driverVersion": {"version": f"1.{node}.0"},
                },
                "capacity": {"memory": {"value": f"{40 if number % 2 else 80}Gi"}},
                **({"taints": [TAINT]} if (node, number) == (2, 0) else {}),
                **(CONDITIONS if (node, number) == (4, 2) else {}),
            }
            for number in range(3)
        ]
        pool = {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": GPU, "nodeName": f"node-{node}", "pool": pool, "devices": devices}
        yield _object("ResourceSlice", f"gpus-{node}", spec)
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["0"]}]}
    spec = {
        "driver": NIC,
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "pool": {"name": "rack-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": f"nic-{number}",
                "attributes": {"speed": {"int": 100 * (number + 1)}},
                "capacity": {"bandwidth": {"value": "10G"}},
                "allowMultipleAllocations": number == 1,
            }
            for number in range(2)
        ],
    }
    yield _object("ResourceSlice", "nics", spec)


def classes() -> Iterator[dict[str, Any]]:
    """Yields the device classes; the last one can be requested as an extended resource."""
    for name, expression in {
        "gpu": f'device.driver == "{GPU}"',
        "large": f'device.driver == "{GPU}" && device.attributes["{GPU}"].model == "large"',
        "nic": f'device.driver == "{NIC}"',
    }.items():
        yield _object("DeviceClass", name, {"selectors": [{"cel": {"expression": expression}}]})
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    spec = {"selectors": [selector], "extendedResourceName": RESOURCE}
    yield _object("DeviceClass", "resource", spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


# -- claims ---------------------------------------------------------------------------------------


def exactly(name: str, device_class: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def specs(rng: random.Random) -> dict[str, Any]:
    """Returns the spec of a random claim."""
    memory = f'device.capacity["{GPU}"].memory.compareTo(quantity("{rng.choice((40, 80))}Gi")) >= 0'
    version = f'device.attributes["{GPU}"].driverVersion.isGreaterThan(semver("1.1.0"))'
    toleration = {"key": "health", "operator": "Exists"}
    alternatives = [
        {"name": "best", "deviceClassName": "large"},
        {"name": "other", "deviceClassName": "gpu"},
    ]
    same = [{"requests": ["a", "b"], "matchAttribute": f"{GPU}/numa"}]
    shared = {"capacity": {"requests": {"bandwidth": f"{rng.choice((2, 4, 6))}G"}}}
    choices: list[dict[str, Any]] = [
        {"requests": [exactly("r", "gpu")]},
        {"requests": [exactly("r", "gpu", count=rng.choice((2, 3)))]},
        {"requests": [exactly("r", "large")]},
        {"requests": [exactly("r", "gpu", selectors=[{"cel": {"expression": memory}}])]},
        {"requests": [exactly("r", "gpu", selectors=[{"cel": {"expression": version}}])]},
        {"requests": [exactly("r", "gpu", tolerations=[toleration])]},
        {"requests": [exactly("a", "gpu"), exactly("b", "large")], "constraints": same},
        {"requests": [exactly("a", "gpu"), exactly("n", "nic", **shared)]},
        {"requests": [{"name": "r", "firstAvailable": alternatives}]},
        {"requests": [exactly("r", "gpu", allocationMode="All")]},
        {"requests": [exactly("r", "missing")]},
    ]
    return {"devices": rng.choice(choices)}


class Player:
    """Creates pods and their claims one by one, and notes each outcome.

    Args:
        client: Of an administrator.
        count: The number of pods.
        rules: DeviceTaintRules by the number of the pod that comes next.
    """

    def __init__(
        self,
        client: Client,
        count: int,
        rules: Mapping[int, tuple[str, dict[str, Any] | None]] = MappingProxyType({}),
    ) -> None:
        self._rules = rules
        self._created: set[str] = set()
        self._client = client
        self._count = count
        self._rng = random.Random(7)
        self._changed = asyncio.Event()
        self._informer = Informer(
            client, "Pod", self._on_pod, clock=SystemClock(), rng=seeded_random(5)
        )
        self._bound: list[str] = []

    async def outcomes(self) -> list[Outcome]:
        """Creates the cluster, and then each pod; a rejected one is removed again."""
        for number in range(NODES):
            labels = {"rack": "0" if number < 2 else "1"}
            await self._client.create(make_node(f"node-{number}", labels=labels))
        for obj in (*slices(), *classes()):
            await self._post(f"{GROUP}/{obj['kind'].lower()}{_ending(obj['kind'])}", obj)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._informer.run())
            driving = tasks.create_task(self._drive())
            await self._informer.wait_until_synced()
            results = [await self._outcome(number) for number in range(self._count)]
            watching.cancel()
            driving.cancel()
        return results

    async def _drive(self) -> None:
        """Reports devices with binding conditions as attached, as their driver does."""
        while True:
            for claim in await self._claims():
                allocation = claim.get("status", {}).get("allocation")
                results = allocation["devices"]["results"] if allocation else []
                waiting = [result for result in results if result.get("bindingConditions")]
                if waiting and not claim["status"].get("devices"):
                    await self._attach(claim["metadata"]["name"], waiting)
            await asyncio.sleep(0.1)

    async def _attach(self, name: str, results: list[dict[str, Any]]) -> None:
        condition = {
            "type": "attached",
            "status": "True",
            "reason": "Attached",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        devices = [
            {
                **{part: result[part] for part in ("driver", "pool", "device")},
                "conditions": [condition],
            }
            for result in results
        ]
        patch = {"status": {"devices": devices}}
        with suppress(ApiError):  # the claim is gone, or was changed meanwhile
            await self._client.patch(
                "ResourceClaim", name, patch, namespace="default", subresource="status"
            )

    async def _taint(self, name: str) -> None:
        """Taints the second device of a slice."""
        body = await self._client.read(
            Request("GET", f"{GROUP}/resourceslices/{name}", deadline_s=10.0)
        )
        devices = json.loads(body)["spec"]["devices"]
        devices[1]["taints"] = [TAINT]
        await self._client.patch("ResourceSlice", name, {"spec": {"devices": devices}})

    async def _put_rule(self, name: str, spec: dict[str, Any] | None) -> None:
        """Creates, changes or deletes a rule."""
        kind = "DeviceTaintRule"
        if spec is None:
            await self._client.delete(kind, name)
        elif name in self._created:
            await self._client.patch(kind, name, {"spec": spec})
        else:
            self._created.add(name)
            obj = {**_object(kind, name, spec), "apiVersion": "resource.k8s.io/v1beta2"}
            await self._post(RULES_PATH, obj)

    def _on_pod(self, _: ObjectChange) -> None:
        self._changed.set()

    async def _outcome(self, number: int) -> Outcome:
        if number in TAINTED_AT:
            await self._taint(f"gpus-{number % NODES + 1}")
        if number in self._rules:
            await self._put_rule(*self._rules[number])
        if len(self._bound) > 6 or (self._bound and self._rng.random() < 0.25):
            await self._delete(self._bound.pop(self._rng.randrange(len(self._bound))))
            await self._wait_for_scheduler(f"after-{number:03}")
        name = f"pod-{number:03}"
        await self._post(PODS, await self._pod(name))
        pod = await self._settled(name)
        claims = tuple(
            [_shown(claim) for claim in await self._claims() if _is_of(claim, pod.metadata.uid)]
        )
        message = _message(pod)
        if pod.spec.node_name:
            self._bound.append(name)
        else:
            await self._delete(name)
        return Outcome(name, pod.spec.node_name, message, claims)

    async def _pod(self, name: str) -> dict[str, Any]:
        """Creates the claims or the template of a pod; returns the pod."""
        spec = _container()
        kind = self._rng.choice(("claim", "claim", "template", "shared", "resource"))
        existing = [claim for claim in await self._claims() if _is_free_to_share(claim)]
        if kind == "resource":
            amounts = {RESOURCE: str(self._rng.choice((1, 1, 2)))}
            spec["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        elif kind == "shared" and existing:
            claim = existing[self._rng.randrange(len(existing))]["metadata"]["name"]
            spec["resourceClaims"] = [{"name": "c", "resourceClaimName": claim}]
        elif kind == "template":
            await self._post(
                f"{GROUP}/namespaces/default/resourceclaimtemplates",
                _object("ResourceClaimTemplate", name, {"spec": specs(self._rng)}),
            )
            spec["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": name}]
        else:
            await self._post(CLAIMS, _object("ResourceClaim", name, specs(self._rng)))
            spec["resourceClaims"] = [{"name": "c", "resourceClaimName": name}]
        return _pod(name, spec)

    async def _settled(self, name: str) -> Pod:
        """Returns the pod as soon as it has a node, or was rejected."""
        while True:
            pod = self._informer.objects.get(f"default/{name}")
            if pod is not None and (pod.spec.node_name or _message(pod)):
                found: Pod = pod
                return found
            self._changed.clear()
            await self._changed.wait()

    async def _delete(self, name: str) -> None:
        """Deletes a pod; returns when its claims have no users and no devices any more."""
        uid = self._informer.objects[f"default/{name}"].metadata.uid
        await self._client.delete("Pod", name, "default", grace_period_s=0)
        while f"default/{name}" in self._informer.objects:
            self._changed.clear()
            await self._changed.wait()
        # The controllers release the claims; nothing tells when they have.
        while any(_is_held(claim, uid) for claim in await self._claims()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _wait_for_scheduler(self, name: str) -> None:
        """Returns when the scheduler has seen all changes of pods and claims up to now.

        A watch keeps the order of its kind's changes. So a scheduler that rejects a new pod for
        what its new claim requests has seen all that came before the two.
        """
        requests = {"devices": {"requests": [exactly("r", "missing")]}}
        await self._post(CLAIMS, _object("ResourceClaim", name, requests))
        claims = [{"name": "c", "resourceClaimName": name}]
        await self._post(PODS, _pod(name, {**_container(), "resourceClaims": claims}))
        while "device class missing" not in _message(await self._settled(name)):
            self._changed.clear()
            await self._changed.wait()
        await self._delete(name)

    async def _claims(self) -> list[dict[str, Any]]:
        body = await self._client.read(Request("GET", CLAIMS, deadline_s=10.0))
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return sorted(items, key=lambda claim: str(claim["metadata"]["name"]))

    async def _post(self, path: str, obj: dict[str, Any]) -> None:
        await self._client.write("POST", path, json.dumps(obj).encode())


def _container() -> dict[str, Any]:
    """Returns the spec of a pod that requests nothing, and ends at once."""
    containers = [{"name": "main", "image": "some"}]
    return {"containers": containers, "terminationGracePeriodSeconds": 0}


def _pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _ending(kind: str) -> str:
    return "es" if kind == "DeviceClass" else "s"


def _message(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def _owner(claim: dict[str, Any]) -> str:
    owners = claim["metadata"].get("ownerReferences", ())
    return str(owners[0]["uid"]) if owners else ""


def _users(claim: dict[str, Any]) -> list[dict[str, Any]]:
    users: list[dict[str, Any]] = claim.get("status", {}).get("reservedFor", [])
    return users


def _is_of(claim: dict[str, Any], uid: str) -> bool:
    return _owner(claim) == uid or any(user["uid"] == uid for user in _users(claim))


def _is_held(claim: dict[str, Any], uid: str) -> bool:
    """Returns whether a claim is still the pod's, or has devices without a user."""
    is_leftover = not _users(claim) and "allocation" in claim.get("status", {})
    return _is_of(claim, uid) or is_leftover


def _is_free_to_share(claim: dict[str, Any]) -> bool:
    return not _owner(claim) and bool(_users(claim))


def _shown(claim: dict[str, Any]) -> Any:
    """Returns the parts of a claim that are compared: all but random names, times and UIDs."""
    allocation = json.loads(json.dumps(claim["status"].get("allocation")))
    if allocation:
        allocation.pop("allocationTimestamp")
        for result in allocation["devices"]["results"]:
            result.pop("shareID", None)
    metadata = claim["metadata"]
    name = metadata.get("generateName") or metadata["name"]
    users = [(user["resource"], user["name"]) for user in _users(claim)]
    return name, metadata.get("finalizers"), users, allocation
