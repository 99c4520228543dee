"""A real Chromium, and ``mooring start`` as a process with its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.helpers.page import node, pod

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
#: Set by CI: then a missing browser is a failure.
_IS_REQUIRED: Final = "MOORING_TEST_PAGE"

#: For what a page shows next, on a machine that runs other tests too.
WAIT_MS: Final = 15_000
expect.set_options(timeout=WAIT_MS)

OBJECTS: Final = [
    node("node-a", **{"topology.kubernetes.io/zone": "zone-a"}),
    node("node-b", **{"topology.kubernetes.io/zone": "zone-b"}),
    {**node("node-c", cpu="2"), "spec": {"unschedulable": True}},
    pod("web-1", cpu="3"),
    pod("web-2", cpu="3"),
    pod("late", cpu="3", priority=0),
    pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
]


def chromium() -> str:
    """Returns the path of a Chromium; "" = there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), "")


# Not for the whole session: while Playwright is open, its event loop runs in this thread, and no
# test of another module could run one.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if not path:
        if os.environ.get(_IS_REQUIRED):
            pytest.fail("no Chromium is installed (on Debian: apt-get install chromium)")
        pytest.skip("no Chromium is installed (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        # Root has no sandbox of its own; the pages that are opened are those of the tests.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Started:
    """A running ``mooring start``."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    @property
    def root(self) -> str:
        """The address without its token."""
        return self.address.partition("/#")[0]


@contextmanager
def started(folder: Path, objects: list[dict[str, Any]]) -> Iterator[Started]:
    """Runs ``mooring start`` with these objects."""
    text = "\n---\n".join(map(json.dumps, objects))
    (folder / "cluster.yaml").write_text(text)
    options = [f"--cluster={folder / 'cluster.yaml'}", f"--kubeconfig-out={folder / 'kubeconfig'}"]
    with serving(folder, "start", "--kubelets", *options) as running:
        yield running


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Started]:
    """Runs a command of mooring that serves the page."""
    command = [sys.executable, "-m", "mooring", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        addresses = (re.search(r"^page: (\S+)$", line) for line in lines)
        address = next((match[1] for match in addresses if match), "")
        assert address, f"mooring {arguments[0]} ended with {process.poll()}"
        try:
            yield Started(process, address)
        finally:
            process.terminate()


@pytest.fixture
def mooring(tmp_path: Path) -> Iterator[Started]:
    """A small cluster: two pods are bound, one does not fit, one is gated."""
    with started(tmp_path, OBJECTS) as running:
        yield running


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, mooring: Started) -> Iterator[Open]:
    """Opens pages in one browser context; fails if one of them had an error or asked elsewhere."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(WAIT_MS)
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"{message.type}: {message.text}")

    def open_one(address: str = "") -> Page:
        page = context.new_page()
        page.on("console", on_console)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: _check_address(request.url, mooring, problems))
        page.goto(address or mooring.address)
        page.wait_for_selector("main h1")
        return page

    open_one.context = context  # type: ignore[attr-defined]
    open_one.problems = problems  # type: ignore[attr-defined]
    yield open_one
    context.close()
    assert problems == []


def _check_address(url: str, mooring: Started, problems: list[str]) -> None:
    if not url.startswith((mooring.root, "blob:", "data:")):
        problems.append(f"a request to {url}")
