"""Nodes with devices of their own beside shared pools, with claims that come and go.

Slices are for a node, a zone, all nodes, or list nodes for each device; they are replaced, and some
pools are incomplete for a while. Pods have claims, share them, or request an extended resource that
some nodes have by a device plugin. The plugin, its results that pods share, and the cache are real;
on each node, Filter and the devices of Reserve are those of ``node_devices_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mooring.clock import VirtualClock, seeded_random
from mooring.dra.features import DeviceFeatures
from mooring.framework import NodeView
from mooring.framework.runtime.filter import run_filters
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.faults.parts.node_devices_model import (
    DeviceSearch,
    TaintRule,
    Taken,
    devices_on,
    reaches,
)

NODES: Final = ("n0", "n1", "n2", "n3", "n4")
ZONES: Final = ("a", "b")
DRIVER: Final = "gpu.test"
RESOURCE: Final = "example.com/gpu"
STEPS: Final = 30
CLAIMS: Final = 6
#: Class -> the conditions of its devices.
CLASSES: Final = {"gpu": {}, "x": {"model": "x"}, "y": {"model": "y"}}


class ClaimInUse:
    """What the run knows of a claim.

    Attributes:
        spec: Its requests and constraints, with ``where`` for the selectors.
        taken: Its devices, of an allocated claim or one in flight; none = it has none.
        node: The node for which it was allocated.
        users: The pods that have reserved it.
        is_in_flight: It is reserved, and not written yet.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.taken: list[Taken] = []
        self.node = ""
        self.users: set[str] = set()
        self.is_in_flight = False


class Reserved:
    """A pod between Reserve and the end of its binding."""

    def __init__(self, pod: Pod, node: str, cycle: Any, claims: list[ClaimInUse]) -> None:
        self.pod, self.node, self.cycle, self.claims = pod, node, cycle, claims


class NodeDevicesRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths = dict.fromkeys(("fits", "rejected", "reserved", "special"), 0)
        self._rng = rng = seeded_random(seed)
        self._cache = Cache(DeviceFeatures(has_taint_rules=True))
        self._handle = OfflineHandle(self._cache, VirtualClock(), seeded_random(seed + 1))
        self._plugin = DynamicResources(handle=self._handle)
        # With a filter whose results are cached, as in every profile.
        self._harness = Harness([], [NodeUnschedulable(), self._plugin])
        self._harness.cache = self._cache
        self._count = 0
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, dict[str, Any]] = {}
        self._claims: dict[str, ClaimInUse] = {}
        self._reserved: list[Reserved] = []
        #: Bound pods, and their claims.
        self._bound: list[Reserved] = []
        #: Whether pools are incomplete at times; claims for all devices of a pool fail then.
        self._has_incomplete = rng.random() < 0.5
        self._has_resource = rng.random() < 0.6
        self._has_taints = rng.random() < 0.5
        #: So many claims read no attribute: what others read later begins the signatures anew.
        self._n_plain = rng.choice((0, 4, 10))
        self._has_all = not self._has_incomplete and not self._has_taints
        self._rules: dict[str, TaintRule] = {}
        self._pools = [f"own-{node}" for node in NODES]
        self._pools += [pool for pool in ("all", "zone", "mixed", "mixed-2") if rng.random() < 0.6]
        for name, where in CLASSES.items():
            resource = RESOURCE if name == "gpu" and self._has_resource else None
            self._put("DeviceClass", _device_class(name, where, resource))
        for name in NODES:
            self._put_node(name)
        for pool in self._pools:
            self._publish(pool)

    def run(self) -> None:
        """Makes all steps, and compares."""
        rng = self._rng
        actions: tuple[Callable[[], None], ...] = (
            *(self._attempt,) * 8,
            *(self._end,) * 2,
            *(self._release,) * 3,
            self._republish,
            self._change_node,
            self._change_rule,
        )
        for _ in range(STEPS):
            rng.choice(actions)()
            if self.problems:
                return
        self.problems += audit(self._cache)

    def _put(self, kind: str, obj: Any) -> None:
        self._cache.put_object(kind, obj)

    # -- nodes and slices -------------------------------------------------------------------------

    def _put_node(self, name: str) -> None:
        amounts: dict[str, str] = {"cpu": "8", "pods": "20"}
        if self._rng.random() < 0.3:
            amounts[RESOURCE] = self._rng.choice(("0", "4"))
        zone = self._rng.choice(ZONES)
        node = self._nodes[name] = make_node(name, labels={"zone": zone}, allocatable=amounts)
        self._cache.put_node(node)

    def _change_node(self) -> None:
        """Moves a node to another zone, or gives it a device plugin."""
        self._put_node(self._rng.choice(NODES))

    def _publish(self, pool: str, generation: int = 1) -> None:
        """Publishes a pool in one or two slices; one of them may come later."""
        rng = self._rng
        count = rng.choice((1, 1, 2))
        sizes = [rng.choice((1, 2, 3)) for _ in range(count)]
        for number, size in enumerate(sizes):
            if self._has_incomplete and rng.random() < 0.15:
                continue
            name = f"{pool}-{number}"
            spec: dict[str, Any] = {
                "driver": DRIVER,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                "devices": [self._device(f"{number}-{index}", pool) for index in range(size)],
                **self._nodes_of(pool),
            }
            body = self._slices[name] = {"metadata": {"name": name}, "spec": spec}
            slice_: ResourceSlice = convert(body, "ResourceSlice")
            self._put("ResourceSlice", slice_)

    def _nodes_of(self, pool: str) -> dict[str, Any]:
        if pool.startswith("own-"):
            return {"nodeName": pool.removeprefix("own-")}
        if pool == "zone":
            return _in_zone(self._rng.choice(ZONES))
        return {"allNodes": True} if pool == "all" else {"perDeviceNodeSelection": True}

    def _device(self, name: str, pool: str) -> dict[str, Any]:
        rng = self._rng
        self._count += 1
        texts = {"model": rng.choice("xy"), "bus": rng.choice("12"), "serial": str(self._count)}
        if rng.random() < 0.8:
            texts["slot"] = rng.choice("12")
        reach: dict[str, Any] = {}
        if pool.startswith("mixed"):
            reach = rng.choice(
                ({"nodeName": rng.choice(NODES)}, _in_zone(rng.choice(ZONES)), {"allNodes": True})
            )
        attributes = {key: {"string": text} for key, text in texts.items()}
        taints = [self._taint()] if self._has_taints and rng.random() < 0.15 else []
        return {"name": name, "attributes": attributes, "taints": taints, **reach}

    def _taint(self) -> dict[str, str]:
        rng = self._rng
        effect = rng.choice(("NoSchedule", "NoSchedule", "NoExecute", "None"))
        return {"key": rng.choice(("old", "hot")), "value": "", "effect": effect}

    def _change_rule(self) -> None:
        """Adds, changes or removes a rule that taints devices."""
        rng = self._rng
        name = rng.choice(("rule-1", "rule-2"))
        if not self._has_taints:
            return
        if rng.random() < 0.4:
            self._rules.pop(name, None)
            self._cache.remove_object("DeviceTaintRule", name)
            return
        pool = rng.choice((None, *self._pools))
        device = rng.choice((None, "0-0", "0-1"))
        taint = self._taint()
        self._rules[name] = TaintRule(pool, device, taint["key"], taint["effect"])
        selector = {"driver": DRIVER, "pool": pool, "device": device}
        body = {
            "metadata": {"name": name},
            "spec": {"deviceSelector": selector, "taint": taint},
        }
        self._put("DeviceTaintRule", convert(body, "DeviceTaintRule"))

    def _republish(self) -> None:
        """Publishes a pool anew, or removes one of its slices."""
        pool = self._rng.choice(self._pools)
        names = [name for name in self._slices if name.rpartition("-")[0] == pool]
        generation = 1 + max(
            (self._slices[name]["spec"]["pool"]["generation"] for name in names), default=0
        )
        keeps_old = self._has_incomplete and self._rng.random() < 0.3
        for name in names if not keeps_old else names[1:]:
            del self._slices[name]
            self._cache.remove_object("ResourceSlice", name)
        if self._rng.random() < 0.8:
            self._publish(pool, generation)

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self) -> None:
        """Filters the nodes for a pod, and reserves a node at times."""
        rng = self._rng
        claims = self._claims_for()
        amount = rng.choice((1, 1, 2)) if self._has_resource and rng.random() < 0.35 else 0
        if not claims and not amount:
            return
        self._count += 1
        pod = make_pod(
            f"pod-{self._count}",
            uid=f"pod-{self._count}",
            requests={RESOURCE: str(amount)} if amount else None,
            spec={"resourceClaims": [{"name": n, "resourceClaimName": n} for n in claims]},
        )
        cycle, view, refusal = self._harness.begin(pod)
        of_pod = [self._claims[name] for name in claims]
        is_refused = any(claim.is_in_flight for claim in of_pod)
        if (refusal is not None) is not is_refused:
            self.problems.append(f"{pod.metadata.name}: PreFilter returns {refusal}")
        if refusal is not None or is_refused:
            return
        names, actual = self._filter(cycle, view)
        expected = {name: self._on(name, of_pod, amount) for name in names}
        fitting = [name for name, taken in expected.items() if taken is not None]
        self.paths["fits"] += len(fitting)
        self.paths["rejected"] += len(expected) - len(fitting)
        if actual != fitting:
            self.problems.append(f"{pod.metadata.name} fits {actual}, not {fitting}")
            return
        scores = self._plugin.score(cycle, _view_of(view, fitting)).tolist()
        worth = [
            self._score(of_pod, expected[name] or [])
            if self._special_on(name, of_pod, amount) or any(not it.taken for it in of_pod)
            else 0
            for name in fitting
        ]
        if scores != worth:
            self.problems.append(f"{pod.metadata.name} has the scores {scores}, not {worth}")
        elif fitting and rng.random() < 0.8 and not self._are_in_progress(of_pod):
            self._reserve(Reserved(pod, rng.choice(fitting), cycle, of_pod), amount)

    def _filter(self, cycle: Any, view: NodeView) -> tuple[list[str], list[str]]:
        """Filters all nodes with cached results, or some; returns these, and where the pod fits."""
        rng = self._rng
        if rng.random() < 0.5:
            results = run_filters(self._harness.framework, cycle, None)
            refused_by = results.refused_by[view.rows].tolist()
            pairs = zip(view.names, refused_by, strict=True)
            return list(view.names), [name for name, number in pairs if not number]
        size = rng.randint(1, len(view))
        part = view.subset(np.array(rng.sample(range(len(view)), k=size), dtype=np.intp))
        codes = self._plugin.filter(cycle, part).codes.tolist()
        pairs = zip(part.names, codes, strict=True)
        return list(part.names), [name for name, code in pairs if not code]

    def _score(self, claims: list[ClaimInUse], taken: list[Taken]) -> int:
        """Returns the score of a node: 8 for each first alternative, 7 for each second one."""
        free = [claim for claim in claims if not claim.taken]
        score = 0
        for claim in claims:
            devices = claim.taken or [item for item in taken if item.claim == free.index(claim)]
            taken_names = {(item.request, item.alternative) for item in devices}
            score += sum(
                8 - index
                for request in claim.spec["requests"]
                for index, item in enumerate(request.get("firstAvailable", ()))
                if (request["name"], item["name"]) in taken_names
            )
        return score

    def _claims_for(self) -> list[str]:
        """Returns the claims of a pod: new ones, or those of others."""
        rng = self._rng
        names = []
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            if len(self._claims) < CLAIMS or (rng.random() < 0.5 and not self._claims):
                self._count += 1
                name = f"claim-{self._count}"
                self._claims[name] = ClaimInUse(self._spec())
                self._put("ResourceClaim", _claim(name, self._claims[name].spec))
            else:
                name = rng.choice(list(self._claims))
            names.append(name)
        return list(dict.fromkeys(names))

    def _spec(self) -> dict[str, Any]:
        """Draws the requests and constraints of a claim; few differ, so that pods share results."""
        rng = self._rng
        if self._n_plain:
            self._n_plain -= 1
            return {"requests": [{"name": "r0", "exactly": _plain(1)}], "constraints": []}
        requests: list[dict[str, Any]] = []
        is_distinct = rng.random() < 0.2
        for number in range(2 if is_distinct else rng.choice((1, 1, 2))):
            count = 1 if is_distinct else rng.choice((1, 1, 2))
            name = f"r{number}"
            if not is_distinct and rng.random() < 0.2:
                names = rng.choice(("xy", "xy", "x", "y"))
                items = [self._exactly(1) | {"name": class_name} for class_name in names]
                for item, class_name in zip(items, names, strict=True):
                    item["deviceClassName"] = class_name
                requests.append({"name": name, "firstAvailable": items})
                continue
            exactly = self._exactly(count)
            if not is_distinct and self._has_all and rng.random() < 0.1:
                exactly = {**exactly, "allocationMode": "All", "count": 0}
            requests.append({"name": name, "exactly": exactly})
        constraints: list[dict[str, Any]] = []
        if is_distinct:
            constraints.append({"distinctAttribute": f"{DRIVER}/slot"})
        elif rng.random() < 0.3 and not any(_is_for_all(request) for request in requests):
            # A request for all devices that violates a constraint ends the attempt.
            attribute = rng.choice(("slot", "bus"))
            constraints.append({"matchAttribute": f"{DRIVER}/{attribute}"})
        if constraints and rng.random() < 0.2:
            constraints[0]["requests"] = ["r0"]
        return {"requests": requests, "constraints": constraints}

    def _exactly(self, count: int) -> dict[str, Any]:
        rng = self._rng
        where = {"bus": rng.choice("12")} if rng.random() < 0.2 else {}
        tolerated = ["old"] if self._has_taints and rng.random() < 0.3 else []
        return {
            "deviceClassName": rng.choice(("gpu", "gpu", "x")),
            "allocationMode": "ExactCount",
            "count": count,
            "where": where,
            "tolerated": tolerated,
        }

    def _on(self, name: str, claims: list[ClaimInUse], amount: int) -> list[Taken] | None:
        """Returns the devices on a node for the claims that have none; None = it does not fit."""
        node = self._nodes[name]
        zone = node.metadata.labels["zone"]
        for claim in claims:
            if claim.taken and not _is_usable(claim, name, zone):
                return None
        specs = [claim.spec for claim in claims if not claim.taken]
        specs += self._special_on(name, claims, amount)
        in_use = {
            taken.device.id
            for claim in (*self._claims.values(), *self._specials())
            for taken in claim.taken
        }
        devices = devices_on(self._slices.values(), name, zone)
        return DeviceSearch(devices, in_use, CLASSES, list(self._rules.values())).run(specs)

    def _special_on(self, name: str, claims: list[ClaimInUse], amount: int) -> list[dict[str, Any]]:
        """Returns the claim for the extended resource on a node.

        It has no requests where a device plugin serves the resource, and is left out if the pod has
        no other claims.
        """
        is_served = self._nodes[name].status.allocatable.get(RESOURCE, "0") != "0"
        if not amount or (is_served and not claims):
            return []
        return [_special(0 if is_served else amount)]

    def _specials(self) -> list[ClaimInUse]:
        """Returns the claims for extended resources of the pods with a node."""
        of_pods = [it.claims for it in (*self._reserved, *self._bound)]
        return [claim for claims in of_pods for claim in claims if "special" in claim.spec]

    # -- reservations -----------------------------------------------------------------------------

    def _reserve(self, reserved: Reserved, amount: int) -> None:
        """Reserves a node, and compares the devices; ends the binding now or later."""
        node, free = reserved.node, [claim for claim in reserved.claims if not claim.taken]
        expected = self._on(node, reserved.claims, amount)
        assert expected is not None
        status = self._plugin.reserve(reserved.cycle, node)
        if status is not None:
            self.problems.append(f"{reserved.pod.metadata.name} is not reserved: {status}")
            return
        for spec in self._special_on(node, reserved.claims, amount):
            free.append(ClaimInUse(spec))
            reserved.claims = [*reserved.claims, free[-1]]
            self.paths["special"] += 1
        self.paths["reserved"] += 1
        attempt = reserved.cycle[self._plugin]
        actual = [_results(claim) for claim in attempt.reserved]
        wanted = [
            [_result_of(taken) for taken in expected if taken.claim == number]
            for number in range(len(free))
        ]
        if actual != wanted:
            self.problems.append(f"{reserved.pod.metadata.name} gets {actual}, not {wanted}")
            return
        for number, claim in enumerate(free):
            claim.taken = [taken for taken in expected if taken.claim == number]
            claim.node, claim.is_in_flight = node, True
        self._reserved.append(reserved)
        if self._rng.random() < 0.7:
            self._end()

    def _end(self) -> None:
        """Ends a binding: it succeeds, or Unreserve gives the devices back."""
        if not self._reserved:
            return
        reserved = self._reserved.pop(self._rng.randrange(len(self._reserved)))
        cycle, uid = reserved.cycle, reserved.pod.metadata.uid
        if self._rng.random() < 0.7:
            run_to_end(self._plugin.pre_bind(cycle, reserved.node))
            for claim in reserved.claims:
                claim.users.add(uid)
                claim.is_in_flight = False
            self._bound.append(reserved)
            return
        attempt = reserved.cycle[self._plugin]
        own = {item.metadata.name for item in attempt.reserved}
        self._plugin.unreserve(cycle, reserved.node)
        for claim in reserved.claims:
            if "special" in claim.spec or self._name_of(claim) in own:
                claim.taken, claim.node, claim.is_in_flight = [], "", False

    def _name_of(self, claim: ClaimInUse) -> str:
        return next((name for name, other in self._claims.items() if other is claim), "")

    def _release(self) -> None:
        """Deletes a bound pod; the controller frees the claims that have no other user.

        A claim that another pod is about to reserve stays: ``claims_run`` has such races.
        """
        removable = [it for it in self._bound if not self._are_in_progress(it.claims)]
        if not removable:
            return
        reserved = self._rng.choice(removable)
        self._bound.remove(reserved)
        pod = reserved.pod
        self._handle.claim_writer.release(pod)
        for claim in reserved.claims:
            claim.users.discard(pod.metadata.uid)
            if not claim.users and not claim.is_in_flight:
                claim.taken, claim.node = [], ""
        if self._rng.random() < 0.3:
            unused = [name for name, it in self._claims.items() if self._is_unused(it)]
            for name in unused[:2]:
                del self._claims[name]
                self._cache.remove_object("ResourceClaim", f"default/{name}")

    def _are_in_progress(self, claims: list[ClaimInUse]) -> bool:
        """Returns whether one of the claims is being reserved for another pod."""
        return any(claim in it.claims for it in self._reserved for claim in claims)

    def _is_unused(self, claim: ClaimInUse) -> bool:
        of_pods = [it.claims for it in (*self._reserved, *self._bound)]
        return not claim.taken and not any(claim in claims for claims in of_pods)


def _view_of(view: NodeView, names: list[str]) -> NodeView:
    return view.subset(np.array([list(view.names).index(name) for name in names], dtype=np.intp))


def _is_usable(claim: ClaimInUse, node: str, zone: str) -> bool:
    """Returns whether a node can use the devices of an allocated claim."""
    reach = [taken.device.reach for taken in claim.taken]
    if any(kind == "node" for kind, _ in reach):
        return node == claim.node
    return all(reaches(it, node, zone) for it in reach)


def _plain(count: int) -> dict[str, Any]:
    """Returns a request for any devices."""
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "where": {},
        "tolerated": [],
    }


def _is_for_all(request: dict[str, Any]) -> bool:
    return "exactly" in request and request["exactly"]["allocationMode"] == "All"


def _in_zone(zone: str) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _special(amount: int) -> dict[str, Any]:
    request = {"name": "container-0-request-0", "exactly": _plain(amount)}
    requests = [request] if amount else []
    return {"requests": requests, "constraints": [], "special": True}


def _device_class(name: str, where: dict[str, str], resource: str | None) -> DeviceClass:
    spec: dict[str, Any] = {"selectors": _selectors(where)}
    if resource is not None:
        spec["extendedResourceName"] = resource
    result: DeviceClass = convert({"metadata": {"name": name}, "spec": spec}, "DeviceClass")
    return result


def _selectors(where: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"cel": {"expression": f'device.attributes["{DRIVER}"].{name} == "{value}"'}}
        for name, value in where.items()
    ]


def _claim(name: str, spec: dict[str, Any]) -> ResourceClaim:
    """Returns a claim with the selectors of ``where`` in CEL."""

    def written(choice: dict[str, Any]) -> dict[str, Any]:
        rest = {key: it for key, it in choice.items() if key not in ("where", "tolerated")}
        tolerations = [{"key": key, "operator": "Exists"} for key in choice["tolerated"]]
        return {**rest, "selectors": _selectors(choice["where"]), "tolerations": tolerations}

    requests: list[dict[str, Any]] = []
    for request in spec["requests"]:
        if "exactly" in request:
            requests.append({"name": request["name"], "exactly": written(request["exactly"])})
        else:
            items = [written(item) for item in request["firstAvailable"]]
            requests.append({"name": request["name"], "firstAvailable": items})
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": requests, "constraints": spec["constraints"]}},
    }
    claim: ResourceClaim = convert(body, "ResourceClaim")
    return claim


def _results(claim: ResourceClaim) -> list[tuple[str, str, str]]:
    assert claim.status.allocation is not None
    results = claim.status.allocation.devices.results
    return [(result.request, result.pool, result.device) for result in results]


def _result_of(taken: Taken) -> tuple[str, str, str]:
    request = f"{taken.request}/{taken.alternative}" if taken.alternative else taken.request
    return request, *taken.device.id


def run_node_devices(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod fits another node, or gets other devices, than by the model.
    """
    run = NodeDevicesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
