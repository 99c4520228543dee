"""A pytest plugin that plants one bug in a whole run: which unit tests detect it?

``MOORING_PLANT=second_rejector python -m pytest -x -p tests.faults.plant_plugin tests/unit/queue``
"""

from __future__ import annotations

import os

import pytest

from tests.faults.planted import ALL_BUGS
from tests.faults.planted.device_tests import DEVICE_BUGS


def pytest_configure() -> None:
    """Plants the bug that MOORING_PLANT names.

    Raises:
        pytest.UsageError: there is no such bug.
    """
    name = os.environ.get("MOORING_PLANT", "")
    bugs = {bug.name: bug for bug in [*ALL_BUGS, *(entry.bug for entry in DEVICE_BUGS)]}
    if name not in bugs:
        raise pytest.UsageError(f"MOORING_PLANT: no bug {name!r}; there are {sorted(bugs)}")
    bugs[name].plant(pytest.MonkeyPatch())
