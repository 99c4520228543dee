"""What a benchmark ran on: every one prints it, so that two figures can be compared."""

from __future__ import annotations

import os
import platform
from pathlib import Path


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
