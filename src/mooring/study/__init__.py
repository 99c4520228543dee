"""The Python API: clusters, simulations, comparisons and servers as objects.

::

    Cluster ──simulate──> Result ──> tables, explanations
       │                    └─compare──> Comparison
       ├─what_would_help──> Suggestions ──apply──> Cluster
       ├─ Scenario ──run──> ScenarioResult: a cluster over time
       └─ Server: an API server and a scheduler for tests with kubectl

The names of this package are importable from ``mooring``.
"""

from __future__ import annotations

from mooring.study.cluster import Cluster
from mooring.study.compare import Comparison, compare
from mooring.study.result import Result
from mooring.study.scenario import Scenario, ScenarioResult
from mooring.study.server import Server
from mooring.study.suggestions import Suggestion, Suggestions
from mooring.study.table import Table

__all__ = [
    "Cluster",
    "Comparison",
    "Result",
    "Scenario",
    "ScenarioResult",
    "Server",
    "Suggestion",
    "Suggestions",
    "Table",
    "compare",
]
