"""Selectable fields of objects: ``fieldSelector=spec.nodeName=n1``.

Source: AddFieldLabelConversionFunc in pkg/apis/*/v1/conversion.go, and the ToSelectableFields of
pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver.errors import bad_request, quoted
from mooring.objects.selector_text import FieldRequirement, FieldSelector

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

Name = tuple[str, str]


def pod_fields(pod: Object) -> dict[str, str]:
    """Returns the selectable fields of a pod; schedulers and kubelets watch pods by them."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    addresses = status.get("podIPs")
    return {
        **_names_of(pod),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join([address["ip"] for address in addresses]) if addresses else "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def _names_of(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    return {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
    }


_POD = frozenset(pod_fields({"metadata": {"name": ""}}))
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT = (
    *(f"involvedObject.{name}" for name in _INVOLVED),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
#: Selectable fields besides metadata.name and metadata.namespace.
_FIELDS: Mapping[Name, Collection[str]] = MappingProxyType(
    {
        ("", "pods"): _POD,
        ("", "nodes"): ("spec.unschedulable",),
        ("", "replicationcontrollers"): ("status.replicas",),
        ("", "events"): _EVENT,
        ("events.k8s.io", "events"): _EVENT,
        ("", "namespaces"): ("name", "status.phase"),
        ("", "secrets"): ("type",),
        ("", "services"): ("spec.clusterIP", "spec.type"),
        ("batch", "jobs"): ("status.successful",),
        ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
        ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver"),
    }
)
#: Aliases of fields.
_ALIASES: Mapping[Name, Mapping[str, str]] = MappingProxyType(
    {
        ("", "pods"): {"spec.host": "spec.nodeName"},
        ("events.k8s.io", "events"): {
            **{f"regarding.{name}": f"involvedObject.{name}" for name in _INVOLVED},
            "reportingController": "reportingComponent",
            "reason": "reason",
            "type": "type",
        },
    }
)
#: Resources that have no field selector for the namespace.
_CLUSTER = frozenset((("", "nodes"), ("certificates.k8s.io", "certificatesigningrequests")))
_UNSUPPORTED_MESSAGES: Mapping[Name, Callable[[str], str]] = MappingProxyType(
    {
        ("batch", "jobs"): lambda field: f"field label {quoted(field)} not supported for Job",
        ("resource.k8s.io", "resourceslices"): lambda field: (
            f"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}"
        ),
    }
)


def check_fields(resource: Resource, selector: FieldSelector) -> FieldSelector:
    """Replaces aliases in a selector by the fields' names.

    Raises:
        ApiStatusError: 400, the resource cannot be selected by a field.
    """
    name = (resource.group, resource.name)
    supported = _supported(resource)
    aliases = _ALIASES.get(name, {})
    requirements = []
    for requirement in selector.requirements:
        field = aliases.get(requirement.field, requirement.field)
        is_view = name == ("events.k8s.io", "events") and requirement.field not in aliases
        is_supported = (field in supported and not is_view) or field == "metadata.name"
        is_cluster = name in _CLUSTER or (resource.custom is not None and not resource.namespaced)
        if not is_supported and (field != "metadata.namespace" or is_cluster):
            if resource.custom is not None:
                raise bad_request(f"field label not supported: {requirement.field}")
            raise bad_request(_unsupported_message(name, requirement.field))
        requirements.append(
            FieldRequirement(field, requirement.value, is_equal=requirement.is_equal)
        )
    return FieldSelector(tuple(requirements))


def _unsupported_message(name: Name, field: str) -> str:
    if name in _UNSUPPORTED_MESSAGES:
        return _UNSUPPORTED_MESSAGES[name](field)
    if name in _FIELDS:
        return f"field label not supported: {field}"
    return (
        f'{quoted(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _supported(resource: Resource) -> Collection[str]:
    if resource.custom is not None:
        return resource.custom.selectable
    return _FIELDS.get((resource.group, resource.name), ())


def fields_of(resource: Resource, stored: Stored) -> Mapping[str, str]:
    """Returns the selectable fields of an object; cached in it."""
    if stored.fields is None:
        obj = stored.object()
        if (resource.group, resource.name) == ("", "pods"):
            stored.fields = pod_fields(obj)
        else:
            stored.fields = {**_names_of(obj), **_values(resource, obj)}
    return stored.fields


def _values(resource: Resource, obj: Object) -> dict[str, str]:
    name = (resource.group, resource.name)
    if resource.name == "events" and resource.custom is None:
        return _event_values(obj)
    values = {field: _text(_at(obj, field)) for field in _supported(resource)}
    if name == ("", "nodes"):
        values["spec.unschedulable"] = _text(obj["spec"].get("unschedulable", False))
    elif name == ("", "namespaces"):
        values["name"] = obj["metadata"]["name"]
    elif name == ("", "replicationcontrollers"):
        values["status.replicas"] = values["status.replicas"] or "0"
    elif name == ("batch", "jobs"):
        values["status.successful"] = _text(obj["status"].get("succeeded", 0))
    return values


def _event_values(event: Object) -> dict[str, str]:
    involved, source = event["involvedObject"], event["source"].get("component", "")
    return {
        **{f"involvedObject.{name}": involved.get(name, "") for name in _INVOLVED},
        "reason": event.get("reason", ""),
        "reportingComponent": event.get("reportingComponent", ""),
        "source": source or event.get("reportingComponent", ""),
        "type": event.get("type", ""),
    }


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
