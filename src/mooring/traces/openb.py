"""The openb trace: a real GPU cluster and its pods, shipped with the package.

Alibaba's ``cluster-trace-gpu-v2023`` (origin and terms: ``mooring/data/openb/NOTICE``). The lists
are read by name and turned into Node and Pod structs that share their parts, so that the whole
cluster and its 8 152 pods are there in a fraction of a second.

Simplification: the GPUs of a node count as one amount, ``alibabacloud.com/gpu-milli`` (1000 a
device). A scheduler that tracks devices needs one device with enough free for a share of a GPU;
here four devices with 250 free each look like one whole GPU. So a few more pods fit than on the
real cluster.
"""

from __future__ import annotations

import gzip
from difflib import get_close_matches
from importlib import resources
from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.objects.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ResourceRequirements,
)
from mooring.objects.node import Node, NodeStatus
from mooring.objects.pod import Affinity, Container, NodeAffinity, Pod, PodSpec, PodStatus

FORMAT: Final = "openb/1"
#: Prefix of the lists' names in files and options: ``openb:gpushare40``.
OPENB_PREFIX: Final = "openb:"
GPU_RESOURCE: Final = "alibabacloud.com/gpu-milli"
GPU_MODEL_LABEL: Final = "alibabacloud.com/gpu-card-model"
QOS_LABEL: Final = "alibabacloud.com/qos"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
NAMESPACE: Final = "default"

#: Allocatable pods per node, as in the YAML form of the cluster.
PODS_PER_NODE: Final = 1001
MILLI_PER_GPU: Final = 1000

NODE_LISTS: Final = ("all", "gpu")
POD_LISTS: Final = (
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "default",
    "gpushare100",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
)


class _Column(msgspec.Struct, frozen=True):
    """A column, in one of the three forms of ``openb/1`` (see tools/pack_openb.py)."""

    prefix: str = ""
    numbers: tuple[int, int] = (0, 0)
    values: tuple[int | str, ...] = ()
    rows: tuple[int, ...] = ()
    after: str | None = None
    distances_s: tuple[int | None, ...] = ()

    def unpacked(self, columns: dict[str, list[Any]]) -> list[Any]:
        """Returns the column's values; ``columns`` holds the preceding columns."""
        if self.prefix:
            first, count = self.numbers
            return [f"{self.prefix}{number:04}" for number in range(first, first + count)]
        if self.values:
            values = self.values
            return [values[row] for row in self.rows]
        if self.after is not None:
            pairs = zip(columns[self.after], self.distances_s, strict=True)
            return [None if distance is None else base + distance for base, distance in pairs]
        time_s, times = 0, []
        for distance in self.distances_s:
            time_s += distance or 0
            times.append(time_s)
        return times


class _Packed(msgspec.Struct, frozen=True):
    format: str
    rows: int
    columns: dict[str, _Column]


def read_columns(kind: str, name: str) -> dict[str, list[Any]]:
    """Returns the columns of a list as in the trace: int, str, or None for a missing time.

    Args:
        kind: "nodes" or "pods".
        name: one of ``NODE_LISTS`` or ``POD_LISTS``.

    Raises:
        ConfigError: there is no such list.

    Example:
        >>> read_columns("nodes", "gpu")["model"].count("G2")
        549
    """
    names = NODE_LISTS if kind == "nodes" else POD_LISTS
    if name not in names:
        matches = get_close_matches(name, names, n=1)
        raise ConfigError(
            f"unknown {kind.removesuffix('s')} list; available: {', '.join(names)}",
            value=name,
            suggestion=matches[0] if matches else None,
        )
    file = resources.files("mooring").joinpath("data", "openb", f"{kind}_{name}.json.gz")
    packed = msgspec.json.decode(gzip.decompress(file.read_bytes()), type=_Packed)
    assert packed.format == FORMAT, packed.format
    columns: dict[str, list[Any]] = {}
    for title, column in packed.columns.items():
        columns[title] = column.unpacked(columns)
    return columns


def read_nodes(name: str = "gpu") -> list[Node]:
    """Returns the nodes of one list, in the order of the trace.

    Raises:
        ConfigError: there is no such list.
    """
    columns = read_columns("nodes", name)
    statuses: dict[tuple[int, int, int], NodeStatus] = {}
    nodes = []
    titles = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
    for sn, cpu_milli, memory_mib, n_gpu, model in zip(*(columns[t] for t in titles), strict=True):
        shape = cpu_milli, memory_mib, n_gpu
        status = statuses.get(shape)
        if status is None:
            status = statuses[shape] = _node_status(*shape)
        labels = {HOSTNAME_LABEL: sn}
        if model:
            labels[GPU_MODEL_LABEL] = model
        nodes.append(Node(metadata=ObjectMeta(name=sn, uid=sn, labels=labels), status=status))
    return nodes


def read_pods(name: str = "default") -> list[Pod]:
    """Returns the pods of one list as pending pods, in the order in which they were created.

    A list without times keeps its order.

    Raises:
        ConfigError: there is no such list.
    """
    columns = read_columns("pods", name)
    n_rows = len(columns["name"])
    shared = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    specs = columns.get("gpu_spec", [""] * n_rows)
    shapes = list(zip(*(columns[title] for title in shared), specs, strict=True))
    qos = columns.get("qos", [""] * n_rows)
    labels = {value: {QOS_LABEL: value} if value else {} for value in dict.fromkeys(qos)}
    pod_specs = {shape: _pod_spec(*shape) for shape in dict.fromkeys(shapes)}
    status = PodStatus(phase="Pending")
    order = range(n_rows)
    created_s = columns.get("creation_time")
    rows = sorted(order, key=created_s.__getitem__) if created_s else order
    names = columns["name"]
    return [
        Pod(
            metadata=ObjectMeta(
                name=names[row], namespace=NAMESPACE, uid=names[row], labels=labels[qos[row]]
            ),
            spec=pod_specs[shapes[row]],
            status=status,
        )
        for row in rows
    ]


def _node_status(cpu_milli: int, memory_mib: int, n_gpu: int) -> NodeStatus:
    amounts: dict[str, str | int | float] = {
        "cpu": f"{cpu_milli}m",
        "memory": f"{memory_mib}Mi",
        "pods": str(PODS_PER_NODE),
    }
    if n_gpu:
        amounts[GPU_RESOURCE] = str(n_gpu * MILLI_PER_GPU)
    return NodeStatus(capacity=amounts, allocatable=amounts)


def _pod_spec(
    cpu_milli: int, memory_mib: int, num_gpu: int, gpu_milli: int, gpu_spec: str
) -> PodSpec:
    amounts: dict[str, str | int | float] = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    if num_gpu:
        amounts[GPU_RESOURCE] = str(num_gpu * gpu_milli)
    requirements = ResourceRequirements(requests=amounts, limits=amounts)
    return PodSpec(
        containers=(Container(name="main", image="openb", resources=requirements),),
        affinity=model_affinity(gpu_spec) if gpu_spec and num_gpu else None,
        scheduler_name="default-scheduler",
    )


def model_affinity(gpu_spec: str) -> Affinity:
    """Returns the affinity to nodes with one of some GPU models, which "|" separates."""
    models = tuple(gpu_spec.split("|"))
    requirement = NodeSelectorRequirement(key=GPU_MODEL_LABEL, operator="In", values=models)
    selector = NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),)
    )
    node_affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    return Affinity(node_affinity=node_affinity)
