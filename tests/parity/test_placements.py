"""Replays the pods that kube-scheduler has bound, from the cluster at the end of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.clock import rfc3339
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.recordings.format import Document, Recording, read_recording
from mooring.simulation.build import configuration_of
from mooring.simulation.placements import replay_placements
from mooring.simulation.replay import objects_of
from mooring.simulation.workload import Workload, workload_of
from tests.helpers.paths import PARITY_DATA

#: Not those in which claims or volumes change: the recordings do not tell how they are at the end.
FAMILIES = (
    *("big", "gates-priority", "nodeaffinity", "podaffinity", "ports-images", "profiles"),
    *("resources", "spread", "spread-defaults", "taints"),
)

#: Recordings in which pods were evicted or deleted: they are missing at the end.
NOT_COMPARED = frozenset(
    {"big-1", *(f"gates-priority-{number}" for number in (2, 3, 5, 6, 7, 10, 12))}
)

#: 2036: after every time in the recordings.
_BEGIN_S = 2_100_000_000


def recordings() -> list[Path]:
    """Returns the recordings in which each pod stays as it was bound."""
    paths = [path for family in FAMILIES for path in PARITY_DATA.glob(f"{family}-[0-9]*.json.gz")]
    return sorted(path for path in paths if name_of(path) not in NOT_COMPARED)


def name_of(path: Path) -> str:
    """Returns the name of a recording."""
    return path.name.removesuffix(".json.gz")


def cluster_at_the_end(recording: Recording) -> Workload:
    """Returns the cluster of a recording with its pods on their nodes, the last one first.

    Pods that have a node from the beginning are those of another scheduler.
    """
    documents = [_of_another_scheduler(obj) for obj in recording.objects if _stays(obj)]
    bound: list[Pod] = []
    for second, step in enumerate(recording.steps):
        node = step.decision.node
        if node is None:
            continue
        time = rfc3339(_BEGIN_S + second)
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}
        pod = {
            **step.pod,
            "spec": {**step.pod["spec"], "nodeName": node},
            "status": {"conditions": [scheduled]},
        }
        bound.append(convert(pod, "Pod"))
    return workload_of(recording.name, [*objects_of(documents), *reversed(bound)])


def _stays(obj: Document) -> bool:
    return obj["kind"] != "Pod" or bool(obj["spec"].get("nodeName"))


def _of_another_scheduler(obj: Document) -> Document:
    if obj["kind"] != "Pod":
        return obj
    return {**obj, "spec": {**obj["spec"], "schedulerName": "another"}}


@pytest.mark.parametrize("path", recordings(), ids=name_of)
def test_bound_pods_are_decided_as_they_were(path: Path) -> None:
    recording = read_recording(path)
    expected = [step.pod_key for step in recording.steps if step.decision.node is not None]
    workload = cluster_at_the_end(recording)
    others = sum(pod.spec.scheduler_name == "another" for pod in workload.pods)

    replayed = replay_placements(workload, config=configuration_of(recording))
    steps = list(replayed.steps)

    assert [step.pod for step in steps] == expected
    assert [step for step in steps if step.is_other_node] == []
    assert dict(replayed.not_decided) == ({"of other schedulers": others} if others else {})


def test_a_cluster_of_another_configuration_differs() -> None:
    """The comparison is not blind: pods that were packed are spread by the defaults."""
    differing = 0
    for path in sorted(PARITY_DATA.glob("profiles-[0-9]*.json.gz")):
        replayed = replay_placements(cluster_at_the_end(read_recording(path)))
        differing += sum(step.is_other_node for step in replayed.steps)
    assert differing > 20
