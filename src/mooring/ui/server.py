"""Serves the page on the loopback address.

::

    GET  /, /static/...                     the files of the page
    POST /session {token}                   sets the cookie
    GET  /api/v1/state                      everything
    GET  /api/v1/stream                     server-sent events: changes, four times a second
    GET  /api/v1/queue, /pods, /pods/NS/NAME, /explain/NS/NAME, /help/NS/NAME,
         /nodes/NAME, /attempts, /export
    POST /api/v1/apply {text}, /delete {kind, namespace, name}

While no page is open, nothing is computed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.log import ConnectionLog
from mooring.ui.board import Board, BoardError
from mooring.ui.guard import HEADERS, Guard

#: The pause between two events of a stream.
TICK_S: Final = 0.25
#: Pages that look at the same time.
STREAMS_MAX: Final = 16
BODY_BYTES_MAX: Final = 8 << 20
#: A client that does not read for so long is disconnected.
WRITE_S_MAX: Final = 20.0

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_JSON: Final = "application/json"
_log = logging.getLogger("mooring.ui")

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PageServer:
    """Answers the requests of the page.

    Attributes:
        guard: Checks requests; it has the address to open.

    Args:
        board: The source of everything.
        tick_s: The pause between two events of a stream.
    """

    def __init__(self, board: Board, *, tick_s: float = TICK_S) -> None:
        self.guard = Guard()
        self._board = board
        server = web.Server(self.respond, logger=ConnectionLog(_log), access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        self._tick_s = tick_s
        self._streams = 0
        self._files = {name: (data, kind) for name, data, kind in _static_files()}
        self._handlers: dict[tuple[str, str], Handle] = {
            ("GET", "state"): self._state,
            ("GET", "stream"): self._stream,
            ("GET", "queue"): self._queue,
            ("GET", "pods"): self._pods,
            ("GET", "explain"): self._explain,
            ("GET", "help"): self._help,
            ("GET", "nodes"): self._node,
            ("GET", "attempts"): self._attempts,
            ("GET", "export"): self._export,
            ("POST", "apply"): self._apply,
            ("POST", "delete"): self._delete,
        }

    async def start(self, port: int = 0) -> None:
        """Begins to listen on 127.0.0.1.

        Raises:
            OSError: the port is in use.
        """
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError:
            await self.stop()
            raise
        self.guard.listens_on(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Ends all streams and stops listening."""
        await self._runner.cleanup()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        try:
            return await self._respond(request)
        except BoardError as error:
            return _problem(error.status, str(error))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - one request's bug must not end the others
            _log.exception("request of the page failed: %s %s", request.method, request.path)
            return _problem(500, "an error of the server: see its log")

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if problem := self.guard.problem(request.method, request.headers):
            return _problem(403, problem)
        path = request.path
        if request.method == "GET" and path in self._files:
            body, kind = self._files[path]
            return web.Response(body=body, headers={**HEADERS, "Content-Type": kind})
        if path == "/session" and request.method == "POST":
            return await self._open_session(request)
        if not path.startswith("/api/v1/"):
            return _problem(404, f"there is nothing at {path}")
        if not self.guard.has_session(request.cookies.get(self.guard.cookie_name)):
            return _problem(401, "open the address that mooring printed: its end is the key")
        name = path.removeprefix("/api/v1/").partition("/")[0]
        handle = self._handlers.get((request.method, name))
        if handle is None:
            return _problem(404, f"there is no {request.method} {path}")
        return await handle(request)

    async def _open_session(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _body(request)
        cookie = self.guard.opens(body.get("token"))
        if cookie is None:
            return _problem(401, "this is not the token of this mooring")
        return web.Response(status=204, headers={**HEADERS, "Set-Cookie": cookie})

    # -- reads ------------------------------------------------------------------------------------

    async def _state(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        return _json(self._board.state())

    async def _queue(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        return _json(self._board.queue())

    async def _pods(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.split("/")[4:]
        if len(parts) == 2:
            return _json(await self._board.pod("/".join(parts)))
        query = request.query
        page = await self._board.pods(
            state=query.get("state", ""), text=query.get("q", ""), after=query.get("after", "")
        )
        return _json(page)

    async def _explain(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self._board.explain("/".join(request.path.split("/")[4:]))
        return web.Response(body=body, headers={**HEADERS, "Content-Type": _JSON})

    async def _help(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._board.explain_on_copy("/".join(request.path.split("/")[4:]))
        return web.Response(body=body, headers={**HEADERS, "Content-Type": _JSON})

    async def _node(self, request: web.BaseRequest) -> web.StreamResponse:
        return _json(await self._board.node("/".join(request.path.split("/")[4:])))

    async def _attempts(self, request: web.BaseRequest) -> web.StreamResponse:
        query = request.query
        records = self._board.attempts(result=query.get("result", ""), text=query.get("q", ""))
        return _json(records)

    async def _export(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        name = 'attachment; filename="cluster.json"'
        headers = {**HEADERS, "Content-Type": _JSON, "Content-Disposition": name}
        return web.Response(body=await self._board.export(), headers=headers)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends what has changed until the page is closed.

        The query says what the page has: ``generation``, ``attempt`` and ``resources``.
        """
        if self._streams >= STREAMS_MAX:
            return _problem(429, f"{STREAMS_MAX} pages look already")
        query = request.query
        try:
            generation, attempt = int(query["generation"]), int(query["attempt"])
        except (KeyError, ValueError):
            return _problem(400, "generation and attempt must be numbers")
        resources = query.getall("resource", [])
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        self._streams += 1
        self._board.watched(self._streams)
        try:
            while True:
                tick = self._board.tick(generation, attempt, resources)
                generation, attempt = tick.nodes.generation, tick.attempt
                async with asyncio.timeout(WRITE_S_MAX):
                    await response.write(b"data: " + msgspec.json.encode(tick) + b"\n\n")
                if not tick.nodes.is_complete:
                    return response  # the page reads everything again
                await asyncio.sleep(self._tick_s)
        except (ConnectionError, TimeoutError):
            return response  # the page was closed
        finally:
            self._streams -= 1
            self._board.watched(self._streams)

    # -- writes -----------------------------------------------------------------------------------

    async def _apply(self, request: web.BaseRequest) -> web.StreamResponse:
        text = (await _body(request)).get("text")
        if not isinstance(text, str):
            raise BoardError('"text" must be a text', 400)
        return _json(await self._board.apply(text))

    async def _delete(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _body(request)
        if not all(isinstance(value, str) for value in body.values()):
            raise BoardError("kind, namespace and name must be texts", 400)
        return _json({"message": await self._board.delete(body)})


def _static_files() -> list[tuple[str, bytes, str]]:
    """Returns path, content and type of the files of the page."""
    root = files("mooring.ui") / "static"
    served: list[tuple[str, bytes, str]] = []
    for folder, prefix in ((root, "/static/"), (root / "vendor", "/static/vendor/")):
        for file in folder.iterdir():
            kind = TYPES.get(file.name.rpartition(".")[2])
            if file.is_file() and kind is not None:
                path = "/" if file.name == "index.html" else prefix + file.name
                served.append((path, file.read_bytes(), kind))
    return served


async def _body(request: web.BaseRequest) -> dict[str, Any]:
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


def _json(document: object, headers: Mapping[str, str] = HEADERS) -> web.Response:
    body = msgspec.json.encode(document)
    response = web.Response(body=body, headers={**headers, "Content-Type": _JSON})
    response.enable_compression()
    return response


def _problem(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"message": message})
    return web.Response(status=status, body=body, headers={**HEADERS, "Content-Type": _JSON})
