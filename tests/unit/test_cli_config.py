"""``mooring config``: what it prints for good files and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring import cli
from mooring.config import default_configuration, from_document, load, loads

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_without_a_file_it_shows_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(HEAD)
    assert loads(printed) == default_configuration()


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "-o", "json"]) == 0
    assert from_document(json.loads(capsys.readouterr().out)) == default_configuration()


def test_what_it_shows_means_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        HEAD + "leaderElection: {leaseDuration: 1m}\nprofiles:\n- schedulerName: 'on'\n"
        "  plugins: {score: {enabled: [{name: NodeAffinity, weight: 9}]}}\n"
        "  pluginConfig: [{name: Mine, args: {a: '017'}}]\n"
    )
    assert cli.main(["config", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "leaseDuration: 1m0s" in printed
    assert loads(printed) == load(path)


def test_none_is_silent_about_good_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "-o", "none"]) == 0
    assert capsys.readouterr().out == ""


def test_every_fault_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "parallelism: 0\npercentageOfNodesToScore: 101\n")
    assert cli.main(["config", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"mooring config: {path}: line 3: parallelism: should be an integer value greater than "
        "zero, got 0",
        f"{path}: line 4: percentageOfNodesToScore: not in valid range [0-100], got 101",
    ]
