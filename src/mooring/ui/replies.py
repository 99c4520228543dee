"""The bodies and queries of requests, and the replies of the page's server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.ui.board_error import BoardError
from mooring.ui.guard import HEADERS
from mooring.ui.verdicts import SCORE, TOTAL, VerdictQuery

BODY_BYTES_MAX: Final = 8 << 20
BODY_S_MAX: Final = 30.0
JSON: Final = "application/json"
NUMBER_DIGITS_MAX: Final = 15


async def body_of(request: web.BaseRequest, *, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Any]:
    """Returns the JSON object of a request.

    Raises:
        BoardError: it is too long, too slow, or no JSON object.
    """
    try:
        async with asyncio.timeout(BODY_S_MAX):
            data = await _received(request, bytes_max)
    except TimeoutError:
        raise BoardError("the body did not come in time", 408) from None
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BoardError(f"the body is not a JSON object: {error}", 400) from None


async def _received(request: web.BaseRequest, bytes_max: int) -> bytearray:
    data = bytearray()
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > bytes_max:
            raise BoardError(f"the body is longer than {bytes_max >> 10} KiB", 413)
    return data


async def text_of(request: web.BaseRequest, name: str = "text") -> str:
    """Returns a text in the JSON object of a request.

    Raises:
        BoardError: there is none.
    """
    text = (await body_of(request)).get(name)
    if not isinstance(text, str):
        raise BoardError(f'"{name}" must be a text', 400)
    return text


def number_of(text: str) -> int:
    """Returns a number of an address or a query.

    Raises:
        BoardError: it is none.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
        raise BoardError(f"must be a number from 0, got {text!r}", 400)
    return int(text)


def verdict_query_of(query: Mapping[str, str]) -> VerdictQuery:
    """Returns the query for the verdicts of an attempt.

    Raises:
        BoardError: the offset is no number.
    """
    return VerdictQuery(
        text=query.get("q", ""),
        plugin=query.get("plugin", ""),
        sort=query.get("sort", TOTAL),
        kind=query.get("kind", SCORE),
        is_descending=query.get("order") != "ascending",
        offset=number_of(query.get("offset") or "0"),
    )


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
