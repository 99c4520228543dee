"""Test tools for mooring and for plugin authors.

``make_pod``, ``make_node`` and ``make_object`` build objects, ``cluster`` puts them into a Cache,
``Harness`` runs plugins for a pod, ``FakeClock`` only advances by ``advance``, and
``check_conformance`` checks that a plugin meets all requirements of the framework.
"""

from typing import Any

from mooring import deprecated
from mooring.clock import VirtualClock as FakeClock
from mooring.testing.builders import make_node, make_object, make_pod
from mooring.testing.conformance import check_conformance
from mooring.testing.harness import Harness, cluster, one_node_form

__all__ = [
    "FakeClock",
    "Harness",
    "check_conformance",
    "cluster",
    "make_node",
    "make_object",
    "make_pod",
    "one_node_form",
]


def __getattr__(name: str) -> Any:
    """Returns the object that an old name stands for."""
    if name != "scalar_twin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    deprecated.warn("mooring.testing.scalar_twin", "one_node_form", stacklevel=2)
    return one_node_form
