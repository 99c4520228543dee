"""The functions of templates of stages that ask about the surroundings of an object."""

from __future__ import annotations

from typing import Any, Final

from mooring import __version__

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
