"""Creates the objects of an existing cluster in an API server.

Files come from ``kubectl get -o yaml`` or are written by hand: objects with a status, with
server-set fields of their original cluster, in any order. They are created in an order in which
all references exist, and keep their status.
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
from mooring.objects.files.documents import Path
from mooring.objects.files.sources import Source, iter_values
from mooring.objects.kinds import CREATED_FIRST
from mooring.objects.meta import KubernetesObject

_log = logging.getLogger(__name__)

#: Kinds created last, in this order: owners before the objects that they own.
LAST: Final = (
    *("CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"),
    *("ReplicationController", "Pod"),
)

#: Kinds written by the cluster itself, meaningless in another cluster.
_NOT_SEEDED: Final = frozenset({"Event", "Lease", "Binding", "IPAddress", "ServiceCIDR"})

#: Metadata that the API server sets on create.
_SERVER_SET: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
)

#: The node condition that a kubelet would write.
READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "nothing runs here: the node is part of a simulated cluster",
}

#: Namespaces that every API server has from the start.
_PRESENT: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class Seed(NamedTuple):
    """An object to create.

    Attributes:
        raw: The object as JSON.
        source: The source file; None if generated.
        path: What in the source is about this object: its name, or the field that names an object
            that is not in the files.
    """

    raw: dict[str, Any]
    source: Source | None = None
    path: Path = ("metadata", "name")

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.raw.get("kind", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata as JSON; empty if missing or not an object."""
        metadata = self.raw.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def is_pending_pod(self) -> bool:
        """True for an unfinished pod without a node."""
        if self.kind != "Pod":
            return False
        spec, status = _mapping(self.raw, "spec"), _mapping(self.raw, "status")
        is_finished = status.get("phase") in ("Succeeded", "Failed")
        return not spec.get("nodeName") and not is_finished


def seeds_of_files(paths: Iterable[str]) -> list[Seed]:
    """Returns the objects of files and folders, in order.

    Raises:
        ConfigError: a file cannot be read, or has a document that is no Kubernetes object.
    """
    return [Seed(raw, source) for source, raw in iter_values(paths)]


def seeds_of_objects(objects: Iterable[KubernetesObject]) -> list[Seed]:
    """Returns seeds of objects; a node without conditions gets a Ready condition."""
    seeds = [Seed(msgspec.json.decode(encode(obj))) for obj in objects]
    for seed in seeds:
        if seed.kind == "Node" and not seed.raw.get("status", {}).get("conditions"):
            seed.raw.setdefault("status", {})["conditions"] = [dict(READY)]
    return seeds


def in_order(seeds: Sequence[Seed]) -> tuple[list[Seed], list[Seed]]:
    """Returns the cluster's objects in order of their references, and the pending pods.

    Missing namespaces are added, priority classes for pods that state a number instead of a class,
    and runtime classes that pods and workloads name, with the overhead of these pods. Pending pods
    are in queue order: higher priority first. Those that are being deleted are left out.
    """
    seeds = _with_runtime_classes(_with_priority_classes(seeds))
    existing = {seed.metadata.get("name") for seed in seeds if seed.kind == "Namespace"}
    used = {seed.metadata.get("namespace"): seed.source for seed in reversed(seeds)}
    path = "metadata", "namespace"
    namespaces = [
        Seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, source, path)
        for name, source in reversed(used.items())
        if name and name not in existing | _PRESENT
    ]
    rank = {kind: number for number, kind in enumerate(CREATED_FIRST)}
    rank["CustomResourceDefinition"] = -1  # it defines the kind of others
    rank |= {kind: len(CREATED_FIRST) + 1 + number for number, kind in enumerate(LAST)}
    cluster = [seed for seed in seeds if not seed.is_pending_pod and seed.kind not in _NOT_SEEDED]
    cluster = sorted(
        [*namespaces, *cluster], key=lambda seed: rank.get(seed.kind, len(CREATED_FIRST))
    )
    # A scheduler never sees a pod that leaves before it has a node.
    pending = [
        seed for seed in seeds if seed.is_pending_pod and not seed.metadata.get("deletionTimestamp")
    ]
    return cluster, sorted(pending, key=lambda seed: -_priority(seed))


def _with_priority_classes(seeds: Sequence[Seed]) -> list[Seed]:
    """Names a class in every pod that states a priority alone, which an API server refuses."""
    classes: dict[str, Seed] = {}
    result = []
    for seed in seeds:
        spec = seed.raw.get("spec")
        priority = spec.get("priority") if isinstance(spec, dict) else None
        if seed.kind != "Pod" or not isinstance(priority, int) or not spec or not priority:
            result.append(seed)
            continue
        if spec.get("priorityClassName"):
            result.append(seed)
            continue
        policy = spec.get("preemptionPolicy", "PreemptLowerPriority")
        name = f"priority-{priority}".replace("--", "-minus-")
        name += "-never" if policy == "Never" else ""
        classes[name] = Seed(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": priority,
                "preemptionPolicy": policy,
            },
            seed.source,
            ("spec", "priority"),
        )
        result.append(seed._replace(raw={**seed.raw, "spec": {**spec, "priorityClassName": name}}))
    existing = {seed.metadata.get("name") for seed in seeds if seed.kind == "PriorityClass"}
    return [*(seed for name, seed in classes.items() if name not in existing), *result]


def _with_runtime_classes(seeds: Sequence[Seed]) -> list[Seed]:
    """Adds the runtime classes that are named and not there: without them pods are refused."""
    existing = {seed.metadata.get("name") for seed in seeds if seed.kind == "RuntimeClass"}
    overheads: dict[str, Mapping[str, Any]] = {}
    for seed in seeds:
        spec = _pod_spec_of(seed)
        name = spec.get("runtimeClassName")
        if isinstance(name, str) and name not in existing:
            overheads[name] = overheads.get(name) or spec.get("overhead") or {}
    classes = []
    for name, overhead in overheads.items():
        raw: dict[str, Any] = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "simulated",
        }
        if overhead:
            raw["overhead"] = {"podFixed": overhead}
        classes.append(Seed(raw))
    return [*classes, *seeds]


def _pod_spec_of(seed: Seed) -> Mapping[str, Any]:
    """Returns the spec of a pod, or of the template of a workload; empty if it has none."""
    spec: Any = seed.raw.get("spec")
    path = {"Pod": (), "CronJob": ("jobTemplate", "spec", "template", "spec")}
    for name in path.get(seed.kind, ("template", "spec")):
        spec = spec.get(name) if isinstance(spec, dict) else None
    return spec if isinstance(spec, dict) else {}


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str


class Created(msgspec.Struct, frozen=True):
    """The server-set metadata of a created object."""

    metadata: _Names


_read_created: Final = msgspec.json.Decoder(Created).decode


class Seeder:
    """Creates objects through a client.

    Attributes:
        skipped: Kind -> number of objects not created, since the API server does not serve it.
        last_version: The resourceVersion of the last object created.
    """

    def __init__(self, client: Client) -> None:
        self.skipped: dict[str, int] = {}
        self.last_version = 0
        self._client = client
        self._paths: dict[str, dict[str, tuple[str, bool]]] = {}
        #: UID in a file -> UID in this API server, for the references to owners.
        self._uids: dict[str, str] = {}

    async def create(self, seed: Seed) -> Created | None:
        """Creates an object with its status; None if its kind is not served, or it exists.

        Raises:
            ConfigError: the API server rejects the object; the error names its source.
        """
        path = await self._path(seed)
        if path is None:
            self.skipped[seed.kind] = self.skipped.get(seed.kind, 0) + 1
            return None
        raw = {**seed.raw, "metadata": await self._with_owners(_client_set(seed.metadata))}
        if seed.kind == "Job" and (raw.get("spec") or {}).get("selector"):
            # The selector has the UID of the file, as the labels of its pods: both stay.
            raw["spec"] = {**raw["spec"], "manualSelector": True}
        try:
            body = await self._client.write("POST", path, msgspec.json.encode(raw))
            status = raw.get("status")
            # Nodes keep their status on create; the status of pending pods is not needed.
            if status and seed.kind != "Node" and not seed.is_pending_pod:
                body = await self._put_status(path, body, status)
        except AlreadyExists:
            return None
        except ApiError as error:
            raise _seed_error(seed, error) from error
        created = _read_created(body)
        self.last_version = int(created.metadata.resource_version)
        if uid := seed.metadata.get("uid"):
            self._uids[uid] = created.metadata.uid
        return created

    async def _with_owners(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Returns metadata that refers to the owners by their new UIDs.

        Owners that do not exist are left out: the API server would delete the object.
        """
        owners = metadata.get("ownerReferences")
        if not isinstance(owners, list | tuple):
            return metadata
        namespace = str(metadata.get("namespace") or "default")
        updated = [await self._with_new_uid(owner, namespace) for owner in owners]
        return {**metadata, "ownerReferences": [owner for owner in updated if owner is not None]}

    async def _with_new_uid(self, owner: Any, namespace: str) -> Any:
        """Returns a reference with the new UID, or None; what is none is for the API server."""
        words = ("apiVersion", "kind", "name", "uid")
        is_valid = isinstance(owner, dict) and all(isinstance(owner.get(w), str) for w in words)
        if not is_valid:
            return owner
        uid = owner["uid"]
        if uid not in self._uids:
            self._uids[uid] = await self._uid_of(owner, namespace)
        return {**owner, "uid": self._uids[uid]} if self._uids[uid] else None

    async def _uid_of(self, owner: dict[str, Any], namespace: str) -> str:
        """Returns the UID of an owner that existed before; "" if there is none.

        One of a kind that is not served keeps the UID of the file, and its dependents stay.
        """
        path = await self._path_of(owner["apiVersion"], owner["kind"], namespace)
        if path is None:
            return str(owner["uid"])
        try:
            request = Request("GET", f"{path}/{owner['name']}", deadline_s=READ_S_MAX)
            return _read_created(await self._client.read(request)).metadata.uid
        except ApiError:
            return ""

    async def create_all(self, seeds: Iterable[Seed]) -> AsyncIterator[Created]:
        """Creates objects one by one; yields the created ones."""
        for seed in seeds:
            created = await self.create(seed)
            if created is not None:
                yield created

    async def _put_status(self, path: str, created: bytes, status: Mapping[str, Any]) -> bytes:
        """Writes an object's status; an error leaves the object as created."""
        stored: dict[str, Any] = msgspec.json.decode(created)
        name = stored["metadata"]["name"]
        body = msgspec.json.encode({**stored, "status": {**stored.get("status", {}), **status}})
        try:
            return await self._client.write("PUT", f"{path}/{name}/status", body)
        except ApiError as error:
            _log.info(
                "status rejected by the API server", extra={"path": path, "error": str(error)}
            )
            return created

    async def _path(self, seed: Seed) -> str | None:
        """Returns the URL of the object's collection from discovery; None if not served."""
        namespace = seed.metadata.get("namespace") or "default"
        return await self._path_of(str(seed.raw.get("apiVersion", "")), seed.kind, namespace)

    async def _path_of(self, version: str, kind: str, namespace: str) -> str | None:
        if version not in self._paths:
            self._paths[version] = await self._discover(version)
        resource = self._paths[version].get(kind)
        if resource is None:
            return None
        name, is_namespaced = resource
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{name}" if is_namespaced else f"{root}/{name}"

    async def _discover(self, version: str) -> dict[str, tuple[str, bool]]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            body = await self._client.read(Request("GET", root, deadline_s=READ_S_MAX))
        except ApiError:
            return {}
        served = msgspec.json.decode(body)["resources"]
        return {
            resource["kind"]: (resource["name"], resource["namespaced"])
            for resource in served
            if "/" not in resource["name"] and "create" in resource["verbs"]
        }


def _client_set(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _SERVER_SET}


def _mapping(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a part of an object; empty if it is none, which the API server refuses."""
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def _priority(seed: Seed) -> int:
    priority = _mapping(seed.raw, "spec").get("priority")
    return priority if isinstance(priority, int) else 0


def _seed_error(seed: Seed, error: ApiError) -> ConfigError:
    problem = f"the API server rejects this {seed.kind}: {error}"
    if seed.source is not None:
        return seed.source.fault(problem, *seed.path, value=seed.metadata.get("name"))
    return ConfigError(problem, path="metadata.name", value=seed.metadata.get("name"))
