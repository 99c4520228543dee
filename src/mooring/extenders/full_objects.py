"""Full objects as JSON, exactly as the API server has them, to be sent to extenders.

mooring's structs hold the fields that schedulers read; an extender may read any field. So pending
pods, and nodes if an extender needs full ones, are watched a second time and stored as JSON. An
object that is not in the cache (yet, or any more) is fetched.

managedFields are removed, as kube-scheduler removes them from pods: they can be half an object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.informer.replica import number_of
from mooring.client.rest.paths import path_of
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ExtenderError, NotFound, SchedulerError, first_error
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.meta import ObjectMeta
from mooring.objects.selector_text import LIVING_PODS
from mooring.state import PodInfo

#: Deadline of a fetch.
FETCH_S: Final = 5.0
#: How long to wait for this watch to catch up with the scheduler's; then the pod is fetched.
LAG_S: Final = 0.1
#: Victims fetched at the same time.
FETCHES_MAX: Final = 16

_EMPTY: Final = msgspec.Raw(b"{}")


class FullObject(msgspec.Struct, rename="camel", dict=True):
    """An object whose parts are not decoded."""

    api_version: str = "v1"
    kind: str = ""
    metadata_json: msgspec.Raw = msgspec.field(default=_EMPTY, name="metadata")
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY

    def __post_init__(self) -> None:
        """Checks the name now, so that decoding counts a malformed object and continues."""
        if not self.metadata.name:
            raise ValueError("metadata.name: must not be empty")

    @cached_property
    def metadata(self) -> ObjectMeta:
        """The decoded metadata."""
        try:
            return msgspec.json.decode(self.metadata_json, type=ObjectMeta)
        except msgspec.DecodeError as error:
            raise ValueError(f"metadata: {error}") from error

    @cached_property
    def json(self) -> bytes:
        """The JSON of the object, without managedFields."""
        metadata: dict[str, Any] = msgspec.json.decode(self.metadata_json)
        metadata.pop("managedFields", None)
        full_objects = msgspec.json.encode(
            {
                "kind": self.kind,
                "apiVersion": self.api_version,
                "metadata": metadata,
                "spec": self.spec,
                "status": self.status,
            }
        )
        # The parts are not needed any more; each would keep the JSON of a whole list alive.
        self.metadata_json = self.spec = self.status = _EMPTY
        return full_objects


class FullNode(FullObject, rename="camel", dict=True):
    """A full node."""

    kind: str = "Node"


class FullPod(FullObject, rename="camel", dict=True):
    """A full pod."""

    kind: str = "Pod"


def _as_whole(name: str, struct: type[FullObject]) -> Kind:
    kind = kind_named(name)
    return Kind(name, struct, kind.group, kind.version, kind.resource, kind.namespaced)


NODES: Final = _as_whole("Node", FullNode)
PODS: Final = _as_whole("Pod", FullPod)

#: Selects pending pods.
PENDING: Final = f"spec.nodeName=,{LIVING_PODS}"


class FullObjectCache:
    """The pending pods, and all nodes if needed, as JSON.

    Args:
        client: The API server.
        clock: For its informers.
        rng: For jitter.
        sleep: Waits.
        with_nodes: Whether an extender needs full nodes.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, sleep: Any, with_nodes: bool
    ) -> None:
        self._client = client
        more = {"clock": clock, "rng": rng, "sleep": sleep}
        self._pods = Informer(client, PODS, self._wake, field_selector=PENDING, **more)
        self._news = asyncio.Event()
        self._nodes = Informer(client, NODES, _ignore, **more) if with_nodes else None

    @property
    def informers(self) -> list[Informer]:
        """To be run with the scheduler."""
        return [self._pods] if self._nodes is None else [self._nodes, self._pods]

    async def pod(self, pod: PodInfo) -> bytes:
        """Returns a pod in its newest version, which is not older than ``pod``.

        Raises:
            ExtenderError: it was deleted, or the API server does not answer.
        """
        cached = self._known(pod)
        if cached is None and self._pods.has_synced:
            cached = await self._soon_known(pod)
        return cached.json if cached is not None else await self._fetched_pod(pod)

    def _known(self, pod: PodInfo) -> FullObject | None:
        cached: FullObject | None = self._pods.objects.get(pod.key)
        if cached is None or cached.metadata.uid != pod.uid:
            return None
        cached_version = number_of(cached.metadata.resource_version)
        required_version = number_of(pod.metadata.resource_version)
        is_older = (
            cached_version is not None
            and required_version is not None
            and cached_version < required_version
        )
        return None if is_older else cached

    async def _soon_known(self, pod: PodInfo) -> FullObject | None:
        """Waits for the watch to report a version that the scheduler's own watch has reported."""
        try:
            async with asyncio.timeout(LAG_S):
                while (cached := self._known(pod)) is None:
                    await self._news.wait()
        except TimeoutError:
            return None
        return cached

    def _wake(self, _: ObjectChange) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def pods(self, pods: Sequence[PodInfo]) -> dict[str, bytes]:
        """Returns pods on nodes, by UID, without those that were deleted.

        Raises:
            ExtenderError: the API server does not answer.
        """
        by_uid: dict[str, bytes] = {}
        waiting = iter(pods)

        async def fetch() -> None:
            for pod in waiting:
                full_objects = await self._fetched(PODS, pod.metadata.name, pod.metadata.namespace)
                if full_objects is not None and full_objects.metadata.uid == pod.uid:
                    by_uid[pod.uid] = full_objects.json

        await _all(fetch() for _ in range(min(FETCHES_MAX, len(pods))))
        return by_uid

    async def nodes(self, names: Sequence[str]) -> dict[str, bytes]:
        """Returns nodes by name, in this order, without those that were deleted.

        Raises:
            ExtenderError: the API server does not answer.
        """
        assert self._nodes is not None, "nodes are not watched"
        cached = self._nodes.objects
        by_name: dict[str, bytes] = {}
        for name in names:
            full_object = cached.get(name) or await self._fetched(NODES, name, "")
            if full_object is not None:
                by_name[name] = full_object.json
        return by_name

    async def _fetched_pod(self, pod: PodInfo) -> bytes:
        full_objects = await self._fetched(PODS, pod.metadata.name, pod.metadata.namespace)
        if full_objects is None or full_objects.metadata.uid != pod.uid:
            raise ExtenderError(f"pod {pod.key} was deleted")
        return full_objects.json

    async def _fetched(self, kind: Kind, name: str, namespace: str) -> FullObject | None:
        path = path_of(kind, namespace, name)
        try:
            body = await self._client.read(Request("GET", path, deadline_s=FETCH_S), tries=1)
            return msgspec.json.decode(body, type=kind.struct)  # type: ignore[no-any-return]
        except NotFound:
            return None
        except (SchedulerError, msgspec.DecodeError) as error:
            raise ExtenderError(f"{kind.name} {name} cannot be read: {error}") from error


async def _all(works: Iterable[Any]) -> None:
    """Runs all coroutines; the first ExtenderError cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        extender_errors = errors.subgroup(ExtenderError)
        if extender_errors is None:
            raise
        raise first_error(extender_errors) from None


def _ignore(_: Any) -> None:
    """Ignores a change: the informer's objects are read when they are needed."""
