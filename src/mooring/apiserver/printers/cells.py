"""Cells: the functions that a kind's row is made of, one for each column.

A row is data: ``row(name, field("status.phase"), age)``. The columns themselves (names, types,
priorities, descriptions) are in ``data/table_columns.json``.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.apiserver.printers.formatting import NONE, selector, since
from mooring.objects.types import Json

#: Takes an object and the server's wall clock, and returns one cell.
Cell = Callable[[Json, float], Any]
#: Takes an object and the server's wall clock, and returns all cells of its row.
Row = Callable[[Json, float], list[Any]]


def row(*cells: Cell) -> Row:
    """Returns a function that creates the cells of a row."""
    return lambda obj, now_s: [cell(obj, now_s) for cell in cells]


def field(path: str, default: Any = "") -> Cell:
    """Returns the cell of a field, or of the default where it is absent, empty or zero.

    Example:
        >>> phase = field("status.phase", "Unknown")
        >>> phase({"status": {"phase": "Running"}}, 0.0), phase({}, 0.0)
        ('Running', 'Unknown')
    """
    return formatted(path, lambda value: value or default)


def formatted(path: str, text_of: Callable[[Any], Any]) -> Cell:
    """Returns the cell of a field in its own format; absent fields are None."""
    *parents, last = path.split(".")

    def cell(obj: Json, _now_s: float) -> Any:
        for parent in parents:
            obj = obj.get(parent) or {}
        return text_of(obj.get(last))

    return cell


def age(obj: Json, now_s: float) -> str:
    """Returns the time since an object was created, as text."""
    return since(obj["metadata"].get("creationTimestamp"), now_s)


def ready_of_desired(workload: Json, _now_s: float) -> str:
    """Returns "ready/desired" replicas of a workload."""
    ready = (workload.get("status") or {}).get("readyReplicas", 0)
    return f"{ready}/{(workload.get('spec') or {}).get('replicas', 1)}"


def phase_or_terminating(obj: Json, _now_s: float) -> str:
    """Returns the phase of an object, or "Terminating" if it is being deleted."""
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str((obj.get("status") or {}).get("phase", ""))


def containers_of(template: str) -> tuple[Cell, Cell]:
    """Returns the cells of the names and the images of the containers of a pod template."""

    def joined(name: str) -> Cell:
        return formatted(
            f"{template}.spec.containers",
            lambda items: ",".join(container.get(name, "") for container in items or ()),
        )

    return joined("name"), joined("image")


name = field("metadata.name")
desired_replicas = formatted("spec.replicas", lambda count: 1 if count is None else count)
replicas = field("status.replicas", 0)
ready_replicas = field("status.readyReplicas", 0)
containers = containers_of("spec.template")
selector_or_none = formatted("spec.selector", lambda value: selector(value) or NONE)
