"""The devices that a node can use, and the first allocation of claims there: slow and simple.

It reads the documents of the API alone. A search tries all devices in their order, request by
request, and takes the first complete solution, as the allocator of kube-scheduler does.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating
(pools_incubating.go, allocator_incubating.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.faults.parts.device_usage import (
    Amounts,
    CounterName,
    Document,
    Usage,
    consumed_of,
    counters_of,
)

DRIVER: Final = "gpu.test"
#: The states of a pool that cannot be used: slices are missing, or contradict each other.
INCOMPLETE: Final = "incomplete"
INVALID: Final = "invalid"
#: The number of devices that a claim may have.
MOST: Final = 32


#: Key, value and effect.
Taint = tuple[str, str, str]
#: A text, or the type and the value.
Attribute = str | tuple[str, Any]


class ModelDevice(NamedTuple):
    """A device: its pool, its name, its attributes, which nodes can use it, and its taints.

    A taint is a key, a value and an effect; those of rules are not among them. An attribute that is
    no text is a pair of its type and its value. ``is_shared`` is for
    ``allowMultipleAllocations``; ``capacity`` is that of the API; ``counters`` is what it consumes.
    """

    pool: str
    name: str
    attributes: Mapping[str, Attribute]
    reach: tuple[str, str]
    taints: tuple[Taint, ...]
    is_shared: bool = False
    capacity: Mapping[str, Document] = {}
    counters: Mapping[CounterName, int] = {}

    @property
    def id(self) -> tuple[str, str]:
        """Pool and name."""
        return self.pool, self.name


class ModelPool(NamedTuple):
    """A pool as a node sees it: without devices unless its state is ""."""

    name: str
    state: str
    devices: tuple[ModelDevice, ...]


class SearchFailed(Exception):
    """The search ends with an error, which ends the attempt.

    Args:
        claim: The number of the claim.
        name: The alternative of the request, or the request.
        what: The text after both.
    """

    def __init__(self, claim: int, name: str, what: str) -> None:
        super().__init__(what)
        self._claim, self._name, self._what = claim, name, what

    def text(self, names: Sequence[str]) -> str:
        """Returns the whole text, with the name of the claim."""
        return f"claim default/{names[self._claim]}, request {self._name}: {self._what}"


class TooManyRequested(SearchFailed):
    """A claim requests more devices on a node than it may have.

    Args:
        claim: The number of the claim.
        what: The text after its name.
    """

    def __init__(self, claim: int, what: str) -> None:
        super().__init__(claim, "", what)

    def text(self, names: Sequence[str]) -> str:
        """Returns the whole text, with the name of the claim."""
        return f"claim default/{names[self._claim]}: {self._what}"


class _BeyondLimit(Exception):
    """A claim would have too many devices, whichever it has for its requests so far."""


class TaintRule(NamedTuple):
    """A rule that taints devices; None = any pool, any device."""

    pool: str | None
    device: str | None
    key: str
    effect: str
    value: str = ""


class Taken(NamedTuple):
    """A device for a claim: the number of the claim, the request, the alternative or "".

    ``consumed`` is what the claim takes of the capacity of a shared device; None = a whole one.
    """

    claim: int
    request: str
    alternative: str
    device: ModelDevice
    consumed: Amounts | None = None


def reach_of(spec: Document) -> tuple[str, str]:
    """Returns the nodes that a slice or device is for.

    They are ("node", name), ("field", name) by a selector, ("zone", zone), ("zones", several), or
    all.
    """
    if "nodeName" in spec:
        return "node", spec["nodeName"]
    if "nodeSelector" not in spec:
        return "all", ""
    term = spec["nodeSelector"]["nodeSelectorTerms"][0]
    if "matchFields" in term:
        return "field", term["matchFields"][0]["values"][0]
    zones = term["matchExpressions"][0]["values"]
    return ("zone" if len(zones) == 1 else "zones"), ",".join(zones)


def reaches(reach: tuple[str, str], node: str, zone: str) -> bool:
    """Returns whether a node is one of those."""
    if reach[0] == "zones":
        return zone in reach[1].split(",")
    return {"node": node, "field": node, "zone": zone, "all": ""}[reach[0]] == reach[1]


def pools_on(slices: Iterable[Document], node: str, zone: str) -> list[ModelPool]:
    """Returns the pools that a node can use, in the order of the allocator."""
    everywhere = [item["spec"] | {"slice": item["metadata"]["name"]} for item in slices]
    pools: dict[str, list[Document]] = {}
    for spec in everywhere:
        if _is_relevant(spec, node, zone):
            pools.setdefault(spec["pool"]["name"], []).append(spec)
    result: list[ModelPool] = []
    for name in sorted(pools):
        newest = max(spec["pool"]["generation"] for spec in pools[name])
        mine = [spec for spec in pools[name] if spec["pool"]["generation"] == newest]
        count = mine[0]["pool"]["resourceSliceCount"]
        if len(mine) != count:
            others = [spec["pool"] for spec in everywhere if spec["pool"]["name"] == name]
            generations = [pool["generation"] for pool in others]
            if max(generations) > newest:
                continue
            if generations.count(newest) != count:
                result.append(ModelPool(name, INCOMPLETE, ()))
                continue
        in_order = sorted(mine, key=lambda spec: spec["slice"])
        devices = [device for spec in in_order for device in devices_of(spec)]
        are_twice = len({device.name for device in devices}) < len(devices)
        if are_twice or _has_unknown_counters(everywhere, name, newest):
            result.append(ModelPool(name, INVALID, ()))
            continue
        usable = tuple(item for item in devices if reaches(item.reach, node, zone))
        result.append(ModelPool(name, "", usable))
    return result


def _has_unknown_counters(slices: Iterable[Document], pool: str, generation: int) -> bool:
    """Returns whether a device of a pool, on any node, consumes a counter that is not there."""
    specs = [
        spec
        for spec in slices
        if spec["pool"]["name"] == pool and spec["pool"]["generation"] == generation
    ]
    existing = {
        (item["name"], name)
        for spec in specs
        for item in spec.get("sharedCounters", ())
        for name in item["counters"]
    }
    consumed = [counters_of(device).keys() for spec in specs for device in spec["devices"]]
    return any(not names <= existing for names in consumed)


def _is_relevant(spec: Document, node: str, zone: str) -> bool:
    """Returns whether a slice counts for a node: also one without devices, but for its own."""
    # Slices with counters count for all nodes.
    if spec.get("sharedCounters"):
        return True
    if not spec.get("perDeviceNodeSelection"):
        return reaches(reach_of(spec), node, zone)
    return any(reaches(device.reach, node, zone) for device in devices_of(spec))


def devices_of(spec: Document) -> Iterator[ModelDevice]:
    """Yields the devices of a slice."""
    for device in spec["devices"]:
        attributes = {name: _attribute(value) for name, value in device["attributes"].items()}
        reach = reach_of(device if spec.get("perDeviceNodeSelection") else spec)
        taints = tuple((it["key"], it["value"], it["effect"]) for it in device["taints"])
        yield ModelDevice(
            spec["pool"]["name"],
            device["name"],
            attributes,
            reach,
            taints,
            bool(device.get("allowMultipleAllocations")),
            device.get("capacity", {}),
            counters_of(device),
        )


class DeviceSearch:
    """A search for devices on one node.

    Args:
        pools: Those that the node can use, in order.
        usage: What other claims have.
        classes: Name of a class -> the conditions of its devices: attribute and value.
        rules: The rules that taint devices: pool and device, None = any, and the taint.
        most: The number of devices that a claim may have.

    Attributes:
        n_limited: How many choices would have had too many devices.
        n_others: In how many of these cases other devices were searched for requests before.
    """

    def __init__(
        self,
        pools: Sequence[ModelPool],
        usage: Usage,
        classes: Mapping[str, Mapping[str, str]],
        rules: Sequence[TaintRule] = (),
        most: int = MOST,
    ) -> None:
        self.n_limited = self.n_others = 0
        self._most = most
        self._unusable = [pool for pool in pools if pool.state]
        self._devices = [device for pool in pools for device in pool.devices]
        self._usage = usage
        self._classes = classes
        self._rules = rules
        self._taken: list[Taken] = []
        self._specs: Sequence[Document] = ()

    def run(self, specs: Sequence[Document]) -> list[Taken] | None:
        """Returns the devices of claims with these specs; None = there are too few.

        Raises:
            SearchFailed: all devices are requested, and a pool is incomplete or invalid, or a
                constraint forbids one of them; or a claim requests too many.
        """
        self._specs = specs
        for claim, spec in enumerate(specs):
            for name, choice in _choices_of(spec):
                if choice["allocationMode"] == "All" and self._unusable:
                    pool = self._unusable[0]
                    state = "being updated" if pool.state == INCOMPLETE else "invalid"
                    text = f"resource pool {DRIVER}/{pool.name} is currently {state}"
                    raise SearchFailed(claim, name, f"asks for all devices, but {text}")
            least = sum(min(map(self._number_of, _items_of(it))) for it in spec["requests"])
            if least > self._most:
                text = f"number of requested devices {least} exceeds the claim limit of "
                raise TooManyRequested(claim, f"{text}{self._most}")
        try:
            return list(self._taken) if self._request(0, 0) else None
        except _BeyondLimit:
            return None

    def _number_of(self, choice: Document) -> int:
        """Returns how many devices a request asks for, those in use among them."""
        if choice["allocationMode"] != "All":
            return int(choice["count"])
        return len(self._listed(choice))

    def _listed(self, choice: Document) -> list[ModelDevice]:
        """Returns the devices of a request for all of them: they are listed before the search."""
        matching = [device for device in self._devices if self._matches(choice, device)]
        return [it for it in matching if self._consumed(choice, it, ()) is not None]

    def _request(self, claim: int, number: int) -> bool:
        """Takes devices from this request of this claim on.

        Raises:
            _BeyondLimit: the claim would have too many, by each alternative of this request.
        """
        if claim == len(self._specs):
            return True
        requests = self._specs[claim]["requests"]
        if number == len(requests):
            try:
                return self._request(claim + 1, 0)
            except _BeyondLimit:
                # With other alternatives of this claim the next one may get others.
                return False
        request = requests[number]
        if "firstAvailable" not in request:
            return self._choice(claim, number, "", request["exactly"])
        n_beyond = 0
        for item in request["firstAvailable"]:
            try:
                if self._choice(claim, number, item["name"], item):
                    return True
            except _BeyondLimit:
                n_beyond += 1
        if n_beyond == len(request["firstAvailable"]):
            raise _BeyondLimit
        self.n_others += n_beyond > 0
        return False

    def _choice(self, claim: int, number: int, alternative: str, choice: Any) -> bool:
        before = len(self._taken)
        try:
            if choice["allocationMode"] == "All":
                listed = self._listed(choice)
                return bool(listed) and self._all(claim, number, alternative, listed)
            matching = [device for device in self._devices if self._matches(choice, device)]
            self._check_limit(claim, choice["count"])
            return self._some(claim, number, alternative, matching, choice["count"])
        except _BeyondLimit:
            del self._taken[before:]
            raise

    def _check_limit(self, claim: int, count: int) -> None:
        if count + sum(it.claim == claim for it in self._taken) > self._most:
            self.n_limited += 1
            raise _BeyondLimit

    def _all(
        self, claim: int, number: int, alternative: str, devices: Sequence[ModelDevice]
    ) -> bool:
        self._check_limit(claim, len(devices))
        before = len(self._taken)
        for device in devices:
            if not self._take(claim, number, alternative, device, is_must=True):
                break
        else:
            if self._request(claim, number + 1):
                return True
        del self._taken[before:]
        return False

    def _some(
        self, claim: int, number: int, alternative: str, left: Sequence[ModelDevice], count: int
    ) -> bool:
        if not count:
            return self._request(claim, number + 1)
        for index, device in enumerate(left):
            if self._take(claim, number, alternative, device):
                if self._some(claim, number, alternative, left[index + 1 :], count - 1):
                    return True
                self._taken.pop()
        return False

    def _take(
        self,
        claim: int,
        number: int,
        alternative: str,
        device: ModelDevice,
        *,
        is_must: bool = False,
    ) -> bool:
        """Takes a device, unless it is in use, or a taint, a constraint or an amount forbids it.

        Raises:
            SearchFailed: a constraint forbids a device that must be taken.
        """
        spec = self._specs[claim]
        request = spec["requests"][number]
        choices = request.get("firstAvailable", [request.get("exactly")])
        choice = next(it for it in choices if not alternative or it["name"] == alternative)
        if not self._is_free(device) or not self._is_tolerated(choice, device):
            return False
        taken = Taken(claim, request["name"], alternative, device)
        if not all(self._allows(it, taken) for it in spec["constraints"]):
            if is_must:
                device_id = "/".join((DRIVER, *device.id))
                text = "because a claim constraint would not be satisfied"
                name = alternative or request["name"]
                raise SearchFailed(claim, name, f"cannot add device {device_id} {text}")
            return False
        consumed = self._consumed(choice, device, self._taken)
        if consumed is None:
            return False
        self._taken.append(taken._replace(consumed=consumed if device.is_shared else None))
        return True

    def _consumed(
        self, choice: Document, device: ModelDevice, others: Sequence[Taken]
    ) -> Amounts | None:
        """Returns what a request takes of the capacity of a device; None = there is too little."""
        amounts = consumed_of(device.capacity, choice.get("capacity", {}))
        if amounts is None:
            return None
        used = Counter(self._usage.capacity.get(device.id, {}))
        for other in others:
            if other.device.id == device.id and other.consumed is not None:
                used.update(other.consumed)
        fits = all(
            used[name] + amount <= int(device.capacity[name]["value"])
            for name, amount in amounts.items()
        )
        return amounts if fits else None

    def _is_free(self, device: ModelDevice) -> bool:
        """Returns whether no claim has the whole device, and its counters are sufficient."""
        is_whole = {it.device.id for it in self._taken if it.consumed is None}
        if device.id in self._usage.whole | is_whole:
            return False
        if not device.counters or (device.is_shared and self._is_shared_already(device)):
            return True
        used: Counter[CounterName] = Counter(device.counters)
        counted: set[tuple[str, str]] = set()
        for other in self._taken:
            is_first = other.device.id not in counted
            counted.add(other.device.id)
            is_counted = other.consumed is None or other.device.id not in self._usage.capacity
            if other.device.pool == device.pool and is_first and is_counted:
                used.update(other.device.counters)
        left = self._usage.counters[device.pool]
        return all(used[name] <= amount for name, amount in left.items())

    def _is_shared_already(self, device: ModelDevice) -> bool:
        """Returns whether the counters of a shared device are paid by another share."""
        return device.id in self._usage.capacity or any(
            other.device.id == device.id for other in self._taken
        )

    def _allows(self, constraint: Document, taken: Taken) -> bool:
        """Returns whether the devices so far and this one satisfy a constraint."""
        requests = constraint.get("requests")
        if not _concerns(requests, taken):
            return True
        is_equal = "matchAttribute" in constraint
        attribute = constraint["matchAttribute" if is_equal else "distinctAttribute"]
        value = _value_of(taken.device, attribute)
        others = [
            _value_of(other.device, attribute)
            for other in self._taken
            if other.claim == taken.claim and _concerns(requests, other)
        ]
        if value is None:
            return False
        return all((value == other) is is_equal for other in others)

    def _matches(self, choice: Document, device: ModelDevice) -> bool:
        conditions = (self._classes[choice["deviceClassName"]], choice.get("where", {}))
        return all(
            device.attributes.get(name) == value
            for of_one in conditions
            for name, value in of_one.items()
        )

    def _is_tolerated(self, choice: Document, device: ModelDevice) -> bool:
        """Returns whether no taint of a device keeps it from a request, also one for all."""
        tolerations = [{"key": key, "operator": "Exists"} for key in choice.get("tolerated", ())]
        tolerations += choice.get("tolerations", ())
        return all(
            taint[2] == "None" or any(_tolerates(toleration, taint) for toleration in tolerations)
            for taint in (*device.taints, *self._taints_of_rules(device))
        )

    def _taints_of_rules(self, device: ModelDevice) -> Iterator[Taint]:
        for rule in self._rules:
            if rule.pool in (None, device.pool) and rule.device in (None, device.name):
                yield rule.key, rule.value, rule.effect


def _attribute(value: Document) -> Attribute:
    [(kind, content)] = value.items()
    return content if kind == "string" else (kind, content)


def _value_of(device: ModelDevice, attribute: str) -> str | None:
    """Returns type and value of the attribute of a constraint; its driver's needs no domain."""
    domain, _, name = attribute.partition("/")
    value = device.attributes.get(attribute)
    if value is None and domain == DRIVER:
        value = device.attributes.get(name)
    # As texts: 1 is not true.
    return None if value is None else repr(value)


def _concerns(requests: Sequence[str] | None, taken: Taken) -> bool:
    """Returns whether a constraint on some requests, or alternatives, counts a device."""
    names = {taken.request, f"{taken.request}/{taken.alternative}"}
    return not requests or not names.isdisjoint(requests)


def _tolerates(toleration: Document, taint: Taint) -> bool:
    key, value, effect = taint
    is_for = toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", effect)
    is_any = toleration.get("operator", "") == "Exists"
    return is_for and (is_any or toleration.get("value", "") == value)


def _items_of(request: Document) -> Sequence[Document]:
    """Returns the alternatives of a request, or the request itself."""
    return request.get("firstAvailable") or [request["exactly"]]


def _choices_of(spec: Document) -> Iterator[tuple[str, Document]]:
    """Yields the requests of a claim, and the alternatives of those that have some, by name."""
    for request in spec["requests"]:
        if "exactly" in request:
            yield request["name"], request["exactly"]
        for item in request.get("firstAvailable", ()):
            yield item["name"], item
