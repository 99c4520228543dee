"""Use of devices, for the model: whole devices, shares, capacity and counters.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating
(allocator_incubating.go, consumable_capacity.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Document = Mapping[str, Any]
DeviceId = tuple[str, str]
#: Counter set and counter.
CounterName = tuple[str, str]
#: Capacity -> amount.
Amounts = Mapping[str, int]


class Usage(NamedTuple):
    """Devices, capacity and counters that allocated claims have.

    Attributes:
        whole: The devices that one claim has for itself.
        shared: The devices that claims share; it may be that they take no capacity.
        capacity: Device -> what the shares take; only of devices of which some take capacity.
        counters: Pool -> what is left of each counter.
    """

    whole: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    capacity: Mapping[DeviceId, Amounts] = {}
    counters: Mapping[str, Mapping[CounterName, int]] = {}


def usage_of(taken: Iterable[tuple[DeviceId, Amounts | None]], slices: Iterable[Document]) -> Usage:
    """Returns what is in use.

    Args:
        taken: The devices of all claims, and what they consume of them; None = a whole device.
        slices: The slices, whose pools are complete if they have counters.
    """
    whole: set[DeviceId] = set()
    shared: set[DeviceId] = set()
    capacity: dict[DeviceId, Counter[str]] = {}
    for device, consumed in taken:
        if consumed is None:
            whole.add(device)
            continue
        shared.add(device)
        if consumed:
            capacity.setdefault(device, Counter()).update(consumed)
    counters: dict[str, Counter[CounterName]] = {}
    specs = [item["spec"] for item in slices]
    for spec in specs:
        for item in spec.get("sharedCounters", ()):
            left = counters.setdefault(spec["pool"]["name"], Counter())
            left.update(_amounts_of([{**item, "counterSet": item["name"]}]))
    for spec in specs:
        pool = spec["pool"]["name"]
        for device_ in spec["devices"]:
            if (pool, device_["name"]) in whole | shared:
                counters.setdefault(pool, Counter()).subtract(counters_of(device_))
    return Usage(frozenset(whole), frozenset(shared), capacity, counters)


def counters_of(device: Document) -> Counter[CounterName]:
    """Returns what a device consumes of the counters of its pool."""
    return _amounts_of(device.get("consumesCounters", ()))


def _amounts_of(items: Iterable[Document]) -> Counter[CounterName]:
    return Counter(
        {
            (item["counterSet"], name): int(counter["value"])
            for item in items
            for name, counter in item["counters"].items()
        }
    )


def consumed_of(capacity: Mapping[str, Document], requests: Amounts) -> dict[str, int] | None:
    """Returns what a request takes of each capacity of a device; None = it must not be given.

    Args:
        capacity: The capacities of the device.
        requests: What is requested; of what is not requested the default is taken, or all.
    """
    if not requests.keys() <= capacity.keys():
        return None
    amounts: dict[str, int] = {}
    for name, item in capacity.items():
        policy = item.get("requestPolicy", {})
        if name not in requests:
            amounts[name] = int(policy.get("default", item["value"]))
        else:
            amount = _rounded(requests[name], policy)
            if amount is None:
                return None
            amounts[name] = amount
    return amounts


def _rounded(amount: int, policy: Document) -> int | None:
    if "validValues" in policy:
        values = [int(value) for value in policy["validValues"]]
        return next((value for value in values if value >= amount), None)
    if "validRange" in policy:
        valid = policy["validRange"]
        least, step = int(valid["min"]), int(valid.get("step", 1))
        amount = least + -(-max(amount - least, 0) // step) * step
        return amount if amount <= int(valid.get("max", amount)) else None
    return amount
