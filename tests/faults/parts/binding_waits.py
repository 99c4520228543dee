"""The waits of PreBind for volumes and devices, where each wait ends as drawn.

A wait for an object ends with an error of a plugin, with an error at once, or with its time. The
first two end the binding; after the last one the objects are looked at again, until the time limit.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (BindPodVolumes, a poll each
second); pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (PreBind, a poll each
five seconds).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import PluginError
from mooring.objects.codec.decode import convert
from mooring.plugins.dynamic_resources.bind_claims import (
    BindingConditionsFailed,
    wait_for_devices,
)
from mooring.plugins.volume_binding.bind_volumes import PodVolumes, VolumeBinder, _Provision
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod

#: Shares of a wait after which it ends.
SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0)
PLUGINS: Final = ("", "", "", "", "", "Other")
TIMEOUTS_S: Final = (0.5, 2.25, 7.0, 16.0)
SELECTED: Final = "volume.kubernetes.io/selected-node"
#: When each binding begins.
BEGIN_S: Final = 100.0
TOO_LATE: Final = "context deadline exceeded"
#: Seconds between two looks at volumes, and at devices.
VOLUMES_S, DEVICES_S = 1.0, 5.0


class DrawnWaits:
    """A handle with a clock of its own, whose waits end as drawn.

    Attributes:
        waits_s: When each wait begins, and its time limit.
        end: How the last wait has ended.
    """

    def __init__(self, rng: Rng, snapshot: Any) -> None:
        self.snapshot = snapshot
        self.waits_s: list[tuple[float, float]] = []
        self.end = ("", 0.0)
        self.now_s = BEGIN_S
        self._rng = rng

    def monotonic_s(self) -> float:
        """Returns the time."""
        return self.now_s

    def wall_s(self) -> float:
        """Returns the time since 1970."""
        return self.now_s

    def report(self, *_: Any) -> None:
        """Reports nothing."""

    async def patch(self, kind: str, name: str, patch: Any) -> Any:
        """Writes nothing: the stored object stays as it was assumed."""
        del kind, patch
        return self.snapshot.storage.current_claim(name)

    async def until(self, kind: str, name: str, is_met: Any, wait_s: float) -> None:
        """Waits for a share of the time.

        Raises:
            PluginError: always.
        """
        del kind, name, is_met
        self.waits_s.append((self.now_s, wait_s))
        self.end = plugin, share = self._rng.choice(PLUGINS), self._rng.choice(SHARES)
        self.now_s += share * wait_s
        raise PluginError(plugin, "PreBind", "drawn")

    def problems(self, what: str, timeout_s: float, poll_s: float, error: str) -> Iterator[str]:
        """Yields the differences of the waits and their end."""
        plugin, share = self.end
        end_s = BEGIN_S + timeout_s
        waits_s = [wait_s for _, wait_s in self.waits_s]
        expected = [min(poll_s, end_s - begun_s) for begun_s, _ in self.waits_s]
        if waits_s != expected:
            yield f"{what}: waits of {waits_s} s, not {expected}"
        is_fatal = bool(plugin) or share < 0.5
        if is_fatal != ("drawn" in error):
            yield f"{what}: {error!r} after {self.end}"
        if not is_fatal and (TOO_LATE not in error or self.now_s < end_s):
            yield f"{what}: {error!r} at {self.now_s - BEGIN_S} of {timeout_s} s"


def volume_waits(rng: Rng) -> Iterator[str]:
    """Yields the differences of a binding whose claim is never bound."""
    cache = Cache()
    cache.put_node(make_node("a"))
    pod = PodInfo(make_pod("web", uid="web"))
    cache.put_pod(pod.on_node("a").pod)
    body = {"metadata": {"name": "c", "namespace": "default", "annotations": {SELECTED: "a"}}}
    claim = convert({**body, "spec": {}, "status": {}}, "PersistentVolumeClaim")
    cache.put_object("PersistentVolumeClaim", claim)
    handle: Any = DrawnWaits(rng, cache.snapshot())
    timeout_s = rng.choice(TIMEOUTS_S)
    binder = VolumeBinder("VolumeBinding", handle, timeout_s)
    error = ""
    try:
        asyncio.run(binder.bind(pod, "a", PodVolumes([], [_Provision(claim)])))
    except PluginError as raised:
        error = str(raised)
    yield from handle.problems("volumes", timeout_s, VOLUMES_S, error)


def device_waits(rng: Rng) -> Iterator[str]:
    """Yields the differences of a wait for a device that never gets ready."""
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": "x", "bindingConditions": ["ready"]}
    ]
    status = {"allocation": {"devices": {"results": results}}}
    body = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}, "status": status}
    claim = convert(body, "ResourceClaim")
    devices = SimpleNamespace(claims={"default/c": claim})
    snapshot = SimpleNamespace(devices=devices)
    cycle: Any = SimpleNamespace(snapshot=snapshot, framework=None, pod=None)
    claims = SimpleNamespace(all=[claim], special=None)
    attempt: Any = SimpleNamespace(claims=claims, created=None)
    handle: Any = DrawnWaits(rng, snapshot)
    timeout_s = rng.choice(TIMEOUTS_S)
    error = ""
    try:
        asyncio.run(wait_for_devices(cycle, attempt, handle, "a", timeout_s))
    except (PluginError, BindingConditionsFailed) as raised:
        error = str(raised)
    yield from handle.problems("devices", timeout_s, DEVICES_S, error)
