"""Measures of a run counted anew: from its tables, and from the writes that the run made.

Nothing of ``mooring.scenario.measures``, ``usage`` or ``curves`` is used. Every interval between
two instants is counted from the start, over all pods and nodes, as ``docs/reference/measures.md``
says.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from mooring.client import ObjectChange
from mooring.objects.meta import controller_of
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.scenario.results import Result
from tests.helpers.scenario_files import Spec, rows

Amounts = dict[str, float]
_COLUMN_OF = {"cpu": "cpu_milli", "memory": "memory_bytes"}
_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class WriteLog:
    """Follows the writes of a run: pods, when they were deleted, and when nodes came back."""

    def __init__(self) -> None:
        self.now_s = 0.0
        #: Of each pod in order of creation: key, Job or "", requests.
        self.pods: list[tuple[str, str, Amounts]] = []
        self.asked_s: dict[int, float] = {}
        self.recoveries: list[tuple[float, str]] = []
        self._number: dict[str, int] = {}
        self._ready: dict[str, str] = {}

    def move_to(self, now_s: float) -> None:
        """Takes the time of the writes that follow."""
        self.now_s = now_s

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Takes a write."""
        if kind == "Pod":
            self._on_pod(change.old, change.new)
        elif kind == "Node" and change.new is not None:
            self._on_node(change.new)

    def add(self, pod: Pod) -> None:
        """Takes a pod of the start, or a new one."""
        owner = controller_of(pod.metadata)
        job = f"{pod.metadata.namespace}/{owner.name}" if owner and owner.kind == "Job" else ""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._number[name] = len(self.pods)
        self.pods.append((name, job, requests_of(pod)))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is None:
            assert new is not None
            self.add(new)
        live = new if new is not None else old
        assert live is not None
        number = self._number[f"{live.metadata.namespace}/{live.metadata.name}"]
        if new is None or new.metadata.deletion_timestamp is not None:
            self.asked_s.setdefault(number, self.now_s)

    def _on_node(self, node: Node) -> None:
        for condition in node.status.conditions:
            if condition.type == "Ready":
                at = f"{condition.status} {condition.last_transition_time}"
                if condition.status == "True" and self._ready.get(node.metadata.name) != at:
                    self.recoveries.append((self.now_s, node.metadata.name))
                self._ready[node.metadata.name] = at


def requests_of(pod: Pod) -> Amounts:
    """Returns the requests of a pod: cpu in millicores, memory in bytes, others as they are."""
    total: Amounts = defaultdict(float)
    largest: Amounts = defaultdict(float)
    for container in pod.spec.containers:
        for name, quantity in container.resources.requests.items():
            total[name] += amount(name, quantity)
    sidecars: Amounts = defaultdict(float)
    for container in pod.spec.init_containers:
        own = {n: amount(n, q) for n, q in container.resources.requests.items()}
        if container.restart_policy == "Always":
            for name, value in own.items():
                sidecars[name] += value
            own = dict(sidecars)
        else:
            own = {name: own.get(name, 0) + sidecars[name] for name in {*own, *sidecars}}
        for name, value in own.items():
            largest[name] = max(largest[name], value)
    names = [*total, *largest, *sidecars]
    return {name: max(total[name] + sidecars[name], largest[name]) for name in names}


def amount(resource: str, quantity: Any) -> float:
    """Returns a quantity as these tests write it, in the units of the tables."""
    text = str(quantity)
    if text.endswith("m"):
        value = float(text[:-1]) / 1000
    else:
        suffix = text[-2:] if text[-2:] in _SUFFIXES else ""
        value = float(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, 1)
    return value * 1000 if resource == "cpu" else value


class Recount:
    """Counts the measures of a result.

    Args:
        result: The result, whose events are complete.
        prices: Prefix of the nodes' names -> price of an hour.
        start_s: From binding to running, of all pods.
        log: The writes.
    """

    def __init__(
        self, result: Result, prices: dict[str, float], start_s: float, log: WriteLog
    ) -> None:
        assert result.events is not None
        self._result = result
        self._prices = prices
        self._start_s = start_s
        self._log = log
        self._end_s = result.summary["length"]
        self._pods = rows(result, "pods")
        self._nodes = rows(result, "nodes")
        self._jobs = rows(result, "jobs")
        names = [*result.events]
        self._events = [
            dict(zip(names, row, strict=True)) for row in zip(*result.events.values(), strict=True)
        ]
        self._shorts = dict(result.resources)

    def measures(self) -> dict[str, float]:
        """Returns all measures but those of lost work."""
        return {
            **self._counts(),
            **self._times(),
            **self._of_attempts(),
            **self._of_nodes(),
            **self._of_jobs(),
            **self._integrals(),
        }

    # -- pods -------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, float]:
        states = Counter(row["final_state"].lower() for row in self._pods)
        every = ("succeeded", "failed", "deleted", "evicted", "preempted", "pending", "running")
        return {
            "pods.created": len(self._pods),
            "pods.bound": sum(row["starting_time_s"] is not None for row in self._pods),
            **{f"pods.{state}": states[state] for state in every},
        }

    def _times(self) -> dict[str, float]:
        bound = [row for row in self._pods if row["starting_time_s"] is not None]
        good = [row for row in self._pods if row["final_state"] == "Succeeded"]
        waits = [row["starting_time_s"] - row["submission_time_s"] for row in bound]
        times = [row["finish_time_s"] - row["submission_time_s"] for row in good]
        slow = []
        for row in good:
            run_s = row["finish_time_s"] - row["starting_time_s"]
            whole_s = row["finish_time_s"] - row["submission_time_s"]
            slow.append(max(1.0, whole_s / max(run_s, 10.0)))
        result = {}
        for name, values in (("wait", waits), ("turnaround", times), ("slowdown", slow)):
            result.update(spread(name, values))
        ends = [row["finish_time_s"] for row in self._pods if row["finish_time_s"] is not None]
        if ends:
            makespan = max(ends) - min(row["submission_time_s"] for row in self._pods)
            result["makespan"] = makespan
            result["throughput"] = len(good) / makespan if makespan else 0.0
        return result

    def _of_attempts(self) -> dict[str, float]:
        attempts = sum(row["attempts"] for row in self._pods)
        refused = [own for own in self._events if own["event"] in ("refused", "rejected")]
        plugins = [name for own in refused for name in own["plugins"].split(",") if name]
        counts = Counter(plugins)
        result: Amounts = {f"refused.{name}": count for name, count in counts.items()}
        result["attempts.mean"] = attempts / len(self._pods) if self._pods else 0.0
        result["attempts.errors"] = sum(event["event"] == "error" for event in self._events)
        return result

    # -- nodes and jobs ---------------------------------------------------------------------------

    def _of_nodes(self) -> dict[str, float]:
        cost = 0.0
        for row in self._nodes:
            own = [name for name in self._prices if row["node"].startswith(name)]
            price = self._prices[max(own, key=len)] if own else 0.0
            cost += price * (self._until(row) - row["added_s"]) / 3600
        at_start = {e["object"] for e in self._events if e["event"] == "node" and not e["time_s"]}
        return {
            "nodes.hours": sum(self._until(row) - row["added_s"] for row in self._nodes) / 3600,
            "nodes.added": len(self._nodes) - len(at_start),
            "nodes.removed": sum(row["removed_s"] is not None for row in self._nodes),
            "cost": cost,
            "length": self._end_s,
        }

    def _until(self, row: Spec) -> float:
        return float(self._end_s if row["removed_s"] is None else row["removed_s"])

    def _of_jobs(self) -> dict[str, float]:
        times = [
            row["finish_time_s"] - row["submission_time_s"]
            for row in self._jobs
            if row["final_state"] == "Succeeded"
        ]
        result: dict[str, float] = {
            "jobs.created": len(self._jobs),
            "jobs.complete": len(times),
            "jobs.failed": sum(row["final_state"] == "Failed" for row in self._jobs),
        }
        if times:
            result["jobs.turnaround.mean"] = sum(times) / len(times)
            result["jobs.turnaround.max"] = max(times)
        return result

    # -- integrals --------------------------------------------------------------------------------

    def _integrals(self) -> dict[str, float]:
        allocatable = allocatable_changes(self._events)
        instants = {0.0, self._end_s, *(at_s for at_s, _, _ in allocatable)}
        for row in self._pods:
            for column in ("submission_time_s", "starting_time_s", "finish_time_s"):
                if row[column] is not None:
                    instants.add(row[column])
        ordered = sorted(at_s for at_s in instants if at_s <= self._end_s)
        areas: Amounts = defaultdict(float)
        highest: Amounts = defaultdict(float)
        nodes: dict[str, Amounts] = {}
        for from_s, until_s in [*pairwise(ordered), (self._end_s, self._end_s)]:
            while allocatable and allocatable[0][0] <= from_s:
                _, name, amounts = allocatable.pop(0)
                nodes.pop(name, None)
                if amounts is not None:
                    nodes[name] = amounts
            for name, value in self._point(from_s, nodes).items():
                areas[name] += value * (until_s - from_s)
                highest[name] = max(highest[name], value)
        return self._shares(areas, highest)

    def _shares(self, areas: Amounts, highest: Amounts) -> dict[str, float]:
        result: dict[str, float] = {}
        for short in self._shorts.values():
            whole = areas[f"allocatable.{short}"]
            for kind in ("allocated", "demanded", "stranded", "fragmentation"):
                part = areas[f"{kind}.{short}"]
                result[f"{kind}.{short}"] = part / whole if whole else 0.0
            most = highest[f"allocatable.{short}"]
            largest = highest[f"allocated.{short}"]
            result[f"allocated.{short}.max"] = largest / most if most else 0.0
        for name in ("pending", "nodes"):
            result[f"{name}.mean"] = areas[name] / self._end_s if self._end_s else 0.0
            result[f"{name}.max"] = highest[name]
        return result

    def _point(self, at_s: float, nodes: dict[str, Amounts]) -> Amounts:
        """Returns what holds from an instant on: node by node, and pod by pod."""
        point: Amounts = defaultdict(float)
        free = {name: defaultdict(float, own) for name, own in nodes.items()}
        waiting: list[Spec] = []
        came: Counter[tuple[float, ...]] = Counter()
        for row in self._pods:
            if row["submission_time_s"] > at_s:
                continue
            came[self._shape(row)] += 1
            if row["finish_time_s"] is not None and row["finish_time_s"] <= at_s:
                continue
            is_bound = row["starting_time_s"] is not None and row["starting_time_s"] <= at_s
            point["pending"] += not is_bound
            for short in self._shorts.values():
                point[f"demanded.{short}"] += self._request(row, short)
                point[f"allocated.{short}"] += self._request(row, short) * is_bound
            if not is_bound:
                waiting.append(row)
            elif row["node"] in free:
                own = free[row["node"]]
                own["pods"] -= 1
                for full, short in self._shorts.items():
                    own[full] -= self._request(row, short)
        point["nodes"] = len(nodes)
        shapes = {self._shape(row) for row in waiting}
        for name, own in free.items():
            self._add_node(point, nodes[name], own, shapes, came)
        return point

    def _add_node(
        self,
        point: Amounts,
        allocatable: Amounts,
        free: Amounts,
        shapes: set[tuple[float, ...]],
        came: Counter[tuple[float, ...]],
    ) -> None:
        is_stranded = bool(shapes) and not any(self._fits(shape, free) for shape in shapes)
        fitting = {shape for shape in came if self._fits(shape, free)}
        for at, (full, short) in enumerate(self._shorts.items()):
            left = max(0, free[full])
            point[f"allocatable.{short}"] += allocatable.get(full, 0)
            point[f"stranded.{short}"] += left * is_stranded
            useless = sum(
                count for shape, count in came.items() if shape not in fitting or not shape[at]
            )
            if came:
                point[f"fragmentation.{short}"] += left * useless / sum(came.values())

    def _fits(self, shape: tuple[float, ...], free: Amounts) -> bool:
        pairs = zip(self._shorts, shape, strict=True)
        return free["pods"] >= 1 and all(free[full] >= request for full, request in pairs)

    def _shape(self, row: Spec) -> tuple[float, ...]:
        return tuple(self._request(row, short) for short in self._shorts.values())

    def _request(self, row: Spec, short: str) -> float:
        return float(row[_COLUMN_OF.get(short, short.replace("-", "_"))])

    # -- the tables against the writes ------------------------------------------------------------

    def problems_of_tables(self) -> list[str]:
        """Returns where the tables differ from the writes."""
        problems = []
        for row, (name, _, requests) in zip(self._pods, self._log.pods, strict=True):
            if row["pod"] != name:
                problems.append(f"row {row} is not of {name}")
            for full, short in self._shorts.items():
                if self._request(row, short) != requests.get(full, 0):
                    problems.append(f"{name} requests {requests}, not {row}")
        for job in self._jobs:
            until = job["finish_time_s"] if job["finish_time_s"] is not None else self._end_s
            times = [
                row["starting_time_s"]
                for row, (_, owner, _) in zip(self._pods, self._log.pods, strict=True)
                if owner == job["job"]
                and row["starting_time_s"] is not None
                and job["submission_time_s"] <= row["starting_time_s"] <= until
            ]
            if job["starting_time_s"] != min(times, default=None):
                problems.append(f"{job} started at {min(times, default=None)}")
        return problems

    def lost(self) -> list[float]:
        """Returns the lost run time of each pod: by crashes, eviction or preemption."""
        crashes = [(e["time_s"], e["object"]) for e in self._events if e["event"] == "node-failed"]
        times = [(node, at_s, 0) for at_s, node in crashes]
        times += [(node, at_s, 1) for at_s, node in self._log.recoveries]
        lost = []
        for number, row in enumerate(self._pods):
            end_s = self._end_s if row["finish_time_s"] is None else row["finish_time_s"]
            marks = [(at, back) for node, at, back in times if node == row["node"] and at <= end_s]
            asked_s = self._log.asked_s.get(number, math.inf)
            is_bound = row["starting_time_s"] is not None
            lost.append(lost_of(row, marks, self._start_s, asked_s) if is_bound else 0.0)
        return lost


def allocatable_changes(events: list[Spec]) -> list[tuple[float, str, Amounts | None]]:
    """Returns when nodes came, changed or left (None), and what they have to allocate."""
    changes: list[tuple[float, str, Amounts | None]] = []
    for event in events:
        if event["event"] == "node":
            quantities = json.loads(event["text"])["status"]["allocatable"]
            amounts = {name: amount(name, value) for name, value in quantities.items()}
            changes.append((event["time_s"], event["object"], amounts))
        elif event["event"] == "node-removed":
            changes.append((event["time_s"], event["object"], None))
    return changes


def lost_of(row: Spec, marks: list[tuple[float, int]], start_s: float, asked_s: float) -> float:
    """Returns the lost run time of a pod.

    Args:
        row: Of the pod, which was bound.
        marks: When its node crashed (0) and was back (1), until the end of the pod.
        start_s: From binding to running.
        asked_s: When its deletion was asked for; infinity = never.
    """
    since_s, lost = row["starting_time_s"] + start_s, 0.0
    for at_s, is_back in sorted(marks):
        if is_back and at_s >= asked_s:
            continue
        if at_s < row["starting_time_s"]:
            # Nothing runs on a node that is away, until it is back.
            since_s = row["starting_time_s"] + start_s if is_back else math.inf
        elif is_back and since_s == math.inf:
            since_s = at_s + start_s
        elif not is_back:
            lost += max(0.0, at_s - since_s)
            since_s = math.inf
    if row["final_state"] in ("Evicted", "Preempted"):
        lost += max(0.0, asked_s - since_s)
    return lost


def spread(name: str, values: list[float]) -> dict[str, float]:
    """Returns mean, quantiles and largest: the smallest value with that share at or below."""
    if not values:
        return {}
    result = {f"{name}.mean": sum(values) / len(values), f"{name}.max": max(values)}
    for which, share in (("p50", 50), ("p90", 90), ("p99", 99)):
        result[f"{name}.{which}"] = next(
            value
            for value in sorted(values)
            if 100 * sum(other <= value for other in values) >= share * len(values)
        )
    return result
