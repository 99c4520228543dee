"""Sets, drops and restores fields of objects before they are validated, by resource.

Source: PrepareForCreate and PrepareForUpdate in the strategy.go files below pkg/registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.registry.strategy import (
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
)
from mooring.apiserver.validation.devices import claims, slices
from mooring.objects.defaulting.storage import prepare_claim_spec
from mooring.objects.schema.defaults import TEMPLATE_GENERATION
from mooring.objects.selectors import parse_int64

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def prepare_namespace(obj: Object, _now: str) -> None:
    """Makes a new namespace Active, with its finalizer."""
    obj["status"] = {"phase": "Active"}
    finalizers = obj["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def name_limit_range(obj: Object, _now: str) -> None:
    """Gives a LimitRange without a name a random one: a UUID, as upstream."""
    metadata = obj["metadata"]
    metadata["name"] = metadata.get("name") or metadata["uid"]


def prepare_claim(obj: Object, _now: str) -> None:
    """Makes a new claim of volumes Pending, and completes its spec."""
    obj["status"] = {"phase": "Pending"}
    prepare_claim_spec(obj)


def prepare_claim_update(new: Object, old: Object) -> None:
    """Restores the status, and completes the spec of a claim of volumes."""
    keep_status(new, old)
    prepare_claim_spec(new, old)


def prepare_volume(obj: Object, now: str) -> None:
    """Makes a new volume Pending."""
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def prepare_service(obj: Object, _now: str) -> None:
    """Sets the fields of a headless service."""
    spec = obj["spec"]
    if spec.get("clusterIP") != "None":
        return
    spec.setdefault("clusterIPs", ["None"])
    has_pods = bool(spec.get("selector"))
    spec.setdefault("ipFamilies", ["IPv4"] if has_pods else ["IPv4", "IPv6"])
    spec.setdefault("ipFamilyPolicy", "SingleStack" if has_pods else "RequireDualStack")


def prepare_slice(obj: Object, _now: str) -> None:
    """Drops the lists that a new slice may not have."""
    slices.drop_lists(obj, None)


def prepare_node(obj: Object, _now: str) -> None:
    """Drops the fields of a removed feature, dynamic configuration of kubelets."""
    obj["spec"].pop("configSource", None)
    obj.get("status", {}).pop("config", None)


def prepare_node_update(new: Object, old: Object) -> None:
    """Restores the status, and drops the configuration of kubelets unless it was there."""
    keep_status(new, old)
    if "configSource" not in old["spec"]:
        new["spec"].pop("configSource", None)


def stamp_phase(new: Object, old: Object, now: str) -> None:
    """Sets the time of a volume's phase if the phase changes, and keeps it if it does not."""
    field = "lastPhaseTransitionTime"
    status, before = new["status"], old["status"]
    if status.get("phase") == before.get("phase"):
        if field not in status:
            restore_fields(status, before, field)
    elif status.get(field) in (None, before.get(field)):
        status[field] = now


def prepare_node_status(new: Object, old: Object) -> None:
    """Restores the spec, and drops the configuration of kubelets unless it was there."""
    keep_spec(new, old)
    if "config" not in old["status"]:
        new["status"].pop("config", None)


def prepare_stateful_set(obj: Object, _now: str) -> None:
    """Drops a field whose feature gate, MaxUnavailableStatefulSet, is off by default."""
    rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)


def prepare_daemon_set(obj: Object, _now: str) -> None:
    """Starts the generation of the template."""
    annotations = obj["metadata"]["annotations"]
    if annotations[TEMPLATE_GENERATION] == "0":
        annotations[TEMPLATE_GENERATION] = "1"


def prepare_daemon_set_update(new: Object, old: Object) -> None:
    """Increments the generation of a DaemonSet's template; clients cannot set it."""
    keep_status(new, old)
    text = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    is_new = new["spec"]["template"] != old["spec"]["template"]
    generation = (parse_int64(text) or 0) + is_new
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(int(generation))


def prepare_daemon_set_status(new: Object, old: Object) -> None:
    """Restores the spec and the generation of the template, which belongs to it."""
    keep_spec(new, old)
    before = old["metadata"].get("annotations", {})
    restore_fields(new["metadata"].setdefault("annotations", {}), before, TEMPLATE_GENERATION)


def prepare_job_status(new: Object, old: Object) -> None:
    """Restores the spec; a Job without labels has those of its template."""
    keep_spec(new, old)
    labels = new["spec"]["template"].get("metadata", {}).get("labels")
    if labels and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = {**labels}


def keep_spec_and_status(new: Object, old: Object) -> None:
    """Restores the spec and the status."""
    restore_fields(new, old, "spec", "status")


def prepare_approval(new: Object, old: Object) -> None:
    """Restores all fields except the status conditions."""
    conditions = new.get("status", {}).get("conditions", [])
    keep_spec(new, old)
    new["status"] = {**old.get("status", {}), "conditions": conditions}
    if not conditions:
        del new["status"]["conditions"]


def keep_decisions(new: Object, old: Object) -> None:
    """Restores all that the status of a certificate request may not change.

    A decision that was added or removed is left for the validation.
    """
    keep_spec(new, old)
    conditions = (new.get("status") or {}).get("conditions") or []
    before = (old.get("status") or {}).get("conditions") or []
    for decision in ("Approved", "Denied"):
        numbers = [n for n, condition in enumerate(conditions) if condition["type"] == decision]
        stored = [condition for condition in before if condition["type"] == decision]
        if len(numbers) == len(stored):
            for number, condition in zip(numbers, stored, strict=True):
                conditions[number] = condition


def stamp_decisions(new: Object, old: Object, now: str) -> None:
    """Sets the times of the conditions of a certificate request that have none."""
    before = (old.get("status") or {}).get("conditions") or []
    for condition in (new.get("status") or {}).get("conditions") or []:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = (
                other.get("lastTransitionTime")
                for other in before
                if other["type"] == condition["type"] and other["status"] == condition["status"]
            )
            condition["lastTransitionTime"] = next(filter(None, same), now)


def prepare_claim_status(new: Object, old: Object) -> None:
    """Restores all but the status, and drops devices that are no longer allocated."""
    keep_spec_and_metadata(new, old)
    claims.drop_deallocated_devices(new, old)


def set_taint_times(obj: Object, now: str) -> None:
    """Sets the time of device taints without one."""
    for device in obj["spec"].get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now)


def set_rule_time(obj: Object, now: str) -> None:
    """Sets the time of the taint of a rule without one."""
    obj["spec"]["taint"].setdefault("timeAdded", now)


def prepare_rule(new: Object, old: Object) -> None:
    """Restores the status, and drops the time of a taint whose effect changes: it is a new one."""
    keep_status(new, old)
    taint, before = new["spec"]["taint"], old["spec"]["taint"]
    has_changed = taint.get("effect") != before.get("effect")
    if has_changed and taint.get("timeAdded") == before.get("timeAdded"):
        taint.pop("timeAdded", None)


def slice_differs(new: Object, old: Object) -> bool:
    """Returns True for a change that is a new generation of an EndpointSlice."""

    def content(obj: Object) -> Object:
        return {key: value for key, value in obj.items() if key != "metadata"}

    labels = (new["metadata"].get("labels"), old["metadata"].get("labels"))
    return content(new) != content(old) or labels[0] != labels[1]


def keep_spec_and_labels(new: Object, old: Object) -> None:
    """Restores the spec and the labels."""
    keep_spec(new, old)
    restore_fields(new["metadata"], old["metadata"], "labels")
