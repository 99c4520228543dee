"""The virtual loop of ``mooring.simulation``, as the tests of other parts use it."""

from __future__ import annotations

from mooring.virtual_loop import VirtualLoop, run_virtually

__all__ = ["VirtualLoop", "run_virtually"]
