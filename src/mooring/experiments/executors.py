"""Executors of sweeps: processes of this machine, a Dask cluster, or Ray.

The only interface is ``concurrent.futures.Executor``. Dask and Ray are extras, and imported when a
sweep asks for them. A run whose worker is killed raises ``BrokenExecutor``, with each of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, TypeAlias

from mooring.errors import ConfigError
from mooring.experiments.trials import executor, without_main_file

#: Gives an executor with so many workers.
Pools: TypeAlias = Callable[[int], AbstractContextManager[Executor]]
#: Module -> what an error says to install.
_EXTRAS: Final = {"dask": "dask", "distributed": "dask", "ray": "ray"}
#: A cluster that does not answer for so long is given up.
_CONNECT_S: Final = 30


def pools_of(text: str) -> Pools:
    """Returns the executors that a text names.

    Args:
        text: "processes", "dask" or "ray", for workers on this machine; "dask:ADDRESS" or
            "ray:ADDRESS" for a cluster, with as many workers as it has.

    Raises:
        ConfigError: it names none, or the library is not installed.
    """
    name, _, address = text.partition(":")
    if name == "processes" and not address:
        return executor
    if name == "dask":
        _imported("distributed")
        return lambda workers: _dask(workers, address)
    if name == "ray":
        _imported("ray")
        return lambda workers: _ray(workers, address)
    problem = "must be processes, dask, dask:ADDRESS, ray or ray:ADDRESS"
    raise ConfigError(problem, path="--on", value=text)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name != module:
            problem = f"{_EXTRAS[module]} cannot be imported: {error}"
            raise ConfigError(problem) from error
        extra = _EXTRAS[module]
        raise ConfigError(f"{extra} is not installed: pip install mooring[{extra}]") from None


class _Outside(Executor):
    """Calls functions elsewhere.

    Args:
        start: Starts a call; its future has the result, or an error.
        kills: The errors that say that a worker is gone.
    """

    def __init__(
        self, start: Callable[..., Future[Any]], kills: tuple[type[BaseException], ...]
    ) -> None:
        self._start = start
        self._kills = kills
        self._started: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a function; its future raises ``BrokenExecutor`` if the worker is killed."""
        outer: Future[Any] = Future()
        inner = self._start(fn, *args, **kwargs)
        self._started.append(inner)
        inner.add_done_callback(lambda own: self._finish(own, outer))
        return outer

    def _finish(self, inner: Future[Any], outer: Future[Any]) -> None:
        if not outer.set_running_or_notify_cancel():
            return
        if inner.cancelled():
            outer.set_exception(BrokenExecutor("the cluster has cancelled a run"))
            return
        error = inner.exception()
        if error is None:
            outer.set_result(inner.result())
        elif isinstance(error, self._kills):
            outer.set_exception(BrokenExecutor(str(error)))
        else:
            outer.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drops what has not begun."""
        del wait, cancel_futures
        for future in self._started:
            future.cancel()


# -- Dask ---------------------------------------------------------------------------------------


@contextmanager
def _dask(workers: int, address: str) -> Iterator[Executor]:
    """Gives an executor on a Dask cluster: that of an address, or one of this machine.

    Raises:
        ConfigError: nothing answers at the address.
    """
    distributed = _imported("distributed")
    killed = importlib.import_module("distributed.scheduler").KilledWorker
    # Without retries of its own: a run that kills its worker is counted by the sweep.
    settings = _imported("dask").config.set({"distributed.scheduler.allowed-failures": 0})
    with settings, without_main_file():
        cluster = (
            None
            if address
            else distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        )
    try:
        client = distributed.Client(cluster or address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no Dask cluster can be used: {error}", value=address) from error
    try:
        inner = client.get_executor(pure=False)
        with _Outside(inner.submit, (killed,)) as own:
            yield own
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


# -- Ray ----------------------------------------------------------------------------------------


@contextmanager
def _ray(workers: int, address: str) -> Iterator[Executor]:
    """Gives an executor on Ray: the cluster of an address, or one of this machine.

    Raises:
        ConfigError: nothing answers at the address.
    """
    ray = _imported("ray")
    options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
    if not address:
        options["include_dashboard"] = False
    try:
        ray.init(log_to_driver=False, logging_level=50, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster can be used: {error}", value=address or None) from error
    # As with Dask.
    call = ray.remote(num_cpus=1, max_retries=0)(_call)
    paths = [] if address else [*sys.path]

    def start(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = call.remote(paths, function, args, kwargs).future()
        return future

    errors = ray.exceptions
    kills = (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError)
    try:
        with _Outside(start, kills) as own:
            yield own
    finally:
        with suppress(RuntimeError):
            ray.shutdown()


def _call(paths: list[str], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a function where modules are imported from the same folders."""
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    return function(*args, **kwargs)
