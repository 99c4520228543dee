"""What of the input is not looked at: said aloud, never left out silently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.config import DEFAULT_PLUGINS, default_configuration
from mooring.objects.pod import Pod, Volume
from mooring.plugins import IN_TREE

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration, Profile


def notes(
    config: KubeSchedulerConfiguration | None,
    pods: Iterable[Pod],
    skipped: Mapping[str, int] | None = None,
) -> list[str]:
    """One sentence for each part of the input that is not looked at, in the order of plugins.

    Args:
        config: As loaded; None = all defaults.
        pods: Pending ones and those on nodes.
        skipped: Kind -> how many objects of it were passed over when files were read.
    """
    pods = list(pods)
    told = [*_about_config(config)] if config is not None else []
    if skipped:
        counts = ", ".join(f"{count} {kind}" for kind, count in skipped.items())
        told.append(f"no scheduler reads objects of these kinds, they are passed over: {counts}")
    for name, uses in _USES.items():
        if name in IN_TREE:
            continue
        count = sum(map(uses, pods))
        if count:
            told.append(f"{name} is not built yet: what {count} pods ask of it is not looked at")
    priorities = {pod.spec.priority or 0 for pod in pods}
    if "DefaultPreemption" not in IN_TREE and len(priorities) > 1:
        told.append("DefaultPreemption is not built yet: no pod makes room for another")
    return told


def _about_config(config: KubeSchedulerConfiguration) -> Iterator[str]:
    missing = [name for name in DEFAULT_PLUGINS if name not in IN_TREE]
    untouched = default_configuration().profiles[0]
    for profile in config.profiles:
        for name in missing:
            said = _said_of(profile, name)
            if said.enabled and said != _said_of(untouched, name):
                where = f"profile {profile.scheduler_name}"
                yield f"{where}: {name} is not built yet: what is said of it has no effect"
    if config.extenders:
        yield "extenders are not asked: mooring simulate and mooring explain work offline"


class _Said(NamedTuple):
    """What a profile says of one plugin: the points where it is enabled, and its arguments."""

    enabled: list[tuple[str, Any]]
    args: Any


def _said_of(profile: Profile, name: str) -> _Said:
    plugins = profile.plugins
    enabled = [
        (point, entry)
        for point in plugins.__struct_fields__
        for entry in plugins.at(point).enabled
        if entry.name == name
    ]
    return _Said(enabled, profile.args(name))


def _has_pod_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and not (
        affinity.pod_affinity is None and affinity.pod_anti_affinity is None
    )


def _has_volumes(pod: Pod) -> bool:
    return any(volume != Volume(name=volume.name) for volume in pod.spec.volumes)


#: Plugin -> whether a pod asks something of it.
_USES: Final[dict[str, Callable[[Pod], bool]]] = {
    "VolumeBinding": _has_volumes,
    "DynamicResources": lambda pod: bool(pod.spec.resource_claims),
    "InterPodAffinity": _has_pod_affinity,
}
