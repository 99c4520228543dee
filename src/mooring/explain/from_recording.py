"""Explains a decision of a recording: the cluster is followed up to it, nothing is decided."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from mooring.config import from_document
from mooring.errors import ConfigError
from mooring.explain.explain import explain
from mooring.objects.codec.decode import convert
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.recordings.format import RecordingReader, Step
from mooring.simulation.replay import Follower, Outcome, objects_of
from mooring.simulation.utilization import Fill
from mooring.simulation.weights import score_weights


class FillFollower:
    """Takes the part of the driver in following a recording, and only counts what is where."""

    def __init__(self, fill: Fill) -> None:
        """Counts into ``fill``, which belongs to the caller."""
        self.fill = fill
        self.weights: Mapping[str, int] = {}

    def attempt(self, pod: Pod, *, start_index: int | None, explain: bool) -> Outcome:
        """Not for this one."""
        raise NotImplementedError

    def place(self, pod: Pod, node_name: str) -> None:
        """Counts the pod on the node."""
        self.fill.add(pod, node_name)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Counts a pod no longer."""
        if kind == "Pod":
            self.fill.remove(f"{namespace}/{name}")

    def update(self, obj: KubernetesObject) -> None:
        """Nothing that changes in a recording changes how full a node is."""

    def nominate(self, pod: Pod, node_name: str) -> None:
        """A nominated pod is not there yet."""


def told_by_recording(file: str, pod: str, *, attempt: int | None = None) -> str:
    """Explains an attempt of a recording, by default the last one at that pod.

    Args:
        file: The recording.
        pod: Name or ``namespace/name``.
        attempt: Its number, from 1.

    Raises:
        ConfigError: the recording is bad, or has no such pod or attempt.
    """
    known: dict[str, None] = {}
    told = None
    with RecordingReader(file) as reader:
        header = reader.header
        fill = Fill(objects_of(header.objects, file=file))
        follower = Follower(FillFollower(fill), header.objects)
        for step in reader:
            known[step.pod_key] = None
            if _is_wanted(step, pod, attempt):
                weights = _weights(header.config, step)
                told = explain(convert(step.pod, "Pod"), step.decision, fill, weights=weights)
            follower.apply(step)
    if told is None:
        raise _unknown(file, pod, attempt, list(known))
    return told


def _is_wanted(step: Step, pod: str, attempt: int | None) -> bool:
    named = pod in (step.pod_key, step.pod_key.rpartition("/")[2])
    return named and attempt in (None, step.attempt)


def _weights(config: dict[str, Any] | None, step: Step) -> Mapping[str, int]:
    name = str((step.pod.get("spec") or {}).get("schedulerName") or "")
    return score_weights(from_document(config) if config is not None else None, name)


def _unknown(file: str, pod: str, attempt: int | None, known: list[str]) -> ConfigError:
    short = [name.rpartition("/")[2] for name in known]
    if pod in known or pod in short:
        return ConfigError(f"no attempt {attempt} of pod {pod!r}", file=file)
    near = get_close_matches(pod, known if "/" in pod else short, n=1)
    suggestion = near[0] if near else None
    return ConfigError(f"no step for pod {pod!r}", file=file, suggestion=suggestion)
