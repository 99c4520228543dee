"""The weights of a profile's scores, as its configuration gives them."""

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
    """Plugin -> weight in the profile of that name; None = the default configuration.

    Plugins that do not score are among them, with the weight that they would have. A name without
    a profile gets nothing.

    Example:
        >>> score_weights(None)["TaintToleration"]
        3
    """
    wanted = scheduler_name or DEFAULT_SCHEDULER_NAME
    for profile in (config or default_configuration()).profiles:
        if profile.scheduler_name == wanted and profile.plugins is not None:
            return dict(expand_multi_point(profile.plugins, ["score"], _takes_part)["score"])
    return {}


def _takes_part(_plugin: str, _point: str) -> bool:
    """Whether a plugin scores does not matter here: one that does not has no scores to weigh."""
    return True
