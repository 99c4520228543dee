"""The score weights of a profile, from its configuration."""

from __future__ import annotations

from mooring.config import (
    DEFAULT_SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    default_configuration,
    expand_multi_point,
)


def score_weights(
    config: KubeSchedulerConfiguration | None, scheduler_name: str = ""
) -> dict[str, int]:
    """Returns weights by plugin for a schedulerName; ``config`` None = the default configuration.

    Plugins without scores are included, with the weight that they would have. Returns {} if no
    profile has the name.

    Example:
        >>> score_weights(None)["TaintToleration"]
        3
    """
    name = scheduler_name or DEFAULT_SCHEDULER_NAME
    for profile in (config or default_configuration()).profiles:
        if profile.scheduler_name == name and profile.plugins is not None:
            return dict(expand_multi_point(profile.plugins, ["score"], _always)["score"])
    return {}


def _always(_plugin: str, _point: str) -> bool:
    """Returns True for every plugin: the weight of a plugin without scores has no effect."""
    return True
