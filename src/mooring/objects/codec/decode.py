"""Decodes JSON to structs, and encodes structs.

The fast path decodes a whole object, or a whole list, in one typed pass. If that fails, the
objects are decoded one by one, as Go does (null is the same as absent), and errors are counted and
reported: one malformed object never loses a list.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import GenericAlias
from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.nulls import without_nulls
from mooring.objects.codec.quantity_check import first_bad_quantity
from mooring.objects.generic import decode_generic, encode_generic
from mooring.objects.kinds import Kind, kind_named

#: Errors of a list that are reported: enough to see a pattern, not enough to fill a log.
ERRORS_MAX: Final = 8

_AT = re.compile(r"(?P<problem>.*?) - at `(?:key in )?\$(?P<path>.*)`", re.DOTALL)
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>[0-9]+|\.\.\.)\]")
_WORDS: Final = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "true or false",
    "object": "a mapping", "array": "a list", "null": "nothing",
}  # fmt: skip


class DecodedList(msgspec.Struct, frozen=True):
    """The objects of a list response.

    Attributes:
        items: The decoded objects, in the order of the list.
        resource_version: The resourceVersion of the list, from which to watch.
        continue_: The token for the next page, "" on the last one.
        malformed: The number of objects that could not be decoded; ``items`` omits them.
        errors: The errors of the first of them.
        rejected: The JSON texts of all objects that could not be decoded.
    """

    items: tuple[Any, ...] = ()
    resource_version: str = ""
    continue_: str = ""
    malformed: int = 0
    errors: tuple[ConfigError, ...] = ()
    rejected: tuple[bytes, ...] = ()


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMeta | None = None
    items: tuple[msgspec.Raw, ...] | None = None


def decode(data: bytes, kind: Kind | str) -> Any:
    """Returns the object of a JSON text.

    Args:
        data: One object as JSON.
        kind: The expected kind, or its name.

    Raises:
        ConfigError: It is not JSON, not of this kind, or has an invalid field; with the path and
        the value.

    Example:
        >>> pod = decode(b'{"kind": "Pod", "metadata": {"name": "web-0", "labels": null}}', "Pod")
        >>> pod.metadata.name, pod.metadata.labels
        ('web-0', {})
    """
    expected = _kind(kind)
    try:
        obj = _decoder(expected).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return convert(_parsed(data), expected)
    return _validated(obj, expected)


def decode_list(data: bytes, kind: Kind | str) -> DecodedList:
    """Returns the objects of a list response; malformed ones are counted and omitted.

    Raises:
        ConfigError: The response as a whole is not a JSON list of objects.
    """
    expected = _kind(kind)
    try:
        whole = _list_decoder(expected).decode(data)
        items = whole.items or ()
        for item in items:
            _validated(item, expected)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ConfigError):
        return _decode_one_by_one(data, expected)
    return _decoded(items, whole.metadata)


def convert(raw: Any, kind: Kind | str) -> Any:
    """Returns the object of parsed JSON or YAML; ``raw`` is not changed.

    Raises:
        ConfigError: It is not of this kind, or has an invalid field; with the path and the value.
    """
    expected = _kind(kind)
    if not isinstance(raw, dict):
        raise ConfigError(f"must be a mapping that describes a {expected.name}", value=raw)
    try:
        obj = msgspec.convert(raw, expected.struct, dec_hook=decode_generic)
    except (msgspec.ValidationError, RecursionError):
        obj = _convert_leniently(raw, expected)
    return _validated(obj, expected)


def encode(obj: Any) -> bytes:
    """Returns the JSON text of an object; fields with their default are omitted."""
    return _ENCODER.encode(obj)


def to_builtins(obj: Any) -> Any:
    """Returns the object as dicts and lists, as ``encode`` would write it."""
    return msgspec.to_builtins(obj, enc_hook=encode_generic)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=encode_generic)


def _convert_leniently(raw: dict[str, Any], kind: Kind) -> Any:
    if kind.is_generic:
        raise ConfigError("must be an object with metadata", value=raw.get("metadata"))
    try:
        cleaned = without_nulls(raw, kind.struct)
        return msgspec.convert(cleaned, kind.struct)
    except msgspec.ValidationError as error:
        raise _located(cleaned, kind, error) from None
    except RecursionError:
        raise ConfigError("is nested too deeply") from None


def _decode_one_by_one(data: bytes, kind: Kind) -> DecodedList:
    whole = _parsed(data, _RawList)
    items: list[Any] = []
    errors: list[ConfigError] = []
    rejected: list[bytes] = []
    for index, raw in enumerate(whole.items or ()):
        try:
            items.append(decode(bytes(raw), kind))
        except ConfigError as error:
            rejected.append(bytes(raw))
            if len(errors) < ERRORS_MAX:
                errors.append(_moved(error, f"items[{index}]"))
    return _decoded(tuple(items), whole.metadata, tuple(errors), tuple(rejected))


def _decoded(
    items: tuple[Any, ...],
    metadata: _ListMeta | None,
    errors: tuple[ConfigError, ...] = (),
    rejected: tuple[bytes, ...] = (),
) -> DecodedList:
    list_metadata = metadata or _ListMeta()
    version, token = list_metadata.resource_version or "", list_metadata.continue_ or ""
    return DecodedList(items, version, token, len(rejected), errors, rejected)


def _kind(kind: Kind | str) -> Kind:
    return kind if isinstance(kind, Kind) else kind_named(kind)


@lru_cache(maxsize=64)
def _decoder(kind: Kind) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind.struct, dec_hook=decode_generic)


@lru_cache(maxsize=64)
def _list_decoder(kind: Kind) -> msgspec.json.Decoder[Any]:
    items: Any = GenericAlias(tuple, (kind.struct, ...))
    shape = msgspec.defstruct(
        f"{kind.name}List",
        [("metadata", _ListMeta | None, None), ("items", items | None, None)],
    )
    return msgspec.json.Decoder(shape, dec_hook=decode_generic)


def _validated(obj: Any, kind: Kind) -> Any:
    """Returns the object after validating its kind, name and quantities."""
    if obj.kind != kind.name and not kind.is_generic:
        raise ConfigError(f"must be {kind.name}", path="kind", value=obj.kind)
    if obj.api_version != kind.api_version:
        raise ConfigError(f"must be {kind.api_version}", path="apiVersion", value=obj.api_version)
    if not obj.metadata.name:
        raise ConfigError("must not be empty", path="metadata.name", value=obj.metadata.name)
    bad = first_bad_quantity(obj)
    if bad is not None:
        raise ConfigError(bad.problem, path=bad.path, value=bad.value)
    return obj


def _parsed(data: bytes, shape: Any = Any) -> Any:
    """Returns the parsed JSON; text that only Go accepts is sanitized first."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = _sanitized_utf8(data)
    except RecursionError:
        raise ConfigError("is nested too deeply") from None
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        raise ConfigError(reworded(str(error))) from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"is not JSON: {error}") from None


def _sanitized_utf8(data: bytes) -> bytes:
    """Replaces invalid UTF-8 and lone surrogates with U+FFFD, as Go does."""
    text = data.decode("utf-8", "replace")
    return _ESCAPES.sub(lambda match: r"\ufffd" if match["half"] else match[0], text).encode()


def _moved(error: ConfigError, prefix: str) -> ConfigError:
    """Returns the error with the path of the object in its list."""
    path = f"{prefix}.{error.path}" if error.path else prefix
    return ConfigError(error.problem, path=path, value=error.value, suggestion=error.suggestion)


def _located(raw: Any, kind: Kind, error: msgspec.ValidationError) -> ConfigError:
    """Returns the decoder's error with the full path and its value."""
    match = _AT.fullmatch(str(error))
    problem, path = (match["problem"], match["path"]) if match else (str(error), "")
    steps = [step["field"] or step["index"] for step in _STEP.finditer(path)]
    path_string, value = _resolved(raw, kind, str(error), steps)
    return ConfigError(reworded(problem), path=path_string or None, value=value)


def _resolved(raw: Any, kind: Kind, error_text: str, steps: list[str]) -> tuple[str, Any]:
    """Returns the path as text, and its value.

    The decoder writes ``[...]`` for "some key of this mapping": the key is determined by trying.
    """
    resolved, value = "", raw
    for step in steps:
        if isinstance(value, list):
            resolved, value = f"{resolved}[{step}]", value[int(step)]
            continue
        if not isinstance(value, dict):
            break
        name = step if step in value else _offending_key(raw, value, kind, error_text)
        resolved, value = f"{resolved}.{name}" if resolved else name, value.get(name)
    return resolved, value


def _offending_key(raw: Any, mapping: dict[str, Any], kind: Kind, error_text: str) -> str:
    """Returns the first key of ``mapping``, a part of ``raw``, that alone causes the error."""
    entries = dict(mapping)
    key = "[...]"
    for name, value in entries.items():
        mapping.clear()
        mapping[name] = value
        if _conversion_error(raw, kind) == error_text:
            key = name
            break
    mapping.clear()
    mapping.update(entries)
    return key


def _conversion_error(raw: Any, kind: Kind) -> str:
    try:
        msgspec.convert(raw, kind.struct)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def reworded(problem: str) -> str:
    """Returns a problem of msgspec in plain words: "must be a string"."""
    if "matching regex" in problem:
        return "is not a quantity"
    if limit := re.fullmatch(r"Expected `int` (?P<sign><=|>=) (?P<bound>-?[0-9]+)", problem):
        return f"must be at {'most' if limit['sign'] == '<=' else 'least'} {limit['bound']}"
    words = re.fullmatch(r"Expected `(?P<wanted>[^`]*)`(?:, got `(?P<found>[^`]*)`)?", problem)
    if words is None:
        # "JSON is malformed" keeps its capitals.
        return problem[:1].lower() + problem[1:] if problem[1:2].islower() else problem
    expected = [_WORDS.get(word.strip(), word.strip()) for word in words["wanted"].split("|")]
    return f"must be {' or '.join(dict.fromkeys(expected))}"
