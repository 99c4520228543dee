"""What of the input is not looked at: said aloud, never left out silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.objects.pod import Pod

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration

NO_EXTENDERS: Final = "extenders are not asked: this works offline"


def without_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration for a scheduler that asks nobody; what extenders manage stays ignored."""
    from mooring.config import with_ignored_resources

    return msgspec.structs.replace(with_ignored_resources(config), extenders=())


def notes(
    config: KubeSchedulerConfiguration | None,
    pods: Iterable[Pod],
    skipped: Mapping[str, int] | None = None,
    *,
    is_offline: bool = True,
) -> list[str]:
    """Returns one sentence for each part of the input that is not looked at.

    Args:
        config: As loaded; None = all defaults.
        pods: Pending ones and those on nodes.
        skipped: Kind -> how many objects of it were passed over when files were read.
        is_offline: Whether nobody is asked over a network.
    """
    told = []
    if is_offline and config is not None and config.extenders:
        told.append(NO_EXTENDERS)
    if skipped:
        counts = ", ".join(f"{count} {kind}" for kind, count in skipped.items())
        told.append(f"no scheduler reads objects of these kinds, they are passed over: {counts}")
    count = sum(bool(pod.spec.resource_claims) for pod in pods)
    if count:
        told.append(
            f"DynamicResources allocates no devices yet: {count} pods have resource claims,"
            " and those that are pending are refused"
        )
    return told
