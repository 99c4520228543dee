"""The API server's verbs on typed objects.

A read is repeated when it fails for reasons that pass. A write is sent once and ends in one of
three ways: it is done (it returns), it was refused (``ApiError``), or nobody knows
(``OutcomeUnknown``: ask). It is repeated only where the server says that it did nothing yet: 429
and 503 with a Retry-After. Every write passes the fence first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
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

#: The server itself tries for 10 s when others change the pod or its budgets at the same time.
EVICT_S_MAX: Final = 30.0


class Patch(Enum):
    """The ways to say what is to be changed, as content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client(ReadClient):
    """Typed requests to one API server.

    Args:
        transport: The way there.
        rng: For jitter.
        fence: Called before every write, repeated ones included.
        sleep: Waits; tests give one that does not.
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
            AlreadyExists: there is one of this name.
        """
        kind = KINDS_BY_STRUCT[type(obj)]
        path = path_of(kind, obj.metadata.namespace)
        body = await self.write(
            "POST", path, encode(obj), query=non_empty(fieldManager=field_manager)
        )
        return _stored(body, kind, path)

    async def replace(self, obj: Any, *, subresource: str = "") -> Any:
        """Stores a newer version; its resourceVersion must be the one that is there.

        What our structs leave out of a kind is lost: only for kinds that we write as a whole.

        Raises:
            Conflict: somebody else stored one in between.
        """
        kind = KINDS_BY_STRUCT[type(obj)]
        path = path_of(kind, obj.metadata.namespace, obj.metadata.name, subresource)
        return _stored(await self.write("PUT", path, encode(obj)), kind, path)

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
    ) -> Any:
        """Changes parts of an object, and returns it as stored."""
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
        """Deletes an object, only this one if ``uid`` or ``resource_version`` is given.

        Raises:
            NotFound: it is gone already.
            Conflict: there is another one of this name.
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

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Assigns exactly this pod (by UID) to a node.

        Raises:
            Conflict: it is bound already, is being deleted, or is another pod by now.
            NotFound: it is gone.
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
        await self.write("POST", path, msgspec.json.encode(binding))

    async def evict(self, pod: Pod, *, grace_period_s: int | None = None) -> None:
        """Asks for exactly this pod to go, as far as its PodDisruptionBudgets allow.

        Raises:
            TooManyRequests: a budget does not allow it now.
            Conflict: it is another pod by now.
            NotFound: it is gone.
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
        # Once: a budget that does not allow it answers 429 and asks us to come back, too.
        body = msgspec.json.encode(eviction)
        await self.write("POST", path, body, deadline_s=EVICT_S_MAX, tries=1)

    async def patch_pod_status(
        self, pod: Pod, status: Mapping[str, Any], *, tries: int = TRIES_MAX
    ) -> Any:
        """Lays ``status`` (as the API writes it) over the pod's, by strategic merge.

        The pod's UID goes along, so that a new pod of this name is never touched.

        Raises:
            Invalid: it is another pod by now.
            NotFound: it is gone.
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

    def pass_fence(self) -> float:
        """How many seconds a write may take that somebody else does for us from now on.

        Raises:
            LeaseLost: the fence does not let it pass.
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
    ) -> bytes:
        """Sends a write; returns the body of the answer.

        Raises:
            ApiError: refused; nothing has changed.
            OutcomeUnknown: it may have happened.
            Unreachable: it surely did not.
            LeaseLost: the fence does not let it pass.
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
            lambda: self._write_once(request),
            RetryPolicy(tries, initial_s=0.0, jitter=REQUESTED_WAIT_JITTER),
            sleep=self._sleep,
            rng=self._rng,
            should_retry=_server_asks_to_retry,
        )

    async def _write_once(self, request: Request) -> bytes:
        # A request must not outlive the lease under which it was begun.
        request = request._replace(deadline_s=min(request.deadline_s, self._fence()))
        response = await self.transport.request(request)
        if 200 <= response.status < 300:
            return response.body
        error = error_of(response, f"{request.method} {request.path}")
        if response.status >= 500:
            raise OutcomeUnknown(str(error)) from error
        raise error


def _server_asks_to_retry(error: SchedulerError) -> bool:
    """Returns whether the server refused for now (429, 503) and said when to try again."""
    answer = error.__cause__ if isinstance(error, OutcomeUnknown) else error
    if not isinstance(answer, ApiError) or answer.retry_after_s is None:
        return False
    return answer.status in (429, 503)


def _stored(body: bytes, kind: Kind, path: str) -> Any:
    """Returns the object in the answer to a write that was done.

    Raises:
        OutcomeUnknown: it cannot be read, so nobody knows what was stored.
    """
    try:
        return decode(body, kind)
    except ConfigError as error:
        raise OutcomeUnknown(f"{path}: the answer to a write cannot be read: {error}") from error
