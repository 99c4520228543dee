"""A candidate that kube-apiserver has to name, and the factories of both electors, beside a model.

A controller names holders, marks the end of a term, renews for others, deletes the Lease or edits
its labels, while requests fail or take long. The model knows the answers that arrived: from them
follow each request, each field of each Lease that is written, until when the candidate leads, and
how its term ends. In a third of the runs the candidate takes the Lease itself, beside the model of
``AttachedElector``; names and times are those of a drawn configuration in all of them.
"""

from __future__ import annotations

import asyncio
import math
import re
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.client import Client, Elector
from mooring.client.transport.transport import Request, Response
from mooring.clock import Rng, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.config.types import LeaderElection
from mooring.errors import LeaseLost, OutcomeUnknown, Unreachable
from mooring.scheduler import leader_election as module
from mooring.scheduler.leader_election import (
    make_candidate,
    make_coordinated_elector,
    make_elector,
    record_leader,
)
from mooring.virtual_loop import LoopClock
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.parts.coordinated_model import ROUNDING_S, Model, Wire
from tests.faults.parts.elector_run import Delayed
from tests.faults.twins.attached_elector import AttachedElector
from tests.helpers.client_servers import LeaseServer
from tests.helpers.virtual_loop import run_virtually

RUN_S: Final = 240.0
HOST: Final = "host-1"
#: The health check fails so long after the lease has expired, written down here, not imported.
TOLERANCE_S: Final = 20.0
RATES: Final = (0.0, 0.0, 0.0, 0.1, 0.3)
KINDS: Final = ("unreachable", "too_many", "server_error", "lost", "slow")
#: Lease duration, renew deadline and retry period.
TIMES: Final = ((15.0, 10.0, 2.0), (15.0, 10.0, 2.0), (8.5, 5.0, 1.0), (40.0, 30.0, 7.0))
#: What happens to the Lease: of a candidate that is named, and of another.
NAMED: Final = ("us", "us", "us", "us", "other", "none", "prefer", "delete", "edit")
TAKEN: Final = ("other", "edit", "edit", "edit")
IDENTITY: Final = re.compile(
    r"_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)


class ElectionServer:
    """The Lease, a controller that changes it, and the event about its holder."""

    problems: list[str]
    _rng: Rng
    _clock: LoopClock
    _election: LeaderElection
    _server: LeaseServer
    _path: str
    _identity: str
    _is_named: bool

    async def _record(self, elector: Elector, model: Model) -> None:
        """Writes the event about the leader, which may fail in each way."""
        events = Events(self._rng)
        assert elector.lease is not None
        lease, now_s = elector.lease.metadata, self._clock.wall_s()
        fence = elector.fence if self._rng.random() < 0.7 else _refuse
        client = Client(events, rng=self._rng, fence=fence, sleep=_no_wait)
        is_lost = False
        try:
            await record_leader(client, elector, component="shop-scheduler", clock=self._clock)
        except LeaseLost:
            is_lost = True
        if is_lost != (fence is _refuse) or (is_lost and events.bodies):
            self.problems.append(f"the event: lease lost is {is_lost}, {len(events.bodies)} sent")
        now = datetime.fromtimestamp(int(now_s), tz=_UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        reference = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}
        reference |= {"namespace": lease.namespace, "name": lease.name, "uid": lease.uid}
        name = f"{lease.name}.{int(now_s * 1e9):x}"
        expected = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self._election.resource_namespace},
            "involvedObject": reference | {"resourceVersion": lease.resource_version},
            "reason": "LeaderElection",
            "message": f"{model.identity} became leader",
            "source": {"component": "shop-scheduler"},
            "reportingComponent": "shop-scheduler",
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Normal",
        }
        path = f"/api/v1/namespaces/{self._election.resource_namespace}/events"
        for real in events.bodies:
            if real != ("POST", path, expected):
                self.problems.append(f"an event {real}, not {expected}")

    async def _control(self) -> None:
        """Changes the Lease as the controller and other candidates do."""
        rng = seeded_random(self._rng.getrandbits(64))
        while True:
            await asyncio.sleep(rng.choice((0.2, 1.0, 3.0, 3.0, 8.0, 20.0)))
            lease = self._server.leases.get(self._path)
            what = rng.choice(NAMED if self._is_named else TAKEN)
            if what == "delete":
                self._server.leases.pop(self._path, None)
                continue
            self._server.version += 1
            version = str(self._server.version)
            if what in ("prefer", "edit") and lease is not None:
                lease["metadata"] = {**lease["metadata"], "resourceVersion": version}
                if what == "prefer":
                    lease["spec"] = {**lease["spec"], "preferredHolder": "better"}
                else:
                    lease["metadata"]["labels"] = {"edited": version}
                continue
            self._server.leases[self._path] = self._named(rng, what, version)

    def _named(self, rng: Rng, what: str, version: str) -> dict[str, Any]:
        holder = {"us": self._identity, "other": "other"}.get(what, "")
        now = _text(self._clock.wall_s())
        spec: dict[str, Any] = {"holderIdentity": holder, "renewTime": now}
        spec["leaseDurationSeconds"] = rng.choice((1, 5, 15))
        if rng.random() < 0.8:
            spec |= {"strategy": "OldestEmulationVersion", "acquireTime": now}
        if rng.random() < 0.6:
            spec["leaseTransitions"] = rng.randrange(4)
        metadata = {
            "name": self._election.resource_name,
            "namespace": self._election.resource_namespace,
            "uid": f"uid-{version}",
            "resourceVersion": version,
        }
        return {"metadata": metadata, "spec": spec}


class CoordinatedRun(ElectionServer):
    """One run: candidates one after another."""

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._tasks = tasks
        self._clock = LoopClock(asyncio.get_running_loop())
        self._is_named = seed % 3 > 0
        duration_s, renew_s, retry_s = rng.choice(TIMES)
        self._election = LeaderElection(
            lease_duration_s=duration_s,
            renew_deadline_s=renew_s,
            retry_period_s=retry_s,
            resource_name=rng.choice(("kube-scheduler", "mooring")),
            resource_namespace=rng.choice(("kube-system", "shop")),
        )
        self._config = KubeSchedulerConfiguration(leader_election=self._election)
        self._server = LeaseServer()
        self._network = FaultyNetwork(rng)
        self._network.open(tasks)
        self._network.faults = Faults(**{name: rng.choice(RATES) for name in KINDS})
        self._path = (
            "/apis/coordination.k8s.io/v1/namespaces/"
            f"{self._election.resource_namespace}/leases/{self._election.resource_name}"
        )
        self._identity = ""
        self._slow = 0

    async def run(self) -> None:
        """Runs candidates while the controller acts."""
        acts = self._tasks.create_task(self._control())
        off = msgspec.structs.replace(
            self._config, leader_election=LeaderElection(leader_elect=False)
        )
        for make in (make_elector, make_coordinated_elector):
            if make(self._server, off, clock=self._clock, rng=self._rng) is not None:
                self.problems.append("there is an elector without leader election")
        ends_s = self._clock.monotonic_s() + RUN_S
        while self._clock.monotonic_s() < ends_s:
            await self._live()
        acts.cancel()

    # -- a candidate ------------------------------------------------------------------------------

    async def _live(self) -> None:
        rng = self._rng
        model = Model(self._election, self._clock, is_named=self._is_named)
        self._slow = 0
        wire = Wire(FaultyTransport(self._network, Delayed(self._server, rng)), model)
        make = make_coordinated_elector if self._is_named else make_elector
        elector = make(wire, self._config, clock=self._clock, rng=rng, on_slow_path=self._note_slow)
        assert elector is not None
        self._check_identity(elector)
        self._identity = model.identity = elector.identity
        model.is_leading = lambda: elector.is_leading
        leaders: list[str] = []
        real: Any = elector
        real._on_new_leader = leaders.append
        self._follow_writes(real)
        if not self._is_named:
            AttachedElector(elector, self._clock, self.problems.append, real._times)
        looks = asyncio.create_task(self._look(elector, model))
        waits = asyncio.create_task(elector.wait_until_leading())
        done, _ = await asyncio.wait({waits}, timeout=rng.choice((30.0, 90.0)))
        if done:
            await waits
            if self._is_named and not model.leads:
                self.problems.append("leads, but has not written")
            await self._record(elector, model)
            await self._keep(elector, model)
        model.is_stopped = True
        looks.cancel()
        waits.cancel()
        await asyncio.wait({looks, waits})
        if not looks.cancelled() and looks.exception():
            raise RuntimeError from looks.exception()
        if leaders != model.leaders:
            self.problems.append(f"observes the leaders {leaders}, not {model.leaders}")
        if self._slow != model.slow_count:
            self.problems.append(f"counts {self._slow} slow renewals, not {model.slow_count}")
        self.problems += model.problems

    def _follow_writes(self, elector: Any) -> None:
        """Checks that the lease that a successful try has written is the one that is observed."""
        replace, create, try_once = (
            elector._requests.replace,
            elector._requests.create,
            elector._try_once,
        )
        written: list[Any] = []

        async def replaced(lease: Any) -> Any:
            written.append(await replace(lease))
            return written[-1]

        async def created(lease: Any) -> Any:
            written.append(await create(lease))
            return written[-1]

        async def tried(started_at_s: float) -> bool:
            is_ours: bool = await try_once(started_at_s)
            if is_ours and elector.lease is not written[-1]:
                self.problems.append("observes another lease than it has written")
            return is_ours

        elector._requests.replace, elector._requests.create = replaced, created
        elector._try_once = tried

    def _check_identity(self, elector: Elector) -> None:
        host = HOST
        if not elector.identity.startswith(host) or not IDENTITY.fullmatch(
            elector.identity[len(host) :]
        ):
            self.problems.append(f"an identity {elector.identity!r}")
        candidate: Any = make_candidate(
            self._server,
            self._config,
            elector,
            binary_version="1.36.3",
            emulation_version="1.35.0",
            clock=self._clock,
            rng=self._rng,
        )
        written = msgspec.to_builtins(candidate._candidacy.next_version(None))
        names = written["metadata"]["name"], written["metadata"]["namespace"]
        spec = {name: value for name, value in written["spec"].items() if name != "renewTime"}
        expected = {
            "leaseName": self._election.resource_name,
            "binaryVersion": "1.36.3",
            "emulationVersion": "1.35.0",
            "strategy": "OldestEmulationVersion",
        }
        place = elector.identity, self._election.resource_namespace
        if (names, spec) != (place, expected):
            self.problems.append(f"a LeaseCandidate {names} {spec}, not {place} {expected}")

    def _note_slow(self) -> None:
        self._slow += 1

    async def _keep(self, elector: Elector, model: Model) -> None:
        rng = self._rng
        if rng.random() < 0.2:
            await asyncio.sleep(rng.choice((1.0, 12.0, 80.0)))  # nothing renews it
        keeping = asyncio.create_task(elector.keep())
        await asyncio.sleep(0)
        model.keeps()
        await asyncio.wait({keeping}, timeout=rng.choice((5.0, 60.0, 200.0)))
        now_s = self._clock.monotonic_s()
        if not keeping.done():
            model.is_stopped = True
            keeping.cancel()
            await asyncio.wait({keeping})
            if self._is_named and model.term:
                self.problems.append(f"goes on although its term is {model.term}")
        elif self._is_named:
            self._check_end(keeping, elector, model, now_s)
        else:
            keeping.exception()
        await self._release(elector, model)

    def _check_end(
        self, keeping: asyncio.Task[None], elector: Elector, model: Model, now_s: float
    ) -> None:
        error = keeping.exception()
        if error is not None and not isinstance(error, LeaseLost):
            raise error
        model.check_late()
        is_lost = model.term == "lost" or (not model.term and not model.leads)
        left_s = model.leads_until_s - now_s
        where = f"{self._election.resource_namespace}/{self._election.resource_name}"
        text = (
            f"{where} is lost: not renewed for {self._election.renew_deadline_s - left_s:.1f} s, "
            f"its holder is {model.holder or 'unknown'}"
        )
        expected = text if is_lost else None
        if (str(error) if error else None) != expected or (not is_lost and model.term != "over"):
            self.problems.append(f"keep ends with {error!r}, not {expected} ({model.term!r})")
        if elector.is_term_over != (not is_lost):
            self.problems.append(f"is_term_over is {elector.is_term_over}")
        if is_lost:
            model.leads_until_s = -math.inf
            model.term = "lost"

    async def _release(self, elector: Elector, model: Model) -> None:
        """Releases the lease; nothing is written under it from then on."""
        where = f"{self._election.resource_namespace}/{self._election.resource_name}"
        text = ""
        sent = len(self._server.requests)
        leads = elector.is_leading
        if self._is_named and leads != model.leads:
            self.problems.append(f"leads is {leads}, not {model.leads}")
        model.is_releasing, model._next_is_put = True, False
        model.leads_until_s, model.term = -math.inf, "released"
        is_released = await elector.release()
        if not leads and (is_released or len(self._server.requests) != sent):
            self.problems.append("releases a lease that it does not hold")
        if await elector.release():
            self.problems.append("releases twice")
        if leads:
            try:
                await elector.wait_until_leading()
            except LeaseLost as error:
                text = str(error)
            if text != f"{where} was held before: use a new elector":
                self.problems.append(f"leads again: {text}")

    async def _look(self, elector: Elector, model: Model) -> None:
        """Uses the fence and the health check again and again."""
        where = f"{self._election.resource_namespace}/{self._election.resource_name}"
        health = f"failed election to renew leadership on lease {self._election.resource_name}"
        while True:
            await asyncio.sleep(self._rng.uniform(0.1, 2.0))
            if not self._is_named:
                continue
            model.check_late()
            left_s = model.leads_until_s - self._clock.monotonic_s()
            try:
                real: Any = elector.fence()
            except LeaseLost as error:
                real = str(error)
            expected: Any = left_s if left_s > 0 else f"{elector.identity} does not hold {where}"
            if real != expected and not (
                isinstance(real, float) and abs(real - left_s) < ROUNDING_S
            ):
                self.problems.append(f"the fence is {real}, not {expected}")
            late_s = (
                self._clock.monotonic_s() - model.renewed_at_s - self._election.lease_duration_s
            )
            is_late = not model.term and math.isfinite(late_s) and late_s > TOLERANCE_S
            if elector.check_health() != (health if is_late else None):
                self.problems.append(f"is healthy: {elector.check_health()!r}, late {late_s:.2f} s")
            if elector.failed_at_s != model.failed_at_s:
                self.problems.append(f"failed at {elector.failed_at_s}, not {model.failed_at_s}")

    # -- the event --------------------------------------------------------------------------------

    # -- kube-apiserver ---------------------------------------------------------------------------


class Events:
    """A server of events that accepts, refuses, or does not answer."""

    def __init__(self, rng: Rng) -> None:
        self.bodies: list[Any] = []
        self._rng = rng

    async def request(self, request: Request) -> Response:
        """Answers a request."""
        body = msgspec.json.decode(request.body)
        self.bodies.append((request.method, request.path, body))
        status = self._rng.choice((201, 201, 201, 403, 409, 422, 500, 0, 1))
        if status < 2:
            raise Unreachable("away") if status else OutcomeUnknown("no answer")
        return Response(status, {}, request.body if status == 201 else b"{}")

    def stream(self, *_: Any, **__: Any) -> Any:
        """Is not called."""
        raise AssertionError("events are not watched")

    async def close(self) -> None:
        """Has nothing to close."""


_UTC: Final = datetime.fromisoformat("2026-01-01T00:00:00Z").tzinfo


async def _no_wait(_: float) -> None:
    """Waits no time: the lease lasts meanwhile."""


def _refuse() -> float:
    raise LeaseLost("the lease is lost")


def _text(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, tz=_UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def run_coordinated(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a candidate does not do what the model does.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            coordinated = CoordinatedRun(seed, tasks)
            await coordinated.run()
        return coordinated.problems

    # The run is the same on every host.
    before = vars(module)["os"]
    vars(module)["os"] = SimpleNamespace(uname=lambda: SimpleNamespace(nodename=HOST))
    try:
        problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    finally:
        vars(module)["os"] = before
    assert not problems, problems[0]
