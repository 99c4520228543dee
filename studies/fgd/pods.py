"""Pods that need shares of a GPU or several GPUs, and those that are typical of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects import Pod
from mooring.objects.meta import ObjectMeta, ResourceRequirements
from mooring.objects.pod import Container, PodSpec, PodStatus
from mooring.state import PodInfo
from mooring.traces.openb import GPU_MODEL_LABEL, GPU_RESOURCE, MILLI_PER_GPU, read_columns

#: The annotations of a pod in the YAML form of the trace.
GPU_COUNT: Final = "alibabacloud.com/gpu-count"
#: The typical pods are the most frequent ones that together are this share of a list.
TYPICAL_SHARE: Final = 0.95


class Shape(NamedTuple):
    """The requests of a pod.

    Attributes:
        cpu: In millicores.
        gpu_milli: Of each GPU, in thousandths; 0 = none.
        n_gpu: The number of GPUs.
        models: The models that it accepts, separated by "|"; "" = all.
        memory_mib: In MiB.
    """

    cpu: int
    gpu_milli: int
    n_gpu: int
    models: str = ""
    memory_mib: int = 0

    @property
    def request(self) -> int:
        """The requested GPUs, in thousandths."""
        return self.n_gpu * self.gpu_milli

    @property
    def is_share(self) -> bool:
        """True if the pod needs a part of one GPU."""
        return self.n_gpu == 1 and self.gpu_milli < MILLI_PER_GPU


def read_shapes(name: str) -> list[Shape]:
    """Returns the pods of a list, sorted by their names."""
    columns = read_columns("pods", name)
    n_rows = len(columns["name"])
    titles = ("cpu_milli", "gpu_milli", "num_gpu")
    models = columns.get("gpu_spec", [""] * n_rows)
    rows = zip(*(columns[title] for title in titles), models, columns["memory_mib"], strict=True)
    named = sorted(zip(columns["name"], map(Shape._make, rows), strict=True))
    return [shape for _, shape in named]


def make_pod(number: int, shape: Shape) -> Pod:
    """Returns a pod of a shape, as the YAML form of the trace has it."""
    name = f"pod-{number:05}"
    amounts: dict[str, str | int | float] = {
        "cpu": f"{shape.cpu}m",
        "memory": f"{shape.memory_mib}Mi",
    }
    annotations = {}
    if shape.n_gpu:
        annotations = {GPU_COUNT: str(shape.n_gpu), GPU_RESOURCE: str(shape.gpu_milli)}
        if shape.models:
            annotations[GPU_MODEL_LABEL] = shape.models
    requirements = ResourceRequirements(requests=amounts)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations),
        spec=PodSpec(
            containers=(Container(name="main", image="openb", resources=requirements),),
            scheduler_name="default-scheduler",
        ),
        status=PodStatus(phase="Pending"),
    )


def shape_of(pod: PodInfo) -> Shape:
    """Returns the shape of a pod; memory is left to NodeResourcesFit."""
    annotations = pod.metadata.annotations
    count = int(annotations.get(GPU_COUNT, "0"))
    milli = int(annotations.get(GPU_RESOURCE, "0")) if count else 0
    models = annotations.get(GPU_MODEL_LABEL, "") if count else ""
    return Shape(pod.usage.get("cpu", 0), milli, count, models)


class Typical(NamedTuple):
    """The typical pods of a list as columns of length t.

    Attributes:
        shares: Their shares of these pods; they add up to 1.
        cpu: In millicores.
        gpu_milli: Of each GPU.
        n_gpu: Numbers of GPUs.
        models: The accepted models; "" = all.
    """

    shares: npt.NDArray[np.float64]
    cpu: npt.NDArray[np.int64]
    gpu_milli: npt.NDArray[np.int64]
    n_gpu: npt.NDArray[np.int64]
    models: tuple[str, ...]


def typical_of(shapes: Sequence[Shape]) -> Typical:
    """Returns the typical pods of a list."""
    counts = Counter(shape._replace(memory_mib=0) for shape in shapes)
    ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    taken: list[tuple[Shape, int]] = []
    total = 0
    for shape, count in ranked:
        taken.append((shape, count))
        total += count
        if total >= TYPICAL_SHARE * len(shapes):
            break
    return Typical(
        np.array([count / total for _, count in taken]),
        np.array([shape.cpu for shape, _ in taken]),
        np.array([shape.gpu_milli for shape, _ in taken]),
        np.array([shape.n_gpu for shape, _ in taken]),
        tuple(shape.models for shape, _ in taken),
    )
