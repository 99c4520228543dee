"""CPU profiles, also as Go's own tool reads them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from mooring.serving.pprof import DEPTH_MAX, STACKS_MAX, CpuProfile, ProfileInProgress, profiling


def busy(profile: CpuProfile, samples: int) -> None:
    """Uses the CPU until there are so many samples."""
    while sum(profile.samples.values()) < samples:
        sum(range(1000))


def test_a_busy_function_is_in_the_profile() -> None:
    with profiling() as profile:
        busy(profile, 3)
    line = profile.collapsed().splitlines()[0]
    assert "test_a_busy_function_is_in_the_profile" in line
    assert "busy (" in line
    assert int(line.rpartition(" ")[2]) >= 1


def test_afterwards_nothing_is_sampled_and_a_late_signal_is_harmless() -> None:
    with profiling() as profile:
        busy(profile, 1)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    os.kill(os.getpid(), signal.SIGPROF)


def test_one_profile_at_a_time() -> None:
    refused = pytest.raises(ProfileInProgress, match="cpu profiling already in use")
    with profiling(), refused, profiling():
        pass


def test_deep_stacks_are_cut() -> None:
    profile = CpuProfile()

    def descend(levels: int) -> None:
        if levels:
            descend(levels - 1)
        else:
            import sys

            profile.sample(signal.SIGPROF, sys._getframe())

    descend(DEPTH_MAX + 50)
    (stack,) = profile.samples
    assert len(stack) == DEPTH_MAX


def test_the_number_of_stacks_is_limited() -> None:
    profile = CpuProfile()
    code = (lambda: None).__code__
    profile.samples.update({((code, line), (code, 1)): 1 for line in range(STACKS_MAX)})
    import sys

    profile.sample(signal.SIGPROF, sys._getframe())
    profile.sample(signal.SIGPROF, sys._getframe())
    assert len(profile.samples) <= STACKS_MAX + 2
    assert all(len(stack) <= 2 for stack in profile.samples)


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_go_tool_pprof_reads_it(tmp_path: Path) -> None:
    with profiling() as profile:
        busy(profile, 5)
    path = tmp_path / "profile"
    path.write_bytes(profile.encoded(started_ns=1_700_000_000_000_000_000, duration_ns=10**9))
    command = ["go", "tool", "pprof", "-top", "-cum", str(path)]
    environment = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "Type: cpu" in shown.stdout
    assert "Duration: 1s, Total samples = " in shown.stdout
    assert "test_go_tool_pprof_reads_it" in shown.stdout
