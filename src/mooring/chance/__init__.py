"""Chance for simulations: named streams of random numbers, distributions, arrival processes.

``Streams`` gives every consumer a stream of its own: two runs of one seed see the same draws, also
if one of them has one consumer more. ``distribution_of`` and ``arrivals_of`` read the forms that
scenario files have.
"""

from __future__ import annotations

from mooring.chance.arrivals import Arrivals, arrivals_of
from mooring.chance.distributions import Distribution, distribution_of
from mooring.chance.streams import Streams

__all__ = ["Arrivals", "Distribution", "Streams", "arrivals_of", "distribution_of"]
