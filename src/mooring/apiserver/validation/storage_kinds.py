"""Validation of the kinds of storage.k8s.io, with kube-apiserver's messages.

Source: pkg/apis/storage/validation/validation.go. Differs: volumes that an attachment has inline
are not validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.metadata import ordered_selector, validate_label_selector
from mooring.apiserver.validation.pods.volumes import driver_name
from mooring.apiserver.validation.rules import (
    IMMUTABLE,
    NOT_NEGATIVE,
    field_errors,
    immutable,
    not_negative,
    one_of,
    required_value,
)
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.types import Object

DRIVER_NAME_LENGTH_MAX = 63
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_RECLAIM_POLICIES = ("Delete", "Retain")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_PARAMETERS_MAX = 512
_PARAMETERS_BYTES_MAX = 256 * 1024
_NODE_ID_LENGTH_MAX = 256
_UPDATE_PERIOD_S_MIN = 10
_TOKEN_S_MIN = 600
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


# -- classes ---------------------------------------------------------------------------------------


def validate_storage_class(storage_class: Object) -> Errors:
    """Validates a new storage class."""
    yield from required_value(
        "provisioner", storage_class["provisioner"].lower(), names.annotation_key
    )
    yield from _validate_parameters(storage_class.get("parameters") or {})
    policy = storage_class.get("reclaimPolicy") or None
    yield from one_of("reclaimPolicy", policy, _RECLAIM_POLICIES)
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        yield required("volumeBindingMode")
    yield from one_of("volumeBindingMode", mode, _BINDING_MODES)
    yield from _validate_topologies(storage_class.get("allowedTopologies") or ())


def _validate_parameters(parameters: Mapping[str, str]) -> Errors:
    if len(parameters) > _PARAMETERS_MAX:
        yield too_long("parameters", _PARAMETERS_MAX)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
    if size > _PARAMETERS_BYTES_MAX:
        yield too_long("parameters", _PARAMETERS_BYTES_MAX)


def _validate_topologies(topologies: Any) -> Errors:
    # As upstream, which compares with an empty term for each term as well.
    terms: list[dict[str, set[str]]] = [{} for _ in topologies]
    for number, term in enumerate(topologies):
        field = f"allowedTopologies[{number}].matchLabelExpressions"
        values_by_key: dict[str, set[str]] = {}
        for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key = expression.get("key", "")
            yield from _validate_expression(expression, f"{field}[{index}]")
            if key in values_by_key:
                yield duplicate(f"{field}[{index}].key", key)
            values_by_key[key] = set(expression.get("values") or ())
        yield from (duplicate(field, "") for other in terms if other == values_by_key)
        terms.append(values_by_key)


def _validate_expression(expression: Object, field: str) -> Errors:
    values = expression.get("values") or []
    if not values:
        yield required(f"{field}.values")
    for number, value in enumerate(values):
        if value in values[:number]:
            yield duplicate(f"{field}.values[{number}]", value)
    yield from field_errors(f"{field}.key", expression.get("key", ""), names.qualified_name)


def validate_storage_class_update(new: Object, old: Object) -> Errors:
    """Validates a change of a storage class."""
    after, before = (it.get("parameters") or {} for it in (new, old))
    if after != before:
        # Messages have the keys of a map in Go's order.
        yield invalid("parameters", dict(sorted(after.items())) or None, IMMUTABLE)
    yield from immutable(new, old, "provisioner", "reclaimPolicy", "volumeBindingMode")


def validate_attributes_class(attributes_class: Object) -> Errors:
    """Validates a new class of volume attributes."""
    name = attributes_class.get("driverName", "").lower()
    yield from required_value("driverName", name, names.annotation_key)
    parameters = attributes_class.get("parameters") or {}
    if not parameters:
        yield required("parameters", "must contain at least one key/value pair")
    yield from _validate_parameters(parameters)


def validate_attributes_class_update(new: Object, old: Object) -> Errors:
    """Validates a change of a class of volume attributes: only its metadata may change."""
    for name in ("driverName", "parameters"):
        if new.get(name) != old.get(name):
            yield forbidden_field(name, f"updates to {name} are forbidden.")
    yield from validate_attributes_class(new)


# -- nodes, drivers, capacities --------------------------------------------------------------------


def _validate_driver_name(name: str, field: str) -> Errors:
    if not name:
        yield required(field)
        return
    if len(name) > DRIVER_NAME_LENGTH_MAX:
        yield too_long(field, DRIVER_NAME_LENGTH_MAX)
    yield from field_errors(field, name, driver_name)


def validate_csi_node(node: Object) -> Errors:
    """Validates a new CSINode."""
    driver_names: set[str] = set()
    for number, driver in enumerate(node["spec"].get("drivers") or ()):
        field, name = f"spec.drivers[{number}]", driver.get("name", "")
        yield from _validate_driver_name(name, f"{field}.name")
        node_id = driver.get("nodeID", "")
        if not node_id:
            yield required(f"{field}.nodeID")
        if len(node_id) > _NODE_ID_LENGTH_MAX:
            problem = f"must be {_NODE_ID_LENGTH_MAX} characters or less"
            yield invalid(f"{field}.nodeID", node_id, problem)
        yield from not_negative(driver.get("allocatable") or {}, f"{field}.allocatable", "count")
        if name in driver_names:
            yield duplicate(f"{field}.name", name)
        driver_names.add(name)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                yield required(field)
            if key in keys:
                yield duplicate(field, key)
            keys.add(key)
            yield from field_errors(field, key, names.qualified_name)


def validate_csi_node_update(new: Object, old: Object) -> Errors:
    """Validates a change of a CSINode: of a driver only the allocatable count may change."""
    yield from validate_csi_node(new)
    for before in old["spec"].get("drivers") or ():
        for driver in new["spec"].get("drivers") or ():
            fields = ("name", "nodeID", "topologyKeys")
            is_same = all(
                (driver.get(name) or None) == (before.get(name) or None) for name in fields
            )
            if driver.get("name") == before.get("name") and not is_same:
                internal = {
                    "Name": driver.get("name", ""),
                    "NodeID": driver.get("nodeID", ""),
                    "TopologyKeys": driver.get("topologyKeys"),
                    "Allocatable": None,
                }
                yield invalid("spec.drivers", internal, IMMUTABLE)


def validate_csi_driver(driver: Object) -> Errors:
    """Validates a new CSIDriver."""
    spec = driver["spec"]
    for name, title in (
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ):
        if spec.get(name) is None:
            yield required(f"spec.{title}")
    yield from one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _FS_GROUP_POLICIES)
    yield from _validate_token_requests(spec.get("tokenRequests") or ())
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLE_MODES:
            yield not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
    period_s = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period_s is not None and period_s < _UPDATE_PERIOD_S_MIN:
        problem = f"must be greater than or equal to {_UPDATE_PERIOD_S_MIN} seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, problem)
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        problem = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", in_secrets, problem)


def _validate_token_requests(requests: Any) -> Errors:
    audiences: set[str] = set()
    for number, request in enumerate(requests):
        field, audience = f"spec.tokenRequests[{number}]", request.get("audience", "")
        if audience in audiences:
            yield duplicate(f"{field}.audience", audience)
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < _TOKEN_S_MIN:
            problem = "may not specify a duration less than 10 minutes"
            yield invalid(f"{field}.expirationSeconds", seconds, problem)
        if seconds is not None and seconds > 1 << 32:
            problem = "may not specify a duration larger than 2^32 seconds"
            yield invalid(f"{field}.expirationSeconds", seconds, problem)


def validate_csi_driver_update(new: Object, old: Object) -> Errors:
    """Validates a change of a CSIDriver."""
    yield from validate_csi_driver(new)
    spec, before = new["spec"], old["spec"]
    if spec.get("attachRequired") != before.get("attachRequired"):
        yield invalid("spec.attachedRequired", spec.get("attachRequired"), IMMUTABLE)
    yield from immutable(spec, before, "volumeLifecycleModes", parent="spec.")


def validate_capacity(capacity: Object) -> Errors:
    """Validates a new CSIStorageCapacity."""
    yield from validate_label_selector(capacity.get("nodeTopology"), "nodeTopology")
    name = capacity.get("storageClassName", "")
    yield from field_errors("storageClassName", name, names.dns_subdomain)
    amount = capacity.get("capacity")
    if amount is not None and Quantity.from_wire(amount).nanos < 0:
        yield invalid("capacity", amount, NOT_NEGATIVE)


def validate_capacity_update(new: Object, old: Object) -> Errors:
    """Validates a change of a CSIStorageCapacity: what was asked for is immutable."""
    topology = new.get("nodeTopology")
    if topology != old.get("nodeTopology"):
        yield invalid("nodeTopology", ordered_selector(topology), IMMUTABLE)
    yield from immutable(new, old, "storageClassName")


# -- attachments -----------------------------------------------------------------------------------


def validate_attachment(attachment: Object) -> Errors:
    """Validates a new VolumeAttachment."""
    spec = attachment["spec"]
    yield from _validate_driver_name(spec.get("attacher", ""), "spec.attacher")
    source, field = spec.get("source") or {}, "spec.source"
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if name is None and inline is None:
        yield required(field, _ONE_SOURCE)
    elif name is not None and inline is not None:
        yield forbidden_field(field, _ONE_SOURCE)
    elif name == "":
        problem = "must specify non empty persistentVolumeName"
        yield required(f"{field}.persistentVolumeName", problem)
    yield from field_errors("spec.nodeName", spec.get("nodeName", ""), names.dns_subdomain)
    if name is not None:
        yield from field_errors(f"{field}.persistentVolumeName", name, names.dns_subdomain)


def validate_attachment_update(new: Object, old: Object) -> Errors:
    """Validates a change of a VolumeAttachment: its spec is immutable."""
    yield from validate_attachment(new)
    spec = new["spec"]
    if spec == old["spec"]:
        return
    source = spec.get("source") or {}
    if "inlineVolumeSpec" not in source:  # else it is printed with the names of v1
        named = {"PersistentVolumeName": source.get("persistentVolumeName")}
        spec = {
            "Attacher": spec.get("attacher", ""),
            "Source": {**named, "InlineVolumeSpec": None},
            "NodeName": spec.get("nodeName", ""),
        }
    yield invalid("spec", spec, IMMUTABLE)
