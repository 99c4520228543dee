"""mooring: a Kubernetes scheduler in Python.

It makes kube-scheduler's decisions, explains every one of them, and takes plugins written in
Python. The names below are the public ones; everything else may change between versions.

Importing the package costs next to nothing: a public name is loaded when it is first used. Type
checkers and editors read ``__init__.pyi``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from mooring import deprecated

__version__ = "0.1.0"

deprecated.install()

#: Public name -> the module that defines it.
_PUBLIC = {
    "SKIP": "mooring.framework",
    "Change": "mooring.state.columns.change_log",
    "Cluster": "mooring.study.cluster",
    "Comparison": "mooring.study.compare",
    "ConfigError": "mooring.errors",
    "Cycle": "mooring.framework",
    "Diagnosis": "mooring.framework",
    "PreFilterResult": "mooring.framework",
    "NodeInfo": "mooring.framework",
    "NodeView": "mooring.framework",
    "Pending": "mooring.framework",
    "PluginError": "mooring.errors",
    "PodInfo": "mooring.state",
    "PostFilterResult": "mooring.framework",
    "Reject": "mooring.framework",
    "Result": "mooring.study.result",
    "Scenario": "mooring.study.scenario",
    "ScenarioResult": "mooring.study.scenario",
    "SchedulerError": "mooring.errors",
    "Server": "mooring.study.server",
    "Status": "mooring.framework",
    "Suggestion": "mooring.study.suggestions",
    "Suggestions": "mooring.study.suggestions",
    "Table": "mooring.study.table",
    "FilterStatuses": "mooring.framework",
    "Wait": "mooring.framework",
    "compare": "mooring.study.compare",
    "default_normalize": "mooring.framework",
    "per_node": "mooring.framework",
    "predicate": "mooring.framework",
    "priority": "mooring.framework",
    "write_report": "mooring.study.scenario",
}

__all__ = [
    "SKIP",
    "Change",
    "Cluster",
    "Comparison",
    "ConfigError",
    "Cycle",
    "Diagnosis",
    "FilterStatuses",
    "NodeInfo",
    "NodeView",
    "Pending",
    "PluginError",
    "PodInfo",
    "PostFilterResult",
    "PreFilterResult",
    "Reject",
    "Result",
    "Scenario",
    "ScenarioResult",
    "SchedulerError",
    "Server",
    "Status",
    "Suggestion",
    "Suggestions",
    "Table",
    "Wait",
    "__version__",
    "compare",
    "default_normalize",
    "per_node",
    "predicate",
    "priority",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Loads a public name at its first use (PEP 562)."""
    module = _PUBLIC.get(name)
    if module is None:
        return deprecated.renamed(sys.modules[__name__], name)
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns the public names, including those that are not loaded yet."""
    return sorted({*globals(), *__all__})
