"""Recomputes every column from the objects alone, and reports differences.

This slow and simple reference loops over nodes and pods with dicts and ints. Every test that
changes state runs it, and production runs it when idle; an empty list means no difference.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mooring.objects.quantity import wrap_int64
from mooring.state.audit.devices import audit_devices, audit_signatures
from mooring.state.audit.storage import audit_storage
from mooring.state.audit.terms import audit_terms
from mooring.state.cache import Cache
from mooring.state.columns.interner import Interner
from mooring.state.columns.labels import MISSING
from mooring.state.columns.visit_order import zone_key
from mooring.state.tables.counters import CounterKey, label_class_of
from mooring.state.tables.nodes import NodeTable, node_allocatable
from mooring.state.tables.pods import FIXED_RESOURCES, PlacedPod, PodInfo, PodTable


def audit(cache: Cache) -> list[str]:
    """Returns the differences between the columns and the objects as texts.

    Complexity: O(nodes x (resources + label columns) + pods).
    """
    nodes = cache.nodes
    on_row: dict[int, list[PlacedPod]] = {}
    for placed in cache.pods:
        on_row.setdefault(placed.row, []).append(placed)
    problems: list[str] = []
    for row in range(nodes.size):
        problems += _audit_row(nodes, row, on_row.get(row, []))
    problems += _audit_label_holders(nodes)
    problems += _audit_order(nodes)
    problems += _audit_images(nodes)
    problems += _audit_pods(cache, on_row)
    problems += _audit_counters(cache)
    problems += audit_storage(cache.storage, nodes, cache.pods)
    problems += audit_terms(cache)
    problems += audit_devices(cache.devices)
    problems += audit_signatures(cache.devices, nodes)
    return problems


def audit_row(cache: Cache, row: int) -> list[str]:
    """Returns the differences of one row, and of the pods on it; ``audit`` audits all.

    Complexity: O(resources + label columns + pods on the row).
    """
    placed = list(cache.pods.on_row(row))
    problems = _audit_row(cache.nodes, row, placed)
    for pod in placed:
        problems += _audit_pod(cache.pods, pod, row)
    return problems


def _audit_row(nodes: NodeTable, row: int, placed: list[PlacedPod]) -> list[str]:
    """Audits one row: allocatable, usage, ports, taints and labels."""
    node = nodes.objects[row]
    name = nodes.names[row]
    problems: list[str] = []

    def expect(what: str, actual: object, expected: object) -> None:
        if actual != expected:
            problems.append(f"node {name} (row {row}): {what} is {actual}, should be {expected}")

    expect("alive", bool(nodes.alive[row]), node is not None)
    allocatable = node_allocatable(node) if node is not None else {}
    usage: Counter[str] = Counter()
    cpu_milli = memory_bytes = 0
    ports: Counter[tuple[str, str, int]] = Counter()
    for pod in placed:
        usage.update(pod.info.usage)
        cpu_milli += pod.info.nonzero_usage[0]
        memory_bytes += pod.info.nonzero_usage[1]
        ports.update(pod.info.host_ports)
    expect("allowed_pods", int(nodes.allowed_pods[row]), allocatable.pop("pods", 0))
    for resource, resource_name in enumerate(nodes.resources.values()):
        expect(
            f"allocatable {resource_name}",
            int(nodes.allocatable[resource, row]),
            allocatable.pop(resource_name or "", 0),
        )
        expect(
            f"requested {resource_name}",
            int(nodes.requested[resource, row]),
            wrap_int64(usage.pop(resource_name or "", 0)),
        )
    expect("resources without a column", (allocatable, dict(usage)), ({}, {}))
    expect("nonzero cpu", int(nodes.nonzero_requested[0, row]), wrap_int64(cpu_milli))
    expect("nonzero memory", int(nodes.nonzero_requested[1, row]), wrap_int64(memory_bytes))
    expect("pod_count", int(nodes.pod_count[row]), len(placed))
    expect("host ports", nodes.ports.on_row(row), dict(ports))
    taints = node.spec.taints if node is not None else ()
    expect("taints", _value(nodes.taint_sets, int(nodes.taint_ids[row])), taints)
    unschedulable = node is not None and node.spec.unschedulable
    expect("unschedulable", bool(nodes.unschedulable[row]), unschedulable)
    labels = node.metadata.labels if node is not None else {}
    for key, column in nodes.labels.items():
        code = int(column.codes[row])
        value = None if code == MISSING else _value(column.values, code)
        expect(f"label {key}", value, labels.get(key))
    return problems


def _value(interner: Interner[Any], index: int) -> Any:
    """Returns the value of an id; of one that is not in use a text, which no value is equal to."""
    values = interner.values()
    value = values[index] if 0 <= index < len(values) else None
    return f"<id {index} is not in use>" if value is None else value


def _audit_label_holders(nodes: NodeTable) -> list[str]:
    """Audits the number of nodes with each label."""
    labels = (node.metadata.labels for node in nodes.objects if node is not None)
    expected = Counter(key for of_node in labels for key in of_node)
    actual = nodes.labels.ref_count()
    return [] if actual == expected else [f"labels are on {actual} nodes, should be {expected}"]


def _audit_order(nodes: NodeTable) -> list[str]:
    """Audits the visit order: each live row once, round robin over zones as it was made."""
    rows = nodes.order.rows()
    live = [row for row in range(nodes.size) if nodes.objects[row] is not None]
    if sorted(rows) != live:
        return [f"the visit order has rows {sorted(rows)}, the live rows are {live}"]
    if nodes.order.has_moved:
        return []
    next_turn: Counter[str] = Counter()
    turn_of_row = []
    for row in rows:
        zone = zone_key(nodes.node(row).metadata.labels)
        turn_of_row.append(next_turn[zone])
        next_turn[zone] += 1
    if turn_of_row != sorted(turn_of_row):
        return [f"the visit order does not take turns over zones: {turn_of_row}"]
    return []


def _audit_images(nodes: NodeTable) -> list[str]:
    """Audits the nodes of each image."""
    expected: dict[str, set[int]] = {}
    for row in range(nodes.size):
        node = nodes.objects[row]
        for image in node.status.images if node is not None else ():
            for name in image.names:
                expected.setdefault(name, set()).add(row)
    actual = {name: set(state.rows) for name, state in nodes.images.items()}
    problems = []
    for name in {**expected, **actual}:
        of_name, rows = actual.get(name, set()), expected.get(name, set())
        if of_name != rows:
            problems.append(f"image {name} is on rows {sorted(of_name)}, should be {sorted(rows)}")
    return problems


def _audit_pods(cache: Cache, on_row: dict[int, list[PlacedPod]]) -> list[str]:
    """Audits the pod table's columns and its index by row."""
    problems = []
    for row, placed in on_row.items():
        if {pod.info.uid for pod in cache.pods.on_row(row)} != {pod.info.uid for pod in placed}:
            problems.append(f"row {row}: the index by row does not list the pods of this row")
        for pod in placed:
            problems += _audit_pod(cache.pods, pod, row)
    used = int((cache.pods.node_row >= 0).sum())
    if used != len(cache.pods):
        problems.append(f"{used} pod slots are in use for {len(cache.pods)} pods")
    return problems


def _audit_pod(pods: PodTable, pod: PlacedPod, row: int) -> list[str]:
    columns, expected = _columns_of(pods, pod), _expected_of(pod, row)
    if columns == expected:
        return []
    text = f"pod {pod.info.key}: columns {columns} are not its row, priority, start"
    return [f"{text} and usage {expected}"]


def _columns_of(pods: PodTable, pod: PlacedPod) -> tuple[int, ...]:
    """Returns a pod's values in the pod table's columns."""
    columns = pods.node_row, pods.priority, pods.start_s, *pods.usage
    return tuple(int(column[pod.slot]) for column in columns)


def _expected_of(pod: PlacedPod, row: int) -> tuple[int, ...]:
    info = pod.info
    usage = (wrap_int64(info.usage.get(name, 0)) for name in FIXED_RESOURCES)
    return row, info.priority, info.start_s, *usage


def _audit_counters(cache: Cache) -> list[str]:
    """Audits every counter against a loop over the pods, and the label class of every pod."""
    problems = []
    for placed in cache.pods:
        label_class, expected = cache.counters.kind_of(placed), label_class_of(placed.info)
        if label_class != expected:
            problems.append(f"pod {placed.info.key}: counts as {label_class}, should as {expected}")
    for key, counts in cache.counters.items():
        matching = Counter(placed.row for placed in cache.pods if _is_counted(key, placed.info))
        actual = {row: int(counts[row]) for row in counts.nonzero()[0].tolist()}
        if actual != matching:
            problems.append(f"counter {key}: rows have {actual}, should have {dict(matching)}")
        if len(counts) != cache.nodes.capacity:
            problems.append(f"counter {key}: {len(counts)} rows of {cache.nodes.capacity}")
    label_classes = {label_class_of(placed.info) for placed in cache.pods}
    if cache.counters.label_class_count != len(label_classes):
        problems.append(
            f"{cache.counters.label_class_count} label classes, should be {len(label_classes)}"
        )
    if len(cache.counters) > cache.counters.limit:
        problems.append(f"{len(cache.counters)} counters, at most {cache.counters.limit}")
    return problems


def _is_counted(key: CounterKey, pod: PodInfo) -> bool:
    metadata = pod.metadata
    if key.namespaces is not None and metadata.namespace not in key.namespaces:
        return False
    if metadata.deletion_timestamp is not None and not key.with_terminating:
        return False
    return key.selector.matches(metadata.labels)
