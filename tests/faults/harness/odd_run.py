"""An odd run: other options of the queue, and a plugin that activates several pods at once."""

from __future__ import annotations

from typing import Final

from mooring.clock import seeded_random
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service

#: Added to the seed of a run: its other draws stay as they are.
SEEDS: Final = 1 << 40

#: Share of the seconds in which pods are activated, and how many at once.
ACTIVATED_SHARE: Final = 0.1
ACTIVATED_MAX: Final = 6


class OddRun:
    """The draws of an odd run.

    Attributes:
        options: Of the queue.
    """

    def __init__(self, seed: int) -> None:
        self._rng = rng = seeded_random(seed + SEEDS)
        self.options = QueueOptions(
            max_backoff_s=rng.choice((4.0, 10.0)),
            max_unschedulable_s=rng.choice((15.0, 40.0, 300.0)),
            pop_from_backoff=rng.random() < 0.5,
            unschedulable_flush_interval_s=rng.choice((5.0, 30.0)),
        )

    def activate_some(self, service: Service | None) -> None:
        """Activates a list of pods now and then, as a plugin may; called once per second."""
        if service is not None and self._rng.random() < ACTIVATED_SHARE:
            uids = [entry.uid for entry in service.queue.pods()]
            self._rng.shuffle(uids)
            service.handle.activate(*uids[: self._rng.randrange(1, ACTIVATED_MAX)])
