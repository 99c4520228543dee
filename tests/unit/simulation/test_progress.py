"""The progress of a simulation: few lines, few redraws, plain text in files."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mooring.objects.meta import ObjectMeta
from mooring.objects.node import Node, NodeStatus
from mooring.simulation.progress import REDRAW_S, PlainView, Silent, live_view, progress_text
from mooring.simulation.report import OutcomeCounts
from mooring.simulation.utilization import Utilization


class Clock:
    """A clock that advances only by assignment."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return 0.0


def cluster() -> Utilization:
    status = NodeStatus(allocatable={"cpu": "4", "example.com/gpu": "2", "pods": "9"})
    return Utilization([Node(metadata=ObjectMeta(name="n1"), status=status)])


def run_plain(total: int) -> list[str]:
    out, clock, counts = io.StringIO(), Clock(), OutcomeCounts()
    view = PlainView(total, counts, cluster(), clock=clock, out=out)
    for index in range(total):
        clock.now_s += 0.5
        counts.add("scheduled" if index % 4 else "unschedulable", (), "no")
        view.step()
    return out.getvalue().splitlines()


def test_plain_lines_come_at_the_start_at_each_tenth_and_at_the_end() -> None:
    lines = run_plain(1000)
    assert len(lines) == 11
    assert lines[0] == "scheduling 1000 pods on 1 node"
    assert lines[1] == " 10.0%  75 placed, 25 refused, 2 pods/s, used: cpu 0.0%, gpu 0.0%"
    assert lines[-1].startswith("100.0%  750 placed, 250 refused")


@pytest.mark.parametrize(("total", "most"), [(0, 1), (1, 2), (7, 8), (11, 8), (99, 11)])
def test_small_runs_print_little_and_always_the_end(total: int, most: int) -> None:
    lines = run_plain(total)
    assert len(lines) <= most
    assert total == 0 or lines[-1].startswith("100.0%")


def test_plain_lines_hold_no_control_characters() -> None:
    assert all(line.isprintable() for line in run_plain(100))


def test_progress_before_any_time_has_passed_claims_no_speed() -> None:
    assert progress_text(OutcomeCounts(), 5, Utilization(), 0.0) == "  0.0%  0 placed, 0 refused"
    assert progress_text(OutcomeCounts(), 0, Utilization(), 0.0).startswith("100.0%")


def test_a_terminal_is_drawn_at_most_so_often() -> None:
    class Counting(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += "pods/s" in text
            return super().write(text)

    out, clock, counts = Counting(), Clock(), OutcomeCounts()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with live_view(1000, counts, cluster(), clock=clock, console=console) as view:
        for _ in range(1000):
            clock.now_s += REDRAW_S / 100
            counts.add("scheduled", (), "")
            view.step()
    assert 9 <= out.writes <= 14
    assert "1000/1000" in out.getvalue()
    assert "1000 placed, 0 refused" in out.getvalue()
    assert "gpu" in out.getvalue()


def test_a_terminal_shows_the_last_numbers_even_after_a_quick_run() -> None:
    out, clock, counts = io.StringIO(), Clock(), OutcomeCounts()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with live_view(1, counts, cluster(), clock=clock, console=console) as view:
        counts.add("scheduled", (), "")
        view.step()
    assert "1/1" in out.getvalue()


def test_a_terminal_is_left_in_order_when_the_run_fails() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)

    def run() -> None:
        with live_view(1, OutcomeCounts(), cluster(), clock=Clock(), console=console):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert out.getvalue().rstrip().endswith("\x1b[?25h")


def test_silence_says_nothing() -> None:
    Silent().step()
