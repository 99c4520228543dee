"""Errors of a configuration in kube-scheduler's words: what ``mooring run`` logs as its last line.

``load`` reports every error with its line, and suggests what was meant; programs that read the log
of kube-scheduler expect its text instead.

Source: apimachinery's runtime/serializer (strict decoding), util/validation/field (Error).
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from mooring.apiserver.names import label_value, qualified_name
from mooring.component.go_values import aggregate
from mooring.config.durations import duration_text
from mooring.config.field_errors import FieldError
from mooring.config.plugin_sets import upstream_name
from mooring.config.types import KubeSchedulerConfiguration, Profile
from mooring.objects.files.documents import Path, path_text

DURATION_FIELDS: Final = frozenset(
    {"leaseDuration", "renewDeadline", "retryPeriod", "httpTimeout", "filterTimeout"}
    | {"bindingTimeout"}
)
_NOT_SUPPORTED: Final = "must be one of "
_REQUIRED: Final = (
    "is required",
    "can not be empty",
    "must be specified when type is RequestedToCapacityRatio",
    "at least one point must be specified",
)
_FORBIDDEN: Final = (
    "constraint must not define a selector, as they deduced for each pod",
    "must be nil when type is not RequestedToCapacityRatio",
    "DRASchedulingFilterTimeout feature gate is disabled",
    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
)
#: Extension points in the order in which upstream checks a profile's plugins.
_POINTS: Final = (
    *("pre_filter", "filter", "reserve", "post_filter", "pre_score", "score", "pre_bind", "bind"),
    *("post_bind", "permit", "pre_enqueue", "queue_sort", "placement_generate", "placement_score"),
)


def field_error_text(path: Path, problem: str, value: Any) -> str:
    """Returns one error of validation.

    Example:
        >>> field_error_text(("parallelism",), "must be positive", 0)
        'parallelism: Invalid value: 0: must be positive'
    """
    where = path_text(path)
    if problem == _REQUIRED[0]:
        return f"{where}: Required value"
    if problem in _REQUIRED:
        return f"{where}: Required value: {problem}"
    if problem in _FORBIDDEN:
        return f"{where}: Forbidden: {problem}"
    value_text = _value_text(path, value)
    if problem == "Duplicate value":
        # Upstream prints an internal object here.
        value_text = "{}" if path[-1:] == ("schedulerName",) else value_text
        return f"{where}: Duplicate value: {value_text}"
    if problem.startswith(_NOT_SUPPORTED):
        names = problem.removeprefix(_NOT_SUPPORTED).split(", ")
        listed = ", ".join(f'"{name}"' for name in names)
        return f"{where}: Unsupported value: {value_text}: supported values: {listed}"
    return f"{where}: Invalid value: {value_text}: {problem}"


def _value_text(path: Path, value: Any) -> str:
    if path and path[-1] in DURATION_FIELDS and isinstance(value, int | float):
        value = duration_text(value)
    if isinstance(value, msgspec.Struct | tuple | list):
        return msgspec.json.encode(value).decode()
    separators = (",", ":") if isinstance(value, dict) else None
    return json.dumps(value, ensure_ascii=False, separators=separators)


def validation_error_texts(error: FieldError, config: KubeSchedulerConfiguration) -> list[str]:
    """Returns upstream's errors for one of ours, of a whole configuration."""
    path, problem, value, _ = error
    if path == ("leaderElection", "leaseDuration") and problem.startswith("LeaseDuration"):
        # Upstream shows the other value.
        value, problem = (
            config.leader_election.renew_deadline_s,
            "must be greater than `RenewDeadline`",
        )
    if path[-1] == "queueSort":
        value = _queue_sort_value(config.profiles[int(path[1])])
    elif path[2:] == ("pluginConfig", "args"):
        return [f"{path_text(path)}: Invalid value: {_queue_sort_args(path, config)}: {problem}"]
    return field_error_texts(path, problem, value)


def _queue_sort_value(profile: Profile) -> dict[str, Any]:
    """Returns a set of plugins as upstream prints its struct."""
    plugins = profile.plugins.queue_sort
    return {
        name: [{"Name": entry.name, "Weight": entry.weight or 0} for entry in entries] or None
        for name, entries in (("Enabled", plugins.enabled), ("Disabled", plugins.disabled))
    }


def _queue_sort_args(path: Path, config: KubeSchedulerConfiguration) -> str:
    """Returns the arguments of a profile's QueueSort plugin, as JSON."""
    name = config.profiles[0].plugins.queue_sort.enabled[0].name
    return json.dumps(config.profiles[int(path[1])].args(name), separators=(",", ":"))


def field_error_texts(path: Path, problem: str, value: Any) -> list[str]:
    """Returns upstream's errors for one of ours: a name may break several rules at once."""
    if problem.startswith(("its name must", "its prefix must")):
        problems = qualified_name(str(value))
        if "matchExpressions" in path:
            problems = ("; ".join(problems),)
    elif problem.startswith("it must have at most"):
        problems = ("; ".join(label_value(str(value))),)
    else:
        problems = (problem,)
    return [field_error_text(path, text, value) for text in problems]


def profile_error_text(errors: list[FieldError], config: KubeSchedulerConfiguration) -> str | None:
    """Returns the error of building extenders, or the first profile with one; None = no error."""
    for error in errors:
        if error.path[0] == "extenders":
            return f"couldn't build extenders: {error.problem}"
    for number, profile in enumerate(config.profiles):
        own = [error for error in errors if error.path[:2] == ("profiles", number)]
        if own:
            return profile_prefix(profile) + _profile_problem(own)
    return None


def is_of_profile(error: FieldError, config: KubeSchedulerConfiguration) -> bool:
    """Returns whether upstream finds an error only when it builds a profile."""
    path, problem, _, _ = error
    if path[0] == "extenders" and "tlsConfig" in path:
        return True
    if "does not extend" in problem or "already registered as" in problem:
        return True
    if path[0] != "profiles" or len(path) < 5:
        return False
    if path[2:4] == ("plugins", "multiPoint"):
        return "was invalid in version" in problem
    profile = config.profiles[int(path[1])]
    return (
        args_of((*path, "")) is not None
        and profile.plugin_config[int(path[3])].name == "NodeResourcesFit"
    )


def profile_prefix(profile: Profile) -> str:
    """Returns the beginning of every error of building a profile."""
    return f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "


def unknown_plugin_text(name: str, config: KubeSchedulerConfiguration) -> str:
    """Returns the error of a plugin that does not exist."""
    for profile in config.profiles:
        for point in (*_POINTS, "multi_point"):
            if any(entry.name == name for entry in profile.plugins.at(point).enabled):
                # A plugin of multiPoint is missed at the first point.
                interface = upstream_name(_POINTS[0] if point == "multi_point" else point)
                return f'{profile_prefix(profile)}{interface} "{name}" does not exist'
    return f'initializing profiles: plugin "{name}" does not exist'


def _profile_problem(errors: list[FieldError]) -> str:
    texts = [
        text
        for path, problem, value, _ in errors
        if path[2] != "plugins"
        for text in field_error_texts(path[5:], problem, value)
    ]
    if texts:  # upstream makes the plugins before it puts them at their extension points
        return f'initializing plugin "NodeResourcesFit": {aggregate(texts)}'
    first = errors[0]
    if "was invalid in version" in first.problem:
        return f'{upstream_name(_POINTS[0])} "{first.value}" does not exist'
    return first.problem


def args_of(path: Path) -> Path | None:
    """Returns the path of the plugin's arguments that a path leads into; None = into none."""
    is_args = len(path) > 5 and path[0] == "profiles" and path[2:5:2] == ("pluginConfig", "args")
    return path[:5] if is_args else None
