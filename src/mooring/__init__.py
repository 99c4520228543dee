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
    "ConfigError": "mooring.errors",
    "PluginError": "mooring.errors",
    "SchedulerError": "mooring.errors",
}

__all__ = ["ConfigError", "PluginError", "SchedulerError", "__version__"]


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
