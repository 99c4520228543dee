"""Tables of workloads, storage, leases, devices and the other kinds outside the core group.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.formatting import (
    NONE,
    UNSET,
    age,
    containers,
    first_few,
    human_duration,
    labels,
    selector,
)
from mooring.apiserver.schema.times import seconds_of
from mooring.objects.defaulting.storage import is_default_class

if TYPE_CHECKING:
    from mooring.objects.types import Json

Cells = list[Any]
#: Conditions of a finished job and their texts; the first true one is used.
_JOB_ENDS = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _sections(obj: Json) -> tuple[str, Json, Json]:
    name = str(obj["metadata"].get("name", ""))
    return name, obj.get("spec") or {}, obj.get("status") or {}


def deployment_cells(deployment: Json, now_s: float) -> Cells:
    """Returns name, ready, up-to-date, available, age, containers, selector."""
    name, spec, status = _sections(deployment)
    return [
        name,
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(deployment, now_s),
        *containers(spec.get("template")),
        selector(spec.get("selector")),
    ]


def replica_set_cells(replica_set: Json, now_s: float) -> Cells:
    """Returns name, replicas, age, containers, selector."""
    name, spec, status = _sections(replica_set)
    return [
        name,
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(replica_set, now_s),
        *containers(spec.get("template")),
        selector(spec.get("selector")) or NONE,
    ]


def stateful_set_cells(stateful_set: Json, now_s: float) -> Cells:
    """Returns name, ready, age, containers."""
    name, spec, status = _sections(stateful_set)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name, ready, age(stateful_set, now_s), *containers(spec.get("template"))]


def daemon_set_cells(daemon_set: Json, now_s: float) -> Cells:
    """Returns name, counts of pods, node selector, age, containers, selector."""
    name, spec, status = _sections(daemon_set)
    template = spec.get("template") or {}
    return [
        name,
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels((template.get("spec") or {}).get("nodeSelector")),
        age(daemon_set, now_s),
        *containers(template),
        selector(spec.get("selector")) or NONE,
    ]


def job_cells(job: Json, now_s: float) -> Cells:
    """Returns name, status, completions, duration, age, containers, selector."""
    name, spec, status = _sections(job)
    return [
        name,
        _job_status(job, status),
        _job_completions(spec, status),
        _job_duration(status, now_s),
        age(job, now_s),
        *containers(spec.get("template")),
        selector(spec.get("selector")) or NONE,
    ]


def _job_status(job: Json, status: Json) -> str:
    # If a type occurs twice, the first condition is used.
    conditions: dict[str, bool] = {}
    for condition in status.get("conditions") or ():
        conditions.setdefault(condition.get("type", ""), condition.get("status") == "True")
    for name, text in _JOB_ENDS:
        if conditions.get(name):
            return text
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((state for state in _JOB_STATES if conditions.get(state)), "Running")


def _job_completions(spec: Json, status: Json) -> str:
    succeeded, completions = status.get("succeeded", 0), spec.get("completions")
    parallelism = spec.get("parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Json, now_s: float) -> str:
    started, ended = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    return human_duration((seconds_of(ended) if ended else now_s) - seconds_of(started))


def pod_disruption_budget_cells(budget: Json, now_s: float) -> Cells:
    """Returns name, limits, allowed disruptions, age."""
    name, spec, status = _sections(budget)
    limits = (spec.get(limit) for limit in ("minAvailable", "maxUnavailable"))
    texts = ["N/A" if limit is None else str(limit) for limit in limits]
    return [name, *texts, status.get("disruptionsAllowed", 0), age(budget, now_s)]


def priority_class_cells(priority_class: Json, now_s: float) -> Cells:
    """Returns name, value, global default, age, preemption policy."""
    return [
        priority_class["metadata"].get("name", ""),
        priority_class.get("value", 0),
        bool(priority_class.get("globalDefault")),
        age(priority_class, now_s),
        priority_class.get("preemptionPolicy", ""),
    ]


def lease_cells(lease: Json, now_s: float) -> Cells:
    """Returns name, holder, age."""
    name, spec, _ = _sections(lease)
    return [name, spec.get("holderIdentity") or "", age(lease, now_s)]


def certificate_signing_request_cells(request: Json, now_s: float) -> Cells:
    """Returns name, age, signer, requestor, requested duration, condition."""
    name, spec, status = _sections(request)
    seconds = spec.get("expirationSeconds")
    return [
        name,
        age(request, now_s),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _request_status(status),
    ]


def _request_status(status: Json) -> str:
    conditions = {condition.get("type") for condition in status.get("conditions") or ()}
    text = "Pending"
    if "Denied" in conditions:
        text = "Denied"
    elif "Approved" in conditions:
        text = "Approved"
    if "Failed" in conditions:
        text += ",Failed"
    return f"{text},Issued" if status.get("certificate") else text


def endpoint_slice_cells(endpoint_slice: Json, now_s: float) -> Cells:
    """Returns name, address type, ports, addresses, age."""
    ports = [str(p.get("port") or p.get("name") or "*") for p in endpoint_slice.get("ports") or ()]
    addresses = [
        address
        for endpoint in endpoint_slice.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return [
        endpoint_slice["metadata"].get("name", ""),
        endpoint_slice.get("addressType", ""),
        first_few(ports, UNSET),
        first_few(addresses, UNSET),
        age(endpoint_slice, now_s),
    ]


def storage_class_cells(storage_class: Json, now_s: float) -> Cells:
    """Returns name, provisioner, policies, age."""
    metadata = storage_class["metadata"]
    return [
        metadata.get("name", "") + (" (default)" if is_default_class(storage_class) else ""),
        storage_class.get("provisioner", ""),
        storage_class.get("reclaimPolicy") or "Delete",
        storage_class.get("volumeBindingMode") or "Immediate",
        bool(storage_class.get("allowVolumeExpansion")),
        age(storage_class, now_s),
    ]


def csi_node_cells(csi_node: Json, now_s: float) -> Cells:
    """Returns name, number of drivers, age."""
    name, spec, _ = _sections(csi_node)
    return [name, len(spec.get("drivers") or ()), age(csi_node, now_s)]


def csi_driver_cells(driver: Json, now_s: float) -> Cells:
    """Returns name, required features, modes, age."""
    name, spec, _ = _sections(driver)
    requests = spec.get("tokenRequests")
    audiences = [request.get("audience", "") for request in requests or ()]
    required = spec.get("attachRequired")
    return [
        name,
        True if required is None else bool(required),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if requests is None else ",".join(audiences),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(driver, now_s),
    ]


def volume_attachment_cells(attachment: Json, now_s: float) -> Cells:
    """Returns name, attacher, volume, node, attached, age."""
    name, spec, status = _sections(attachment)
    return [
        name,
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(status.get("attached")),
        age(attachment, now_s),
    ]


def resource_claim_cells(claim: Json, now_s: float) -> Cells:
    """Returns name, state, age."""
    name, _, status = _sections(claim)
    is_deleted = bool(claim["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return [name, ",".join(states), age(claim, now_s)]


def resource_slice_cells(resource_slice: Json, now_s: float) -> Cells:
    """Returns name, node, driver, pool, age."""
    name, spec, _ = _sections(resource_slice)
    pool = (spec.get("pool") or {}).get("name", "")
    return [
        name,
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        pool,
        age(resource_slice, now_s),
    ]


def scale_cells(scale: Json, now_s: float) -> Cells:
    """Returns name, desired and actual replicas, age."""
    name, spec, status = _sections(scale)
    return [name, spec.get("replicas", 0), status.get("replicas", 0), age(scale, now_s)]
