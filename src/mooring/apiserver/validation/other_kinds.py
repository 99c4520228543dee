"""What is wrong with objects other than pods, in kube-apiserver's words.

As far as scheduling reads them. Kinds that are only stored here have no rules of their own.

Source: the validation.go files below pkg/apis, one per group.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names as texts
from mooring.apiserver.errors import (
    FieldFault,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.affinity import validate_taints
from mooring.apiserver.validation.metadata import IMMUTABLE, each, validate_label_selector
from mooring.apiserver.validation.resources import validate_node_resources
from mooring.objects.defaulting.priority import HIGHEST_USER_PRIORITY, system_classes

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

#: Bytes of a ConfigMap's or a Secret's data.
DATA_BYTES_MAX = 1024 * 1024
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_PERCENT = re.compile(r"\d+%")


def validate_node(node: Object) -> list[FieldFault]:
    """A new node; the paths of taints are upstream's."""
    faults = validate_taints(node["spec"].get("taints", ()), "metadata.taints")
    return faults + _validate_node_status(node)


def _validate_node_status(node: Object) -> list[FieldFault]:
    status = node.get("status", {})
    return [
        fault
        for name in ("capacity", "allocatable")
        for fault in validate_node_resources(status.get(name, {}), f"status.{name}")
    ]


def validate_node_update(new: Object, old: Object) -> list[FieldFault]:
    """Returns a change of a node or of its status."""
    faults = _validate_node_status(new)
    addresses: list[Any] = []
    for number, address in enumerate(new["status"].get("addresses", ())):
        if address in addresses:
            shown = {"Type": address["type"], "Address": address["address"]}
            faults.append(duplicate(f"status.addresses[{number}]", shown))
        addresses.append(address)
    spec, before = new["spec"], old["spec"]
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        problem = 'node updates may not change podCIDR except from "" to valid'
        faults.append(forbidden_field("spec.podCIDRs", problem))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        problem = 'node updates may not change providerID except from "" to valid'
        faults.append(forbidden_field("spec.providerID", problem))
    # Twice, as upstream: a changed node is checked as a new one too.
    return faults + 2 * validate_taints(spec.get("taints", ()), "metadata.taints")


def validate_priority_class(found: Object) -> list[FieldFault]:
    """Returns a new priority class."""
    faults: list[FieldFault] = []
    name, value = found["metadata"].get("name", ""), found["value"]
    if name.startswith("system-"):
        faults += _validate_system_class(name, value, found)
    elif value > HIGHEST_USER_PRIORITY:
        problem = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        faults.append(forbidden_field("value", problem))
    policy = found.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION_POLICIES:
        faults.append(not_supported("preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return faults


def _validate_system_class(name: str, value: int, found: Object) -> list[FieldFault]:
    known = {system["metadata"]["name"]: system["value"] for system in system_classes()}
    lead = "priority class names with 'system-' prefix are reserved for system use only. error: "
    if name not in known:
        why = f"{name} is not a known system priority class"
    elif known[name] != value:
        why = f"value of {name} PriorityClass must be {known[name]}"
    elif found.get("globalDefault"):
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    return [forbidden_field("metadata.name", lead + why)]


def validate_priority_class_update(new: Object, old: Object) -> list[FieldFault]:
    """Returns a change of a priority class: not of what pods have taken over already."""
    faults: list[FieldFault] = []
    if new["value"] != old["value"]:
        faults.append(forbidden_field("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    if policy != old.get("preemptionPolicy"):
        faults.append(invalid("preemptionPolicy", policy, IMMUTABLE))
    return faults


def validate_lease(lease: Object) -> list[FieldFault]:
    """Returns a new lease."""
    spec = lease["spec"]
    faults: list[FieldFault] = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        faults.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        problem = "must be greater than or equal to 0"
        faults.append(invalid("spec.leaseTransitions", transitions, problem))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        problem = "may only be specified if `strategy` is defined"
        faults.append(forbidden_field("spec.preferredHolder", problem))
    return faults


def validate_lease_update(new: Object, _old: Object) -> list[FieldFault]:
    """Returns a change of a lease."""
    return validate_lease(new)


def validate_budget(budget: Object) -> list[FieldFault]:
    """Returns a new disruption budget."""
    spec = budget["spec"]
    faults: list[FieldFault] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        problem = "minAvailable and maxUnavailable cannot be both set"
        # Upstream shows its internal type, whose fields have other names.
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        faults.append(invalid("spec", shown, problem))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            faults += validate_share(spec[name], f"spec.{name}")
    faults += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        known = ["AlwaysAllow", "IfHealthyBudget"]
        faults.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, known))
    return faults


def validate_budget_update(new: Object, _old: Object) -> list[FieldFault]:
    """Returns a change of a disruption budget."""
    return validate_budget(new)


def validate_share(value: int | str, field: str, *, is_capped: bool = True) -> list[FieldFault]:
    """Returns a number of pods, or a percentage of them, which may be capped at all of them."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            problem = texts.pattern_problem(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                "1%",
                "93%",
            )
            return [invalid(field, value, problem)]
        if is_capped and int(value[:-1]) > 100:
            return [invalid(field, value, "must not be greater than 100%")]
        return []
    problem = "must be greater than or equal to 0"
    return [invalid(field, value, problem)] if value < 0 else []


def validate_config_map(found: Object) -> list[FieldFault]:
    """Returns a new ConfigMap or Secret."""
    faults: list[FieldFault] = []
    size = 0
    for field in ("data", "binaryData", "stringData"):
        for key, value in found.get(field, {}).items():
            faults += each(f"{field}[{key}]", key, texts.config_key(key))
            size += len(value)
    if size > DATA_BYTES_MAX:
        faults.append(too_long("", DATA_BYTES_MAX))
    return faults


def validate_immutable_data(new: Object, old: Object) -> list[FieldFault]:
    """Returns a change of a ConfigMap or Secret."""
    faults = validate_config_map(new)
    if not old.get("immutable"):
        return faults
    problem = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        faults.append(forbidden_field("immutable", problem))
    faults += [
        forbidden_field(name, problem)
        for name in ("data", "binaryData")
        if new.get(name) != old.get(name)
    ]
    return faults


def validate_service(service: Object) -> list[FieldFault]:
    """Returns a new service."""
    faults: list[FieldFault] = []
    spec = service["spec"]
    ports = spec.get("ports", ())
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        faults.append(required("spec.ports"))
    for number, port in enumerate(ports):
        field = f"spec.ports[{number}]"
        if len(ports) > 1 and not port.get("name"):
            faults.append(required(f"{field}.name"))
        found = texts.port_number(port["port"])
        faults += [invalid(f"{field}.port", port["port"], problem) for problem in found]
    return faults


def validate_spec_is_kept(new: Object, old: Object) -> list[FieldFault]:
    """Returns an object whose wish never changes."""
    if new["spec"] == old["spec"]:
        return []
    return [invalid("spec", new["spec"], IMMUTABLE)]
