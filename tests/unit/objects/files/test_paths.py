"""Finding files and reading their bytes: folders, standard input, gzip, limits."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.objects.files import paths
from mooring.objects.files.limits import COMPRESSION_FREE_BYTES


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_folder_is_its_files_sorted_to_the_bottom(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c/a.json", "c/b.json.gz", "c.yaml.gz"):
        write(tmp_path / name)
    for name in ("notes.txt", ".hidden.yaml", ".git/x.yaml", "kustomization", "x.gz"):
        write(tmp_path / name)
    found = paths.expand([tmp_path])
    expected = ["a.yml", "b.yaml", "c.yaml.gz", "c/a.json", "c/b.json.gz"]
    assert found == [str(tmp_path / name) for name in expected]


def test_order_of_arguments_is_kept_and_any_file_name_will_do(tmp_path: Path) -> None:
    first, second = write(tmp_path / "z"), write(tmp_path / "a.yaml")
    assert paths.expand([first, second, "-"]) == [str(first), str(second), "-"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.yaml")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    assert paths.expand([tmp_path]) == [str(tmp_path / "real" / "a.yaml")]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder without any file named"):
        paths.expand([tmp_path])


def test_standard_input_only_once() -> None:
    with pytest.raises(ConfigError, match="only once"):
        paths.expand(["-", "-"])


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "FILES_MAX", 2)
    for name in "abc":
        write(tmp_path / f"{name}.yaml")
    with pytest.raises(ConfigError, match="more than 2 files"):
        paths.expand([tmp_path])


def test_plain_bytes(tmp_path: Path) -> None:
    assert paths.read_bytes(str(write(tmp_path / "a", b"a: 1\n"))) == b"a: 1\n"
    assert paths.read_bytes(str(write(tmp_path / "b", b""))) == b""


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    path = write(tmp_path / "dump", gzip.compress(data))
    assert paths.read_bytes(str(path)) == data


def test_gzip_members_follow_each_other(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", gzip.compress(b"one ") + gzip.compress(b"two"))
    assert paths.read_bytes(str(path)) == b"one two"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(gzip.compress(b"a: 1"))

    stream: Any = Input()
    monkeypatch.setattr(sys, "stdin", stream)
    assert paths.read_bytes("-") == b"a: 1"


def test_missing_file_and_folder_are_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        paths.read_bytes(str(tmp_path / "none"))
    assert str(caught.value) == f"{tmp_path}/none: cannot be read: no such file or directory"
    with pytest.raises(ConfigError, match="is a directory"):
        paths.read_bytes(str(tmp_path))


@pytest.mark.parametrize("cut", [5, -9, -1])
def test_cut_gzip_is_refused(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(os.urandom(1000))
    path = write(tmp_path / "a.gz", packed[:cut])
    with pytest.raises(ConfigError, match="is damaged gzip"):
        paths.read_bytes(str(path))


def test_garbled_gzip_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"hello world" * 100))
    packed[20] ^= 0xFF
    with pytest.raises(ConfigError, match="is damaged gzip"):
        paths.read_bytes(str(write(tmp_path / "a.gz", bytes(packed))))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(40 * 1024**2))
    assert len(packed) * 1000 > 40 * 1024**2 / 2
    with pytest.raises(ConfigError, match="unpacks to more than 200 times"):
        paths.read_bytes(str(write(tmp_path / "a.gz", packed)))


def test_small_files_may_be_compressed_well(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", gzip.compress(bytes(COMPRESSION_FREE_BYTES // 2)))
    assert len(paths.read_bytes(str(path))) == COMPRESSION_FREE_BYTES // 2


def test_size_limit_counts_what_is_unpacked(tmp_path: Path) -> None:
    plain = write(tmp_path / "a", bytes(100))
    packed = write(tmp_path / "a.gz", gzip.compress(bytes(100)))
    for path in (plain, packed):
        assert len(paths.read_bytes(str(path), bytes_max=100)) == 100
        with pytest.raises(ConfigError, match="is larger than 99 bytes"):
            paths.read_bytes(str(path), bytes_max=99)


@pytest.mark.parametrize("name", ["a\0b.yaml", "\ud800.yaml", "x" * 5000])
def test_a_name_that_no_file_can_have_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        paths.read_bytes(name)
    assert paths.expand([name]) == [name]


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(ConfigError, match="must be the name of a file or a folder, got ''"):
        paths.expand([""])
