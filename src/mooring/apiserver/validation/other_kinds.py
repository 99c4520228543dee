"""Validation of objects other than pods, with kube-apiserver's messages.

It covers the fields that scheduling reads. Kinds that are only stored have no rules.

Source: the validation.go files below pkg/apis, one per group.
"""

from __future__ import annotations

import base64
import json
import operator
import re
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names as name_checks
from mooring.apiserver.addresses import is_dual_stack, network_of
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    internal_field_error,
    invalid,
    required,
    too_long,
)
from mooring.apiserver.validation.addresses import validate_cidr
from mooring.apiserver.validation.affinity import validate_taints
from mooring.apiserver.validation.metadata import (
    NOT_STANDARD,
    lacks_domain,
    validate_label_selector,
)
from mooring.apiserver.validation.resources import validate_node_resources
from mooring.apiserver.validation.rules import (
    NOT_NEGATIVE,
    field_errors,
    immutable,
    not_negative,
    one_of,
    required_one_of,
)
from mooring.objects.defaulting.priority import HIGHEST_USER_PRIORITY, system_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.types import Object

#: Bytes of a ConfigMap's or a Secret's data.
DATA_BYTES_MAX = 1024 * 1024
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
#: Type of a Secret -> the key with its content, a JSON object.
_JSON_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_NO_JSON_OBJECT = "json: the content is not an object"
_FEATURE_MAX = 253
_FAMILIES_MAX = 2
_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_NO_FEATURE = (
    "start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and "
    "slashes"
)
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_DIGITS_MAX = 3


def validate_node(node: Object) -> Errors:
    """Validates a new node; the field paths of taints are upstream's."""
    yield from validate_taints(node["spec"].get("taints", ()), "metadata.taints")
    yield from _validate_node_status(node)
    ranges = node["spec"].get("podCIDRs") or []
    for number, text in enumerate(ranges):
        yield from validate_cidr(text, f"spec.podCIDRs[{number}]")
    if len(ranges) > 1:
        yield from _validate_families(ranges, "spec.podCIDRs")


def _validate_families(ranges: Sequence[str], field: str) -> Errors:
    """Validates that of two ranges of pods' addresses each is of another family."""
    networks = []
    for number, text in enumerate(ranges):
        network = network_of(text)
        if network is None:
            detail = (
                "invalid PodCIDRs. failed to check with dual stack with error:"
                f"invalid CIDR[{number}]: <nil> (invalid CIDR address: {text})"
            )
            yield internal_field_error(field, detail)
            break
        networks.append(network)
    else:
        is_pair = is_dual_stack([network.network_address for network in networks])
        if is_pair and len(ranges) == _FAMILIES_MAX:
            return
    yield invalid(field, ranges, "may specify no more than one CIDR for each IP family")


def _validate_node_status(node: Object) -> Errors:
    status = node.get("status", {})
    for name in ("capacity", "allocatable"):
        yield from validate_node_resources(status.get(name, {}), f"status.{name}")
    yield from _validate_features(status.get("declaredFeatures") or [], "status.declaredFeatures")


def _validate_features(features: Sequence[str], field: str) -> Errors:
    """Validates the features that a node declares: names, sorted."""
    for number, feature in enumerate(features):
        lead = f"invalid feature name {json.dumps(feature)}: must "
        if len(feature) > _FEATURE_MAX:
            problem = f"{lead}be no more than {_FEATURE_MAX} characters"
            yield invalid(f"{field}[{number}]", feature, problem)
        elif not _feature.fullmatch(feature):
            yield invalid(f"{field}[{number}]", feature, lead + _NO_FEATURE)
        following = features[number + 1] if number + 1 < len(features) else None
        if following == feature:
            yield duplicate(f"{field}[{number + 1}]", following)
        elif following is not None and following < feature:
            problem = "list must be sorted alphabetically"
            yield invalid(f"{field}[{number + 1}]", following, problem)


def validate_namespace(namespace: Object) -> Errors:
    """Validates a new namespace."""
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or ():
        yield from field_errors("spec.finalizers", finalizer, name_checks.qualified_name)
        if lacks_domain(finalizer):
            yield invalid("spec.finalizers", finalizer, NOT_STANDARD)


def validate_node_update(new: Object, old: Object) -> Errors:
    """Validates a change of a node, or of its status."""
    yield from _validate_node_status(new)
    addresses: list[Any] = []
    for number, address in enumerate(new["status"].get("addresses", ())):
        if address in addresses:
            internal = {"Type": address["type"], "Address": address["address"]}
            yield duplicate(f"status.addresses[{number}]", internal)
        addresses.append(address)
    spec, before = new["spec"], old["spec"]
    ranges, old_ranges = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    changes = sum(map(operator.ne, ranges, old_ranges)) if len(ranges) == len(old_ranges) else 1
    for name, title, count in (
        ("podCIDRs", "podCIDR", changes if old_ranges else 0),
        ("providerID", "providerID", 1),
    ):
        if before.get(name) and before[name] != spec.get(name):
            problem = f'node updates may not change {title} except from "" to valid'
            yield from [forbidden_field(f"spec.{name}", problem)] * count
    if spec.get("externalID", "") != before.get("externalID", ""):
        yield forbidden_field("spec.externalID", "may not be updated")
    yield from validate_taints(spec.get("taints", ()), "metadata.taints")


def validate_priority_class(priority_class: Object) -> Errors:
    """Validates a new priority class."""
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith("system-"):
        yield from _validate_system_class(name, value, priority_class)
    elif value > HIGHEST_USER_PRIORITY:
        problem = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden_field("value", problem)
    policy = priority_class.get("preemptionPolicy")
    if policy is not None:
        yield from required_one_of("preemptionPolicy", policy, _PREEMPTION_POLICIES)


def _validate_system_class(name: str, value: int, priority_class: Object) -> Errors:
    system_values = {system["metadata"]["name"]: system["value"] for system in system_classes()}
    lead = "priority class names with 'system-' prefix are reserved for system use only. error: "
    if name not in system_values:
        message = f"{name} is not a known system priority class"
    elif system_values[name] != value:
        message = f"value of {name} PriorityClass must be {system_values[name]}"
    elif priority_class.get("globalDefault"):
        message = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    return [forbidden_field("metadata.name", lead + message)]


def validate_priority_class_update(new: Object, old: Object) -> Errors:
    """Validates a change of a priority class: values that pods have copied are immutable."""
    if new["value"] != old["value"]:
        yield forbidden_field("value", "may not be changed in an update.")
    yield from immutable(new, old, "preemptionPolicy")


def validate_lease(lease: Object) -> Errors:
    """Validates a new lease."""
    spec = lease["spec"]
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative(spec, "spec", "leaseTransitions")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        problem = "may only be specified if `strategy` is defined"
        yield forbidden_field("spec.preferredHolder", problem)


def validate_budget(budget: Object) -> Errors:
    """Validates a new disruption budget."""
    spec = budget["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        problem = "minAvailable and maxUnavailable cannot be both set"
        # Upstream prints its internal type, whose fields have other names.
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        internal = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        yield invalid("spec", internal, problem)
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            yield from validate_int_or_percent(spec[name], f"spec.{name}")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    supported = ("AlwaysAllow", "IfHealthyBudget")
    yield from one_of("spec.unhealthyPodEvictionPolicy", policy, supported)


def validate_int_or_percent(value: int | str, field: str, *, is_capped: bool = True) -> Errors:
    """Validates a number of pods or a percentage, which may be limited to 100 %."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            problem = name_checks.pattern_problem(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                "1%",
                "93%",
            )
            return [invalid(field, value, problem)]
        digits = value[:-1].lstrip("0")
        if is_capped and (len(digits) > _PERCENT_DIGITS_MAX or int(digits or 0) > 100):
            return [invalid(field, value, "must not be greater than 100%")]
        return []
    return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []


def validate_config_map(config_map: Object) -> Errors:
    """Validates a new ConfigMap."""
    texts, encoded = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in texts:
        field = f"data[{key}]"
        yield from field_errors(field, key, name_checks.config_key)
        if key in encoded:
            yield invalid(field, key, "duplicate of key present in binaryData")
    for key in encoded:
        yield from field_errors(f"binaryData[{key}]", key, name_checks.config_key)
    text_bytes = sum(len(text.encode()) for text in texts.values())
    if text_bytes + _decoded_bytes(encoded) > DATA_BYTES_MAX:
        yield too_long("[]", DATA_BYTES_MAX)


def _decoded_bytes(data: Object) -> int:
    """Returns the number of bytes of values in base64."""
    return sum(len(base64.b64decode(value)) for value in data.values())


def validate_secret(secret: Object) -> Errors:
    """Validates a new Secret; kinds of secrets need some of their keys."""
    kind, data = secret.get("type", ""), secret.get("data") or {}
    for key in data:
        yield from field_errors(f"data[{key}]", key, name_checks.config_key)
    if _decoded_bytes(data) > DATA_BYTES_MAX:
        yield too_long("data", DATA_BYTES_MAX)
    if kind == "kubernetes.io/service-account-token":
        if not secret["metadata"].get("annotations", {}).get(_ACCOUNT_ANNOTATION):
            yield required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")
    elif kind in _JSON_KEYS:
        yield from _validate_json_key(data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            yield from (required(f"data[{name}]") for name in ("username", "password"))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            yield required("data[ssh-privatekey]")
    elif kind == "kubernetes.io/tls":
        yield from (
            required(f"data[{name}]") for name in ("tls.crt", "tls.key") if name not in data
        )


def _validate_json_key(data: Object, name: str) -> Errors:
    field = f"data[{name}]"
    if name not in data:
        yield required(field)
        return
    try:
        content = json.loads(base64.b64decode(data[name]))
        problem = "" if isinstance(content, dict) else _NO_JSON_OBJECT
    except ValueError:
        problem = _NO_JSON_OBJECT
    if problem:
        yield invalid(field, "<secret contents redacted>", problem)


def validate_secret_update(new: Object, old: Object) -> Errors:
    """Validates a change of a Secret: its type is immutable."""
    yield from immutable(new, old, "type")
    yield from _validate_frozen(new, old)
    yield from validate_secret(new)


def validate_immutable_data(new: Object, old: Object) -> Errors:
    """Validates a change of a ConfigMap."""
    yield from validate_config_map(new)
    yield from _validate_frozen(new, old)


def _validate_frozen(new: Object, old: Object) -> Errors:
    """Validates that the data of an object that is immutable has not changed."""
    if not old.get("immutable"):
        return
    problem = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden_field("immutable", problem)
    yield from (
        forbidden_field(name, problem)
        for name in ("data", "binaryData")
        if new.get(name) != old.get(name)
    )
