"""The API server's verbs on typed objects.

A read is retried after transient failures. A write is sent once and ends in one of three ways: it
succeeds (it returns), it was refused (``ApiError``), or its outcome is unknown (``OutcomeUnknown``:
read the object). It is retried only if the server says that it did nothing yet: 429 and 503 with a
Retry-After. Every write passes the fence first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec

from mooring.client.rest.fence import Fence, no_fence
from mooring.client.rest.paths import path_of
from mooring.client.rest.reading import TRIES_MAX, ReadClient, as_kind, non_empty
from mooring.client.rest.responses import error_of
from mooring.client.retry import REQUESTED_WAIT_JITTER, RetryPolicy, Sleep, retry
from mooring.client.transport.transport import JSON, Pool, Query, Request, Transport
from mooring.clock import Rng
from mooring.errors import ApiError, ConfigError, OutcomeUnknown, SchedulerError
from mooring.objects.codec.decode import decode, encode
from mooring.objects.kinds import KINDS_BY_STRUCT, Kind, kind_named
from mooring.objects.pod import Pod

WRITE_S_MAX: Final = 10.0

#: The server itself retries for 10 s when the pod or its budgets change at the same time.
EVICT_S_MAX: Final = 30.0


class Patch(Enum):
    """The patch formats, as content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client(ReadClient):
    """Typed requests to one API server.

    Args:
        transport: Sends the requests.
        rng: For jitter.
        fence: Called before every write, also before retries.
        sleep: Waits; tests pass one that does not wait.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        rng: Rng,
        fence: Fence = no_fence,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(transport, rng=rng, sleep=sleep)
        self._fence = fence

    async def create(self, obj: Any, *, field_manager: str = "mooring") -> Any:
        """Stores a new object, and returns it as stored.

        Raises:
            AlreadyExists: there is an object with this name.
        """
        kind = KINDS_BY_STRUCT[type(obj)]
        path = path_of(kind, obj.metadata.namespace)
        body = await self.write(
            "POST", path, encode(obj), query=non_empty(fieldManager=field_manager)
        )
        return _stored(body, kind, path)

    async def replace(
        self, obj: Any, *, subresource: str = "", on_send: Callable[[], None] = lambda: None
    ) -> Any:
        """Replaces an object; its resourceVersion must be the current one.

        Fields that our structs omit are lost: use it only for kinds that we write completely.
        ``on_send`` is called before each try, after the waits that the server asked for.

        Raises:
            Conflict: another client stored a version in between.
        """
        kind = KINDS_BY_STRUCT[type(obj)]
        path = path_of(kind, obj.metadata.namespace, obj.metadata.name, subresource)
        return _stored(await self.write("PUT", path, encode(obj), on_send=on_send), kind, path)

    async def patch(
        self,
        kind: Kind | str,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        how: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str = "mooring",
        force: bool = False,
        pool: Pool = Pool.WRITE,
        tries: int = TRIES_MAX,
        on_send: Callable[[], None] = lambda: None,
    ) -> Any:
        """Patches an object, and returns it as stored; ``on_send`` is called before each try."""
        kind = as_kind(kind)
        query = non_empty(fieldManager=field_manager)
        if how is Patch.APPLY and force:
            query.append(("force", "true"))
        path = path_of(kind, namespace, name, subresource)
        body = await self.write(
            "PATCH",
            path,
            patch if isinstance(patch, bytes) else msgspec.json.encode(patch),
            content_type=how.value,
            query=query,
            pool=pool,
            tries=tries,
            on_send=on_send,
        )
        return _stored(body, kind, path)

    async def delete(
        self,
        kind: Kind | str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Deletes an object, with ``uid`` and ``resource_version`` as preconditions if given.

        Raises:
            NotFound: there is no such object.
            Conflict: a precondition failed.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = dict(non_empty(uid=uid, resourceVersion=resource_version))
        if preconditions:
            options["preconditions"] = preconditions
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if propagation:
            options["propagationPolicy"] = propagation
        path = path_of(as_kind(kind), namespace, name)
        await self.write("DELETE", path, msgspec.json.encode(options))

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        *,
        deadline_s: float = WRITE_S_MAX,
        on_send: Callable[[], None] = lambda: None,
    ) -> None:
        """Assigns exactly this pod (by UID) to a node.

        Args:
            pod: The pod.
            node_name: The node.
            deadline_s: How long the request may take.
            on_send: Called before each try, after the waits that the server asked for.

        Raises:
            Conflict: the pod is bound already, is terminating, or has another UID.
            NotFound: there is no such pod.
        """
        metadata = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        path = path_of(kind_named("Pod"), metadata.namespace, metadata.name, "binding")
        body = msgspec.json.encode(binding)
        await self.write("POST", path, body, deadline_s=deadline_s, on_send=on_send)

    async def evict(self, pod: Pod, *, grace_period_s: int | None = None) -> None:
        """Evicts exactly this pod (by UID), if its PodDisruptionBudgets allow it.

        Raises:
            TooManyRequests: a budget does not allow it now.
            Conflict: the pod has another UID.
            NotFound: there is no such pod.
        """
        options: dict[str, Any] = {"preconditions": {"uid": pod.metadata.uid}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "deleteOptions": options,
        }
        path = path_of(kind_named("Pod"), pod.metadata.namespace, pod.metadata.name, "eviction")
        # One try: a budget that does not allow it also responds with 429 and Retry-After.
        body = msgspec.json.encode(eviction)
        await self.write("POST", path, body, deadline_s=EVICT_S_MAX, tries=1)

    async def patch_pod_status(
        self, pod: Pod, status: Mapping[str, Any], *, tries: int = TRIES_MAX
    ) -> Any:
        """Patches the pod's status with ``status`` (in API form) by strategic merge.

        The patch includes the pod's UID, so that a new pod of this name is never changed.

        Raises:
            Invalid: the pod has another UID.
            NotFound: there is no such pod.
        """
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        return await self.patch(
            "Pod",
            pod.metadata.name,
            body,
            namespace=pod.metadata.namespace,
            how=Patch.STRATEGIC,
            subresource="status",
            tries=tries,
        )

    def status_wait_s(self, pod: Pod) -> float:
        """Returns how many seconds the API server asks to wait with statuses of this name, or 0."""
        metadata = pod.metadata
        path = path_of(kind_named("Pod"), metadata.namespace, metadata.name, "status")
        return self._waits.left_s("PATCH", path)

    def pass_fence(self) -> float:
        """Returns how many seconds a write on our behalf (by an extender) may take from now on.

        Raises:
            LeaseLost: the fence refuses it.
        """
        return self._fence()

    async def write(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = JSON,
        query: Query = (),
        deadline_s: float = WRITE_S_MAX,
        pool: Pool = Pool.WRITE,
        tries: int = TRIES_MAX,
        on_send: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Sends a write; returns the response body. ``on_send`` is called before each try.

        Raises:
            ApiError: refused; nothing has changed.
            OutcomeUnknown: the write may have happened.
            Unreachable: the write did not happen.
            LeaseLost: the fence refuses it.
        """
        request = Request(
            method,
            path,
            deadline_s=deadline_s,
            query=query,
            body=body,
            headers={"content-type": content_type, "accept": JSON},
            pool=pool,
        )
        return await retry(
            lambda: self._write_once(request, on_send),
            _policy(tries),
            sleep=self._sleep,
            rng=self._rng,
            should_retry=_server_asks_to_retry,
        )

    async def _write_once(self, request: Request, on_send: Callable[[], None]) -> bytes:
        await self._waits.wait(request)
        on_send()
        # A request must not outlive the lease under which it was started.
        allowed_s = self._fence()
        if allowed_s < request.deadline_s:
            request = request._replace(deadline_s=allowed_s)
        response = await self.transport.request(request)
        if 200 <= response.status < 300:
            return response.body
        error = error_of(response, f"{request.method} {request.path}")
        self._waits.note(request, error)
        if response.status >= 500:
            raise OutcomeUnknown(str(error)) from error
        raise error


@cache
def _policy(tries: int) -> RetryPolicy:
    return RetryPolicy(tries, initial_s=0.0, jitter=REQUESTED_WAIT_JITTER)


def _server_asks_to_retry(error: SchedulerError) -> bool:
    """Returns whether the server refused with 429 or 503 and a Retry-After."""
    cause = error.__cause__ if isinstance(error, OutcomeUnknown) else error
    if not isinstance(cause, ApiError) or cause.retry_after_s is None:
        return False
    return cause.status in (429, 503)


def _stored(body: bytes, kind: Kind, path: str) -> Any:
    """Returns the object in the response to a successful write.

    Raises:
        OutcomeUnknown: the response cannot be decoded, so the stored object is unknown.
    """
    try:
        return decode(body, kind)
    except ConfigError as error:
        raise OutcomeUnknown(f"{path}: cannot decode the response to a write: {error}") from error
