"""Errors of a configuration in kube-scheduler's words: what ``mooring run`` logs as its last line.

``load`` reports every error with its line, and suggests what was meant; programs that read the log
of kube-scheduler expect its text instead.

Source: apimachinery's runtime/serializer (strict decoding), util/validation/field (Error).
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import inspect

from mooring.apiserver.names import label_value, qualified_name
from mooring.component.go_values import GoError, aggregate, parse_duration_s
from mooring.config.durations import duration_text
from mooring.config.field_errors import FieldError
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.plugin_sets import upstream_name
from mooring.config.types import API_VERSION, DURATION, KIND, KubeSchedulerConfiguration, Profile
from mooring.errors import ConfigError
from mooring.objects.files.documents import Path, path_text

#: Our struct -> upstream's name, where they differ.
_STRUCT_NAMES: Final = {
    "Profile": "KubeSchedulerProfile",
    "LeaderElection": "LeaderElectionConfiguration",
    "ClientConnection": "ClientConnectionConfiguration",
    "PluginEntry": "Plugin",
}
#: Fields that upstream's struct has from another one, whose name its errors show.
_EMBEDDED: Final = frozenset({"enableProfiling", "enableContentionProfiling"})
_JSON_NAMES: Final[dict[type[Any], str]] = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_DURATION_FIELDS: Final = frozenset(
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
    if path and path[-1] in _DURATION_FIELDS and isinstance(value, int | float):
        value = duration_text(value)
    if isinstance(value, msgspec.Struct | tuple | list):
        return msgspec.json.encode(value).decode()
    return json.dumps(value, ensure_ascii=False)


def validation_error_texts(error: FieldError, config: KubeSchedulerConfiguration) -> list[str]:
    """Returns upstream's errors for one of ours, of a whole configuration."""
    path, problem, value, _ = error
    if path == ("leaderElection", "leaseDuration") and problem.startswith("LeaseDuration"):
        # Upstream shows the other value.
        value, problem = (
            config.leader_election.renew_deadline_s,
            "must be greater than `RenewDeadline`",
        )
    return field_error_texts(path, problem, value)


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


def decoding_error_text(
    problem: ConfigError | list[FieldError], text: bytes, document: Any = None
) -> str:
    """Returns the error of a file that is no configuration, in upstream's words if there are any.

    Args:
        problem: Of the text, or of its fields.
        text: The file.
        document: The value in the text, if it could be parsed.
    """
    if isinstance(problem, ConfigError):
        return _text_error(problem, text)
    if document is not None and not isinstance(document, dict):
        kind_text = _JSON_NAMES.get(type(document), "null")
        return (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind_text} into "
            'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind '
            'string "json:\\"kind,omitempty\\"" }'
        )
    if isinstance(document, dict):
        for key, name in (("apiVersion", "apiVersion"), ("kind", "Kind")):
            if not document.get(key):
                return f"Object '{name}' is missing in '{text.decode(errors='replace')}'"
        kind, version = document["kind"], document["apiVersion"]
        if (kind, version) != (KIND, API_VERSION):
            return (
                f'no kind "{kind}" is registered for version "{version}" in scheme '
                '"pkg/runtime/scheme.go:111"'
            )
    wrong = [
        error for error in problem if not error.problem.startswith(("unknown field", "is required"))
    ]
    unknown = [error.path for error in problem if error.problem.startswith("unknown field")]
    if not wrong and unknown:
        return unknown_fields_text(unknown, document)
    if not wrong:
        return field_error_text(problem[0].path, problem[0].problem, problem[0].value)
    first = wrong[0]
    if isinstance(first.value, str) and first.path[-1] in _DURATION_FIELDS:
        try:
            parse_duration_s(first.value)
        except GoError as error:
            return str(error)
    return wrong_type_text(first.path, first.value, document) or str(first.problem)


def _text_error(error: ConfigError, text: bytes) -> str:
    if not text.strip():
        return "Object 'Kind' is missing in ''"
    if error.problem == "duplicate key" and error.path:
        key = error.path.rpartition(".")[2]
        return (
            "strict decoding error: yaml: unmarshal errors:\n"
            f'  line {error.line}: key "{key}" already set in map'
        )
    if error.problem.startswith("is not YAML: "):
        where = f"line {error.line}: " if error.line else ""
        problem = error.problem.removeprefix("is not YAML: ").partition(" while ")[0]
        return f"yaml: {where}{problem}"
    return error.problem


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
        _args_of((*path, "")) is not None
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
    for path, problem, value, _ in errors:
        if path[2] == "plugins":
            removed = "was invalid in version" in problem
            first = upstream_name(_POINTS[0])
            return f'{first} "{value}" does not exist' if removed else problem
    texts = [
        text
        for path, problem, value, _ in errors
        for text in field_error_texts(path[5:], problem, value)
    ]
    return f'initializing plugin "NodeResourcesFit": {aggregate(texts)}'


def unknown_fields_text(paths: list[Path], document: Any) -> str:
    """Returns the error of fields that do not exist; ``paths`` are those of a whole file."""
    in_args = [path for path in paths if _args_of(path) is not None]
    plain = sorted(path_text(path) for path in paths if path not in in_args)
    texts = [f'unknown field "{text}"' for text in plain]
    texts += [
        f"decoding .{path_text(path[:4])}: strict decoding error: decoding args for plugin "
        f"{_plugin_at(path, document)}: strict decoding error: unknown field "
        f'"{path_text(path[5:])}"'
        for path in in_args
    ]
    return "strict decoding error: " + ", ".join(texts)


def _plugin_at(path: Path, document: Any) -> str:
    return str(document["profiles"][path[1]]["pluginConfig"][path[3]]["name"])


def _args_of(path: Path) -> Path | None:
    is_args = len(path) > 5 and path[0] == "profiles" and path[2:5:2] == ("pluginConfig", "args")
    return path[:5] if is_args else None


def wrong_type_text(path: Path, value: Any, document: Any) -> str | None:
    """Returns the error of a value of the wrong type; None if there is no such text."""
    struct: type[Any] = KubeSchedulerConfiguration
    names = [str(step) for step in path if isinstance(step, str)]
    rest = path
    if _args_of(path) is not None:
        plugin = _plugin_at(path, document)
        struct, rest = ARGS_TYPES[plugin], path[5:]
        names = [str(step) for step in rest if isinstance(step, str)]
    field = _field_at(struct, rest)
    if field is None:
        return None
    holder, go_type = field
    if len(path) == 1 and path[0] in _EMBEDDED:
        names = ["DebuggingConfiguration", *names]
    kind = _JSON_NAMES.get(type(value), "null")
    if kind == "number" and isinstance(value, float) and go_type.startswith("int"):
        kind = f"number {value:g}"
    elif kind == "number" and go_type.startswith("int"):
        kind = f"number {value}"  # it does not fit
    text = (
        f"json: cannot unmarshal {kind} into Go struct field {holder}.{'.'.join(names)} of type "
        f"{go_type}"
    )
    if rest is not path:
        return f"decoding .{path_text(path[:4])}: decoding args for plugin {plugin}: {text}"
    return text


def _field_at(struct: type[Any], path: Path) -> tuple[str, str] | None:
    """Returns upstream's name of the struct that holds a field, and of the field's type."""
    current: inspect.Type = inspect.type_info(struct)
    holder = _struct_name(current)
    for step in path:
        current = _inner(current)[0]
        if isinstance(step, int):
            if not isinstance(current, inspect.VarTupleType):
                return None
            current = current.item_type
        else:
            if not isinstance(current, inspect.StructType):
                return None
            holder = _struct_name(current)
            field = next((item for item in current.fields if item.encode_name == step), None)
            if field is None:
                return None
            current = field.type
    return holder, _go_type(current)


def _inner(described: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    extra: dict[str, Any] = {}
    if isinstance(described, inspect.Metadata):
        extra, described = described.extra or {}, described.type
    if isinstance(described, inspect.UnionType):
        inner = next(kind for kind in described.types if not isinstance(kind, inspect.NoneType))
        return _inner(inner)
    return described, extra


def _struct_name(described: inspect.Type) -> str:
    name = described.cls.__name__ if isinstance(described, inspect.StructType) else KIND
    return _STRUCT_NAMES.get(name, name)


def _go_type(described: inspect.Type) -> str:
    inner, extra = _inner(described)
    if extra.get(DURATION):
        return "string"
    match inner:
        case inspect.IntType(le=limit):
            return "int64" if limit is None or limit > 2**31 else "int32"
        case inspect.FloatType():
            return "float32"
        case inspect.BoolType():
            return "bool"
        case inspect.VarTupleType(item_type=item):
            return f"[]{_go_type(item)}"
        case inspect.StructType():
            return f"v1.{_struct_name(inner)}"
    return "string"
