"""Reads an explanation from a running mooring, or the objects of its cluster, once."""

from __future__ import annotations

import os
from typing import Final

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, Forbidden, NotFound, Unreachable
from mooring.explain.endpoint import EXPLAIN_PATH
from mooring.objects.kinds import KINDS
from mooring.objects.meta import KubernetesObject
from mooring.simulation.workload import Workload, workload_of

#: Kinds that no scheduling decision reads.
_NOT_USED: Final = frozenset({"Event", "Lease"})

EXPLAIN_DEADLINE_S: Final = 30.0


class RemoteExplanation:
    """The response of an API server: a running mooring's explanation, or the objects.

    Attributes:
        explanation: The text of a running mooring; None if none runs there.
        workload: The cluster; None if there is an explanation.
        not_listed: Kind -> why it could not be listed.
    """

    def __init__(self) -> None:
        self.explanation: str | None = None
        self.workload: Workload | None = None
        self.not_listed: dict[str, str] = {}


async def fetch(access: Access, pod: str, *, clock: Clock, rng: Rng) -> RemoteExplanation:
    """Requests an explanation from the mooring behind an API server; without one, lists objects.

    Raises:
        ConfigError: there is no such pod, or the API server is unreachable or denies access.
    """
    transport = connect(access, clock=clock, environment=os.environ)
    remote = RemoteExplanation()
    try:
        client = Client(transport, rng=rng)
        remote.explanation = await _request_explanation(client, pod)
        if remote.explanation is None:
            remote.workload = await _list_objects(client, access, remote.not_listed)
    except Unreachable as error:
        raise ConfigError(f"cannot be reached: {error}", path=access.server) from error
    finally:
        await transport.close()
    return remote


async def _request_explanation(client: Client, pod: str) -> str | None:
    request = Request("GET", EXPLAIN_PATH, deadline_s=EXPLAIN_DEADLINE_S, query=[("pod", pod)])
    response = await client.transport.request(request)
    is_ours = response.headers.get("content-type", "").startswith("text/plain")
    if response.status == 200 and is_ours:
        return response.body.decode()
    text = response.body.decode("utf-8", "replace")
    if is_ours and response.status in (404, 409) and text.startswith(("no pod ", "several pods ")):
        raise ConfigError(text)
    return None


async def _list_objects(client: Client, access: Access, not_listed: dict[str, str]) -> Workload:
    objects: list[KubernetesObject] = []
    for kind in KINDS:
        if kind in _NOT_USED:
            continue
        try:
            objects += (await client.list(kind)).items
        except (NotFound, Forbidden) as error:
            if kind in ("Node", "Pod"):
                raise ConfigError(f"{kind} objects cannot be listed: {error}") from error
            not_listed[kind] = str(error)
    return workload_of(access.server, objects)
