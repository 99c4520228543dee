"""managedFields of a Scale: those of its workload that have the field of the replicas.

A Scale is a view of a workload. A write of it sees the managers of the replicas alone, and moves
what it changes back to the workload, where they have entries of the subresource ``scale``.

Source: k8s.io/apimachinery pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.apiserver.patch.field_sets import Fields, Path, difference, fields_of_path, has_path
from mooring.apiserver.patch.managed_fields import identity_of, in_order, latest_entries
from mooring.apiserver.resources import Resource
from mooring.apiserver.types import Object

#: What a write of a scale subresource writes, for managedFields.
SCALES = Resource("autoscaling", "v1", "scales", "scale", "Scale", namespaced=True)
#: apiVersion of a workload -> the path of its replicas; None for a version without a scale.
ReplicaPaths = Mapping[str, Path | None]
_REPLICAS: Path = ("spec", "replicas")


def replica_paths(resource: Resource) -> ReplicaPaths:
    """Returns the paths of the replicas in each version of a workload's resource."""
    if resource.custom is not None:
        return resource.custom.replica_paths
    return {resource.api_version: _REPLICAS}


def entries_of_scale(entries: list[Object], paths: ReplicaPaths) -> list[Object]:
    """Returns the managedFields of the Scale of a workload with these entries."""
    own = []
    for entry in latest_entries(entries):
        path = paths.get(entry.get("apiVersion", ""))
        if path is not None and has_path(entry.get("fieldsV1", {}), path):
            fields = fields_of_path(_REPLICAS)
            own.append({**entry, "apiVersion": SCALES.api_version, "fieldsV1": fields})
    return in_order(own)


def entries_of_workload(
    entries: list[Object], scale_entries: list[Object], paths: ReplicaPaths, api_version: str
) -> list[Object]:
    """Returns the managedFields of a workload after its Scale has been written.

    Args:
        entries: Those of the workload before.
        scale_entries: Those of the Scale after the write.
        paths: As ``replica_paths`` returns them.
        api_version: The version through which the Scale was written.
    """
    of_scale = {
        identity_of(entry): entry
        for entry in scale_entries
        if has_path(entry.get("fieldsV1", {}), _REPLICAS)
    }
    times = {identity_of(entry): entry.get("time") for entry in entries}
    written = []
    for entry in latest_entries(entries):
        if entry.get("apiVersion", "") not in paths:
            continue
        path = paths[entry["apiVersion"]]
        fields: Fields = entry.get("fieldsV1", {})
        is_owner = path is not None and has_path(fields, path)
        if path is not None and is_owner and of_scale.pop(identity_of(entry), None) is None:
            fields = difference(fields, fields_of_path(path))
        if fields:
            written.append({**entry, "fieldsV1": fields})
    replicas = fields_of_path(paths.get(api_version) or _REPLICAS)
    for identity, entry in of_scale.items():
        entry = {**entry, "apiVersion": api_version, "fieldsV1": replicas}
        time = times.get(identity)
        written.append({name: value for name, value in {**entry, "time": time}.items() if value})
    return in_order(written)
