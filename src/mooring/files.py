"""Files that the user names: they are replaced as a whole, or stay as they are.

::

    the block writes ──> temporary file ──> fsync ──> rename over the old file
                              │
                              └─ error or kill: the old file has its content, mode and owner

Not here: files that are appended to while a command runs (the runs of a sweep), and logs.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from mooring.errors import ConfigError

#: End of the name of a temporary file, which begins with a dot and the name of the file.
PARTIAL_SUFFIX: Final = ".new"
#: Temporary files of one process and one file, of which all but one are left from a process that
#: was killed and had the same id.
PARTIAL_FILES_MAX: Final = 1000
#: Folders whose entries stand for open descriptors, such as /dev/stdout.
_DESCRIPTOR_FOLDERS: Final = ("/proc/", "/dev/fd")


def write_text(path: str | Path, text: str) -> None:
    """Replaces a file by one with this text.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        with replaced_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot be written: {problem}", file=str(path)) from error


@contextmanager
def replaced_file(path: str | Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Opens a temporary file, which replaces ``path`` if the block succeeds.

    A symbolic link stays, and the file that it leads to is replaced. Devices, pipes and the
    descriptors of this process (/dev/stdout) are opened and written to, since they cannot be
    replaced.

    Args:
        path: The file; its folder must exist.
        mode: The mode of the new file, from its first moment on. None: the mode and the owner of
            the old file, if there is one.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replaced_file(path) as file:
        ...     _ = file.write(b"new")
        >>> path.read_bytes()
        b'new'
    """
    name = os.fspath(path)
    old = _status(name)
    if not _is_replaceable(name, old):
        with open(name, "wb") as stream:
            yield stream
        return
    target = os.path.realpath(name)
    with _errors_named(name):
        descriptor, partial = _new_file(target, _first_mode(mode, old))
    file = os.fdopen(descriptor, "wb")
    try:
        if old is not None and mode is None:
            _give_status(descriptor, old)
        yield file
        file.flush()
        os.fsync(descriptor)
        file.close()
        with _errors_named(name):
            os.replace(partial, target)
    except BaseException:
        with suppress(OSError):  # what the buffer has is written, and may not fit on the disk
            file.close()
        with suppress(OSError):
            os.unlink(partial)
        raise


def remove_partial_files(path: str | Path) -> None:
    """Removes the temporary files of processes that were killed while they replaced ``path``.

    The caller must know that no process is replacing it now.
    """
    folder, name = os.path.split(os.path.realpath(path))
    # Not only a prefix: beside "a", the files of "a.txt" begin with ".a." as well.
    pattern = re.compile(rf"\.{re.escape(name)}\.\d+-\d+{re.escape(PARTIAL_SUFFIX)}", re.ASCII)
    with suppress(OSError):
        for partial in filter(pattern.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                os.unlink(os.path.join(folder, partial))


@contextmanager
def _errors_named(path: str) -> Iterator[None]:
    """Names the file in errors: its temporary name would mean nothing to the user."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_replaceable(path: str, old: os.stat_result | None) -> bool:
    if not os.path.basename(path):  # a name that ends with a slash, which only a folder may have
        return False
    return old is None or (stat.S_ISREG(old.st_mode) and not _is_descriptor(path))


def _is_descriptor(path: str) -> bool:
    """Returns True for a link to an open file: others write to the same file after us."""
    while os.path.islink(path):
        folder = os.path.realpath(os.path.dirname(path))
        if folder.startswith(_DESCRIPTOR_FOLDERS):
            return True
        path = os.path.join(folder, os.readlink(path))
    return False


def _first_mode(mode: int | None, old: os.stat_result | None) -> int:
    """Returns the mode of a temporary file: it is never readable by more than the final one."""
    if mode is not None:
        return mode
    return 0o666 if old is None else 0o600


def _new_file(target: str, mode: int) -> tuple[int, str]:
    """Returns the descriptor and the path of a new file beside ``target``.

    A file or link that others have put there is never written to (``O_EXCL``).
    """
    folder, name = os.path.split(target)
    for number in range(PARTIAL_FILES_MAX):
        partial = os.path.join(folder, f".{name}.{os.getpid()}-{number}{PARTIAL_SUFFIX}")
        with suppress(FileExistsError):
            return os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), partial
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), target)


def _give_status(descriptor: int, old: os.stat_result) -> None:
    """Gives a new file the owner and the mode of the old one."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # only root may give a file to another user
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
