"""``mooring config``: what it prints for good files and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mooring import cli
from mooring.config import default_configuration, from_document, load, loads

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

#: kube-scheduler writes a percentage that was not set as 0.
ADAPTIVE = msgspec.structs.replace(default_configuration(), percentage_of_nodes_to_score=0)


def test_without_a_file_it_shows_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "view"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("apiVersion: kubescheduler.config.k8s.io/v1\nclientConnection:\n")
    assert loads(printed) == ADAPTIVE


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "view", "-o", "json"]) == 0
    assert from_document(json.loads(capsys.readouterr().out)) == ADAPTIVE


def test_what_it_shows_means_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        HEAD + "leaderElection: {leaseDuration: 1m}\nprofiles:\n- schedulerName: 'on'\n"
        "  plugins: {score: {enabled: [{name: NodeAffinity, weight: 9}]}}\n"
    )
    assert cli.main(["config", "view", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "leaseDuration: 1m0s" in printed
    assert '  schedulerName: "on"\n' in printed
    # Weights that are left out are written as 0, which means the same.
    shown, read = loads(printed).profiles[0], load(path).profiles[0]
    assert shown.plugin_config == read.plugin_config
    assert [e.name for e in shown.plugins.score.enabled] == ["NodeAffinity"]


def test_a_valid_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD)
    assert cli.main(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid: 1 profile, default-scheduler\n"


def test_a_plugin_that_nobody_has_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "profiles:\n- plugins:\n    score:\n      enabled: [{name: NodeNam}]\n")
    assert cli.main(["config", "check", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"mooring config: {path}: line 6: profiles[0].plugins.score.enabled[0].name: unknown "
        "plugin, got 'NodeNam' (did you mean 'NodeName'?)\n"
    )


def test_a_plugin_of_ones_own_is_known_when_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine_for_check.py").write_text(
        "class Mine:\n    name = 'Mine'\n    def permit(self, cycle, node_name): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(HEAD)
    assert cli.main(["config", "check", "c.yaml", "--plugin", "mine_for_check:Mine"]) == 0
    assert cli.main(["config", "check", "c.yaml", "--plugin", "mine_for_check:Other"]) == 2
    assert "--plugin: module mine_for_check has no such attribute" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
            "line 1: apiVersion: must be kubescheduler.config.k8s.io/v1; change the apiVersion "
            "and run again: removed fields will be listed, got "
            "'kubescheduler.config.k8s.io/v1beta3'",
        ),
        (
            "apiVersion: v1\nkind: Policy\npredicates: []\n",
            "line 2: kind: a Policy is not supported: convert it with "
            "`mooring config convert`, got 'Policy'",
        ),
        (
            HEAD + "algorithmSource: {provider: DefaultProvider}\n",
            "line 3: algorithmSource: unknown field: removed before "
            "kubescheduler.config.k8s.io/v1; replaced by profiles[].plugins",
        ),
    ],
)
def test_files_of_older_versions_are_told_what_to_change(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert cli.main(["config", "check", str(path)]) == 2
    assert capsys.readouterr().err == f"mooring config: {path}: {expected}\n"


def test_every_fault_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "parallelism: 0\npercentageOfNodesToScore: 101\n")
    assert cli.main(["config", "view", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"mooring config: {path}: line 3: parallelism: should be an integer value greater than "
        "zero, got 0",
        f"{path}: line 4: percentageOfNodesToScore: not in valid range [0-100], got 101",
    ]
