"""Feeds what ``mooring start`` and ``mooring dump`` read: files, a saved state, and a server.

Each reader may raise its documented error, which says where; what it accepts has to be usable.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

from mooring.apiserver.server import ApiServer
from mooring.apiserver.storage.store import SnapshotError
from mooring.cli.dump import list_lines
from mooring.client.transport.kubeconfig import Access, read_kubeconfig
from mooring.clock import SystemClock, VirtualClock, seeded_random
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.kinds import KINDS
from mooring.scenario.read import read_scenario
from mooring.simulation.device_file import device_objects, read_device_file
from mooring.simulation.inputs.live_cluster import NOT_USED, WORKLOADS, list_objects, list_raw
from mooring.simulation.workload import read_workload
from mooring.testing import make_node

#: Nodes that files of devices are for.
_NODES: Final = [make_node(f"gpu-{number}", labels={"pool": "gpu"}) for number in range(3)]
#: What the server of ``feed_answer`` sends for all collections but the one that is fuzzed.
_EMPTY: Final = b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}'
#: The token of the corpus of kubeconfigs.
_TOKEN: Final = "s3cr3t-token"
#: Kind -> the collection that a scheduler lists.
_PATHS: Final = {
    **{kind.name: kind.path for kind in KINDS.values() if kind.name not in NOT_USED},
    **dict(WORKLOADS),
}
_LIST_NAME: Final = re.compile(rb'"kind": ?"(\w+)List"')
_VERSION: Final = b'{"major":"1","minor":"36"}'


def feed_devices(data: bytes) -> None:
    """Reads a file of devices, and makes the objects of some nodes.

    Raises:
        ConfigError: it is refused.
        AssertionError: the error does not say where.
    """
    with input_file(data) as path:
        for obj in device_objects(read_device_file(path), _NODES):
            assert obj.metadata.name


def feed_scenario(data: bytes) -> None:
    """Reads a scenario; it is not run.

    Raises:
        ConfigError: it is refused.
        AssertionError: the error does not say where.
    """
    with input_file(data) as path:
        read_scenario(path)


def feed_kubeconfig(data: bytes) -> None:
    """Reads the kubeconfig of a server.

    Raises:
        ConfigError: it is refused.
        AssertionError: the error does not say where, or the representation has the token.
    """
    with input_file(data) as path:
        access = read_kubeconfig([path], allow_unverified=True)
    is_elsewhere = data.count(_TOKEN.encode()) > 1  # a user may have its name
    assert access.token != _TOKEN or is_elsewhere or _TOKEN not in repr(access)


@contextmanager
def input_file(data: bytes) -> Iterator[str]:
    """Writes a file for the block, whose errors must say where; the next input overwrites it."""
    file = _file()
    file.seek(0)
    file.write(data)
    file.truncate()
    try:
        yield file.name
    except ConfigError as error:
        for own in error.errors if isinstance(error, ConfigErrors) else [error]:
            assert own.file or own.path, f"no place: {own}"
        raise


@cache
def _file() -> Any:
    """Returns the file of the input: to make and remove one takes longer than most readers."""
    return tempfile.NamedTemporaryFile(suffix=".yaml", buffering=0)


def feed_snapshot(data: bytes) -> None:
    """Loads the state of an API server, in the format without a checksum.

    The servers have the state of an earlier input, of which nothing may stay. A server with which
    an input failed is not used again.

    Raises:
        SnapshotError: it is refused.
        AssertionError: what is saved after it cannot be loaded, or is not the same.
    """
    server, again = _servers()
    is_usable = False
    try:
        server.load(data)
        saved = server.store.snapshot()
        again.load(saved)
        assert again.store.snapshot() == saved
        is_usable = True
    except SnapshotError:
        is_usable = True  # a load that is refused changes nothing
        raise
    finally:
        if not is_usable:
            _servers.cache_clear()


@cache
def _servers() -> tuple[ApiServer, ApiServer]:
    first, second = (ApiServer(clock=VirtualClock(), rng=seeded_random(0)) for _ in range(2))
    return first, second


def feed_answer(data: bytes) -> None:
    """Lists a cluster whose server sends ``data`` for a kind, and reads what ``dump`` writes.

    It is the kind whose list is named first in ``data``; pods if none is.

    Raises:
        ConfigError: the list, or what is dumped, is refused.
        AssertionError: the file has other objects, or an error about it does not say where.
    """
    path = _path_of(data)
    listed = asyncio.run(listed_from(data, list_raw, path=path))
    with suppress(ConfigError):
        asyncio.run(listed_from(data, list_objects, path=path))
    text = "".join(list_lines(listed.objects))
    assert json.loads(text)["items"] == listed.objects
    with input_file(text.encode()) as path:
        read_workload([path])


def _path_of(data: bytes) -> str:
    for name in _LIST_NAME.findall(data):
        if name.decode() in _PATHS:
            return _PATHS[name.decode()]
    return _PATHS["Pod"]


async def listed_from(
    data: bytes, read: Any, *, path: str = "/api/v1/pods", repeats: bool = False
) -> Any:
    """Runs a reader of live clusters against a server that has objects of only one kind.

    Args:
        data: The body of the list of that kind.
        read: ``list_raw`` or ``list_objects``.
        path: The collection of that kind.
        repeats: Whether each further page of them is the same; else it is empty.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ", 2)[1]
                body = _EMPTY
                if target.startswith(b"/version"):
                    body = _VERSION
                elif target.split(b"?")[0] == path.encode() and (
                    repeats or b"continue" not in target
                ):
                    body = data
                lines = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                writer.write(b"HTTP/1.1 200 OK\r\n" + lines + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    access = Access(server=f"http://127.0.0.1:{port}")
    async with server:
        return await read(access, clock=SystemClock(), rng=seeded_random(0))
