"""Keeping a server's objects in a file between two runs.

While the server answers, the file is written piece by piece: others get their turn in between.

::

    objects of this moment ──> piece, piece, piece ... ──> new file ──> takes the old one's place
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from mooring.apiserver.storage.store import SnapshotError
from mooring.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mooring.apiserver.server import ApiServer

#: What is written before the disk is waited for: a wait for all at once would take seconds.
SYNC_BYTES = 4 << 20
#: More than can be written, and lost, between two times at which all is saved.
LOST_VERSIONS_MAX = 1 << 20


class Keeper:
    """Keeps a server's objects in a file between two runs."""

    def __init__(self, api: ApiServer, path: Path) -> None:
        """Nothing is read or written yet."""
        self._api = api
        self._path = path
        self._saved_version = -1

    @property
    def is_saved(self) -> bool:
        """Whether the file has all that the server has."""
        return self._saved_version == self._api.store.version

    def load(self) -> None:
        """Takes the objects from the file, if there is one.

        What was written after the file and got lost in a crash had versions too, and clients have
        seen them. They must never mean something else, so they are leapt over, for good: the file
        says so at once.

        Raises:
            ConfigError: the file cannot be read or written, or is no snapshot.
        """
        try:
            self._api.load(self._path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, SnapshotError) as error:
            raise ConfigError(str(error), file=str(self._path)) from error
        self._api.store.leap(LOST_VERSIONS_MAX)
        self.save()

    def save(self) -> None:
        """Writes the objects to the file, all or nothing, if something has changed.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._saving() as steps:
            for _ in steps:
                pass

    async def save_slowly(self) -> None:
        """The same while others get their turn; what they write meanwhile is not in it.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._saving() as steps:
            for _ in steps:
                await asyncio.sleep(0)

    @contextmanager
    def _saving(self) -> Iterator[Iterator[None]]:
        """Returns the steps of saving; none if nothing has changed."""
        if self.is_saved:
            yield iter(())
            return
        version = self._api.store.version
        slices = self._api.store.snapshot_slices()
        try:
            with new_private_file(self._path) as file:
                yield _written(file, slices)
        except OSError as error:
            raise ConfigError(error.strerror or str(error), file=str(self._path)) from error
        self._saved_version = version


def _written(file: BinaryIO, slices: Iterator[bytes]) -> Iterator[None]:
    waiting = 0
    for piece in slices:
        file.write(piece)
        waiting += len(piece)
        if waiting >= SYNC_BYTES:
            file.flush()
            os.fdatasync(file.fileno())
            waiting = 0
        yield


@contextmanager
def new_private_file(path: Path) -> Iterator[BinaryIO]:
    """A file that nobody else can read; it takes the place of ``path`` if the block succeeds.

    The file is made with its mode, not given it later: there is no moment at which others could
    read it.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
