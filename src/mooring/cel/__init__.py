"""Selectors of devices in the Common Expression Language (CEL), as kube-scheduler evaluates them.

``compile_selector`` makes a ``Selector`` of an expression; ``Selector.matches`` says whether it is
true for a ``DeviceInput``. Both report errors in kube-scheduler's words.

Text -> ``parser`` (with ``tokens`` and ``macros``) -> ``checker`` (``types``, ``unify``,
``library``) -> ``validators`` -> ``planner`` -> ``evaluation`` (``attributes``, ``cost``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.cel.cost import COST_LIMIT
    from mooring.cel.device import DeviceInput, Version
    from mooring.cel.errors import CompileError, EvaluationError
    from mooring.cel.reads import Reads
    from mooring.cel.selector import Evaluation, Selector, compile_selector

__all__ = [
    "COST_LIMIT",
    "CompileError",
    "DeviceInput",
    "Evaluation",
    "EvaluationError",
    "Reads",
    "Selector",
    "Version",
    "compile_selector",
]

_MODULES = {
    "COST_LIMIT": "cost",
    "CompileError": "errors",
    "DeviceInput": "device",
    "Evaluation": "selector",
    "EvaluationError": "errors",
    "Reads": "reads",
    "Selector": "selector",
    "Version": "device",
    "compile_selector": "selector",
}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use: most clusters have no selectors of devices."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
