"""Writes the Endpoints object of a Service, the old form of its slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.client import Client
from mooring.client.rest.client import Patch
from mooring.client.rest.paths import path_of
from mooring.devcluster.endpoints.slices import Group
from mooring.devcluster.endpoints.subsets import OVER_CAPACITY, Endpoints, labels_of, subsets_of
from mooring.errors import NotFound
from mooring.objects.kinds import Kind
from mooring.simulation.controllers.objects import Json, Workload

ENDPOINTS: Final = Kind("Endpoints", Endpoints, "", "v1", "endpoints", namespaced=True)

_log = logging.getLogger(__name__)
_read: Final = msgspec.json.Decoder(Endpoints).decode


class EndpointsWriter:
    """Creates, changes and deletes Endpoints.

    Args:
        client: A client that may write them.
        reported: Returns the Endpoints that the watch has reported, by key.
    """

    def __init__(self, client: Client, reported: Callable[[], Mapping[str, Endpoints]]) -> None:
        self._client = client
        self._reported = reported
        #: Key of a Service -> its Endpoints as they were written: the watch may be late.
        self._written: dict[str, Endpoints] = {}

    def forget(self, service_key: str) -> None:
        """Notes that the watch has reported a deletion."""
        self._written.pop(service_key, None)

    async def write(self, service: Workload, groups: Iterable[Group]) -> None:
        """Creates or changes the Endpoints of a Service, unless they are right.

        Raises:
            SchedulerError: the API server refused, or cannot be reached.
        """
        subsets, is_truncated = subsets_of(service, groups)
        labels, metadata = labels_of(service), service.metadata
        annotation = "truncated" if is_truncated else None
        current = self._current(service.key)
        path = path_of(ENDPOINTS, metadata.namespace)
        if current is None:
            new: Json = {"name": metadata.name, "labels": labels}
            if annotation:
                new["annotations"] = {OVER_CAPACITY: annotation}
            manifest = {"metadata": new, "subsets": subsets}
            body = await self._client.write("POST", path, msgspec.json.encode(manifest))
        elif not (
            (current.subsets or []) == subsets
            and current.metadata.labels == labels
            and current.metadata.annotations.get(OVER_CAPACITY) == annotation
        ):
            changed = {
                "uid": current.metadata.uid,
                "labels": {**dict.fromkeys(current.metadata.labels), **labels},
                "annotations": {OVER_CAPACITY: annotation},
            }
            body = await self._client.write(
                "PATCH",
                f"{path}/{metadata.name}",
                msgspec.json.encode({"metadata": changed, "subsets": subsets or None}),
                content_type=Patch.MERGE.value,
            )
        else:
            return
        self._written[service.key] = _read(body)

    async def delete(self, service_key: str) -> None:
        """Deletes the Endpoints of a Service that is gone.

        Raises:
            SchedulerError: the API server refused, or cannot be reached.
        """
        if self._current(service_key) is None:
            return
        namespace, name = service_key.split("/")
        try:
            await self._client.delete(ENDPOINTS, name, namespace)
        except NotFound as error:
            _log.info("endpoints are gone", extra={"error": str(error)})

    def _current(self, service_key: str) -> Endpoints | None:
        """Returns the Endpoints of a Service, as the watch or the last write has shown them."""
        reported = self._reported().get(service_key)
        written = self._written.get(service_key)
        if reported is None or written is None:
            return reported or written
        versions = [int(item.metadata.resource_version) for item in (reported, written)]
        return reported if versions[0] >= versions[1] else written
