"""A scenario that was read: its objects, distributions and processes, ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from mooring.chance import Arrivals, Distribution
from mooring.chance.distributions import Constant
from mooring.config import KubeSchedulerConfiguration
from mooring.objects.files.sources import Source
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.types import Object
from mooring.scenario.document import Autoscaler, Deletion, Item, Scale
from mooring.scenario.expectations import Expectation
from mooring.scenario.stages.stage import Stage
from mooring.traces import Trace

#: Pods that run until they are deleted.
FOR_EVER: Final = Constant(float("inf"))
#: Pods that run as soon as they are bound.
AT_ONCE: Final = Constant(0.0)


@dataclass(frozen=True, slots=True)
class RunTime:
    """The times that pods take to start and to run.

    Attributes:
        start: From binding to running; seconds.
        duration: From running to the end; seconds.
        failure: The share of pods that fail at the end.
    """

    start: Distribution = AT_ONCE
    duration: Distribution = FOR_EVER
    failure: float = 0.0


@dataclass(frozen=True, slots=True)
class Template:
    """Objects that arrive together, or are created at a time.

    Attributes:
        pods: Pods; their names are prefixes if they arrive.
        workloads: Deployments and the like as JSON with defaults.
        others: Objects of other kinds.
    """

    pods: Sequence[Pod] = ()
    workloads: Sequence[Object] = ()
    others: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class ArrivalItem:
    """Objects that arrive by a process."""

    name: str
    arrivals: Arrivals
    template: Template
    run_time: RunTime


@dataclass(frozen=True, slots=True)
class TraceItem:
    """Pods of a trace.

    Attributes:
        name: Of the item.
        trace: The columns.
        item: Its stretch, copies and limit.
        run_time: For start and failure; and for the duration of pods without one.
    """

    name: str
    trace: Trace
    item: Item
    run_time: RunTime


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """Nodes by name, by labels, or all."""

    name: str = ""
    match_labels: Mapping[str, str] = field(default_factory=dict)

    def matches(self, node: Node) -> bool:
        """Returns whether the node is selected."""
        if self.name and node.metadata.name != self.name:
            return False
        labels = node.metadata.labels
        return all(labels.get(label) == value for label, value in self.match_labels.items())


@dataclass(frozen=True, slots=True)
class NodeAction:
    """Something that is done to nodes: drain, cordon, uncordon or fail."""

    what: str
    nodes: NodeSelection
    duration: Distribution = FOR_EVER


@dataclass(frozen=True, slots=True)
class ActionItem:
    """Something that is done at a time."""

    name: str
    at_s: float
    action: Template | NodeAction | Scale | Deletion
    run_time: RunTime


@dataclass(frozen=True, slots=True)
class FailureProcess:
    """Nodes that crash again and again."""

    name: str
    nodes: NodeSelection
    mtbf: Distribution
    mttr: Distribution
    together: str


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that the autoscaler adds and removes; see ``document.NodeGroup``."""

    name: str
    template: Node
    min: int
    max: int
    price: float
    provision: Distribution
    priority: int


class Reference(NamedTuple):
    """An object: its API version, kind, namespace ("" = it has none) and name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """The key within its kind: "namespace/name" or "name"."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def text(self) -> str:
        """The object in words."""
        return f"{self.kind} {self.key}"


class Creation(NamedTuple):
    """Creates the one object of a template."""

    template: Template
    object: Reference


class Patching(NamedTuple):
    """Patches an object; ``media_type`` says how ``patch`` is meant."""

    object: Reference
    media_type: str
    patch: Any


class Removal(NamedTuple):
    """Deletes an object."""

    object: Reference


Action: TypeAlias = Creation | Patching | Removal


class Operation(NamedTuple):
    """One operation of a step.

    Attributes:
        name: Its ID, or its place.
        action: What it does.
        source: Its place in the file, for errors.
    """

    name: str
    action: Action
    source: Source


class Step(NamedTuple):
    """One step: its number, and its operations in order."""

    number: int
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Attributes:
        name: Of the scenario.
        seed: Of all chance.
        end_s: The end of the run; None = when nothing will happen any more.
        objects: The cluster at the start, without pending pods; pods of groups not included.
        pending: Pods of the cluster's files that have no node; they arrive at the start.
        controlled: The workloads of the cluster's files.
        groups: The autoscaler's groups.
        prices: Prefix of node names -> price of an hour.
        autoscaler: Its settings.
        items: What arrives and happens.
        defaults: Start and run time of pods without own ones.
        failures: Nodes that crash.
        config: Of the scheduler; None = kube-scheduler's defaults.
        plugins: Further plugins.
        gates: Feature gates whose value is not the default.
        attempt_s: How long an attempt takes.
        expectations: What the results are held to.
        source: The scenario as plain values, for the results.
        notes: What was left out of traces, and assumed.
        stages: KWOK's stages of pods and nodes.
        steps: Operations of kube-scheduler-simulator: each step when the one before is over.
    """

    name: str
    seed: int
    end_s: float | None
    objects: Sequence[Any]
    pending: Sequence[Pod]
    controlled: Sequence[Object]
    groups: Sequence[NodeGroup]
    prices: Mapping[str, float]
    autoscaler: Autoscaler
    items: Sequence[ArrivalItem | TraceItem | ActionItem]
    defaults: RunTime
    failures: Sequence[FailureProcess]
    config: KubeSchedulerConfiguration | None
    plugins: Sequence[Any]
    gates: Mapping[str, bool]
    attempt_s: float
    expectations: Sequence[Expectation]
    source: Object
    notes: Sequence[str] = ()
    stages: Sequence[Stage] = ()
    steps: Sequence[Step] = ()
