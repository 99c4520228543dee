"""The tables of workloads, storage, leases, devices and the other kinds outside the core group.

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
    from mooring.apiserver.printers.formatting import Json

Cells = list[Any]
#: Conditions of a job and what the table calls them, the first that holds.
_JOB_ENDS = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _parts(found: Json) -> tuple[str, Json, Json]:
    name = str(found["metadata"].get("name", ""))
    return name, found.get("spec") or {}, found.get("status") or {}


def deployment_cells(found: Json, now_s: float) -> Cells:
    """Name, ready, up-to-date, available, age, containers, selector."""
    name, spec, status = _parts(found)
    return [
        name,
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(found, now_s),
        *containers(spec.get("template")),
        selector(spec.get("selector")),
    ]


def replica_set_cells(found: Json, now_s: float) -> Cells:
    """Name, replicas, age, containers, selector."""
    name, spec, status = _parts(found)
    return [
        name,
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(found, now_s),
        *containers(spec.get("template")),
        selector(spec.get("selector")) or NONE,
    ]


def stateful_set_cells(found: Json, now_s: float) -> Cells:
    """Name, ready, age, containers."""
    name, spec, status = _parts(found)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name, ready, age(found, now_s), *containers(spec.get("template"))]


def daemon_set_cells(found: Json, now_s: float) -> Cells:
    """Name, counts of pods, node selector, age, containers, selector."""
    name, spec, status = _parts(found)
    template = spec.get("template") or {}
    return [
        name,
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels((template.get("spec") or {}).get("nodeSelector")),
        age(found, now_s),
        *containers(template),
        selector(spec.get("selector")) or NONE,
    ]


def job_cells(job: Json, now_s: float) -> Cells:
    """Name, status, completions, duration, age, containers, selector."""
    name, spec, status = _parts(job)
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
    # The first condition of a type counts.
    conditions: dict[str, bool] = {}
    for one in status.get("conditions") or ():
        conditions.setdefault(one.get("type", ""), one.get("status") == "True")
    for condition, said in _JOB_ENDS:
        if conditions.get(condition):
            return said
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((state for state in _JOB_STATES if conditions.get(state)), "Running")


def _job_completions(spec: Json, status: Json) -> str:
    done, wanted = status.get("succeeded", 0), spec.get("completions")
    parallelism = spec.get("parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(status: Json, now_s: float) -> str:
    started, ended = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    return human_duration((seconds_of(ended) if ended else now_s) - seconds_of(started))


def pod_disruption_budget_cells(budget: Json, now_s: float) -> Cells:
    """Name, limits, allowed disruptions, age."""
    name, spec, status = _parts(budget)
    limits = (spec.get(limit) for limit in ("minAvailable", "maxUnavailable"))
    shown = ["N/A" if limit is None else str(limit) for limit in limits]
    return [name, *shown, status.get("disruptionsAllowed", 0), age(budget, now_s)]


def priority_class_cells(found: Json, now_s: float) -> Cells:
    """Name, value, global default, age, preemption policy."""
    return [
        found["metadata"].get("name", ""),
        found.get("value", 0),
        bool(found.get("globalDefault")),
        age(found, now_s),
        found.get("preemptionPolicy", ""),
    ]


def lease_cells(lease: Json, now_s: float) -> Cells:
    """Name, holder, age."""
    name, spec, _ = _parts(lease)
    return [name, spec.get("holderIdentity") or "", age(lease, now_s)]


def certificate_signing_request_cells(found: Json, now_s: float) -> Cells:
    """Name, age, signer, who asked, for how long, what came of it."""
    name, spec, status = _parts(found)
    seconds = spec.get("expirationSeconds")
    return [
        name,
        age(found, now_s),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _request_status(status),
    ]


def _request_status(status: Json) -> str:
    conditions = {one.get("type") for one in status.get("conditions") or ()}
    said = "Pending"
    if "Denied" in conditions:
        said = "Denied"
    elif "Approved" in conditions:
        said = "Approved"
    if "Failed" in conditions:
        said += ",Failed"
    return f"{said},Issued" if status.get("certificate") else said


def endpoint_slice_cells(found: Json, now_s: float) -> Cells:
    """Name, address type, ports, addresses, age."""
    ports = [str(one.get("port") or one.get("name") or "*") for one in found.get("ports") or ()]
    addresses = [
        address
        for endpoint in found.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return [
        found["metadata"].get("name", ""),
        found.get("addressType", ""),
        first_few(ports, UNSET),
        first_few(addresses, UNSET),
        age(found, now_s),
    ]


def storage_class_cells(found: Json, now_s: float) -> Cells:
    """Name, provisioner, policies, age."""
    metadata = found["metadata"]
    return [
        metadata.get("name", "") + (" (default)" if is_default_class(found) else ""),
        found.get("provisioner", ""),
        found.get("reclaimPolicy") or "Delete",
        found.get("volumeBindingMode") or "Immediate",
        bool(found.get("allowVolumeExpansion")),
        age(found, now_s),
    ]


def csi_node_cells(found: Json, now_s: float) -> Cells:
    """Name, number of drivers, age."""
    name, spec, _ = _parts(found)
    return [name, len(spec.get("drivers") or ()), age(found, now_s)]


def csi_driver_cells(found: Json, now_s: float) -> Cells:
    """Name, what the driver needs, modes, age."""
    name, spec, _ = _parts(found)
    requests = spec.get("tokenRequests")
    audiences = [one.get("audience", "") for one in requests or ()]
    required = spec.get("attachRequired")
    return [
        name,
        True if required is None else bool(required),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if requests is None else ",".join(audiences),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(found, now_s),
    ]


def volume_attachment_cells(found: Json, now_s: float) -> Cells:
    """Name, attacher, volume, node, whether it is attached, age."""
    name, spec, status = _parts(found)
    return [
        name,
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(status.get("attached")),
        age(found, now_s),
    ]


def resource_claim_cells(claim: Json, now_s: float) -> Cells:
    """Name, state, age."""
    name, _, status = _parts(claim)
    is_deleted = bool(claim["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return [name, ",".join(states), age(claim, now_s)]


def resource_slice_cells(found: Json, now_s: float) -> Cells:
    """Name, node, driver, pool, age."""
    name, spec, _ = _parts(found)
    pool = (spec.get("pool") or {}).get("name", "")
    return [name, spec.get("nodeName") or "", spec.get("driver", ""), pool, age(found, now_s)]


def scale_cells(scale: Json, now_s: float) -> Cells:
    """Name, wanted and actual replicas, age."""
    name, spec, status = _parts(scale)
    return [name, spec.get("replicas", 0), status.get("replicas", 0), age(scale, now_s)]
