"""Hypothesis profiles of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports them: the scenarios also run in process, in tests/unit.
pytest.register_assert_rewrite("tests.integration.contract")

# CI must give the same answer twice: no random start, no deadline on a slow machine.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
