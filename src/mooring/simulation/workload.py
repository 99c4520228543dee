"""What a simulation starts with: a cluster, and the pods that wait for a place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.simulation.openb import read_nodes, read_pods

#: Before the name of a list of the trace, where a file could stand: ``openb:gpushare40``.
OPENB_PREFIX: Final = "openb:"
FINISHED_PHASES: Final = frozenset({"Succeeded", "Failed"})


class Workload(NamedTuple):
    """A cluster and its pending pods.

    Attributes:
        name: For reports: the files, or the list of the trace.
        objects: Everything but the pending pods, in order of arrival.
        pending: The pods to decide, in queue order: higher priority first, then by arrival.
        skipped: Kind -> how many objects of the files were passed over: no scheduler reads them.
    """

    name: str
    objects: list[KubernetesObject]
    pending: list[Pod]
    skipped: Mapping[str, int] = MappingProxyType({})

    @property
    def pods(self) -> list[Pod]:
        """All pods: those on nodes, then those that wait."""
        return [*(obj for obj in self.objects if isinstance(obj, Pod)), *self.pending]


def read_workload(
    cluster: Sequence[str] = (), pods: Sequence[str] = (), *, skip_validation: bool = False
) -> Workload:
    """Reads a cluster and pods; what is not given comes from the openb trace.

    Args:
        cluster: Files, folders or "-", as ``read_objects`` takes them, or ``openb:LIST``. Pods in
            it that have no node are pending as well. None given: the nodes of ``openb:gpu``.
        pods: The same, for the pods to be placed. None given: the pending pods of ``cluster``, or
            those of ``openb:default`` if that is not given either.
        skip_validation: Whether unknown fields and broken rules in files are passed over.

    Raises:
        ConfigError: something cannot be read, or there is no such list.

    Example:
        >>> workload = read_workload()
        >>> workload.name, len(workload.objects), len(workload.pending)
        ('openb', 1213, 8152)
    """
    if not cluster and not pods:
        return Workload("openb", [*read_nodes()], read_pods())
    files = [source for source in [*cluster, *pods] if not _is_list(source)]
    found: list[KubernetesObject] = []
    for source in cluster or [f"{OPENB_PREFIX}gpu"]:
        found += read_nodes(source.removeprefix(OPENB_PREFIX)) if _is_list(source) else ()
    from_files, skipped = _read_files(files, skip_validation=skip_validation)
    found += from_files
    for source in pods:
        found += read_pods(source.removeprefix(OPENB_PREFIX)) if _is_list(source) else ()
    name = ", ".join([*(cluster or ["openb"]), *pods])
    return workload_of(name, found)._replace(skipped=skipped)


def workload_of(name: str, objects: Sequence[KubernetesObject]) -> Workload:
    """Part objects into the cluster and the pods that wait.

    A pod waits if it has no node, is not finished and is not being deleted; a finished one, or one
    that is deleted before it got a node, is left out: a scheduler never sees it.
    """
    cluster: list[KubernetesObject] = []
    pending: list[Pod] = []
    for obj in objects:
        if not isinstance(obj, Pod):
            cluster.append(obj)
        elif obj.status.phase in FINISHED_PHASES:
            continue
        elif obj.spec.node_name:
            cluster.append(obj)
        elif obj.metadata.deletion_timestamp is None:
            pending.append(obj)
    pending.sort(key=lambda pod: -(pod.spec.priority or 0))
    return Workload(name, cluster, pending)


def _is_list(source: str) -> bool:
    return source.startswith(OPENB_PREFIX)


def _read_files(
    files: Sequence[str], *, skip_validation: bool
) -> tuple[list[KubernetesObject], Mapping[str, int]]:
    """Returns the objects of all files, and the kinds that were passed over.

    They are admitted together: a PriorityClass of one file counts for the others.
    """
    if not files:
        return [], {}
    # Reading files needs YAML and the rules of the API server; the trace does not.
    from mooring.apiserver.registry.existing_objects import ExistingObjects
    from mooring.objects.files.reader import read_objects

    found = read_objects(files, validator=None if skip_validation else ExistingObjects())
    return [*found], found.skipped
