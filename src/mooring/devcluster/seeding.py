"""A cluster's objects, put into an API server as if it had had them all along.

Files hold what ``kubectl get -o yaml`` prints or what people write: objects with a status, with
identities of the cluster that they come from, in any order. Here they are created in an order in
which nothing is missing, and get the status that they had.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.client import Client
from mooring.client.rest.reading import READ_S_MAX
from mooring.client.transport.transport import Request
from mooring.errors import AlreadyExists, ApiError, ConfigError
from mooring.objects.codec.decode import encode
from mooring.objects.files.sources import Source, iter_values
from mooring.objects.meta import KubernetesObject

_log = logging.getLogger(__name__)

#: Created first, in this order: what others refer to.
FIRST: Final = ("Namespace", "PriorityClass", "StorageClass", "CSIDriver", "Node", "CSINode")

#: Written by the cluster itself; those of another cluster mean nothing here.
_NOT_SEEDED: Final = frozenset({"Event", "Lease", "Binding"})

#: What the API server gives to an object when it is created.
_GIVEN: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
)

#: There is no kubelet that would say so.
READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "nothing runs here: the node is part of a simulated cluster",
}

#: What every API server has from its first moment.
_PRESENT: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class Seed(NamedTuple):
    """One object to be created.

    Attributes:
        raw: As the API writes it.
        source: Where it was read; None if it was made.
    """

    raw: dict[str, Any]
    source: Source | None = None

    @property
    def kind(self) -> str:
        """As in ``kind:``."""
        return str(self.raw.get("kind", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """As the API writes it; empty if it is missing or nonsense."""
        found = self.raw.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def is_pending_pod(self) -> bool:
        """A pod that waits for a node."""
        spec, status = self.raw.get("spec") or {}, self.raw.get("status") or {}
        is_over = status.get("phase") in ("Succeeded", "Failed")
        return self.kind == "Pod" and not spec.get("nodeName") and not is_over


def seeds_of_files(paths: Iterable[str]) -> list[Seed]:
    """Returns the objects of files and folders, in order.

    Raises:
        ConfigError: a file cannot be read, or holds something that is no Kubernetes object.
    """
    return [Seed(raw, source) for source, raw in iter_values(paths)]


def seeds_of_objects(objects: Iterable[KubernetesObject]) -> list[Seed]:
    """The same of objects that were read or made already; a node with no conditions is ready."""
    seeds = [Seed(msgspec.json.decode(encode(obj))) for obj in objects]
    for seed in seeds:
        if seed.kind == "Node" and not seed.raw.get("status", {}).get("conditions"):
            seed.raw.setdefault("status", {})["conditions"] = [dict(READY)]
    return seeds


def in_order(seeds: Sequence[Seed]) -> tuple[list[Seed], list[Seed]]:
    """The objects of the cluster, so that what is referred to comes first, and the pods that wait.

    Namespaces that are used and not given come with them. Pods that wait are sorted as the queue
    does: higher priority first.
    """
    given = {seed.metadata.get("name") for seed in seeds if seed.kind == "Namespace"}
    used = dict.fromkeys(seed.metadata.get("namespace") for seed in seeds)
    missing = [name for name in used if name and name not in given | _PRESENT]
    made = [
        Seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in missing
    ]
    rank = {kind: number for number, kind in enumerate(FIRST)}
    cluster = [seed for seed in seeds if not seed.is_pending_pod and seed.kind not in _NOT_SEEDED]
    cluster = sorted([*made, *cluster], key=lambda seed: rank.get(seed.kind, len(FIRST)))
    pending = [seed for seed in seeds if seed.is_pending_pod]
    return cluster, sorted(pending, key=lambda seed: -_priority(seed))


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str


class Created(msgspec.Struct, frozen=True):
    """What an object got when it was created: all that who seeds has to know of it."""

    metadata: _Names


_read_created: Final = msgspec.json.Decoder(Created).decode


class Seeder:
    """Creates objects through a client.

    Attributes:
        passed_over: Kind -> how many objects of it the API server does not serve.
        last_version: The resourceVersion of the last object created.
    """

    def __init__(self, client: Client) -> None:
        self.passed_over: dict[str, int] = {}
        self.last_version = 0
        self._client = client
        self._paths: dict[str, dict[str, tuple[str, bool]]] = {}

    async def create(self, seed: Seed) -> Created | None:
        """Creates one object, with its status; None if its kind is not served, or it is there.

        Raises:
            ConfigError: the API server refuses it; says where it was read.
        """
        path = await self._path(seed)
        if path is None:
            self.passed_over[seed.kind] = self.passed_over.get(seed.kind, 0) + 1
            return None
        raw = {**seed.raw, "metadata": _not_given(seed.metadata)}
        try:
            body = await self._client.write("POST", path, msgspec.json.encode(raw))
            status = raw.get("status")
            # Nodes keep theirs when they are created; pods that wait have none to speak of.
            if status and seed.kind != "Node" and not seed.is_pending_pod:
                body = await self._put_status(path, body, status)
        except AlreadyExists:
            return None
        except ApiError as error:
            raise _refused(seed, error) from error
        created = _read_created(body)
        self.last_version = int(created.metadata.resource_version)
        return created

    async def create_all(self, seeds: Iterable[Seed]) -> AsyncIterator[Created]:
        """Creates objects one after another; yields each that was created."""
        for seed in seeds:
            created = await self.create(seed)
            if created is not None:
                yield created

    async def _put_status(self, path: str, answer: bytes, status: Mapping[str, Any]) -> bytes:
        """Gives an object the status that it had; kinds without one keep what they have."""
        stored: dict[str, Any] = msgspec.json.decode(answer)
        name = stored["metadata"]["name"]
        body = msgspec.json.encode({**stored, "status": {**stored.get("status", {}), **status}})
        try:
            return await self._client.write("PUT", f"{path}/{name}/status", body)
        except ApiError as error:
            _log.info("a status was not taken", extra={"path": path, "error": str(error)})
            return answer

    async def _path(self, seed: Seed) -> str | None:
        """The URL of the object's collection, as discovery has it; None if it is not served."""
        version = str(seed.raw.get("apiVersion", ""))
        if version not in self._paths:
            self._paths[version] = await self._discover(version)
        found = self._paths[version].get(seed.kind)
        if found is None:
            return None
        name, is_namespaced = found
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        namespace = seed.metadata.get("namespace") or "default"
        return f"{root}/namespaces/{namespace}/{name}" if is_namespaced else f"{root}/{name}"

    async def _discover(self, version: str) -> dict[str, tuple[str, bool]]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            body = await self._client.read(Request("GET", root, deadline_s=READ_S_MAX))
        except ApiError:
            return {}
        served = msgspec.json.decode(body)["resources"]
        return {
            each["kind"]: (each["name"], each["namespaced"])
            for each in served
            if "/" not in each["name"] and "create" in each["verbs"]
        }


def _not_given(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _GIVEN}


def _priority(seed: Seed) -> int:
    found = (seed.raw.get("spec") or {}).get("priority")
    return found if isinstance(found, int) else 0


def _refused(seed: Seed, error: ApiError) -> ConfigError:
    told = f"the API server refuses this {seed.kind}: {error}"
    if seed.source is not None:
        return seed.source.fault(told, "metadata", "name", value=seed.metadata.get("name"))
    return ConfigError(told, path="metadata.name", value=seed.metadata.get("name"))
