"""The routes of the configuration view.

::

    GET  /api/v1/configuration                          the configuration in effect, as YAML
    POST /api/v1/check-configuration {text}             its errors, by line
    POST /api/v1/apply-configuration {text}             replaces the scheduler
    POST /api/v1/what-if {text, scope}                  begins to decide pods under it
    GET  /api/v1/what-if                                how far that is, and the result
    POST /api/v1/cancel-what-if {}
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from mooring.ui.board_error import BoardError
from mooring.ui.replies import body_of, json_reply, text_of
from mooring.ui.what_if import SCOPES

if TYPE_CHECKING:
    from mooring.ui.configuration import ConfigurationEditor

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def configuration_handlers(editor: ConfigurationEditor) -> dict[tuple[str, str], Handle]:
    """Returns (method, route) -> handler."""

    async def show(_: web.BaseRequest) -> web.StreamResponse:
        return json_reply(editor.document())

    async def check(request: web.BaseRequest) -> web.StreamResponse:
        return json_reply(editor.check(await text_of(request)))

    async def apply(request: web.BaseRequest) -> web.StreamResponse:
        return json_reply(await editor.apply(await text_of(request)))

    async def begin(request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        text, scope = body.get("text"), body.get("scope")
        if not isinstance(text, str) or scope not in SCOPES:
            raise BoardError(f'needs "text", and "scope": one of {", ".join(SCOPES)}', 400)
        return json_reply(await editor.begin_what_if(text, scope))

    async def progress(_: web.BaseRequest) -> web.StreamResponse:
        return json_reply(editor.what_if.status())

    async def cancel(_: web.BaseRequest) -> web.StreamResponse:
        await editor.what_if.cancel()
        return json_reply(editor.what_if.status())

    return {
        ("GET", "configuration"): show,
        ("POST", "check-configuration"): check,
        ("POST", "apply-configuration"): apply,
        ("POST", "what-if"): begin,
        ("GET", "what-if"): progress,
        ("POST", "cancel-what-if"): cancel,
    }
