"""Persistence: saves a server's objects to a file, and loads them at the next start.

While the server runs, the file is written in slices, so that requests are served in between.

::

    current objects ──> slice, slice, slice ... ──> temporary file ──> replaces the old file
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mooring.apiserver.storage.store import SnapshotError
from mooring.errors import ConfigError
from mooring.files import remove_partial_files, replaced_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.apiserver.server import ApiServer

#: Bytes written between two syncs: one sync of everything would take seconds.
SYNC_BYTES = 4 << 20
#: More versions than can be written, and lost, between two saves.
LOST_VERSIONS_MAX = 1 << 20
_NO_FOLDER = "cannot be written: its folder does not exist"


class SnapshotFile:
    """The file that has a server's objects between two runs.

    Attributes:
        target: The file itself: links of the path are followed once, at the start.
    """

    def __init__(self, api: ApiServer, path: Path) -> None:
        """Reads and writes nothing yet.

        Args:
            api: The server.
            path: The file, as errors name it; it may be missing.

        Raises:
            ConfigError: The path leads to something else than a regular file, or nowhere.
        """
        self._api = api
        self._path = path
        self.target = _regular_file(path)
        self._saved_version = -1

    @property
    def is_saved(self) -> bool:
        """True if the file has the latest version of the store."""
        return self._saved_version == self._api.store.version

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from using the file during the block, as etcd locks its folder.

        The lock is that of an empty file beside it, ``.NAME.lock``; it ends with the process,
        however that ends.

        Raises:
            ConfigError: Another process uses the file, or its folder cannot be written.
        """
        path = self.target.with_name(f".{self.target.name}.lock")
        try:
            lock = _locked_file(path)
        except BlockingIOError as error:
            raise ConfigError("another process uses this file", file=str(self._path)) from error
        except FileNotFoundError as error:
            raise ConfigError(_NO_FOLDER, file=str(self._path)) from error
        except OSError as error:
            problem = f"cannot be locked: {(error.strerror or str(error)).lower()}"
            raise ConfigError(problem, file=str(self._path)) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(lock)

    def load(self) -> None:
        """Loads the objects from the file, if it exists.

        Clients may have read versions that were written after the last save and lost in a crash.
        These versions must not be reused, so they are skipped, and the file is saved again.

        Raises:
            ConfigError: The file cannot be read or written, or is no snapshot.
        """
        remove_partial_files(self.target)
        try:
            self._api.load(self.target.read_bytes())
        except FileNotFoundError as error:
            if not self.target.parent.is_dir():
                raise ConfigError(_NO_FOLDER, file=str(self._path)) from error
            return
        except (OSError, SnapshotError) as error:
            raise ConfigError(str(error), file=str(self._path)) from error
        self._api.store.skip_versions(LOST_VERSIONS_MAX)
        self.save()

    def save(self) -> None:
        """Writes the objects to the file atomically, if something has changed.

        Raises:
            ConfigError: The file cannot be written.
        """
        with self._saving() as steps:
            for _ in steps:
                pass

    async def save_async(self) -> None:
        """Saves in slices while requests are served; their writes are not included.

        Raises:
            ConfigError: The file cannot be written.
        """
        with self._saving() as steps:
            for _ in steps:
                await asyncio.sleep(0)

    @contextmanager
    def _saving(self) -> Iterator[Iterator[None]]:
        """Yields the steps of saving; none if nothing has changed."""
        if self.is_saved:
            yield iter(())
            return
        version = self._api.store.version
        slices = self._api.store.snapshot_slices()
        try:
            with new_private_file(self.target) as file:
                yield _write_slices(file, slices)
        except OSError as error:
            raise ConfigError(error.strerror or str(error), file=str(self._path)) from error
        self._saved_version = version


def _regular_file(path: Path) -> Path:
    """Returns the file that a path leads to; reading a pipe or a device might never end.

    Raises:
        ConfigError: It is not a regular file, or its folder cannot be read.
    """
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ConfigError("not a regular file", file=str(path))
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(problem, file=str(path)) from error
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:  # the path is relative, the working directory deleted
        raise ConfigError(_NO_FOLDER, file=str(path)) from error


def _locked_file(path: Path) -> int:
    """Creates and locks a file; returns its descriptor.

    Raises:
        BlockingIOError: Another process has locked it.
        OSError: It cannot be created.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except BaseException:
            os.close(lock)
            raise
        # Another process had it, and has removed it since.
        os.close(lock)


def _write_slices(file: BinaryIO, slices: Iterator[bytes]) -> Iterator[None]:
    unsynced = 0
    for chunk in slices:
        file.write(chunk)
        unsynced += len(chunk)
        if unsynced >= SYNC_BYTES:
            file.flush()
            os.fdatasync(file.fileno())
            unsynced = 0
        yield


@contextmanager
def new_private_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that only its owner can read; replaces ``path`` if the block succeeds.

    The file is created with its mode, so that others can never read it. The target of a link is
    replaced, and the link stays.

    Raises:
        OSError: The file cannot be written.
    """
    if path.exists() and not path.is_file():
        # It would be replaced: root could lose a device such as /dev/null.
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with replaced_file(path, mode=0o600) as file:
        yield file
