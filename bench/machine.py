"""What a benchmark ran on: every one prints it, so that two figures can be compared."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from mooring.clock import SystemClock

CALIBRATION_ROUNDS = 2_000_000


def machine() -> str:
    """Processor, cores that we may use, Python and kernel, in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, "
        f"{platform.system()} {platform.release()}"
    )


def calibration_ms() -> float:
    """CPU time of a fixed loop: how fast this machine is at this moment."""
    clock = SystemClock()
    best_s = float("inf")
    for _ in range(3):
        started_s, total = clock.cpu_s(), 0
        for number in range(CALIBRATION_ROUNDS):
            total += number & 7
        best_s = min(best_s, clock.cpu_s() - started_s)
    return 1e3 * best_s
