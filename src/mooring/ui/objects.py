"""Applies, deletes and exports objects through an API server, for the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from mooring.client import Client, Patch, Request
from mooring.errors import ApiError, ConfigError, ConfigErrors, NotFound, SchedulerError
from mooring.objects.files.documents import (
    Document,
    Path,
    aliased_max_of,
    lines_of,
    path_text,
    yaml_documents,
)
from mooring.objects.files.limits import ERRORS_MAX
from mooring.objects.kinds import KINDS
from mooring.simulation.inputs.live_cluster import NOT_USED, WORKLOADS
from mooring.ui.board import Applied
from mooring.ui.board_error import BoardError

#: Names the page in managed fields.
FIELD_MANAGER: Final = "mooring-page"
_READ_S: Final = 10.0
_LIST: Final = "List"
_AT_ONCE: Final = b'{"gracePeriodSeconds": 0}'
#: A version, with or without a group before it: each is one step of a URL.
_API_VERSION: Final = re.compile(r"([a-z0-9][a-z0-9.-]*/)?[a-z0-9][a-z0-9-]*", re.ASCII)
_NO_VERSION: Final = "must be a version such as v1 or apps/v1"


class Item(NamedTuple):
    """An object of a text, and the line where its document begins."""

    line: int
    raw: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """Returns its metadata; empty if there is none."""
        metadata = self.raw.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def title(self) -> str:
        """Returns kind and name, as kubectl shows them."""
        return f"{self.raw.get('kind') or 'object'} {self.metadata.get('name') or 'without a name'}"

    @property
    def head(self) -> tuple[str, str]:
        """Returns API version and kind."""
        return str(self.raw.get("apiVersion") or ""), str(self.raw.get("kind") or "")


class _ServedResource(msgspec.Struct):
    """A resource in a discovery document."""

    name: str
    kind: str
    namespaced: bool


class _ServedResources(msgspec.Struct):
    """The discovery document of a version."""

    resources: list[_ServedResource]


class ObjectWriter:
    """Writes objects to an API server.

    Args:
        client: With the rights to write them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: dict[str, dict[str, tuple[str, bool]]] = {}

    async def apply(self, text: str) -> list[Applied]:
        """Applies the objects of a YAML or JSON text: server-side, one after the other.

        Nothing is applied of a text that cannot be read.
        """
        try:
            items = items_of(text)
        except ConfigError as error:
            return applied_of_errors(error)
        return [await self.apply_item(item) for item in items]

    async def delete(self, reference: Mapping[str, str]) -> str:
        """Deletes an object: ``kind``, ``namespace`` and ``name``, ``apiVersion`` if not v1.

        Raises:
            BoardError: it cannot be deleted.
        """
        raw = {
            "apiVersion": reference.get("apiVersion") or "v1",
            "kind": reference.get("kind", ""),
            "metadata": {key: reference.get(key, "") for key in ("namespace", "name")},
        }
        item = Item(1, raw)
        try:
            path = await self._path(item)
            await self._client.write("DELETE", path, b"{}")
        except ApiError as error:
            raise BoardError(str(error), error.status or 409) from None
        except (ConfigError, SchedulerError) as error:
            raise BoardError(str(error), 409) from None
        return f"{item.title} deleted"

    async def remove(self, item: Item) -> bool:
        """Deletes an object at once; returns False if there is none any more.

        Raises:
            BoardError: it cannot be deleted.
        """
        try:
            await self._client.write("DELETE", await self._path(item), _AT_ONCE)
        except NotFound:
            return False
        except (ConfigError, SchedulerError) as error:
            raise BoardError(f"{item.title}: {error}", 409) from None
        return True

    async def export(self) -> bytes:
        """Returns the objects that decisions need as one JSON list."""
        objects = await self.listed()
        return json.dumps({"apiVersion": "v1", "kind": _LIST, "items": objects}, indent=1).encode()

    async def listed(self) -> list[dict[str, Any]]:
        """Returns the objects that decisions need, and the workloads."""
        objects: list[dict[str, Any]] = []
        paths = [kind.path for kind in KINDS.values() if kind.name not in NOT_USED]
        for path in (*paths, *(path for _, path in WORKLOADS)):
            try:
                body = await self._client.read(Request("GET", path, deadline_s=_READ_S))
            except NotFound:
                continue
            page = msgspec.json.decode(body)
            for item in page.get("items") or ():
                item.setdefault("kind", page["kind"].removesuffix(_LIST))
                item.setdefault("apiVersion", page["apiVersion"])
                item["metadata"].pop("managedFields", None)
                objects.append(item)
        return objects

    async def apply_item(self, item: Item) -> Applied:
        """Applies one object."""
        try:
            path = await self._path(item)
            body = await self._client.write(
                "PATCH",
                path,
                json.dumps(_client_set(item.raw)).encode(),
                content_type=Patch.APPLY.value,
                query=[("fieldManager", FIELD_MANAGER), ("force", "true")],
            )
        except (ConfigError, SchedulerError) as error:
            return Applied(item.line, item.title, str(error), is_ok=False)
        version = msgspec.json.decode(body)["metadata"].get("resourceVersion", "")
        return Applied(item.line, item.title, f"stored as version {version}", is_ok=True)

    async def problem_of(self, item: Item) -> str | None:
        """Returns why an object cannot be applied, as far as its head and name tell."""
        try:
            await self._path(item)
        except SchedulerError as error:
            return str(error)
        return None

    async def _path(self, item: Item) -> str:
        """Returns the URL of an object.

        Raises:
            ConfigError: its kind is not served, or it has no name.
        """
        version, kind = item.head
        if not _API_VERSION.fullmatch(version):
            raise ConfigError(_NO_VERSION, path="apiVersion", value=version)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._served or kind not in self._served[version]:
            self._served[version] = await self._discover(root)
        resource = self._served[version].get(kind)
        if resource is None:
            raise ConfigError(f"the API server does not serve {kind or 'objects without a kind'}")
        name = str(item.metadata.get("name") or "")
        if not name:
            raise ConfigError("needs a name: generateName cannot be applied", path="metadata.name")
        plural, is_namespaced = resource
        namespace = str(item.metadata.get("namespace") or "default")
        within = f"namespaces/{quote(namespace, safe='')}/" if is_namespaced else ""
        return f"{root}/{within}{plural}/{quote(name, safe='')}"

    async def _discover(self, root: str) -> dict[str, tuple[str, bool]]:
        try:
            body = await self._client.read(Request("GET", root, deadline_s=_READ_S))
        except ApiError:
            return {}
        return {
            resource.kind: (resource.name, resource.namespaced)
            for resource in msgspec.json.decode(body, type=_ServedResources).resources
            if "/" not in resource.name
        }


def items_of(text: str) -> list[Item]:
    """Returns the objects of a text, also those in lists.

    Raises:
        ConfigError: it cannot be read, or has no object; ``ConfigErrors`` with an error for each
            document that cannot be read, at the line where it begins.
    """
    documents: list[Document] = []
    unreadable: ConfigError | None = None
    try:
        for document in yaml_documents(text, aliased_max=aliased_max_of(text)):
            documents.append(document)  # noqa: PERF402 - those before the error stay
    except ConfigError as error:
        unreadable = error
    lines = lines_of(text, [(document.number, ()) for document in documents])
    items: list[Item] = []
    errors: list[ConfigError] = []
    for document, line in zip(documents, lines, strict=True):
        try:
            items += [Item(line or 1, raw) for raw in _unfolded(document.value, (), {})]
        except ConfigError as error:
            errors.append(error.located(document=document.number, line=line or 1))
    errors += [unreadable] if unreadable is not None else []
    if errors:
        raise ConfigErrors(errors[:ERRORS_MAX], is_cut=len(errors) > ERRORS_MAX)
    if not items:
        raise ConfigError("the text contains no objects")
    return items


def applied_of_errors(error: ConfigError) -> list[Applied]:
    """Returns the outcome for each error of a text that cannot be read."""
    errors = error.errors if isinstance(error, ConfigErrors) else (error,)
    return [Applied(item.line or 1, "", str(item), is_ok=False) for item in errors]


def _unfolded(value: Any, path: Path, inherited: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields an object, or those of a list; items of a ``PodList`` and the like inherit its head.

    Raises:
        ConfigError: a value is no object, or has no head.
    """
    if not isinstance(value, dict):
        problem = "must be a Kubernetes object: a mapping"
        raise ConfigError(problem, path=path_text(path) or None, value=value)
    raw = {**inherited, **value}
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        problem = "must name the kind of object"
        raise ConfigError(problem, path=path_text((*path, "kind")), value=kind)
    if not isinstance(version, str) or not _API_VERSION.fullmatch(version):
        raise ConfigError(_NO_VERSION, path=path_text((*path, "apiVersion")), value=version)
    if kind != _LIST and not (kind.endswith(_LIST) and "items" in raw):
        yield raw
        return
    items = raw.get("items", {})
    if items is not None and not isinstance(items, list):
        raise ConfigError("must be a list", path=path_text((*path, "items")), value=items)
    of_items = {"apiVersion": version, "kind": kind.removesuffix(_LIST)} if kind != _LIST else {}
    for position, item in enumerate(items or ()):
        yield from _unfolded(item, (*path, "items", position), of_items)


def _client_set(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object without what the API server sets, as exported objects have it."""
    metadata = dict(raw.get("metadata") or {})
    for name in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        metadata.pop(name, None)
    return {**raw, "metadata": metadata}
