"""Standard streams that are closed, or that cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, Literal, TextIO, TypeGuard

#: The descriptor of standard error, the highest of the three.
_STDERR_DESCRIPTOR: Final = 2

#: Errors of writing to a full or broken disk.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def open_missing_streams() -> None:
    """Opens the null device for each standard stream that is closed.

    Otherwise the next files and sockets get the descriptors 0 to 2: output would be written into
    them, and libuv aborts when it closes one of them. Python has None instead of such streams.
    """
    # The system takes the lowest free descriptor. Processes that are started inherit these.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR_DESCRIPTOR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = _null_stream("r")
    if sys.stdout is None:
        sys.stdout = _null_stream("w")
    if sys.stderr is None:
        sys.stderr = _null_stream("w")


def is_output_error(error: BaseException) -> TypeGuard[OSError]:
    """Returns True for an error of writing to a closed pipe, or to a full or broken disk."""
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, *_NO_ROOM)


def discard_output() -> None:
    """Discards what is written to standard output from now on.

    Python flushes it once more at exit, and would complain there.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _null_stream(mode: Literal["r", "w"]) -> TextIO:
    # As Python's own standard streams, it stays open to the end of the process.
    descriptor = os.open(os.devnull, os.O_RDWR)
    return open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
