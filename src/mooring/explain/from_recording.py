"""Explains a decision of a recording, without deciding again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from mooring.config import from_document
from mooring.dra import features_of
from mooring.errors import ConfigError
from mooring.explain.explain import DEFAULTS, Explained, Options, text_of
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.queue import profile_of
from mooring.recordings.format import Recording, RecordingReader, Step
from mooring.simulation.build import configuration_of, driver_of
from mooring.simulation.cluster import Cluster
from mooring.simulation.driver import Driver
from mooring.simulation.replay import Outcome, RecordedOutcomes, located_within, objects_of, pod_of
from mooring.simulation.utilization import Utilization
from mooring.simulation.weights import score_weights


class UtilizationReplayer:
    """A replay target that only tracks objects and the utilization of nodes."""

    def __init__(self, utilization: Utilization, cluster: Cluster) -> None:
        """Updates ``utilization`` and ``cluster``, which belong to the caller."""
        self.utilization = utilization
        self.cluster = cluster
        self.weights: Mapping[str, int] = {}

    def attempt(self, pod: Pod, *, start_index: int | None, explain: bool) -> Outcome:
        """Raises: no decision is made."""
        raise NotImplementedError

    def place(self, pod: Pod, node_name: str) -> None:
        """Places the pod."""
        self.utilization.add(pod, node_name)
        self.cluster.place(pod, node_name)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Removes an object."""
        if kind == "Pod":
            self.utilization.remove(f"{namespace}/{name}")
        self.cluster.remove(kind, namespace, name)

    def update(self, obj: KubernetesObject) -> None:
        """Stores an object; in a recording no update changes a node's utilization."""
        self.cluster.update(obj)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Nominates a node for a pod, which is not placed by that."""
        self.cluster.nominate(pod, node_name)


def explain_recording(
    file: str,
    pod: str,
    *,
    attempt: int | None = None,
    options: Options = DEFAULTS,
    gates: Mapping[str, bool] = MappingProxyType({}),
    render: Callable[[Explained], str] = text_of,
) -> str:
    """Explains an attempt of a recording, by default the pod's last one.

    Args:
        file: The recording.
        pod: Name or ``namespace/name``.
        attempt: The attempt's number, from 1.
        options: What to explain.
        gates: The feature gates whose value is not the default.
        render: Returns the explanation as text; it is called while the cluster is as it was.

    Raises:
        ConfigError: the recording is invalid, or has no such pod or attempt.
    """
    pod_keys: dict[str, None] = {}
    explanation = None
    with RecordingReader(file) as reader:
        header = reader.header
        objects = objects_of(header.objects, file=file)
        utilization = Utilization(objects)
        cluster = _cluster(header, objects, file, gates)
        outcomes = RecordedOutcomes(UtilizationReplayer(utilization, cluster), header.objects)
        for index, step in enumerate(reader):
            pod_keys[step.pod_key] = None
            if _is_match(step, pod, attempt):
                pod_object = pod_of(step, index, file=file)
                name = profile_of(pod_object)
                explained = Explained(
                    pod_object,
                    step.decision,
                    utilization,
                    weights=_weights(header.config, step),
                    snapshot=cluster.cache.snapshot(),
                    framework=cluster.frameworks.get(name) if isinstance(cluster, Driver) else None,
                    options=options,
                    driver=cluster if isinstance(cluster, Driver) else None,
                )
                explanation = render(explained)
            with located_within(f"steps[{index}]", file=file):
                outcomes.apply(step)
    if explanation is None:
        raise _not_found(file, pod, attempt, list(pod_keys))
    return explanation


def _cluster(
    header: Recording, objects: list[KubernetesObject], file: str, gates: Mapping[str, bool]
) -> Driver | Cluster:
    """Returns a cluster with the recorded plugins; without plugins if one of them is unknown."""
    try:
        config = configuration_of(header, file=file)
        return driver_of(header, config=config, file=file, gates=gates)
    except ConfigError:
        return Cluster(objects, features_of(gates))


def _is_match(step: Step, pod: str, attempt: int | None) -> bool:
    has_name = pod in (step.pod_key, step.pod_key.rpartition("/")[2])
    return has_name and attempt in (None, step.attempt)


def _weights(config: dict[str, Any] | None, step: Step) -> Mapping[str, int]:
    name = str((step.pod.get("spec") or {}).get("schedulerName") or "")
    return score_weights(from_document(config) if config is not None else None, name)


def _not_found(file: str, pod: str, attempt: int | None, pod_keys: list[str]) -> ConfigError:
    names = [name.rpartition("/")[2] for name in pod_keys]
    if pod in pod_keys or pod in names:
        return ConfigError(f"no attempt {attempt} of pod {pod!r}", file=file)
    matches = get_close_matches(pod, pod_keys if "/" in pod else names, n=1)
    suggestion = matches[0] if matches else None
    return ConfigError(f"no step for pod {pod!r}", file=file, suggestion=suggestion)
