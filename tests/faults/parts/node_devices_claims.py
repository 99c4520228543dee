"""Claims of devices: their requests and constraints, drawn, and as the API has them.

A spec has the documents of the API, but ``where`` (attribute and value) for selectors, and
``tolerated`` (keys) for tolerations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import cycle
from random import Random
from typing import Any, Final

import msgspec

from mooring.clock import Rng
from mooring.objects.codec.decode import convert
from mooring.objects.resource import AllocationResult, ResourceClaim
from tests.faults.parts.device_usage import Amounts
from tests.faults.parts.node_devices_model import DRIVER, Taken

CAPACITIES: Final = ("memory", "bandwidth")
#: A configuration: its source, the requests that it is for, and its text.
Config = tuple[str, tuple[str, ...], str]
#: The share of the requests that are for all devices.
ALL_RATE: Final = 0.1
#: The share of the requests that select devices by an attribute.
WHERE_RATE: Final = 0.2
#: Keys of a request that are not written as they are.
_OWN_KEYS: Final = ("where", "form", "tolerated", "capacity")
#: Expressions that are true of the same devices. From the text of some nothing is known of what
#: they read, so that all that a device has counts.
_FORMS: Final = (
    'device.attributes["{driver}"].{name} == "{value}"',
    'device.attributes["{driver}"]["{name}"] in ["{value}"]',
    'device.attributes[device.driver].{name} == "{value}"',
    '["{value}"].exists(it, it == device.attributes["{driver}"].{name})',
)
#: The same by a name that is not in the text.
_COMPUTED: Final = 'device.attributes["{driver}"]["{first}" + "{rest}"] == "{value}"'


class ClaimSpecs:
    """Draws specs of claims.

    Args:
        rng: Draws them.
        n_plain: So many of the first read no attribute.
        has_all: Whether some request all devices.
        all_rate: How many of their requests and alternatives; more than ``ALL_RATE`` also with
            constraints, which a device may violate.
        has_taints: Whether some tolerate taints.
        has_capacity: Whether some request an amount of a capacity.
        has_forms: Whether expressions have different forms, in turn.
        n_kinds: How many different specs there are; 0 = any number.
        where_rate: How many requests select devices by an attribute.
    """

    def __init__(
        self,
        rng: Rng,
        *,
        n_plain: int,
        has_all: bool,
        has_taints: bool,
        has_capacity: bool = False,
        all_rate: float = ALL_RATE,
        has_forms: bool = False,
        n_kinds: int = 0,
        where_rate: float = WHERE_RATE,
    ) -> None:
        self._rng = rng
        self._n_plain = n_plain
        self._has_all = has_all
        self._all_rate = all_rate
        self._is_often_all = has_all and all_rate > ALL_RATE
        self._has_taints = has_taints
        self._has_capacity = has_capacity
        self._forms = cycle(range(len(_FORMS) if has_forms else 1))
        self._where_rate = where_rate
        self._kinds: list[dict[str, Any]] = []
        if n_kinds:
            self._n_plain = 0
            self._kinds = [self._draw() for _ in range(n_kinds)]

    def draw(self) -> dict[str, Any]:
        """Draws the requests and constraints of a claim; few differ, so that pods share results."""
        return deepcopy(self._rng.choice(self._kinds)) if self._kinds else self._draw()

    def _draw(self) -> dict[str, Any]:
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
                items = [self._alternative(class_name) for class_name in names]
                requests.append({"name": name, "firstAvailable": items})
                continue
            exactly = self._exactly(count)
            if not is_distinct and self._has_all and rng.random() < self._all_rate:
                exactly = {**exactly, "allocationMode": "All", "count": 0}
            requests.append({"name": name, "exactly": exactly})
        constraints: list[dict[str, Any]] = []
        if is_distinct:
            constraints.append({"distinctAttribute": f"{DRIVER}/slot"})
        elif rng.random() < 0.3 and (
            self._is_often_all or not any(_is_for_all(request) for request in requests)
        ):
            # A request for all devices that violates a constraint ends the attempt.
            attribute = rng.choice(("slot", "bus"))
            constraints.append({"matchAttribute": f"{DRIVER}/{attribute}"})
        if constraints and rng.random() < 0.2:
            constraints[0]["requests"] = ["r0"]
        return {"requests": requests, "constraints": constraints}

    def with_config(self, spec: dict[str, Any], rng: Rng) -> dict[str, Any]:
        """Returns a spec with up to two configurations, for all requests or some."""
        names = [request["name"] for request in spec["requests"]]
        names += [
            f"{request['name']}/{item['name']}"
            for request in spec["requests"]
            for item in request.get("firstAvailable", ())
        ]
        configs = [
            (rng.choice(((), tuple(rng.sample(names, rng.randint(1, len(names)))))), text)
            for text in ("fast", "slow")[: rng.choice((0, 0, 1, 2))]
        ]
        return {**spec, "config": configs}

    def _alternative(self, name: str) -> dict[str, Any]:
        """Draws an alternative, named like its class."""
        item = self._exactly(1) | {"name": name, "deviceClassName": name}
        if self._is_often_all and self._rng.random() < self._all_rate:
            item |= {"allocationMode": "All", "count": 0}
        return item

    def _exactly(self, count: int) -> dict[str, Any]:
        rng = self._rng
        where = {"bus": rng.choice("12")} if rng.random() < self._where_rate else {}
        tolerated = ["old"] if self._has_taints and rng.random() < 0.3 else []
        return {
            "deviceClassName": rng.choice(("gpu", "gpu", "x")),
            "allocationMode": "ExactCount",
            "count": count,
            "where": where,
            "form": next(self._forms) if where else 0,
            "tolerated": tolerated,
            **self._capacity(),
        }

    def _capacity(self) -> dict[str, Any]:
        """Draws amounts that are requested; few devices have a bandwidth."""
        rng = self._rng
        if not self._has_capacity or rng.random() < 0.5:
            return {}
        names = rng.choice((("memory",), ("memory",), ("memory",), ("bandwidth",), CAPACITIES))
        return {"capacity": {name: rng.choice((1, 2, 3, 4, 6, 9)) for name in names}}


def crowded(spec: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Returns a spec with more devices and alternatives, so that a claim may have too many.

    Several devices of a request with distinct attributes are not modelled.
    """
    if any("distinctAttribute" in it for it in spec["constraints"]):
        return spec
    requests = [_with_more(request, rng) for request in spec["requests"]]
    if len(requests) < 2 or rng.random() < 0.3:
        copied = deepcopy(rng.choice(requests))
        requests.append(_with_more({**copied, "name": f"r{len(requests)}"}, rng))
    return {**spec, "requests": requests}


def _with_more(request: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Returns a request with other counts, most of them as alternatives."""
    name, items = request["name"], request.get("firstAvailable") or [request["exactly"]]
    if "firstAvailable" not in request:
        if rng.random() < 0.4:
            return request
        items = [items[0] | {"name": "first"}, items[0] | {"name": "second"}]
    choices = []
    for item in items:
        changed = {**item, "count": item["count"] and rng.choice((1, 1, 2, 3))}
        if rng.random() < 0.3:
            changed["deviceClassName"] = rng.choice(("gpu", "x", "y"))
        if rng.random() < 0.3:
            changed |= {"where": {"bus": rng.choice("12")}, "form": 0}
        choices.append(changed)
    return {"name": name, "firstAvailable": choices}


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


def special_of(amount: int) -> dict[str, Any]:
    """Returns the spec of the claim for an extended resource; 0 = without requests."""
    request = {"name": "container-0-request-0", "exactly": _plain(amount)}
    requests = [request] if amount else []
    return {"requests": requests, "constraints": [], "special": True}


def selectors_of(
    where: Mapping[str, str], form: int = 0, *, computes: bool = False
) -> list[dict[str, Any]]:
    """Returns the selectors of devices with these attributes, in CEL.

    Args:
        where: The attributes.
        form: Of the expressions.
        computes: Whether the name of an attribute is not in the text; the form does not count then.
    """
    text = _COMPUTED if computes else _FORMS[form]
    parts = [(name, name[:1], name[1:], value) for name, value in where.items()]
    return [
        {
            "cel": {
                "expression": text.format(
                    driver=DRIVER, name=name, first=first, rest=rest, value=value
                )
            }
        }
        for name, first, rest, value in parts
    ]


def claim_of(name: str, spec: dict[str, Any], *, computes: bool = False) -> ResourceClaim:
    """Returns a claim with the selectors of ``where`` in CEL; see ``selectors_of``."""

    def written(choice: dict[str, Any]) -> dict[str, Any]:
        rest = {key: it for key, it in choice.items() if key not in _OWN_KEYS}
        if "capacity" in choice:
            amounts = {name: str(amount) for name, amount in choice["capacity"].items()}
            rest["capacity"] = {"requests": amounts}
        tolerations = [{"key": key, "operator": "Exists"} for key in choice["tolerated"]]
        tolerations += choice.get("tolerations", ())
        selectors = selectors_of(choice["where"], choice.get("form", 0), computes=computes)
        return {**rest, "selectors": selectors, "tolerations": tolerations}

    requests: list[dict[str, Any]] = []
    for request in spec["requests"]:
        if "exactly" in request:
            requests.append({"name": request["name"], "exactly": written(request["exactly"])})
        else:
            items = [written(item) for item in request["firstAvailable"]]
            requests.append({"name": request["name"], "firstAvailable": items})
    devices = {"requests": requests, "constraints": spec["constraints"]}
    devices["config"] = [
        {"requests": list(names), **opaque(text)} for names, text in spec.get("config", ())
    ]
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": devices},
    }
    claim: ResourceClaim = convert(body, "ResourceClaim")
    return claim


def opaque(text: str) -> dict[str, Any]:
    """Returns the configuration of a driver."""
    return {"opaque": {"driver": DRIVER, "parameters": {"text": text}}}


def configs_of(
    spec: dict[str, Any], taken: Sequence[Taken], of_class: Mapping[str, Sequence[str]]
) -> list[Config]:
    """Returns the configurations of an allocation: those of classes, then those of the claim.

    Those of a class are there once, for all requests of the class; those of a claim once for each
    request that they name.

    Source: dynamic-resource-allocation v0.36.3, structured/internal/stable/allocator_stable.go.
    """
    classes: dict[str, list[str]] = {}
    names: list[tuple[str, str]] = []
    for request in spec["requests"]:
        choice, full_name = request.get("exactly"), request["name"]
        if choice is None:
            alternative = next(it.alternative for it in taken if it.request == request["name"])
            full_name = f"{full_name}/{alternative}"
            choice = next(it for it in request["firstAvailable"] if it["name"] == alternative)
        classes.setdefault(choice["deviceClassName"], []).append(full_name)
        names.append((request["name"], full_name))
    configs: list[Config] = [
        ("FromClass", tuple(requests), text)
        for name, requests in classes.items()
        for text in of_class[name]
    ]
    for chosen, text in spec.get("config", ()):
        times = sum(bool({*pair} & {*chosen}) for pair in names) if chosen else 1
        configs += [("FromClaim", tuple(chosen), text)] * times
    return configs


def allocation_of(taken: Sequence[Taken], node: str) -> AllocationResult:
    """Returns the allocation of devices, with the nodes that can use all of them."""
    results = [
        {
            "request": f"{item.request}/{item.alternative}" if item.alternative else item.request,
            "driver": DRIVER,
            "pool": item.device.pool,
            "device": item.device.name,
            **_share(number, item.consumed),
        }
        for number, item in enumerate(taken)
    ]
    body: dict[str, Any] = {"devices": {"results": results}}
    if term := _term_of(taken, node):
        body["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return msgspec.convert(body, AllocationResult)


def _term_of(taken: Sequence[Taken], node: str) -> dict[str, Any]:
    """Returns the term for the nodes that can use all of some devices; empty = all nodes."""
    reach = [item.device.reach for item in taken]
    if any(kind == "node" for kind, _ in reach):
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    # Each requirement once, whatever the order of its values.
    names = dict.fromkeys(value for kind, value in reach if kind == "field")
    zones: dict[frozenset[str], str] = {}
    for kind, value in reach:
        if kind in ("zone", "zones"):
            zones.setdefault(frozenset(value.split(",")), value)
    term: dict[str, Any] = {}
    if names:
        term["matchFields"] = [
            {"key": "metadata.name", "operator": "In", "values": [name]} for name in names
        ]
    if zones:
        term["matchExpressions"] = [
            {"key": "zone", "operator": "In", "values": value.split(",")}
            for value in zones.values()
        ]
    return term


def _share(number: int, consumed: Amounts | None) -> dict[str, Any]:
    """Returns the fields of a result that a shared device has, and others have not."""
    if consumed is None:
        return {}
    amounts = {name: str(amount) for name, amount in consumed.items()}
    share: dict[str, Any] = {"shareID": f"00000000-0000-4000-8000-{number:012}"}
    return {**share, "consumedCapacity": amounts} if amounts else share
