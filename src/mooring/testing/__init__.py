"""Test tools for mooring and for plugin authors.

``make_pod`` and ``make_node`` build objects, ``cluster`` puts them into a Cache, ``Harness`` runs
plugins for a pod, ``FakeClock`` only advances by ``advance``, and ``check_conformance`` checks that
a plugin meets all requirements of the framework.
"""

from mooring.clock import VirtualClock as FakeClock
from mooring.testing.builders import make_node, make_pod
from mooring.testing.conformance import check_conformance
from mooring.testing.harness import Harness, cluster, scalar_twin

__all__ = [
    "FakeClock",
    "Harness",
    "check_conformance",
    "cluster",
    "make_node",
    "make_pod",
    "scalar_twin",
]
