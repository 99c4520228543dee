"""Tools for tests, ours and those of plugin authors.

``make_pod`` and ``make_node`` build objects, ``cluster`` puts them into a Cache, ``decide`` asks
plugins about a pod, ``FakeClock`` stands still until told otherwise, and ``check_conformance`` runs
a plugin through everything that the framework relies on.
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
