"""Standard input, output and error of a process that was started without some of them."""

from __future__ import annotations

import os
import sys
from typing import Final, Literal, TextIO

#: The descriptor of standard error, the highest of the three.
_STDERR_DESCRIPTOR: Final = 2


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


def _null_stream(mode: Literal["r", "w"]) -> TextIO:
    # As Python's own standard streams, it stays open to the end of the process.
    descriptor = os.open(os.devnull, os.O_RDWR)
    return open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
