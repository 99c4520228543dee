"""The virtual loop of ``mooring.sim``, as the tests of other parts use it."""

from __future__ import annotations

from mooring.sim.loop import VirtualLoop, run_virtually

__all__ = ["VirtualLoop", "run_virtually"]
