"""Feeds requests to the embedded API server: definitions of resources and their objects, applies.

::

    input: YAML documents     each is a request     then every collection is read     all is deleted
    CustomResourceDefinition ─┐
    object, patch ────────────┼──> a status below 500 ──> lists, tables, OpenAPI ──> as in the start
    request: apply, update ───┘

The server stays, and so does its time. What an input leaves behind is deleted; a server with which
an input failed is not used again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from bench.fuzz.expressions import mutated_text
from bench.fuzz.structures import mutated_values, value_places
from mooring.apiserver.patch.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
)
from mooring.apiserver.resources import RESOURCES
from mooring.apiserver.server import ApiServer
from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.objects.files.documents import yaml_documents

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PATCHES: Final = {
    "merge": MERGE_PATCH,
    "json": JSON_PATCH,
    "strategic": STRATEGIC_PATCH,
    "apply": APPLY_PATCH,
}
#: Messages about patches that kube-apiserver gives status 500, as errors without a reason.
_UPSTREAM: Final = re.compile(
    "failed to create typed patch object|list element types are not identical"
    "|map: .* does not contain declared merge key|unknown patch type: "
)
#: (apiVersion, kind) -> path of the group and version, plural name, whether it is namespaced.
_BUILT_IN: Final = {
    (
        f"{own.group}/{own.version}" if own.group else own.version,
        own.kind,
    ): (
        f"/apis/{own.group}/{own.version}" if own.group else f"/api/{own.version}",
        own.name,
        own.namespaced,
    )
    for own in RESOURCES
    if own.is_stored and own.kind not in ("CustomResourceDefinition", "Namespace")
}

#: Patterns of schemas, and paths of columns.
_PATTERNS: Final = (
    *("^(a+)+$", "^(a|a)*$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(", "[a", "a{2,1}", "a{1001}"),
    *("\\p{L}", "(?i)A", "(?P<n>a)", "(?=a)", "\\1", "(a{1,50}){1,50}", "^$", ""),
    *(".*" * 30 + "b", "\\x{10FFFF}"),
)  # fmt: skip
_PATHS: Final = (
    *(".spec", ".spec.a", ".spec[*]", ".spec.list[0]", "..a", ".a[?(@.b==1)]", ".spec.a\\.b", "."),
    *(".spec['a']", ".metadata.name", ".status.replicas", ".spec.x[-1:]", "{.a}", ".a[1:2:0]", ""),
)
_LONG: Final = "a" * 3000


class Answer(NamedTuple):
    """The response to a request: its status, and its body, which is JSON."""

    status: int
    value: Any


class Collection(NamedTuple):
    """Where the objects of a resource are: in ``path`` with their namespace, and ``name``."""

    path: str
    name: str
    namespaced: bool

    def of(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the path of an object, or of all objects of a namespace."""
        parts = [self.path]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join((*parts, self.name, *filter(None, (name, subresource))))


class Server:
    """An embedded API server, which answers with a status below 500, if kube-apiserver does."""

    def __init__(self) -> None:
        self._server = ApiServer(clock=VirtualClock(), rng=seeded_random(0))
        self._initial = self._server.snapshot()

    async def send(
        self,
        method: str,
        path: str,
        value: Any = msgspec.UNSET,
        *,
        query: list[tuple[str, str]] | None = None,
        media_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """Sends a request.

        Raises:
            AssertionError: the status is 500 or more, and kube-apiserver has another.
        """
        body = b"" if value is msgspec.UNSET else msgspec.json.encode(value)
        headers = {"content-type": media_type, "accept": accept, "user-agent": "fuzz"}
        status, _, content = await self._server.handle(method, path, query or [], headers, body)
        assert isinstance(content, bytes)
        answer: Any = msgspec.json.decode(content) if content[:1] == b"{" else content
        is_allowed = status < 500 or (method == "PATCH" and _UPSTREAM.match(answer["message"]))
        assert is_allowed, f"{method} {path}: {status} {content[:300]!r}"
        return Answer(status, answer)

    async def read(self, path: str) -> list[Any]:
        """Lists a collection, as JSON and as a table, and returns its items.

        Raises:
            AssertionError: it cannot be listed, or a table has other objects.
        """
        answer = await self.send("GET", path)
        assert answer.status == 200, f"list of {path}: {answer}"
        table = await self.send("GET", path, accept=_TABLE)
        assert table.status == 200, f"table of {path}: {table}"
        items: list[Any] = answer.value["items"]
        assert len(table.value["rows"] or ()) == len(items), f"rows of {path}"
        return items

    async def delete(self, path: str) -> None:
        """Deletes an object, with its finalizers."""
        await self.send("PATCH", path, {"metadata": {"finalizers": None}}, media_type=MERGE_PATCH)
        await self.send("DELETE", path, query=[("gracePeriodSeconds", "0")])

    def reset(self) -> None:
        """Loads the state of the start; what cannot be deleted is of no use to other inputs."""
        saved = self._server.snapshot()
        self._server.load(saved)
        assert self._server.snapshot() == saved
        self._server.load(self._initial)


@cache
def _server() -> Server:
    return Server()


def feed_definitions(data: bytes) -> None:
    """Creates definitions, and objects of theirs, which are patched, listed and deleted.

    Raises:
        ConfigError: the input is not YAML.
        AssertionError: a request is answered with 500, or something cannot be listed or deleted.
    """
    documents = [document.value for document in yaml_documents(data, aliased_max=10_000)]
    _run(_define(documents))


def feed_applies(data: bytes) -> None:
    """Creates, updates, patches and applies objects, which are listed and deleted.

    Raises:
        ConfigError: the input is not YAML.
        AssertionError: a request is answered with 500, something cannot be listed or deleted, or
            an apply that is repeated changes the object.
    """
    documents = [document.value for document in yaml_documents(data, aliased_max=10_000)]
    _run(_apply(documents))


def _run(requests: Any) -> None:
    is_done = False
    try:
        asyncio.run(requests)
        is_done = True
    finally:
        if not is_done:
            _server.cache_clear()


# ------------------------------------------------------------------------------------ definitions


async def _define(documents: list[Any]) -> None:
    server = _server()
    collections: dict[tuple[str, str], Collection] = {}
    latest: Collection | None = None
    for value in documents:
        if not isinstance(value, dict):
            continue
        if value.get("kind") == "CustomResourceDefinition":
            definition = await _create_or_update(server, value)
            if definition is not None:
                collections.update(_served(definition))
        elif "patch" in value:
            if latest is not None:
                await _patch(server, latest, value)
        else:
            own = collections.get((str(value.get("apiVersion")), str(value.get("kind"))))
            latest = own or latest
            if latest is not None:
                await _write(server, latest, value)
    await _read_and_delete(server)


async def _create_or_update(server: Server, value: dict[str, Any]) -> Any:
    answer = await server.send("POST", _DEFINITIONS, value)
    if answer.status == 409:
        path = f"{_DEFINITIONS}/{_name(value)}"
        stored = (await server.send("GET", path)).value
        version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        answer = await server.send(
            "PUT", path, {**value, "metadata": {**value["metadata"], **version}}
        )
    return answer.value if answer.status in (200, 201) else None


def _served(definition: Any) -> Iterator[tuple[tuple[str, str], Collection]]:
    spec = definition["spec"]
    for version in spec["versions"]:
        key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        path = f"/apis/{spec['group']}/{version['name']}"
        yield key, Collection(path, spec["names"]["plural"], spec["scope"] == "Namespaced")


async def _write(server: Server, collection: Collection, value: dict[str, Any]) -> None:
    answer = await server.send("POST", collection.of("default"), value)
    if answer.status == 409 and (name := _name(value)):
        await server.send("PUT", collection.of("default", name), value)


async def _patch(server: Server, collection: Collection, value: dict[str, Any]) -> None:
    name, subresource = value.get("name"), value.get("subresource", "")
    if not (isinstance(name, str) and isinstance(subresource, str)):
        return
    await server.send(
        "PATCH",
        collection.of("default", name, subresource),
        value.get("value"),
        query=[("fieldManager", "fuzz"), ("force", "true")] if value["patch"] == "apply" else [],
        media_type=_PATCHES.get(str(value["patch"]), MERGE_PATCH),
    )


async def _read_and_delete(server: Server) -> None:
    """Reads all that definitions serve, and deletes it."""
    definitions = await server.read(_DEFINITIONS)
    for definition in definitions:
        served = dict(_served(definition))
        for version, collection in zip(
            definition["spec"]["versions"], served.values(), strict=False
        ):
            await _read_version(server, version, collection)
        for collection in list(served.values())[:1]:
            answer = await server.send("GET", collection.of())
            for item in answer.value["items"] if answer.status == 200 else ():
                metadata = item["metadata"]
                path = collection.of(metadata.get("namespace", ""), metadata["name"])
                await server.delete(path)
        await server.delete(f"{_DEFINITIONS}/{definition['metadata']['name']}")
    if definitions and (await server.send("GET", _DEFINITIONS)).value["items"]:
        server.reset()  # an update of an object is refused by new rules, or of its finalizers


async def _read_version(server: Server, version: Any, collection: Collection) -> None:
    discovered = await server.send("GET", collection.path)
    is_served = discovered.status == 200 and any(
        own["name"] == collection.name for own in discovered.value["resources"]
    )
    if not is_served:
        return
    assert version["served"], f"{collection} is served"
    items = await server.read(collection.of())
    for item in items:
        metadata = item["metadata"]
        path = collection.of(metadata.get("namespace", ""), metadata["name"])
        answer = await server.send("GET", path)
        assert answer == (200, item), f"{path} is not its item of the list"
    for field in version.get("selectableFields") or ():
        selector = [("fieldSelector", f"{field['jsonPath'].removeprefix('.')}=A")]
        answer = await server.send("GET", collection.of(), query=selector)
        assert answer.status == 200, f"{selector}: {answer}"
    answer = await server.send("GET", f"/openapi/v3{collection.path}")
    assert answer.status == 200, f"OpenAPI of {collection}: {answer.status}"


def mutated_definition(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of one of the files, at times of its rules and patterns too."""
    return mutated_values(rng, corpus, also=_change_texts)


def _change_texts(rng: Rng, documents: list[Any]) -> None:
    """Changes a rule, a pattern, a path, or the size of a value."""
    if rng.random() < 0.5:
        return
    rules = [
        holder[step]
        for holder, step in value_places(documents)
        if step in ("rule", "messageExpression") and isinstance(holder[step], str)
    ]
    for holder, step in value_places(documents):
        if step in ("rule", "messageExpression") and isinstance(holder[step], str):
            if rng.random() < 0.3:
                holder[step] = mutated_text(rng, holder[step], rules)
        elif step == "pattern" and rng.random() < 0.3:
            holder[step] = rng.choice(_PATTERNS)
        elif str(step).lower().endswith("path") and rng.random() < 0.2:
            holder[step] = rng.choice(_PATHS)
        elif step in ("name", "id", "size") and rng.random() < 0.02:
            holder[step] = rng.choice((_LONG, _LONG + "!"))


# ----------------------------------------------------------------------------------------- applies


async def _apply(documents: list[Any]) -> None:
    server = _server()
    written: dict[str, Collection] = {}
    for value in documents:
        if not (isinstance(value, dict) and isinstance(value.get("object"), dict)):
            continue
        own, subresource = value["object"], value.get("subresource", "")
        place = _place(own, written)
        if place is None or not isinstance(subresource, str):
            continue
        collection, path = place
        written[path] = collection
        await _send_one(server, value, collection, f"{path}/{subresource}".rstrip("/"))
    for collection in set(written.values()):
        for item in await server.read(collection.of()):
            _check_managers(item)
    for path in written:
        await server.delete(path)
        if (await server.send("GET", path)).status != 404:
            server.reset()


def _place(own: dict[str, Any], written: dict[str, Collection]) -> tuple[Collection, str] | None:
    """Returns where an object is: the last one that was written, for a part of it."""
    name = _name(own)
    kind = _BUILT_IN.get((str(own.get("apiVersion")), str(own.get("kind"))))
    if kind is None:
        return next(((kept, path) for path, kept in reversed(written.items())), None)
    if not name or "/" in name:
        return None
    collection = Collection(*kind)
    return collection, collection.of("default", name)


async def _send_one(
    server: Server, value: dict[str, Any], collection: Collection, path: str
) -> None:
    manager = value.get("manager")
    query = [("fieldManager", manager)] if isinstance(manager, str) else []
    match value.get("request"):
        case "create":
            await server.send("POST", collection.of("default"), value["object"], query=query)
        case "update":
            await server.send("PUT", path, value["object"], query=query)
        case "merge" | "strategic" as request:
            media_type = _PATCHES[request]
            await server.send("PATCH", path, value["object"], query=query, media_type=media_type)
        case _:
            if value.get("force") is True:
                query.append(("force", "true"))
            await _apply_twice(server, value["object"], path, query)


async def _apply_twice(
    server: Server, own: dict[str, Any], path: str, query: list[tuple[str, str]]
) -> None:
    first = await server.send("PATCH", path, own, query=query, media_type=APPLY_PATCH)
    if first.status not in (200, 201):
        return
    second = await server.send("PATCH", path, own, query=query, media_type=APPLY_PATCH)
    assert second.status == 200, f"the same apply of {path} again: {second}"
    assert second.value == first.value, f"the same apply of {path} again changes it"


def _check_managers(item: dict[str, Any]) -> None:
    for entry in item["metadata"].get("managedFields", ()):
        assert entry["operation"] in ("Apply", "Update"), entry
        assert isinstance(entry["fieldsV1"], dict), entry


def _name(value: dict[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
