"""URLs.

Source: apiserver v0.36.3, pkg/cel/library/urls.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.golang.urls import URL, URLProblem, parse_request_uri, parse_url
from mooring.cel.types import BOOL, STRING
from mooring.cel.values import NO_OVERLOAD, ErrorValue, MapValue, Value


class URLValue:
    """A URL."""

    __slots__ = ("url",)
    cel_type = types.URL

    def __init__(self, url: URL) -> None:
        self.url = url

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether URLs have the same text; other types are refused."""
        return str(self.url) == str(other.url) if isinstance(other, URLValue) else NO_OVERLOAD

    def __str__(self) -> str:
        return str(self.url)


def _url(text: str) -> Value:
    try:
        parse_request_uri(text)
        return URLValue(parse_url(text))
    except URLProblem as problem:
        return ErrorValue(f"URL parse error during conversion from string: {problem}")


def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except URLProblem:
        return False
    return True


def _query(value: URLValue) -> MapValue:
    return MapValue.of_strings({key: list(entry) for key, entry in value.url.query().items()})


def _reader(overload_id: str, read: str) -> list[Overload]:
    return [method(overload_id, (types.URL,), STRING, lambda value: getattr(value.url, read))]


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "url": [function("string_to_url", (STRING,), types.URL, _url)],
    "getScheme": _reader("url_get_scheme", "scheme"),
    "getHost": _reader("url_get_host", "host"),
    "getHostname": _reader("url_get_hostname", "hostname"),
    "getPort": _reader("url_get_port", "port"),
    "getEscapedPath": _reader("url_get_escaped_path", "escaped_path"),
    "getQuery": [
        method(
            "url_get_query",
            (types.URL,),
            types.map_of(STRING, types.list_of(STRING)),
            _query,
        )
    ],
    "isURL": [function("is_url_string", (STRING,), BOOL, _is_url)],
}
