"""Imports a snapshot of a cluster, and removes all objects.

The objects that a cluster has from its start stay: its namespaces, its system priority classes, and
the service of its API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.simulation.inputs.live_cluster import WORKLOADS
from mooring.ui.board import Applied
from mooring.ui.board_error import BoardError
from mooring.ui.objects import Item, ObjectWriter, applied_of_errors, items_of

#: Controllers may create objects while others are removed: it is listed again so often.
PASSES_MAX: Final = 5
#: Controllers see the removal of a workload before its pods are listed again.
PASS_S: Final = 0.2

_SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
#: What others refer to comes first; controllers come before their pods.
_OWNERS: Final = (
    *(kind for kind, _ in WORKLOADS),
    *("StatefulSet", "ReplicaSet", "ReplicationController"),
)
_FIRST: Final = (
    *("Namespace", "CustomResourceDefinition", "PriorityClass", "RuntimeClass", "StorageClass"),
    *("DeviceClass", "CSIDriver", "Node"),
)


class SnapshotWriter:
    """Replaces the objects of a cluster.

    Args:
        writer: Writes single objects.
    """

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer

    async def load(self, text: str, *, replaces: bool) -> list[Applied]:
        """Applies the objects of a snapshot in the order in which they depend on each other.

        Pods whose controller is in the snapshot are left out: the controller creates them. Nothing
        is removed or applied of a text that cannot be read. With ``replaces``, an object without a
        name or of a kind that is not served is such a text: what it replaces would be lost.

        Args:
            text: YAML or JSON, lists included.
            replaces: Whether all objects are removed before.
        """
        try:
            items = items_of(text)
        except ConfigError as error:
            return applied_of_errors(error)
        controllers = {item.metadata.get("uid") for item in items} - {None}
        applied = [
            item
            for item in items
            if not _controllers_of(item) & controllers and not _is_system(item)
        ]
        if replaces:
            if problems := await self._problems_of(applied):
                return problems
            await self.reset()
        # Pods that have a node come before those that the scheduler would give its room.
        applied.sort(key=lambda item: (_order(str(item.raw.get("kind"))), not _node_of(item)))
        return [await self._writer.apply_item(item) for item in applied]

    async def _problems_of(self, items: Sequence[Item]) -> list[Applied]:
        """Returns the objects that an API server does not store, by their heads and names."""
        defined = {head for item in items for head in _heads_defined_by(item)}
        return [
            Applied(item.line, item.title, problem, is_ok=False)
            for item in items
            if item.head not in defined and (problem := await self._writer.problem_of(item))
        ]

    async def reset(self) -> str:
        """Removes all objects; returns how many.

        Raises:
            BoardError: some cannot be removed.
        """
        removed = 0
        for _ in range(PASSES_MAX):
            items = [Item(1, raw) for raw in await self._writer.listed()]
            items = [item for item in items if not _is_system(item)]
            if not items:
                return f"{removed} objects removed"
            items.sort(key=lambda item: -_order(str(item.raw.get("kind"))))
            items.sort(key=lambda item: item.raw.get("kind") not in _OWNERS)
            for item in items:
                removed += await self._writer.remove(item)
            await asyncio.sleep(PASS_S)
        raise BoardError(f"{removed} objects removed; others are created again", 409)


def _order(kind: str) -> int:
    """Returns the rank of a kind: those that others need come first, pods last."""
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + (kind in _OWNERS) + 2 * (kind == "Pod")


def _node_of(item: Item) -> str:
    """Returns the node of a pod; "" if it has none."""
    spec = item.raw.get("spec")
    return str(spec.get("nodeName") or "") if isinstance(spec, Mapping) else ""


def _controllers_of(item: Item) -> set[Any]:
    owners = item.metadata.get("ownerReferences")
    if not isinstance(owners, list):
        return set()
    return {owner.get("uid") for owner in owners if isinstance(owner, Mapping)}


def _heads_defined_by(item: Item) -> Iterator[tuple[str, str]]:
    """Yields the heads that are served once a definition of custom resources is stored."""
    spec = item.raw.get("spec")
    if item.head[1] != "CustomResourceDefinition" or not isinstance(spec, Mapping):
        return
    names, versions = spec.get("names"), spec.get("versions")
    if isinstance(names, Mapping) and isinstance(versions, list):
        for version in versions:
            if isinstance(version, Mapping):
                yield f"{spec.get('group')}/{version.get('name')}", str(names.get("kind"))


def _is_system(item: Item) -> bool:
    kind, name = item.raw.get("kind"), str(item.metadata.get("name") or "")
    if kind == "Service":
        return (item.metadata.get("namespace"), name) == ("default", "kubernetes")
    return (kind == "Namespace" and name in _SYSTEM_NAMESPACES) or (
        kind == "PriorityClass" and name.startswith("system-")
    )
