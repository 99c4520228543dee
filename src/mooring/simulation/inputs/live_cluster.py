"""Reads the objects of a live cluster once; nothing is written to it."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

import msgspec

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, Forbidden, NotFound, Unreachable
from mooring.objects.kinds import GATED_KINDS, KINDS
from mooring.objects.meta import KubernetesObject

#: Kinds that no scheduling decision with the default feature gates reads.
NOT_USED: Final = frozenset({"Event", "Lease"}) | GATED_KINDS

#: Kinds that no scheduler reads, but that make pods: (kind, path of the collection).
WORKLOADS: Final = (
    ("Deployment", "/apis/apps/v1/deployments"),
    ("DaemonSet", "/apis/apps/v1/daemonsets"),
    ("Job", "/apis/batch/v1/jobs"),
    ("CronJob", "/apis/batch/v1/cronjobs"),
)

#: Sent once before the lists, which are retried: whether the API server answers.
_PROBE: Final = Request("GET", "/version", deadline_s=10.0)
_LIST_S: Final = 60.0
#: Objects of a page.
_PAGE: Final = 500


class LiveObjects(NamedTuple):
    """The objects of a cluster, and kind -> why it could not be listed."""

    objects: list[KubernetesObject]
    not_listed: dict[str, str]


class RawObjects(NamedTuple):
    """The same as JSON values, with all their fields."""

    objects: list[dict[str, Any]]
    not_listed: dict[str, str]


async def list_objects(access: Access, *, clock: Clock, rng: Rng) -> LiveObjects:
    """Lists everything that a scheduling decision reads.

    Raises:
        ConfigError: the API server cannot be reached, or denies nodes or pods.
    """
    objects: list[KubernetesObject] = []
    not_listed: dict[str, str] = {}
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        await transport.request(_PROBE)  # a client would retry for a minute
        client = Client(transport, rng=rng)
        for kind in (kind for kind in KINDS if kind not in NOT_USED):
            try:
                objects += (await client.list(kind)).items
            except (NotFound, Forbidden) as error:
                _refused(kind, error, not_listed)
    except Unreachable as error:
        raise ConfigError(f"cannot be reached: {error}", path=access.server) from error
    finally:
        await transport.close()
    return LiveObjects(objects, not_listed)


async def list_raw(access: Access, *, clock: Clock, rng: Rng) -> RawObjects:
    """Lists the same kinds and the workloads, as JSON values without managed fields.

    Raises:
        ConfigError: the API server cannot be reached, or denies nodes or pods.
    """
    objects: list[dict[str, Any]] = []
    not_listed: dict[str, str] = {}
    kinds = [(kind.name, kind.path) for kind in KINDS.values() if kind.name not in NOT_USED]
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        await transport.request(_PROBE)  # a client would retry for a minute
        client = Client(transport, rng=rng)
        for kind, path in (*kinds, *WORKLOADS):
            try:
                objects += await _pages(client, kind, path)
            except (NotFound, Forbidden) as error:
                _refused(kind, error, not_listed)
    except Unreachable as error:
        raise ConfigError(f"cannot be reached: {error}", path=access.server) from error
    finally:
        await transport.close()
    return RawObjects(objects, not_listed)


async def _pages(client: Client, kind: str, path: str) -> list[dict[str, Any]]:
    """Returns all objects of a collection, read page by page."""
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        query = [("limit", str(_PAGE)), *([("continue", token)] if token else [])]
        body = await client.read(Request("GET", path, deadline_s=_LIST_S, query=query))
        page = msgspec.json.decode(body)
        for item in page.get("items") or ():
            item["kind"], item["apiVersion"] = kind, page["apiVersion"]
            item["metadata"].pop("managedFields", None)
            items.append(item)
        token = (page.get("metadata") or {}).get("continue", "")
        if not token:
            return items


def _refused(kind: str, error: NotFound | Forbidden, not_listed: dict[str, str]) -> None:
    if kind in ("Node", "Pod"):
        raise ConfigError(f"{kind} objects cannot be listed: {error}") from error
    not_listed[kind] = str(error)
