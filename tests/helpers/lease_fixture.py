"""Candidates for a lease, each with its own clock, and leases in a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.client.leader_election import Elector, LeaseTimes
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.client_servers import LeaseServer

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mooring"


class World:
    """A server, a clock, and candidates."""

    def __init__(self, server: LeaseServer | None = None) -> None:
        self.server = server or LeaseServer()
        self.clock = VirtualClock()
        self.leaders: list[str] = []
        #: Called after each wait of a candidate.
        self.after_wait: Callable[[], None] = lambda: None

    def candidate(
        self, identity: str, elector_class: type[Elector] = Elector, **times: float
    ) -> Elector:
        async def sleep(seconds: float) -> None:
            self.clock.advance(seconds)
            self.after_wait()

        return elector_class(
            self.server,
            "kube-system",
            "mooring",
            identity=identity,
            clock=self.clock,
            rng=seeded_random(1),
            times=LeaseTimes(**times),
            on_new_leader=self.leaders.append,
            sleep=sleep,
        )

    @property
    def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.server.leases[PATH]["spec"]
        return spec


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(World())

    asyncio.run(main())
