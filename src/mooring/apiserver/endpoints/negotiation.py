"""Accept headers: in which form a client wants its answer.

An answer has one encoding here, JSON; what is negotiated is the shape: an object as it is, a
Table of it, or the aggregated form of discovery.

Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Clauses of one header that are looked at; kubectl sends three.
CLAUSES_MAX = 32
#: Few different headers occur; each is parsed once.
_CACHE_SIZE = 256
JSON = "application/json"


class Clause(NamedTuple):
    """One of the forms that a client takes.

    Attributes:
        media_type: Such as "application/json" or "*/*"; lower case.
        parameters: What stands behind it: ``as``, ``g``, ``v``, ``stream`` ...
    """

    media_type: str
    parameters: Mapping[str, str]

    @property
    def is_json(self) -> bool:
        """Whether JSON fits."""
        return self.media_type in (JSON, "application/*", "*/*")

    @property
    def shape(self) -> tuple[str, str, str]:
        """Group, version and kind to be converted to; all "" for the object as it is."""
        get = self.parameters.get
        return (get("g", ""), get("v", ""), get("as", "")) if "as" in self.parameters else _AS_IS


_AS_IS = ("", "", "")
AGGREGATED = tuple(
    ("apidiscovery.k8s.io", version, "APIGroupDiscoveryList") for version in ("v2", "v2beta1")
)
TABLES = tuple(("meta.k8s.io", version, "Table") for version in ("v1", "v1beta1"))


@lru_cache(maxsize=_CACHE_SIZE)
def clauses(header: str) -> tuple[Clause, ...]:
    """The forms in an Accept header, the most wanted first; none = anything will do.

    Example:
        >>> clauses("application/json;as=Table;v=v1;g=meta.k8s.io, */*;q=0.1")[0].shape
        ('meta.k8s.io', 'v1', 'Table')
    """
    found: list[tuple[float, Clause]] = []
    for part in header.split(",")[:CLAUSES_MAX]:
        media_type, *rest = (piece.strip() for piece in part.split(";"))
        if not media_type:
            continue
        pairs = (piece.partition("=") for piece in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        weight = _weight(parameters.pop("q", "1"))
        if weight > 0:
            found.append((weight, Clause(media_type.lower(), MappingProxyType(parameters))))
    found.sort(key=lambda pair: -pair[0])  # stable: equals stay as the client wrote them
    return tuple(clause for _, clause in found)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def wanted_shape(
    header: str, known: tuple[tuple[str, str, str], ...]
) -> tuple[str, str, str] | None:
    """Returns the first shape of ``known`` that the client would take; None = the object as it is.

    Raises:
        Refused: 406, the client takes nothing that can be given.
    """
    if not header.strip():
        return None
    for clause in clauses(header):
        if not clause.is_json:
            continue
        shape = clause.shape
        if shape == _AS_IS:
            return None
        if shape in known:
            return shape
    raise not_acceptable()


def not_acceptable(media_type: str = JSON) -> Refused:
    """406: the client wants a form that is not made here."""
    accepted = f"only the following media types are accepted: {media_type}"
    return Refused(406, "NotAcceptable", accepted)
