"""Templates of stages applied to an object: their surroundings, and the status they give."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from mooring import __version__
from mooring.apiserver.patch.strategic_merge import strategic_merge
from mooring.scenario.stages.template_syntax import TemplateError
from mooring.scenario.stages.templates import Template

#: What a healthy node reports; all but Ready are pressures, which a simulation does not have.
NODE_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("NetworkUnavailable", "False", "RouteCreated"),
)
_NODE_ADDRESS: Final = "10.0.0.1"
_NODE_PORT: Final = 10250


def surroundings(node_name: str, number: int, now: str) -> dict[str, Any]:
    """Returns the functions of templates that depend on the run.

    Args:
        node_name: The object's own name if it is a node; else "".
        number: Of the object in this run; its address is made of it.
        now: The time, as in objects.
    """
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "Now": lambda: now,
        "Version": lambda: __version__,
        "NodeConditions": lambda: [
            {"type": name, "status": status, "reason": reason, "message": reason}
            for name, status, reason in NODE_CONDITIONS
        ],
        "NodeIP": lambda: _NODE_ADDRESS,
        "NodeName": lambda: node_name,
        "NodePort": lambda: _NODE_PORT,
        "NodeIPWith": lambda *_: _NODE_ADDRESS,
        "PodIP": lambda: address,
        "PodIPWith": lambda *_: address,
    }


def status_after(
    template: Template, view: Mapping[str, Any], kind: str, number: int, now: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the patch that a template gives, and the status of the object after it.

    Args:
        template: Of the status.
        view: The object as JSON.
        kind: Pod or Node.
        number: As for ``surroundings``.
        now: The time, as in objects.

    Raises:
        TemplateError: it does not apply to the object.
        ApiStatusError: the patch does not fit the status.
    """
    node_name = view["metadata"]["name"] if kind == "Node" else ""
    patch = template.values(view, surroundings(node_name, number, now))
    if not isinstance(patch, dict):
        raise TemplateError("does not give a mapping")
    # Names with "$" are directives of the merge.
    before = {"status": deepcopy(view["status"])}
    merged = strategic_merge(before, {"status": patch}, f"core.{kind}")
    return patch, merged["status"]
