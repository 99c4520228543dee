"""From a file or a plain value to a complete, checked configuration.

::

    text ──documents──▶ value ──strict──▶ structs ──defaults──▶ complete ──validation──▶ result
                        (unknown fields, types)              (what the fields may say)

Faults of one stage are reported together; the next stage is entered only without any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from mooring.config import strict
from mooring.config.defaults import with_defaults
from mooring.config.field_errors import FieldError
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.types import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
)
from mooring.config.validation.configuration import check
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import (
    Path,
    json_document,
    lines_of,
    path_text,
    yaml_documents,
)
from mooring.objects.files.limits import ALIASED_VALUES_MAX, CONFIG_BYTES_MAX
from mooring.objects.files.paths import read_bytes, shown_name

_GROUP = API_VERSION.partition("/")[0]
#: Where the kind lived before it had a group of its own.
_FIRST_GROUP = "componentconfig"

#: Feature gates whose value is not the default: none.
DEFAULT_GATES: Final[Mapping[str, bool]] = MappingProxyType({})


class Decoded(NamedTuple):
    """A configuration before validation: as the file has it, and complete."""

    written: KubeSchedulerConfiguration
    complete: KubeSchedulerConfiguration


def load(path: str | os.PathLike[str]) -> KubeSchedulerConfiguration:
    """Returns the configuration in a YAML or JSON file, complete with its defaults.

    Raises:
        ConfigFaults: The file says something that a scheduler cannot run with; it holds every fault
            that was found, with file, line and path.
        ConfigError: The file cannot be read, or is not one YAML or JSON document.
    """
    name = os.fspath(path)
    data = read_bytes(name, bytes_max=CONFIG_BYTES_MAX)
    return loads(data, file=shown_name(name))


def loads(data: bytes | str, *, file: str | None = None) -> KubeSchedulerConfiguration:
    """Reads a configuration from text; ``file`` is its name for errors. Raises as ``load``."""
    try:
        value = only_document(data, kind=KIND)
    except ConfigError as error:
        raise error.located(file=file) from None
    result = build(value)
    if isinstance(result, KubeSchedulerConfiguration):
        return result
    raise ConfigErrors(located_errors(result, data, file))


def from_document(value: Any) -> KubeSchedulerConfiguration:
    """Returns the configuration in a plain value, as recordings carry it; None is all defaults.

    Raises:
        ConfigFaults: As ``load`` does, but without file and line.
    """
    result = build({"apiVersion": API_VERSION, "kind": KIND} if value is None else value)
    if isinstance(result, KubeSchedulerConfiguration):
        return result
    raise ConfigErrors(located_errors(result, None, None))


def default_configuration() -> KubeSchedulerConfiguration:
    """Returns the configuration of a scheduler without a configuration file."""
    return with_defaults(KubeSchedulerConfiguration())


def only_document(data: bytes | str, *, kind: str) -> Any:
    """Returns the single document of a text, YAML or JSON; ``kind`` names it in errors.

    Raises:
        ConfigError: The text is neither, or does not hold exactly one document.
    """
    text = data if isinstance(data, bytes) else data.encode()
    if text.lstrip().startswith(b"{"):
        try:
            return json_document(text).value
        except ConfigError:
            pass  # flow style is YAML, and its errors say more
    documents = list(yaml_documents(text, aliased_max=ALIASED_VALUES_MAX))
    if not documents:
        raise ConfigError(f"is empty; it must hold a {kind}")
    if len(documents) > 1:
        number = documents[1].number
        raise ConfigError("must hold one document only", document=number, line=1)
    return documents[0].value


def build(value: Any) -> KubeSchedulerConfiguration | list[FieldError]:
    """Returns the complete configuration of a plain value, or the errors of the value."""
    decoded = decode(value)
    if not isinstance(decoded, Decoded):
        return decoded
    return check(decoded.complete, written=decoded.written) or decoded.complete


def decode(value: Any, *, gates: Mapping[str, bool] = DEFAULT_GATES) -> Decoded | list[FieldError]:
    """Returns the configuration of a plain value before validation, or unknown fields and types.

    Args:
        value: The document.
        gates: The feature gates whose value is not the default of v1.36.
    """
    errors = _type_errors(value)
    if errors:
        return errors
    plain = strict.checked(value, KubeSchedulerConfiguration, (), errors)
    _check_plugin_args(plain, errors)
    if errors:
        return errors
    built: KubeSchedulerConfiguration = strict.build(plain, KubeSchedulerConfiguration)
    written = _with_typed_args(built)
    return Decoded(written, with_defaults(written, gates=gates))


def _type_errors(value: Any) -> list[FieldError]:
    """Returns whether this is a KubeSchedulerConfiguration at all, of the version that we speak."""
    if not isinstance(value, dict):
        return [FieldError((), f"must be a {KIND}: a mapping", value)]
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind == "Policy":
        problem = "a Policy is not supported: convert it with `mooring config convert`"
        return [FieldError(("kind",), problem, kind)]
    if kind == "ConfigMap":
        keys = ", ".join(f"data.{key}" for key in value.get("data") or ()) or "none"
        problem = f"must be {KIND}: write the text in {keys} to a file of its own"
        return [FieldError(("kind",), problem, kind)]
    errors = []
    if kind != KIND:
        errors.append(FieldError(("kind",), f"must be {KIND}", kind, _nearest_kind(kind)))
    if version == API_VERSION:
        return errors
    problem = f"must be {API_VERSION}"
    if isinstance(version, str) and version.startswith((_GROUP + "/", _FIRST_GROUP + "/")):
        problem += "; change the apiVersion and run again: removed fields will be listed"
    return [*errors, FieldError(("apiVersion",), problem, version)]


def _nearest_kind(kind: Any) -> str | None:
    return KIND if isinstance(kind, str) and kind.lower() == KIND.lower() else None


def _check_plugin_args(plain: Any, errors: list[FieldError]) -> None:
    """Checks the arguments of our own plugins, in place: they have types of their own."""
    for i, profile in enumerate(plain.get("profiles", ())):
        for j, entry in enumerate(profile.get("pluginConfig", ())):
            name = entry.get("name", "")
            # The error of a name of another type is in ``errors`` already.
            struct = ARGS_TYPES.get(name) if isinstance(name, str) else None
            if struct is None:
                continue
            path: Path = ("profiles", i, "pluginConfig", j, "args")
            args = {} if entry.get("args") is None else entry["args"]
            if isinstance(args, dict):
                args = _without_type(args, name + "Args", path, errors)
            entry["args"] = strict.checked(args, struct, path, errors)


def _without_type(
    args: dict[str, Any], kind: str, path: Path, errors: list[FieldError]
) -> dict[str, Any]:
    """Arguments may say what they are, but then it must be true."""
    for key, expected in (("apiVersion", API_VERSION), ("kind", kind)):
        if args.get(key) not in (None, "", expected):
            errors.append(FieldError((*path, key), f"must be {expected}", args[key]))
    return {key: item for key, item in args.items() if key not in ("apiVersion", "kind")}


def _with_typed_args(written: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the arguments of our own plugins as structs."""
    replace = msgspec.structs.replace
    profiles = []
    for profile in written.profiles:
        entries = tuple(
            replace(entry, args=strict.build(entry.args, ARGS_TYPES[entry.name]))
            if entry.name in ARGS_TYPES
            else entry
            for entry in profile.plugin_config
        )
        profiles.append(replace(profile, plugin_config=entries))
    return replace(written, profiles=tuple(profiles))


def located_errors(
    errors: Sequence[FieldError], data: bytes | str | None, file: str | None
) -> list[ConfigError]:
    """Returns errors with their file, and their lines in ``data``, which is read once more."""
    places = [(1, error.path) for error in errors]
    lines = [None] * len(errors) if data is None else lines_of(data, places)
    return [
        ConfigError(
            error.problem,
            file=file,
            line=line,
            path=path_text(error.path) or None,
            value=error.value,
            suggestion=error.suggestion,
        )
        for error, line in zip(errors, lines, strict=True)
    ]
