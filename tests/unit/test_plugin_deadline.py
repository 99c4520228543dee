"""A plugin that does not return ends an offline command; the error names it, its point and pod."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import SystemClock, VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.errors import PluginError
from mooring.framework.per_node import per_node
from mooring.simulation.driver import Driver
from mooring.testing import make_node, make_pod
from mooring.watchdog import PluginDeadline, plugin_call
from tests.helpers.command_line import node_yaml, pod_yaml, run_command

LIMIT_S = 0.3
SPIN_S_MAX = 30.0

PLUGIN = """
class Loops:
    name = "Loops"

    def {method}:
        while True:
            pass
"""


def spin() -> None:
    """Does not return; a deadline that does nothing fails the test, it must not hang it."""
    ends_s = time.monotonic() + SPIN_S_MAX
    while time.monotonic() < ends_s:
        pass


class Loops:
    """A plugin that does not return from Filter."""

    name = "Loops"

    @per_node
    def filter(self, pod: Any, node: Any) -> None:
        spin()


class Stubborn:
    """A plugin that catches every exception, and returns when it is released."""

    name = "Stubborn"

    def __init__(self) -> None:
        self.released = threading.Event()

    def reserve(self, cycle: Any, node_name: str) -> None:
        ends_s = time.monotonic() + SPIN_S_MAX
        while not self.released.is_set() and time.monotonic() < ends_s:
            with suppress(BaseException):
                self._spin(ends_s)

    def _spin(self, ends_s: float) -> None:
        """Loops in a call of its own: since Python 3.12 no ``try`` covers the jump of its loop."""
        while not self.released.is_set() and time.monotonic() < ends_s:
            pass

    def unreserve(self, cycle: Any, node_name: str) -> None:
        """Gives nothing back."""


def schedule(plugin: Any) -> str | None:
    """Decides a pod with a plugin, and carries the decision out; returns the node."""
    driver = Driver(
        [make_node("a")],
        config=default_configuration(),
        plugins=[plugin],
        rng=seeded_random(1),
        clock=VirtualClock(),
    )
    return driver.apply(driver.attempt(make_pod("web"))).node


def test_the_error_names_plugin_point_pod_and_line() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with (
        pytest.raises(PluginError) as caught,
        PluginDeadline(LIMIT_S, clock=SystemClock()).watch(),
    ):
        schedule(Loops())
    start = (
        'running "Loops" filter plugin: has not returned for pod default/web in 0.3 s, it is at '
    )
    assert str(caught.value).startswith(f"{start}{__file__}:")
    assert signal.getsignal(signal.SIGALRM) == before


def test_calls_that_end_in_time_are_not_interrupted_however_many_there_are() -> None:
    class Slow:
        name = "Slow"
        calls = 0

        @per_node
        def filter(self, pod: Any, node: Any) -> None:
            ends_s = time.monotonic() + LIMIT_S / 3
            while time.monotonic() < ends_s:
                pass
            self.calls += 1

    plugin = Slow()
    with PluginDeadline(LIMIT_S, clock=SystemClock()).watch():
        for _ in range(6):
            assert schedule(plugin) == "a"
    assert plugin.calls == 6


def test_a_call_that_ignores_the_exception_ends_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin, codes = Stubborn(), list[int]()

    def end(code: int) -> None:
        codes.append(code)
        plugin.released.set()

    deadline = PluginDeadline(LIMIT_S, clock=SystemClock(), ends_after_s=LIMIT_S, end=end)
    with deadline.watch():
        schedule(plugin)
    assert codes[0] == 2
    assert 'running Reserve plugin "Stubborn": has not returned' in caplog.text


def test_an_interrupt_by_the_user_is_not_the_plugins_fault() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        PluginDeadline(LIMIT_S, clock=SystemClock()).watch(),
    ):
        raise KeyboardInterrupt


def test_code_outside_a_plugin_is_no_call() -> None:
    assert plugin_call(sys._getframe()) is None
    assert plugin_call(None) is None


@pytest.mark.parametrize("command", [["explain", "web"], ["simulate"]])
@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("filter(self, cycle, nodes)", 'running "Loops" filter plugin: has not returned'),
        ("permit(self, cycle, node_name)", 'running Permit plugin "Loops": has not returned'),
        ("pre_enqueue(self, pod)", 'running PreEnqueue plugin "Loops": has not returned'),
    ],
)
def test_offline_commands_end_with_exit_code_2(
    command: list[str],
    method: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"loops_{method.partition('(')[0]}_{command[0]}"
    (tmp_path / f"{name}.py").write_text(PLUGIN.format(method=method))
    monkeypatch.syspath_prepend(str(tmp_path))
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("---".join([node_yaml("a", "4"), pod_yaml("web", "1")]))
    words = [*command, f"--cluster={cluster}", f"--plugin={name}:Loops", "--plugin-timeout=0.3"]
    code, _, errors = run_command(capsys, *words)
    assert code == 2
    assert errors.splitlines()[-1].startswith(f"mooring {command[0]}: {problem}")
    assert "default/web in 0.3 s" in errors or "PreEnqueue" in errors
