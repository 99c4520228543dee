"""Attributes of any type and domain, tolerations with any field, constraints on some requests."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from tests.faults.parts.node_devices_model import DRIVER

#: Values of the attribute ``slot``: texts that are equal in several types, and 1, which is true.
_SLOTS: Final[tuple[dict[str, Any], ...]] = (
    {"string": "1"},
    {"string": "1.0.0"},
    {"version": "1.0.0"},
    {"version": "1.0.1"},
    {"int": 1},
    {"int": 2},
    {"bool": True},
    {"bool": False},
)
_OTHER: Final = "other.test"
VALUES: Final = ("", "a", "b")


def vary_device(device: dict[str, Any], rng: Random) -> None:
    """Changes the attribute that constraints read: its type, its name, and namesakes of it."""
    attributes = device["attributes"]
    if "slot" in attributes and rng.random() < 0.6:
        attributes["slot"] = rng.choice(_SLOTS)
    if "slot" in attributes and rng.random() < 0.2:
        attributes[f"{DRIVER}/slot"] = attributes.pop("slot")
        if rng.random() < 0.3:
            # The name with the domain decides.
            attributes["slot"] = rng.choice(_SLOTS)
    if rng.random() < 0.3:
        attributes[f"{_OTHER}/slot"] = rng.choice(_SLOTS[:3])


def vary_counters(devices: Iterable[dict[str, Any]], rng: Random) -> None:
    """Lets few devices consume counters that their pool does not have."""
    for device in devices:
        if "consumesCounters" in device and rng.random() < 0.05:
            item = rng.choice(device["consumesCounters"])
            if rng.random() < 0.5:
                item["counterSet"] = "unknown"
            else:
                item["counters"] = {**item["counters"], "unknown": {"value": "0"}}


def vary_spec(spec: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Returns a spec with other tolerations, and constraints on other attributes and requests."""
    names: list[str] = []
    for request in spec["requests"]:
        names.append(request["name"])
        for item in request.get("firstAvailable", (request.get("exactly"),)):
            if "exactly" not in request:
                names.append(f"{request['name']}/{item['name']}")
            count = rng.choice((0, 0, 1, 1, 2))
            item["tolerations"] = [_toleration(rng) for _ in range(count)]
    for constraint in spec["constraints"]:
        attribute = next(name for name in constraint if name.endswith("Attribute"))
        if constraint[attribute].endswith("/slot") and rng.random() < 0.3:
            constraint[attribute] = f"{_OTHER}/slot"
        if rng.random() < 0.4:
            constraint["requests"] = rng.sample(names, rng.randint(1, len(names)))
    return spec


def _toleration(rng: Random) -> dict[str, str]:
    toleration = {
        "key": rng.choice(("old", "hot", "hot", "")),
        "operator": rng.choice(("Exists", "Equal", "Equal", "")),
        "effect": rng.choice(("", "NoSchedule", "NoExecute")),
    }
    if toleration["operator"] != "Exists":
        toleration["value"] = rng.choice(VALUES)
    return {name: text for name, text in toleration.items() if text}
