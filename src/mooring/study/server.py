"""An API server and a scheduler in a thread, for tests with kubectl and other clients."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from mooring.clock import SystemClock, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.errors import ConfigError, SchedulerError, first_error
from mooring.study.cluster import Cluster, settings_of

#: How long a server may take to start and to stop.
START_S: Final = 60.0
STOP_S: Final = 20.0


class Server:
    """Serves a cluster on a free port of this machine, with a scheduler; a context manager.

    The controllers of Deployments and other workloads run as well.

    Example::

        with mooring.Server(mooring.Cluster.read("cluster.yaml")) as server:
            subprocess.run(["kubectl", "get", "pods"], env={**os.environ, **server.environment})

    Args:
        cluster: What is there at the start; None = nothing.
        config: A KubeSchedulerConfiguration, or its file; None = kube-scheduler's defaults.
        plugins: Further plugins: objects, or ``module:attribute``.
        seed: Of all random numbers.
        kubelets: Whether bound pods become Running.

    Attributes:
        url: The address, such as https://127.0.0.1:41205.
        kubeconfig: The file of an administrator's kubeconfig; it is removed at the end.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        config: KubeSchedulerConfiguration | str | Path | None = None,
        plugins: Sequence[str | Any] = (),
        seed: int = 0,
        kubelets: bool = True,
    ) -> None:
        if cluster is not None and not isinstance(cluster, Cluster):
            raise ConfigError("must be a Cluster", path="cluster", value=cluster)
        self._cluster = cluster or Cluster()
        self._config = settings_of(config)
        self._plugins = plugins
        self._seed = seed
        self._kubelets = kubelets
        self.url = ""
        self.kubeconfig = ""
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._running: Any = None
        self._thread = threading.Thread(target=self._run, name="mooring-server", daemon=True)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable with which kubectl finds the server."""
        return {"KUBECONFIG": self.kubeconfig}

    def __enter__(self) -> Server:
        """Starts the server.

        Raises:
            ConfigError: an object, the configuration or a plugin cannot be used.
            SchedulerError: it has been started before; a server starts once.
        """
        if self._thread.ident is not None:
            state = "running" if self._thread.is_alive() else "closed"
            raise SchedulerError(f"the server is {state}: a Server starts once, make a new Server")
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-")
        self._thread.start()
        is_ready = self._ready.wait(START_S)
        if self._error is not None:
            self._end()
            raise self._error
        if not is_ready:
            self._end()
            raise ConfigError(f"the server did not start within {START_S:g} s")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the server."""
        self._end()

    def settle(self, timeout_s: float = 60.0) -> None:
        """Waits until every pod is bound, or has a reason why it is not.

        Raises:
            TimeoutError: that takes longer than ``timeout_s`` seconds.
            SchedulerError: the server is not running.
        """
        if not self._thread.is_alive():
            is_new = self._thread.ident is None
            problem = "not started: use it in a with block" if is_new else "closed"
            raise SchedulerError(f"the server is {problem}")
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._running.settle(), self._loop).result(timeout_s)

    # -- the thread -------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_S)
        if self._folder is not None:
            self._folder.cleanup()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            self._error = first_error(error)
        finally:
            self._ready.set()

    def _write(self, kubeconfig: str) -> str:
        """Writes the kubeconfig, readable by this user alone, and returns its path."""
        assert self._folder is not None
        file = Path(self._folder.name, "kubeconfig")
        file.touch(mode=0o600)
        file.write_text(kubeconfig, encoding="utf-8")
        return str(file)

    async def _serve(self) -> None:
        from mooring.apiserver import serve
        from mooring.devcluster.cluster import InMemoryCluster
        from mooring.devcluster.seeding import Seed, seeds_of_objects
        from mooring.explain.endpoint import ExplainEndpoint
        from mooring.scheduler.service import ServiceOptions

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        clock = SystemClock()
        running = self._running = InMemoryCluster(
            self._config,
            clock=clock,
            rng=seeded_random(self._seed),
            options=ServiceOptions(plugins=self._plugins),
            with_kubelets=self._kubelets,
            with_volumes=True,
            with_claims=True,
            with_controllers=True,
            waits_to_begin=True,
        )
        workloads = [Seed(dict(raw)) for raw in self._cluster.workloads]
        objects = seeds_of_objects(self._cluster.objects)
        pending = await running.seed([*workloads, *objects])
        async with (
            serve(ExplainEndpoint(running.api, lambda: running.service, clock), port=0) as server,
            asyncio.TaskGroup() as tasks,
        ):
            running.api.publish_authority(server.authority)
            work = tasks.create_task(running.run())
            await running.service.wait_until_synced()
            self.url, self.kubeconfig = server.url, self._write(server.kubeconfig())
            await running.submit(pending)
            running.begin()  # controllers adopt the pods that exist
            self._ready.set()
            await self._stop.wait()
            running.service.stop()
            await work
