"""Named formats: ``format.dns1123Label().validate(text)``.

Source: apiserver v0.36.3, pkg/cel/library/format.go; apimachinery v0.36.3,
pkg/util/validation and pkg/api/validate/content; kube-openapi, pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.golang.urls import URLProblem, parse_request_uri
from mooring.cel.times import parse_timestamp
from mooring.cel.types import NAMED_FORMAT, STRING
from mooring.cel.values import NO_OVERLOAD, NONE, ErrorValue, Optional, Value

if TYPE_CHECKING:
    from collections.abc import Callable

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DATETIME: Final = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_UUID: Final = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_KEY_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)


class NamedFormat:
    """A format of texts.

    Attributes:
        name: Upstream's name of the format.
        problems: Returns what is wrong with a text.
        regex_size: Length of the longest regular expression behind it, for the cost.
    """

    __slots__ = ("name", "problems", "regex_size")
    cel_type = NAMED_FORMAT

    def __init__(self, name: str, problems: Callable[[str], list[str]], regex_size: int) -> None:
        self.name = name
        self.problems = problems
        self.regex_size = regex_size

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether formats have the same name; other types are refused."""
        return self.name == other.name if isinstance(other, NamedFormat) else NO_OVERLOAD

    def __str__(self) -> str:
        return self.name


def _too_long(text: str, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


def _regex_problem(message: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _dns_label(text: str) -> list[str]:
    problems = _too_long(text, 63, "characters")
    if _is_label(text):
        return problems
    if _is_subdomain(text):
        return [*problems, "must not contain dots"]
    message = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*problems, _regex_problem(message, _LABEL, "my-name", "123-abc")]


def _is_label(text: str) -> bool:
    return _matches("[a-z0-9](?:[-a-z0-9]*+(?<!-))?", text)


def _is_subdomain(text: str) -> bool:
    return all(_is_label(part) for part in text.split("."))


def _dns_subdomain(text: str, unit: str = "characters") -> list[str]:
    problems = _too_long(text, 253, unit)
    if _is_subdomain(text):
        return problems
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character"
    )
    return [*problems, _regex_problem(message, _SUBDOMAIN, "example.com")]


def _dns_1035_label(text: str) -> list[str]:
    problems = _too_long(text, 63, "characters")
    if _is_label(text) and text[0].isalpha():
        return problems
    message = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character"
    )
    return [*problems, _regex_problem(message, _LABEL_1035, "my-name", "abc-123")]


def _of_prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Returns the check of a prefix: it may end in a dash."""

    def check(text: str) -> list[str]:
        is_dashed = len(text) > 1 and text.endswith("-")
        return problems(text[:-2] + "a" if is_dashed else text)

    return check


def _is_key(text: str) -> bool:
    return _matches("(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*+(?<![-_.]))?)", text)


def _qualified_name(text: str) -> list[str]:
    shape = _regex_problem(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {shape} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if len(parts) == 2 and not parts[0]:
        problems.append("prefix part must be non-empty")
    elif len(parts) == 2:
        problems += [f"prefix part {problem}" for problem in _dns_subdomain(parts[0], "bytes")]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _too_long(name, 63, "bytes")]
    if not _is_key(name):
        problems.append(f"name part {shape}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63, "bytes")
    if not text or _is_key(text):
        return problems
    message = f"a valid label must be an empty string or {_KEY_WORDS.removeprefix('must ')}"
    return [
        *problems,
        _regex_problem(message, f"({_KEY})?", "MyValue", "my_value", "12345"),
    ]


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except URLProblem as problem:
        return [str(problem)]
    return []


def _uuid(text: str) -> list[str]:
    is_uuid = _matches("[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", text)
    return [] if is_uuid else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    # Go's decoder skips line ends.
    cleaned = text.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(cleaned, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _is_date(text: str) -> bool:
    has_shape = _matches("[0-9]{4}-[0-9]{2}-[0-9]{2}", text)
    return has_shape and parse_timestamp(f"{text}T00:00:00Z") is not None


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    if len(text.encode()) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return ["invalid datetime"]
    match = re.fullmatch(
        r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})",
        parts[1],
        re.ASCII,
    )
    is_valid = match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"
    return [] if is_valid else ["invalid datetime"]


_LABEL_FORMAT: Final = NamedFormat("DNS1123Label", _dns_label, 30)
FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": _LABEL_FORMAT,
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _dns_1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _of_prefix(_dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _of_prefix(_dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _of_prefix(_dns_1035_label), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, len(_UUID)),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, len(_DATETIME)),
    "datetime": NamedFormat("datetime", _datetime, len(_DATETIME)),
}


def _named(name: str) -> Optional:
    entry = FORMATS.get(name)
    return NONE if entry is None else Optional(entry)


def _validate(entry: NamedFormat, text: str) -> Optional:
    problems = entry.problems(text)
    return Optional(list(problems)) if problems else NONE


def _constant(entry: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: entry


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    **{
        f"format.{name}": [function(f"format.{name}", (), NAMED_FORMAT, _constant(entry))]
        for name, entry in FORMATS.items()
    },
    "validate": [
        method(
            "format-validate",
            (NAMED_FORMAT, STRING),
            types.optional_of(types.list_of(STRING)),
            _validate,
        )
    ],
    "format.named": [function("format-named", (STRING,), types.optional_of(NAMED_FORMAT), _named)],
}
