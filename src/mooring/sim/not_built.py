"""What of the input is not looked at: said aloud, never left out silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mooring.objects.pod import Pod

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration


def notes(
    config: KubeSchedulerConfiguration | None,
    pods: Iterable[Pod],
    skipped: Mapping[str, int] | None = None,
) -> list[str]:
    """One sentence for each part of the input that is not looked at.

    Args:
        config: As loaded; None = all defaults.
        pods: Pending ones and those on nodes.
        skipped: Kind -> how many objects of it were passed over when files were read.
    """
    told = []
    if config is not None and config.extenders:
        told.append("extenders are not asked: mooring simulate and mooring explain work offline")
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
