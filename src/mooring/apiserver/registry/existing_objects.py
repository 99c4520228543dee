"""Validation of objects from files: objects that a cluster has already, and new ones.

``ExistingObjects`` is the validator of ``objects.files.reader``. An object that an API server has
stored before is exempt from the rules that apply only to a create (no ephemeral containers, no UID,
no status, today's rules for names); the other rules are those of a request.
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
from mooring.apiserver.validation.metadata import validate_metadata
from mooring.apiserver.validation.pod import (
    CACHED_SPEC_BYTES_MAX,
    VALID_SPEC_CACHE_SIZE,
    fits_metadata,
    validate_new_pod,
    validate_pod_spec,
)
from mooring.apiserver.validation.rules import field_errors
from mooring.objects.defaulting.admission import DEFAULT_NAMESPACE
from mooring.objects.defaulting.pods import is_stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.errors import Errors, FieldError
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_RESOURCES: Mapping[tuple[str, str], Resource] = MappingProxyType(
    {
        (resource.api_version, resource.kind): resource
        for resource in RESOURCES
        if resource.is_stored
    }
)
#: An arbitrary time; it does not affect the result.
_NOW = "2000-01-01T00:00:00Z"


class ExistingObjects:
    """Validates objects of all kinds that the server stores."""

    def knows(self, api_version: str, kind: str) -> bool:
        """Returns True if the server stores objects of the kind."""
        return (api_version, kind) in _RESOURCES

    def problems_of(self, obj: Object) -> list[FieldError]:
        """Returns the errors of an object that has its defaults and was admitted."""
        resource = _RESOURCES.get((obj["apiVersion"], obj["kind"]))
        if resource is None:
            return []
        return [*_metadata_errors(resource, obj), *_errors_of(resource, obj)]


def _metadata_errors(resource: Resource, obj: Object) -> Errors:
    metadata = obj["metadata"]
    if resource.namespaced and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": DEFAULT_NAMESPACE}
    check_name = names.path_segment if is_stored(obj) else strategy_of(resource).check_name
    return validate_metadata(metadata, namespaced=resource.namespaced, check_name=check_name)


def _errors_of(resource: Resource, obj: Object) -> Errors:
    if resource.kind == "Pod":
        return _errors_of_pod(obj)
    if resource.kind == "Event":
        return []  # events of files are unused, and old recorders wrote invalid ones
    strategy = strategy_of(resource)
    if not is_stored(obj) and strategy.prepare_create is not nothing:
        obj = deepcopy(obj)
        obj["metadata"].setdefault("uid", "")  # a LimitRange without a name is named after it
        strategy.prepare_create(obj, _NOW)
    return strategy.validate(obj)


def _errors_of_pod(pod: Object) -> Errors:
    """Returns the errors of a pod; specs that differ only in the node are validated once."""
    spec = dict(pod["spec"])
    node = spec.pop("nodeName", "")
    try:
        encoded = msgspec.json.encode(spec)
    except UnicodeEncodeError:  # JSON can contain lone surrogates
        encoded = b""
    is_valid = 0 < len(encoded) <= CACHED_SPEC_BYTES_MAX and _is_valid_cached(encoded)
    if is_valid and not (node and "schedulingGates" in spec) and fits_metadata(pod):
        return field_errors("spec.nodeName", node, names.dns_subdomain) if node else []
    return validate_pod_spec(pod) if is_stored(pod) else validate_new_pod(pod)


@lru_cache(maxsize=VALID_SPEC_CACHE_SIZE)
def _is_valid_cached(encoded_spec: bytes) -> bool:
    """Returns True if a spec is valid for new and for stored pods."""
    return not any(validate_new_pod({"metadata": {}, "spec": msgspec.json.decode(encoded_spec)}))
