"""HTTP requests as handlers see them: paths as Go parses them, bodies with a limit, no credentials.

Source: Go's net/http and net/url (which paths are valid, and what they mean).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import web

from mooring.serving.messages import ServingRequest
from mooring.serving.tls_transport import PEER_CHAIN

#: The only body is a number.
BODY_BYTES_MAX: Final = 1 << 16
BODY_S_MAX: Final = 32.0

QUERY_FIELDS_MAX: Final = 256

_INVALID_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


def parsed(request: web.BaseRequest) -> ServingRequest | None:
    """Returns the request as handlers see it; None if its path is not valid."""
    target = request.raw_path
    raw_path, _, raw_query = target.partition("?")
    if not raw_path.startswith("/"):  # the absolute form, for proxies
        raw_path = "/" + raw_path.partition("://")[2].partition("/")[2]
    if not _has_valid_escapes(raw_path):
        return None
    path = unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape")
    try:
        query = parse_qsl(raw_query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError:
        query = []
    transport = request.transport
    chain = transport.get_extra_info(PEER_CHAIN, ()) if transport is not None else ()

    async def read_body() -> bytes:
        async with asyncio.timeout(BODY_S_MAX):
            return await _body(request)

    headers = request.headers.copy()
    return ServingRequest(request.method, path, target, query, headers, chain, read_body)


async def _body(request: web.BaseRequest) -> bytes:
    chunks = bytearray()
    async for chunk in request.content.iter_any():
        chunks += chunk
        if len(chunks) > BODY_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, len(chunks))
    return bytes(chunks)


def _has_valid_escapes(path: str) -> bool:
    """Returns whether two hexadecimal digits follow each percent sign."""
    return _INVALID_ESCAPE.search(path) is None


def without_credentials(request: ServingRequest) -> ServingRequest:
    """Returns the request as handlers see it."""
    headers = request.headers.copy()
    for name in list(headers):
        if name.lower() == "authorization" or name.lower().startswith("x-remote-"):
            headers.popall(name, None)
    return replace(request, headers=headers, peer_chain=())
