"""The kinds that the plugins of a configuration follow, known before the input is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mooring.clock import VirtualClock, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.objects.generic import GenericObject
from mooring.objects.kinds import kind_named
from mooring.queue.queueing_hints import QueueingHints
from mooring.queue.watched_kinds import follow_kinds
from mooring.simulation.driver import Driver
from mooring.simulation.workload import Workload
from mooring.state.listers import Listers

#: Definitions name the resource of a kind, which a recording needs to read its objects again.
_DEFINITIONS: Final = "customresourcedefinitions.v1.apiextensions.k8s.io"


def generic_kinds(
    config: KubeSchedulerConfiguration | None, plugins: Sequence[str | Any] = ()
) -> tuple[str, ...]:
    """Returns the kinds without a struct that plugins follow: names of resources.

    Raises:
        ConfigError: a plugin cannot be used, or names a kind that does not exist.
    """
    driver = Driver((), config=config, plugins=plugins, rng=seeded_random(0), clock=VirtualClock())
    registered = QueueingHints(driver.frameworks).resources()
    listers = Listers()
    for kind in driver.listers.kinds:
        listers.lister(kind)
    followed = follow_kinds(driver.frameworks, registered, listers)
    return tuple(kind for kind in followed if kind_named(kind).is_generic)


def with_generic_kinds(workload: Workload, kinds: Iterable[str]) -> Workload:
    """Returns a workload with those objects without a struct that plugins follow.

    The others stay in ``skipped`` alone.
    """
    followed = set(kinds)
    is_read: Counter[str] = Counter()
    objects = []
    for obj in workload.objects:
        if isinstance(obj, GenericObject):
            kind = type(obj).__name__
            is_read[obj.kind] += kind in followed
            if kind not in followed and not (followed and kind == _DEFINITIONS):
                continue
        objects.append(obj)
    left = {kind: count - is_read[kind] for kind, count in workload.skipped.items()}
    skipped = {kind: count for kind, count in left.items() if count}
    return workload._replace(objects=objects, skipped=skipped)
