"""The types of flags: how a text is parsed, and how a value is printed in the ``FLAG:`` lines.

Source: github.com/spf13/pflag; component-base's cli/flag and logs/api/v1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mooring.component import go_values as go
from mooring.component.go_values import GoError
from mooring.component.version import BINARY_VERSION, VERSION_TEXT
from mooring.config.durations import duration_text

_INT32_BITS: Final = 32
_INT_BITS: Final = 64
#: klog accepts 31 bits only.
_LEVEL_BITS: Final = 31

_NUMBER: Final = "(0|[1-9][0-9]*)"
_REPORTED_VERSION: Final = re.compile(
    rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)


class CertKey(NamedTuple):
    """A certificate and its key for some names; without names, those of the certificate."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


class VModule(NamedTuple):
    """A verbosity for the source files whose names match a pattern."""

    pattern: str
    verbosity: int


class Kind(NamedTuple):
    """A type of flags.

    Attributes:
        name: Shown in the usage text; "" for a boolean, which needs no value.
        parse: Gets the value so far (None if the flag was not given yet) and the text.
        text: Prints a value.
        without_value: The text that a flag without a value stands for; None = it needs one.
    """

    name: str
    parse: Callable[[Any, str], Any]
    text: Callable[[Any], str] = str
    without_value: str | None = None


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _parse_ip(_before: str | None, text: str) -> str:
    # An empty text keeps what was there.
    return go.parse_ip(text) if text else (_before or "0.0.0.0")  # noqa: S104


def _parse_strings(before: tuple[str, ...] | None, text: str) -> tuple[str, ...]:
    return (*(before or ()), *go.parse_csv(text))


def _parse_int32s(before: tuple[int, ...] | None, text: str) -> tuple[int, ...]:
    numbers = [go.parse_int(part, bits=_INT32_BITS) for part in text.split(",")]
    return (*(before or ()), *numbers)


def _int32s_text(value: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, value))}]"


def _strings_text(value: tuple[str, ...]) -> str:
    return f"[{go.csv_text(value)}]"


def _parse_map(before: Mapping[str, str] | None, text: str) -> dict[str, str]:
    count = text.count("=")
    if not count:
        raise GoError(f"{text} must be formatted as key=value")
    pairs = [text.strip('"')] if count == 1 else go.parse_csv(text)
    values = dict(before or {})
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise GoError(f"{pair} must be formatted as key=value")
        values[key] = value
    return values


def _map_text(value: Mapping[str, str]) -> str:
    return f"[{go.csv_text(f'{key}={value[key]}' for key in sorted(value))}]"


def _parse_cert_keys(before: tuple[CertKey, ...] | None, text: str) -> tuple[CertKey, ...]:
    pair, separator, names_text = (part.strip() for part in text.partition(":"))
    if separator and not names_text:
        raise GoError("empty names list is not allowed")
    files = pair.split(",")
    if len(files) != 2:
        raise GoError("expected comma separated certificate and key file paths")
    names = tuple(name.strip() for name in names_text.split(",")) if separator else ()
    return (*(before or ()), CertKey(files[0].strip(), files[1].strip(), names))


def _cert_keys_text(value: tuple[CertKey, ...]) -> str:
    return f"[{';'.join(map(str, value))}]"


def _parse_gates(
    before: Mapping[str, tuple[str, ...]] | None, text: str
) -> dict[str, tuple[str, ...]]:
    gates = dict(before or {})
    for pair in filter(None, text.split(",")):
        component, separator, gate = pair.partition(":")
        if not separator:
            component, gate = "", component
        component = component.strip()
        gates[component] = (*gates.get(component, ()), gate.strip())
    return gates


def _gates_text(value: Mapping[str, tuple[str, ...]]) -> str:
    return ",".join(
        f"{component}:{gate}" for component in sorted(value) for gate in value[component]
    )


def _parse_vmodule(before: tuple[VModule, ...] | None, text: str) -> tuple[VModule, ...]:
    items = list(before or ())
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if item.count("=") != 1 or not pattern or not level:
            raise GoError(f"{go.quote(item)} does not have the pattern=N format")
        try:
            items.append(VModule(pattern, go.parse_uint(level, bits=_LEVEL_BITS)))
        except GoError as error:
            raise GoError(f"parsing verbosity in {go.quote(item)}: {error}") from None
    return tuple(items)


def _vmodule_text(value: tuple[VModule, ...]) -> str:
    return ",".join(f"{item.pattern}={item.verbosity}" for item in value)


def _parse_version(_before: str | None, text: str) -> str:
    if text == "raw":
        return "raw"
    if text.startswith("v"):
        match = _REPORTED_VERSION.fullmatch(text)
        if match is None:
            raise GoError(_bad_version(text))
        if ".".join(match.groups()) != BINARY_VERSION:
            raise GoError(
                f"version {go.quote(text)} must match major/minor/patch of default version "
                f"{go.quote(VERSION_TEXT)}"
            )
        return text
    return _bool_text(go.parse_bool(text))


def _bad_version(text: str) -> str:
    numbers = re.match(r"v([0-9]+(?:\.[0-9]+)*)", text)
    if numbers is None:
        return f"could not parse {go.quote(text)} as version"
    parts = numbers[1].split(".")
    padded = next((part for part in parts if part.startswith("0") and part != "0"), None)
    if len(parts) == 3 and padded is not None:
        return f"illegal zero-prefixed version component {go.quote(padded)} in {go.quote(text)}"
    return f"illegal version string {go.quote(text)}"


BOOL: Final = Kind("", lambda _, text: go.parse_bool(text), _bool_text, "true")
STRING: Final = Kind("string", lambda _, text: text)
INT: Final = Kind("int", lambda _, text: go.parse_int(text, bits=_INT_BITS))
INT32: Final = Kind("int32", lambda _, text: go.parse_int(text, bits=_INT32_BITS))
FLOAT32: Final = Kind("float32", lambda _, text: go.parse_float32(text), go.float32_text)
DURATION: Final = Kind("duration", lambda _, text: go.parse_duration_s(text), duration_text)
IP: Final = Kind("ip", _parse_ip)
STRINGS: Final = Kind("strings", _parse_strings, _strings_text)
INT32S: Final = Kind("int32Slice", _parse_int32s, _int32s_text)
MAP: Final = Kind("stringToString", _parse_map, _map_text)
CERT_KEYS: Final = Kind("namedCertKey", _parse_cert_keys, _cert_keys_text)
GATES: Final = Kind("colonSeparatedMultimapStringString", _parse_gates, _gates_text)
VMODULE: Final = Kind("pattern=N,...", _parse_vmodule, _vmodule_text)
LEVEL: Final = Kind("Level", lambda _, text: go.parse_uint(text, bits=_LEVEL_BITS))
QUANTITY: Final = Kind("quantity", lambda _, text: go.parse_quantity(text))
VERSION: Final = Kind("version[=true]", _parse_version, without_value="true")
#: mooring's own: one value for each time the flag is given.
EACH: Final = Kind("string", lambda before, text: (*(before or ()), text), _strings_text)


def one_of(*values: str) -> Kind:
    """Returns the type of a flag with a fixed set of values."""

    def parse(_before: str | None, text: str) -> str:
        if text.lower() not in values:
            listed = ", ".join(map(repr, values))
            raise GoError(f"must be one of {listed}")
        return text.lower()

    return Kind("string", parse)
