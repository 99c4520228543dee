"""Drops fields of pods, of templates of pods, and of drivers whose gate is off by default.

Source: pkg/api/pod/util.go (DropDisabledPodFields, DropDisabledTemplateFields);
pkg/registry/storage/csidriver/strategy.go (VolumeLimitScaling).
Differs: ``schedulingGroup`` is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_TEMPLATE: Final = ("spec", "template", "spec")
#: Group and resource -> where the spec of a pod is in its objects.
_POD_SPECS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType(
    {
        ("", "pods"): ("spec",),
        ("", "podtemplates"): ("template", "spec"),
        ("", "replicationcontrollers"): _TEMPLATE,
        ("apps", "daemonsets"): _TEMPLATE,
        ("apps", "deployments"): _TEMPLATE,
        ("apps", "replicasets"): _TEMPLATE,
        ("apps", "statefulsets"): _TEMPLATE,
        ("batch", "cronjobs"): ("spec", "jobTemplate", *_TEMPLATE),
        ("batch", "jobs"): _TEMPLATE,
    }
)
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_SIGNAL: Final = "stopSignal"
_DRIVERS: Final = ("storage.k8s.io", "csidrivers")
_PREVENTS: Final = "preventPodSchedulingIfMissing"


def drop_disabled_fields(resource: Resource, new: Object, old: Object | None) -> None:
    """Drops the fields from an object, unless the stored one has them already."""
    path = _POD_SPECS.get((resource.group, resource.name))
    if path is None:
        if (resource.group, resource.name) == _DRIVERS:
            _drop_from_driver(new, old)
        return
    lifecycles = [*_lifecycles(new, path)]
    if not any(_SIGNAL in container["lifecycle"] for container in lifecycles):
        return
    before = [] if old is None else _lifecycles(old, path)
    if any(_SIGNAL in container["lifecycle"] for container in before):
        return
    for container in lifecycles:
        container["lifecycle"].pop(_SIGNAL, None)
        if not container["lifecycle"]:
            del container["lifecycle"]


def _drop_from_driver(new: Object, old: Object | None) -> None:
    if old is None or (old.get("spec") or {}).get(_PREVENTS) is None:
        (new.get("spec") or {}).pop(_PREVENTS, None)


def _lifecycles(obj: Object, path: tuple[str, ...]) -> Iterator[Object]:
    """Yields the containers that have a lifecycle."""
    spec: Object = obj
    for step in path:
        spec = spec.get(step) or {}
    for kind in _CONTAINERS:
        yield from (item for item in spec.get(kind) or () if item.get("lifecycle"))
