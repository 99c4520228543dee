"""Command lines: loopback only, authenticated everywhere, and a scheduler that finds its server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mooring.testing.controlplane.arguments import Layout

FLAG = re.compile(r"--[a-z][a-z-]*(=.*)?")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, 1, 2, 3, 4, 5)


def flags(arguments: list[str]) -> dict[str, str]:
    assert all(FLAG.fullmatch(argument) for argument in arguments)
    pairs = [argument.partition("=") for argument in arguments]
    assert len({name for name, _, _ in pairs}) == len(pairs), "a flag is given twice"
    return {name: value for name, _, value in pairs}


def every_part(layout: Layout) -> list[dict[str, str]]:
    kubeconfig = layout.folder / "some.kubeconfig"
    return [
        flags(layout.etcd()),
        flags(layout.apiserver()),
        flags(layout.controller_manager(kubeconfig)),
        flags(layout.scheduler(kubeconfig, {})),
    ]


def test_nobody_listens_beyond_this_machine(layout: Layout) -> None:
    etcd, *others = every_part(layout)
    for name in ("--listen-client-urls", "--listen-peer-urls"):
        assert etcd[name].startswith("https://127.0.0.1:")
    assert [part["--bind-address"] for part in others] == ["127.0.0.1"] * 3


def test_every_part_has_its_own_port(layout: Layout) -> None:
    _, *others = every_part(layout)
    assert [part["--secure-port"] for part in others] == ["3", "5", "4"]
    assert (layout.etcd_url, layout.apiserver_url) == ("https://127.0.0.1:1", "https://127.0.0.1:3")
    assert Layout.PORTS == 5


def test_who_talks_to_etcd_has_a_certificate_of_its_authority(layout: Layout) -> None:
    etcd, apiserver, *_ = every_part(layout)
    assert "--client-cert-auth" in etcd
    assert "--peer-client-cert-auth" in etcd
    assert etcd["--trusted-ca-file"] == apiserver["--etcd-cafile"]
    assert etcd["--trusted-ca-file"] != apiserver["--client-ca-file"]


def test_rights_are_checked(layout: Layout) -> None:
    assert flags(layout.apiserver())["--authorization-mode"] == "RBAC"


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, {"leaderElection": {"leaderElect": False}}),
        (
            {"leaderElection": {"leaderElect": True}, "parallelism": 1},
            {"leaderElection": {"leaderElect": True}, "parallelism": 1},
        ),
        ({"clientConnection": {"qps": 5}}, {"clientConnection": {"qps": 5}}),
    ],
)
def test_the_scheduler_is_told_where_the_server_is_and_nothing_else_changes(
    layout: Layout, configuration: Mapping[str, object], expected: dict[str, dict[str, object]]
) -> None:
    kubeconfig = layout.folder / "some.kubeconfig"

    arguments = flags(layout.scheduler(kubeconfig, configuration))

    written = json.loads(Path(arguments["--config"]).read_text())
    assert written.pop("apiVersion") == "kubescheduler.config.k8s.io/v1"
    assert written.pop("kind") == "KubeSchedulerConfiguration"
    assert written["clientConnection"].pop("kubeconfig") == str(kubeconfig)
    whole = {"leaderElection": {"leaderElect": False}, "clientConnection": {}, **expected}
    assert written == whole
