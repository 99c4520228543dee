"""Files that the user names: an error or a kill leaves the old one whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import ConfigError
from mooring.files import replaced_file, write_text
from tests.helpers.full_disk import full_disk

OLD = b"the file of the run before\n"
#: More than a buffer.
NEW = b"new\n" * 50_000


def write(path: Path, content: bytes = NEW) -> None:
    with replaced_file(path) as file:
        file.write(content)


def write_and_raise(path: Path, content: bytes, error: BaseException) -> None:
    with replaced_file(path) as file:
        file.write(content)
        raise error


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_that_open_gives_it(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").read_bytes() == NEW
    assert mode_of(tmp_path / "a") == 0o640


def test_nothing_of_the_new_file_is_visible_before_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with replaced_file(path) as file:
        file.write(NEW)
        assert path.read_bytes() == OLD
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [100, len(NEW) - 1])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with full_disk(after_bytes=size), pytest.raises(OSError, match="File too large"):
        write(path)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt):
        write_and_raise(path, NEW, KeyboardInterrupt())
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_block_is_not_replaced_by_that_of_a_full_disk(tmp_path: Path) -> None:
    with full_disk(after_bytes=0), pytest.raises(ZeroDivisionError):
        write_and_raise(tmp_path / "a", b"in the buffer", ZeroDivisionError())
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from mooring.files import replaced_file
with replaced_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert done.returncode == -9
    assert path.read_bytes() == OLD
    write(path)
    assert path.read_bytes() == NEW


def test_the_mode_of_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    path.chmod(0o604)
    with replaced_file(path) as file:
        file.write(NEW)
        assert [mode_of(one) for one in tmp_path.iterdir()] == [0o604, 0o604]
    assert mode_of(path) == 0o604


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_the_owner_of_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    os.chown(path, 1234, 4321)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    target = tmp_path / "files" / "a"
    target.write_bytes(OLD)
    (tmp_path / "second").symlink_to("files/a")
    (tmp_path / "first").symlink_to("second")
    write(tmp_path / "first")
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert target.read_bytes() == NEW
    assert list(target.parent.iterdir()) == [target]


def test_a_link_to_a_file_that_does_not_exist_creates_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == NEW


def test_a_device_is_written_to_and_not_replaced() -> None:
    write(Path(os.devnull))
    assert Path(os.devnull).is_char_device()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe, b"new")
    assert pipe.is_fifo()
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"new"


STANDARD_OUTPUT = """
from mooring.files import replaced_file
with replaced_file("/dev/stdout") as file:
    file.write(b"new")
print("\\nand more")
"""


def test_standard_output_is_written_to(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STANDARD_OUTPUT]
    piped = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert piped.stdout == b"new\nand more\n"


def test_a_file_that_standard_output_is_redirected_to_is_not_replaced(tmp_path: Path) -> None:
    """The shell and other commands have it open, and write to it afterwards."""
    path = tmp_path / "out"
    path.touch()
    inode = path.stat().st_ino
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", STANDARD_OUTPUT], check=True, stdout=file, timeout=60)
    assert path.stat().st_ino == inode
    assert path.read_bytes() == b"new\nand more\n"


def test_an_error_names_the_file_and_not_its_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a"
    with pytest.raises(FileNotFoundError) as caught:
        write(path)
    assert caught.value.filename == str(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/none/", f"{tmp_path}"):
        with pytest.raises(IsADirectoryError), replaced_file(name):
            pass
    assert list(tmp_path.iterdir()) == []


def test_text_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with full_disk(after_bytes=100), pytest.raises(ConfigError) as caught:
        write_text(path, NEW.decode())
    assert str(caught.value) == f"{path}: cannot be written: file too large"
    assert path.read_bytes() == OLD
