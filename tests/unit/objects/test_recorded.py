"""Objects, selectors, tolerations and requests against what kube-scheduler v1.36.3 decided.

The recordings in ``data/`` say, for every pod and node, which plugin refused the node or how it
scored. What this package computes must explain those answers.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from mooring.objects import Node, Pod, key
from mooring.objects.codec.decode import convert, decode, encode
from mooring.objects.requests import (
    allocatable_units,
    fit_scored_units,
    host_ports,
    nonzero_requests,
    pod_requests,
    scheduler_units,
)
from mooring.objects.selectors import preferred_node_terms, required_node_affinity
from mooring.objects.tolerations import PREFER_NO_SCHEDULE, first_untolerated, is_tolerated
from tests.helpers.paths import UNIT_DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = UNIT_DATA
RECORDINGS = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*-[0-9]*.json.gz"))

#: Filters run in this order, and the first refusal of a node is the one that is recorded.
FILTERS = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit",
]  # fmt: skip

#: What the API server fills in, and what no scheduler reads.
UNREAD = {
    "CSIDriver.spec.fsGroupPolicy",
    "Namespace.status",
    "Node.spec.providerID",
    "Node.status.daemonEndpoints",
    "Node.status.nodeInfo",
    "Pod.spec.dnsPolicy",
    "Pod.spec.enableServiceLinks",
    "Pod.spec.restartPolicy",
    "Pod.status.qosClass",
    "Pod.spec.volumes[].iscsi.iscsiInterface",
    "Pod.spec.volumes[].rbd.keyring",
    "Pod.spec.volumes[].rbd.user",
    *(
        f"Pod.spec.{part}[].{field}"
        for part in ("containers", "initContainers")
        for field in ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy")
    ),
}


@cache
def recording(name: str) -> dict[str, Any]:
    with gzip.open(DATA / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


class Step:
    """One recorded decision, and the cluster as it was then."""

    def __init__(self, pod: Pod, nodes: dict[str, Node], running: dict[str, list[Pod]]) -> None:
        self.pod = pod
        self.nodes = nodes
        self.running = running
        self.rejected: dict[str, dict[str, Any]] = {}
        self.decision: dict[str, Any] = {}

    def refused_by(self, plugin: str) -> dict[str, bool]:
        """Returns node -> was it this plugin; nodes that an earlier one refused are left out."""
        earlier = FILTERS[: FILTERS.index(plugin)]
        names = {node: self.rejected.get(node, {}).get("plugin", "") for node in self.nodes}
        return {node: name == plugin for node, name in names.items() if name not in earlier}


def steps(name: str) -> Iterator[Step]:
    """Yields the recorded steps with filtered nodes; each outcome is applied after its step."""
    found = recording(name)
    nodes: dict[str, Node] = {}
    running: dict[str, list[Pod]] = {}
    for raw in found["objects"]:
        obj = convert(raw, raw["kind"])
        if isinstance(obj, Node):
            nodes[obj.metadata.name] = obj
        elif isinstance(obj, Pod) and obj.status.phase not in ("Succeeded", "Failed"):
            running.setdefault(obj.spec.node_name, []).append(obj)
    for raw in found["steps"]:
        decision = raw["decision"]
        step = Step(convert(raw["pod"], "Pod"), nodes, running)
        step.rejected, step.decision = decision.get("rejected") or {}, decision
        if _all_nodes_were_filtered(decision):
            yield step
        for gone in raw.get("effects", {}).get("deleted", []):
            for pods in running.values():
                pods[:] = [pod for pod in pods if f"pods {key(pod)}" != gone]
        if decision["node"]:
            running.setdefault(decision["node"], []).append(step.pod)


def _all_nodes_were_filtered(decision: dict[str, Any]) -> bool:
    if decision.get("prefilter") or "choice" in decision:
        return False
    if decision["result"] not in ("scheduled", "unschedulable"):
        return False
    return all("," not in one["plugin"] for one in (decision.get("rejected") or {}).values())


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_object_survives_reading_and_writing(name: str) -> None:
    found = recording(name)
    raws = list(found["objects"])
    for step in found["steps"]:
        raws += [step["pod"], *step.get("effects", {}).get("updated", [])]
    lost: Counter[str] = Counter()
    for raw in raws:
        obj = convert(raw, raw["kind"])
        written = encode(obj)
        assert decode(written, raw["kind"]) == obj
        lost.update(_lost(raw, json.loads(written), raw["kind"]))
    assert {path for path in lost if not path.startswith(("Service", "Re", "St"))} <= UNREAD


def _lost(raw: Any, written: Any, path: str) -> Iterator[str]:
    """Yields the paths of fields that were not encoded, except zero values, which are omitted."""
    if isinstance(raw, dict):
        for name, value in raw.items():
            if name in written:
                yield from _lost(value, written[name], f"{path}.{name}")
            elif value not in (None, {}, [], "", 0, False):
                yield f"{path}.{name}"
    elif isinstance(raw, list):
        for one, other in zip(raw, written, strict=True):
            yield from _lost(one, other, f"{path}[]")
    else:
        assert raw == written, path


def test_required_node_affinity_refuses_the_recorded_nodes() -> None:
    n_refused = 0
    for step in steps("nodeaffinity-4"):
        required = required_node_affinity(step.pod)
        for name, was_refused in step.refused_by("NodeAffinity").items():
            labels = step.nodes[name].metadata.labels
            assert required.matches(labels, name) is not was_refused, (key(step.pod), name)
            n_refused += was_refused
    assert n_refused > 50


def test_preferred_node_affinity_gives_the_recorded_raw_scores() -> None:
    n_scored = 0
    for step in steps("nodeaffinity-4"):
        affinity = step.pod.spec.affinity.node_affinity if step.pod.spec.affinity else None
        wanted = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        terms = preferred_node_terms(wanted)
        for name, score in step.decision.get("raw", {}).get("NodeAffinity", {}).items():
            labels = step.nodes[name].metadata.labels
            assert sum(one.weight for one in terms if one.term.matches(labels, name)) == score
            n_scored += score > 0
    assert n_scored > 5


def test_taints_refuse_and_score_the_recorded_nodes() -> None:
    n_refused = n_scored = 0
    for step in steps("taints-6"):
        tolerations = step.pod.spec.tolerations
        for name, was_refused in step.refused_by("TaintToleration").items():
            taint = first_untolerated(step.nodes[name].spec.taints, tolerations)
            assert (taint is not None) is was_refused, (key(step.pod), name)
            n_refused += was_refused
        soft = [one for one in tolerations if one.effect in ("", PREFER_NO_SCHEDULE)]
        for name, score in step.decision.get("raw", {}).get("TaintToleration", {}).items():
            taints = [
                taint
                for taint in step.nodes[name].spec.taints
                if taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, soft)
            ]
            assert len(taints) == score
            n_scored += score > 0
    assert (n_refused > 50, n_scored > 10) == (True, True)


def _free(node: Node, pods: list[Pod]) -> Counter[str]:
    free = Counter(allocatable_units(node.status.allocatable))
    for pod in pods:
        free.subtract(scheduler_units(pod_requests(pod, use_status=True)))
        free["pods"] -= 1
    return free


@pytest.mark.parametrize("name", ["resources-2", "resources-4"])
def test_requests_that_do_not_fit_are_the_recorded_ones(name: str) -> None:
    n_refused = 0
    for step in steps(name):
        wanted = {**scheduler_units(pod_requests(step.pod)), "pods": 1}
        for node, was_refused in step.refused_by("NodeResourcesFit").items():
            free = _free(step.nodes[node], step.running.get(node, []))
            short = {
                "Too many pods" if resource == "pods" else f"Insufficient {resource}"
                for resource, units in wanted.items()
                if units > free[resource] and units > 0
            }
            recorded = step.rejected[node]["reasons"] if was_refused else []
            assert sorted(short) == recorded, (key(step.pod), node)
            n_refused += was_refused
    assert n_refused > 20


@pytest.mark.parametrize("name", ["resources-2", "resources-4", "ports-images-9"])
def test_assumed_requests_give_the_recorded_scores(name: str) -> None:
    n_scored = 0
    for step in steps(name):
        for node, score in step.decision.get("raw", {}).get("NodeResourcesFit", {}).items():
            running = step.running.get(node, [])
            assumed = [nonzero_requests(pod, use_status=True) for pod in running]
            own = (fit_scored_units(step.pod, "cpu"), fit_scored_units(step.pod, "memory"))
            room = allocatable_units(step.nodes[node].status.allocatable)
            assert _least_allocated(room, [*assumed, own]) == score, (key(step.pod), node)
            n_scored += 1
    assert n_scored > 20


def _least_allocated(room: dict[str, int], assumed: list[tuple[int, int]]) -> int:
    """Returns the mean of what is left of cpu and memory, in percent, as integers all the way."""
    scores = []
    for resource, index in (("cpu", 0), ("memory", 1)):
        capacity = room.get(resource, 0)
        used = sum(both[index] for both in assumed)
        if capacity:
            scores.append((capacity - used) * 100 // capacity if used <= capacity else 0)
    return sum(scores) // len(scores) if scores else 0


def test_host_ports_collide_on_the_recorded_nodes() -> None:
    n_refused = 0
    for step in steps("ports-images-9"):
        wanted = host_ports(step.pod)
        for node, was_refused in step.refused_by("NodePorts").items():
            taken = [one for pod in step.running.get(node, []) for one in host_ports(pod)]
            collides = any(
                (one.protocol, one.port) == (other.protocol, other.port)
                and (one.ip == other.ip or "0.0.0.0" in (one.ip, other.ip))
                for one in wanted
                for other in taken
            )
            assert collides is was_refused, (key(step.pod), node)
            n_refused += was_refused
    assert n_refused > 10
