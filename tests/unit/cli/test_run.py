"""``mooring run`` from the command line to its first request: what is refused before that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.command_line import restored_logging, run_command


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code, out, err = run_command(capsys, "run", *words)
    assert out == ""
    return code, err


def kubeconfig(folder: Path) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return f"--kubeconfig={path}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--kubeconfig=no-such-file"], "no-such-file"),
        (["--config=no-such-config.yaml"], "no-such-config.yaml"),
    ],
)
def test_files_that_are_not_there_are_named_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, err = run(capsys, *words)
    assert code == 2
    assert err.startswith("mooring run: ")
    assert told in err
    assert err.count("\n") == 1


def test_a_context_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, err = run(capsys, kubeconfig(tmp_path), "--context=y")
    assert code == 2
    assert "y" in err
    assert err.count("\n") == 1


def test_a_plugin_that_is_not_there_is_refused_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, err = run(capsys, kubeconfig(tmp_path), "--plugin=no_such_module:X")
    assert code == 2
    assert err.startswith("mooring run: ")
    assert "no_such_module" in err
    assert err.count("\n") == 1


def test_the_kubeconfig_of_the_configuration_counts_if_none_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: /no/such/place}\n"
    )
    code, err = run(capsys, f"--config={config}")
    assert code == 2
    assert "/no/such/place" in err


def test_an_unknown_level_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = run(capsys, "--log-level=loud")
    assert code == 2
    assert "'loud'" in err
    assert "'warning'" in err
