"""Iterates over the values in files, with their locations; lists are expanded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mooring.errors import ConfigError
from mooring.objects.files.documents import (
    Document,
    Path,
    aliased_max_of,
    is_json_stream,
    json_document,
    json_documents,
    line_of,
    path_text,
    yaml_documents,
)
from mooring.objects.files.paths import Text, expand, shown_name

_LIST = "List"

#: What kubectl and curl save by mistake: errors, and tables of columns.
_ANSWERS = {"Status": ("v1",), "Table": ("meta.k8s.io/v1", "meta.k8s.io/v1beta1")}


#: The lists of what kube-scheduler-simulator exports -> what their items are.
#: Source: kubernetes-sigs/kube-scheduler-simulator, simulator/snapshot/snapshot.go.
_EXPORT = {
    "namespaces": ("v1", "Namespace"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "pvs": ("v1", "PersistentVolume"),
}
#: A part of an export that is no object: ``--config`` reads it from a file of its own.
_EXPORTED_CONFIG = "schedulerConfig"


class Source(NamedTuple):
    """The location of a value: file, text, document number and path in the document."""

    file: str
    text: Text
    document: int
    path: Path

    def fault(self, problem: str, *steps: str | int, value: Any = None) -> ConfigError:
        """Returns an error about the value at ``steps`` below this location."""
        path = (*self.path, *steps)
        return ConfigError(
            problem,
            file=self.file,
            document=self.document,
            line=line_of(self.text.read(), self.document, path),
            path=path_text(path) or None,
            value=value,
        )


def iter_documents(paths: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[Source, Any]]:
    """Yields the documents of all files as plain values, with their locations.

    Only one file's text is in memory at a time.

    Raises:
        ConfigError: A file cannot be read; or one of the paths has no document at all.
    """
    names = [os.fspath(path) for path in paths]
    expand(names)  # checks all paths before the first of them is read
    for path in names:
        has_documents = False
        for file in expand([path]):
            for document in _documents_of_file(file):
                has_documents = True
                yield document
        if not has_documents:
            raise ConfigError("contains no objects", file=shown_name(path))


def _documents_of_file(path: str) -> Iterator[tuple[Source, Any]]:
    text = Text(path)
    try:
        for document in _documents(path, text.read()):
            yield Source(text.name, text, document.number, ()), document.value
    except ConfigError as error:
        raise error.located(file=text.name) from None
    finally:
        text.release()


def iter_values(
    paths: Iterable[str | os.PathLike[str]],
) -> Iterator[tuple[Source, dict[str, Any]]]:
    """Yields every object as a plain dict, also those in lists, with its location.

    ``apiVersion`` and ``kind`` are filled in for items of a ``PodList`` and the like, and of an
    export of kube-scheduler-simulator, which leave them out.
    """
    for source, value in iter_documents(paths):
        if _is_export(value):
            yield from _unfold_export(source, value)
        else:
            yield from _unfold(source, value, {})


def _documents(path: str, data: bytes) -> Iterator[Document]:
    """Yields the documents of a file: JSON if it starts so, else YAML."""
    is_json = path.removesuffix(".gz").endswith(".json")
    start = data[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not is_json and not start.startswith(b"{"):
        yield from yaml_documents(data, aliased_max=aliased_max_of(data))
        return
    if not start and is_json:
        return
    try:
        document = json_document(data)
    except ConfigError:
        if is_json_stream(data):
            yield from json_documents(data)
            return
        if is_json:
            raise
        # Flow style, or JSON values with --- between them.
        yield from yaml_documents(data, aliased_max=aliased_max_of(data))
        return
    yield document


def _unfold(
    source: Source, value: Any, inherited: dict[str, Any]
) -> Iterator[tuple[Source, dict[str, Any]]]:
    if not isinstance(value, dict):
        raise source.fault("must be a Kubernetes object: a mapping", value=value)
    raw = {**inherited, **value} if inherited else value
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind:
        raise source.fault("must name the kind of object", "kind", value=kind)
    if not isinstance(raw.get("apiVersion"), str) or not raw["apiVersion"]:
        raise source.fault("must name the API version", "apiVersion", value=raw.get("apiVersion"))
    if raw["apiVersion"] in _ANSWERS.get(kind, ()):
        text = raw.get("message") or "use kubectl get -o yaml to get objects"
        raise source.fault(f"is no object, but the answer {kind} of an API server: {text}")
    if kind != _LIST and not (kind.endswith(_LIST) and "items" in raw):
        yield source, raw
        return
    if "items" not in raw:
        raise source.fault("must be a list", "items")
    of_items = {}
    if kind != _LIST:
        of_items = {"apiVersion": raw["apiVersion"], "kind": kind.removesuffix(_LIST)}
    yield from _unfold_list(source, "items", raw["items"], of_items)


def _unfold_list(
    source: Source, name: str, items: Any, of_items: dict[str, Any]
) -> Iterator[tuple[Source, dict[str, Any]]]:
    if items is None:
        return
    if not isinstance(items, list):
        raise source.fault("must be a list", name, value=items)
    for position in range(len(items)):
        # Each raw item is released once it is decoded: it takes ten times the memory of its struct.
        item, items[position] = items[position], None
        inside = source._replace(path=(*source.path, name, position))
        yield from _unfold(inside, item, of_items)


def _is_export(value: Any) -> bool:
    """Returns whether a document is an export of kube-scheduler-simulator."""
    if not isinstance(value, dict) or not ("nodes" in value or "pods" in value):
        return False
    return value.keys() <= {*_EXPORT, _EXPORTED_CONFIG}


def _unfold_export(
    source: Source, value: dict[str, Any]
) -> Iterator[tuple[Source, dict[str, Any]]]:
    for name, (api_version, kind) in _EXPORT.items():
        of_items = {"apiVersion": api_version, "kind": kind}
        yield from _unfold_list(source, name, value.get(name), of_items)
