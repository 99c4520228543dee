"""The bodies of requests, and the replies of the page's server."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.ui.board import BoardError
from mooring.ui.guard import HEADERS

BODY_BYTES_MAX: Final = 8 << 20
JSON: Final = "application/json"


async def body_of(request: web.BaseRequest) -> dict[str, Any]:
    """Returns the JSON object of a request.

    Raises:
        BoardError: it is too long, or no JSON object.
    """
    data = b""
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise BoardError(f"the body is longer than {BODY_BYTES_MAX >> 20} MiB", 413)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BoardError(f"the body is not a JSON object: {error}", 400) from None


async def text_of(request: web.BaseRequest, name: str = "text") -> str:
    """Returns a text in the JSON object of a request.

    Raises:
        BoardError: there is none.
    """
    text = (await body_of(request)).get(name)
    if not isinstance(text, str):
        raise BoardError(f'"{name}" must be a text', 400)
    return text


def json_reply(document: object) -> web.Response:
    """Returns a reply with a document."""
    body = msgspec.json.encode(document)
    response = web.Response(body=body, headers={**HEADERS, "Content-Type": JSON})
    response.enable_compression()
    return response


def problem_reply(status: int, message: str) -> web.Response:
    """Returns a reply that says what is wrong."""
    body = msgspec.json.encode({"message": message})
    return web.Response(status=status, body=body, headers={**HEADERS, "Content-Type": JSON})
