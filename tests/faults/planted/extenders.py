"""Bugs in the calls of extenders."""

from __future__ import annotations

from typing import Final

from mooring.extenders import tls, wire
from mooring.extenders.full_objects import FullObjectCache
from mooring.extenders.http_extender import HTTPExtender
from mooring.extenders.metrics import ExtenderMetrics
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "null_message_stays",
        "A null message of an extender stays null",
        wire,
        "_messages",
        'message or ""',
        "message",
        runs="calls",
        seed=0,
    ),
    PlantedBug(
        "names_cached_by_length",
        "The encoded names of an attempt are used again for a list of the same length",
        HTTPExtender,
        "_named",
        "self._names.names is not names",
        "len(self._names.names) != len(names)",
        runs="filter_extender",
        seed=0,
    ),
    PlantedBug(
        "failed_calls_take_no_time",
        "Calls of an extender that fail are not measured",
        ExtenderMetrics,
        "call",
        "raise\n    finally:",
        "raise\n    else:",
        runs="calls",
        seed=0,
    ),
    PlantedBug(
        "nodes_are_read_anew",
        "A node of the cache is read once more for an extender",
        FullObjectCache,
        "nodes",
        'full_object = cached.get(name) or await self._fetched(NODES, name, "")',
        'full_object = await self._fetched(NODES, name, "") or cached.get(name)',
        runs="full_objects",
        seed=0,
    ),
    PlantedBug(
        "reads_become_rare",
        "Reads of a pod whose binding by an extender may still arrive become rarer without limit",
        HTTPExtender,
        "_is_bound_in_the_end",
        "min(2 * wait_s, READ_AGAIN_S_MAX)",
        "2 * wait_s",
        runs="bind_extender",
        seed=1,
    ),
    PlantedBug(
        "mapped_addresses_pass",
        "An extender may be at the address of the link if it is written as one of IPv6",
        tls,
        "is_forbidden",
        "parsed = mapped",
        "pass",
        runs="calls",
        seed=0,
    ),
]
