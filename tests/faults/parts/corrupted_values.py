"""Damages of single values of a cache, each with the audit that has to report it.

Other than ``corrupted_run``, which takes an element from a table, these put another value in its
place, or add one: an amount, a sum over groups, the members of a selection, the order of a list,
pools that a node does not have, a slice without the taints of its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from mooring.clock import Rng
from mooring.dra import DeviceID
from mooring.objects.selectors import Selector
from mooring.state import audit
from mooring.state.audit.devices import audit_devices, audit_signatures
from mooring.state.audit.storage import audit_storage
from mooring.state.audit.terms import audit_terms
from mooring.state.cache import Cache
from mooring.state.columns.visit_order import zone_key
from mooring.state.tables import counters as counters_module
from mooring.state.tables.counters import CounterKey

Undo = Callable[[], None]
EVERYTHING: Final = Selector(())
#: So many pods get the terms of others.
DAMAGED_PODS: Final = 3


class Damage(NamedTuple):
    """A damage that is done.

    Attributes:
        what: Which value is wrong.
        problems: Returns what the audit reports.
        undo: Repairs it.
    """

    what: str
    problems: Callable[[], list[str]]
    undo: Undo


class EvenRows:
    """A grouping of rows: the even ones, and the odd ones."""

    def add_up(self, counts: Any) -> Any:
        """Returns the sum of each group."""
        return np.array([counts[start::2].sum() for start in (0, 1)], dtype=np.int64)

    def add(self, sums: Any, row: int, by: int) -> None:
        """Adds to the sum of the group of a row."""
        sums[row % 2] += by


def value_damages(cache: Cache, rng: Rng) -> Iterator[Damage]:
    """Does one damage after another; each must be repaired before the next one."""

    def everything() -> list[str]:
        return audit(cache)

    yield from _order(cache, rng, everything)
    yield from _counters(cache, rng, everything)
    for damage in (*_terms(cache, rng), *_namespaces(cache, rng)):
        yield damage()
    images: Any = cache.nodes.images._states
    for state in images.values():
        yield _changed_item(state.rows, -1, "image", everything)
    for name, state in list(images.items()):
        yield _changed_item(images, f"{name} of no node", state, everything)
    yield from _volumes(cache, rng)
    yield from _devices(cache, rng)


def _changed_item(table: Any, place: Any, value: Any, problems: Callable[[], list[str]]) -> Damage:
    """Puts a value in a table."""
    before = table.get(place) if isinstance(table, dict) else table[place]
    table[place] = value

    def undo() -> None:
        if before is None:
            del table[place]
        else:
            table[place] = before

    return Damage(f"{place}: {before}", problems, undo)


def _replaced(owner: Any, name: str, value: Any, problems: Callable[[], list[str]]) -> Damage:
    """Sets an attribute."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    return Damage(name, problems, lambda: setattr(owner, name, before))


# -- nodes and counters ---------------------------------------------------------------------------


def _order(cache: Cache, rng: Rng, problems: Callable[[], list[str]]) -> Iterator[Damage]:
    """Lets the visit order forget a row, have one twice, or not take turns over zones."""
    order: Any = cache.nodes.order
    rows = list(order.rows())
    if not rows:
        return
    yield _replaced(order, "_rows", rows[1:], problems)
    yield _replaced(order, "_rows", [*rows, rng.choice(rows)], problems)
    zones = [zone_key(cache.nodes.node(row).metadata.labels) for row in rows]
    if not order.has_moved and len(set(zones)) > 1 and len(set(zones)) < len(rows):
        by_zone = sorted(rows, key=lambda row: zones[rows.index(row)])
        crowded = max(zones, key=zones.count)
        first = [row for row in by_zone if zones[rows.index(row)] == crowded]
        rest = [row for row in by_zone if row not in first]
        yield _replaced(order, "_rows", [*first, *rest], problems)


def _counters(cache: Cache, rng: Rng, problems: Callable[[], list[str]]) -> Iterator[Damage]:
    """Changes counts, their sums over groups, the length of a column, and the number of classes."""
    counters: Any = cache.counters
    counter = counters.counter(CounterKey(None, EVERYTHING, with_terminating=True))
    groups = EvenRows()
    sums = counter.sums_over(groups)
    place = rng.randrange(2)
    yield _changed_item(sums, place, int(sums[place]) + 1, lambda: audit_terms(cache))
    del counter._sums[groups]
    yield _replaced(counter, "counts", counter.counts[: cache.nodes.size], problems)
    yield _changed_item(counters._ids_by_namespace, "unknown", {-1: None}, problems)
    # The limit is that of the memory for columns, but no lower than this one.
    memory = _replaced(counters_module, "MEMORY_LIMIT_BYTES", 0, problems)
    yield _replaced(counters_module, "COUNTERS_MIN", len(counters) - 1, problems)
    memory.undo()


def _terms(cache: Cache, rng: Rng) -> Iterator[Callable[[], Damage]]:
    """Yields damages of the rows and sums of terms."""

    def problems() -> list[str]:
        return audit_terms(cache)

    sets: Any = cache.terms._set_of_slot
    for placed in list(cache.pods)[:DAMAGED_PODS]:
        others = [it for it in sets if it is not sets[placed.slot]]
        if others:
            yield partial(_replaced_term_set, sets, placed.slot, rng.choice(others), problems)
    for _, index in cache.terms.indexes():
        shared = list(index)
        if not shared:
            continue
        rows: Any = rng.choice(shared).rows
        table, row = rows._few, rng.randrange(max(1, cache.nodes.size))
        if rows._column is None:
            yield partial(_changed_item, table, row, table.get(row, 0) + 1, problems)
            yield partial(_changed_item, table, -1, 1, problems)
        yield partial(_wrong_length, rows, rng.choice((1, -1)), problems)
        yield partial(_damaged_sum, rows, rng.randrange(2), problems)
        # Terms that differ in their weights alone have sums of their own.
        for number, other in enumerate(shared):
            yield partial(_damaged_sum, other.rows, number % 2, problems)


def _replaced_term_set(
    sets: Any, slot: int, other: Any, problems: Callable[[], list[str]]
) -> Damage:
    """Gives a pod the terms of another one."""
    before, sets[slot] = sets[slot], other
    return Damage(f"terms in slot {slot}", problems, lambda: sets.__setitem__(slot, before))


def _wrong_length(rows: Any, by: int, problems: Callable[[], list[str]]) -> Damage:
    """Miscounts the rows of a term, which are in a column then."""
    before = rows._few, rows._column, rows._used
    if rows._column is None:
        rows._few = dict(rows._few)
        rows._to_column()
    rows._used += by

    def undo() -> None:
        rows._few, rows._column, rows._used = before

    return Damage("number of rows of a term", problems, undo)


def _damaged_sum(rows: Any, place: int, problems: Callable[[], list[str]]) -> Damage:
    groups = EvenRows()
    sums = rows.sums_over(groups)
    damage = _changed_item(sums, place, int(sums[place]) - 1, problems)

    def undo() -> None:
        damage.undo()
        del rows._sums[groups]

    return damage._replace(undo=undo)


def _namespaces(cache: Cache, rng: Rng) -> Iterator[Callable[[], Damage]]:
    """Yields damages of a selection of namespaces."""
    selected: Any = cache.namespaces._selected
    names = cache.namespaces.selected_by(EVERYTHING)

    def problems() -> list[str]:
        return audit_terms(cache)

    more = names | {"unknown"}
    yield lambda: _changed_item(selected, EVERYTHING, more, problems)
    if names:
        fewer = names - {rng.choice(sorted(names))}
        yield lambda: _changed_item(selected, EVERYTHING, fewer, problems)


# -- volumes --------------------------------------------------------------------------------------


def _volumes(cache: Cache, rng: Rng) -> Iterator[Damage]:
    """Changes how many volumes remain, and who uses a volume or a disk."""

    def problems() -> list[str]:
        return audit_storage(cache.storage, cache.nodes, cache.pods)

    use: Any = cache.storage.use
    attached_volumes = use.attached_volumes
    for driver in {
        driver: None for counts in attached_volumes._counts.values() for driver in counts
    }:
        attached_volumes.remaining_by_row(driver)  # makes the column
    for _, column in attached_volumes.columns():
        rows = cache.nodes.order.rows()
        if rows and len(column) == cache.nodes.capacity:
            row, is_writeable = rng.choice(rows), column.flags.writeable
            column.flags.writeable = True
            for other in (int(column[row]) + 1, int(column[row]) - 1):
                yield _changed_item(column, row, other, problems)
            column.flags.writeable = is_writeable
    for table in (use._users, use._dependents, use._attachments_of):
        if table:
            yield _changed_item(table[rng.choice(list(table))], "unknown", True, problems)


# -- devices --------------------------------------------------------------------------------------


def _devices(cache: Cache, rng: Rng) -> Iterator[Damage]:
    """Changes the devices in use, the pools of nodes, their signatures, and slices."""
    devices: Any = cache.devices

    def problems() -> list[str]:
        return audit_devices(devices)

    unknown, in_use = DeviceID("unknown", "unknown", "unknown"), devices.in_use
    for name in ("_all_dedicated", "_all_shared"):
        devices_in_use: set[DeviceID] = getattr(in_use, name)
        devices_in_use.add(unknown)
        yield Damage(name, problems, partial(devices_in_use.discard, unknown))
    for amounts in in_use._all_consumed.values():
        name = rng.choice(sorted(amounts) or ["unknown"])
        yield _changed_item(amounts, name, amounts.get(name, 0) + rng.choice((1, -1)), problems)
    yield _changed_item(in_use._all_consumed, unknown, {"memory": 1}, problems)
    yield _changed_item(devices.claims._of_pod, "unknown", {"unknown": None}, problems)
    pools_of = devices.slices._pools
    for node, (labels, pools) in list(pools_of.items()):
        others = [it for _, it in pools_of.values() if _devices_of(it) != _devices_of(pools)]
        if others:
            yield _changed_item(pools_of, node, (labels, rng.choice(others)), problems)
    published = devices.taint_rules._published
    tainted = {name: devices.taint_rules._tainted[name] for name in published}
    for name in published:
        if tainted[name] != published[name]:
            devices.slices.put(published[name])
            yield Damage(f"slice {name}", problems, partial(devices.slices.put, tainted[name]))
    yield from _signatures(cache, rng)


def _devices_of(pools: Any) -> list[Any]:
    return [(pool.name, [device.id for device in pool.devices]) for pool in pools.pools]


def _signatures(cache: Cache, rng: Rng) -> Iterator[Damage]:
    """Gives a node the signature of another one, one that shares nothing, or one of its own."""
    signatures = cache.devices.signatures
    if not len(signatures.column):
        return

    def problems() -> list[str]:
        return audit_signatures(cache.devices, cache.nodes)

    assert not problems()
    rows = cache.nodes.order.rows()
    numbers = [int(signatures.column[row]) for row in rows]
    row = rng.choice(rows)
    other = [it for it in numbers if it != signatures.column[row]]
    if other:
        yield _changed_item(signatures.column, row, rng.choice(other), problems)
    if signatures.column[row] != 0:
        yield _changed_item(signatures.column, row, 0, problems)
    if numbers.count(int(signatures.column[row])) > 1:
        yield _changed_item(signatures.column, row, 1 << 20, problems)
