"""One process of a scheduler that reserves devices, beside the model of what it knows.

::

    attempt: PreFilter, Filter ─> Reserve ─> Permit ─> PreBind ─> bound
                   │ no node                   └───────────┴─> Unreserve
                   └─> PostFilter, which may free a claim
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from mooring.client import Client, Request
from mooring.client.transport.transport import Response, Transport
from mooring.clock import Rng
from mooring.errors import SchedulerError
from mooring.objects.codec.decode import convert, encode
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.resource import AllocationResult, ResourceClaim
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node
from mooring.virtual_loop import LoopClock
from tests.faults.harness.faults import now_s
from tests.faults.parts.claim_model import ClaimModel, DeviceName, devices_of, known
from tests.faults.parts.claim_removals import OpenRemovals
from tests.faults.parts.claim_server import PREFIX, Stored, users_of
from tests.faults.parts.claim_texts import text_problem
from tests.faults.twins.content_versions import ContentVersions, of_devices
from tests.helpers.devices import make_class, make_device, make_slice, selectors

NODES: Final = ("a", "b", "c")
DEVICES: Final = ("d0", "d1")
#: A write that is only logged has so many tries.
TRIES_MIN: Final = 4


class Answer(NamedTuple):
    """The answer to a request about a claim; ``status`` is 0 if there was none."""

    request: Request
    status: int
    body: bytes


class World(Protocol):
    """The surroundings of the process."""

    problems: list[str]

    def bind(self, pod: Pod) -> bool:
        """Binds a pod; False = that fails."""
        ...

    def check_failure(
        self, claimed: ResourceClaim, pod: PodInfo, error: SchedulerError, answers: list[Answer]
    ) -> None:
        """Checks that a reservation has a reason to fail."""
        ...


class Heard:
    """A transport that notes what a process sends and hears, by task."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self.answers: dict[object, list[Answer]] = {}
        self.on_sent: Callable[[Request], None] = lambda _: None
        self.on_answer: Callable[[Answer], None] = lambda _: None

    async def request(self, request: Request) -> Response:
        """Sends a request."""
        self.on_sent(request)
        answers = self.answers.setdefault(asyncio.current_task(), [])
        try:
            response = await self._inner.request(request)
        except SchedulerError:
            answers.append(Answer(request, 0, b""))
            self.on_answer(answers[-1])
            raise
        answers.append(Answer(request, response.status, response.body))
        self.on_answer(answers[-1])
        return response


class Removal:
    """The removal of a pod from the users of a claim, which Unreserve has to start."""

    def __init__(self) -> None:
        self.tries = 0
        self.is_answered = False

    @property
    def is_over(self) -> bool:
        """True if it was answered, or tried often enough."""
        return self.is_answered or self.tries >= TRIES_MIN


class ClaimProcess:
    """A process, from its start to its end.

    Attributes:
        model: What it knows.
        attempting: UID of each pod that has an attempt -> its node.
        names: The claims of the pod whose attempt began last.
        removals: UIDs of claim and pod -> the removal of the pod.
        sent_s: Name of a claim and UID of a pod -> when the reservation was sent last.
    """

    def __init__(self, world: World, transport: Transport, rng: Rng) -> None:
        self.model = ClaimModel()
        self.attempting: dict[str, str] = {}
        self.names: list[str] = []
        self.removals: dict[tuple[str, str], Removal] = {}
        self.sent_s: dict[tuple[str, str], float] = {}
        self._world, self._rng = world, rng
        self._heard = Heard(transport)
        self._heard.on_sent, self._heard.on_answer = self._note_sent, self._note_answer
        self._cache = Cache()
        nodes = [make_node(name) for name in NODES]
        clock = LoopClock(asyncio.get_running_loop())
        self._handle = PluginHandle(self._cache, Client(self._heard, rng=rng), clock=clock, rng=rng)
        self._plugin = DynamicResources(handle=self._handle, selectors=selectors())
        self._harness = Harness(nodes, [self._plugin])
        self._harness.cache = self._cache
        for node in nodes:
            self._cache.put_node(node)
        for name in NODES:
            pool = make_slice(name, [make_device(device) for device in DEVICES], node=name)
            self._cache.put_object("ResourceSlice", pool)
        self._cache.put_object("DeviceClass", make_class("gpu"))
        writer: Any = self._handle.claim_writer
        self._writer = writer
        self._real_reserve, self._real_unreserve = writer.reserve, writer.unreserve
        writer.reserve, writer.unreserve = self._reserve, self._unreserve
        self._unreserved: list[str] = []
        #: Task that reserves a claim -> the claim's UID.
        self._claimed: dict[object, str] = {}
        self._removing = OpenRemovals(writer, world.problems.append)
        contents = of_devices(self._cache)
        self._versions = ContentVersions(contents, world.problems.append)

    # -- the watch --------------------------------------------------------------------------------

    def report(self, name: str, claim: Stored | None) -> None:
        """Follows a change of a claim; None = it is gone."""
        self.model.report(name, None if claim is None else known(claim))
        if claim is None:
            self._cache.devices.remove("ResourceClaim", f"default/{name}")
        else:
            self._cache.put_object("ResourceClaim", convert(claim, "ResourceClaim"))

    def check(self) -> None:
        """Compares the devices in use with those of the model."""
        self._versions.compare()
        self._removing.check()
        allocated = self._cache.devices.allocated.dedicated
        in_use = {DeviceName(device.pool, device.device) for device in allocated}
        if in_use != self.model.in_use():
            differing = sorted(in_use ^ self.model.in_use())
            self._world.problems.append(f"devices in use differ from the model: {differing}")

    def check_rest(self) -> None:
        """Checks that nothing is left of an attempt."""
        if len(self._writer) or len(self._writer._turns) or self.model.in_flight:
            self._world.problems.append("writes of claims have not ended")
        for (claim, pod), removal in self.removals.items():
            latest = self.model.get(claim.partition("-")[0])
            if not removal.is_over and latest is not None and pod in latest.users:
                self._world.problems.append(
                    f"{pod} is not removed from {claim}, in {removal.tries} tries"
                )

    def feasible(self, pod: Pod) -> list[str]:
        """Returns the nodes that are feasible for a pod now."""
        cycle, view, rejection = self._harness.begin(pod)
        if rejection is not None:
            return []
        statuses = self._plugin.filter(cycle, view).to_list()
        return [name for name, it in zip(view.names, statuses, strict=True) if it is None]

    def end(self) -> None:
        """Ends the writes in the background."""
        self._writer.cancel()

    # -- an attempt -------------------------------------------------------------------------------

    async def attempt(self, pod: Pod) -> bool:
        """Tries a pod once; returns whether it is bound."""
        cycle, view, rejection = self._harness.begin(pod)
        if rejection is not None:
            return False
        names = [entry.resource_claim_name or "" for entry in pod.spec.resource_claims]
        self._check_accepted(pod, names)
        statuses = self._plugin.filter(cycle, view).to_list()
        feasible = [name for name, it in zip(view.names, statuses, strict=True) if it is None]
        if not feasible:
            await self._post_filter(pod, cycle)
            return False
        node = self._rng.choice(feasible)
        before = self.model.in_use()
        if self._plugin.reserve(cycle, node) is not None:
            self._world.problems.append(f"{pod.metadata.name}: Reserve fails after Filter")
            return False
        self.attempting[pod.metadata.uid], self.names = node, names
        self._follow_reserve(pod.metadata.uid, names, node, before)
        self.check()
        try:
            if await self._write(cycle, node) and self._world.bind(pod):
                return True
            self._give_up(cycle, pod, names, node)
        finally:
            del self.attempting[pod.metadata.uid]
        return False

    def _check_accepted(self, pod: Pod, names: list[str]) -> None:
        """Checks that no claim of the pod is being allocated for another one."""
        for name in names:
            claim = self.model.get(name)
            if claim is None:
                self._world.problems.append(f"{pod.metadata.name}: {name} does not exist")
            elif not claim.devices and any(uid == claim.uid for uid, _ in self.model.in_flight):
                self._world.problems.append(f"{pod.metadata.name}: {name} is in flight already")

    def _follow_reserve(
        self, pod_uid: str, names: list[str], node: str, before: set[DeviceName]
    ) -> None:
        """Notes the devices that Reserve has chosen, and checks that they were free."""
        for name in names:
            claim = self.model.get(name)
            if claim is None or claim.devices:
                continue
            chosen = self._cache.devices.in_use.in_flight(claim.uid)
            devices = devices_of(chosen) if chosen is not None else frozenset()
            if not devices or devices & before or any(it.pool != node for it in devices):
                self._world.problems.append(f"{name} gets {sorted(devices)} on {node}")
            self.model.in_flight[claim.uid, pod_uid] = devices
            before = before | devices

    async def _write(self, cycle: Any, node: str) -> bool:
        """Waits in Permit, and writes the claims; returns whether the pod may be bound."""
        rng, uid = self._rng, cycle.pod.uid
        wait_s = rng.choice((0.0, 0.0, 1.0, 10.0))
        if await self._removing.ends_within(uid, wait_s) and rng.random() < 0.5:
            return False
        if rng.random() < 0.1:
            return False
        try:
            await self._plugin.pre_bind(cycle, node)
        except SchedulerError:
            return False
        finally:
            self._heard.answers.pop(asyncio.current_task(), None)
        return rng.random() < 0.8

    def _give_up(self, cycle: Any, pod: Pod, names: list[str], node: str) -> None:
        """Runs Unreserve, and checks what it starts."""
        uid, expected = pod.metadata.uid, []
        self.model.end_flights(uid)
        for name in names:
            claim = self.model.get(name)
            if claim is not None and claim.devices and uid in claim.users:
                expected.append(name)
                if (claim.uid, uid) not in self.removals or self.removals[claim.uid, uid].is_over:
                    self.removals[claim.uid, uid] = Removal()
        self._unreserved = []
        self._plugin.unreserve(cycle, node)
        if self._unreserved != expected:
            self._world.problems.append(
                f"{pod.metadata.name} is removed from {self._unreserved}, not from {expected}"
            )

    async def _post_filter(self, pod: Pod, cycle: Any) -> None:
        diagnosis: Any = self._harness.diagnose(pod)
        result = self._plugin.post_filter(cycle, diagnosis)
        if result.claim_change is not None:
            try:
                await self._writer.apply(result.claim_change)
            except SchedulerError:
                return

    # -- the writes -------------------------------------------------------------------------------

    async def _reserve(
        self, claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
    ) -> ResourceClaim:
        name, uid = claim.metadata.name, claim.metadata.uid
        answers = self._heard.answers.setdefault(asyncio.current_task(), [])
        answers.clear()
        self._claimed[asyncio.current_task()] = uid
        try:
            stored: ResourceClaim = await self._real_reserve(claim, pod, allocation)
        except SchedulerError as error:
            self._world.check_failure(claim, pod, error, answers)
            text, is_new = str(error), allocation is not None
            if problem := text_problem(text, key(claim), answers, is_allocated=is_new):
                self._world.problems.append(f"{pod.key} fails with {text!r}, but {problem}")
            raise
        finally:
            self.model.in_flight.pop((uid, pod.uid), None)
            del self._claimed[asyncio.current_task()]
        written = known(json.loads(encode(stored)))
        self.model.store(name, written)
        if pod.uid not in written.users or not written.devices or written.uid != uid:
            self._world.problems.append(f"{name} counts as reserved for {pod.key}")
        return stored

    def _unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        self._unreserved.append(claim.metadata.name)
        self._real_unreserve(claim, pod)

    def _note_sent(self, request: Request) -> None:
        """Checks that a write is based on this process's own last one."""
        body = claim_in(request)
        if body is None:
            return
        metadata = body["metadata"]
        name = metadata.get("name", "")
        if self._claimed.get(asyncio.current_task(), metadata["uid"]) != metadata["uid"]:
            self._world.problems.append(f"{request.path} is written for another claim of the name")
        for user in body.get("status", {}).get("reservedFor") or ():
            self.sent_s[name, user["uid"]] = now_s()
        latest = self.model.get(name)
        is_known = latest is not None and latest.uid == metadata["uid"]
        written = self.model.written.get(metadata["uid"], 0) if is_known else 0
        if body.get("spec") and users_of(body) and int(metadata["resourceVersion"]) < written:
            self._world.problems.append(f"{request.path} is written in an old version")

    def _note_answer(self, answer: Answer) -> None:
        """Follows the removal of a pod from the users of a claim."""
        first = self._heard.answers[asyncio.current_task()][0].request
        body = claim_in(first)
        if body is None or first.method != "PATCH":
            return
        stored = json.loads(answer.body) if 0 < answer.status < 300 else None
        for user in body["status"]["reservedFor"]:
            removal = self.removals.get((body["metadata"]["uid"], user["uid"]))
            if removal is not None and answer.request.method == "PATCH":
                removal.tries += 1
            # A refusal is an answer; of the server's failures any may be the last one.
            if removal is not None and 0 < answer.status < 500 and answer.status not in (409, 429):
                removal.is_answered |= stored is None or user["uid"] not in users_of(stored)
            if stored is not None and user["uid"] not in users_of(stored):
                self.model.store(stored["metadata"]["name"], known(stored))


def claim_in(request: Request) -> Stored | None:
    """Returns the claim, or the patch of one, in the body of a request."""
    if not request.body or not request.path.startswith(PREFIX):
        return None
    body: Stored = json.loads(request.body)
    return body
