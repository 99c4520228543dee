"""Simulated users, controllers and a competing scheduler of a random scenario.

Their network has no faults, so their writes always succeed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from mooring.client import Client
from mooring.client.transport.transport import Request
from mooring.clock import Rng
from mooring.errors import ApiError
from mooring.objects.pod import Pod
from tests.faults.harness.checkers import StoreChecker
from tests.faults.harness.ledger import LABEL, SCRIPTS
from tests.faults.harness.plugins import (
    EVER,
    POINTS,
    RAISES,
    RAISES_FOR,
    RAISES_TOO,
    SECOND,
    SECOND_SCRIPTS,
)

Object = dict[str, Any]

PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
MERGE: Final = "application/merge-patch+json"
GATE: Final = "example.com/wait"
TAINT: Final = {"key": "example.com/reserved", "value": "yes", "effect": "NoSchedule"}
TOLERATION: Final = {"key": TAINT["key"], "operator": "Exists"}
EVERYTHING: Final = {"operator": "Exists"}
#: The label by which a budget selects its pods: its value -> how many may be disrupted.
TIER: Final = "tier"
BUDGETS: Final = {"gold": 0, "silver": 1, "bronze": 2}
#: PriorityClasses: most pods with one have the highest.
PRIORITIES: Final = ("urgent", "urgent", "urgent", "changing", "low")
PRIORITY_VALUES: Final = {"urgent": 1000, "changing": 500, "low": -10}
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
ZONES: Final = ("a", "b", "c")
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
#: The label that affinity and spreading select by, and its values.
GROUP: Final = "group"
GROUPS: Final = ("red", "blue")

#: Action -> relative frequency.
WEIGHTS: Final = {
    "create_pod": 6,
    "delete_pod": 4,
    "replace_pod": 3,
    "ungate_pod": 3,
    "relabel_pod": 2,
    "finish_pod": 2,
    "bind_pod": 2,
    "tolerate_taint": 2,
    "edit_delayed_pod": 3,
    "annotate_pod": 1,
    "add_node": 1,
    "return_node": 1,
    "delete_node": 1,
    "shrink_node": 1,
    "grow_node": 1,
    "taint_node": 1,
    "clear_node": 2,
    "cordon_node": 1,
    "relabel_node": 1,
    "change_priority": 1,
}

#: What may help a pod.
HELP: Final = ("delete_pod", "finish_pod", "relabel_node", "clear_node", "return_node", "grow_node")


class Users:
    """Performs random changes of the cluster.

    Args:
        client: An administrator's.
        store: The stored objects.
        rng: Draws the actions.
        n_safe: Number of nodes that are never changed, so that capacity can be checked there.
        node_share: How many times as often as else nodes are added and changed.
        has_raising_pods: Whether plugins raise for some pods.
    """

    def __init__(
        self,
        client: Client,
        store: StoreChecker,
        rng: Rng,
        *,
        n_safe: int,
        node_share: int = 1,
        has_raising_pods: bool = False,
    ) -> None:
        self._client = client
        self._store = store
        self._rng = rng
        self._safe = {f"node-{number}" for number in range(n_safe)}
        self._weights = {
            name: weight * (node_share if name.endswith("_node") else 1)
            for name, weight in WEIGHTS.items()
        }
        self._has_raising_pods = has_raising_pods
        self._n_nodes = 0
        self._n_pods = 0
        #: Action -> how often it succeeded.
        self.done: Counter[str] = Counter()

    async def act(self) -> None:
        """Performs one random action; an impossible one is skipped."""
        name = self._rng.choices(list(self._weights), list(self._weights.values()))[0]
        action: Callable[[], Awaitable[None]] = getattr(self, name)
        try:
            await action()
            self.done[name] += 1
        except (ApiError, IndexError):
            # No such pod or node exists, or it was changed concurrently.
            pass

    async def help_once(self) -> None:
        """Performs one action that may help a pod that does not fit, and no other one follows."""
        name = self._rng.choice(HELP)
        action: Callable[[], Awaitable[None]] = getattr(self, name)
        with suppress(ApiError, IndexError):
            await action()

    # -- pods -------------------------------------------------------------------------------------

    async def create_pod(self) -> None:
        """Creates a random pod."""
        self._n_pods += 1
        await self._post(PODS, self._pod(f"pod-{self._n_pods}"))

    async def create_expiring_pod(self) -> None:
        """Creates a pod without requests, which expires once in Permit."""
        self._n_pods += 1
        name = f"pod-{self._n_pods}"
        labels = {LABEL: "expire"}
        spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [EVERYTHING]}
        pod = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self._post(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})

    async def delete_pod(self) -> None:
        """Deletes a pod, with a grace period if it is on a node."""
        pod = self._any_pod(lambda _: True)
        await self._client.delete("Pod", pod.metadata.name, "default")

    async def replace_pod(self) -> None:
        """Replaces a pod by another one of the same name."""
        name = self._any_pod(lambda _: True).metadata.name
        await self._client.delete("Pod", name, "default", grace_period_s=0)
        await self._post(PODS, self._pod(name))

    async def ungate_pod(self) -> None:
        """Removes the scheduling gates of a pod; mostly that is the second of two changes."""
        pod = self._any_pod(lambda pod: bool(pod.spec.scheduling_gates))
        spec = {"schedulingGates": None}
        await self._patch(f"{PODS}/{pod.metadata.name}", {**self._touched(), "spec": spec})

    async def tolerate_taint(self) -> None:
        """Adds a toleration to a pending pod; mostly that is the second of two changes."""
        pod = self._any_pod(lambda pod: not pod.spec.node_name)
        name = pod.metadata.name
        stored = json.loads(await self._client.read(Request("GET", f"{PODS}/{name}", 10.0)))
        tolerations = [*stored["spec"].get("tolerations", []), TOLERATION]
        await self._patch(
            f"{PODS}/{name}", {**self._touched(), "spec": {"tolerations": tolerations}}
        )

    async def edit_delayed_pod(self) -> None:
        """Makes several changes at once of a pod that is, or was, delayed in Permit."""
        may_be_bound = self._rng.random() < 0.3
        pod = self._any_pod(
            lambda pod: LABEL in pod.metadata.labels and (may_be_bound or not pod.spec.node_name)
        )
        name = pod.metadata.name
        stored = json.loads(await self._client.read(Request("GET", f"{PODS}/{name}", 10.0)))
        labels = {"touched": str(self._rng.randrange(10))}
        spec: Object = {"tolerations": [*stored["spec"].get("tolerations", []), TOLERATION]}
        if pod.spec.scheduling_gates:
            spec["schedulingGates"] = None
        await self._patch(f"{PODS}/{name}", {"metadata": {"labels": labels}, "spec": spec})

    async def annotate_pod(self) -> None:
        """Changes an annotation, mostly of a pod for which a plugin raises."""
        names = [pod for pod in self._store.pods.values() if RAISES in pod.metadata.labels]
        pod = self._rng.choice(names) if names else self._any_pod(lambda _: True)
        annotations = {"touched": str(self._rng.randrange(10))}
        await self._patch(f"{PODS}/{pod.metadata.name}", {"metadata": {"annotations": annotations}})

    def _touched(self) -> Object:
        """Returns a patch of a label that scheduling ignores, in two of three cases."""
        if self._rng.random() < 0.33:
            return {}
        return {"metadata": {"labels": {"touched": str(self._rng.randrange(10))}}}

    async def relabel_pod(self) -> None:
        """Changes a label that scheduling ignores."""
        name = self._any_pod(lambda _: True).metadata.name
        labels = {"touched": str(self._rng.randrange(10))}
        await self._patch(f"{PODS}/{name}", {"metadata": {"labels": labels}})

    async def finish_pod(self) -> None:
        """Terminates a pod on a node."""
        pod = self._any_pod(lambda pod: bool(pod.spec.node_name))
        phase = self._rng.choice(("Succeeded", "Failed"))
        await self._patch(f"{PODS}/{pod.metadata.name}/status", {"status": {"phase": phase}})

    async def bind_pod(self) -> None:
        """Binds a pod, as another scheduler would."""
        # Half of the time one that is delayed in Permit.
        is_delayed = self._rng.random() < 0.5
        pod = self._any_pod(
            lambda pod: not pod.spec.node_name and (not is_delayed or LABEL in pod.metadata.labels)
        )
        await self._client.bind(pod, self._any_node())

    async def change_priority(self) -> None:
        """Gives a PriorityClass another value, for pods that are created from now on."""
        await self._client.write("DELETE", f"{PRIORITY_CLASSES}/changing", b"")
        await self.create_priority("changing", self._rng.choice((-10, 500, 2000)))

    async def create_priority(self, name: str, value: int) -> None:
        """Creates a PriorityClass."""
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        await self._post(PRIORITY_CLASSES, body)

    # -- nodes ------------------------------------------------------------------------------------

    async def add_node(self) -> None:
        """Creates a node."""
        name = f"node-{self._n_nodes}"
        self._n_nodes += 1
        await self._create_node(name, self._rng.choice((2, 3, 4)))

    async def return_node(self) -> None:
        """Creates a node that was deleted again: perhaps smaller, perhaps in another zone."""
        names = [f"node-{number}" for number in range(self._n_nodes)]
        deleted = [name for name in names if name not in self._store.nodes]
        await self._create_node(self._rng.choice(deleted), self._rng.choice((1, 2, 4)))

    async def _create_node(self, name: str, cpu: int) -> None:
        amounts = {"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": str(self._rng.choice((3, 6, 10)))}
        labels = {HOST: name, ZONE: self._rng.choice(ZONES)}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await self._post(NODES, node)

    async def delete_node(self) -> None:
        """Deletes a node, but not its pods."""
        await self._client.delete("Node", self._any_node())

    async def shrink_node(self) -> None:
        """Reduces the capacity of a node."""
        await self._resize(cpu="1", pods="2")

    async def grow_node(self) -> None:
        """Sets the capacity of a node, mostly to a higher value."""
        await self._resize(cpu="6", pods="12")

    async def taint_node(self) -> None:
        """Taints a node."""
        await self._patch(f"{NODES}/{self._any_node()}", {"spec": {"taints": [TAINT]}})

    async def cordon_node(self) -> None:
        """Cordons a node."""
        await self._patch(f"{NODES}/{self._any_node()}", {"spec": {"unschedulable": True}})

    async def clear_node(self) -> None:
        """Removes taint and cordon of a node; mostly that is the second of two changes."""
        spec = {"taints": None, "unschedulable": None}
        await self._patch(f"{NODES}/{self._any_node()}", {**self._touched(), "spec": spec})

    async def relabel_node(self) -> None:
        """Changes the zone of a node."""
        # None removes the label.
        labels = {ZONE: self._rng.choice((*ZONES, None))}
        await self._patch(f"{NODES}/{self._any_node()}", {"metadata": {"labels": labels}})

    # -- parts ------------------------------------------------------------------------------------

    def _pod(self, name: str) -> Object:
        return random_pod(self._rng, name, has_raising_pods=self._has_raising_pods)

    def _any_pod(self, selects: Callable[[Pod], bool]) -> Pod:
        """Returns a random pod that ``selects`` accepts; raises IndexError if there is none."""
        return self._rng.choice([pod for pod in self._store.pods.values() if selects(pod)])

    def _any_node(self) -> str:
        return self._rng.choice([name for name in self._store.nodes if name not in self._safe])

    async def _resize(self, **amounts: str) -> None:
        status = {"allocatable": amounts, "capacity": amounts}
        await self._patch(f"{NODES}/{self._any_node()}/status", {"status": status})

    async def _post(self, path: str, obj: Object) -> None:
        await self._client.write("POST", path, msgspec.json.encode(obj))

    async def _patch(self, path: str, patch: Object) -> None:
        body = msgspec.json.encode(patch)
        await self._client.write("PATCH", path, body, content_type=MERGE)


def random_pod(rng: Rng, name: str, *, has_raising_pods: bool) -> Object:
    """Returns a random pod."""
    requests = {"cpu": f"{rng.choice((100, 300, 500, 1000))}m", "memory": "128Mi"}
    if rng.random() < 0.05:
        requests["cpu"] = "64"
    container: Object = {"name": "c", "image": "i", "resources": {"requests": requests}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    metadata: Object = {"name": name, "labels": {}}
    if rng.random() < 0.4:
        metadata["labels"][LABEL] = rng.choice(SCRIPTS)
    spec: Object = {"containers": [container]}
    # Without it, the default of 30 s.
    if rng.random() < 0.5:
        spec["terminationGracePeriodSeconds"] = rng.choice((0, 1, 5))
    if rng.random() < 0.15:
        spec["schedulingGates"] = [{"name": GATE}]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {ZONE: rng.choice(ZONES)}
    if rng.random() < 0.3:
        spec["tolerations"] = [TOLERATION]
    if rng.random() < 0.05:
        spec["schedulerName"] = "other-scheduler"
    if rng.random() < 0.3:
        # No victims for affinity or spreading: the checks of preemption know one node alone.
        _constrain(rng, metadata, spec)
    elif rng.random() < 0.4:
        spec["priorityClassName"] = rng.choice(PRIORITIES)
    if rng.random() < 0.4:
        metadata["labels"][TIER] = rng.choice(list(BUDGETS))
    if rng.random() < 0.1:
        metadata["labels"][SECOND] = rng.choice(SECOND_SCRIPTS)
    if has_raising_pods and rng.random() < 0.2:
        metadata["labels"][RAISES] = rng.choice(POINTS)
        metadata["labels"][RAISES_FOR] = rng.choice(("a-while", "a-while", EVER))
        if rng.random() < 0.5:
            metadata["labels"][RAISES_TOO] = rng.choice(POINTS)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _constrain(rng: Rng, metadata: Object, spec: Object) -> None:
    """Makes a pod the member of a group, with a constraint over the group or without."""
    group = {GROUP: rng.choice(GROUPS)}
    metadata["labels"].update(group)
    selector = {"matchLabels": {GROUP: rng.choice(GROUPS)} if rng.random() < 0.2 else group}
    key, kind = rng.choice((ZONE, HOST)), rng.random()
    term = {"labelSelector": selector, "topologyKey": key}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if kind < 0.25:
        spec["affinity"] = {"podAntiAffinity": {required: [term]}}
    elif kind < 0.5:
        spec["affinity"] = {"podAffinity": {required: [term]}}
    elif kind < 0.8:
        constraint = {
            "maxSkew": rng.choice((1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        spec["topologySpreadConstraints"] = [constraint]
