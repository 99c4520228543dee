"""Informers against a real API server that is cut off, killed, compacted and very busy.

At the end of each test the cache equals the server's list, and the handler, which believes nothing,
has seen each state of each object at most once and in order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import ObjectChange
from mooring.client.rest.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.errors import ApiError, OutcomeUnknown, Unreachable
from mooring.objects import ObjectMeta, Pod
from mooring.objects.meta import key
from mooring.objects.pod import Container, PodSpec
from mooring.testing.controlplane import ControlPlane

SECONDS_MAX = 240.0
DROPS = 1000
OBJECTS = 5_000

#: Of a list of so many pods, which is 8 MB.
MIDDLE_BYTES = 3_000_000
WRITERS = 32


@pytest.fixture(scope="module")
def own(programs: Path) -> Iterator[ControlPlane]:
    """One for this module; every test leaves it running."""
    with ControlPlane() as plane:
        yield plane


def a_pod(namespace: str, name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="main", image="pause"),))
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


@asynccontextmanager
async def client_of(plane: ControlPlane, url: str = "") -> AsyncIterator[Client]:
    access = read_kubeconfig([str(plane.kubeconfig())])
    if url:
        access = type(access)(
            url, authority=access.authority, certificate=access.certificate, key=access.key
        )
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        yield Client(transport, rng=seeded_random(1))
    finally:
        await transport.close()


class Proxy:
    """Passes bytes on to the server, and cuts connections: after so many bytes, or all at once."""

    def __init__(self, port: int, rng: Random) -> None:
        self.cuts = 0
        self.passed_bytes = 0
        self.is_cutting = False
        self.is_open = True
        self.url = ""
        self._port = port
        self._rng = rng
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self.cut_all()
            server.close()
            await server.wait_closed()

    def cut_all(self) -> None:
        """Resets every connection that there is."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            writer.transport.abort()
            return
        # Refused while the server is down: then this end goes too.
        with suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._open |= {writer, server_writer}
            # A handshake takes 3 kB: some connections die within it, most in the middle of events.
            bytes_max = self._rng.randint(2_000, 12_000) if self.is_cutting else None
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, server_writer, writer, None))
                tasks.create_task(self._pass(server_reader, writer, server_writer, bytes_max))
            self._open -= {writer, server_writer}
        writer.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        bytes_max: int | None,
    ) -> None:
        passed = 0
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                if bytes_max is not None and passed + len(data) > bytes_max:
                    writer.write(data[: bytes_max - passed])
                    self.cuts += 1
                    break
                passed += len(data)
                self.passed_bytes += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()
        back.transport.abort()


class Witness:
    """A handler that believes nothing."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.newest: dict[str, int] = {}
        self.n_changes = 0

    def __call__(self, change: ObjectChange) -> None:
        self.n_changes += 1
        name = key(change.new if change.new is not None else change.old)
        assert self.seen.get(name) is change.old
        if change.new is None:
            del self.seen[name]
            return
        version = int(change.new.metadata.resource_version)
        assert version > self.newest.get(name, 0), "no state twice, none after a newer one"
        self.newest[name] = version
        self.seen[name] = change.new


def states(objects: Any) -> dict[str, tuple[str, str]]:
    return {key(obj): (obj.metadata.uid, obj.metadata.resource_version) for obj in objects}


class Scene:
    """A plane, a client that goes straight to it, and an informer behind a proxy."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.witness = Witness()
        self.rng = seeded_random(5)
        self.n_kills = 0
        self.client: Client
        self.proxy: Proxy
        self.informer: Informer

    @asynccontextmanager
    async def playing(
        self, *, is_patient: bool = True, by_pages: bool = False
    ) -> AsyncIterator[Scene]:
        """Runs the informer; one that is not patient never waits between requests."""
        port = int(self.plane.url.rpartition(":")[2])

        async def at_once(_: float) -> None:
            await asyncio.sleep(0)

        async with (
            asyncio.timeout(SECONDS_MAX),
            Proxy(port, self.rng).running() as self.proxy,
            client_of(self.plane) as self.client,
            client_of(self.plane, self.proxy.url) as watcher,
        ):
            self.informer = Informer(
                watcher,
                "Pod",
                self.witness,
                namespace=self.namespace,
                clock=SystemClock(),
                rng=self.rng,
                sleep=asyncio.sleep if is_patient else at_once,
            )
            if by_pages:
                # As with a server that cannot list by watching.
                self.informer._reflector.ended(None)
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(self.informer.run())
                await self.informer.wait_until_synced()
                yield self
                running.cancel()

    async def wait_until_equal(self) -> None:
        """Waits until the cache equals the server's list, which does not change now."""
        listed = await self.client.list("Pod", self.namespace)
        wanted = states(listed.items)
        await until(lambda: states(self.informer.objects.values()) == wanted)
        assert states(self.witness.seen.values()) == wanted

    async def kill_in_the_middle_of_the_list(self) -> None:
        """Kills the API server when some of the first list has come, and start it again."""
        await until(lambda: hasattr(self, "proxy") and self.proxy.passed_bytes > MIDDLE_BYTES)
        assert not self.informer.has_synced
        await asyncio.to_thread(self.plane.apiserver.kill)
        await asyncio.to_thread(self.plane.apiserver.restart)
        await asyncio.to_thread(self.plane.apiserver.wait_until_ready)
        self.n_kills += 1

    def has_seen_less_than(self, n_changes: int) -> bool:
        """Returns whether the handler was called for fewer changes so far."""
        return self.witness.n_changes < n_changes

    async def wait_for_changes(self, count: int) -> None:
        """Waits until the handler was called for so many more changes."""
        wanted = self.witness.n_changes + count
        await until(lambda: self.witness.n_changes >= wanted)

    async def churn(self, worker: int, goes_on: Callable[[], bool]) -> None:
        """Creates, changes, binds, deletes and recreates pods while ``goes_on`` is true."""
        number = 0
        while goes_on():
            number += 1
            name = f"churn-{worker}-{number % 5}"
            with suppress(ApiError, OutcomeUnknown, Unreachable):
                pod = await self.client.create(a_pod(self.namespace, name))
                label = {"metadata": {"labels": {"number": str(number)}}}
                await self.client.patch("Pod", name, label, namespace=self.namespace)
                await self.client.bind(pod, f"node-{worker}")
            if self.rng.random() < 0.7:
                with suppress(ApiError, OutcomeUnknown, Unreachable):
                    await self.client.delete("Pod", name, self.namespace, grace_period_s=0)
            await asyncio.sleep(0)


async def until(holds: Callable[[], Any]) -> None:
    """Waits until a condition holds; the scene has a deadline."""
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.01)


def new_namespace(plane: ControlPlane, name: str) -> str:
    plane.kubectl("create", "namespace", name)
    return name


@pytest.mark.slow
def test_a_thousand_watches_are_cut_and_nothing_is_lost_or_doubled(own: ControlPlane) -> None:
    async def main() -> None:
        scene = Scene(own, new_namespace(own, "cut"))
        async with scene.playing(is_patient=False) as scene:
            scene.proxy.is_cutting = True
            scene.proxy.cut_all()
            async with asyncio.TaskGroup() as tasks:
                for worker in range(6):
                    tasks.create_task(scene.churn(worker, lambda: scene.proxy.cuts < DROPS))
            scene.proxy.is_cutting = False
            scene.proxy.cut_all()
            await scene.wait_until_equal()
            assert scene.proxy.cuts >= DROPS
            assert scene.witness.n_changes > DROPS
            # A cut before the answer is a reason for a list, one in the middle of events is not.
            assert scene.informer.statistics().lists < DROPS / 4

    asyncio.run(main())


@pytest.mark.slow
def test_a_server_that_is_killed_in_the_middle_comes_back_to_the_same_cache(
    own: ControlPlane,
) -> None:
    async def main() -> None:
        scene = Scene(own, new_namespace(own, "killed"))
        async with scene.playing() as scene:
            is_over = False
            async with asyncio.TaskGroup() as tasks:
                for worker in range(4):
                    tasks.create_task(scene.churn(worker, lambda: not is_over))
                for part in (own.apiserver, own.etcd, own.apiserver):
                    await scene.wait_for_changes(50)
                    await asyncio.to_thread(part.kill)
                    await asyncio.to_thread(part.restart)
                    await asyncio.to_thread(own.apiserver.wait_until_ready)
                await scene.wait_for_changes(50)
                is_over = True
            await scene.wait_until_equal()

    asyncio.run(main())


@pytest.mark.slow
def test_what_happened_before_a_compaction_is_found_by_one_list(own: ControlPlane) -> None:
    async def main() -> None:
        scene = Scene(own, new_namespace(own, "compacted"))
        async with scene.playing() as scene:
            for name in ("goes", "stays", "changes", "another"):
                await scene.client.create(a_pod(scene.namespace, name))
            await scene.wait_until_equal()
            scene.proxy.is_open = False
            scene.proxy.cut_all()
            for name in ("goes", "another"):
                await scene.client.delete("Pod", name, scene.namespace, grace_period_s=0)
            for name in ("another", "comes"):
                await scene.client.create(a_pod(scene.namespace, name))
            label = {"metadata": {"labels": {"a": "b"}}}
            await scene.client.patch("Pod", "changes", label, namespace=scene.namespace)
            await asyncio.to_thread(own.compact)
            await asyncio.to_thread(own.apiserver.restart)
            scene.proxy.is_open = True
            await scene.wait_until_equal()
            statistics = scene.informer.statistics()
            assert statistics.lists == 2
            assert statistics.missed_deletes == 2, "one is gone, one is another of its name"

    asyncio.run(main())


async def list_late(late: Scene, *, by_pages: bool, is_killed: bool) -> None:
    """Takes in all objects at once, while they change and perhaps the server is killed."""
    async with asyncio.TaskGroup() as tasks:
        killer = tasks.create_task(late.kill_in_the_middle_of_the_list()) if is_killed else None
        async with late.playing(by_pages=by_pages) as late_scene:
            wanted = late_scene.witness.n_changes + 200
            goes_on = partial(late_scene.has_seen_less_than, wanted)
            await asyncio.gather(*(late_scene.churn(worker, goes_on) for worker in range(4)))
            await late_scene.wait_until_equal()
            if killer is not None:
                await killer  # the informer may know that the server is back before it does
            # A server that starts answers lists before its watch cache is filled. No watch can
            # continue such a list if anything was written in between, so there is a second one.
            assert 1 <= late_scene.informer.statistics().lists <= 1 + is_killed
            assert late_scene.n_kills == is_killed


@pytest.mark.slow
def test_thousands_of_objects_are_listed_and_followed(own: ControlPlane) -> None:
    async def main() -> None:
        scene = Scene(own, new_namespace(own, "many"))
        numbers = iter(range(OBJECTS))

        async def create() -> None:
            for number in numbers:
                await scene.client.create(a_pod(scene.namespace, f"pod-{number:05}"))

        async with scene.playing() as scene:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(WRITERS):
                    tasks.create_task(create())
            await until(lambda: len(scene.informer.objects) == OBJECTS)
            await scene.wait_until_equal()
        # Later ones get all of them as one list, as a stream and by pages; the server is killed in
        # the middle of it, and others go on changing things.
        for by_pages, is_killed in ((True, False), (True, True), (False, True)):
            await list_late(Scene(own, scene.namespace), by_pages=by_pages, is_killed=is_killed)
        # What went while it was away, behind a compaction, is found among all of them.
        async with Scene(own, scene.namespace).playing() as scene:
            await scene.wait_until_equal()
            scene.proxy.is_open = False
            scene.proxy.cut_all()
            for number in range(100):
                await scene.client.delete(
                    "Pod", f"pod-{number:05}", scene.namespace, grace_period_s=0
                )
            await asyncio.to_thread(own.compact)
            await asyncio.to_thread(own.apiserver.restart)
            scene.proxy.is_open = True
            await scene.wait_until_equal()
            statistics = scene.informer.statistics()
            assert (statistics.lists, statistics.missed_deletes) == (2, 100)

    asyncio.run(main())
