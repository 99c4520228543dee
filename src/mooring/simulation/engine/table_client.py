"""A client whose requests are function calls on a table of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from mooring.client import Client
from mooring.client.rest.client import Patch
from mooring.client.transport.transport import Request, Response, Stream
from mooring.clock import Rng
from mooring.errors import ConfigError, Unreachable
from mooring.objects.codec.decode import convert, to_builtins
from mooring.objects.codec.merge_patch import patched
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.meta import key
from mooring.objects.pod import Pod, PodCondition
from mooring.simulation.engine.object_table import ObjectTable

NO_SERVER = "there is no API server in a simulation"


class _NoTransport:
    """Refuses every request: a simulation sends none."""

    async def request(self, request: Request) -> Response:
        raise Unreachable(f"{request.method} {request.path}: {NO_SERVER}")

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        del idle_s
        raise Unreachable(f"{request.method} {request.path}: {NO_SERVER}")

    async def close(self) -> None:
        """Does nothing."""


class TableClient(Client):
    """Reads and writes a table; every write takes no time.

    Args:
        table: The objects.
        rng: As for ``Client``.
    """

    def __init__(self, table: ObjectTable, *, rng: Rng) -> None:
        super().__init__(_NoTransport(), rng=rng)
        self._table = table

    async def get(self, kind: Kind | str, name: str, namespace: str = "", **_: Any) -> Any:
        """Returns an object.

        Raises:
            NotFound: there is none.
        """
        return self._table.get(_name_of(kind), _key(namespace, name))

    async def create(self, obj: Any, *, field_manager: str = "mooring") -> Any:  # noqa: ARG002
        """Stores a new object, and returns it as stored.

        Raises:
            AlreadyExists: there is an object with this name.
        """
        metadata = obj.metadata
        if not metadata.name:
            # An API server appends five random characters.
            name = f"{metadata.generate_name}{metadata.uid[:5]}"
            metadata = replace(metadata, name=name, generate_name="")
        return self._table.create(replace(obj, metadata=metadata))

    async def replace(self, obj: Any, *, subresource: str = "", **_: Any) -> Any:
        """Replaces an object, or its status.

        Raises:
            NotFound: there is no such object.
        """
        current = self._table.get(type(obj).__name__, key(obj), uid=obj.metadata.uid)
        if subresource:
            return self._table.put(replace(current, status=obj.status))
        return self._table.put(replace(obj, status=current.status))

    async def patch(
        self,
        kind: Kind | str,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        how: Patch = Patch.MERGE,  # noqa: ARG002
        subresource: str = "",  # noqa: ARG002
        **_: Any,
    ) -> Any:
        """Merges a patch into an object, and returns it as stored.

        Raises:
            NotFound: there is no such object.
            Conflict: the patch names another UID.
        """
        kind_name = _name_of(kind)
        uid = (patch.get("metadata") or {}).get("uid", "")
        current = self._table.get(kind_name, _key(namespace, name), uid=uid)
        return self._table.put(patched(current, patch))

    async def patch_pod_status(
        self,
        pod: Pod,
        status: Mapping[str, Any],
        *,
        tries: int = 1,  # noqa: ARG002
    ) -> Any:
        """Merges a patch into a pod's status; conditions are merged by type.

        Raises:
            NotFound: there is no such pod.
            Conflict: it has another UID.
        """
        live: Pod = self._table.get("Pod", key(pod), uid=pod.metadata.uid)
        return self._table.put(with_status(live, status))

    async def delete(
        self,
        kind: Kind | str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",  # noqa: ARG002
        grace_period_s: int | None = None,
        propagation: str = "",  # noqa: ARG002
    ) -> None:
        """Deletes an object.

        Raises:
            NotFound: there is no such object.
            Conflict: it has another UID.
        """
        self._table.delete(
            _name_of(kind), _key(namespace, name), uid=uid, grace_period_s=grace_period_s
        )

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        *,
        deadline_s: float = 0.0,  # noqa: ARG002
        on_send: Callable[[], None] = lambda: None,
    ) -> None:
        """Assigns a pod to a node.

        Raises:
            Conflict, NotFound: as an API server.
        """
        on_send()
        self._table.bind(pod, node_name)


def with_status(pod: Pod, patch: Mapping[str, Any]) -> Pod:
    """Returns a pod with a patched status."""
    status = dict(patch)
    conditions = status.pop("conditions", None)
    merged_pod: Pod = patched(pod, {"status": status}) if status else pod
    if conditions is None:
        return merged_pod
    by_type = {condition.type: condition for condition in pod.status.conditions}
    for raw in conditions:
        before = by_type.get(raw["type"])
        own = to_builtins(before) if before is not None else {}
        by_type[raw["type"]] = convert_condition({**own, **raw})
    return replace(
        merged_pod, status=replace(merged_pod.status, conditions=tuple(by_type.values()))
    )


def convert_condition(raw: Mapping[str, Any]) -> PodCondition:
    """Returns a condition in its struct."""
    pod: Pod = convert({"metadata": {"name": "x"}, "status": {"conditions": [dict(raw)]}}, "Pod")
    return pod.status.conditions[0]


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _name_of(kind: Kind | str) -> str:
    if isinstance(kind, Kind):
        return kind.name
    try:
        return kind_named(kind).name
    except ConfigError:
        return kind
