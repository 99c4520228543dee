"""/debug/pprof and /debug/flags: what Python has of what Go's runtime shows.

::

    /debug/pprof/profile?seconds=N   CPU profile for ``go tool pprof``; &debug=1 = collapsed stacks
    /debug/pprof/goroutine           tasks of the event loop with their stacks
    /debug/pprof/heap                objects by type; allocations by line if tracemalloc is on
    /debug/pprof/threadcreate        threads with their stacks
    /debug/flags/v                   PUT sets the verbosity of logs

Go's allocs, block, mutex and trace have no counterpart: 404.

Source: Go's net/http/pprof, k8s.io/apiserver pkg/server/routes/{profiling,flags}.go.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Final

from mooring.client.retry import Sleep
from mooring.clock import Clock
from mooring.objects.go_text import go_quote
from mooring.serving.messages import NOSNIFF, Handler, Reply, ServingRequest, http_error
from mooring.serving.pprof import ProfileInProgress, profiling

PROFILE_S: Final = 30
PROFILE_S_MAX: Final = 600

#: Types or lines listed in a heap profile.
HEAP_LINES_MAX: Final = 200

#: Upstream reads an unsigned number first, and then a signed one.
VERBOSITY_MAX: Final = 2**31 - 1
UNSIGNED_MAX: Final = 2**32 - 1

_HTML: Final = "text/html; charset=utf-8"
_FLAGS_PAGE: Final = (
    "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\n"
    "flags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n"
    "</body>\n</html>\n"
)


class Pprof:
    """The handlers below /debug/pprof/.

    Args:
        clock: For the times in a profile.
        sleep: Waits while a profile is taken.
    """

    def __init__(self, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._texts: dict[str, tuple[Callable[[], int], Callable[[], str], str]] = {
            "goroutine": (_task_count, task_stacks, "tasks of the event loop, with their stacks"),
            "heap": (_object_count, heap_text, "objects by type, or allocations by line"),
            "threadcreate": (_thread_count, thread_stacks, "threads, with their stacks"),
        }

    def routes(self) -> tuple[dict[str, Handler], dict[str, Handler]]:
        """Returns the handlers of exact paths, and of prefixes."""
        exact: dict[str, Handler] = {
            "/debug/pprof": _redirect,
            "/debug/pprof/profile": self._profile,
            "/debug/pprof/symbol": _symbol,
        }
        return exact, {"/debug/pprof/": self._index}

    async def _index(self, request: ServingRequest) -> Reply:
        name = request.path.removeprefix("/debug/pprof/")
        if not name:
            return Reply(200, self._index_page().encode(), {"Content-Type": _HTML, **NOSNIFF})
        if name not in self._texts:
            reply = http_error("Unknown profile", 404)
            return Reply(reply.status, reply.body, {**reply.headers, "X-Go-Pprof": "1"})
        _, text, _ = self._texts[name]
        return Reply.text(text(), headers=NOSNIFF)

    def _index_page(self) -> str:
        rows = [
            f"<tr><td>{count()}</td><td><a href='{name}?debug=1'>{name}</a></td></tr>\n"
            for name, (count, _, _) in self._texts.items()
        ]
        items = [f"<li>{name}: {meaning}</li>\n" for name, (_, _, meaning) in self._texts.items()]
        return (
            "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n"
            "Types of profiles available:\n<table>\n<thead><td>Count</td><td>Profile</td></thead>\n"
            f"{''.join(rows)}<tr><td>0</td><td><a href='profile?seconds=5'>profile</a></td></tr>\n"
            f"</table>\n<ul>\n{''.join(items)}<li>profile: CPU profile of ?seconds=N</li>\n</ul>\n"
            "</body>\n</html>\n"
        )

    async def _profile(self, request: ServingRequest) -> Reply:
        seconds = _seconds(request)
        started_s, started_monotonic_s = self._clock.wall_s(), self._clock.monotonic_s()
        try:
            with profiling() as profile:
                await self._sleep(seconds)
        except (ProfileInProgress, ValueError) as error:
            reply = http_error(f"Could not enable CPU profiling: {error}", 500)
            return Reply(reply.status, reply.body, {**reply.headers, "X-Go-Pprof": "1"})
        if request.values("debug")[:1] not in ([], ["0"]):
            return Reply.text(profile.collapsed(), headers=NOSNIFF)
        duration_s = self._clock.monotonic_s() - started_monotonic_s
        body = profile.encoded(started_ns=int(started_s * 1e9), duration_ns=int(duration_s * 1e9))
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": 'attachment; filename="profile"',
            **NOSNIFF,
        }
        return Reply(200, body, headers)


def flag_routes(
    set_verbosity: Callable[[int], None],
) -> tuple[dict[str, Handler], dict[str, Handler]]:
    """Returns the handlers of /debug/flags: of exact paths, and of prefixes."""

    async def put(request: ServingRequest) -> Reply:
        if request.method != "PUT":
            return _flag_reply(406, "unsupported http method")
        text = (await request.read_body()).decode("utf-8", "surrogateescape")
        problem = _verbosity_problem(text)
        if problem:
            return _flag_reply(400, problem)
        set_verbosity(int(text))
        return _flag_reply(200, f"successfully set klog.logging.verbosity to {text}")

    return {"/debug/flags": _flag_index, "/debug/flags/v": put}, {"/debug/flags/": _flag_index}


async def _flag_index(_: ServingRequest) -> Reply:
    return Reply(200, _FLAGS_PAGE.encode(), {"Content-Type": _HTML})


def _flag_reply(status: int, text: str) -> Reply:
    return Reply(
        status,
        f"{text}\n".encode("utf-8", "surrogateescape"),
        {"Content-Type": "text/plain", **NOSNIFF},
    )


def _verbosity_problem(text: str) -> str | None:
    """Returns what is wrong with a verbosity, in Go's words; None if nothing is."""
    if not text.isascii() or not text.isdigit():
        return f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
    # Python limits the digits of a number; those of a valid one are few.
    number = int(text) if len(text.lstrip("0")) <= len(str(UNSIGNED_MAX)) else UNSIGNED_MAX + 1
    if number > UNSIGNED_MAX:
        return f"strconv.ParseUint: parsing {go_quote(text)}: value out of range"
    if number > VERBOSITY_MAX:
        problem = f"strconv.ParseInt: parsing {go_quote(text)}: value out of range"
        return f"failed set klog.logging.verbosity {text}: {problem}"
    return None


async def _redirect(request: ServingRequest) -> Reply:
    headers = {"Location": "/debug/pprof/"}
    if request.method not in ("GET", "HEAD"):
        return Reply(302, b"", headers)
    body = b'<a href="/debug/pprof/">Found</a>.\n\n'
    return Reply(302, body, {**headers, "Content-Type": _HTML})


async def _symbol(_: ServingRequest) -> Reply:
    return Reply.text("num_symbols: 1\n", headers=NOSNIFF)


def _seconds(request: ServingRequest) -> int:
    """Returns the length of a profile: the default if the query has no valid one."""
    text = "".join(request.values("seconds")[:1])
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
        return PROFILE_S
    return min(int(text), PROFILE_S_MAX)


# ---------------------------------------------------------------------- what can be shown


def task_stacks() -> str:
    """Returns the tasks of this event loop with their stacks."""
    tasks = asyncio.all_tasks()
    out = StringIO()
    out.write(f"goroutine profile: total {len(tasks)}\n")
    for task in sorted(tasks, key=lambda task: task.get_name()):
        coroutine = task.get_coro()
        out.write(f"\n{task.get_name()}: {getattr(coroutine, '__qualname__', coroutine)}\n")
        for frame in task.get_stack():
            out.write("".join(traceback.format_stack(frame, 1)))
    return out.getvalue()


def thread_stacks() -> str:
    """Returns the threads of this process with their stacks."""
    frames = sys._current_frames()  # noqa: SLF001 - the documented way
    out = StringIO()
    out.write(f"threadcreate profile: total {len(frames)}\n")
    for identifier, frame in frames.items():
        out.write(f"\nthread {identifier}\n{''.join(traceback.format_stack(frame))}")
    return out.getvalue()


def heap_text() -> str:
    """Returns allocations by line if tracemalloc is on, or else the number of objects by type."""
    if tracemalloc.is_tracing():
        statistics = tracemalloc.take_snapshot().statistics("lineno")[:HEAP_LINES_MAX]
        return "".join(["heap profile: tracemalloc\n", *(f"{entry}\n" for entry in statistics)])
    return "".join(_type_counts())


def _type_counts() -> Iterator[str]:
    objects = gc.get_objects()
    counts = Counter(type(item) for item in objects)
    yield f"heap profile: {len(objects)} objects that the garbage collector tracks\n"
    for kind, count in counts.most_common(HEAP_LINES_MAX):
        yield f"{count}\t{kind.__module__}.{kind.__qualname__}\n"


def _task_count() -> int:
    return len(asyncio.all_tasks())


def _object_count() -> int:
    return sum(gc.get_count())


def _thread_count() -> int:
    return len(sys._current_frames())  # noqa: SLF001 - the documented way
