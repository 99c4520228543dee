"""What all tests share: hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# CI must give the same answer twice: no random start, no deadline on a slow machine.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
