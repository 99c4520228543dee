"""mooring: a Kubernetes scheduler in Python.

It makes kube-scheduler's decisions, explains every one of them, and takes plugins written in
Python. The names below are the public ones; everything else may change between versions.

Importing the package costs next to nothing: a public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Public name -> the module that defines it.
_PUBLIC = {
    "SKIP": "mooring.framework",
    "ConfigError": "mooring.errors",
    "Cycle": "mooring.framework",
    "Narrow": "mooring.framework",
    "NodeInfo": "mooring.framework",
    "NodeView": "mooring.framework",
    "Pending": "mooring.framework",
    "PluginError": "mooring.errors",
    "Reject": "mooring.framework",
    "SchedulerError": "mooring.errors",
    "Status": "mooring.framework",
    "Verdicts": "mooring.framework",
    "Wait": "mooring.framework",
    "per_node": "mooring.framework",
}

__all__ = [
    "SKIP",
    "ConfigError",
    "Cycle",
    "Narrow",
    "NodeInfo",
    "NodeView",
    "Pending",
    "PluginError",
    "Reject",
    "SchedulerError",
    "Status",
    "Verdicts",
    "Wait",
    "__version__",
    "per_node",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'mooring' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
