"""The build, with a Go that is a shell script: its arguments, and its failures."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from mooring.testing.controlplane import binaries
from mooring.testing.controlplane.binaries import PROGRAMS, build, cache_folder, kubernetes_version
from mooring.testing.controlplane.failures import ControlPlaneUnavailable

MODULE = binaries.module_folder()

# Answers `go env GOVERSION`; on `go build` notes its arguments and environment, changes go.sum as
# GOFLAGS=-mod=mod may, and makes the programs that it is asked for.
GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.8; exit 0; fi
for argument in "$@"; do
  echo "$argument"
  case "$last" in -o) out="$argument";; esac
  case "$argument" in
    ./cmd/*) echo made > "$out/${argument#./cmd/}"; chmod +x "$out/${argument#./cmd/}";;
  esac
  last="$argument"
done > "$NOTES/arguments"
env > "$NOTES/environment"
echo changed >> go.sum
echo x >> "$NOTES/builds"
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Returns an environment with that Go and an empty cache."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "go").write_text(GO)
    (bin_folder / "go").chmod(0o755)
    return {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "NOTES": str(tmp_path),
        "GOPROXY": "https://proxy.example",
        binaries.CACHE_VARIABLE: str(tmp_path / "cache"),
    }


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(path.name.encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def test_programs_appear_whole_and_the_tree_stays_as_it_is(
    machine: dict[str, str], tmp_path: Path
) -> None:
    before = fingerprint(MODULE)

    folder = build(environment=machine)

    assert sorted(path.name for path in folder.iterdir()) == sorted(PROGRAMS)
    assert folder.name.startswith("v1.36.3-")
    assert fingerprint(MODULE) == before
    left = sorted(path.name for path in (tmp_path / "cache").iterdir())
    assert left == [folder.name, f"{folder.name}.lock", f"{folder.name}.log"]


def test_a_second_build_is_none(machine: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    assert build(environment=machine, report=said.append) == build(environment=machine)
    assert (tmp_path / "builds").read_text() == "x\n"
    assert len(said) == 1
    assert "once, in minutes" in said[0]


def test_the_version_is_stamped_and_go_may_change_nothing(
    machine: dict[str, str], tmp_path: Path
) -> None:
    build(environment=machine)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    environment = (tmp_path / "environment").read_text().splitlines()

    [linker] = [argument for argument in arguments if argument.startswith("-ldflags=")]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.36.3" in linker
        assert f"-X {package}.gitMinor=36" in linker
    assert "-mod=readonly" in arguments
    assert {"GOTOOLCHAIN=local", "CGO_ENABLED=0", "GOWORK=off"} <= set(environment)
    assert "GOPROXY=https://proxy.example" in environment


def test_an_interrupted_build_is_begun_anew(machine: dict[str, str], tmp_path: Path) -> None:
    folder = build(environment=machine)
    (folder / "etcd").unlink()
    partial = folder.with_name(f"{folder.name}.partial")
    (partial / "module").mkdir(parents=True)
    (partial / "module" / "stale").touch()

    assert build(environment=machine) == folder

    assert (folder / "etcd").read_text() == "made\n"
    assert not partial.exists()


def test_a_failed_build_is_one_line_and_leaves_nothing_to_use(
    machine: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bin" / "go").write_text(
        "#!/bin/sh\n"
        'if [ "$1" = env ]; then echo go1.27; exit 0; fi\n'
        "echo 'go: downloading k8s.io/api v0.36.3'\n"
        "echo 'go: k8s.io/api: dial tcp: lookup proxy.example: no such host' >&2\n"
        "echo 'go: downloading k8s.io/klog v2'\n"
        "exit 1\n"
    )
    with pytest.raises(ControlPlaneUnavailable) as raised:
        build(environment=machine)
    assert "no such host; log: " in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix == ""]


def test_a_cache_that_cannot_be_written_is_one_line(
    machine: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    machine[binaries.CACHE_VARIABLE] = str(tmp_path / "file" / "cache")
    with pytest.raises(ControlPlaneUnavailable, match=r"cannot be built: .*Not a directory"):
        build(environment=machine)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MOORING_CONTROLPLANE_CACHE": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/mooring/controlplane"),
        ({}, str(Path.home() / ".cache/mooring/controlplane")),
    ],
)
def test_the_cache_is_where_the_user_says(environment: dict[str, str], expected: str) -> None:
    assert cache_folder(environment) == Path(expected)


def test_any_change_of_the_module_is_another_build(machine: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "module"
    shutil.copytree(MODULE, copy)
    same = build(environment=machine, module=copy)
    with (copy / "go.sum").open("a") as sums:
        sums.write("\n")
    assert build(environment=machine) == same
    assert build(environment=machine, module=copy) != same


def test_the_version_is_the_one_that_mooring_follows() -> None:
    assert kubernetes_version() == "v1.36.3"


def test_no_file_of_the_module_names_an_index_or_a_proxy() -> None:
    files = [path for path in MODULE.rglob("*") if path.is_file() and path.suffix != ".go"]
    assert {"go.mod", "go.sum", "toolchain.txt"} <= {path.name for path in files}
    assert [path.name for path in files if "://" in path.read_text("utf-8")] == []
