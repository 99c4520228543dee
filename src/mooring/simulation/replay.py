"""Replays a recording: decides each step again, compares, then applies the recorded outcome.

::

    recording ──header──▶ driver with the recorded cluster
        step ──pod, start index──▶ driver.attempt ──▶ Decision ──compare──▶ differences
        step ──recorded outcome, effects──▶ driver (so that one difference does not cause more)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from mooring.config import KubeSchedulerConfiguration
from mooring.decision import Decision
from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.files.generic_objects import Definition, definitions_in, generic_object
from mooring.objects.kinds import KINDS, kind_of_resource
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.recordings.compare import differences
from mooring.recordings.difference import Difference
from mooring.recordings.format import Document, Effects, Step, object_key
from mooring.simulation.weights import score_weights

#: Size of the cache of weights by schedulerName; pods may carry any name.
WEIGHTS_CACHE_SIZE: Final = 64


class Outcome(Protocol):
    """The outcome of an attempt; its Decision is built on demand."""

    def decision(self) -> Decision:
        """Returns the full record of the attempt."""
        ...


class ReplayTarget(Protocol):
    """The driver's interface for a replay: makes decisions and applies recorded outcomes."""

    @property
    def weights(self) -> Mapping[str, int]:
        """Score weights by plugin."""
        ...

    def attempt(self, pod: Pod, *, start_index: int | None, explain: bool) -> Outcome:
        """Decides about a pod without changing the cluster."""
        ...

    def place(self, pod: Pod, node_name: str) -> object:
        """Places the pod on the node."""
        ...

    def remove(self, kind: str, namespace: str, name: str) -> object:
        """Removes the object."""
        ...

    def update(self, obj: KubernetesObject) -> object:
        """Adds or replaces the object."""
        ...

    def nominate(self, pod: Pod, node_name: str) -> object:
        """Sets the pod's nominated node; "" clears it."""
        ...


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """One replayed step: the new decision and its differences from the recorded one."""

    index: int
    step: Step
    decided: Decision
    differences: list[Difference]
    #: Plugin -> weight of its score, in the new decision.
    weights: Mapping[str, int]


def replay(
    steps: Iterable[Step],
    driver: ReplayTarget,
    *,
    objects: Iterable[Document] = (),
    only: Collection[str] | None = None,
    config: KubeSchedulerConfiguration | None = None,
    file: str | None = None,
) -> Iterator[ReplayedStep]:
    """Decides every step again on the recorded state; yields one result per step.

    Args:
        steps: The steps of a recording, in order.
        driver: Holds the recording's cluster before the first step.
        objects: The recording's objects; effects may nominate pods among them.
        only: Compare only the results of these plugins; None = everything.
        config: The driver's configuration, whose profiles may have different score weights;
            None = the driver's weights apply to all pods.
        file: The recording, for errors.
    """
    recorded_outcomes = RecordedOutcomes(driver, objects)

    @lru_cache(maxsize=WEIGHTS_CACHE_SIZE)
    def weights_of(scheduler_name: str) -> Mapping[str, int]:
        if config is None:
            return driver.weights
        return {**driver.weights, **score_weights(config, scheduler_name)}

    for index, step in enumerate(steps):
        pod = pod_of(step, index, file=file)
        outcome = driver.attempt(pod, start_index=step.start_index, explain=True)
        decided = outcome.decision()
        weights = weights_of(pod.spec.scheduler_name)
        step_differences = differences(
            index,
            step.decision,
            decided,
            pod=step.pod_key,
            only=only,
            weights=weights,
        )
        yield ReplayedStep(index, step, decided, step_differences, weights)
        with located_within(f"steps[{index}]", file=file):
            recorded_outcomes.apply(step)


@contextmanager
def located_within(path: str, *, file: str | None = None) -> Iterator[None]:
    """Adds a path, and a file, to the errors of what is there."""
    try:
        yield
    except ConfigError as error:
        inner = f"{path}.{error.path}" if error.path else path
        raise ConfigError(
            error.problem,
            file=error.file or file,
            path=inner,
            value=error.value,
            suggestion=error.suggestion,
        ) from error


def pod_of(step: Step, index: int, *, file: str | None = None) -> Pod:
    """Returns the pod of a step, the one with this index in the file.

    Raises:
        ConfigError: it cannot be read.
    """
    with located_within(f"steps[{index}].pod", file=file):
        pod: Pod = convert(step.pod, "Pod")
    return pod


class RecordedOutcomes:
    """Applies recorded outcomes; stores the pods, since effects name them by key."""

    def __init__(self, driver: ReplayTarget, objects: Iterable[Document] = ()) -> None:
        """Starts with the pods among ``objects``."""
        self._driver = driver
        self._pods = {object_key(obj): obj for obj in objects if obj.get("kind") == "Pod"}

    def apply(self, step: Step) -> None:
        """Brings the driver's cluster to its recorded state after the step.

        Raises:
            ConfigError: the effects name a resource or an object that cannot be read.
        """
        effects = step.effects or Effects()
        with located_within("pod"):
            self._apply_outcome(step, effects)
        for deleted in effects.deleted:
            self._remove(deleted)
        for index, document in enumerate(effects.updated):
            with located_within(f"effects.updated[{index}]"):
                obj = convert(document, _kind_of(document))
            self._driver.update(obj)
        for key, node_name in effects.nominated.items():
            if key != step.pod_key and key in self._pods:
                self._nominate(key, self._pods[key], node_name)

    def _apply_outcome(self, step: Step, effects: Effects) -> None:
        key, decision = step.pod_key, step.decision
        if decision.node is None:
            after = decision.nominated_node_after
            before = str(_part(step.pod, "status").get("nominatedNodeName", ""))
            self._nominate(key, step.pod, before if after is None else after)
            return
        status: Document = {"nominatedNodeName": None}
        if effects.start_time is not None:
            status["startTime"] = effects.start_time
        if effects.extended_resource_claim_status is not None:
            status["extendedResourceClaimStatus"] = effects.extended_resource_claim_status
        placed = _changed(step.pod, spec={"nodeName": decision.node}, status=status)
        self._pods[key] = placed
        self._driver.place(convert(placed, "Pod"), decision.node)

    def _nominate(self, key: str, pod: Document, node_name: str) -> None:
        changed = _changed(pod, status={"nominatedNodeName": node_name or None})
        self._pods[key] = changed
        self._driver.nominate(convert(changed, "Pod"), node_name)

    def _remove(self, deleted: str) -> None:
        resource, _, key = deleted.partition(" ")
        namespace, _, name = key.rpartition("/")
        kind = kind_of_resource(resource).name
        if kind == "Pod":
            self._pods.pop(key, None)
        self._driver.remove(kind, namespace, name)


def objects_of(documents: Sequence[Document], *, file: str | None = None) -> list[Any]:
    """Returns the recorded objects as structs, in order of arrival.

    Finished pods are omitted: a scheduler never sees them.

    Raises:
        ConfigError: an object cannot be read; the error's path names it.
    """
    objects: list[Any] = []
    definitions = definitions_in(documents)
    for index, document in enumerate(documents):
        try:
            is_pod = document.get("kind") == "Pod"  # a volume can be Failed, too
            if is_pod and _part(document, "status").get("phase") in ("Succeeded", "Failed"):
                continue
            objects.append(_object_of(document, definitions))
        except ConfigError as error:
            path = f"objects[{index}]" + (f".{error.path}" if error.path else "")
            raise ConfigError(error.problem, file=file, path=path, value=error.value) from error
    return objects


def _object_of(document: Document, definitions: Mapping[tuple[str, str], Definition]) -> Any:
    """Returns an object as a struct; one of a kind that only plugins read has none."""
    kind = _kind_of(document)
    api_version = document.get("apiVersion")
    own = KINDS.get(kind)
    if not api_version or (own is not None and own.api_version == api_version):
        return convert(document, kind)
    return generic_object(document, definitions)


def _kind_of(document: Document) -> str:
    kind = document.get("kind")
    if not isinstance(kind, str):
        raise ConfigError("must be a string", path="kind", value=kind)
    return kind


def _part(document: Document, name: str) -> Document:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _changed(document: Document, **parts: Document) -> Document:
    """Returns a copy with fields of its parts replaced; None removes one. The rest is shared."""
    changed = dict(document)
    for part, fields in parts.items():
        merged = {**_part(document, part), **fields}
        changed[part] = {name: value for name, value in merged.items() if value is not None}
    return changed
