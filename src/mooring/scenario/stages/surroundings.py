"""Templates of stages applied to an object: the status and the messages that they give."""

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


def _surroundings(view: Mapping[str, Any], kind: str, number: int, now: str) -> dict[str, Any]:
    """Returns the functions of templates that depend on the run; arguments as ``status_after``."""
    node_name = view["metadata"]["name"] if kind == "Node" else ""
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


def message_for(
    template: Template, view: Mapping[str, Any], kind: str, number: int, now: str
) -> str:
    """Returns the message of an event about an object; the arguments are those of ``status_after``.

    Raises:
        TemplateError: the template does not apply to the object.
    """
    return template.render(view, _surroundings(view, kind, number, now))


def status_after(
    template: Template, view: Mapping[str, Any], kind: str, number: int, now: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the patch that a template gives, and the status of the object after it.

    Args:
        template: Of the status.
        view: The object as JSON.
        kind: Pod or Node.
        number: Of the object in this run; its address is made of it.
        now: The time, as in objects.

    Raises:
        TemplateError: it does not apply to the object.
        ApiStatusError: the patch does not fit the status.
    """
    patch = template.values(view, _surroundings(view, kind, number, now))
    if not isinstance(patch, dict):
        raise TemplateError("does not give a mapping")
    # Names with "$" are directives of the merge.
    before = {"status": deepcopy(view["status"])}
    merged = strategic_merge(before, {"status": patch}, f"core.{kind}")
    return patch, merged["status"]
