"""Journeys through ``mooring ui --kubeconfig``, in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.helpers.page import pod
from tests.ui.conftest import OBJECTS, Open, Started, serving, started
from tests.ui.test_journeys import apply, go


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Started]:
    with started(tmp_path, OBJECTS) as running:
        yield running


@pytest.fixture
def mooring(cluster: Started, tmp_path: Path) -> Iterator[Started]:
    """The page of that cluster, by its kubeconfig."""
    with serving(tmp_path, "ui", f"--kubeconfig={tmp_path / 'kubeconfig'}") as running:
        yield running


def test_a_cluster_is_followed_and_a_pod_explained(
    open_page: Open, cluster: Started, mooring: Started
) -> None:
    page = open_page()
    expect(page.get_by_text("3 nodes", exact=True)).to_be_visible()
    expect(page.get_by_text("2 bound", exact=True)).to_be_visible()
    navigation = page.get_by_role("navigation")
    expect(navigation.get_by_role("link", name="Objects")).to_have_count(0)

    own = page.context.new_page()
    own.goto(cluster.address)
    apply(own, json.dumps(pod("tiny", cpu="1m")))
    expect(page.get_by_text("3 bound", exact=True)).to_be_visible()
    own.evaluate("location.hash = '#/pods/default/tiny'")
    own.get_by_role("button", name="Delete").click()
    own.get_by_role("button", name="Really delete").click()
    expect(page.get_by_text("2 bound", exact=True)).to_be_visible(timeout=60_000)
    own.evaluate("location.hash = '#/pods/default/gated'")
    expect(own.get_by_role("heading", level=1)).to_have_text("Pod default/gated")
    own.get_by_role("button", name="Delete").click()
    own.get_by_role("button", name="Really delete").click()
    expect(page.get_by_text("0 gated")).to_be_visible()
    own.close()

    go(page, "Queue")
    page.get_by_role("link", name="default/late").click()
    expect(page.locator(".summary")).to_contain_text("0/3 nodes are feasible")
    expect(page.get_by_text("It would fit with")).to_be_visible()
    page.get_by_role("link", name="node-a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-a")
    expect(page.get_by_role("button", name="Cordon")).to_have_count(0)
    rejected = page.get_by_role("table", name="1 pending pod, by reason")
    expect(rejected).to_contain_text("NodeResourcesFit: Insufficient cpu")
    expect(rejected.get_by_role("link", name="default/late")).to_be_visible()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "needs one of --recording, --result and --kubeconfig"),
        (
            ("--recording=a", "--kubeconfig=b"),
            "needs one of --recording, --result and --kubeconfig",
        ),
        (("--recording=a", "--context=b"), "--context and --scheduler need --kubeconfig"),
        (("--kubeconfig=a", "--scheduler=http://b"), "must begin with https://, got 'http://b'"),
        (("--recording=absent.json",), "absent.json"),
    ],
)
def test_wrong_options_are_refused(words: tuple[str, ...], problem: str) -> None:
    command = [sys.executable, "-m", "mooring", "ui", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2
    assert problem in done.stderr
