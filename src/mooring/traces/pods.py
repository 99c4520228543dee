"""Rows of a trace from Kubernetes pods, and the reader of ``kubectl get pods -o json``.

A pod's requests are those that a scheduler counts (``pod_requests``). Its devices are the extended
resources whose name ends in "/gpu", or ``alibabacloud.com/gpu-milli``. Its group is the name of its
PodGroup, or else of its controller, and its user is its namespace.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode
from mooring.objects.pod import Pod
from mooring.objects.requests import pod_requests
from mooring.traces.trace import Rows, Trace, check_amounts
from mooring.traces.values import elapsed_s, member, wall_time_s

FORMAT: Final = "kubectl"

Json: TypeAlias = dict[str, Any]

_GPU_SUFFIX: Final = "/gpu"
_GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
_MILLI_PER_GPU: Final = 1000
#: Phases of a pod that has ended.
ENDED: Final = ("Succeeded", "Failed")


def decoded_pod(raw: Json, path: str) -> Pod:
    """Returns the pod of parsed JSON.

    Raises:
        ConfigError: It is not a pod, or a field is invalid; the path begins with ``path``.
    """
    try:
        return decode(msgspec.json.encode(raw), "Pod")  # type: ignore[no-any-return]
    except ConfigError as error:
        place = ".".join(filter(None, (path, error.path)))
        raise ConfigError(error.problem, path=place, value=error.value) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"is not an object of Kubernetes: {error}", path=path) from None


def columns_of_pod(pod: Pod, path: str) -> dict[str, Any]:
    """Returns the columns of a pod except its times; ``names`` is its name.

    Raises:
        ConfigError: A request is negative or too large; the path begins with ``path``.
    """
    requests = pod_requests(pod)
    units = {name: amount.value() for name, amount in requests.items()}
    gpu_count = sum(units[name] for name in units if name.endswith(_GPU_SUFFIX))
    gpu_milli = _MILLI_PER_GPU if gpu_count else 0
    if not gpu_count and units.get(_GPU_MILLI, 0) > 0:
        gpu_milli = min(units[_GPU_MILLI], _MILLI_PER_GPU)
        gpu_count = math.ceil(units[_GPU_MILLI] / _MILLI_PER_GPU)
    columns = {
        "cpu_milli": requests["cpu"].milli() if "cpu" in requests else 0,
        "memory_bytes": units.get("memory", 0),
        "gpu_count": gpu_count,
        "gpu_milli": gpu_milli,
        "priority": pod.spec.priority or 0,
        "group": _group(pod),
        "user": pod.metadata.namespace,
        "names": pod.metadata.name,
    }
    check_amounts(columns, path)
    return columns


def _group(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return group.pod_group_name
    owners = pod.metadata.owner_references
    return next((owner.name for owner in owners if owner.controller), "")


def read_pods(document: Any, name: str) -> Trace:
    """Returns the trace of a list of pods; the first submission is at 0 s.

    A pod is submitted at its creationTimestamp. Its run time is from its startTime to its end, if
    it has ended; else no end is recorded (nan).

    Args:
        document: The value of the JSON text: a List, a PodList or one pod.
        name: The name of the trace.

    Raises:
        ConfigError: The document is malformed, or has no pod.
    """
    rows = Rows()
    for path, raw in _items(document):
        if not isinstance(raw, dict):
            raise ConfigError("must be a mapping", path=path, value=raw)
        kind = raw.get("kind", "Pod")
        if kind != "Pod":
            rows.note("object that is not a pod: left out")
            continue
        pod = decoded_pod({"apiVersion": "v1", "kind": "Pod"} | raw, path)
        prefix = f"{path}." if path else ""
        created_s = wall_time_s(
            pod.metadata.creation_timestamp, path=f"{prefix}metadata.creationTimestamp"
        )
        begun_s = started_s(pod, prefix)
        ended_s = finished_s(raw, prefix)
        rows.add(
            submit_s=created_s,
            duration_s=elapsed_s(created_s if math.isnan(begun_s) else begun_s, ended_s),
            **columns_of_pod(pod, path),
        )
    return rows.trace(name=name, format=FORMAT, is_shifted=True)


def _items(document: Any) -> list[tuple[str, Any]]:
    """Returns the pods of a document with their paths."""
    if not isinstance(document, dict):
        raise ConfigError("must be a list of pods as kubectl prints it", value=document)
    if "items" not in document:
        return [("", document)]
    items = member(document, "items", "", list)
    return [(f"items[{index}]", item) for index, item in enumerate(items)]


def started_s(pod: Pod, prefix: str) -> float:
    """Returns the startTime of a pod in seconds since 1970; nan = it has none.

    Raises:
        ConfigError: It is not a time.
    """
    if pod.status.start_time is None:
        return math.nan
    return wall_time_s(pod.status.start_time, path=f"{prefix}status.startTime")


def finished_s(raw: Json, prefix: str) -> float:
    """Returns the end of the last container of a pod that has ended, in seconds since 1970.

    nan = the pod has not ended, or its containers do not say when.

    Raises:
        ConfigError: The status is malformed.
    """
    status = member(raw, "status", prefix.rstrip("."), dict, {})
    if status.get("phase") not in ENDED:
        return math.nan
    path = f"{prefix}status"
    ends_s = [math.nan]
    for index, container in enumerate(member(status, "containerStatuses", path, list, [])):
        place = f"{path}.containerStatuses[{index}]"
        if not isinstance(container, dict):
            raise ConfigError("must be a mapping", path=place, value=container)
        state = member(container, "state", place, dict, {})
        terminated = member(state, "terminated", f"{place}.state", dict, {})
        if terminated.get("finishedAt") is not None:
            place = f"{place}.state.terminated.finishedAt"
            ends_s.append(wall_time_s(terminated["finishedAt"], path=place))
    known_s = [end_s for end_s in ends_s if not math.isnan(end_s)]
    return max(known_s, default=math.nan)
