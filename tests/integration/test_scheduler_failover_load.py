"""Two replicas of ``mooring run`` under load: API server restarted, lease lost, a loop that hangs.

After each case no pod is lost, none was bound twice, and no node ever had more than it can have.
The time in which no scheduler binds is printed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.client import Client
from mooring.clock import seeded_random
from mooring.errors import SchedulerError
from mooring.objects.meta import Lease
from mooring.testing.controlplane import ControlPlane
from tests.integration.failover_load import Load
from tests.integration.processes import Program, mooring
from tests.integration.schedulers import Real, run, transport_to, until

pytestmark = pytest.mark.slow

#: Shorter than by default (15, 10 and 2 s), so that an outage need not last for 10 s.
SHORT = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
#: A lease of 6 s, up to 0.5 s of jitter, and what a busy machine adds.
TAKEOVER_S_MAX = 10.0
#: The next try after a release: 2 s and 1.2 times as much.
HANDOVER_S_MAX = 7.0


@pytest.fixture
def plane(programs: Path) -> Iterator[ControlPlane]:
    """Yields a control plane of one test: pods and leases of another one would count."""
    with ControlPlane(programs=programs) as plane:
        yield plane


class Replicas:
    """A leader and a standby under load."""

    def __init__(self, plane: ControlPlane, client: Client, load: Load) -> None:
        self.plane = plane
        self.client = client
        self.load = load
        self.leader: Program
        self.standby: Program

    async def lease(self) -> Lease:
        return cast("Lease", await self.client.get("Lease", "kube-scheduler", "kube-system"))

    async def steal(self, holder: str, *, seconds: int) -> None:
        """Writes another holder into the lease."""
        spec = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}
        await self.client.patch("Lease", "kube-scheduler", spec, namespace="kube-system")

    async def seconds_until(self, holds: Callable[[], Any]) -> float:
        begun_s = time.monotonic()
        await until(holds)
        return time.monotonic() - begun_s

    async def seconds_until_bound(self, more: int = 20) -> float:
        """Returns the seconds until so many more pods are bound."""
        count = self.load.bound_count() + more
        return await self.seconds_until(lambda: self.load.bound_count() >= count)


@asynccontextmanager
async def replicas(
    plane: ControlPlane, folder: Path, *flags: str, prepare: Callable[[Path], None] | None = None
) -> AsyncIterator[Replicas]:
    """Runs two replicas under load; afterwards the history must be sound.

    Args:
        plane: The control plane.
        folder: For their logs.
        flags: Of both.
        prepare: Called with the folder of each before it starts.
    """
    with ExitStack() as stack:
        async with transport_to(Real(plane).access()) as transport:
            client = Client(transport, rng=seeded_random(4))
            load = Load(client)
            both = Replicas(plane, client, load)

            async def start(name: str, line: str) -> Program:
                (folder / name).mkdir()
                if prepare is not None:
                    prepare(folder / name)
                kubeconfig = f"--kubeconfig={plane.kubeconfig('mooring')}"
                program = stack.enter_context(mooring(folder / name, "run", kubeconfig, *flags))
                await until(lambda: line in program.said())
                return program

            async with load.running():
                both.leader = await start("leader", "caches synced")
                both.standby = await start("standby", "waiting for the lease")
                await both.seconds_until_bound(60)
                yield both
            load.assert_sound()
            for program in (both.leader, both.standby):
                assert "Traceback" not in program.said()
            print(f"{len(load.created)} pods, each bound once, no node overcommitted")


def case(
    test: Callable[[Replicas], Awaitable[None]],
    plane: ControlPlane,
    folder: Path,
    *flags: str,
    prepare: Callable[[Path], None] | None = None,
) -> None:
    """Runs a test with two replicas."""

    async def main() -> None:
        async with replicas(plane, folder, *flags, prepare=prepare) as both:
            await test(both)

    run(main)


def test_the_leader_survives_a_restart_of_the_api_server(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def test(both: Replicas) -> None:
        before = await both.lease()
        both.load.deletions_allowed = False
        begun_s = time.monotonic()
        await asyncio.to_thread(plane.apiserver.restart)
        restart_s = time.monotonic() - begun_s
        # Without deletions the cluster becomes full, perhaps before the restart has ended; then the
        # watch of the load has no gap any more.
        await both.seconds_until(both.load.is_full)
        both.load.deletions_allowed = True
        await both.seconds_until_bound(1)
        print(f"restart {restart_s:.1f} s, bound again after {time.monotonic() - begun_s:.1f} s")
        await both.seconds_until_bound(60)
        after = await both.lease()
        assert both.leader.process.poll() is None
        assert after.spec.holder_identity == before.spec.holder_identity
        assert after.spec.lease_transitions == before.spec.lease_transitions
        # The standby has noticed nothing.
        assert "lease acquired" not in both.standby.said()

    case(test, plane, tmp_path)


def test_the_standby_leads_after_an_outage_that_outlasts_the_lease(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def test(both: Replicas) -> None:
        both.load.deletions_allowed = False
        await asyncio.to_thread(plane.apiserver.kill)
        lost_s = await both.seconds_until(lambda: both.leader.process.poll() is not None)
        assert both.leader.process.poll() == 1
        assert lost_s < 6.0, "it ends before its lease does"
        await asyncio.to_thread(plane.apiserver.restart)
        led_s = await both.seconds_until(lambda: "lease acquired" in both.standby.said())
        print(
            f"the leader ended after {lost_s:.1f} s; the standby led {led_s:.1f} s after the start"
        )
        both.load.deletions_allowed = True
        await both.seconds_until_bound(60)
        assert led_s < TAKEOVER_S_MAX

    case(test, plane, tmp_path, *SHORT)


def test_a_deleted_lease_stays_with_its_holder(plane: ControlPlane, tmp_path: Path) -> None:
    async def test(both: Replicas) -> None:
        before = await both.lease()
        for _ in range(3):
            uid = (await both.lease()).metadata.uid
            await both.client.delete("Lease", "kube-scheduler", "kube-system")
            begun_s = time.monotonic()
            while await uid_of_lease(both) in ("", uid):  # noqa: ASYNC110 - a lease has no event
                await asyncio.sleep(0.02)
            print(f"created again after {time.monotonic() - begun_s:.1f} s")
            await both.seconds_until_bound(40)
        after = await both.lease()
        assert after.spec.holder_identity == before.spec.holder_identity
        assert both.leader.process.poll() is None
        assert "lease acquired" not in both.standby.said()

    case(test, plane, tmp_path)


async def uid_of_lease(both: Replicas) -> str:
    """Returns the UID of the lease; "" if there is none."""
    try:
        return (await both.lease()).metadata.uid
    except SchedulerError:
        return ""


def test_a_stolen_lease_ends_the_leader_and_the_standby_leads_when_it_is_given_up(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def test(both: Replicas) -> None:
        await both.steal("thief", seconds=60)
        lost_s = await both.seconds_until(lambda: both.leader.process.poll() is not None)
        assert both.leader.process.poll() == 1
        assert lost_s < 4.0, "its next renewal"
        bound = both.load.bound_count()
        # Pods are created all the time, and nothing is bound under the thief's lease.
        created = len(both.load.created) + 60
        await both.seconds_until(lambda: len(both.load.created) >= created)
        assert both.load.bound_count() == bound
        assert (await both.lease()).spec.holder_identity == "thief"
        assert "lease acquired" not in both.standby.said()
        await both.steal("", seconds=1)
        led_s = await both.seconds_until(lambda: "lease acquired" in both.standby.said())
        print(f"the leader ended after {lost_s:.1f} s; the standby led after {led_s:.1f} s")
        await both.seconds_until_bound(60)
        assert led_s < HANDOVER_S_MAX

    case(test, plane, tmp_path)


def test_a_stolen_lease_that_is_not_renewed_expires(plane: ControlPlane, tmp_path: Path) -> None:
    async def test(both: Replicas) -> None:
        await both.steal("thief", seconds=3)
        led_s = await both.seconds_until(lambda: "lease acquired" in both.standby.said())
        assert both.leader.process.wait(10) == 1
        print(f"the standby led {led_s:.1f} s after the theft")
        await both.seconds_until_bound(60)
        assert 3.0 <= led_s < TAKEOVER_S_MAX

    case(test, plane, tmp_path)


#: A plugin that does not return for the pod "trap", in the replica that has a file named "hangs".
TRAP = """
from pathlib import Path


class Trap:
    name = "Trap"

    def pre_filter(self, cycle):
        while cycle.pod.metadata.name == "trap" and Path("hangs").exists():
            pass
"""


def set_trap(folder: Path) -> None:
    """Writes the plugin, and the file for the leader."""
    (folder / "trap.py").write_text(TRAP)
    if folder.name == "leader":
        (folder / "hangs").touch()


def test_the_standby_leads_while_the_loop_of_the_leader_hangs(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def test(both: Replicas) -> None:
        await both.load.create("trap")
        led_s = await both.seconds_until(lambda: "lease acquired" in both.standby.said())
        print(f"the standby led {led_s:.1f} s after the pod was created")
        await both.seconds_until_bound(60)
        await until(lambda: "the event loop hangs" in both.leader.said())
        assert 'plugin="Trap" method="pre_filter" pod="default/trap"' in both.leader.said()
        assert both.leader.process.poll() is None
        assert led_s < TAKEOVER_S_MAX

        (tmp_path / "leader" / "hangs").unlink()
        # It wakes up without a lease: it ends before it writes anything, as the history shows.
        await both.seconds_until(lambda: both.leader.process.poll() is not None)
        assert both.leader.process.poll() == 1
        await both.seconds_until_bound(60)

    case(test, plane, tmp_path, "--plugin=trap:Trap", *SHORT, prepare=set_trap)


def test_a_leader_whose_loop_hangs_can_be_ended(plane: ControlPlane, tmp_path: Path) -> None:
    async def test(both: Replicas) -> None:
        await both.load.create("trap")
        await until(lambda: "the event loop hangs" in both.leader.said())
        both.leader.process.send_signal(signal.SIGTERM)
        await both.seconds_until(lambda: both.leader.process.poll() is not None)
        assert both.leader.process.poll() == 1
        assert "ended by a signal" in both.leader.said()
        await both.seconds_until_bound(60)

    case(test, plane, tmp_path, "--plugin=trap:Trap", *SHORT, prepare=set_trap)
