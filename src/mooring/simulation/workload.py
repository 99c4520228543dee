"""The input of a simulation: a cluster and its pending pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.objects.meta import KubernetesObject, controller_of
from mooring.objects.node import Node
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.types import Object
from mooring.traces.openb import OPENB_PREFIX, read_nodes, read_pods

if TYPE_CHECKING:
    from mooring.objects.files.reader import Objects


class Workload(NamedTuple):
    """A cluster and its pending pods.

    Attributes:
        name: For reports: the files, or the trace's list.
        objects: All objects except the pending pods, in order of arrival.
        pending: The pods to schedule, in queue order: higher priority first, then by arrival.
        skipped: Kind -> number of objects ignored, since no scheduler reads the kind.
        omitted: Pods that no scheduler sees: finished ones, and terminating ones without a node.
        controlled: Deployments and the like as JSON with defaults, whose controllers create pods.
    """

    name: str
    objects: list[KubernetesObject]
    pending: list[Pod]
    skipped: Mapping[str, int] = MappingProxyType({})
    omitted: tuple[Pod, ...] = ()
    controlled: Sequence[Object] = ()

    @property
    def pods(self) -> list[Pod]:
        """All pods: those on nodes, then the pending ones."""
        return [*(obj for obj in self.objects if isinstance(obj, Pod)), *self.pending]

    @property
    def expected_pods(self) -> int:
        """The number of pods to schedule: the pending ones, and those of controllers, estimated."""
        nodes = sum(isinstance(obj, Node) for obj in self.objects)
        desired = sum(_desired_pods(raw, nodes) for raw in self.controlled)
        present = sum(controller_of(pod.metadata) is not None for pod in self.pods)
        return len(self.pending) + (max(0, desired - present) if desired else 0)


def read_workload(
    cluster: Sequence[str] = (), pods: Sequence[str] = (), *, skip_validation: bool = False
) -> Workload:
    """Reads a cluster and pods; the openb trace is the default for both.

    Args:
        cluster: Files, folders or "-", as for ``read_objects``, or ``openb:LIST``. Pods in it
            without a node are pending as well. Default: the nodes of ``openb:gpu``.
        pods: The same, for the pods to schedule. Default: the pending pods of ``cluster``, or
            ``openb:default`` if that is empty, too.
        skip_validation: True to ignore unknown fields and validation errors in files.

    Raises:
        ConfigError: a file cannot be read, or there is no such list.

    Example:
        >>> workload = read_workload()
        >>> workload.name, len(workload.objects), len(workload.pending)
        ('openb', 1213, 8152)
    """
    if not cluster and not pods:
        return Workload("openb", [*read_nodes()], read_pods())
    files = [source for source in [*cluster, *pods] if not _is_list(source)]
    objects: list[KubernetesObject] = []
    for source in cluster or [f"{OPENB_PREFIX}gpu"]:
        objects += read_nodes(source.removeprefix(OPENB_PREFIX)) if _is_list(source) else ()
    from_files = _read_files(files, skip_validation=skip_validation)
    objects += from_files
    for source in pods:
        objects += read_pods(source.removeprefix(OPENB_PREFIX)) if _is_list(source) else ()
    name = ", ".join([*(cluster or ["openb"]), *pods])
    workload = workload_of(name, objects)
    return workload._replace(skipped=from_files.skipped, controlled=from_files.workloads)


def workload_of(name: str, objects: Sequence[KubernetesObject]) -> Workload:
    """Splits objects into the cluster and the pending pods.

    A pod is pending if it has no node, is not finished and is not terminating. Finished pods, and
    terminating pods without a node, are omitted: a scheduler never sees them.
    """
    cluster: list[KubernetesObject] = []
    pending: list[Pod] = []
    omitted: list[Pod] = []
    for obj in objects:
        if not isinstance(obj, Pod):
            cluster.append(obj)
        elif obj.status.phase in FINISHED_PHASES:
            omitted.append(obj)
        elif obj.spec.node_name:
            cluster.append(obj)
        elif obj.metadata.deletion_timestamp is None:
            pending.append(obj)
        else:
            omitted.append(obj)
    pending.sort(key=lambda pod: -(pod.spec.priority or 0))
    return Workload(name, cluster, pending, omitted=tuple(omitted))


def read_sources(sources: Sequence[str], *, skip_validation: bool = False) -> Objects:
    """Returns the objects of files and of pod lists (``openb:LIST``), without a default cluster.

    Raises:
        ConfigError: a file cannot be read, or there is no such list.
    """
    files = [source for source in sources if not _is_list(source)]
    objects = _read_files(files, skip_validation=skip_validation)
    for source in sources:
        objects += read_pods(source.removeprefix(OPENB_PREFIX)) if _is_list(source) else ()
    return objects


def _desired_pods(raw: Object, nodes: int) -> int:
    """Returns the pods of a workload; those of a ReplicaSet count for its Deployment."""
    spec = raw["spec"]
    if any(owner.get("controller") for owner in raw["metadata"].get("ownerReferences") or ()):
        return 0
    if raw["kind"] == "DaemonSet":
        return nodes
    if raw["kind"] == "CronJob":
        return _pods_of_job(spec["jobTemplate"]["spec"]) if not spec.get("suspend") else 0
    if raw["kind"] == "Job":
        return _pods_of_job(spec)
    return int(spec["replicas"])


def _pods_of_job(spec: Object) -> int:
    """Returns the pods of a Job that run at once."""
    parallelism = spec.get("parallelism", 1)
    return int(min(parallelism, spec.get("completions", parallelism)))


def _is_list(source: str) -> bool:
    return source.startswith(OPENB_PREFIX)


def _read_files(files: Sequence[str], *, skip_validation: bool) -> Objects:
    """Returns the objects of all files.

    They are admitted together: a PriorityClass of one file applies to pods of the others.
    """
    # Imported here: files need YAML and the API server's validation; the trace does not.
    from mooring.objects.files.reader import Objects, read_objects

    if not files:
        return Objects()
    from mooring.apiserver.registry.existing_objects import ExistingObjects

    return read_objects(files, validator=None if skip_validation else ExistingObjects())
