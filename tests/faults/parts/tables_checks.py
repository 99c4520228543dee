"""The parts of which the tables of the cache are made, each beside a plain list or dict.

Each function makes drawn calls of one part, and raises AssertionError at the first difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from mooring.clock import Rng
from mooring.errors import InvariantViolation
from mooring.objects.node import ContainerImage
from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.state.columns.caches import LRUCache, NodeCache
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.state.columns.distinct import number_distinct
from mooring.state.columns.images import ImageTable
from mooring.state.columns.interner import Interner
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.labels import MISSING, LabelColumns
from mooring.state.columns.ports import PortTable
from mooring.state.columns.visit_order import VisitOrder, zone_key
from mooring.state.devices.changes import ALL_NODES, DeviceChanges
from mooring.state.tables.affinity_terms import RowCounts
from mooring.testing import make_node

CALLS: Final = 60
ROWS: Final = 6
KEYS: Final = ("a", "b", "c", "d", "e")
LABELS: Final = ("app", "tier")
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
KINDS: Final = (Change.LABELS, Change.TAINTS, Change.USAGE, Change.PORTS)
ADDRESSES: Final = ("0.0.0.0", "10.0.0.1", "10.0.0.2")
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def check_change_log(rng: Rng) -> None:
    """Compares a log with the list of all its entries."""
    log, entries = ChangeLog(rng.choice((1, 2, 3, 8))), list[tuple[int, int]]()
    for _ in range(CALLS):
        for _ in range(rng.choice((0, 1, 1, 3))):
            entries.append((rng.randrange(ROWS), int(rng.choice(KINDS))))
            log.append(*entries[-1])
        assert log.generation == len(entries)
        since = rng.randint(max(0, len(entries) - log.capacity - 2), len(entries))
        mask = int(rng.choice(KINDS) | rng.choice(KINDS))
        expected = entries[since:] if len(entries) - since <= log.capacity else None
        changes, actual = log.since(since), None
        if changes is not None:
            actual = list(zip(changes[0].tolist(), changes[1].tolist(), strict=True))
        rows = None if expected is None else [row for row, _ in expected]
        some = None if expected is None else [row for row, kinds in expected if kinds & mask]
        # One entry that is lost is read no more: a log of one row cannot be so far behind.
        assert actual == expected, f"{actual} since {since}, not {expected}"
        assert log.rows_since(since) == rows, f"rows {log.rows_since(since)}, not {rows}"
        assert log.rows_with(mask, since) == some, f"{log.rows_with(mask, since)}, not {some}"


def check_device_changes(rng: Rng) -> None:
    """Compares the log of nodes with the list of all its entries; its limit is that of the run."""
    changes, entries = DeviceChanges(), list[str]()
    most = changes._names.maxlen
    assert most is not None
    for _ in range(CALLS):
        for _ in range(rng.choice((0, 1, 1, 3))):
            entries.append(rng.choice((*KEYS, *KEYS, ALL_NODES)))
            changes.add(entries[-1])
        since = rng.randint(max(0, len(entries) - most - 2), len(entries))
        names = set(entries[since:])
        is_lost = len(entries) - since > most or ALL_NODES in names
        actual, expected = changes.since(since), None if is_lost else names
        assert actual == expected, f"{actual} since {since}, not {expected}"


def check_lru_cache(rng: Rng) -> None:
    """Compares a cache with a list of its entries, the least recently used first."""
    cache, entries = LRUCache[str, int](rng.choice((1, 2, 3))), list[tuple[str, int]]()
    for number in range(CALLS):
        key, call = rng.choice(KEYS), rng.choice(("recent", "put", "limit", "evict"))
        before = dict(entries)
        if call == "recent":
            assert cache.recent(key) == before.get(key), f"recent {key}"
            if key in before:
                entries = [it for it in entries if it[0] != key] + [(key, before[key])]
        elif call == "put":
            entries = [it for it in entries if it[0] != key] + [(key, number)]
            assert cache.put(key, number) == number
            entries = entries[-cache.limit :]
        elif call == "limit":
            cache.limit = rng.choice((1, 2, 3))
        else:
            space = rng.randrange(2)
            left = max(0, cache.limit - space)
            removed = entries[: max(0, len(entries) - left)]
            entries = entries[len(removed) :]
            assert cache.evict(space) == removed, f"evict {space}"
        assert list(cache.items()) == entries, f"after {call} {key}: {cache}, not {entries}"


def check_node_cache(rng: Rng) -> None:
    """Compares when a cache of values of all nodes is emptied."""
    reads = rng.choice(KINDS) | rng.choice(KINDS)
    cache: NodeCache[str, int] = NodeCache(3, reads)
    log, size = ChangeLog(4), 3
    changed: list[int] | None = None  # None = the cache has not seen this table
    for number in range(CALLS):
        for _ in range(rng.choice((0, 0, 1, 2, 5))):
            kinds = int(rng.choice(KINDS))
            log.append(rng.randrange(size), kinds)
            changed = None if changed is None else [*changed, kinds]
        if rng.random() < 0.1:
            size, changed = size + 1, None
        if rng.random() < 0.05:
            log, changed = ChangeLog(4), None
        is_stale = changed is None or len(changed) > 4 or any(it & int(reads) for it in changed)
        before, version = dict(cache), cache.version
        cache.invalidate_if_stale(log, size)
        expected = {} if is_stale else before
        assert dict(cache) == expected, f"{changed} with {reads}: {dict(cache)}, not {expected}"
        assert cache.version == version + is_stale, f"version {cache.version} after {version}"
        changed = []
        cache.put(rng.choice(KEYS), number)


class InternerModel:
    """The values by id, of which some are in use."""

    def __init__(self) -> None:
        self.values: list[str | None] = []
        self.counts: Counter[str] = Counter()
        self._free: list[int] = []

    def acquire(self, value: str, count: int) -> int:
        """Returns the id of a value: its own, the one that was freed last, or a new one."""
        if not self.counts[value]:
            index = self._free.pop() if self._free else len(self.values)
            self.values[index : index + 1] = [value]
        self.counts[value] += count
        return self.values.index(value)

    def release(self, index: int) -> bool:
        """Removes a reference; returns whether there was one."""
        value = self.values[index]
        if value is None:
            return False
        self.counts[value] -= 1
        if not self.counts[value]:
            self.values[index] = None
            self._free.append(index)
        return True


def check_interner(rng: Rng) -> None:
    """Compares ids with a list of values, of which some are in use."""
    interner, model = Interner[str](), InternerModel()
    for _ in range(CALLS):
        value, version = rng.choice(KEYS), interner.version
        if rng.random() < 0.55:
            is_new, count = not model.counts[value], rng.choice((1, 1, 2))
            assert interner.acquire(value, count) == model.acquire(value, count), value
            assert interner.version == version + is_new
        elif model.values:
            index = rng.randrange(len(model.values))
            is_released = _is_released(interner, index)
            assert is_released == model.release(index), f"release of {index}: {is_released}"
        _compare_interner(interner, model.values, model.counts)


def _is_released(interner: Interner[str], index: int) -> bool:
    try:
        interner.release(index)
    except InvariantViolation:
        return False
    return True


def _compare_interner(
    interner: Interner[str], values: list[str | None], counts: Mapping[str, int]
) -> None:
    assert interner.values() == values, f"{interner.values()}, not {values}"
    assert len(interner) == len(values)
    assert interner.ids == {it: at for at, it in enumerate(values) if it is not None}
    for value in KEYS:
        place = values.index(value) if value in values else -1
        assert (interner.find(value), interner.ref_count(value)) == (place, counts[value]), value
    for at, expected in enumerate(values):
        assert _value_of(interner, at) == expected, f"value {at}"


def _value_of(interner: Interner[str], index: int) -> str | None:
    try:
        value: str | None = interner.value(index)
    except InvariantViolation:
        return None
    assert value is not None, f"id {index} is in use without a value"
    return value


def check_distinct(rng: Rng) -> None:
    """Compares the numbers of distinct values."""
    for _ in range(5):
        values = [rng.randrange(rng.choice((1, 3, 20))) for _ in range(rng.randint(1, 8))]
        distinct, index = number_distinct(np.array(values))
        expected = sorted(set(values))
        assert distinct.tolist() == expected
        assert index.tolist() == [expected.index(value) for value in values]


def _labels(rng: Rng, keys: tuple[str, ...] = LABELS) -> dict[str, str]:
    return {key: rng.choice(("x", "y", "")) for key in keys if rng.random() < 0.6}


def _selector(rng: Rng) -> Selector:
    requirements = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        operator = rng.choice(OPERATORS)
        values = rng.choice(("x", "xy", "z", "xz")) if operator in ("In", "NotIn") else ""
        key = rng.choice((*LABELS, "other"))
        requirements.append(requirement(key, operator, tuple(values)))
    return rng.choice((selector_of(requirements),) * 5 + (Selector(selects_nothing=True),))


def check_label_classes(rng: Rng) -> None:
    """Compares selectors over many sets of labels with the selectors one by one."""
    classes = [_labels(rng) for _ in range(rng.randint(1, 8))]
    selectors = [_selector(rng) for _ in range(6)]
    columns = LabelClassColumns([tuple(labels.items()) for labels in classes], selectors)
    for selector in selectors:
        actual = columns.matching(selector).tolist()
        expected = [selector.matches(labels) for labels in classes]
        assert actual == expected, f"{selector} of {classes}: {actual}, not {expected}"


def check_label_columns(rng: Rng) -> None:
    """Compares columns of labels with the nodes."""
    capacity = 2
    columns, nodes = LabelColumns(capacity), list[Any]([None] * capacity)
    for _ in range(CALLS):
        if rng.random() < 0.1 and capacity < ROWS:
            capacity += 2
            columns.grow(capacity)
            nodes += [None] * 2
        row = rng.randrange(capacity)
        before = nodes[row].metadata.labels if nodes[row] is not None else {}
        nodes[row] = make_node("n", labels=_labels(rng, KEYS)) if rng.random() < 0.7 else None
        after = nodes[row].metadata.labels if nodes[row] is not None else {}
        columns.put(row, before, after)
        key = rng.choice((*KEYS, "other"))
        expected = [node.metadata.labels.get(key) if node is not None else None for node in nodes]
        assert columns.has(key) == any(value is not None for value in expected), f"has {key}"
        column = columns.column(key, nodes)
        values = column.values.values()
        actual = [None if it == MISSING else values[it] for it in column.codes.tolist()]
        assert actual == expected, f"{key} is {actual}, not {expected}"
        counts = Counter(it for node in nodes if node is not None for it in node.metadata.labels)
        assert columns.ref_count() == counts, f"{columns.ref_count()}, not {counts}"


def check_ports(rng: Rng) -> None:
    """Compares the host ports in use with a list of them."""
    table, used = PortTable(), list[tuple[int, tuple[str, str, int]]]()
    for _ in range(CALLS):
        row, ports = rng.randrange(3), [_port(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
        if used and rng.random() < 0.4:
            row, port = used.pop(rng.randrange(len(used)))
            table.remove(row, [port])
        else:
            table.add(row, ports)
            used += [(row, port) for port in ports]
        requested = [_port(rng) for _ in range(rng.choice((1, 1, 2)))]
        expected: dict[int, Counter[Any]] = {}
        for at, port in used:
            if any(_conflict(port, other) for other in requested):
                expected.setdefault(at, Counter())[port] += 1
        actual = table.ports_in_conflict(requested)
        assert actual == expected, f"{requested} conflict with {actual}, not {expected}"
        sums = {at: sum(ports.values()) for at, ports in expected.items()}
        assert table.rows_in_conflict(requested) == sums
        on_row = Counter(port for at, port in used if at == row)
        assert table.on_row(row) == on_row, f"{table.on_row(row)} on {row}, not {on_row}"


def _port(rng: Rng) -> tuple[str, str, int]:
    return rng.choice(ADDRESSES), rng.choice(("TCP", "TCP", "UDP")), rng.choice((80, 80, 443))


def _conflict(port: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    is_same = port[0] == other[0] or ADDRESSES[0] in (port[0], other[0])
    return port[1:] == other[1:] and is_same


class ImagesModel:
    """Name of an image -> its size, as the first node has it, and the nodes that have it."""

    def __init__(self) -> None:
        self.images: dict[str, tuple[int, set[int]]] = {}

    def on(self, row: int) -> dict[str, int]:
        """Returns the images of a node with their sizes."""
        return {name: size for name, (size, rows) in self.images.items() if row in rows}

    def put(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Sets the images of a node."""
        for _, rows in self.images.values():
            rows.discard(row)
        self.images = {name: it for name, it in self.images.items() if it[1]}
        for name, size in [(name, it.size_bytes) for it in images for name in it.names]:
            self.images.setdefault(name, (size, set()))[1].add(row)


def check_images(rng: Rng) -> None:
    """Compares images with the nodes that have them; the first one decides about the size."""
    table, model = ImageTable(), ImagesModel()
    for _ in range(CALLS):
        row = rng.randrange(3)
        images = [
            ContainerImage(names=tuple(rng.sample(KEYS, rng.choice((1, 1, 2)))), size_bytes=size)
            for size in rng.sample((1, 2, 3), rng.choice((0, 1, 2)))
        ]
        before = model.on(row)
        model.put(row, images)
        after = model.on(row)
        assert table.put(row, images) == (before != after), f"row {row}: {before}, {after}"
        assert set(table.names(row)) == set(after)
        for name in KEYS:
            state = table.get(name)
            actual = None if state is None else (state.size_bytes, set(state.rows))
            expected = model.images.get(name)
            assert actual == expected, f"image {name}: {actual}, not {expected}"


def check_visit_order(rng: Rng) -> None:
    """Compares the order of nodes with zones that are walked in turns."""
    order, zones = VisitOrder(), dict[str, list[int]]()
    made: list[int] | None = None
    has_moved = False
    for _ in range(CALLS):
        row, zone = rng.randrange(ROWS), rng.choice("abc")
        before = next((name for name, rows in zones.items() if row in rows), None)
        is_removed = before is not None and rng.random() < 0.3
        if before is not None and (is_removed or before != zone):
            zones[before].remove(row)
            zones = {name: rows for name, rows in zones.items() if rows}
        if is_removed:
            order.remove(row)
        else:
            order.put(row, zone)
            if before != zone:
                zones.setdefault(zone, []).append(row)
        if is_removed or before is None:
            made, has_moved = None, False
        elif before != zone:
            has_moved = made is not None
        assert order.has_moved == has_moved, f"has_moved is {order.has_moved}"
        if rng.random() < 0.6:
            made = _in_turns(zones) if made is None else made
            _compare_order(order, made)


def _in_turns(zones: Mapping[str, list[int]]) -> list[int]:
    left = [list(rows) for rows in zones.values()]
    rows = []
    while any(left):
        rows += [of_zone.pop(0) for of_zone in left if of_zone]
    return rows


def _compare_order(order: VisitOrder, rows: list[int]) -> None:
    assert order.rows() == rows, f"the order is {order.rows()}, not {rows}"
    assert order.array().tolist() == rows
    last = max(rows, default=-1)
    positions = [rows.index(row) if row in rows else -1 for row in range(last + 1)]
    assert order.positions().tolist() == positions, f"positions of {rows}"
    assert order.is_by_row == (rows == sorted(rows)), f"is_by_row of {rows}"


def check_zone_keys(rng: Rng) -> None:
    """Compares that two nodes have one zone if region and zone are equal; beta labels win."""
    keys: dict[str, tuple[str, str]] = {}
    for _ in range(10):
        labels = {name: rng.choice("ab") for name in ZONE_LABELS if rng.random() < 0.4}
        zone, region, beta_zone, beta_region = map(labels.get, ZONE_LABELS)
        place = beta_region or region or "", beta_zone or zone or ""
        key = zone_key(labels)
        assert keys.setdefault(key, place) == place, f"{key!r} is {keys[key]} and {place}"
        assert bool(key) == any(place)
    assert len(set(keys.values())) == len(keys)


class _Halves:
    """Two groups of rows; the first row is in none."""

    def add_up(self, counts: Any) -> Any:
        """Returns the sum of each group."""
        numbers = counts.tolist()
        return np.array([sum(numbers[1::2]), sum(numbers[2::2])], dtype=np.int64)

    def add(self, sums: Any, row: int, by: int) -> None:
        """Adds to the sum of the group of a row."""
        if row:
            sums[(row - 1) % 2] += by


def check_row_counts(rng: Rng) -> None:
    """Compares a count for each row, which is a dict or a column, with a plain counter."""
    capacity = ROWS
    counts, expected = RowCounts(capacity), Counter[int]()
    groups = [_Halves() for _ in range(6)]
    for _ in range(CALLS):
        if rng.random() < 0.05:
            capacity += rng.choice((1, 4))
            counts.grow(capacity)
        row, by = rng.randrange(capacity), rng.choice((1, 1, 2, -1))
        if rng.random() < 0.4 and expected:
            row = rng.choice(sorted(expected))
            by = -expected[row] if rng.random() < 0.7 else by
        counts.change(row, by)
        expected[row] += by
        expected = Counter({at: count for at, count in expected.items() if count})
        column = [expected[at] for at in range(capacity)]
        assert counts.column().tolist() == column, f"{counts.column()}, not {column}"
        assert (len(counts), dict(counts.items())) == (len(expected), dict(expected))
        factor = rng.choice((1, 2, -1))
        sums = np.arange(capacity, dtype=np.int64)
        counts.add_to(sums, factor)
        assert sums.tolist() == [at + factor * count for at, count in enumerate(column)]
        chosen = rng.choice(groups)
        actual = counts.sums_over(chosen).tolist()
        assert actual == [sum(column[1::2]), sum(column[2::2])], f"sums {actual} of {column}"


CHECKS: Final[tuple[Callable[[Rng], None], ...]] = (
    check_change_log,
    check_device_changes,
    check_lru_cache,
    check_node_cache,
    check_interner,
    check_distinct,
    check_label_classes,
    check_label_columns,
    check_ports,
    check_images,
    check_visit_order,
    check_zone_keys,
    check_row_counts,
)
