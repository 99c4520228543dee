"""VolumeZone beside the same rule node by node, where nearly all nodes and volumes have labels.

Nodes and volumes have any of the four labels, zone and region, current and beta, with values that
agree or do not. Volumes have one value or several, spaces around them, and empty ones.

Source: as ``ZoneTwin`` names it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.objects.node import Node
from mooring.plugins import VolumeZone
from mooring.testing import make_pod
from tests.plugins.volume_clusters import Case, made
from tests.plugins.volume_twins import ZONES, Facts, ZoneTwin

CASES: Final = 12
KEYS: Final = (*ZONES, *ZONES.values())
VALUES: Final = ("a", "b", "a__b", "b__c", " a __c", "a__", "__", "c")


class ZonesRun:
    """One run.

    Attributes:
        problems: Differences to the twin.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = seeded_random(seed)

    def run(self) -> None:
        """Compares the statuses of the nodes of some clusters."""
        for _ in range(CASES):
            case = self._case()
            facts = case.facts()
            actual = case.harness(VolumeZone()).statuses(case.pod)
            expected = case.harness(ZoneTwin(facts)).statuses(case.pod)
            if actual != expected:
                self.problems.append(_difference(case, facts, actual, expected))
            self._count(case, expected)

    def _case(self) -> Case:
        rng = self._rng
        names = [f"claim-{number}" for number in range(rng.choice((1, 1, 2, 3)))]
        storage = []
        for name in names:
            labels = _labels(rng, 0.4, VALUES)
            storage += [
                made("PersistentVolume", f"of-{name}", metadata={"labels": labels}),
                made(
                    "PersistentVolumeClaim",
                    name,
                    metadata={"namespace": "default"},
                    spec={"volumeName": f"of-{name}"},
                ),
            ]
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in rng.sample(names, k=len(names))
        ]
        share = rng.choice((0.3, 0.8))
        nodes: list[Any] = [
            made("Node", f"node-{number}", metadata={"labels": _labels(rng, share, "abc")})
            for number in range(rng.randint(1, 6))
        ]
        return Case(nodes, storage, make_pod("incoming", spec={"volumes": volumes}))

    def _count(self, case: Case, statuses: dict[str, Any]) -> None:
        codes = {status is None for status in statuses.values()}
        self.paths["some nodes"] += len(codes) == 2
        nodes = (it for it in case.objects if isinstance(it, Node))
        for labels in (it.metadata.labels for it in nodes):
            for beta, current in ZONES.items():
                both = labels.get(beta), labels.get(current)
                self.paths["labels that differ"] += None not in both and both[0] != both[1]


def _labels(rng: Rng, share: float, values: Any) -> dict[str, str]:
    return {name: rng.choice(values) for name in KEYS if rng.random() < share}


def _difference(case: Case, facts: Facts, actual: Any, expected: Any) -> str:
    volumes = {it.metadata.name: it.metadata.labels for it in facts.all("PersistentVolume")}
    nodes = {it.metadata.name: it.metadata.labels for it in case.objects}
    return f"volumes {volumes} on nodes {nodes}: {actual}, not {expected}"


def run_zones(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status differs from that of the twin.
    """
    run = ZonesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
