"""Objects in files that only plugins read: custom resources, and built-in kinds outside the table.

A plugin names a resource, a file names a kind. A CustomResourceDefinition among the files connects
the two and has the scope; without one, the name of the resource is guessed as Kubernetes does, and
an object without a namespace that no cluster has stored is in the namespace "default".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.errors import ConfigError
from mooring.objects.files.file_errors import FileErrors, steps_of
from mooring.objects.files.sources import Source
from mooring.objects.generic import GenericObject, generic_class, resource_name_of
from mooring.objects.types import Object

_CRD: Final = "CustomResourceDefinition"


class Definition(NamedTuple):
    """The part of a CustomResourceDefinition that files need."""

    plural: str
    namespaced: bool


class GenericObjects:
    """The objects without a struct that were read.

    Args:
        created: The creation time of objects without one, RFC 3339.
    """

    def __init__(self, created: str) -> None:
        self._created = created
        self._objects: list[tuple[Source, Object]] = []

    def add(self, source: Source, raw: Object) -> None:
        """Adds an object; one without a name is none, such as the configuration of a tool."""
        metadata = raw.get("metadata")
        if isinstance(metadata, dict) and metadata.get("name"):
            self._objects.append((source, raw))

    def decoded(self, errors: FileErrors) -> Iterator[GenericObject]:
        """Yields the objects in order; those with wrong metadata are reported."""
        definitions = definitions_in(raw for _, raw in self._objects)
        for source, raw in self._objects:
            definition = definitions.get(_group_kind(raw))
            metadata: Object = {"creationTimestamp": self._created, **raw["metadata"]}
            namespaced = not metadata.get("uid") if definition is None else definition.namespaced
            if namespaced and not metadata.get("namespace"):
                metadata["namespace"] = "default"
            try:
                yield generic_object({**raw, "metadata": metadata}, definitions)
            except ConfigError as error:
                where = error.path or "metadata"
                errors.add(source, steps_of(raw, where), error.problem, shown_path=where)


def definitions_in(objects: Iterable[Object]) -> dict[tuple[str, str], Definition]:
    """Returns (group, kind) -> definition, for the custom resources that are defined in objects."""
    definitions = {}
    for raw in objects:
        spec = raw.get("spec")
        names: Any = spec.get("names") if isinstance(spec, dict) else None
        if raw.get("kind") == _CRD and isinstance(spec, dict) and isinstance(names, dict):
            group_kind = str(spec.get("group")), str(names.get("kind"))
            is_namespaced = spec.get("scope") != "Cluster"
            definitions[group_kind] = Definition(str(names.get("plural")), is_namespaced)
    return definitions


def generic_object(raw: Object, definitions: Mapping[tuple[str, str], Definition]) -> GenericObject:
    """Returns an object without a struct.

    Raises:
        ConfigError: its metadata cannot be read, or its kind cannot name a class.
    """
    for field in ("kind", "apiVersion"):
        if "\0" in str(raw.get(field, "")):
            raise ConfigError("must not contain a null character", path=field)
    group_kind = group, kind = _group_kind(raw)
    api_version, definition = str(raw.get("apiVersion", "")), definitions.get(group_kind)
    name = resource_name_of(api_version, kind)
    if definition is not None:
        name = f"{definition.plural}.{api_version.rpartition('/')[2]}.{group}"
    try:
        return generic_class(name)(raw)
    except msgspec.ValidationError as error:
        problem = str(error).partition(" - at ")[0]
        problem = f"the metadata cannot be read: {problem[:1].lower()}{problem[1:]}"
        raise ConfigError(problem, path="metadata") from None


def _group_kind(raw: Object) -> tuple[str, str]:
    return str(raw.get("apiVersion", "")).rpartition("/")[0], str(raw.get("kind", ""))
