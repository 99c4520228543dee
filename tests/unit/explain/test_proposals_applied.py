"""Each proposed change, carried out as its sentence says it, gives the pod a node.

The sentences are read here, and the objects changed as a user would change them: nothing of the
code that searches the changes is used. Then a fresh simulation decides.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import pytest

from mooring import Cluster
from mooring.clock import seeded_random
from mooring.explain.offline import Source, explain_offline
from mooring.objects.resource import ResourceClaim
from mooring.objects.storage import PersistentVolumeClaim
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.workload import workload_of
from mooring.testing.random_cluster import random_objects, random_pod
from tests.helpers.carried_out import Reader, parts, proposals
from tests.helpers.explained_clusters import THEMES, random_cluster

BLOCK = 10
#: MOORING_SEEDS=1000 tries more clusters.
SEEDS = range(0, int(os.environ.get("MOORING_SEEDS", "200")) // 5, BLOCK)


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


# ---- volumes, other pods, devices ----

#: Clusters of each theme.
OF_THEME = int(os.environ.get("MOORING_SEEDS", "200")) // 20


def explained(objects: list[Any]) -> list[str]:
    """Returns what the explanation of the pending pod proposes."""
    workload = with_controller_results(workload_of("random", objects))
    (pod,) = workload.pending
    return proposals(explain_offline(pod, Source(workload, None)))


def node_with(objects: list[Any], sentence: str) -> str | None:
    """Returns the node of the pod after a change by hand."""
    reader = Reader(objects)
    assert reader.carry_out(sentence), f"not read: {sentence}"
    return reader.cluster().simulate()["pod"].node


def obvious(objects: list[Any]) -> Iterator[str]:
    """Yields single changes that a person would try: of each object, and of the pod."""
    *cluster, pod = objects
    spec = pod.spec
    for obj in cluster:
        name, kind = obj.metadata.name, type(obj).__name__
        if kind == "Node":
            if obj.spec.unschedulable:
                yield f"uncordon node {name}"
            yield f"add a node like {name} ()"
            yield "add a toleration of team=db:NoSchedule to the pod"
        elif kind == "Pod":
            yield f"remove pod default/{name} from node {obj.spec.node_name}"
        elif isinstance(obj, PersistentVolumeClaim) and not obj.spec.volume_name:
            if name in {
                volume.persistent_volume_claim.claim_name
                for volume in spec.volumes
                if volume.persistent_volume_claim is not None
            }:
                yield f"bind claim default/{name} to a volume of 5Gi that all nodes reach"
        elif isinstance(obj, ResourceClaim) and obj.status.allocation is None:
            for edit in (
                f"request 1 device in request r of resource claim default/{name} (instead of 2)",
                f"request class gpu in resource claim default/{name} (instead of gpuu)",
                f"tolerate broken=x:NoSchedule in request r of resource claim default/{name}",
            ):
                yield f"{edit}; the claim must be deleted and created again"
    for constraint in spec.topology_spread_constraints:
        key = constraint.topology_key
        yield f"set whenUnsatisfiable: ScheduleAnyway for the spread over {key} in the pod"


@pytest.mark.parametrize("theme", THEMES)
def test_proposals_of_every_plugin_are_carried_out(theme: str) -> None:
    total = 0
    for seed in range(OF_THEME):
        cluster, pod = random_cluster(seeded_random(seed), theme)
        objects = [*cluster, pod]
        if Cluster(objects).simulate()["pod"].node:
            continue
        sentences = explained(objects)
        for sentence in sentences:
            total += 1
            assert node_with(objects, sentence), f"seed {seed}: {sentence}"
        if not any(len(parts(sentence)) == 1 for sentence in sentences):
            missed = [item for item in obvious(objects) if node_with(objects, item)]
            assert not missed, f"seed {seed}: proposed {sentences}, but {missed}"
    # Of the clusters with volumes many take the pod.
    assert total > OF_THEME // 4
