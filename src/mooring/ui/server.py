"""Serves the page on the loopback address.

::

    GET  /, /static/...                     the files of the page
    POST /session {token}                   sets the cookie
    GET  /api/v1/state                      everything
    GET  /api/v1/stream                     server-sent events: changes, four times a second
    GET  /api/v1/queue, /pods, /pods/NS/NAME, /explain/NS/NAME, /help/NS/NAME,
         /nodes/NAME, /rejections/NODE, /attempts, /attempts/NUMBER, /export
    POST /api/v1/time {position or step, speed, isPlaying}, of what is played back
    POST /api/v1/apply {text}, /delete {kind, namespace, name},
         /import {text, replaces}, /reset {}
    GET  /api/v1/configuration, /what-if    see ``configuration_routes``

While no page is open, nothing is computed.
"""

from __future__ import annotations

import asyncio
import logging
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from mooring.connections import LimitedServer
from mooring.log import ConnectionLog
from mooring.ui.board import Board
from mooring.ui.board_error import BoardError
from mooring.ui.configuration_routes import Handle, configuration_handlers
from mooring.ui.guard import HEADERS, Guard
from mooring.ui.node_columns import NodeChanges
from mooring.ui.replies import (
    JSON,
    body_of,
    json_reply,
    number_of,
    problem_reply,
    text_of,
    verdict_query_of,
)

if TYPE_CHECKING:
    from mooring.ui.configuration import ConfigurationEditor

#: The pause between two events of a stream.
TICK_S: Final = 0.25
#: Pages that look at the same time.
STREAMS_MAX: Final = 16
#: A client that does not read for so long is disconnected.
WRITE_S_MAX: Final = 20.0
#: Time for the head of a request.
HEAD_S_MAX: Final = 10.0
#: A browser opens six for each page, and leaves them open.
CONNECTIONS_MAX: Final = 256
#: A body that is sent without a session: a token.
TOKEN_BODY_BYTES_MAX: Final = 4 << 10

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_log = logging.getLogger("mooring.ui")


class PageServer:
    """Answers the requests of the page.

    Attributes:
        guard: Checks requests; it has the address to open.
        board: The source of everything; open pages read all again when it is replaced.

    Args:
        board: The source of everything.
        editor: Checks and applies configurations; None = they cannot be edited.
        tick_s: The pause between two events of a stream.
    """

    def __init__(
        self,
        board: Board,
        *,
        editor: ConfigurationEditor | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        self.guard = Guard()
        self.board = board
        server = LimitedServer(
            self.respond,
            connections_max=CONNECTIONS_MAX,
            head_s=HEAD_S_MAX,
            write_s=WRITE_S_MAX,
            logger=ConnectionLog(_log),
            access_log=None,
        )
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
            ("GET", "rejections"): self._rejections,
            ("GET", "attempts"): self._attempts,
            ("GET", "export"): self._export,
            ("POST", "time"): self._time,
            ("POST", "apply"): self._apply,
            ("POST", "delete"): self._delete,
            ("POST", "import"): self._import,
            ("POST", "reset"): self._reset,
        }
        if editor is not None:
            self._handlers |= configuration_handlers(editor)

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
            return problem_reply(error.status, str(error))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - one request's bug must not end the others
            _log.exception("request of the page failed: %s %s", request.method, request.path)
            return problem_reply(500, "an error of the server: see its log")

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if problem := self.guard.problem(request.method, request.headers):
            return problem_reply(403, problem)
        path = request.path
        if request.method == "GET" and path in self._files:
            body, kind = self._files[path]
            return web.Response(body=body, headers={**HEADERS, "Content-Type": kind})
        if path == "/session" and request.method == "POST":
            return await self._open_session(request)
        if not path.startswith("/api/v1/"):
            return problem_reply(404, f"there is nothing at {path}")
        if not self.guard.has_session(request.cookies.get(self.guard.cookie_name)):
            return problem_reply(401, "open the address that mooring printed: its end is the key")
        name = path.removeprefix("/api/v1/").partition("/")[0]
        handle = self._handlers.get((request.method, name))
        if handle is None:
            return problem_reply(404, f"there is no {request.method} {path}")
        return await handle(request)

    async def _open_session(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request, bytes_max=TOKEN_BODY_BYTES_MAX)
        cookie = self.guard.opens(body.get("token"))
        if cookie is None:
            return problem_reply(401, "this is not the token of this mooring")
        return web.Response(status=204, headers={**HEADERS, "Set-Cookie": cookie})

    # -- reads ------------------------------------------------------------------------------------

    async def _state(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        return json_reply(self.board.state())

    async def _queue(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        return json_reply(self.board.queue())

    async def _pods(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.split("/")[4:]
        if len(parts) == 2:
            return json_reply(await self.board.pod("/".join(parts)))
        query = request.query
        page = await self.board.pods(
            state=query.get("state", ""), text=query.get("q", ""), after=query.get("after", "")
        )
        return json_reply(page)

    async def _explain(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self.board.explain("/".join(request.path.split("/")[4:]))
        return web.Response(body=body, headers={**HEADERS, "Content-Type": JSON})

    async def _help(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self.board.explain_on_copy("/".join(request.path.split("/")[4:]))
        return web.Response(body=body, headers={**HEADERS, "Content-Type": JSON})

    async def _node(self, request: web.BaseRequest) -> web.StreamResponse:
        return json_reply(await self.board.node("/".join(request.path.split("/")[4:])))

    async def _rejections(self, request: web.BaseRequest) -> web.StreamResponse:
        node = "/".join(request.path.split("/")[4:])
        return json_reply(await self.board.rejections(node))

    async def _attempts(self, request: web.BaseRequest) -> web.StreamResponse:
        query, number = request.query, request.path.removeprefix("/api/v1/attempts").strip("/")
        if number:
            return json_reply(self.board.verdicts(number_of(number), verdict_query_of(query)))
        records = self.board.attempts(result=query.get("result", ""), text=query.get("q", ""))
        return json_reply(records)

    async def _export(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        name = 'attachment; filename="cluster.json"'
        headers = {**HEADERS, "Content-Type": JSON, "Content-Disposition": name}
        return web.Response(body=await self.board.export(), headers=headers)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends what has changed until the page is closed.

        The query says what the page has: ``generation``, ``attempt`` and ``resources``.
        """
        if self._streams >= STREAMS_MAX:
            return problem_reply(429, f"{STREAMS_MAX} pages look already")
        query = request.query
        try:
            generation, attempt = int(query["generation"]), int(query["attempt"])
        except (KeyError, ValueError):
            return problem_reply(400, "generation and attempt must be numbers")
        resources = query.getall("resource", [])
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        self._streams += 1
        board = self.board
        board.watched(self._streams)
        try:
            await response.prepare(request)
            while True:
                tick = self.board.tick(generation, attempt, resources)
                if self.board is not board:
                    tick.nodes = NodeChanges(tick.nodes.generation, is_complete=False)
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
            self.board.watched(self._streams)

    # -- writes -----------------------------------------------------------------------------------

    async def _time(self, request: web.BaseRequest) -> web.StreamResponse:
        return json_reply(self.board.play(await body_of(request)))

    async def _apply(self, request: web.BaseRequest) -> web.StreamResponse:
        return json_reply(await self.board.apply(await text_of(request)))

    async def _import(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        text, replaces = body.get("text"), body.get("replaces")
        if not isinstance(text, str) or not isinstance(replaces, bool):
            raise BoardError('needs "text", and "replaces": true or false', 400)
        return json_reply(await self.board.load(text, replaces=replaces))

    async def _reset(self, request: web.BaseRequest) -> web.StreamResponse:
        await body_of(request)
        return json_reply({"message": await self.board.reset()})

    async def _delete(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        if not all(isinstance(value, str) for value in body.values()):
            raise BoardError("kind, namespace and name must be texts", 400)
        return json_reply({"message": await self.board.delete(body)})


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
