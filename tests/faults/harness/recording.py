"""Records what a run does: everything that is visible outside of the scheduler's code.

::

    requests of clients ── sent, answer or error ──┐
    requests that the API server gets ─ and answers ┤
    calls of the queue, with what is popped ────────┤
    decisions, moves, faults, stored versions ──────┼──> entries ──> a hash for each window
    choices of victims, results for volumes ────────┤
    what calls of a single part return ─────────────┤
    calls to extenders ─────────────────────────────┤
    log records from WARNING on ────────────────────┤
    at the end: moves of the queue, counters ───────┘

An entry has the virtual time and no address, id, folder or order of a hash table. The methods are
wrapped while a run is recorded; a wrapped method does what it does otherwise, with the same steps
of the loop.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import logging
import pkgutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import pytest

from mooring.apiserver import ApiServer
from mooring.client.lease_requests import LeaseRequests
from mooring.client.rest.reading import ReadClient
from mooring.client.transport.transport import Request, Response, Stream, Transport
from mooring.extenders.http_extender import HTTPExtender
from mooring.metrics.family import COUNTER
from mooring.metrics.registry import Metrics
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.volume_binding import VolumeBinding
from mooring.queue import SchedulingQueue
from mooring.scheduler.observer import Observer
from mooring.state.cache import Cache
from mooring.virtual_loop import VirtualLoop
from tests.faults.harness.boundary import recorded_results
from tests.faults.harness.texts import text_of, without_addresses
from tests.faults.harness.trace import Trace

#: Class -> the methods whose calls and results are entries.
CALLS: Final[dict[type, tuple[str, ...]]] = {
    SchedulingQueue: (
        *("add", "update", "delete", "move", "activate", "retry_after_backoff"),
        *("add_unschedulable", "pop", "flush"),
    ),
    Cache: (
        *("put_object", "remove_object", "put_node", "remove_node", "recount"),
        *("assume", "confirm", "forget", "put_pod", "remove_pod", "remove_pod_by_key"),
    ),
    DefaultPreemption: ("post_filter",),
    VolumeBinding: ("pre_filter", "reserve", "pre_bind"),
    # The checker has none of these entries: it adds its own to the trace.
    Observer: ("moved", "attempted", "preempts", "waits", "allowed", "bound", "failed"),
}
#: Kind of runs of a single part -> the calls of it that are entries as well: "module:owner", and
#: its methods, or the functions of a module.
CALLS_OF_PART: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "informer": {
        "mooring.client.informer.reflector:Reflector": (
            *("ask", "accepted", "relist", "received", "listed", "ended"),
        )
    },
    "writes": {"mooring.client.write_queue:WriteQueue": ("put", "remove", "_after")},
    "slots": {
        "mooring.scheduler.binding_tasks:BindingTasks": (
            *("request", "start_request", "end_request", "wait_for_slot"),
        )
    },
    "handle": {
        "mooring.scheduler.plugin_handle:PluginHandle": (
            *("lister", "activate", "is_preempting", "call_later", "report", "read", "patch"),
            *("until", "changed"),
        )
    },
    "conditions": {"tests.faults.parts.conditions_run": ("wait_for_devices",)},
    "claim_errors": {
        "mooring.scheduler.resource_claims.claim_writer:ClaimWriter": (
            *("create", "reserve", "record", "unreserve", "delete", "apply", "start"),
        )
    },
    "pool": {
        "tests.faults.parts.pool_network:Network": ("received", "aborted", "connect"),
        "tests.faults.parts.pool_run:PoolRun": ("_check_response", "_check_error"),
    },
    "claim_store": {"mooring.state.devices.claims:Claims": ("put", "remove", "assume", "restore")},
}
#: The kinds of whole runs. The windows of their records are seconds; of all others they are numbers
#: of entries.
WHOLE: Final = ("swarm", "crowd", "reactive", "pause", "lease", "volume", "device", "extender")
#: So many seeds of a single part have the results of its calls as entries: it takes three times
#: as long.
SEEDS_WITH_RESULTS: Final = 10
_is_paused: Final = ContextVar("is_paused", default=False)
#: What a log record has besides the fields that its call passes.
_STANDARD: Final = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class Entry(NamedTuple):
    """Something that a run did: virtual seconds, and a text in one line."""

    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.at_s:.6f} {self.text}"


class Recording:
    """The entries of a run.

    Attributes:
        entries: In their order; the times of several loops each begin at 0.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._queues: list[SchedulingQueue] = []
        self._metrics: list[Metrics] = []

    def add(self, text: str) -> None:
        """Appends an entry with the virtual time; 0 without a virtual loop."""
        if _is_paused.get():
            return
        loop = asyncio._get_running_loop()
        self.entries.append(Entry(loop.time() if isinstance(loop, VirtualLoop) else 0.0, text))

    def close(self) -> None:
        """Appends the counters that have been reached."""
        for number, queue in enumerate(self._queues):
            for (name, why), count in sorted(queue.moves.items(), key=str):
                self.add(f"queue {number} moved {name.value} {why}: {count}")
        for number, metrics in enumerate(self._metrics):
            for line in _counters(metrics):
                self.add(f"metrics {number} {line}")

    @property
    def digest(self) -> str:
        """The SHA-256 of all entries, in hexadecimal."""
        digest = hashlib.sha256()
        for entry in self.entries:
            digest.update(f"{entry}\n".encode())
        return digest.hexdigest()

    # -- what is wrapped --------------------------------------------------------------------------

    def attach(self, patch: pytest.MonkeyPatch, kind: str) -> None:
        """Wraps the methods until the patch is undone."""
        of_part = CALLS_OF_PART.get(kind, {})
        calls: dict[Any, tuple[str, ...]] = {
            **CALLS,
            **{pkgutil.resolve_name(name): methods for name, methods in of_part.items()},
        }
        for owner, names in calls.items():
            for name in names:
                patch.setattr(owner, name, self._recorded(owner, name))
        self._note_instances(patch, SchedulingQueue, self._queues)
        self._note_instances(patch, Metrics, self._metrics)
        self._wrap_transport(patch, ReadClient, "transport")
        self._wrap_transport(patch, LeaseRequests, "_transport")
        patch.setattr(ApiServer, "handle", self._handle(ApiServer.handle))
        patch.setattr(HTTPExtender, "__init__", self._extender(HTTPExtender.__init__))
        patch.setattr(Trace, "add", self._trace(Trace.add))

    def _recorded(self, owner: Any, name: str) -> Callable[..., Any]:
        real = getattr(owner, name)
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"

        @functools.wraps(real)
        def call(self_: Any, *args: Any, **more: Any) -> Any:
            self.add(f"{label}({text_of([*args, *more.values()])})")
            try:
                result = real(self_, *args, **more)
            except BaseException as error:
                self.add(f"{label} raised {text_of(error)}")
                raise
            if result is not None:
                self.add(f"{label} returned {text_of(result)}")
            return result

        @functools.wraps(real)
        async def call_later(self_: Any, *args: Any, **more: Any) -> Any:
            self.add(f"{label}({text_of([*args, *more.values()])})")
            try:
                result = await real(self_, *args, **more)
            except BaseException as error:
                self.add(f"{label} raised {text_of(error)}")
                raise
            self.add(f"{label} returned {text_of(result)}")
            return result

        return call_later if inspect.iscoroutinefunction(real) else call

    def _note_instances(self, patch: pytest.MonkeyPatch, owner: type, instances: list[Any]) -> None:
        real = owner.__init__  # type: ignore[misc]

        @functools.wraps(real)
        def init(self_: Any, *args: Any, **more: Any) -> None:
            real(self_, *args, **more)
            instances.append(self_)

        patch.setattr(owner, "__init__", init)

    def _wrap_transport(self, patch: pytest.MonkeyPatch, owner: type, attribute: str) -> None:
        real = owner.__init__  # type: ignore[misc]

        @functools.wraps(real)
        def init(self_: Any, *args: Any, **more: Any) -> None:
            real(self_, *args, **more)
            setattr(self_, attribute, RecordedTransport(getattr(self_, attribute), self.add))

        patch.setattr(owner, "__init__", init)

    def _handle(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        async def handle(
            self_: Any, method: str, path: str, query: Any, headers: Any, body: bytes
        ) -> Any:
            self.add(f"server {method} {path} {text_of(query)} {text_of(body)}")
            answer = await real(self_, method, path, query, headers, body)
            content = answer[2] if isinstance(answer[2], bytes) else b"a stream"
            self.add(f"server answers {answer[0]} {_short(content)}")
            return answer

        return handle

    def _extender(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def init(self_: Any, *args: Any, **more: Any) -> None:
            real(self_, *args, **more)
            post = self_._post

            async def recorded(verb: str, body: bytes, bytes_max: int) -> bytes:
                self.add(f"extender {verb} {text_of(body)}")
                try:
                    answer: bytes = await post(verb, body, bytes_max)
                except BaseException as error:
                    self.add(f"extender {verb} raised {text_of(error)}")
                    raise
                self.add(f"extender {verb} answers {_short(answer)}")
                return answer

            self_._post = recorded

        return init

    def _trace(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def add(trace: Trace, at_s: float, text: str) -> None:
            real(trace, at_s, text)
            self.add(f"trace {text}")

        return add


class RecordedTransport:
    """A transport whose requests and answers are entries; it has the attributes of the real one."""

    def __init__(self, inner: Transport, add: Callable[[str], None]) -> None:
        self._recorded = inner
        self._add = add

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorded, name)

    async def request(self, request: Request) -> Response:
        """Sends a request."""
        what = f"{request.method} {request.path}"
        self._add(f"client {what} {text_of(request.query)} {text_of(request.body)}")
        try:
            response = await self._recorded.request(request)
        except BaseException as error:
            self._add(f"client {what} raised {text_of(error)}")
            raise
        self._add(f"client {what} got {response.status} {_short(response.body)}")
        return response

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Opens a stream."""
        self._add(f"client watches {request.path} {text_of(request.query)} {idle_s:g}")
        async with self._recorded.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        """Closes the real one."""
        await self._recorded.close()


class _LogEntries(logging.Handler):
    """Makes an entry of each log record from WARNING on: its constant message and its fields."""

    def __init__(self, add: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._add = add

    def emit(self, record: logging.LogRecord) -> None:
        """Appends an entry."""
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        error = record.exc_info[1] if record.exc_info else None
        what = f"{record.levelname} {record.name} {record.msg}"
        self._add(f"log {what} {text_of(record.args)} {text_of(fields)} {text_of(error)}")


@contextmanager
def unrecorded() -> Iterator[None]:
    """Records nothing during the block: a check makes calls of its own."""
    token = _is_paused.set(True)
    try:
        yield
    finally:
        _is_paused.reset(token)


def has_results(kind: str, seed: int) -> bool:
    """Returns whether a run has the results of calls as entries."""
    return kind not in WHOLE and seed < SEEDS_WITH_RESULTS


@contextmanager
def recording(kind: str, seed: int) -> Iterator[Recording]:
    """Records what a seed's run of a kind does during the block."""
    recorded = Recording()
    logger, handler = logging.getLogger("mooring"), _LogEntries(recorded.add)
    disabled, propagates, level = logging.root.manager.disable, logger.propagate, logger.level
    logging.disable(logging.NOTSET)
    logger.addHandler(handler)
    # The handlers of the root print them.
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        with pytest.MonkeyPatch.context() as patch:
            recorded.attach(patch, kind)
            # The runs of parts call the code under test; whole runs see it through its clients.
            with recorded_results(recorded.add) if has_results(kind, seed) else nullcontext():
                yield recorded
            recorded.close()
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        logger.setLevel(level)
        logging.disable(disabled)


def _short(content: bytes) -> str:
    """Returns the length of a body and a hash of it, and its text if it is short."""
    text = without_addresses(content.decode()).encode()
    return f"{len(text)} bytes {hashlib.sha256(text).hexdigest()[:8]}"


def _counters(metrics: Metrics) -> Iterator[str]:
    """Yields the counters that are not 0, in the order of their names and labels."""
    for name, family in sorted(metrics._families.items()):
        if family.kind != COUNTER:
            continue
        for labels, number in sorted(metrics.numbers(name).children.items()):
            if number.value:
                yield f"{name} {text_of(labels)} {number.value:g}"
