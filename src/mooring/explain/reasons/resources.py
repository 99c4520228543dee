"""Explains NodeResourcesFit for resources that no node has: similar names that a node has.

Shortages of resources that nodes have are in ``shortage``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mooring.explain.reasons.case import Case, names_text, similar
from mooring.objects.node import Node
from mooring.objects.requests import pod_requests, scheduler_units

NAME: Final = "NodeResourcesFit"


class Misspelt(NamedTuple):
    """A resource that a pod requests and no node has.

    Attributes:
        resource: The requested resource.
        near: The most similar resource of a node; "" = none is similar.
        holders: The nodes that have the similar one.
    """

    resource: str
    near: str
    holders: tuple[str, ...]


def misspelt(case: Case) -> tuple[Misspelt, ...]:
    """Returns the requested resources that no node has."""
    return case.once(NAME, lambda: tuple(_find_misspelt(case)))


def _find_misspelt(case: Case) -> Iterator[Misspelt]:
    holders: dict[str, list[str]] = {}
    for node in case.nodes:
        for resource in node.status.allocatable:
            holders.setdefault(resource, []).append(node.metadata.name)
    for resource, amount in scheduler_units(pod_requests(case.pod)).items():
        if amount and resource not in holders:
            near = similar(resource, holders) or ""
            yield Misspelt(resource, near, tuple(holders.get(near, ())))


def causes(case: Case, node: Node) -> Iterator[str]:
    """Yields nothing: the shortages of a node are explained with its group."""
    del case, node
    yield from ()


def notes(case: Case, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the resources that no node has, and similar ones."""
    del nodes
    for item in misspelt(case):
        hint = f"; did you mean {item.near} ({names_text(item.holders)})?" if item.near else ""
        yield f"no node has {item.resource}{hint}"
