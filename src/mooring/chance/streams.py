"""Streams of random numbers, one for each consumer."""

from __future__ import annotations

import hashlib

from mooring.clock import Rng, seeded_random


class Streams:
    """Gives every consumer a stream that depends only on the seed and on the consumer's path.

    So a configuration that is compared with another one sees the same arrivals and run times, and
    a workload that is added leaves the draws of all others as they were.

    Args:
        seed: Of all streams.

    Example:
        >>> Streams(7).stream("web", "start").random() == Streams(7).stream("web", "start").random()
        True
        >>> Streams(7).stream("web", "start").random() == Streams(7).stream("web", "end").random()
        False
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *path: str | int) -> Rng:
        """Returns the stream of a path, from its beginning.

        The generator is seeded with SHA-256 of seed and path: Python's hash would differ from one
        process to the next.
        """
        text = "\0".join([str(self.seed), *map(str, path)])
        return seeded_random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
