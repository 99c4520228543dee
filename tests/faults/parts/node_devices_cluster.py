"""Nodes, and slices for a node, a zone, all nodes, or nodes of each device; they are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.dra.features import DeviceFeatures
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.resource import DeviceClass, ResourceSlice
from mooring.state.cache import Cache
from mooring.testing import make_node
from tests.faults.parts.node_devices_claims import (
    ALL_RATE,
    WHERE_RATE,
    ClaimSpecs,
    opaque,
    selectors_of,
    special_of,
)
from tests.faults.parts.node_devices_model import DRIVER, TaintRule
from tests.faults.twins.leftovers import CacheLeftovers

NODES: Final = ("n0", "n1", "n2", "n3", "n4")
ZONES: Final = ("a", "b")
#: In such seeds, modulo four, classes and claims have configurations.
WITH_CONFIGS: Final = 3
#: In such seeds, modulo seven, a pool has a slice for each of some nodes.
SPLIT_POOL: Final = 3
#: In such seeds, modulo four, pools have every state, and many claims are for all devices.
ODD_POOLS: Final = 1
OFTEN_ALL: Final = 0.4
#: In such seeds, modulo six, slices and devices select nodes by name, or several zones.
ODD_SELECTORS: Final = 5
#: In such seeds, modulo five, the expressions of requests have several forms.
WITH_FORMS: Final = 2
#: More than a new table of nodes has rows.
MORE_NODES: Final = 70
RESOURCE: Final = "example.com/gpu"
#: Class -> the conditions of its devices.
CLASSES: Final[dict[str, dict[str, str]]] = {"gpu": {}, "x": {"model": "x"}, "y": {"model": "y"}}
#: In such seeds, modulo five, the conditions of classes change, to one of these.
CLASSES_CHANGE: Final = 2
WHERES: Final[tuple[dict[str, str], ...]] = ({"model": "x"}, {"model": "y"}, {}, {"bus": "1"})
#: In such seeds, modulo five, there are few different claims.
FEW_KINDS: Final = 3
#: In half of these, all nodes have the same number of devices, and more requests select some.
EVEN: Final = 8
EVEN_SIZE: Final = 2
EVEN_WHERE_RATE: Final = 0.4
EVEN_KINDS: Final = 4
#: How requests for the memory of a shared device are rounded, and refused.
POLICIES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"default": "2"},
    {"default": "2", "validValues": ["2", "4", "7"]},
    {"default": "3", "validRange": {"min": "1", "max": "5", "step": "2"}},
    {"default": "2", "validRange": {"min": "2"}},
)


class DeviceClasses:
    """The device classes of a cache, whose conditions change in some runs."""

    _cache: Cache
    _has_resource: bool
    #: Class -> its conditions now, and its configurations.
    _wheres: dict[str, dict[str, str]]
    _configs: dict[str, list[str]]
    #: Draws the changes; None = there are none.
    _class_changes: Random | None

    def _put(self, kind: str, obj: Any) -> None:
        self._cache.put_object(kind, obj)

    def _store_class(self, name: str) -> None:
        resource = RESOURCE if name == "gpu" and self._has_resource else None
        new = device_class(name, self._wheres[name], resource, self._configs[name])
        self._put("DeviceClass", new)

    def _change_class(self) -> None:
        """Changes the conditions of a class; those of the extended resource stay."""
        assert self._class_changes is not None
        name = self._class_changes.choice(("x", "y"))
        self._wheres[name] = self._class_changes.choice(WHERES)
        self._store_class(name)


class DeviceCluster(DeviceClasses):
    """A cache with nodes, slices, classes and rules, and their documents.

    Args:
        seed: Of the generator that draws them.
        has_shared: Whether devices may be shared, and share counters.
    """

    def __init__(self, seed: int, *, has_shared: bool = False) -> None:
        self._rng = rng = seeded_random(seed)
        #: Draws configurations, which are only passed on.
        self._more = seeded_random(seed + 1)
        self._has_configs = seed % 4 == WITH_CONFIGS
        self._odd_selectors = seeded_random(seed + 11) if seed % 6 == ODD_SELECTORS else None
        n_kinds = Random(f"{seed} kinds").choice((1, 2, 3)) if seed % 5 == FEW_KINDS else 0
        self._is_even = seed % 10 == EVEN
        self._class_changes = Random(f"{seed} classes") if seed % 5 == CLASSES_CHANGE else None
        self._wheres = {name: {**it} for name, it in CLASSES.items()}
        self._configs = {}
        self._cache = Cache(DeviceFeatures(has_taint_rules=True))
        # Allocations are in flight when the run ends.
        self._leftovers = CacheLeftovers(self._cache, ".devices.in_use")
        self._count = 0
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, dict[str, Any]] = {}
        #: Whether pools are incomplete at times; claims for all devices of a pool fail then.
        self._has_incomplete = rng.random() < 0.5
        self._has_resource = rng.random() < 0.6
        self._has_taints = rng.random() < 0.5
        #: So many claims read no attribute: what others read later begins the signatures anew.
        self._n_plain = rng.choice((0, 4, 10))
        self._has_counters = has_shared and rng.random() < 0.6
        self._has_capacity = has_shared and (not self._has_counters or rng.random() < 0.6)
        # While a pool with counters is replaced, what is left of them depends on the first node.
        self._has_incomplete &= not self._has_counters
        # Counters of pools that are replaced are not modelled.
        self._is_odd = seed % 4 == ODD_POOLS and not self._has_counters
        self._has_incomplete |= self._is_odd
        self._has_all = self._is_odd or (not self._has_incomplete and not self._has_taints)
        self._specs = ClaimSpecs(
            self._rng,
            n_plain=self._n_plain,
            has_all=self._has_all,
            has_taints=self._has_taints,
            has_capacity=self._has_capacity,
            all_rate=OFTEN_ALL if self._is_odd else ALL_RATE,
            has_forms=seed % 5 == WITH_FORMS,
            n_kinds=EVEN_KINDS if self._is_even else n_kinds,
            where_rate=EVEN_WHERE_RATE if self._is_even else WHERE_RATE,
        )
        self._rules: dict[str, TaintRule] = {}
        self._pools = [f"own-{node}" for node in NODES]
        self._pools += [pool for pool in ("all", "zone", "mixed", "mixed-2") if rng.random() < 0.6]
        self._pools = self._pools[: len(NODES)] if self._is_even else self._pools
        if self._odd_selectors is not None:
            self._pools = ["own-n0", "mixed", "mixed-2", "zone"]
        # A pool whose slices are each for another node: an allocation changes all of them.
        self._split = Random(f"{seed} split") if seed % 7 == SPLIT_POOL else None
        if self._split is not None and not self._has_counters and not self._is_even:
            self._pools.append("split")
        for name in CLASSES:
            count = self._more.choice((0, 1, 2)) if self._has_configs else 0
            self._configs[name] = ["first", "second"][:count]
            self._store_class(name)
        for name in NODES:
            self._put_node(name)
        for pool in self._pools:
            self._publish(pool)

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

    def _grow(self) -> None:
        """Removes a node, and adds it anew when others have all rows; these go."""
        name = self._more.choice(NODES)
        self._cache.remove_node(name)
        others = [f"other-{number}" for number in range(MORE_NODES)]
        for other in others:
            self._cache.put_node(make_node(other))
        self._cache.put_node(self._nodes[name])
        for other in others:
            self._cache.remove_node(other)

    def _special_on(self, name: str, claims: Sequence[Any], amount: int) -> list[dict[str, Any]]:
        """Returns the claim for the extended resource on a node.

        It has no requests where a device plugin serves the resource, and is left out if the pod has
        no other claims.
        """
        is_served = self._nodes[name].status.allocatable.get(RESOURCE, "0") != "0"
        if not amount or (is_served and not claims):
            return []
        return [special_of(0 if is_served else amount)]

    def _new_spec(self) -> dict[str, Any]:
        """Draws a claim; pods with configurations share less with others."""
        spec = self._specs.draw()
        return self._specs.with_config(spec, self._more) if self._has_configs else spec

    def _publish(self, pool: str, generation: int = 1) -> None:
        """Publishes a pool in one or two slices; one of them may come later."""
        rng = self._rng
        count = rng.choice((1, 1, 2))
        sizes = [rng.choice((0, 0, 1, 2) if self._is_odd else (1, 2, 3)) for _ in range(count)]
        count, sizes = (1, [EVEN_SIZE]) if self._is_even else (count, sizes)
        if self._split is not None and pool == "split":
            count = self._split.choice((2, 3))
            sizes = [self._split.choice((1, 2)) for _ in range(count)]
        sets = self._counter_sets()
        if sets:
            count += 1
            self._put_slice(f"{pool}-c", pool, generation, count, {"sharedCounters": sets})
        for number, size in enumerate(sizes):
            if self._has_incomplete and rng.random() < 0.15:
                continue
            # In a pool that is invalid two slices have devices of the same names.
            prefix = 0 if self._is_odd and rng.random() < 0.4 else number
            devices = [self._device(f"{prefix}-{index}", pool) for index in range(size)]
            for device in devices if sets else ():
                _consume(rng, device, sets)
            rest = {"devices": devices}
            self._put_slice(f"{pool}-{number}", pool, generation, count, rest)

    def _put_slice(
        self, name: str, pool: str, generation: int, count: int, rest: dict[str, Any]
    ) -> None:
        spec: dict[str, Any] = {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [],
            **rest,
            **self._nodes_of(pool, name),
        }
        body = self._slices[name] = {"metadata": {"name": name}, "spec": spec}
        slice_: ResourceSlice = convert(body, "ResourceSlice")
        self._put("ResourceSlice", slice_)

    def _counter_sets(self) -> list[dict[str, Any]]:
        """Draws the counters of a pool."""
        rng = self._rng
        if not self._has_counters or rng.random() < 0.3:
            return []
        return [
            {"name": name, "counters": {"slots": {"value": rng.choice("1246")}, **more}}
            for name, more in (("first", {}), ("second", {"lanes": {"value": "3"}}))[
                : rng.choice((1, 1, 2))
            ]
        ]

    def _nodes_of(self, pool: str, slice_name: str) -> dict[str, Any]:
        if pool.startswith("own-"):
            return {"nodeName": pool.removeprefix("own-")}
        if pool == "split":
            return {"nodeName": NODES[int(slice_name.rpartition("-")[2])]}
        if pool == "zone":
            return self._selecting(self._rng.choice(ZONES))
        return {"allNodes": True} if pool == "all" else {"perDeviceNodeSelection": True}

    def _selecting(self, zone: str) -> dict[str, Any]:
        """Returns a selector of a zone, or, in some runs, of all zones in any order, or a node."""
        zones, odd = [zone], self._odd_selectors
        if odd is not None and odd.random() < 0.2:
            field = {"key": "metadata.name", "operator": "In", "values": [odd.choice(NODES)]}
            return _with_term({"matchFields": [field]})
        if odd is not None and odd.random() < 0.9:
            zones = odd.sample(ZONES, len(ZONES))
        return _with_term(
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}
        )

    def _device(self, name: str, pool: str) -> dict[str, Any]:
        rng = self._rng
        self._count += 1
        texts = {"model": rng.choice("xy"), "bus": rng.choice("12"), "serial": str(self._count)}
        if rng.random() < 0.8:
            texts["slot"] = rng.choice("12")
        reach: dict[str, Any] = {}
        if pool.startswith("mixed"):
            reach = rng.choice(
                (
                    {"nodeName": rng.choice(NODES)},
                    self._selecting(rng.choice(ZONES)),
                    {"allNodes": True},
                )
            )
        attributes = {key: {"string": text} for key, text in texts.items()}
        taints = [self._taint()] if self._has_taints and rng.random() < 0.15 else []
        body = {"name": name, "attributes": attributes, "taints": taints, **reach}
        return {**body, **self._sharing()} if self._has_capacity else body

    def _sharing(self) -> dict[str, Any]:
        """Draws whether a device may be shared, and its capacities."""
        rng = self._rng
        is_shared = rng.random() < 0.6
        capacity: dict[str, Any] = {}
        if rng.random() < 0.8:
            policy = rng.choice(POLICIES) if is_shared else {}
            capacity["memory"] = {"value": "8"} | ({"requestPolicy": policy} if policy else {})
        if rng.random() < 0.3:
            capacity["bandwidth"] = {"value": rng.choice("46")}
        sharing: dict[str, Any] = {"allowMultipleAllocations": True} if is_shared else {}
        return {**sharing, "capacity": capacity} if capacity else sharing

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
        self._rules[name] = TaintRule(pool, device, taint["key"], taint["effect"], taint["value"])
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


def _with_term(term: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


def device_class(
    name: str, where: dict[str, str], resource: str | None, configs: Sequence[str] = ()
) -> DeviceClass:
    """Returns a class of devices with these attributes, for an extended resource or none."""
    spec: dict[str, Any] = {"selectors": selectors_of(where)}
    spec["config"] = [opaque(text) for text in configs]
    if resource is not None:
        spec["extendedResourceName"] = resource
    result: DeviceClass = convert({"metadata": {"name": name}, "spec": spec}, "DeviceClass")
    return result


def _consume(rng: Rng, device: dict[str, Any], sets: list[dict[str, Any]]) -> None:
    """Lets most devices of a pool consume some of its counters."""
    consumed = [
        {
            "counterSet": item["name"],
            "counters": {name: {"value": rng.choice("0112")} for name in item["counters"]},
        }
        for item in sets
        if rng.random() < 0.7
    ]
    if consumed:
        device["consumesCounters"] = consumed
