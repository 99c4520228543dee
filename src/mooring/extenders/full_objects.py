"""Whole objects, exactly as the API server has them: what extenders are sent.

Our structs hold what schedulers read; an extender may read anything. So pods that have no node yet,
and nodes if somebody wants them whole, are followed a second time, and kept as JSON. Whatever is
not there (not yet, or not any more) is fetched.

managedFields are left out, as kube-scheduler leaves them out of pods: they can be half an object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from mooring.client import Change, Client, Informer
from mooring.client.informer.replica import number_of
from mooring.client.rest.paths import path_of
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ExtenderError, NotFound, SchedulerError
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.meta import ObjectMeta
from mooring.objects.selector_text import LIVING_PODS
from mooring.state import PodInfo

#: An object that has to be fetched must come so soon.
FETCH_S: Final = 5.0
#: One watch may be so much later than another; then a pod is fetched.
LAG_S: Final = 0.1
#: Victims are fetched so many at a time.
FETCHES_MAX: Final = 16

_EMPTY: Final = msgspec.Raw(b"{}")


class Whole(msgspec.Struct, rename="camel", dict=True):
    """An object whose parts are not decoded."""

    api_version: str = "v1"
    kind: str = ""
    metadata_json: msgspec.Raw = msgspec.field(default=_EMPTY, name="metadata")
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY

    def __post_init__(self) -> None:
        """Looks at the name now: whoever decodes it counts it as malformed then, and goes on."""
        if not self.metadata.name:
            raise ValueError("metadata.name: must not be empty")

    @cached_property
    def metadata(self) -> ObjectMeta:
        """Who it is."""
        try:
            return msgspec.json.decode(self.metadata_json, type=ObjectMeta)
        except msgspec.DecodeError as error:
            raise ValueError(f"metadata: {error}") from error

    @cached_property
    def json(self) -> bytes:
        """All of it, but for managedFields."""
        metadata: dict[str, Any] = msgspec.json.decode(self.metadata_json)
        metadata.pop("managedFields", None)
        whole = msgspec.json.encode(
            {
                "kind": self.kind,
                "apiVersion": self.api_version,
                "metadata": metadata,
                "spec": self.spec,
                "status": self.status,
            }
        )
        # From now on only this is needed: the parts would be there twice, and hold a whole list.
        self.metadata_json = self.spec = self.status = _EMPTY
        return whole


class WholeNode(Whole, rename="camel", dict=True):
    """A node as it is."""

    kind: str = "Node"


class WholePod(Whole, rename="camel", dict=True):
    """A pod as it is."""

    kind: str = "Pod"


def _as_whole(name: str, struct: type[Whole]) -> Kind:
    kind = kind_named(name)
    return Kind(name, struct, kind.group, kind.version, kind.resource, kind.namespaced)


NODES: Final = _as_whole("Node", WholeNode)
PODS: Final = _as_whole("Pod", WholePod)

#: Those that may be decided on.
PENDING: Final = f"spec.nodeName=,{LIVING_PODS}"


class WholeObjects:
    """The pods that wait, and perhaps all nodes, as JSON.

    Args:
        client: The API server.
        clock: For its informers.
        rng: For jitter.
        sleep: Waits.
        with_nodes: Whether somebody wants nodes whole.
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
        """To be run as long as anybody asks."""
        return [self._pods] if self._nodes is None else [self._nodes, self._pods]

    async def pod(self, pod: PodInfo) -> bytes:
        """Returns a pod in its newest version, which is none before the given one.

        Raises:
            ExtenderError: it is gone, or the API server does not answer.
        """
        known = self._known(pod)
        if known is None and self._pods.has_synced:
            known = await self._soon_known(pod)
        return known.json if known is not None else await self._fetched_pod(pod)

    def _known(self, pod: PodInfo) -> Whole | None:
        found: Whole | None = self._pods.objects.get(pod.key)
        if found is None or found.metadata.uid != pod.uid:
            return None
        ours = number_of(found.metadata.resource_version)
        wanted = number_of(pod.metadata.resource_version)
        is_older = ours is not None and wanted is not None and ours < wanted
        return None if is_older else found

    async def _soon_known(self, pod: PodInfo) -> Whole | None:
        """Waits for news that are under way: whoever asks had them from a watch of its own."""
        try:
            async with asyncio.timeout(LAG_S):
                while (found := self._known(pod)) is None:
                    await self._news.wait()
        except TimeoutError:
            return None
        return found

    def _wake(self, _: Change) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def pods(self, pods: Sequence[PodInfo]) -> dict[str, bytes]:
        """Pods on nodes, by UID; those that are gone are left out.

        Raises:
            ExtenderError: the API server does not answer.
        """
        found: dict[str, bytes] = {}
        waiting = iter(pods)

        async def fetch() -> None:
            for pod in waiting:
                whole = await self._fetched(PODS, pod.metadata.name, pod.metadata.namespace)
                if whole is not None and whole.metadata.uid == pod.uid:
                    found[pod.uid] = whole.json

        await _all(fetch() for _ in range(min(FETCHES_MAX, len(pods))))
        return found

    async def nodes(self, names: Sequence[str]) -> dict[str, bytes]:
        """Nodes by name, in this order; those that are gone are left out.

        Raises:
            ExtenderError: the API server does not answer.
        """
        assert self._nodes is not None, "nodes are not followed"
        known = self._nodes.objects
        found: dict[str, bytes] = {}
        for name in names:
            whole = known.get(name) or await self._fetched(NODES, name, "")
            if whole is not None:
                found[name] = whole.json
        return found

    async def _fetched_pod(self, pod: PodInfo) -> bytes:
        whole = await self._fetched(PODS, pod.metadata.name, pod.metadata.namespace)
        if whole is None or whole.metadata.uid != pod.uid:
            raise ExtenderError(f"pod {pod.key} is gone")
        return whole.json

    async def _fetched(self, kind: Kind, name: str, namespace: str) -> Whole | None:
        path = path_of(kind, namespace, name)
        try:
            body = await self._client.read(Request("GET", path, deadline_s=FETCH_S), tries=1)
            return msgspec.json.decode(body, type=kind.struct)  # type: ignore[no-any-return]
        except NotFound:
            return None
        except (SchedulerError, msgspec.DecodeError) as error:
            raise ExtenderError(f"{kind.name} {name} cannot be read: {error}") from error


async def _all(works: Iterable[Any]) -> None:
    """Runs all of them; the first ExtenderError of any ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        found = errors.subgroup(ExtenderError)
        if found is None:
            raise
        error: BaseException = found
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def _ignore(_: Any) -> None:
    """What is kept is asked for when it is needed."""
