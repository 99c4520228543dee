"""Chooses the media type of a response from the client's Accept header.

Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation, github.com/munnerz/goautoneg.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.cel.golang.text import parse_float

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
PLAIN: Final = "text/plain"

#: What the Status of a 401 or 403 can be written in, in order of preference.
API_MEDIA_TYPES: Final = (JSON, YAML, PROTOBUF)

#: A header with more alternatives is cut.
CLAUSES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen media type, and the parameters of the alternative that chose it."""

    media_type: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of an Accept header, ``major/minor``."""

    major: str
    minor: str
    quality: float
    parameters: Mapping[str, str]

    def accepts(self, media_type: str) -> bool:
        """Returns whether the alternative, maybe with ``*``, names this media type."""
        major, _, minor = media_type.partition("/")
        if self.major == "*":
            return self.minor == "*"
        return self.major == major and self.minor in (minor, "*")


def choose(
    header: str,
    media_types: Sequence[str],
    is_allowed: Callable[[str, Mapping[str, str]], bool],
) -> Choice | None:
    """Returns the first media type that the client accepts; None if there is none.

    Args:
        header: The Accept header; "" = everything.
        media_types: In order of preference.
        is_allowed: Returns whether a media type can have these parameters.

    Example:
        >>> choose("application/xml, text/*", [JSON, PLAIN], lambda *_: True).media_type
        'text/plain'
    """
    if not header:
        return Choice(media_types[0], {})
    for clause in accept_clauses(header):
        for media_type in media_types:
            if clause.accepts(media_type) and is_allowed(media_type, clause.parameters):
                return Choice(media_type, clause.parameters)
    return None


def accept_clauses(header: str) -> list[Clause]:
    """Returns the alternatives, the preferred ones first.

    The comparison is goautoneg's. It is no order (of two alternatives, each may come before the
    other), so the result also depends on the algorithm: an insertion sort, as Go's is for up to 12.
    """
    clauses: list[Clause] = []
    for part in header.split(",")[:CLAUSES_MAX]:
        clause = _clause(part)
        if clause is None:
            continue
        clauses.append(clause)
        index = len(clauses) - 1
        while index > 0 and _is_before(clauses[index], clauses[index - 1]):
            clauses[index - 1 : index + 1] = [clauses[index], clauses[index - 1]]
            index -= 1
    return clauses


def _is_before(clause: Clause, other: Clause) -> bool:
    return (
        clause.quality > other.quality
        or (clause.major != "*" and other.major == "*")
        or (clause.minor != "*" and other.minor == "*")
    )


def _clause(part: str) -> Clause | None:
    """Returns one alternative; None if it is not a media type."""
    media_type, *fields = part.split(";")
    major, *rest = (piece.strip(" ") for piece in media_type.split("/"))
    minor = rest[0] if len(rest) == 1 else ""
    if not any(rest) and major == "*":
        minor = "*"
    if not minor:
        return None
    parameters: dict[str, str] = {}
    quality = 1.0
    for entry in fields:
        name, *values = entry.split("=")
        if len(values) != 1 or not values[0]:
            continue
        if name.strip(" ") == "q":
            quality = _number(values[0])
        else:
            parameters[name.strip(" ")] = values[0].strip(" ")
    return Clause(major, minor, quality, parameters)


def _number(text: str) -> float:
    """Returns a quality; 0 if it is not a number."""
    return parse_float(text) or 0.0
