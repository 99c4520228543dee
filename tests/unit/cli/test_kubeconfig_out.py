"""The path of the kubeconfig that ``mooring start`` and ``mooring apiserver`` write."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest

from mooring.cli.kubeconfig_out import default_folder, write_kubeconfig
from mooring.errors import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_default_is_private_and_in_the_runtime_folder(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": "/nowhere"}

    line = write_kubeconfig(None, "start.kubeconfig", "text", environment)

    file = tmp_path / "mooring" / "start.kubeconfig"
    assert line == f"export KUBECONFIG={file}"
    assert file.read_text() == "text"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)


def test_without_a_runtime_folder_it_is_in_the_cache(tmp_path: Path) -> None:
    write_kubeconfig(None, "start.kubeconfig", "text", {"HOME": str(tmp_path)})

    file = tmp_path / ".cache" / "mooring" / "start.kubeconfig"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)


def test_a_folder_that_others_may_read_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "mooring"
    folder.mkdir(mode=0o755)

    write_kubeconfig(None, "start.kubeconfig", "text", {"XDG_RUNTIME_DIR": str(tmp_path)})

    assert mode(folder) == 0o700


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_RUNTIME_DIR": "TMP/none", "HOME": "/home/me"}, "/home/me/.cache/mooring"),
        ({"XDG_RUNTIME_DIR": "", "HOME": "/home/me"}, "/home/me/.cache/mooring"),
        ({"XDG_RUNTIME_DIR": ".", "HOME": "/home/me"}, "/home/me/.cache/mooring"),
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/cache/mooring"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "/home/me"}, "/home/me/.cache/mooring"),
        ({"XDG_RUNTIME_DIR": "TMP", "XDG_CACHE_HOME": "/cache"}, "TMP/mooring"),
    ],
)
def test_the_default_folder(environment: dict[str, str], expected: str, tmp_path: Path) -> None:
    given = {name: value.replace("TMP", str(tmp_path)) for name, value in environment.items()}

    assert default_folder(given) == Path(expected.replace("TMP", str(tmp_path)))


def test_a_file_in_a_missing_folder_is_an_error_that_names_the_option(
    tmp_path: Path,
) -> None:
    file = tmp_path / "none" / "config"

    with pytest.raises(ConfigError) as caught:
        write_kubeconfig(file, "start.kubeconfig", "text", {})

    text = "the kubeconfig cannot be written: No such file or directory"
    assert str(caught.value).startswith(f"{file}: {text}; ")
    assert "--kubeconfig-out" in str(caught.value)
    assert not file.parent.exists()


def test_a_file_in_a_deleted_working_directory_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()

    with pytest.raises(ConfigError, match="config: the kubeconfig cannot be written: No such file"):
        write_kubeconfig(Path("config"), "start.kubeconfig", "text", {})


def test_a_given_file_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    line = write_kubeconfig(Path("mine"), "start.kubeconfig", "text", {})

    assert line == f"export KUBECONFIG={tmp_path / 'mine'}"
    assert mode(tmp_path / "mine") == 0o600


def test_the_line_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "my $folder" / "kube config"
    file.parent.mkdir()

    line = write_kubeconfig(file, "start.kubeconfig", "text", {})

    assert shlex.split(line) == ["export", f"KUBECONFIG={file}"]
