"""The port of an embedded API server, its kubeconfig, and the option ``--kubeconfig-out``.

The default is in a private folder of the user, not in the current folder: the file holds an
administrator's token, and the current folder may be a repository.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from mooring.errors import ConfigError

#: Advice in errors.
OTHER_FILE: Final = "another file can be chosen with --kubeconfig-out"

Command = TypeVar("Command", bound=Callable[..., Any])
Server = TypeVar("Server")


def kubeconfig_out(name: str) -> Callable[[Command], Command]:
    """Returns the option; ``name`` is the file's name in the default folder."""
    return click.option(
        "--kubeconfig-out",
        "kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="File for the administrator's kubeconfig (mode 0600).  "
        f"[default: {name} in $XDG_RUNTIME_DIR/mooring, else in ~/.cache/mooring]",
    )


@asynccontextmanager
async def listening(
    server: AbstractAsyncContextManager[Server], port: int
) -> AsyncIterator[Server]:
    """Serves during the block.

    Args:
        server: The server, not started yet.
        port: Its port.

    Raises:
        ConfigError: the port is in use.
    """
    async with AsyncExitStack() as stack:
        try:
            entered = await stack.enter_async_context(server)
        except OSError as error:
            place = str(error.filename or f"port {port}")
            raise ConfigError(error.strerror or str(error), path=place) from error
        yield entered


def write_kubeconfig(
    file: Path | None, name: str, content: str, environment: Mapping[str, str] = os.environ
) -> str:
    """Writes a kubeconfig and returns the ``export KUBECONFIG`` line for a shell.

    Args:
        file: Path; its folder must exist. None: ``name`` in the default folder, which is created
            with mode 0700.
        name: Name of the file in the default folder.
        content: Content of the file.
        environment: Environment variables that name the default folder.

    Raises:
        ConfigError: the file or the folder cannot be written.
    """
    from mooring.apiserver.http_server.certificates import write_private

    path = kubeconfig_path(file, name, environment)
    try:
        if file is None:
            folder = path.parent
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)  # an earlier version, or a control plane, may have created it
        write_private(path, content.encode())
    except OSError as error:
        raise _not_written(path, error) from error
    return f"export KUBECONFIG={shlex.quote(str(path))}"


def kubeconfig_path(
    file: Path | None, name: str, environment: Mapping[str, str] = os.environ
) -> Path:
    """Returns the absolute path of the file that ``write_kubeconfig`` writes.

    Raises:
        ConfigError: the path is relative, and the working directory has been deleted.
    """
    if file is None:
        return default_folder(environment) / name
    try:
        return file.absolute()
    except FileNotFoundError as error:
        raise _not_written(file, error) from error


def _not_written(path: Path, error: OSError) -> ConfigError:
    problem = f"the kubeconfig cannot be written: {error.strerror or error}"
    return ConfigError(f"{problem}; {OTHER_FILE}", file=str(path))


def default_folder(environment: Mapping[str, str]) -> Path:
    """Returns ``mooring`` in the user's runtime folder, or in the cache if there is none.

    A runtime folder is private and is removed with the login session. Containers and cron jobs
    have none. Relative paths are ignored, as the XDG specification says.
    """
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.access(runtime, os.W_OK | os.X_OK):
        return Path(runtime) / "mooring"
    cache = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(cache) / "mooring"
