"""The names of a device that an expression reads.

Devices with equal values there share an answer.
"""

from __future__ import annotations

from typing import NamedTuple

from mooring.cel.syntax.tree import Call, Comprehension, Ident, Literal, Node, Select, children


class Reads(NamedTuple):
    """The names that an expression reads.

    Attributes:
        everything: True if it iterates, or computes a name: then all names count.
        driver: Whether it reads the driver.
        allow_multiple_allocations: Whether it reads this field.
        attributes: Pairs of domain and id.
        capacity: Pairs of domain and id.
    """

    everything: bool
    driver: bool
    allow_multiple_allocations: bool
    attributes: frozenset[tuple[str, str]]
    capacity: frozenset[tuple[str, str]]


def names_read(root: Node) -> Reads:
    """Returns the names that a checked expression reads."""
    visitor = _Visitor()
    visitor.visit(root, frozenset())
    return Reads(
        visitor.everything,
        "driver" in visitor.fields,
        "allowMultipleAllocations" in visitor.fields,
        frozenset(visitor.pairs["attributes"]),
        frozenset(visitor.pairs["capacity"]),
    )


class _Visitor:
    """Collects paths from ``device`` down; whatever ends early reads everything."""

    def __init__(self) -> None:
        self.everything = False
        self.fields: set[str] = set()
        self.pairs: dict[str, set[tuple[str, str]]] = {"attributes": set(), "capacity": set()}

    def visit(self, root: Node, hidden: frozenset[str]) -> None:
        """Collects what a node reads; ``hidden`` has the names that loops define."""
        pending = [(root, hidden)]
        while pending:
            node, names = pending.pop()
            path = None if "device" in names else _path(node)
            if path is not None:
                self._add(path)
                continue
            if isinstance(node, Comprehension):
                names = names | {node.iter_var, node.iter_var2, node.accu_var}
            pending.extend((child, names) for child in children(node))

    def _add(self, path: list[str]) -> None:
        match path:
            case ["driver" | "allowMultipleAllocations" as field]:
                self.fields.add(field)
            case ["attributes" | "capacity" as field, domain, name, *_]:
                self.pairs[field].add((domain, name))
            case _:
                self.everything = True


def _path(node: Node) -> list[str] | None:
    """Returns the names from ``device`` to a node; None if it does not begin there."""
    names: list[str] = []
    while True:
        if isinstance(node, Select):
            names.append(node.field)
            node = node.operand
        elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            index = node.args[1]
            if not isinstance(index, Literal) or not isinstance(index.value, str):
                return None
            names.append(index.value)
            node = node.args[0]
        elif isinstance(node, Ident) and node.name == "device":
            return names[::-1]
        else:
            return None
