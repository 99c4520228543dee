"""mooring: a Kubernetes scheduler in Python.

It makes kube-scheduler's decisions, explains every one of them, and takes plugins written in
Python. The names below are the public ones; everything else may change between versions.

Importing the package costs next to nothing: a public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from mooring import deprecated

if TYPE_CHECKING:  # what type checkers and editors see; ``_PUBLIC`` is what runs
    from mooring.errors import ConfigError, PluginError, SchedulerError
    from mooring.framework import (
        SKIP,
        Cycle,
        Diagnosis,
        FilterStatuses,
        NodeInfo,
        NodeView,
        Pending,
        PostFilterResult,
        PreFilterResult,
        Reject,
        Status,
        Wait,
        default_normalize,
        per_node,
        predicate,
        priority,
    )
    from mooring.state import PodInfo
    from mooring.state.columns.change_log import Change

__version__ = "0.1.0"

deprecated.install()

#: Public name -> the module that defines it.
_PUBLIC = {
    "SKIP": "mooring.framework",
    "Change": "mooring.state.columns.change_log",
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
    "SchedulerError": "mooring.errors",
    "Status": "mooring.framework",
    "FilterStatuses": "mooring.framework",
    "Wait": "mooring.framework",
    "default_normalize": "mooring.framework",
    "per_node": "mooring.framework",
    "predicate": "mooring.framework",
    "priority": "mooring.framework",
}

__all__ = [
    "SKIP",
    "Change",
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
    "SchedulerError",
    "Status",
    "Wait",
    "__version__",
    "default_normalize",
    "per_node",
    "predicate",
    "priority",
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
