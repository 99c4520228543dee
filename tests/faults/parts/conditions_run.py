"""Waits until devices can be used, while their drivers report conditions of other devices, too.

A pod has up to three claims, one of them made for its extended resources. Their devices are in two
pools, under the same names. The model says of each claim what its conditions mean, in the order of
the claims and of their devices. A wait ends at once when a change has made the last claim ready,
fails within five seconds when there is a reason, and lasts no longer than the timeout. The event
about it, the text of its failure, and what is recorded of each device are compared.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
(isPodReadyForBinding, isClaimReadyForBinding, isClaimTimeout).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import PluginError
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from mooring.plugins.dynamic_resources.bind_claims import (
    BindingConditionsFailed,
    wait_for_devices,
)
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.simulation.offline import OfflineHandle
from mooring.state.cache import Cache
from mooring.state.devices.claims import Claims
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.virtual_loop import run_virtually

WAITS: Final = 8
TIMEOUTS_S: Final = (10.0, 40.0)
#: The conditions are looked at so often, whatever is reported.
POLL_S: Final = 5.0
ROUNDING_S: Final = 0.01
#: When the run begins; times in claims have whole seconds.
START_S: Final = 1_767_225_600
#: The plugin's default timeout, and the pods that are filtered at the end of a run.
BINDING_TIMEOUT_S: Final = 600.0
FILTERED: Final = 12
POOLS: Final = ("a", "b")
DEVICES: Final = ("d0", "d1")
NEEDED: Final = ("ready", "attached")
FAILURE: Final = "broken"
READY, WAITING, FAILED = "ready", "waiting", "failed"
_CLAIM: Final = kind_named("ResourceClaim")

NOTE: Final = "waiting for binding conditions for device on node node"
REPORT: Final = ("pod", "BindingConditionsPending", "Scheduling", NOTE)

_Device = tuple[str, str]
#: Device -> the conditions that it needs.
_Needed = Mapping[_Device, tuple[str, ...]]


class Claim:
    """A claim: its devices with the conditions that they need, and what is reported."""

    def __init__(self, name: str, devices: _Needed, allocated_s: int) -> None:
        self.name = name
        self.devices = devices
        self.allocated_s = allocated_s
        self.reported: dict[_Device, dict[str, str]] = {}
        self.version = 1

    def state(self) -> str:
        """Returns what the conditions mean: the first device that is not ready decides."""
        for device, needed in self.devices.items():
            if not needed:
                continue
            conditions = self.reported.get(device)
            if conditions is None:
                return WAITING
            if conditions.get(FAILURE) == "True":
                return FAILED
            if any(conditions.get(name) != "True" for name in needed):
                return WAITING
        return READY

    def decoded(self) -> Any:
        """Returns the claim in its present version."""
        self.version += 1
        at = datetime.fromtimestamp(self.allocated_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        results = [
            {
                **_named(device),
                "request": "gpu",
                "bindingConditions": list(needed),
                "bindingFailureConditions": [FAILURE] if needed else [],
            }
            for device, needed in self.devices.items()
        ]
        reported = [
            {**_named(device), "conditions": [_condition(*pair) for pair in conditions.items()]}
            for device, conditions in self.reported.items()
        ]
        metadata = {
            "name": self.name,
            "namespace": "default",
            "uid": self.name,
            "resourceVersion": str(self.version),
        }
        allocation = {"devices": {"results": results}, "allocationTimestamp": at}
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {},
            "status": {"allocation": allocation, "devices": reported},
        }
        return decode(msgspec.json.encode(document), _CLAIM)


def _failed(name: str) -> str:
    """Returns how a wait ends for a claim with a failed device."""
    return f'failure: device binding failed: claim={name}, reason={FAILURE}, message=""'


def _since(before_s: float | None, now_s: float) -> float:
    return now_s if before_s is None else before_s


def _named(device: _Device) -> dict[str, str]:
    return {"driver": "gpu.test", "pool": device[0], "device": device[1]}


def _condition(name: str, status: str) -> dict[str, str]:
    at = "2026-01-01T00:00:00Z"
    return {"type": name, "status": status, "reason": name, "message": "", "lastTransitionTime": at}


class ConditionsRun:
    """One run.

    Attributes:
        problems: Waits that end too early, too late, or with another result.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._now_s = asyncio.get_running_loop().time
        self._store = Claims()
        self._changed: dict[str, list[asyncio.Event]] = defaultdict(list)
        self._claims: list[Claim] = []
        self._timeout_s = 0.0
        #: The events about the wait, and what is recorded of each device at its end.
        self._reports: list[tuple[Any, ...]] = []
        self._recorded: list[tuple[Any, ...]] = []
        #: Since when the end is certain, and since when all claims are ready.
        self._certain_s: float | None = None
        self._ready_s: float | None = None
        #: The first claim that is not ready, and since when it is that one.
        self._first: tuple[Claim | None, float] = None, 0.0
        self._failing_share = self._rng.choice((0.0, 0.05, 0.3))

    async def run(self) -> None:
        """Waits for the devices of several pods, one after another."""
        for number in range(WAITS):
            await self._wait_once(number)
            if self.problems:
                return

    async def _wait_once(self, number: int) -> None:
        rng = self._rng
        self._timeout_s = rng.choice(TIMEOUTS_S)
        self._reports.clear()
        self._recorded.clear()
        self._claims = [self._drawn(f"claim-{number}-{n}") for n in range(rng.choice((1, 2, 3)))]
        versions = [claim.decoded() for claim in self._claims]
        for version in versions:
            self._store.put(version)
        special = created = None
        if rng.random() < 0.4:
            special, created = SimpleNamespace(), versions[-1]
            versions[-1] = special
        claims = SimpleNamespace(all=versions, special=special)
        attempt: Any = SimpleNamespace(claims=claims, created=created)
        snapshot = SimpleNamespace(devices=SimpleNamespace(claims=self._store))
        framework = SimpleNamespace(recorder=self)
        cycle: Any = SimpleNamespace(snapshot=snapshot, framework=framework, pod="pod")
        self._certain_s, self._ready_s = None, None
        self._first = None, self._now_s()
        self._note()
        changing = asyncio.create_task(self._change())
        started_s, result = self._now_s(), ""
        handle: Any = self
        try:
            await wait_for_devices(cycle, attempt, handle, "node", self._timeout_s)
        except BindingConditionsFailed as error:
            result = f"{error.status}: {error}"
        changing.cancel()
        self._check(result, started_s)

    def _drawn(self, name: str) -> Claim:
        rng = self._rng
        all_devices = [(pool, device) for pool in POOLS for device in DEVICES]
        devices = {
            device: rng.choice(((), NEEDED[:1], NEEDED))
            for device in rng.sample(all_devices, rng.choice((1, 2, 3)))
        }
        ago_s = rng.randrange(int(self._timeout_s)) if rng.random() < 0.3 else 0
        claim = Claim(name, devices, int(self.wall_s()) - ago_s)
        for device in devices:
            if rng.random() < 0.3:
                claim.reported[device] = dict.fromkeys(NEEDED, "True")
        return claim

    async def _change(self) -> None:
        """Reports conditions of devices, those of other claims and pools included."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(0.1, 3.0))
            claim = rng.choice(self._claims)
            device = rng.choice(POOLS), rng.choice(DEVICES)
            if rng.random() < 0.05:
                claim.reported.pop(device, None)
            else:
                statuses = rng.choice((("True",), ("True", "False", "Unknown")))
                conditions = {name: rng.choice(statuses) for name in NEEDED}
                if rng.random() < self._failing_share:
                    conditions[FAILURE] = rng.choice(statuses)
                claim.reported[device] = conditions
            self._note()
            self._store.put(claim.decoded())
            for event in self._changed[f"default/{claim.name}"]:
                event.set()

    def _note(self) -> None:
        """Notes since when the claims are ready, or a failure is certain."""
        now_s, states = self._now_s(), [claim.state() for claim in self._claims]
        is_ready = all(state is READY for state in states)
        self._ready_s = _since(self._ready_s, now_s) if is_ready else None
        is_certain = self._first_failing(states) is not None
        self._certain_s = _since(self._certain_s, now_s) if is_certain else None
        first = self._first_pending(states)
        if first is not self._first[0]:
            self._first = first, now_s

    def _first_pending(self, states: list[str]) -> Claim | None:
        pairs = zip(self._claims, states, strict=True)
        return next((claim for claim, state in pairs if state is not READY), None)

    def _first_failing(self, states: list[str]) -> Claim | None:
        """Returns the claim that has failed, if no claim before it is to be waited for."""
        for claim, state in zip(self._claims, states, strict=True):
            if state is not READY:
                return claim if state is FAILED else None
        return None

    def _check(self, result: str, started_s: float) -> None:
        """Compares the end of a wait with the claims."""
        now_s, states = self._now_s(), [claim.state() for claim in self._claims]
        is_ready = all(state is READY for state in states)
        what = f"claims {states} after {now_s - started_s:.2f} s"
        needs = any(needed for claim in self._claims for needed in claim.devices.values())
        if self._reports != [REPORT] * needs:
            self.problems.append(f"{what}: {self._reports} are reported")
        status = result.partition(":")[0] or "success"
        recorded = [
            ("gpu.test", status, now_s - started_s, bool(needed))
            for claim in self._claims
            for needed in claim.devices.values()
        ]
        if self._recorded != recorded * needs:
            self.problems.append(f"{what}: {self._recorded} are recorded, not {recorded}")
        if any(self._changed.values()):
            self.problems.append(f"{what}: something is waited for at the end")
        failing = self._first_failing(states)
        if (is_ready or not needs) != (not result):
            self.problems.append(f"{what}: {result or 'success'}")
        elif result.startswith("failure") and (failing is None or result != _failed(failing.name)):
            self.problems.append(f"{what}: {result}, of {failing and failing.name}")
        elif result.startswith("timeout") and not self._has_timeout_text(states, result):
            self.problems.append(f"{what}: {result}")
        elif result.startswith("timeout") and not self._is_timeout(states, now_s - started_s):
            self.problems.append(f"{what}: {result} is too early")
        if self._ready_s is not None and now_s > self._ready_s + ROUNDING_S and needs:
            self.problems.append(f"{what}: ready for {now_s - self._ready_s:.2f} s")
        if self._certain_s is not None and now_s > self._certain_s + POLL_S + ROUNDING_S:
            self.problems.append(f"{what}: failed for {now_s - self._certain_s:.2f} s")
        if self._overdue_s(now_s) > POLL_S + ROUNDING_S:
            self.problems.append(f"{what}: timed out for {self._overdue_s(now_s):.2f} s")
        if now_s > started_s + self._timeout_s + ROUNDING_S:
            self.problems.append(f"{what}: longer than {self._timeout_s} s")

    def _has_timeout_text(self, states: list[str], result: str) -> bool:
        """Returns whether a timeout is that of the whole wait, or of the first pending claim."""
        first = self._first_pending(states)
        text = "timeout: device binding timeout: "
        return result in (
            f"{text}context deadline exceeded",
            f"{text}claim={first and first.name}",
        )

    def _is_timeout(self, states: list[str], lasted_s: float) -> bool:
        first = self._first_pending(states)
        assert first is not None
        is_old = self.wall_s() - first.allocated_s > self._timeout_s
        return lasted_s >= self._timeout_s - ROUNDING_S or is_old

    def _overdue_s(self, now_s: float) -> float:
        """Returns for how long the first claim that is not ready has been allocated too long."""
        first, since_s = self._first
        if first is None:
            return 0.0
        return now_s - max(since_s, first.allocated_s + self._timeout_s - START_S)

    # -- the handle of the plugin -----------------------------------------------------------------

    def monotonic_s(self) -> float:
        """Returns the time of the loop."""
        return self._now_s()

    def wall_s(self) -> float:
        """Returns the seconds since 1970."""
        return START_S + self._now_s()

    def report(self, *event: Any) -> None:
        """Notes an event about the wait."""
        self._reports.append(event)

    def waited_for_device(
        self, driver: str, status: str, seconds: float, *, has_conditions: bool
    ) -> None:
        """Notes what is recorded of a device."""
        self._recorded.append((driver, status, seconds, has_conditions))

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> None:
        """Waits for a change of a claim.

        Raises:
            PluginError: that takes too long.
        """
        changed = asyncio.Event()
        self._changed[key].append(changed)
        try:
            async with asyncio.timeout(deadline_s):
                while not predicate(self._store.get(key)):
                    changed.clear()
                    await changed.wait()
        except TimeoutError as error:
            raise PluginError("", "wait", f"no change of {kind} {key}") from error
        finally:
            self._changed[key].remove(changed)


def _filter_problem(seed: int) -> str:
    """Filters a node for pods with an allocated claim in any state; returns what is wrong.

    A pod may not get a node because of a claim whose device has failed, or whose device has not
    become ready in time.
    """
    rng, clock = seeded_random(seed), VirtualClock(wall_s=float(START_S))
    cache = Cache()
    plugin = DynamicResources(handle=OfflineHandle(cache, clock, seeded_random(seed + 1)))
    harness = Harness([], [plugin])
    harness.cache = cache
    cache.put_node(make_node("node"))
    for number in range(FILTERED):
        name = f"filtered-{number}"
        ago_s = rng.choice((0, 0, int(BINDING_TIMEOUT_S) - 1, int(BINDING_TIMEOUT_S) + 1))
        devices = {(pool, "d0"): rng.choice(((), NEEDED[:1], NEEDED)) for pool in POOLS}
        claim = Claim(name, devices, START_S - ago_s)
        for device in devices:
            conditions = {it: rng.choice(("True", "True", "False")) for it in (*NEEDED, FAILURE)}
            if rng.random() < 0.8:
                claim.reported[device] = conditions
        cache.put_object("ResourceClaim", claim.decoded())
        spec = {"resourceClaims": [{"name": name, "resourceClaimName": name}]}
        state = claim.state()
        is_late = state is WAITING and ago_s > BINDING_TIMEOUT_S and any(devices.values())
        fits = harness.statuses(make_pod(name, uid=name, spec=spec))["node"] is None
        if fits is (state is FAILED or is_late):
            return f"a pod with a {state} claim, allocated {ago_s} s ago, fits: {fits}"
    return ""


def run_conditions(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a wait does not do what the model says.
    """

    async def run() -> list[str]:
        conditions = ConditionsRun(seed)
        await conditions.run()
        if problem := _filter_problem(seed + 2_000_000):
            conditions.problems.append(problem)
        return conditions.problems

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
