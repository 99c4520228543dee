"""Accept headers: the representation in which a client accepts a response.

Responses have one encoding, JSON; the shape is negotiated: the object itself, a Table, or the
aggregated form of discovery.

Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.errors import ApiStatusError
from mooring.cel.golang.text import parse_float
from mooring.objects.text_cache import text_cache

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Clauses of one header that are parsed; kubectl sends three.
CLAUSES_MAX = 32
#: Clients send few different headers.
_CACHE_SIZE = 256
#: Longer headers are parsed each time.
_CACHED_CHARS_MAX = 1024
JSON = "application/json"


class Clause(NamedTuple):
    """One representation that a client accepts.

    Attributes:
        media_type: Such as "application/json" or "*/*"; lower case.
        parameters: Its parameters: ``as``, ``g``, ``v``, ``stream`` ...
    """

    media_type: str
    parameters: Mapping[str, str]

    @property
    def is_json(self) -> bool:
        """True if JSON matches."""
        return self.media_type in (JSON, "application/*", "*/*")

    @property
    def shape(self) -> tuple[str, str, str]:
        """Group, version and kind to convert to; all "" for the object itself."""
        get = self.parameters.get
        return (get("g", ""), get("v", ""), get("as", "")) if "as" in self.parameters else _AS_IS


_AS_IS = ("", "", "")
AGGREGATED = tuple(
    ("apidiscovery.k8s.io", version, "APIGroupDiscoveryList") for version in ("v2", "v2beta1")
)
TABLES = tuple(("meta.k8s.io", version, "Table") for version in ("v1", "v1beta1"))


@text_cache(_CACHE_SIZE, chars_max=_CACHED_CHARS_MAX)
def clauses(header: str) -> tuple[Clause, ...]:
    """Returns the clauses of an Accept header by descending weight; none = anything is accepted.

    A weight of 0 excludes nothing, as in upstream's parser: it comes last.

    Example:
        >>> clauses("application/json;as=Table;v=v1;g=meta.k8s.io, */*;q=0.1")[0].shape
        ('meta.k8s.io', 'v1', 'Table')
    """
    weighted: list[tuple[float, Clause]] = []
    for part in header.split(",")[:CLAUSES_MAX]:
        media_type, *rest = (piece.strip() for piece in part.split(";"))
        if not media_type:
            continue
        pairs = (piece.partition("=") for piece in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        weight = _weight(parameters.pop("q", "1"))
        weighted.append((weight, Clause(media_type.lower(), MappingProxyType(parameters))))
    weighted.sort(key=lambda pair: -pair[0])  # stable: equal weights keep their order
    return tuple(clause for _, clause in weighted)


def _weight(text: str) -> float:
    weight = parse_float(text)
    return 1.0 if weight is None else weight


def requested_shape(
    header: str, supported: tuple[tuple[str, str, str], ...]
) -> tuple[str, str, str] | None:
    """Returns the first accepted shape that is in ``supported``; None = the object itself.

    Raises:
        ApiStatusError: 406, no accepted shape is supported.
    """
    if not header.strip():
        return None
    for clause in clauses(header):
        if not clause.is_json:
            continue
        shape = clause.shape
        if shape == _AS_IS:
            return None
        if shape in supported:
            return shape
    raise not_acceptable()


def not_acceptable(media_type: str = JSON) -> ApiStatusError:
    """Returns error 406: no representation that the client accepts is supported."""
    accepted = f"only the following media types are accepted: {media_type}"
    return ApiStatusError(406, "NotAcceptable", accepted)
