"""Rows of a trace from Kubernetes pods, and the reader of ``kubectl get pods -o json``.

A pod's requests are those that a scheduler counts (``pod_requests``). Its devices are the extended
resources whose name ends in "/gpu", or ``alibabacloud.com/gpu-milli``. Its group is the name of its
PodGroup, or else of its controller, and its user is its namespace. What else restricts or orders
pods (selectors, affinity, volumes, other resources) has no column in a trace: it is noted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode
from mooring.objects.pod import Pod
from mooring.objects.requests import CPU, MEMORY, pod_requests
from mooring.traces.trace import Rows, Trace, check_amounts
from mooring.traces.values import elapsed_s, member, wall_time_s

FORMAT: Final = "kubectl"

Json: TypeAlias = dict[str, Any]

_GPU_SUFFIX: Final = "/gpu"
_GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
_MILLI_PER_GPU: Final = 1000
#: Fields of a pod's spec that a scheduler reads, and that a trace has no column for.
_CONSTRAINTS: Final = (
    *("affinity", "nodeSelector", "preemptionPolicy", "resourceClaims", "schedulerName"),
    *("schedulingGates", "tolerations", "topologySpreadConstraints"),
)
#: What a constraint is if a user did not write it.
_USUAL: Final[tuple[Any, ...]] = (None, "", [], {}, "default-scheduler", "PreemptLowerPriority")
#: Kubernetes adds tolerations of these taints to every pod.
_USUAL_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
#: Volumes that restrict the nodes of their pod.
_CLAIMS: Final = ("ephemeral", "persistentVolumeClaim")

#: Phases of a pod that has ended.
FAILED: Final = "Failed"
ENDED: Final = ("Succeeded", FAILED)


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


def note_constraints(
    rows: Rows, pod: Pod, raw: Json, path: str, *, line: int | None = None
) -> None:
    """Notes what a scheduler reads in a pod, and a trace has no column for.

    Args:
        rows: Collects the notes.
        pod: The pod.
        raw: The same pod as it was read.
        path: The path of the pod.
        line: The line of the pod.
    """
    prefix = f"{path}." if path else ""
    spec = raw.get("spec") or {}
    for name, value in _constraints(pod, spec):
        rows.unread(name, line=line, path=f"{prefix}spec.{name}", value=value)
    for name, amount in pod_requests(pod).items():
        if name not in (CPU, MEMORY, _GPU_MILLI) and not name.endswith(_GPU_SUFFIX):
            value = f"{name}: {amount.value()}"
            rows.unread("requests of other resources", line=line, path=path, value=value)
        elif name == _GPU_MILLI and amount.value() % _MILLI_PER_GPU and amount.value() > 1000:
            text = f"{_GPU_MILLI} of several devices: rounded up to whole devices"
            rows.note(text, line=line, path=path, value=amount.value())


def _constraints(pod: Pod, spec: Json) -> Iterator[tuple[str, Any]]:
    for name in _CONSTRAINTS:
        value = spec.get(name)
        if name == "tolerations":
            value = [item for item in _mappings(value) if item.get("key") not in _USUAL_TAINTS]
        if value not in _USUAL:
            yield name, value
    if pod.spec.priority is None and pod.spec.priority_class_name:
        yield "priorityClassName", pod.spec.priority_class_name
    claims = [
        volume.get("name")
        for volume in _mappings(spec.get("volumes"))
        if any(volume.get(kind) is not None for kind in _CLAIMS)
    ]
    if claims:
        yield "volumes", claims
    ports = [
        port["hostPort"]
        for container in _mappings(spec.get("containers"))
        for port in _mappings(container.get("ports"))
        if port.get("hostPort")
    ]
    if ports:
        yield "containers.ports.hostPort", ports


def _mappings(entries: Any) -> Iterator[Json]:
    """Yields the entries of a list of an object; one that is null counts as empty."""
    return (entry for entry in entries or () if isinstance(entry, dict))


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
            at = ".".join(filter(None, (path, "kind")))
            rows.note("object that is not a pod: left out", path=at, value=kind)
            continue
        pod = decoded_pod({"apiVersion": "v1", "kind": "Pod"} | raw, path)
        prefix = f"{path}." if path else ""
        created_s = wall_time_s(
            pod.metadata.creation_timestamp, path=f"{prefix}metadata.creationTimestamp"
        )
        begun_s = started_s(pod, prefix)
        ended_s = finished_s(raw, prefix)
        note_constraints(rows, pod, raw, path)
        if pod.status.phase == FAILED:
            at = f"{prefix}status.phase"
            rows.note("pod that failed: read as a pod that succeeds", path=at, value=FAILED)
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
        if document.get("kind") != "Pod":
            problem = "must be a list with items as kubectl prints it, or a Pod"
            raise ConfigError(problem, path="kind", value=document.get("kind"))
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
