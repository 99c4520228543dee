"""The waits of PreBind for several volumes or devices, which are ready one after another.

Each wait is for the first object that is not ready, ends when that one is, or after the time
between two looks. So the binding ends when all are ready, or one look later at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from mooring.errors import PluginError
from mooring.objects.codec.decode import convert
from mooring.plugins.dynamic_resources.bind_claims import wait_for_devices
from mooring.plugins.volume_binding.bind_volumes import PodVolumes, VolumeBinder, _Provision
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts.binding_waits import DEVICES_S, SELECTED, VOLUMES_S

TIMEOUT_S: Final = 600.0
TIMES_S: Final = (0.0, 0.25, 0.5, 0.75, 1.25, 2.5, 4.75, 6.25, 11.5)
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
CLAIM, VOLUME, DEVICES = "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"


class Step(NamedTuple):
    """An object that has to change: when it does, and what is stored then."""

    at_s: float
    kind: str
    name: str
    store: Callable[[], None]


class Turns:
    """A handle with a clock, whose waits end when their object is as asked for.

    Attributes:
        waits: When each wait began, for which object, and its time limit.
    """

    def __init__(self, snapshot: Any, steps: list[Step]) -> None:
        self.snapshot = snapshot
        self.waits: list[tuple[float, str, str, float]] = []
        self.now_s = 0.0
        self._steps = sorted(steps, key=lambda step: step.at_s)
        self._pass_to(0.0)

    def monotonic_s(self) -> float:
        """Returns the time."""
        return self.now_s

    wall_s = monotonic_s

    def report(self, *_: Any) -> None:
        """Reports nothing."""

    async def patch(self, kind: str, name: str, patch: Any) -> Any:
        """Writes nothing: the stored object stays as it was assumed."""
        del kind, patch
        return self.snapshot.storage.current_claim(name)

    async def until(
        self, kind: str, name: str, is_met: Callable[[Any], bool], wait_s: float
    ) -> None:
        """Waits until a change of the object after which the condition is met.

        Raises:
            PluginError: the time is over.
        """
        end_s = self.now_s + wait_s
        self.waits.append((self.now_s, kind, name, wait_s))
        while self._steps and self._steps[0].at_s <= end_s:
            step = self._steps[0]
            self._pass_to(step.at_s)
            if (step.kind, step.name) == (kind, name) and is_met(None):
                return
        self.now_s = end_s
        raise PluginError("", "PreBind", "timeout")

    def _pass_to(self, at_s: float) -> None:
        self.now_s = at_s
        while self._steps and self._steps[0].at_s <= at_s:
            self._steps.pop(0).store()


def _expected(steps: list[Step], poll_s: float) -> list[tuple[float, str, str, float]]:
    """Returns the waits: for the first of the steps in their order that is still to come."""
    now_s, waits = 0.0, []
    while left := [step for step in steps if step.at_s > now_s]:
        wait_s = min(poll_s, TIMEOUT_S - now_s)
        waits.append((now_s, left[0].kind, left[0].name, wait_s))
        now_s = min(now_s + wait_s, left[0].at_s)
    return waits


def volume_turns(rng: Random) -> Iterator[str]:
    """Yields the differences of a binding of several claims that are provisioned."""
    cache = Cache()
    cache.put_node(make_node("a"))
    pod = PodInfo(make_pod("web", uid="web"))
    cache.put_pod(pod.on_node("a").pod)
    steps: list[Step] = []
    provisions = []
    for number in range(rng.choice((1, 2, 2, 3))):
        name, volume = f"claim-{number}", f"volume-{number}"
        claim, bound = _claim(name, ""), _claim(name, volume)
        cache.put_object(CLAIM, claim)
        provisions.append(_Provision(claim))
        bound_s, there_s = rng.choice(TIMES_S), rng.choice((0.0, 0.0, *TIMES_S))
        made = convert({"metadata": {"name": volume}, "spec": {}}, VOLUME)
        put_claim, put_volume = _putting(cache, CLAIM, bound), _putting(cache, VOLUME, made)
        # Which volume it is, is not known before the claim is bound.
        steps.append(Step(bound_s, CLAIM, f"default/{name}", put_claim))
        steps.append(Step(there_s, VOLUME, volume, put_volume))
    handle: Any = Turns(cache.snapshot(), steps)
    binder = VolumeBinder("VolumeBinding", handle, TIMEOUT_S)
    yield from _compared(
        handle, binder.bind(pod, "a", PodVolumes([], provisions)), _expected(steps, VOLUMES_S)
    )


def device_turns(rng: Random) -> Iterator[str]:
    """Yields the differences of a wait for the devices of several claims."""
    claims: dict[str, Any] = {}
    steps: list[Step] = []
    own = []
    for number in range(rng.choice((1, 2, 2, 3))):
        key = f"default/claim-{number}"
        claims[key] = _device_claim(f"claim-{number}", "False")
        own.append(claims[key])
        ready = _device_claim(f"claim-{number}", "True")
        store = lambda key=key, ready=ready: claims.update({key: ready})  # noqa: E731
        steps.append(Step(rng.choice(TIMES_S), DEVICES, key, store))
    snapshot = SimpleNamespace(devices=SimpleNamespace(claims=claims))
    cycle: Any = SimpleNamespace(snapshot=snapshot, framework=None, pod=None)
    attempt: Any = SimpleNamespace(claims=SimpleNamespace(all=own, special=None), created=None)
    handle: Any = Turns(snapshot, steps)
    yield from _compared(
        handle,
        wait_for_devices(cycle, attempt, handle, "a", TIMEOUT_S),
        _expected(steps, DEVICES_S),
    )


def _compared(
    handle: Turns, binding: Any, expected: list[tuple[float, str, str, float]]
) -> Iterator[str]:
    asyncio.run(binding)
    if handle.waits != expected:
        yield f"the waits are {handle.waits}, not {expected}"


def _putting(cache: Cache, kind: str, obj: Any) -> Callable[[], None]:
    return lambda: cache.put_object(kind, obj)


def _claim(name: str, volume: str) -> Any:
    annotations = {SELECTED: "a"} | ({COMPLETED: "yes"} if volume else {})
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"volumeName": volume} if volume else {}
    return convert({"metadata": metadata, "spec": spec, "status": {}}, CLAIM)


def _device_claim(name: str, is_ready: str) -> Any:
    device = {"driver": "d", "pool": "p", "device": "x"}
    result = {"request": "r", **device, "bindingConditions": ["ready"]}
    condition = {"type": "ready", "status": is_ready, "reason": "", "message": ""}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "devices": [{**device, "conditions": [condition]}],
    }
    metadata = {"name": name, "namespace": "default"}
    return convert({"metadata": metadata, "spec": {}, "status": status}, DEVICES)
