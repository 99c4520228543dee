"""Old names of what plugin authors use: each works for one more release, with a DeprecationWarning.

Four kinds: modules (``MODULES``), names exported by ``mooring`` and ``mooring.framework``
(``NAMES``), attributes of plugins (``PLUGIN_ATTRIBUTES``), and attributes and methods of exported
classes (``RenamedAttribute``).
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old module -> new module.
MODULES = {
    f"mooring.{old}": f"mooring.{new}"
    for old, new in {
        "framework.checks": "framework.runtime.plugin_checks",
        "framework.cycle": "framework.cycle_state",
        "framework.deltas": "framework.pod_deltas",
        "framework.registry": "framework.runtime.registry",
        "framework.runner": "framework.runtime.framework",
        "framework.verdict": "framework.status",
        "framework.view": "framework.node_view",
        "framework.waiting": "framework.waiting_pods",
        "measured": "load_metrics",
        "measured.arguments": "load_metrics.arguments",
        "measured.keeper": "load_metrics.metric_cache",
        "measured.metrics": "load_metrics.metrics",
        "measured.sources": "load_metrics.sources",
        "objects.decode": "objects.codec.decode",
        "objects.reader": "objects.files.reader",
        "plugins.measured_load": "plugins.contrib.load_score",
        "plugins.node_ready": "plugins.contrib.node_ready",
        "plugins.node_resources_balanced_allocation": "plugins.node_resources.balanced_allocation",
        "plugins.node_resources_fit": "plugins.node_resources.fit",
        "plugins.random_scheduler": "plugins.contrib.random_scheduler",
        "state.changes": "state.columns.change_log",
        "state.nodes": "state.tables.nodes",
        "state.pods": "state.tables.pods",
        "testing.sharing": "testing.check_caching",
    }.items()
}

#: Old exported name -> new name.
NAMES = {"Narrow": "PreFilterResult", "Verdicts": "FilterStatuses"}

#: The same for ``mooring.client``: copies of the tutorial's steps import it.
CLIENT_NAMES = {"Change": "ObjectChange"}

#: Old attribute of a plugin -> new attribute.
PLUGIN_ATTRIBUTES = {
    "reads_everywhere": "reads_other_nodes",
    "shift": "apply_deltas",
    "zeros_become": "normalized_zero",
}


class _MovedModules(MetaPathFinder, Loader):
    """Imports the new module under the old name."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Returns a spec for a module that has moved; None for any other."""
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Puts the new module in the place of ``module``."""
        old = module.__name__
        warn(old, MODULES[old], stacklevel=3)
        sys.modules[old] = importlib.import_module(MODULES[old])


def install() -> None:
    """Makes the old modules importable; a second call does nothing."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedModules())  # before a folder under an old name is searched


def warn(old: str, new: str, *, stacklevel: int) -> None:
    """Warns that ``old`` is now called ``new``."""
    message = f"{old} is now {new}; the old name will be removed in the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


def renamed(module: ModuleType, name: str, names: Mapping[str, str] = NAMES) -> Any:
    """Returns the value of an exported name that has been renamed; ``names`` maps old to new.

    Raises:
        AttributeError: if it is no such name.
    """
    if name not in names:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    warn(f"{module.__name__}.{name}", names[name], stacklevel=3)
    return getattr(module, names[name])


class RenamedAttribute:
    """The old name of an attribute or a method of a class; read-only."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def __get__(self, instance: Any, owner: type) -> Any:
        warn(f"{owner.__name__}.{self._old}", self._new, stacklevel=2)
        return getattr(owner if instance is None else instance, self._new)


def rename_attributes(plugin: Any) -> None:
    """Gives a plugin its attributes under their new names, where it has the old ones."""
    for old, new in PLUGIN_ATTRIBUTES.items():
        if hasattr(plugin, old) and not hasattr(plugin, new):
            warn(f"{type(plugin).__name__}.{old}", new, stacklevel=4)
            setattr(plugin, new, getattr(plugin, old))
