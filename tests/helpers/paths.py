"""Folders that tests read."""

from __future__ import annotations

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parents[2]
#: Recorded decisions of kube-scheduler.
PARITY_DATA = ROOT / "tests" / "parity" / "data"
#: Recorded answers of kube-apiserver and kube-scheduler.
UNIT_DATA = ROOT / "tests" / "unit" / "data"
