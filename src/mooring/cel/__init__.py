"""Selectors of devices in the Common Expression Language (CEL), as kube-scheduler evaluates them.

``compile_selector`` makes a ``Selector`` of an expression; ``Selector.matches`` says whether it is
true for a ``DeviceInput``. Both report errors in kube-scheduler's words.

Text -> ``parser`` (with ``tokens`` and ``macros``) -> ``checker`` (``types``, ``unify``,
``library``) -> ``validators`` -> ``planner`` -> ``evaluation`` (``attributes``, ``cost``).
"""

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
