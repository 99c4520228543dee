"""Each proposed change, carried out as its sentence says it, gives the pod a node.

The sentences are read here, and the objects changed as a user would change them: nothing of the
code that searches the changes is used. Then a fresh simulation decides.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from mooring import Cluster
from mooring.clock import seeded_random
from mooring.explain.offline import Source, explain_offline
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.simulation.workload import workload_of
from mooring.testing.random_cluster import EXTENDED, random_objects, random_pod

BLOCK = 10
#: MOORING_SEEDS=1000 tries more clusters.
SEEDS = range(0, int(os.environ.get("MOORING_SEEDS", "200")) // 5, BLOCK)
_VERBS = "add|uncordon|set|remove|request|give|let|require|spread"
_PARTS = re.compile(rf"(?:, | and )(?=(?:{_VERBS}) )")
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": EXTENDED}
_UNITS = {unit: str(2**power) for unit, power in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))}

Objects = dict[tuple[str, str], dict[str, Any]]


class Reader:
    """Carries out sentences on a cluster of JSON objects."""

    def __init__(self, objects: list[Any]) -> None:
        self.objects: Objects = {
            (type(obj).__name__, obj.metadata.name): msgspec.to_builtins(obj) for obj in objects
        }

    def carry_out(self, sentence: str) -> bool:
        """Makes the changes of a sentence; returns False if it has a change that is not read."""
        return all(self._carry_out(part) for part in _PARTS.split(sentence))

    def cluster(self) -> Cluster:
        kinds = {"Node": Node, "Pod": Pod}
        return Cluster(
            [msgspec.convert(obj, kinds[kind]) for (kind, _), obj in self.objects.items()]
        )

    def _carry_out(self, sentence: str) -> bool:
        for pattern, change in _CHANGES.items():
            match = re.fullmatch(pattern, sentence)
            if match is not None:
                change(self, *match.groups())
                return True
        return False

    @property
    def pod(self) -> dict[str, Any]:
        return self.objects["Pod", "pod"]

    def tolerate(self, key: str, value: str | None, effect: str) -> None:
        spec = self.pod["spec"]
        operator = "Exists" if value is None else "Equal"
        toleration = {"key": key, "operator": operator, "value": value or "", "effect": effect}
        spec["tolerations"] = [*spec.get("tolerations", ()), toleration]

    def uncordon(self, name: str) -> None:
        self.objects["Node", name]["spec"]["unschedulable"] = False

    def set_label(self, key: str, value: str, name: str) -> None:
        self.objects["Node", name]["metadata"].setdefault("labels", {})[key] = value

    def remove_label(self, key: str, name: str) -> None:
        del self.objects["Node", name]["metadata"]["labels"][key]

    def remove_pod(self, name: str, _node: str) -> None:
        del self.objects["Pod", name]

    def add_node(self, like: str, _group: str) -> None:
        node = msgspec.json.decode(msgspec.json.encode(self.objects["Node", like]))
        node["metadata"] |= {"name": "another", "uid": "uid-another"}
        labels = node["metadata"].get("labels", {})
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = "another"
        node["spec"]["unschedulable"] = False
        self.objects["Node", "another"] = node

    def enlarge(self, name: str, amount: str, resource: str) -> None:
        allocatable = self.objects["Node", name]["status"]["allocatable"]
        resource = _RESOURCES[resource]
        total = units(resource, allocatable.get(resource, "0")) + units(resource, amount)
        allocatable[resource] = str(total)

    def let_run(self, name: str, count: str) -> None:
        allocatable = self.objects["Node", name]["status"]["allocatable"]
        allocatable["pods"] = str(int(allocatable["pods"]) + int(count))

    def request(self, amount: str, resource: str) -> None:
        (container,) = self.pod["spec"]["containers"]
        resource = _RESOURCES[resource]
        container["resources"]["requests"][resource] = str(units(resource, amount))


def units(_resource: str, text: str) -> Decimal:
    """Returns the amount of a quantity in cores, bytes or devices."""
    number, suffix = re.fullmatch(r"(-?[0-9.]+)(\w*)", text).groups()  # type: ignore[union-attr]
    factors = {"": "1", "m": "1e-3", "u": "1e-6", "G": "1e9", **_UNITS}
    return Decimal(number) * Decimal(factors[suffix])


_CHANGES: dict[str, Callable[..., None]] = {
    r"add a toleration of ([^=:]+)(?:=([^:]*))?:(\w+) to the pod": Reader.tolerate,
    r"uncordon node (\S+)": Reader.uncordon,
    r"set the label ([^=]+)=(\S*) on node (\S+)": Reader.set_label,
    r"remove the label (\S+) from node (\S+)": Reader.remove_label,
    r"remove pod default/(\S+) from node (\S+)": Reader.remove_pod,
    r"add a node like (\S+) \((.*)\)": Reader.add_node,
    r"give node (\S+) (\S+) (\S+) more": Reader.enlarge,
    r"let node (\S+) run (\d+) more pods?": Reader.let_run,
    r"request \S+ (?P<resource>\S+) less in the pod \((\S+) instead of \S+\)": (
        lambda reader, resource, amount: reader.request(amount, resource)
    ),
}


def proposals(text: str) -> list[str]:
    """Returns the sentences at the end of an explanation."""
    *_, end = re.split(r"\(each (?:set )?was decided again\):\n", text)
    if end == text:
        return []
    lines = " ".join(line.strip() for line in end.splitlines())
    return [item.rpartition(": the pod goes to ")[0] for item in lines.split("- ")[1:]]


def unplaced(seed: int) -> list[Any] | None:
    """Returns a random cluster with one pending pod that fits nowhere."""
    rng = seeded_random(seed)
    objects: list[Any] = [*random_objects(rng, nodes=4, pods=6)]
    for _ in range(40):
        candidate = [*objects, random_pod(rng, "pod", priority=-10)]
        if not Cluster(candidate).simulate()["pod"].node:
            return candidate
    return None


@pytest.mark.parametrize("first", SEEDS)
def test_every_proposal_that_is_carried_out_gives_the_pod_a_node(first: int) -> None:
    carried_out = total = 0
    for seed in range(first, first + BLOCK):
        objects = unplaced(seed)
        if objects is None:
            continue
        workload = workload_of("random", objects)
        (pod,) = workload.pending
        sentences = proposals(explain_offline(pod, Source(workload, None)))
        for sentence in sentences:
            total += 1
            reader = Reader(objects)
            if not reader.carry_out(sentence):
                continue
            carried_out += 1
            node = reader.cluster().simulate()["pod"].node
            assert node, f"seed {seed}: {sentence}"
    # Few sentences are about something else: the affinity of the pod.
    assert carried_out >= math.ceil(total * 0.7) > 10
