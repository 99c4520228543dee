"""Following a recording puts pods, nominations and objects where kube-scheduler had them.

The check does not come from our code: a recorded decision of preemption names pods that were on a
node, and a recorded pod carries the nomination that it had. Both must agree with the driver's
input.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.decision import Decision, decode_decision, encode_decision
from mooring.errors import ConfigError
from mooring.objects.meta import KubernetesObject, key
from mooring.objects.pod import Pod
from mooring.recordings.format import Effects, Recording, Step, read_recording
from mooring.simulation.replay import objects_of, replay
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA


class Answer:
    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    def decision(self) -> Decision:
        return self._decision


class Parrot:
    """Returns the recorded decisions, and records its calls."""

    def __init__(self, recording: Recording) -> None:
        self.weights: Mapping[str, int] = {}
        self.script = [step.decision for step in recording.steps]
        self.objects = {(obj.kind, key(obj)): obj for obj in objects_of(recording.objects)}
        self.on_node: dict[str, str] = {}
        self.nominated: dict[str, str] = {}
        self.start_indices: list[int | None] = []
        for obj in self.objects.values():
            if isinstance(obj, Pod) and obj.spec.node_name:
                self.on_node[key(obj)] = obj.spec.node_name
            elif isinstance(obj, Pod):
                self.nominated[key(obj)] = obj.status.nominated_node_name

    def attempt(self, pod: Pod, *, start_index: int | None, explain: bool) -> Answer:
        assert explain
        assert key(pod) not in self.on_node
        assert self.nominated.get(key(pod), "") == pod.status.nominated_node_name
        decision = self.script[len(self.start_indices)]
        self.start_indices.append(start_index)
        for node, candidate in (
            decision.preemption.candidates if decision.preemption else {}
        ).items():
            assert all(self.on_node[victim] == node for victim in candidate.victims)
        return Answer(decision)

    def place(self, pod: Pod, node_name: str) -> None:
        assert pod.spec.node_name == node_name
        assert pod.status.nominated_node_name == ""
        assert pod.status.start_time
        self.nominated.pop(key(pod), None)
        self.on_node[key(pod)] = node_name
        self.objects["Pod", key(pod)] = pod

    def remove(self, kind: str, namespace: str, name: str) -> None:
        found = self.objects.pop((kind, f"{namespace}/{name}" if namespace else name))
        self.on_node.pop(key(found), None)
        self.nominated.pop(key(found), None)

    def update(self, obj: KubernetesObject) -> None:
        self.objects[obj.kind, key(obj)] = obj

    def nominate(self, pod: Pod, node_name: str) -> None:
        assert pod.status.nominated_node_name == node_name
        assert key(pod) not in self.on_node
        self.nominated[key(pod)] = node_name
        self.objects["Pod", key(pod)] = pod


PATHS = sorted(
    path
    for family in ("preemption", "volumes", "dra", "mixed", "gates-priority", "resources")
    for path in DATA.glob(f"{family}-[1-4].json.gz")
)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.split(".")[0])
def test_the_driver_is_told_what_really_happened(path: Path) -> None:
    recording = read_recording(path)
    parrot = Parrot(recording)
    results = list(replay(recording.steps, parrot, objects=recording.objects))
    assert [result.index for result in results] == list(range(len(recording.steps)))
    assert [difference for result in results for difference in result.differences] == []
    assert parrot.start_indices == [step.start_index for step in recording.steps]
    expected = {step.pod_key: step.decision.node for step in recording.steps if step.decision.node}
    gone = {
        victim.partition(" ")[2]
        for step in recording.steps
        for victim in (step.effects.deleted if step.effects else ())
    }
    for pod, node in expected.items():
        assert (pod in gone) or parrot.on_node[pod] == node


def test_preemption_is_followed_at_all() -> None:
    recordings = [read_recording(path) for path in PATHS]
    steps = [step for recording in recordings for step in recording.steps]
    candidates = [
        c for s in steps if s.decision.preemption for c in s.decision.preemption.candidates
    ]
    assert len(candidates) > 20
    assert sum(len(step.effects.deleted) for step in steps if step.effects) > 10


def test_updated_objects_reach_the_driver() -> None:
    recording = read_recording(DATA / "volumes-1.json.gz")
    parrot = Parrot(recording)
    list(replay(recording.steps, parrot, objects=recording.objects))
    updated = {
        (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]): obj
        for step in recording.steps
        for obj in (step.effects.updated if step.effects else ())
    }
    claims = [obj for (kind, _, _), obj in updated.items() if kind == "PersistentVolumeClaim"]
    assert claims
    for claim in claims:
        name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        found: Any = parrot.objects["PersistentVolumeClaim", name]
        assert found.spec.volume_name == claim["spec"]["volumeName"]


def test_a_slip_is_reported_at_its_step_and_does_not_make_the_next_one() -> None:
    recording = read_recording(DATA / "resources-1.json.gz")
    parrot = Parrot(recording)
    index, step = next(
        (index, step) for index, step in enumerate(recording.steps) if len(step.decision.tied) > 1
    )
    assert step.decision.node is not None
    other = next(node for node in step.decision.tied if node != step.decision.node)
    text = encode_decision(step.decision).decode()
    slip = text.replace(f'"node":"{step.decision.node}"', f'"node":"{other}"')
    parrot.script[index] = decode_decision(slip)
    results = list(replay(recording.steps, parrot, objects=recording.objects))
    (difference,) = [item for result in results for item in result.differences]
    assert (difference.step, difference.field) == (index, "node")
    assert (difference.recorded, difference.decided) == (step.decision.node, other)
    assert difference.pod == step.pod_key
    assert parrot.on_node[step.pod_key] == step.decision.node


def test_steps_are_taken_one_at_a_time() -> None:
    recording = read_recording(DATA / "resources-1.json.gz")
    parrot = Parrot(recording)
    stream = replay(iter(recording.steps), parrot)
    assert next(stream).index == 0
    assert len(parrot.start_indices) == 1


def test_finished_pods_are_never_seen() -> None:
    documents: list[dict[str, Any]] = [
        {"kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "status": {"phase": phase}}
        for name, phase in [("x", "Succeeded"), ("y", "Running"), ("z", "Failed")]
    ]
    assert [key(obj) for obj in objects_of(documents)] == ["a/y"]


def test_an_object_that_cannot_be_read_is_refused_with_its_place() -> None:
    documents: list[dict[str, Any]] = [
        {"kind": "Node", "metadata": {"name": "n"}},
        {"kind": "Node", "metadata": {"name": 3}},
    ]
    with pytest.raises(ConfigError) as caught:
        objects_of(documents, file="a.json")
    assert str(caught.value).startswith("a.json: objects[1].metadata.name: ")
    with pytest.raises(ConfigError) as caught:
        objects_of([{"metadata": {}}])
    assert caught.value.path == "objects[0].kind"


def test_an_unknown_resource_among_the_effects_is_refused() -> None:
    recording = read_recording(DATA / "resources-1.json.gz")
    first = recording.steps[0]
    effects = Effects(deleted=("widgets a/b",), start_time="x")
    steps = [Step(first.pod, 1, 0, first.decision, effects)]
    with pytest.raises(ConfigError, match="widgets"):
        list(replay(steps, Parrot(recording)))


def test_a_failed_volume_is_no_finished_pod() -> None:
    status = {"phase": "Failed"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    objects = objects_of([{**volume, "status": status}, {**pod, "status": status}])
    assert [type(obj).__name__ for obj in objects] == ["PersistentVolume"]
