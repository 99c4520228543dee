"""The kinds of objects whose events requeue pods, or that plugins follow: a scheduler watches them.

Source: pkg/scheduler/eventhandlers.go (addAllEventHandlers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.cluster_event import EventResource
from mooring.errors import ConfigError
from mooring.framework import Framework
from mooring.objects.kinds import KINDS, Kind, kind_named
from mooring.state.listers import Listers

#: Kind -> resource of its events, for the kinds other than pods and nodes.
RESOURCES: Mapping[str, EventResource] = {
    kind: resource
    for resource in EventResource
    if (kind := resource.value.rpartition("/")[2]) in KINDS and kind not in ("Pod", "Node")
}

#: The resources that plugins register for; a text is the name of one without a member.
Registered = Iterable[EventResource | str]


def follow_kinds(
    profiles: Mapping[str, Framework], registered: Registered, listers: Listers
) -> dict[str, str]:
    """Makes listers of the kinds that only plugins read.

    Returns kind -> name of its resource in events, for kinds that the scheduler itself has no
    events for.

    Raises:
        ConfigError: a plugin names a kind that does not exist, or registers for the events of a
            kind that have another name.
    """
    names = sorted(name for name in registered if isinstance(name, str))
    with_events = [kind_named(name) for name in names]
    for name, kind in zip(names, with_events, strict=True):
        if kind.name in RESOURCES or kind.name in ("Node", "Pod"):
            problem = f"register for {kind.name} with a member of EventResource"
            raise ConfigError(problem, path="events", value=name)
    kinds = (*_needed(profiles), *map(kind_named, listers.kinds))
    generic = [kind for kind in kinds if kind.is_generic]
    resources = {kind.name: kind.resource_name for kind in (*with_events, *generic)}
    for kind_name in resources:
        listers.lister(kind_name)
    return resources


def watched_kinds(
    profiles: Mapping[str, Framework],
    registered: Registered,
    listers: Listers,
    also: Iterable[str] = (),
) -> list[str]:
    """Returns nodes, the kinds that plugins register for, need or list, ``also``, and pods.

    Pods come last: then nodes that exist before them keep their order.

    Raises:
        ConfigError: a plugin needs a kind that does not exist.
    """
    members = set(registered)
    others = [kind for kind, resource in RESOURCES.items() if resource in members]
    needed = [kind.name for kind in _needed(profiles)]
    kinds = dict.fromkeys(["Node", *others, *needed, *listers.kinds, *also])
    kinds.pop("Pod", None)
    return [*kinds, "Pod"]


def _needed(profiles: Mapping[str, Framework]) -> list[Kind]:
    """Returns the kinds that plugins name in ``needs``."""
    return [kind_named(kind) for own in profiles.values() for kind in own.profile.needs()]
