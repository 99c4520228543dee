"""Reads the objects of a live cluster once; nothing is written to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.client import Client
from mooring.client.rest.reading import PageTokens
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, Forbidden, NotFound, OutcomeUnknown, Unreachable
from mooring.objects.codec.decode import convert
from mooring.objects.kinds import GATED_KINDS, KINDS, kind_named
from mooring.objects.meta import KubernetesObject

#: Kinds that no scheduling decision with the default feature gates reads.
NOT_USED: Final = frozenset({"Event", "Lease", *GATED_KINDS})

#: Kinds that no scheduler reads, but that make pods: (kind, path of the collection).
_PODS_MADE: Final = (
    ("Deployment", "/apis/apps/v1/deployments"),
    ("DaemonSet", "/apis/apps/v1/daemonsets"),
    ("Job", "/apis/batch/v1/jobs"),
    ("CronJob", "/apis/batch/v1/cronjobs"),
)
WORKLOADS: Final = _PODS_MADE

#: The definitions of custom resources: (kind, path of the collection).
DEFINITIONS: Final = (
    "CustomResourceDefinition",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)

#: Sent once before the lists, which are retried: whether the API server answers.
_PROBE: Final = Request("GET", "/version", deadline_s=10.0)
_LIST_S: Final = 60.0
#: Objects of a page.
_PAGE: Final = 500


#: The workloads whose controllers are simulated: (kind, path of the collection).
SIMULATED: Final = (
    *_PODS_MADE,
    *((kind, KINDS[kind].path) for kind in ("ReplicaSet", "StatefulSet", "ReplicationController")),
)


class _PageMetadata(msgspec.Struct):
    """The metadata of a page: where the next one begins."""

    token: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, rename="camel"):
    """A page of a list, as an API server sends it."""

    kind: str = ""
    api_version: str = ""
    metadata: _PageMetadata | None = None
    items: list[dict[str, Any]] | None = None


class LiveObjects(NamedTuple):
    """The objects of a cluster.

    Attributes:
        objects: All objects that a decision reads.
        not_listed: Kind -> why it could not be listed.
        workloads: Deployments and the like as JSON, for their controllers.
    """

    objects: list[KubernetesObject]
    not_listed: dict[str, str]
    workloads: list[dict[str, Any]]


class RawObjects(NamedTuple):
    """The same as JSON values, with all their fields."""

    objects: list[dict[str, Any]]
    not_listed: dict[str, str]


async def list_objects(
    access: Access,
    *,
    clock: Clock,
    rng: Rng,
    kinds: Iterable[str] = (),
    workloads: Sequence[tuple[str, str]] = SIMULATED,
) -> LiveObjects:
    """Lists everything that a scheduling decision reads.

    Args:
        access: The API server.
        clock: For the transport.
        rng: For retries.
        kinds: Further kinds: of feature gates, and names of resources that plugins list.
        workloads: Kinds and paths of the workloads to read for their controllers.

    Raises:
        ConfigError: the API server cannot be reached, or denies nodes or pods.
    """
    objects: list[KubernetesObject] = []
    controlled: list[dict[str, Any]] = []
    not_listed: dict[str, str] = {}
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        await transport.request(_PROBE)  # a client would retry for a minute
        client = Client(transport, rng=rng)
        for kind, path in workloads:
            try:
                controlled += await _pages(client, path)
            except (NotFound, Forbidden) as error:
                _refused(kind, error, not_listed)
        read = {kind for kind, _ in workloads}
        used = [kind for kind in KINDS if kind not in NOT_USED]
        for kind in dict.fromkeys([*used, *kinds]):
            if kind in read:
                continue
            try:
                objects += (await client.list(kind)).items
            except (NotFound, Forbidden) as error:
                _refused(kind, error, not_listed)
    except (Unreachable, OutcomeUnknown) as error:
        raise not_reached(access, error) from error
    finally:
        await transport.close()
    objects += [convert(raw, raw["kind"]) for raw in controlled if raw["kind"] in KINDS]
    return LiveObjects(objects, not_listed, controlled)


async def list_raw(
    access: Access, *, clock: Clock, rng: Rng, kinds: Iterable[str] = ()
) -> RawObjects:
    """Lists the same kinds and the workloads, as JSON values without managed fields.

    With further ``kinds`` also the definitions of custom resources, which say what they are.

    Raises:
        ConfigError: the API server cannot be reached, or denies nodes or pods.
    """
    objects: list[dict[str, Any]] = []
    not_listed: dict[str, str] = {}
    listed = [(kind.name, kind.path) for kind in KINDS.values() if kind.name not in NOT_USED]
    generic = [(kind, kind_named(kind).path) for kind in dict.fromkeys(kinds)]
    definitions = [DEFINITIONS] if generic else []
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        await transport.request(_PROBE)  # a client would retry for a minute
        client = Client(transport, rng=rng)
        for kind, path in (*listed, *WORKLOADS, *definitions, *generic):
            try:
                objects += await _pages(client, path)
            except (NotFound, Forbidden) as error:
                _refused(kind, error, not_listed)
    except (Unreachable, OutcomeUnknown) as error:
        raise not_reached(access, error) from error
    finally:
        await transport.close()
    return RawObjects(objects, not_listed)


async def _pages(client: Client, path: str) -> list[dict[str, Any]]:
    """Returns all objects of a collection, read page by page."""
    items: list[dict[str, Any]] = []
    token, tokens = "", PageTokens(path)
    while True:
        query = [("limit", str(_PAGE)), *([("continue", token)] if token else [])]
        body = await client.read(Request("GET", path, deadline_s=_LIST_S, query=query))
        page = _read_page(body, path)
        for number, item in enumerate(page.items or ()):
            item.setdefault("kind", page.kind.removesuffix("List"))
            item.setdefault("apiVersion", page.api_version)
            _check_item(item, f"{path}: items[{number}]")
            item["metadata"].pop("managedFields", None)
            items.append(item)
        received = "" if page.metadata is None else page.metadata.token or ""
        first = page.items[0]["metadata"] if page.items else {}
        name = f"{first.get('namespace', '')}/{first['name']}" if first else ""
        token = tokens.next_token(received, len(page.items or ()), name)
        if not token:
            return items


def _read_page(body: bytes, path: str) -> _Page:
    """Returns a page of a list.

    Raises:
        ConfigError: the server has sent something else.
    """
    try:
        return msgspec.json.decode(body, type=_Page)
    except (ValueError, RecursionError) as error:
        problem = f"the API server does not send a list of objects: {error}"
        raise ConfigError(problem, path=path) from error


def _check_item(item: dict[str, Any], path: str) -> None:
    """Refuses what is no object.

    Raises:
        ConfigError: the server has sent an item without kind, version, or a name.
    """
    for field in ("kind", "apiVersion"):
        if not isinstance(item[field], str) or not item[field]:
            raise ConfigError("must be a non-empty string", path=f"{path}.{field}")
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        raise ConfigError("must be an object", path=f"{path}.metadata")
    if not isinstance(metadata.get("name"), str):
        raise ConfigError("must be a string", path=f"{path}.metadata.name")


def not_reached(access: Access, error: Unreachable | OutcomeUnknown) -> ConfigError:
    """Returns the error of an API server that sends no response, with its URL."""
    return ConfigError(f"cannot be reached: {error}", path=access.server)


def _refused(kind: str, error: NotFound | Forbidden, not_listed: dict[str, str]) -> None:
    if kind in ("Node", "Pod"):
        raise ConfigError(f"{kind} objects cannot be listed: {error}") from error
    not_listed[kind] = str(error)
