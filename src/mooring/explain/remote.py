"""The objects of a living cluster, read once, for deciding without writing anything."""

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

#: Kinds that no decision reads.
_NOT_READ: Final = frozenset({"Event", "Lease"})

ASK_S: Final = 30.0


class Fetched:
    """What an API server answered: the word of the mooring that runs there, or its objects.

    Attributes:
        told: The text of a running mooring; None if none answers there.
        workload: The cluster; None if a mooring answered.
        not_read: Kinds that could not be listed, and why.
    """

    def __init__(self) -> None:
        self.told: str | None = None
        self.workload: Workload | None = None
        self.not_read: dict[str, str] = {}


async def fetch(access: Access, pod: str, *, clock: Clock, rng: Rng) -> Fetched:
    """Asks the mooring behind an API server about a pod; if there is none, read the cluster.

    Raises:
        ConfigError: there is no such pod, or the API server does not let us in.
    """
    transport = connect(access, clock=clock, environment=os.environ)
    found = Fetched()
    try:
        client = Client(transport, rng=rng)
        found.told = await _ask(client, pod)
        if found.told is None:
            found.workload = await _read(client, access, found.not_read)
    except Unreachable as error:
        raise ConfigError(f"cannot be reached: {error}", path=access.server) from error
    finally:
        await transport.close()
    return found


async def _ask(client: Client, pod: str) -> str | None:
    request = Request("GET", EXPLAIN_PATH, deadline_s=ASK_S, query=[("pod", pod)])
    response = await client.transport.request(request)
    is_ours = response.headers.get("content-type", "").startswith("text/plain")
    if response.status == 200 and is_ours:
        return response.body.decode()
    text = response.body.decode("utf-8", "replace")
    if is_ours and response.status in (404, 409) and text.startswith(("no pod ", "several pods ")):
        raise ConfigError(text)
    return None


async def _read(client: Client, access: Access, not_read: dict[str, str]) -> Workload:
    objects: list[KubernetesObject] = []
    for kind in KINDS:
        if kind in _NOT_READ:
            continue
        try:
            objects += (await client.list(kind)).items
        except (NotFound, Forbidden) as error:
            if kind in ("Node", "Pod"):
                raise ConfigError(f"{kind} objects cannot be listed: {error}") from error
            not_read[kind] = str(error)
    return workload_of(access.server, objects)
