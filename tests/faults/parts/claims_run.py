"""Reservations of devices over a network that loses answers, while others change the claims.

Pods with one or two claims, which they share, are reserved, written in PreBind, and given up or
bound. Users label, delete and recreate claims; their controller clears the users of deleted pods;
another scheduler allocates claims; the process is killed between any two writes. Watches lag.

No device is given twice, each write is of this attempt and valid, a failure has a reason that
was seen, and no request for a failed reservation arrives later (``claim_model``).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from mooring.client import Request
from mooring.client.bound_node import ARRIVES_WITHIN_S
from mooring.client.transport.transport import Transport
from mooring.clock import Rng, seeded_random
from mooring.errors import SchedulerError
from mooring.objects.pod import Pod
from mooring.objects.resource import FINALIZER, ResourceClaim
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import VirtualLoop
from tests.faults.harness.faults import DELAY_S_MAX, DELAY_S_MIN, Faults, FaultyNetwork, now_s
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.request_checker import RequestChecker
from tests.faults.parts.claim_model import Known, devices_of, known
from tests.faults.parts.claim_process import Answer, ClaimProcess, claim_in
from tests.faults.parts.claim_server import ClaimServer, Stored, users_of
from tests.faults.parts.claim_texts import requests_after_the_end
from tests.helpers.virtual_loop import run_virtually

CLAIMS: Final = ("c0", "c1", "c2", "c3", "c4")
PODS: Final = 10
ACTIONS: Final = 60
#: No attempt takes longer without faults, but for a Retry-After.
QUIET_S: Final = 400.0
CONFLICTS_MAX: Final = 5
AT_ONCE_SHARE: Final = 0.3
KINDS: Final = ("unreachable", "too_many", "server_error", "lost", "slow", "refused_status")
WEIGHTS: Final = {
    "touch": 6, "add_pod": 10, "delete_pod": 4, "delete_claim": 2, "create_claim": 6,
    "allocate": 2, "clear": 8, "restart": 1,
}  # fmt: skip
OTHERS: Final = {"driver": "other.test", "pool": "other", "request": "r"}


class LateWrites(FaultyNetwork):
    """A network whose delays are mostly longer than a request may take.

    Attributes:
        on_way: The requests that arrive after their sender timed out, and when.
    """

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.on_way: list[tuple[Request, float]] = []

    def delay_s(self, longest_s: float = DELAY_S_MAX) -> float:
        """Returns a delay from a uniform distribution."""
        return self.rng.uniform(DELAY_S_MIN, longest_s)

    def deliver_late(self, inner: Transport, request: Request, delay_s: float) -> None:
        """Notes when the request arrives."""
        super().deliver_late(inner, request, delay_s)
        self.on_way = [late for late in self.on_way if late[1] > now_s()]
        self.on_way.append((request, now_s() + delay_s))


class ClaimsRun:
    """One run.

    Attributes:
        problems: Violations of the rules, and differences to the model.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._tasks = tasks
        self._server = ClaimServer(self._on_change)
        self.network = LateWrites(seeded_random(seed + 1_000_000))
        self.network.open(tasks)
        self._check_requests()
        self.network.faults = Faults(**{it: rng.choice((0.0, 0.0, 0.1, 0.4)) for it in KINDS})
        self._lag_s = rng.choice((0.0, 0.5, 5.0))
        #: Draws the pods for which the last leader reserves claims; None = it allocates only.
        self._leader = seeded_random(seed + 3_000_000) if seed % 2 else None
        #: UID -> each pod that exists; those that are bound; those of processes that were killed.
        self._pods: dict[str, Pod] = {}
        self._bound: set[str] = set()
        self._killed: set[str] = set()
        self._count, self._attempts = 0, Counter[str]()
        self._server.attempt_of = self._attempts.__getitem__
        self._working: list[asyncio.Task[None]] = []
        self._events: asyncio.Queue[tuple[str, Stored | None]] = asyncio.Queue()
        self._start()

    # -- the process ------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts a process, which lists the claims, and tries all pods."""
        transport = FaultyTransport(self.network, self._server)
        self._process = ClaimProcess(self, transport, self._rng)
        self._events = asyncio.Queue()
        for name, claim in self._server.claims.items():
            self._process.report(name, claim)
        start = self._tasks.create_task
        self._working = [start(self._watch(self._events))]
        self._working += [start(self._drive(pod)) for pod in self._pods.values()]

    def _restart(self) -> None:
        """Kills the process, and starts another one."""
        for task in self._working:
            task.cancel()
        self._killed.update(self._process.attempting)
        self._killed.update(pod for _, pod in self._process.removals)
        self._process.end()
        # Nothing protects from a write of a process that has ended: none arrives here.
        self.network.on_way.clear()
        self.network.restarts += 1
        self._check_requests()
        self._start()

    async def _drive(self, pod: Pod) -> None:
        """Tries a pod until it is bound or deleted."""
        process, uid = self._process, pod.metadata.uid
        while uid in self._pods and uid not in self._bound and process is self._process:
            self._attempts[uid] += 1
            if not await process.attempt(pod):
                # Some are tried at once, while the removal from their claims is in progress.
                is_at_once = self._rng.random() < AT_ONCE_SHARE
                await asyncio.sleep(0.0 if is_at_once else self._rng.uniform(1.0, 10.0))

    async def _watch(self, events: asyncio.Queue[tuple[str, Stored | None]]) -> None:
        """Reports each change, a while later."""
        process = self._process
        while True:
            name, claim = await events.get()
            await asyncio.sleep(self._rng.random() * self._lag_s)
            process.report(name, claim)

    def on_step(self) -> None:
        """Compares the process with its model."""
        self._process.check()

    # -- for the process -----------------------------------------------------------------

    def bind(self, pod: Pod) -> bool:
        """Binds a pod, and checks that its claims are reserved for it, on its node."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            return False
        node = self._process.attempting[uid]
        for entry in pod.spec.resource_claims:
            claim = self._server.claims.get(entry.resource_claim_name or "")
            devices = known(claim).devices if claim is not None else frozenset()
            is_here = all(device.pool in (node, "other") for device in devices)
            if claim is None or uid not in users_of(claim) or not devices or not is_here:
                self.problems.append(f"{pod.metadata.name} is bound to {node} without its claim")
        self._bound.add(uid)
        return True

    def check_failure(
        self, claimed: ResourceClaim, pod: PodInfo, error: SchedulerError, answers: list[Answer]
    ) -> None:
        """Checks that a reservation may fail: what was seen, and what may still happen."""
        name, text = claimed.metadata.name, str(error)
        claim = self._server.claims.get(name)
        what = f"{pod.metadata.name} fails at {name} with {text!r}, but"
        sent_s = self._process.sent_s.get((name, pod.uid), -ARRIVES_WITHIN_S)
        may_arrive = now_s() - sent_s < ARRIVES_WITHIN_S - 5.0 and not _is_of_others(claim)
        if claim is not None and pod.uid in users_of(claim) and may_arrive:
            self.problems.append(f"{what} it is reserved")
        for request, at_s in self.network.on_way:
            body = claim_in(request)
            if at_s <= now_s() or body is None or claim is None or request.method != "PUT":
                continue
            is_current = body["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]
            if is_current and pod.uid in users_of(body):
                self.problems.append(f"{what} its request is on its way")
        latest = self._process.model.get(name)
        if problem := _without_reason(claimed, latest, claim, text, answers):
            self.problems.append(f"{what} {problem}")
        if (missed := requests_after_the_end(answers)) > 0:
            self.problems.append(f"{what} only {missed} requests after it was seen to be gone")

    # -- the server -------------------------------------------------------------------------------

    def _on_change(self, before: Stored | None, after: Stored | None) -> None:
        """Checks a write, and tells the watch."""
        stored = after or before
        assert stored is not None
        name = stored["metadata"]["name"]
        self._events.put_nowait((name, after))
        owners: dict[object, str] = {}
        for other, claim in self._server.claims.items():
            for device in known(claim).devices if after is not None else ():
                if device.pool != "other" and owners.setdefault(device, other) != other:
                    self.problems.append(f"{device} is allocated to {owners[device]} and {other}")
        if self._server.writer is not None and before is not None and after is not None:
            self._check_write(name, before, after)

    def _check_write(self, name: str, before: Stored, after: Stored) -> None:
        """Checks a write of the scheduler: whose it is, and that it changes nothing else."""
        old, new = known(before), known(after)
        added, removed = new.users - old.users, old.users - new.users
        for uid in added:
            if uid not in self._process.attempting and uid not in self._killed:
                self.problems.append(f"{name} is reserved for {uid}, which is not attempted")
        if (removed - self._killed) & self._bound & set(self._pods):
            self.problems.append(f"{name} loses its users {removed}, which are bound")
        if len(added) + len(removed) > 1:
            self.problems.append(f"{name} gets the users {sorted(new.users)}")
        if old.devices and not new.devices and len(old.users) > 1:
            self.problems.append(f"{name} is freed, with the users {sorted(old.users)}")
        if old.devices and not new.devices and new.users:
            self.problems.append(f"{name} is freed, but reserved for {sorted(new.users)}")
        count = before["spec"]["devices"]["requests"][0]["exactly"]["count"]
        if new.devices and not old.devices and len(new.devices) != count:
            self.problems.append(f"{name} gets {len(new.devices)} devices, not {count}")
        if before["metadata"].get("labels") != after["metadata"].get("labels"):
            self.problems.append(f"{name} gets other labels")

    # -- what happens -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Makes all actions during the faults, and compares at the end."""
        rng = self._rng
        for name in CLAIMS:
            self._server.create(name, rng.choice((1, 1, 2)))
        for _ in range(ACTIONS):
            await asyncio.sleep(rng.choice((0.0, 0.5, 3.0, 15.0)))
            action: Callable[[], None] = getattr(
                self, f"_{rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]}"
            )
            action()
        self.network.heal()
        healed_s = max(0.0, self.network.healed_at_s - now_s())
        await asyncio.sleep(healed_s + QUIET_S)
        self._lag_s = 0.0
        await asyncio.sleep(1.0)
        self._check_end()
        for task in self._working:
            task.cancel()

    def _check_end(self) -> None:
        self._process.check_rest()
        self.problems += [f"{problem}: refused" for problem in self._server.invalid]
        for uid, pod in self._pods.items():
            if uid not in self._bound and self._process.feasible(pod):
                self.problems.append(f"{pod.metadata.name} is not bound, without any fault")
        self._check_requests()

    def _check_requests(self) -> None:
        """Checks the rates of the requests of the process that ends."""
        for rule, message in self.network.requests.problems():
            self.problems.append(f"{rule} {message}")
        self.network.requests = RequestChecker()
        self.network.requests.uid_at = self._server.uid_at

    def _add_pod(self) -> None:
        if len(self._pods) >= PODS:
            return
        self._count += 1
        names = self._rng.sample(CLAIMS, self._rng.choice((1, 1, 2)))
        claims = [{"name": name, "resourceClaimName": name} for name in names]
        name = f"pod{self._count}"
        pod = make_pod(name, uid=name, spec={"resourceClaims": claims})
        self._pods[name] = pod
        self._working.append(self._tasks.create_task(self._drive(pod)))

    def _delete_pod(self) -> None:
        if self._pods:
            self._pods.pop(self._rng.choice(list(self._pods)))

    def _touch(self) -> None:
        """Changes a label: the version that others read is stale."""
        claim = self._server.copy_of(self._rng.choice(CLAIMS))
        if claim is not None:
            claim["metadata"]["labels"] = {"touched": str(self._rng.randrange(1000))}
            self._server.store(claim)

    def _create_claim(self) -> None:
        self._server.create(self._rng.choice(CLAIMS), self._rng.choice((1, 1, 2)))

    def _delete_claim(self) -> None:
        _delete(self._server, self._rng, self._leader, self._process.names or CLAIMS)

    def _allocate(self) -> None:
        """Allocates a claim as another scheduler does, with devices that every node can use.

        A request of the last leader that arrives late also reserves it, for a pod that we try.
        """
        name = self._rng.choice(CLAIMS)
        claim = self._server.copy_of(name)
        if claim is None or known(claim).devices or "deletionTimestamp" in claim["metadata"]:
            return
        count = claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
        results = [OTHERS | {"device": f"{name}-{number}"} for number in range(count)]
        claim["metadata"]["finalizers"] = [FINALIZER]
        claim["status"]["allocation"] = {"devices": {"results": results}}
        pods = [pod for uid, pod in self._pods.items() if uid in self._process.attempting]
        claim["status"]["reservedFor"] = _users_of_last_leader(self._leader, pods, name)
        self._server.store(claim)

    def _clear(self) -> None:
        """Removes users that were deleted; frees a claim that has none, or is being deleted."""
        for name in CLAIMS:
            claim = self._server.copy_of(name)
            if claim is None:
                continue
            users = claim["status"].get("reservedFor") or []
            alive = [user for user in users if user["uid"] in self._pods]
            is_deleted = "deletionTimestamp" in claim["metadata"]
            if len(alive) == len(users) and not (is_deleted and not users):
                continue
            claim["status"]["reservedFor"] = alive
            if not alive:
                claim["status"].pop("allocation", None)
                claim["metadata"]["finalizers"] = []
            self._server.store(claim)


def _delete(server: ClaimServer, rng: Rng, leader: Rng | None, names: Sequence[str]) -> None:
    """Deletes a claim; in some runs one of those that are being reserved, and makes it anew."""
    if leader is None:
        server.delete(rng.choice(CLAIMS))
        return
    server.delete(name := leader.choice(names))
    if leader.random() < 0.7:
        server.create(name, 1)  # unless its finalizer holds it


def _is_of_others(claim: Stored | None) -> bool:
    """Returns whether another scheduler has allocated a claim."""
    devices = known(claim).devices if claim is not None else ()
    return any(device.pool == OTHERS["pool"] for device in devices)


def _users_of_last_leader(leader: Rng | None, pods: list[Pod], name: str) -> list[Stored]:
    """Returns one of the pods that are tried now with a claim, or none."""
    pods = [
        pod
        for pod in pods
        if any(entry.resource_claim_name == name for entry in pod.spec.resource_claims)
    ]
    if leader is None or not pods or leader.random() < 0.2:
        return []
    metadata = leader.choice(pods).metadata
    return [{"resource": "pods", "name": metadata.name, "uid": metadata.uid}]


def run_claims(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rule is violated.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            claims = ClaimsRun(seed, tasks)
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.on_step = claims.on_step
            await claims.run()
            loop.on_step = lambda: None
        return claims.problems

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    assert not problems, problems[0]


def _without_reason(
    claimed: ResourceClaim,
    latest: Known | None,
    claim: Stored | None,
    text: str,
    answers: list[Answer],
) -> str:
    """Returns what contradicts the reason of a failure.

    Args:
        claimed: The claim as the attempt knows it.
        latest: As its process knows it.
        claim: As it is stored.
        text: Of the error.
        answers: The answers to the attempt.
    """
    last = answers[-1] if answers else None
    version = known(json.loads(last.body)) if last is not None and 0 < last.status < 300 else latest
    devices = version.devices if version is not None else frozenset()
    if "got deleted in the meantime" in text:
        exists = claim is not None and "deletionTimestamp" not in claim["metadata"]
        is_same = claim is not None and claim["metadata"]["uid"] == claimed.metadata.uid
        return "the claim exists" if exists and is_same else ""
    if "got allocated elsewhere" in text:
        return "" if devices else "it was not seen allocated"
    if "got deallocated elsewhere" in text:
        return "it was seen with these devices" if devices_of(claimed) == devices else ""
    if all(0 < answer.status < 300 for answer in answers):
        return "nothing has failed"
    conflicts = sum(answer.status == 409 for answer in answers)
    is_refused = answers[-1].status == 409 and conflicts < CONFLICTS_MAX
    return f"after {conflicts} conflicts" if is_refused else ""
