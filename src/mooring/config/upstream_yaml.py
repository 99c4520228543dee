"""A configuration as kube-scheduler's ``--write-config-to`` writes it, to the last quote.

Beside ``document`` (which only has to be read back) this knows what upstream leaves out when it is
zero, what its framework makes of plugin arguments, and how its YAML writer quotes.

Source: k8s.io/kube-scheduler config/v1/types.go (the JSON tags), pkg/scheduler/framework/runtime/
framework.go (NewFramework: the profile it reports), pkg/scheduler/scheduler.go (buildExtenders).
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mooring.config.defaults import with_ignored_resources
from mooring.config.document import to_document
from mooring.config.plugin_sets import names_enabled
from mooring.config.types import KubeSchedulerConfiguration, Profile
from mooring.objects.files.yaml_text import yaml_text

#: Fields that are left out where they are false, 0 or "": where they stand -> their names.
_LEFT_OUT: Final[dict[str, tuple[str, ...]]] = {
    "": ("delayCacheUntilActive",),
    "extenders": (
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "nodeCacheCapable",
        "ignorable",
    ),
    "tlsConfig": (
        "insecure",
        "serverName",
        "certFile",
        "keyFile",
        "caFile",
        "certData",
        "keyData",
        "caData",
    ),
    "managedResources": ("ignoredByScheduler",),
}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def upstream_yaml(config: KubeSchedulerConfiguration) -> str:
    """Returns the complete configuration as YAML: keys sorted, everything filled in.

    Example:
        >>> from mooring.config import default_configuration
        >>> upstream_yaml(default_configuration()).splitlines()[1:4]
        ['clientConnection:', '  acceptContentTypes: ""', '  burst: 100']
    """
    return yaml_text(upstream_document(config))


def upstream_document(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Returns the same as a plain value."""
    document: dict[str, Any] = _walk(to_document(_as_run(config)), "")
    document.setdefault("percentageOfNodesToScore", 0)
    return document


def _as_run(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration with the arguments of plugins that run, sorted by name."""
    complete = with_ignored_resources(config)
    return replace(complete, profiles=tuple(map(_profile_as_run, complete.profiles)))


def _profile_as_run(profile: Profile) -> Profile:
    running = names_enabled(profile.plugins)
    entries = (
        replace(entry, args={}) if entry.args is None else entry
        for entry in profile.plugin_config
        if entry.name in running
    )
    return replace(profile, plugin_config=tuple(sorted(entries, key=lambda entry: entry.name)))


def _walk(value: Any, name: str) -> Any:
    """Returns the value under the key ``name``, without what upstream leaves out there."""
    if isinstance(value, list):
        return [_walk(item, name) for item in value]
    if not isinstance(value, dict) or (name == "args" and "kind" not in value):
        return value
    left_out = _LEFT_OUT.get(name, ())
    entries = {
        key: _walk(entry, key) for key, entry in value.items() if entry or key not in left_out
    }
    if entries.get("kind") == "DynamicResourcesArgs":
        entries.setdefault("filterTimeout", None)
    if name == _REQUIRED:
        entries.setdefault("nodeSelectorTerms", [])
    return entries
