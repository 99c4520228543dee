"""Requests and replies of the endpoints, and the replies that several of them give.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters, Go's net/http (Error, NotFound).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from multidict import CIMultiDict

from mooring.objects.codec.protobuf import bytes_field, int_field
from mooring.objects.files.yaml_text import yaml_text
from mooring.objects.go_text import go_json, go_quote
from mooring.serving import negotiation

TEXT: Final = "text/plain; charset=utf-8"
NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}

#: In front of each protobuf object of Kubernetes.
_PROTOBUF_MAGIC: Final = b"k8s\x00"
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


async def _no_body() -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class ServingRequest:
    """A request, decrypted and parsed.

    Attributes:
        method: In capitals.
        path: Unquoted, without the query.
        target: Path and query as they were sent.
        query: Names and values, unquoted.
        headers: Names are case-insensitive.
        peer_chain: The client's certificates, DER, its own first; not verified yet.
        read_body: Returns the body.
    """

    method: str
    path: str
    target: str = ""
    query: Sequence[tuple[str, str]] = ()
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    peer_chain: Sequence[bytes] = ()
    read_body: Callable[[], Awaitable[bytes]] = _no_body

    def values(self, name: str) -> list[str]:
        """Returns the values of a query parameter."""
        return [value for key, value in self.query if key == name]


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response. Without a Content-Type in ``headers``, none is sent."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def text(
        cls, text: str, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Returns plain text."""
        body = text.encode("utf-8", "surrogateescape")
        return cls(status, body, {"Content-Type": TEXT, **(headers or {})})


Handler = Callable[[ServingRequest], Awaitable[Reply]]


def http_error(text: str, status: int) -> Reply:
    """Returns an error as plain text."""
    return Reply.text(f"{text}\n", status=status, headers=NOSNIFF)


def not_found() -> Reply:
    """Returns the reply for an unknown path."""
    return http_error("404 page not found", 404)


def internal_error(request: ServingRequest, error: str) -> Reply:
    """Returns the reply for a failure of ours, such as of the authorizer."""
    text = f"Internal Server Error: {go_quote(request.target)}: {error}"
    return http_error(sanitized(text), 500)


def sanitized(text: str) -> str:
    """Returns text that cannot be taken for HTML."""
    return text.translate(_HTML)


def status_object(
    code: int, reason: str, message: str, *, has_details: bool = False
) -> dict[str, Any]:
    """Returns a Status of a failure."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if has_details:
        status["details"] = {}
    status["code"] = code
    return status


def status_reply(
    request: ServingRequest,
    status: Mapping[str, Any],
    media_types: Sequence[str] = negotiation.API_MEDIA_TYPES,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Returns a Status in the format that the client accepts, or else as indented JSON."""
    code: int = status["code"]
    choice = negotiation.choose(request.headers.get("Accept", ""), media_types, _is_plain)
    if choice is None:
        body = go_json(status, pretty=True).encode()
        return Reply(code, body, {**(headers or {}), "Content-Type": negotiation.JSON})
    body = encode_status(status, choice.media_type, pretty=is_pretty(request, choice))
    return Reply(code, body, {**(headers or {}), "Content-Type": choice.media_type})


def encode_status(status: Mapping[str, Any], media_type: str, *, pretty: bool) -> bytes:
    """Returns a Status as JSON, YAML or protobuf."""
    if media_type == negotiation.PROTOBUF:
        return _protobuf_status(status)
    return encode_object(status, media_type, pretty=pretty)


def encode_object(value: Mapping[str, Any], media_type: str, *, pretty: bool) -> bytes:
    """Returns an object as JSON or YAML."""
    if media_type == negotiation.YAML:
        return yaml_text(dict(value)).encode()
    text = go_json(value, pretty=pretty)
    return (text if pretty else f"{text}\n").encode("utf-8", "surrogateescape")


def is_pretty(request: ServingRequest, choice: negotiation.Choice) -> bool:
    """Returns whether JSON is to be indented: on request, and for browsers and curl."""
    if choice.parameters.get("pretty") == "1":
        return True
    for value in request.values("pretty")[:1]:
        if value:
            return value in ("1", "t", "T", "true", "TRUE", "True")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _is_plain(_media_type: str, parameters: Mapping[str, str]) -> bool:
    return not {"as", "g", "v"} & parameters.keys()


def _protobuf_status(status: Mapping[str, Any]) -> bytes:
    """Encodes as k8s.io/apimachinery's generated.pb.go: empty strings are written, too."""
    list_meta = bytes_field(1, b"") + bytes_field(2, b"") + bytes_field(3, b"")
    raw = (
        bytes_field(1, list_meta)
        + bytes_field(2, status["status"].encode())
        + bytes_field(3, status["message"].encode("utf-8", "surrogateescape"))
        + bytes_field(4, status["reason"].encode())
    )
    if "details" in status:
        names = b"".join(bytes_field(number, b"") for number in (1, 2, 3))
        raw += bytes_field(5, names + int_field(5, 0) + bytes_field(6, b""))
    raw += int_field(6, status["code"])
    type_meta = bytes_field(1, b"v1") + bytes_field(2, b"Status")
    unknown = (
        bytes_field(1, type_meta) + bytes_field(2, raw) + bytes_field(3, b"") + bytes_field(4, b"")
    )
    return _PROTOBUF_MAGIC + unknown
