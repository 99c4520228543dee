"""The rules for objects that files hold: what a cluster has already, and what is to be created.

``ExistingObjects`` is the validator of ``objects.reader``. An object that an API server has stored
before is not refused for what only a create may not say (ephemeral containers, a UID, a status, a
name that today's rules would not allow); all else is as in a request.
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver import names
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.registry.strategy import nothing
from mooring.apiserver.resources import RESOURCES
from mooring.apiserver.validation.metadata import each as each_problem
from mooring.apiserver.validation.metadata import validate_metadata
from mooring.apiserver.validation.pod import (
    KEPT_SPEC_BYTES_MAX,
    KEPT_SPECS_MAX,
    validate_new_pod,
    validate_pod_spec,
)
from mooring.objects.defaulting.admission import DEFAULT_NAMESPACE
from mooring.objects.defaulting.pods import is_stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.errors import FieldError
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_RESOURCES: Mapping[tuple[str, str], Resource] = MappingProxyType(
    {
        (resource.api_version, resource.kind): resource
        for resource in RESOURCES
        if resource.is_stored
    }
)
#: Any moment; it ends in no answer.
_NOW = "2000-01-01T00:00:00Z"


class ExistingObjects:
    """Validates objects of all kinds that the server stores."""

    def knows(self, api_version: str, kind: str) -> bool:
        """Returns whether the server stores objects of the kind."""
        return (api_version, kind) in _RESOURCES

    def problems_of(self, obj: Object) -> list[FieldError]:
        """Returns what is wrong with an object that has its defaults and was admitted."""
        resource = _RESOURCES.get((obj["apiVersion"], obj["kind"]))
        if resource is None:
            return []
        return _metadata_faults(resource, obj) + _faults_of(resource, obj)


def _metadata_faults(resource: Resource, obj: Object) -> list[FieldError]:
    metadata = obj["metadata"]
    if resource.namespaced and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": DEFAULT_NAMESPACE}
    check_name = names.path_segment if is_stored(obj) else strategy_of(resource).check_name
    return validate_metadata(metadata, namespaced=resource.namespaced, check_name=check_name)


def _faults_of(resource: Resource, obj: Object) -> list[FieldError]:
    if resource.kind == "Pod":
        return _faults_of_pod(obj)
    if resource.kind == "Event":
        return []  # nothing reads those of files, and old recorders wrote what is refused today
    strategy = strategy_of(resource)
    if not is_stored(obj) and strategy.prepare_create is not nothing:
        obj = deepcopy(obj)
        strategy.prepare_create(obj, _NOW)
    return strategy.validate(obj)


def _faults_of_pod(pod: Object) -> list[FieldError]:
    """Returns what is wrong with a pod; specs that differ only in the node are judged once."""
    spec = dict(pod["spec"])
    node = spec.pop("nodeName", "")
    try:
        encoded = msgspec.json.encode(spec)
    except UnicodeEncodeError:  # JSON can write halves of characters
        encoded = b""
    is_good = 0 < len(encoded) <= KEPT_SPEC_BYTES_MAX and _is_good(encoded)
    if is_good and not (node and "schedulingGates" in spec):
        return each_problem("spec.nodeName", node, names.dns_subdomain(node)) if node else []
    return validate_pod_spec(pod) if is_stored(pod) else validate_new_pod(pod)


@lru_cache(maxsize=KEPT_SPECS_MAX)
def _is_good(encoded_spec: bytes) -> bool:
    """Returns whether nothing is wrong with a spec, be it of a new pod or of a stored one."""
    return not validate_new_pod({"spec": msgspec.json.decode(encoded_spec)})
