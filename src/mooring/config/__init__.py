"""The scheduler's configuration file: KubeSchedulerConfiguration v1, read strictly.

``load`` reads a file, ``from_document`` a value that is plain already; both give a frozen
``KubeSchedulerConfiguration`` with all defaults filled in, or say everything that is wrong.
``expand_multi_point`` tells which plugins run where. ``legacy_policy`` makes such a file of the
Policy that kube-scheduler read before.
"""

from __future__ import annotations

from mooring.config.defaults import with_ignored_resources
from mooring.config.document import to_document
from mooring.config.error_locations import located
from mooring.config.load import default_configuration, from_document, load, loads
from mooring.config.plugin_defaults import (
    DEFAULT_FILTER_ORDER,
    DEFAULT_PLUGINS,
    GATED_PLUGINS,
    IN_TREE_PLUGINS,
    POINTS,
)
from mooring.config.plugin_sets import expand_multi_point
from mooring.config.types import (
    DEFAULT_SCHEDULER_NAME,
    EXTENSION_POINTS,
    Extender,
    KubeSchedulerConfiguration,
    PluginEntry,
    Plugins,
    PluginSet,
    Profile,
)
from mooring.config.upstream_yaml import upstream_document, upstream_yaml

__all__ = [
    "DEFAULT_FILTER_ORDER",
    "DEFAULT_PLUGINS",
    "DEFAULT_SCHEDULER_NAME",
    "EXTENSION_POINTS",
    "GATED_PLUGINS",
    "IN_TREE_PLUGINS",
    "POINTS",
    "Extender",
    "KubeSchedulerConfiguration",
    "PluginEntry",
    "PluginSet",
    "Plugins",
    "Profile",
    "default_configuration",
    "expand_multi_point",
    "from_document",
    "load",
    "loads",
    "located",
    "to_document",
    "upstream_document",
    "upstream_yaml",
    "with_ignored_resources",
]
