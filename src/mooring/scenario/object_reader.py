"""The objects of a scenario file: templates of nodes, and objects that arrive or are created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.config.field_errors import FieldError
from mooring.objects.files.documents import Path
from mooring.objects.files.paths import Text
from mooring.objects.files.reader import Objects, read_values
from mooring.objects.files.sources import Source
from mooring.objects.meta import ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.types import Object
from mooring.scenario.scenario import Template

_HOSTNAME: Final = "kubernetes.io/hostname"


class ObjectReader:
    """Reads the objects inside a scenario file as an API server would store them.

    Attributes:
        context: Objects of the cluster that admission reads, such as PriorityClasses.

    Args:
        text: The file.
        errors: Gets what is wrong with the form of a template; an object that an API server would
            refuse is raised at once.
    """

    def __init__(self, text: Text, errors: list[FieldError]) -> None:
        self.context: list[Object] = []
        self._text = text
        self._errors = errors

    def _error(self, path: Path, problem: str, value: Any = None) -> None:
        self._errors.append(FieldError(path, problem, value))

    def node(self, template: Object, path: Path) -> Node:
        """Returns the node of a template, with a name that stands for others."""
        raw = {"apiVersion": "v1", "kind": "Node", **template}
        metadata = raw.get("metadata") or {}
        if not isinstance(metadata, dict):
            self._error((*path, "metadata"), "must be a mapping", metadata)
            metadata = {}
        raw["metadata"] = {**metadata, "name": "node"}
        status = raw.get("status")
        if isinstance(status, dict) and "capacity" not in status and "allocatable" in status:
            raw["status"] = {**status, "capacity": status["allocatable"]}
        objects = self._objects([(self._source(path), raw)])
        node = objects[0] if objects else None
        if isinstance(node, Node):
            return node
        if objects:
            self._error(path, "must be a Node", template.get("kind"))
        return Node(metadata=ObjectMeta(name="node"))

    def template(self, value: Any, path: Path, name: str) -> Template:
        """Returns objects; those without a name have that of the item."""
        documents = value if isinstance(value, list) else [value]
        values = []
        for at, raw in enumerate(documents):
            where = (*path, at) if isinstance(value, list) else path
            if not isinstance(raw, dict):
                self._error(where, "must be a Kubernetes object: a mapping", raw)
                continue
            metadata = raw.get("metadata")
            if metadata is None or (isinstance(metadata, dict) and "name" not in metadata):
                own = name if len(documents) == 1 else f"{name}-{at}"
                raw = {**raw, "metadata": {**(metadata or {}), "name": own}}
            for head in ("apiVersion", "kind"):
                if not isinstance(raw.get(head), str):
                    self._error((*where, head), "is required")
                    break
            else:
                values.append((self._source(where), raw))
        objects = self._objects(values)
        pods = [obj for obj in objects if isinstance(obj, Pod)]
        kinds = {raw["kind"] for raw in objects.workloads}
        others = [
            obj for obj in objects if not isinstance(obj, Pod) and type(obj).__name__ not in kinds
        ]
        return Template(pods, objects.workloads, others)

    def _source(self, path: Path) -> Source:
        return Source(self._text.name, self._text, 1, path)

    def _objects(self, values: Iterable[tuple[Source, Object]]) -> Objects:
        return read_values(values, validator=ExistingObjects(), context=self.context)


def named_node(node: Node, name: str) -> Node:
    """Returns a node with another name, and its label with the name, as a kubelet sets it."""
    metadata = node.metadata
    labels = {**metadata.labels, _HOSTNAME: name}
    return replace(node, metadata=replace(metadata, name=name, uid=name, labels=labels))
