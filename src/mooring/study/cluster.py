"""A cluster as a value: nodes, running pods and other objects, and pods to schedule."""

from __future__ import annotations

import asyncio
import operator
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count as count_from
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mooring.clock import SystemClock, seeded_random
from mooring.component.gate_settings import changed_gates
from mooring.config import KubeSchedulerConfiguration, default_configuration, load
from mooring.errors import ConfigError
from mooring.objects.counts import counted
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.types import Object
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.inputs.gated_kinds import gated_kind, ignored_kinds, with_gated_kinds
from mooring.simulation.inputs.unsupported import notes
from mooring.simulation.inputs.workloads import merged, scaled
from mooring.simulation.run import SimulationOptions, SimulationRun
from mooring.simulation.utilization import Utilization
from mooring.simulation.weights import score_weights
from mooring.simulation.workload import Workload, read_sources, read_workload, workload_of
from mooring.study.explanation import AttemptExplainer, Explanation
from mooring.study.result import Result
from mooring.study.suggestions import Contents, Search, Suggestions
from mooring.study.templates import CreatedPod
from mooring.virtual_loop import no_running_loop

if TYPE_CHECKING:
    from mooring.simulation.inputs.live_cluster import LiveObjects

_HOSTNAME: Final = "kubernetes.io/hostname"

#: What ``simulate`` takes as pods: names of files or lists, or pods.
Pods = str | Path | Iterable[str | Path] | Iterable[Pod]


class Cluster:
    """The objects of a cluster; every method returns a new one.

    ``workloads`` are Deployments and the like, as JSON with defaults, as files have them.

    Example:
        >>> from mooring.testing import make_node, make_pod
        >>> cluster = Cluster([make_node("a"), make_pod("web", requests={"cpu": "1"})])
        >>> cluster.simulate()["web"].node
        'a'
    """

    def __init__(
        self,
        objects: Iterable[Any] = (),
        *,
        name: str = "cluster",
        workloads: Sequence[Object] = (),
    ) -> None:
        """Takes objects; pods without a node are pending.

        Raises:
            ConfigError: something is not an object, such as a name or a dict.
        """
        self._objects = _checked(objects)
        self._name = name
        self.workloads = workloads
        self._as_workload = Workload(name, self._objects, [], controlled=workloads)

    # -- where from -------------------------------------------------------------------------------

    @classmethod
    def read(cls, *files: str | Path, skip_validation: bool = False) -> Cluster:
        """Reads files and folders of YAML or JSON, as ``mooring simulate --cluster`` does.

        Raises:
            ConfigError: a file cannot be read, or has an object that an API server would refuse.
        """
        if not files:
            raise ConfigError("no file to read")
        workload = read_workload([str(file) for file in files], skip_validation=skip_validation)
        objects = [*workload.objects, *workload.pending]
        return cls(objects, name=workload.name, workloads=workload.controlled)

    @classmethod
    def openb(cls, nodes: str = "gpu") -> Cluster:
        """Returns the nodes of the openb trace, 1 213 by default; "all" are 1 523."""
        from mooring.traces.openb import read_nodes

        return cls(read_nodes(nodes), name="openb")

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        *,
        context: str | None = None,
        kinds: Sequence[str] = (),
    ) -> Cluster:
        """Lists the objects of a live cluster, once; nothing is written.

        Args:
            path: The kubeconfig; None = as kubectl finds it.
            context: The context; None = the current one.
            kinds: Resources that plugins list: "podgroups.v1alpha1.scheduling.x-k8s.io".

        Raises:
            ConfigError: the cluster cannot be reached, or denies access.
        """
        name, listed = _listed(path, context, kinds)
        return cls(listed.objects, name=name, workloads=listed.workloads)

    # -- what is there ----------------------------------------------------------------------------

    @property
    def objects(self) -> list[Any]:
        """All objects."""
        return list(self._objects)

    @property
    def nodes(self) -> dict[str, Node]:
        """The nodes by name."""
        return {obj.metadata.name: obj for obj in self._objects if isinstance(obj, Node)}

    @property
    def pods(self) -> dict[str, Pod]:
        """The pods by "namespace/name"."""
        return {key(obj): obj for obj in self._objects if isinstance(obj, Pod)}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._objects, self._name, self.workloads)

    def __repr__(self) -> str:
        pending = sum(not pod.spec.node_name for pod in self.pods.values())
        nodes, pods = counted(len(self.nodes), "node"), counted(len(self.pods), "pod")
        return f"Cluster {self._name}: {nodes}, {pods} ({pending} pending)"

    # -- other clusters ---------------------------------------------------------------------------

    def with_objects(self, *objects: Any) -> Cluster:
        """Returns the cluster with more objects; they replace those of the same kind and name.

        Raises:
            ConfigError: something is not an object, such as a list of them.
        """
        _checked(objects)
        new = {(type(obj).__name__, key(obj)) for obj in objects}
        others = [obj for obj in self._objects if (type(obj).__name__, key(obj)) not in new]
        return self._with([*others, *objects])

    def with_nodes(self, count: int, *, like: str, name: str | None = None) -> Cluster:
        """Returns the cluster with more nodes like an existing one, empty.

        Args:
            count: How many.
            like: The name of the node.
            name: The beginning of their names; the node's own by default.

        Raises:
            ConfigError: there is no such node, or the number is negative or no integer.
        """
        count = _number("count", count)
        model, names = self._node(like), _new_names(name or like, self.nodes)
        made = [_like(model, new) for new in islice(names, count)]
        return self._with([*self._objects, *made])

    def without(self, *names: str) -> Cluster:
        """Returns the cluster without some nodes and the pods on them, or without some pods.

        Raises:
            ConfigError: there is no such node or pod.
        """
        nodes = {name for name in names if name in self.nodes}
        pods = {_pod_key(name, self.pods) for name in names if name not in nodes}

        def is_kept(obj: Any) -> bool:
            if isinstance(obj, Pod):
                return key(obj) not in pods and obj.spec.node_name not in nodes
            return not (isinstance(obj, Node) and obj.metadata.name in nodes)

        return self._with([obj for obj in self._objects if is_kept(obj)])

    def cordon(self, *names: str) -> Cluster:
        """Returns the cluster with some nodes unschedulable.

        Raises:
            ConfigError: there is no such node.
        """
        changed = [self._node(name) for name in names]
        return self.with_objects(*map(_cordoned, changed))

    def scale(self, name: str, replicas: int) -> Cluster:
        """Returns the cluster with other replicas of a workload.

        Pods that are missing then are scheduled by ``simulate``; those that are too many go.

        Args:
            name: "KIND/NAME" or "KIND/NAMESPACE/NAME", such as "deployment/web".
            replicas: How many.

        Raises:
            ConfigError: there is no such workload, or the number is negative or no integer.
        """
        number = _number("replicas", replicas)
        workloads = scaled(self.workloads, _workload_name(name), number)
        return Cluster(self._objects, name=self._name, workloads=workloads)

    def _with(self, objects: list[Any]) -> Cluster:
        return Cluster(objects, name=self._name, workloads=self.workloads)

    def _node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            raise ConfigError(f"no node {name!r} in this cluster")
        return node

    # -- simulation -------------------------------------------------------------------------------

    def simulate(
        self,
        pods: Pods = (),
        *,
        config: KubeSchedulerConfiguration | str | Path | None = None,
        plugins: Sequence[str | Any] = (),
        seed: int = 0,
        order: str = "queue",
        feature_gates: Mapping[str, bool] | str | None = None,
    ) -> Result:
        """Schedules the pending pods, and more, on virtual time; nothing is written anywhere.

        Args:
            pods: Further pods: files, folders, ``openb:LIST``, or Pod objects.
            config: A KubeSchedulerConfiguration, or its file; None = kube-scheduler's defaults.
            plugins: Further plugins: objects, or ``module:attribute``.
            seed: Of all random numbers.
            order: "queue", or "shuffle" = the pods arrive in random order.
            feature_gates: Those of kube-scheduler, by name or as a text "NAME=BOOL,...".

        Raises:
            ConfigError: a file, the configuration or a plugin cannot be used.
        """
        gates = changed_gates(feature_gates)
        workload = with_controller_results(_with_pods(self._as_workload, pods, gates))
        options = SimulationOptions(
            config=settings_of(config),
            plugins=plugins,
            seed=seed,
            order=order,
            with_scores=True,
            gates=gates,
        )
        utilization, clock = Utilization(workload.objects), SystemClock()
        run = SimulationRun(workload, options._replace(on_change=utilization.on_change))
        started_s = clock.monotonic_s()
        simulation = run.run()
        labels = {name: node.metadata.labels for name, node in self.nodes.items()}
        return Result(
            workload.name,
            simulation,
            utilization,
            lambda pod: _explained(workload, options, pod),
            clock.monotonic_s() - started_s,
            labels,
        )

    def what_would_help(
        self,
        pod: str,
        pods: Pods = (),
        *,
        config: KubeSchedulerConfiguration | str | Path | None = None,
        plugins: Sequence[str | Any] = (),
        seed: int = 0,
        feature_gates: Mapping[str, bool] | str | None = None,
    ) -> Suggestions[Cluster]:
        """Returns the smallest changes with which a pending pod gets a node.

        Changes of the pod, of nodes and of other objects are tried, then pairs of them. Each is
        checked with a simulation of all pending pods. ``pod`` is a name or "namespace/name", also
        of a pod that a controller creates, by the name that ``simulate`` gives it: edits of it are
        edits of its workload's template. The other arguments are those of ``simulate``.

        Raises:
            ConfigError: there is no such pod, or a file, the configuration or a plugin cannot be
                used.

        Example:
            >>> from mooring.testing import make_node, make_pod
            >>> cluster = Cluster([make_node("a", unschedulable=True), make_pod("web")])
            >>> help = cluster.what_would_help("web")[0]
            >>> help.text, help.node
            ('uncordon node a', 'a')
            >>> help.apply().simulate()["web"].node
            'a'
        """
        settings, gates = settings_of(config), changed_gates(feature_gates)
        workload = _with_pods(self._as_workload, pods, gates)
        search = Search(workload, settings, plugins, seed, gates)
        return _suggestions(pod, workload, search)


def _made(objects: list[Any], name: str, workloads: Sequence[Object]) -> Cluster:
    return Cluster(objects, name=name, workloads=workloads)


def _checked(objects: Iterable[Any]) -> list[Any]:
    checked = list(objects)
    for place, obj in enumerate(checked):
        if not hasattr(obj, "metadata"):
            problem = "must be an object, such as those of mooring.testing.make_node"
            raise ConfigError(problem, path=f"objects[{place}]", value=obj)
    return checked


def _workload_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ConfigError("must be a string such as 'deployment/web'", path="name", value=name)
    return name


def _number(path: str, value: Any) -> int:
    try:
        number = operator.index(value)  # also an integer of numpy
    except TypeError:
        raise ConfigError("must be an integer", path=path, value=value) from None
    if number < 0:
        raise ConfigError("must be 0 or more", path=path, value=value)
    return number


def _suggestions(pod: str, workload: Workload, search: Search) -> Suggestions[Cluster]:
    """Returns the changes that help a pod of a workload, or that a controller creates."""
    objects = [*workload.objects, *workload.pending, *workload.omitted]
    base = Cluster(objects, name=workload.name, workloads=workload.controlled)
    created = () if _named(pod, base.pods) else search.created_pods(workload)
    by_key = base.pods | {key(own): own for own in created}
    pod_key = _pod_key(pod, by_key)
    which = None
    if pod_key not in base.pods:
        which = CreatedPod.of(by_key[pod_key], created, base.workloads)

    def node_in(cluster: Cluster) -> str:
        result = cluster.simulate(
            config=search.config,
            plugins=search.plugins,
            seed=search.seed,
            feature_gates=search.gates,
        )
        own_key = pod_key
        if which is not None:
            changed = workload_of(workload.name, cluster.objects)
            changed = changed._replace(controlled=cluster.workloads)
            own = which.among(search.created_pods(changed), cluster.workloads)
            own_key = "" if own is None else key(own)
        return {own.pod: own.node for own in result}.get(own_key, "")

    node = by_key[pod_key].spec.node_name or node_in(base)
    is_pending = which is not None or pod_key in map(key, workload.pending)
    if node or not is_pending:
        return Suggestions(pod_key, node)

    def cluster_of(contents: Contents) -> Cluster:
        return Cluster(contents.objects, name=workload.name, workloads=contents.workloads)

    contents, pod_object = Contents(objects, base.workloads), by_key[pod_key]
    suggestions = search.suggestions(pod_object, contents, cluster_of, node_in, which)
    return Suggestions(pod_key, "", suggestions)


def _named(name: str, pods: Iterable[str]) -> list[str]:
    """Returns the keys of pods with this name, or with this key."""
    return [own for own in pods if name in (own, own.rpartition("/")[2])]


def _pod_key(name: str, pods: Iterable[str]) -> str:
    matches = _named(name, pods)
    if len(matches) != 1:
        raise ConfigError(
            f"several pods are named {name!r}" if matches else f"no node or pod {name!r}"
        )
    return matches[0]


def _cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))


def _with_pods(workload: Workload, pods: Pods, gates: Mapping[str, bool]) -> Workload:
    """Returns a workload with further pods, as a scheduler with the gates reads them.

    Warns of objects that need a gate that is off.
    """
    items = [pods] if isinstance(pods, str | Path) else list(pods)
    sources = [str(item) for item in items if isinstance(item, str | Path)]
    extra = [item for item in items if not isinstance(item, str | Path)]
    read = read_sources(sources)
    controlled = merged(workload.controlled, read.workloads)
    objects = [*workload.objects, *extra, *read]
    workload = workload_of(", ".join([workload.name, *sources]), objects)
    for note in notes(None, ignored_kinds(map(gated_kind, workload.objects), gates)):
        warnings.warn(note, stacklevel=3)
    workload = with_gated_kinds(workload, gates)
    return workload._replace(controlled=controlled)


def settings_of(config: Any) -> KubeSchedulerConfiguration | None:
    """Returns a configuration, read if it is the name of a file; None = the defaults.

    Raises:
        ConfigError: it is neither, or the file cannot be used.
    """
    if isinstance(config, str | Path):
        return load(str(config))
    if config is None or isinstance(config, KubeSchedulerConfiguration):
        return config
    problem = "must be a KubeSchedulerConfiguration or the name of its file"
    raise ConfigError(problem, path="config", value=config)


def _explained(workload: Workload, options: SimulationOptions, pod: str) -> Explanation:
    """Runs a simulation again, and explains every attempt at a pod."""
    utilization = Utilization(workload.objects)
    run = SimulationRun(workload, options._replace(on_change=utilization.on_change))
    config = options.config or default_configuration()
    weights = {**run.weights, **score_weights(config, run.scheduler_name_of(pod))}
    explainer = AttemptExplainer(pod, utilization, run.clock, weights)
    run.observe(explainer)
    simulation = run.run()
    (result,) = [own for own in simulation.results if own.pod == pod]
    without = f"Pod {pod} was never scheduled: {result.message or result.outcome}"
    return Explanation(pod, explainer.attempts, without)


def _listed(
    path: str | Path | None, context: str | None, kinds: Sequence[str]
) -> tuple[str, LiveObjects]:
    """Returns the URL of a live cluster, and its objects."""
    from mooring.client.transport.kubeconfig import find_access
    from mooring.simulation.inputs.live_cluster import list_objects

    file = None if path is None else str(path)
    access = find_access(file, context=context, environment=os.environ)
    clock, rng = SystemClock(), seeded_random(0)
    listed = _run(lambda: list_objects(access, clock=clock, rng=rng, kinds=kinds))
    return access.server, listed


def _new_names(beginning: str, existing: Collection[str]) -> Iterator[str]:
    """Yields numbered names that do not exist."""
    for number in count_from(1):
        if (name := f"{beginning}-{number}") not in existing:
            yield name


def _like(model: Node, name: str) -> Node:
    labels = dict(model.metadata.labels)
    if labels.get(_HOSTNAME) == model.metadata.name:
        labels[_HOSTNAME] = name
    metadata = ObjectMeta(
        name=name, uid=f"node-{name}", labels=labels, annotations=model.metadata.annotations
    )
    return replace(model, metadata=metadata)


def _run(work: Callable[[], Any]) -> Any:
    """Runs a coroutine, also while another event loop runs in this thread."""
    with no_running_loop():
        return asyncio.run(work())
