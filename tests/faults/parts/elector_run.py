"""Three candidates for one lease, with writes under it, wrong clocks, and a faulty network.

Every candidate keeps the lease for a while, and releases it, also while a renewal is under way; a
new one takes its place. In half of the runs a user edits the labels of the Lease all the time,
which is no renewal. A writer is always the holder that the server has stored, and writes nothing
after its release. In half of the runs each step of an elector is compared with its model.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Any, Final

from mooring.client import Elector
from mooring.client.transport.transport import Request, Response
from mooring.clock import Rng, seeded_random
from mooring.errors import LeaseLost
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.parts.lease_checks import lease_problems
from tests.faults.parts.virtual_runs import check_run_of_tasks
from tests.faults.test_lease_seeds import SkewedClock
from tests.faults.twins.attached_elector import AttachedElector
from tests.helpers.client_servers import LeaseServer
from tests.helpers.lease_fixture import PATH

CANDIDATES: Final = 3
BUSY_S: Final = 400.0
#: So often a user may give the lease away; until then its leader may write, by any clock.
STEALS: Final = 5
STOLEN_S: Final = 16.0
#: The longest time between two changes of the labels of the Lease, in runs that have them.
EDIT_S_MAX: Final = 6.0
#: Without faults a candidate leads, and each that waits follows it, within so many seconds.
QUIET_S: Final = 60.0
#: In each direction, at most.
LATENCY_S: Final = 0.3
#: Clocks differ by less than a factor of 1.5.
SKEW: Final = 0.15
KINDS: Final = ("unreachable", "too_many", "server_error", "lost", "slow", "conflict")
#: Of the leases that a user changes so many are deleted.
DELETED_SHARE: Final = 0.4


class Delayed:
    """The way to the server, which takes a while.

    Attributes:
        has_begun: Set at each request.
    """

    def __init__(self, server: LeaseServer, rng: Rng) -> None:
        self.has_begun = asyncio.Event()
        self._server = server
        self._rng = rng

    async def request(self, request: Request) -> Response:
        """Sends a request."""
        self.has_begun.set()
        await asyncio.sleep(self._rng.random() * LATENCY_S)
        response = await self._server.request(request)
        await asyncio.sleep(self._rng.random() * LATENCY_S)
        return response

    def stream(self, *_: Any, **__: Any) -> Any:
        """Is not called."""
        raise AssertionError("a lease is not watched")

    async def close(self) -> None:
        """Has nothing to close."""


class ElectorRun:
    """One run.

    Attributes:
        problems: Violations of the rules.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._server = LeaseServer()
        self._tasks = tasks
        self._networks: list[FaultyNetwork] = []
        self._count = 0
        #: Candidates may be released while they renew: the model does one thing at a time.
        self._has_model = self._rng.random() < 0.5
        self._electors: dict[int, Elector] = {}
        #: Draws the edits of labels; None = there are none.
        self._edits = seeded_random(seed + 4_000_000) if seed % 2 else None
        #: When a user has given the lease to another holder.
        self._stolen_at_s = -math.inf

    async def run(self) -> None:
        """Runs all candidates, with faults and then without."""
        lives = [self._tasks.create_task(self._live(n)) for n in range(CANDIDATES)]
        if self._edits is not None:
            lives.append(self._tasks.create_task(self._edit_labels(self._edits)))
        for _ in range(STEALS):
            await asyncio.sleep(BUSY_S / STEALS)
            if self._has_model and self._rng.random() < 0.5:
                self._steal()
        for network in self._networks:
            network.heal()
        await asyncio.sleep(max(0.0, self._healed_s() - asyncio.get_running_loop().time()))
        for _ in range(int(QUIET_S)):
            await asyncio.sleep(1.0)
            if any(elector.is_leading for elector in self._electors.values()):
                break
        else:
            self.problems.append("nobody leads, without any fault")
        for life in lives:
            life.cancel()

    def _healed_s(self) -> float:
        return max(network.healed_at_s for network in self._networks)

    # -- one candidate after another --------------------------------------------------------------

    async def _live(self, number: int) -> None:
        rng = seeded_random(self._rng.getrandbits(64))
        network = FaultyNetwork(rng)
        network.open(self._tasks)
        network.faults = _faults(rng)
        self._networks.append(network)
        clock, server = SkewedClock(rng, SKEW), Delayed(self._server, rng)
        while True:
            self._count += 1
            elector = Elector(
                FaultyTransport(network, server),
                "kube-system",
                "mooring",
                identity=f"{number}-{self._count}",
                clock=clock,
                rng=rng,
                sleep=clock.sleep,
            )
            self._electors[number] = elector
            if self._has_model:
                AttachedElector(elector, clock, self.problems.append)
            with suppress(LeaseLost):
                await elector.wait_until_leading()
                await self._lead(elector, server, clock, rng)

    async def _lead(self, elector: Elector, server: Delayed, clock: SkewedClock, rng: Rng) -> None:
        """Writes under the lease until it is lost, or released."""
        keeping = asyncio.create_task(elector.keep())
        writing = asyncio.create_task(self._write(elector, clock, rng))
        await asyncio.wait({keeping}, timeout=rng.choice((3.0, 20.0, 90.0)))
        if rng.random() < 0.5:
            # Until the next renewal is under way.
            server.has_begun.clear()
            begun = asyncio.create_task(server.has_begun.wait())
            await asyncio.wait({keeping, begun}, return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
        writing.cancel()
        try:
            if keeping.done():
                keeping.result()
                return
            if self._has_model:
                keeping.cancel()
                await asyncio.wait({keeping})
            await elector.release()
            await self._check_released(elector, rng)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping, writing})
            if not keeping.cancelled():
                keeping.exception()

    async def _check_released(self, elector: Elector, rng: Rng) -> None:
        """Checks for a while that the renewals that were under way do not lead again."""
        for _ in range(rng.choice((1, 20))):
            with suppress(LeaseLost):
                seconds = elector.fence()
                self.problems.append(f"{elector.identity} may write for {seconds} s once released")
            if elector.is_leading:
                self.problems.append(f"{elector.identity} leads once released")
            await asyncio.sleep(0.5)

    async def _write(self, elector: Elector, clock: SkewedClock, rng: Rng) -> None:
        """Sends writes that arrive at the latest when the fence said."""
        while True:
            with suppress(LeaseLost):
                most_s = elector.fence()
                await clock.sleep(most_s * rng.random())
                self._arrive(elector.identity)
            await clock.sleep(0.5 * rng.random())

    def _steal(self) -> None:
        """Gives the lease to another holder, or deletes it: no lease protects from that."""
        if (lease := self._server.leases.get(PATH)) is not None:
            self._stolen_at_s = asyncio.get_running_loop().time()
            if self._rng.random() < DELETED_SHARE:
                del self._server.leases[PATH]
                return
            self._server.version += 1
            lease["spec"]["holderIdentity"] = "thief"
            lease["metadata"]["resourceVersion"] = str(self._server.version)

    async def _edit_labels(self, rng: Rng) -> None:
        """Changes the labels of the Lease again and again: its holder stays the same."""
        while True:
            await asyncio.sleep(rng.uniform(0.5, EDIT_S_MAX))
            if (lease := self._server.leases.get(PATH)) is not None:
                self._server.version += 1
                lease["metadata"]["labels"] = {"edited": str(self._server.version)}
                lease["metadata"]["resourceVersion"] = str(self._server.version)

    def _arrive(self, sender: str) -> None:
        lease: Any = self._server.leases.get(PATH)
        holder = lease["spec"]["holderIdentity"] if lease is not None else ""
        is_stolen = asyncio.get_running_loop().time() < self._stolen_at_s + STOLEN_S
        if holder != sender and not is_stolen:
            self.problems.append(f"a write of {sender} arrives, but {holder!r} holds the lease")


def _faults(rng: Rng) -> Faults:
    return Faults(**{name: rng.choice((0.0, 0.0, 0.1, 0.4)) for name in KINDS})


def run_elector(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rule is violated.
    """
    check_run_of_tasks(ElectorRun, seed)
    for problem in lease_problems(seeded_random(seed + 5_000_000)):
        raise AssertionError(problem)
