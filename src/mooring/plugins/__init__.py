"""The default plugins, one module or package each; ``config.plugin_defaults`` lists them.

``from mooring.plugins import NodeName`` imports the module of a plugin when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mooring.config import IN_TREE_PLUGINS
from mooring.framework.interface import Handle
from mooring.framework.runtime.registry import Factory, instantiate


def __getattr__(name: str) -> Any:
    """Returns the class of a default plugin (PEP 562)."""
    if name not in IN_TREE_PLUGINS:
        raise AttributeError(f"module 'mooring.plugins' has no attribute {name!r}")
    plugin_class = getattr(
        importlib.import_module(f"{__name__}.{IN_TREE_PLUGINS[name].module}"), name
    )
    globals()[name] = plugin_class
    return plugin_class


def in_tree(gates: Mapping[str, bool]) -> dict[str, Factory]:
    """Returns name -> factory of every default plugin.

    A constructor may ask for ``gates``: the feature gates whose value is not the default.
    """
    return {name: partial(_create, name, gates) for name in IN_TREE_PLUGINS}


def _create(name: str, gates: Mapping[str, bool], args: Any, handle: Handle) -> Any:
    return instantiate(__getattr__(name), args, handle, gates=gates)


#: The same with the default value of every gate.
IN_TREE: dict[str, Factory] = in_tree(MappingProxyType({}))
