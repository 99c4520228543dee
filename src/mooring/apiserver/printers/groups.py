"""Tables of workloads, storage, leases, devices and the other kinds outside the core group.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.cells import (
    Row,
    age,
    containers,
    desired_replicas,
    field,
    formatted,
    name,
    ready_of_desired,
    ready_replicas,
    replicas,
    row,
    selector_or_none,
)
from mooring.apiserver.printers.core import name_and_age, name_and_creation
from mooring.apiserver.printers.formatting import (
    NONE,
    UNSET,
    first_few,
    human_duration,
    labels,
    selector,
    since,
)
from mooring.apiserver.schema.times import seconds_of
from mooring.objects.defaulting.storage import is_default_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.printers.cells import Cell
    from mooring.objects.types import Json

#: Conditions of a finished job, which are also its status; the first true one is used.
_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(job: Json, _now_s: float) -> str:
    # If a type occurs twice, the first condition is used.
    conditions: dict[str, bool] = {}
    for condition in (job.get("status") or {}).get("conditions") or ():
        conditions.setdefault(condition.get("type", ""), condition.get("status") == "True")
    for end in _JOB_ENDS:
        if conditions.get(end):
            return end
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((state for state in _JOB_STATES if conditions.get(state)), "Running")


def _job_completions(job: Json, _now_s: float) -> str:
    spec = job.get("spec") or {}
    succeeded, completions = (job.get("status") or {}).get("succeeded", 0), spec.get("completions")
    parallelism = spec.get("parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Json, now_s: float) -> str:
    status = job.get("status") or {}
    started, ended = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    return human_duration((seconds_of(ended) if ended else now_s) - seconds_of(started))


def _limit(path: str) -> Cell:
    return formatted(path, lambda limit: "N/A" if limit is None else str(limit))


def _request_status(request: Json, _now_s: float) -> str:
    status = request.get("status") or {}
    conditions = {condition.get("type") for condition in status.get("conditions") or ()}
    text = "Pending"
    if "Denied" in conditions:
        text = "Denied"
    elif "Approved" in conditions:
        text = "Approved"
    if "Failed" in conditions:
        text += ",Failed"
    return f"{text},Issued" if status.get("certificate") else text


def _slice_ports(ports: Any) -> str:
    return first_few([str(p.get("port") or p.get("name") or "*") for p in ports or ()], UNSET)


def _slice_addresses(endpoints: Any) -> str:
    lists = (endpoint.get("addresses") or () for endpoint in endpoints or ())
    return first_few([address for addresses in lists for address in addresses], UNSET)


def _name_and_default(storage_class: Json, now_s: float) -> str:
    suffix = " (default)" if is_default_class(storage_class) else ""
    return f"{name(storage_class, now_s)}{suffix}"


def _audiences(requests: Any) -> str:
    if requests is None:
        return UNSET
    return ",".join(request.get("audience", "") for request in requests)


def _taint_age(rule: Json, now_s: float) -> str:
    taint = (rule.get("spec") or {}).get("taint") or {}
    added = taint.get("timeAdded")
    return since(added, now_s) if added else ""


def _claim_state(claim: Json, _now_s: float) -> str:
    status = claim.get("status") or {}
    is_deleted = bool(claim["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


def _role(reference: Json | None) -> str:
    reference = reference or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    """Returns the cell of the names of a binding's subjects of one kind."""

    def text(subjects: Any) -> str:
        chosen = [subject for subject in subjects or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s['name']}" for s in chosen)
        return ", ".join(subject["name"] for subject in chosen)

    return formatted("subjects", text)


def _controller(owners: Any) -> str:
    owner = next((owner for owner in owners or () if owner.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = owner.get("kind", "").lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"


def _count_of(path: str) -> Cell:
    """Returns the cell of the length of a list."""
    return formatted(path, lambda items: len(items or ()))


def _parameter_kind(kind: Any) -> str:
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _parameters(reference: Any) -> str:
    if reference is None:
        return UNSET
    name, namespace = reference.get("name"), reference.get("namespace")
    if name:
        # Whether the kind of parameters has namespaces is unknown here.
        return f"{namespace or '*'}/{name}"
    return UNSET if reference.get("selector") is None else str(reference["selector"])


_policy_binding = row(name, field("spec.policyName"), formatted("spec.paramRef", _parameters), age)
_webhooks = row(name, _count_of("webhooks"), age)
_role_binding = row(
    name,
    formatted("roleRef", _role),
    age,
    *(_subjects(kind) for kind in ("User", "Group", "ServiceAccount")),
)

#: Kind -> the cells of its row.
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "CSIDriver": row(
            name,
            formatted("spec.attachRequired", lambda value: True if value is None else bool(value)),
            field("spec.podInfoOnMount", default=False),
            field("spec.storageCapacity", default=False),
            formatted("spec.tokenRequests", _audiences),
            field("spec.requiresRepublish", default=False),
            formatted("spec.volumeLifecycleModes", lambda modes: ",".join(modes or ()) or NONE),
            age,
        ),
        "CSINode": row(name, _count_of("spec.drivers"), age),
        "CSIStorageCapacity": name_and_creation,
        "CertificateSigningRequest": row(
            name,
            age,
            field("spec.signerName", NONE),
            field("spec.username"),
            formatted("spec.expirationSeconds", lambda s: NONE if s is None else human_duration(s)),
            _request_status,
        ),
        "ClusterRole": name_and_creation,
        "CustomResourceDefinition": name_and_creation,
        "ClusterRoleBinding": _role_binding,
        "ControllerRevision": row(
            name, formatted("metadata.ownerReferences", _controller), field("revision", 0), age
        ),
        "DaemonSet": row(
            name,
            field("status.desiredNumberScheduled", 0),
            field("status.currentNumberScheduled", 0),
            field("status.numberReady", 0),
            field("status.updatedNumberScheduled", 0),
            field("status.numberAvailable", 0),
            formatted("spec.template.spec.nodeSelector", labels),
            age,
            *containers,
            selector_or_none,
        ),
        "Deployment": row(
            name,
            ready_of_desired,
            field("status.updatedReplicas", 0),
            field("status.availableReplicas", 0),
            age,
            *containers,
            formatted("spec.selector", selector),
        ),
        "DeviceClass": name_and_age,
        "DeviceTaintRule": row(
            name,
            field("spec.taint.key"),
            field("spec.taint.value"),
            field("spec.taint.effect"),
            _taint_age,
            age,
        ),
        "EndpointSlice": row(
            name,
            field("addressType"),
            formatted("ports", _slice_ports),
            formatted("endpoints", _slice_addresses),
            age,
        ),
        "Job": row(
            name, _job_status, _job_completions, _job_duration, age, *containers, selector_or_none
        ),
        "Lease": row(name, field("spec.holderIdentity"), age),
        "MutatingAdmissionPolicy": row(
            name,
            _count_of("spec.mutations"),
            formatted("spec.paramKind", _parameter_kind),
            age,
        ),
        "MutatingAdmissionPolicyBinding": _policy_binding,
        "MutatingWebhookConfiguration": _webhooks,
        "PodDisruptionBudget": row(
            name,
            _limit("spec.minAvailable"),
            _limit("spec.maxUnavailable"),
            field("status.disruptionsAllowed", 0),
            age,
        ),
        "PriorityClass": row(
            name,
            field("value", 0),
            field("globalDefault", default=False),
            age,
            field("preemptionPolicy"),
        ),
        "ReplicaSet": row(
            name, desired_replicas, replicas, ready_replicas, age, *containers, selector_or_none
        ),
        "ResourceClaim": row(name, _claim_state, age),
        "ResourceClaimTemplate": name_and_age,
        "ResourceSlice": row(
            name, field("spec.nodeName"), field("spec.driver"), field("spec.pool.name"), age
        ),
        "Role": name_and_creation,
        "RoleBinding": _role_binding,
        "Scale": row(name, field("spec.replicas", 0), replicas, age),
        "StatefulSet": row(name, ready_of_desired, age, *containers),
        "StorageClass": row(
            _name_and_default,
            field("provisioner"),
            field("reclaimPolicy", "Delete"),
            field("volumeBindingMode", "Immediate"),
            field("allowVolumeExpansion", default=False),
            age,
        ),
        "ValidatingAdmissionPolicy": row(
            name,
            _count_of("spec.validations"),
            formatted("spec.paramKind", _parameter_kind),
            age,
        ),
        "ValidatingAdmissionPolicyBinding": _policy_binding,
        "ValidatingWebhookConfiguration": _webhooks,
        "VolumeAttachment": row(
            name,
            field("spec.attacher"),
            field("spec.source.persistentVolumeName"),
            field("spec.nodeName"),
            field("status.attached", default=False),
            age,
        ),
        "VolumeAttributesClass": row(name, field("driverName"), age),
    }
)
