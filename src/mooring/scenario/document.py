"""The scenario file, as it is written: structs that a strict reader fills.

Fields of type ``Any`` have forms of their own: distributions and arrival processes
(``mooring.chance``), and Kubernetes objects. Durations are texts such as "90s" or "12h", in structs
seconds.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

from mooring.config.types import Seconds

API_VERSION: Final = "mooring.dev/v1alpha1"
KIND: Final = "Scenario"

#: Limit of the nodes of one entry, and of copies of a trace.
NODES_MAX: Final = 100_000
_Count = Annotated[int, Meta(ge=0, le=NODES_MAX)]
_Copies = Annotated[int, Meta(ge=1, le=1000)]


class Metadata(Struct, frozen=True, rename="camel"):
    """The name of a scenario."""

    name: str = ""


class End(Struct, frozen=True, rename="camel"):
    """The end of a run.

    Attributes:
        at: At this time, in seconds; None = as ``after`` says.
        after: ``settled`` (default): when nothing will happen any more.
    """

    at: Seconds | None = None
    after: str | None = None


class Nodes(Struct, frozen=True, rename="camel"):
    """Equal nodes: ``name`` is the prefix of their names, ``template`` a Node without a name."""

    count: _Count
    name: str
    template: dict[str, Any]
    price: float = 0.0


class NodeGroup(Struct, frozen=True, rename="camel"):
    """Nodes that the autoscaler adds and removes.

    Attributes:
        name: Also the prefix of the nodes' names.
        template: A Node without a name.
        min: The fewest nodes; so many are there at the start.
        max: The most nodes.
        price: Of one node for an hour.
        provision: Distribution of the time from request to ready node.
        priority: For the expander ``priority``; the highest is preferred.
    """

    name: str
    template: dict[str, Any]
    max: _Count
    min: _Count = 0
    price: float = 0.0
    provision: Any = "90s"
    priority: int = 0


class Cluster(Struct, frozen=True, rename="camel"):
    """The cluster at the start: objects of files, generated nodes, groups of an autoscaler."""

    files: tuple[str, ...] = ()
    nodes: tuple[Nodes, ...] = ()
    groups: tuple[NodeGroup, ...] = ()


class Scheduler(Struct, frozen=True, rename="camel"):
    """The scheduler under test.

    Attributes:
        config: Its configuration file; "" = kube-scheduler's defaults.
        plugins: Further plugins, ``module:attribute``.
        feature_gates: Gates whose value is not the default.
        attempt_time: How long one attempt takes, in seconds.
        pods_per_second: The same as a rate; at most one of the two.
    """

    config: str = ""
    plugins: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = field(default_factory=dict)
    attempt_time: Seconds | None = None
    pods_per_second: float | None = None


class Autoscaler(Struct, frozen=True, rename="camel"):
    """The cluster autoscaler's settings, with the defaults of cluster-autoscaler; in seconds."""

    expander: tuple[str, ...] = ("least-waste",)
    scan_interval: Seconds = 10.0
    scale_down: bool = True
    scale_down_unneeded_time: Seconds = 600.0
    scale_down_delay_after_add: Seconds = 600.0
    scale_down_utilization_threshold: float = 0.5
    max_node_provision_time: Seconds = 900.0


class PodDefaults(Struct, frozen=True, rename="camel"):
    """The times that pods take to start and run, unless their workload says otherwise.

    Attributes:
        start: Distribution of the time from binding to running.
        duration: Distribution of the time from running to success; None = they run for ever.
        failure: The share of pods (0..1) that fail at the end of their time.
    """

    start: Any = "0s"
    duration: Any = None
    failure: float = 0.0


class Scale(Struct, frozen=True, rename="camel"):
    """Other replicas for a Deployment, ReplicaSet, StatefulSet or ReplicationController."""

    replicas: Annotated[int, Meta(ge=0, le=1_000_000)]
    kind: str = "Deployment"
    name: str = ""
    namespace: str = "default"


class NodeAction(Struct, frozen=True, rename="camel"):
    """Nodes, by name or by label; ``duration`` is for ``fail``: distribution, None = for ever."""

    node: str = ""
    match_labels: dict[str, str] = field(default_factory=dict)
    duration: Any = None


class Deletion(Struct, frozen=True, rename="camel"):
    """An object to delete by kind and name, or pods by label."""

    kind: str = "Pod"
    name: str = ""
    namespace: str = "default"
    match_labels: dict[str, str] = field(default_factory=dict)


class Item(Struct, frozen=True, rename="camel"):
    """One entry of the workload: a trace, something that arrives, or an action at a time.

    Attributes:
        name: For results, and for the streams of chance; "" = its place in the list.
        trace: A file with a trace, or ``openb:LIST``.
        format: The format of the trace; "" = as its content says.
        columns: The columns of a CSV trace.
        stretch: Factor of the trace's times between arrivals.
        stretch_duration: Factor of its run times.
        copies: How often each pod of the trace arrives.
        limit: The largest number of pods.
        arrive: An arrival process.
        object: The object, or the list of objects, that arrives.
        duration: Distribution of the run time of its pods.
        start: Distribution of the time from binding to running.
        failure: The share of its pods that fail.
        at: The time of an action, in seconds.
        create: Objects to create.
        scale: Other replicas.
        drain: A node that is cordoned, and whose pods are evicted as budgets allow.
        cordon: A node that takes no more pods.
        uncordon: A node that takes pods again.
        fail: A node that crashes.
        delete: Objects to delete.
    """

    name: str = ""
    trace: str = ""
    format: str = ""
    columns: dict[str, Any] = field(default_factory=dict)
    stretch: float = 1.0
    stretch_duration: float = 1.0
    copies: _Copies = 1
    limit: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    arrive: Any = None
    object: Any = None
    duration: Any = None
    start: Any = None
    failure: float | None = None
    at: Seconds | None = None
    create: Any = None
    scale: Scale | None = None
    drain: NodeAction | None = None
    cordon: NodeAction | None = None
    uncordon: NodeAction | None = None
    fail: NodeAction | None = None
    delete: Deletion | None = None


class Failures(Struct, frozen=True, rename="camel"):
    """Nodes that crash again and again.

    Attributes:
        name: For the streams of chance; "" = its place in the list.
        match_labels: Which nodes; none = all.
        mtbf: Mean time between failures of a node: mean of an exponential, or a distribution.
        mttr: The time until it is back: the same.
        together: A label; nodes with equal values crash together.
    """

    mtbf: Any
    mttr: Any
    name: str = ""
    match_labels: dict[str, str] = field(default_factory=dict)
    together: str = ""


class Spec(Struct, frozen=True, rename="camel"):
    """A scenario: the cluster, what arrives and happens, and what is expected of it.

    Attributes:
        stages: Files of KWOK's Stage documents, which then start and end pods, or change nodes.
    """

    cluster: Cluster = Cluster()
    workload: tuple[Item, ...] = ()
    seed: int = 0
    end: End = End()
    scheduler: Scheduler = Scheduler()
    autoscaler: Autoscaler = Autoscaler()
    pods: PodDefaults = PodDefaults()
    failures: tuple[Failures, ...] = ()
    stages: tuple[str, ...] = ()
    expect: tuple[dict[str, Any], ...] = ()


class Document(Struct, frozen=True, rename="camel"):
    """A scenario file."""

    api_version: str
    kind: str
    spec: Spec
    metadata: Metadata = Metadata()
