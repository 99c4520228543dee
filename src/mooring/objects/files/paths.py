"""Files of a command line and their bytes: folders, standard input, gzip, limits.

Nothing here knows what the bytes mean.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from mooring.errors import ConfigError
from mooring.objects.files.limits import (
    COMPRESSION_FREE_BYTES,
    COMPRESSION_RATIO_MAX,
    FILE_BYTES_MAX,
    FILES_MAX,
)

#: On a command line: read standard input.
STANDARD_INPUT = "-"

#: Suffixes of the files read from a folder; each also with ``.gz``.
SUFFIXES = (".yaml", ".yml", ".json")

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1024**2
#: zlib's value for "with a gzip header".
_GZIP_WINDOW_BITS = 31


def expand(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Returns the files of a list of files and folders, in its order; a folder's by path.

    Folders are searched to the bottom, but not through links to folders, nor in folders whose names
    begin with a dot.

    Raises:
        ConfigError: A path is empty or does not exist, a folder has no file to read, or there are
            too many.
    """
    files: list[str] = []
    for entry in paths:
        path = os.fspath(entry)
        if not path:
            raise ConfigError("must be the name of a file or a folder", path="input", value=path)
        if path == STANDARD_INPUT or not os.path.isdir(path):
            files.append(path)
            continue
        inside = sorted(_search(path))
        if not inside:
            kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
            raise ConfigError(f"is a folder without any file named {kinds} (or .gz)", file=path)
        files.extend(inside)
    if len(files) > FILES_MAX:
        raise ConfigError(f"more than {FILES_MAX} files", value=len(files))
    if files.count(STANDARD_INPUT) > 1:
        raise ConfigError("standard input can be read only once", file=STANDARD_INPUT)
    return files


def read_bytes(path: str, *, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Returns the content of a file or of standard input; gzip is detected and unpacked.

    Raises:
        ConfigError: It cannot be read, is too large, or unpacks to suspiciously much.
    """
    try:
        if path == STANDARD_INPUT:
            return _read_stream(sys.stdin.buffer, bytes_max)
        with Path(path).open("rb") as stream:
            return _read_stream(stream, bytes_max)
    except ConfigError as error:
        raise error.located(file=shown_name(path)) from None
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(problem, file=shown_name(path)) from None
    except ValueError as error:
        # No file can have this name: it has a null character, or half of a surrogate pair.
        raise ConfigError(f"cannot be read: {error}", value=path) from None


class Text:
    """The content of a file, which can be released, and is read again if it is needed.

    Attributes:
        name: As errors show it.
    """

    def __init__(self, path: str, data: bytes | None = None) -> None:
        """Reads the file; with ``data``, it is that text, and ``path`` its name for errors.

        Raises:
            ConfigError: It cannot be read.
        """
        self.name = shown_name(path)
        # Like standard input, a text from memory cannot be read a second time.
        self._path = path if data is None else STANDARD_INPUT
        self._data: bytes | None = read_bytes(path) if data is None else data

    def read(self) -> bytes:
        """Returns the content; b"" if the file was released and cannot be read again."""
        if self._data is not None:
            return self._data
        try:
            return read_bytes(self._path)
        except ConfigError:
            return b""

    def release(self) -> None:
        """Frees the memory; standard input stays, since it can be read only once."""
        if self._path != STANDARD_INPUT:
            self._data = None


def shown_name(path: str) -> str:
    """Returns a path as errors show it."""
    return "<standard input>" if path == STANDARD_INPUT else path


def _search(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.removesuffix(".gz").endswith(SUFFIXES):
                yield str(Path(where) / name)


def _read_stream(stream: BinaryIO, bytes_max: int) -> bytes:
    head = stream.read(_CHUNK_BYTES)
    chunks = _chunks(head, stream)
    if head.startswith(_GZIP_MAGIC):
        chunks = _unpacked(chunks)
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > bytes_max:
            raise ConfigError(f"is larger than {bytes_max} bytes")
        parts.append(chunk)
    return b"".join(parts)


def _chunks(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    chunk = head
    while chunk:
        yield chunk
        chunk = stream.read(_CHUNK_BYTES)


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpacks gzip, one or more members, a bounded piece at a time."""
    unpacker = _Unpacker()
    try:
        for chunk in chunks:
            yield from unpacker.pieces(chunk)
    except zlib.error as error:
        raise ConfigError(f"is damaged gzip: {error}") from None
    if not unpacker.is_complete:
        raise ConfigError("is damaged gzip: it ends too early")


class _Unpacker:
    """The state between two chunks of a gzip file: the open member, and the sizes so far."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        self._packed_bytes = 0
        self._made_bytes = 0

    @property
    def is_complete(self) -> bool:
        """True if the last member has ended."""
        return self._member.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yields what a chunk of the file unpacks to."""
        self._packed_bytes += len(chunk)
        rest = chunk
        while rest:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP_WINDOW_BITS)
            piece = self._member.decompress(rest, _CHUNK_BYTES)
            self._made_bytes += len(piece)
            _check_ratio(self._packed_bytes, self._made_bytes)
            yield piece
            rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail


def _check_ratio(packed_bytes: int, made_bytes: int) -> None:
    if made_bytes <= COMPRESSION_FREE_BYTES:
        return
    if made_bytes > packed_bytes * COMPRESSION_RATIO_MAX:
        raise ConfigError(f"unpacks to more than {COMPRESSION_RATIO_MAX} times its size")
