"""Plugins that use their handle at random: they list, wait for objects, patch, read and activate.

The model is a dict of objects. A wait ends in the step in which the object satisfies it, and at its
deadline otherwise; a lister has the objects of its kind under each of its names, and a kind that is
not watched is refused once the scheduler is complete.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.errors import ApiError, PluginError
from mooring.objects.pod import Pod
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.read_only_handle import ReadOnlyHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.virtual_loop import run_virtually

STEPS: Final = 120
STEP_S: Final = 0.5
#: Lists that select by two labels.
SEVERAL_LABELS: Final = 0.5
#: Kind -> its other name; the last ones are not watched.
WATCHED: Final = {"Pod": "Pod", "Node": "Node", "StorageClass": "storageclasses.v1.storage.k8s.io"}
UNWATCHED: Final = {"Lease": "Lease", "CSIDriver": "csidrivers.v1.storage.k8s.io"}
PATCHED: Final = ("PersistentVolume", "PersistentVolumeClaim")
WEIGHTS: Final = {
    "change": 8,
    "list": 3,
    "wait": 4,
    "patch": 2,
    "read": 2,
    "call_later": 3,
    "activate": 2,
}


class Backend:
    """The scheduler behind the handle.

    Attributes:
        objects: Kind -> the objects that the informer has, by key.
        activated: The pods that were activated, in order.
        preempting: The pods for which others are evicted.
        reported: The reasons of events.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {"Pod": {}, "Node": {}}
        self.activated: list[str] = []
        self.preempting: set[str] = set()
        self.reported: list[tuple[str, str]] = []

    def activate(self, uids: Iterable[str]) -> None:
        """Records the pods."""
        self.activated += list(uids)

    def is_preempting(self, uid: str) -> bool:
        """Returns what was drawn."""
        return uid in self.preempting

    def store(self, kind: str) -> dict[str, Any] | None:
        """Returns the objects of a kind that is watched."""
        return self.objects.get(kind)

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Records the event."""
        del action, note
        self.reported.append((pod.uid, reason))


class HandleRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng: Rng = seeded_random(seed)
        self._more = seeded_random(seed + 2_000_000)
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._backend = Backend()
        self._sent: list[Any] = []
        client: Any = SimpleNamespace(patch=self._patched, read=self._read_path)
        self._handle = PluginHandle(
            Cache(),
            client,
            clock=LoopClock(self._loop),
            rng=self._rng,
            backend=self._backend,
        )
        self._offline = ReadOnlyHandle(Cache(), LoopClock(self._loop), self._rng)
        self._listers = {name: self._handle.lister(name) for name in WATCHED}
        self._handle.is_complete = True
        self._count = 0
        self._calls: Counter[str] = Counter()

    async def run(self) -> None:
        """Uses the handle at random; nothing waits at the end."""
        for _ in range(STEPS):
            action: Callable[[], None] = getattr(
                self, f"_{self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]}"
            )
            action()
            await asyncio.sleep(STEP_S * self._rng.choice((0, 0, 1, 2)))
            if self.problems:
                return

    def check_end(self) -> None:
        """Checks that no wait and no call is left."""
        if self._handle._awaited:
            self.problems.append(f"{list(self._handle._awaited)} are still waited for")
        if left := {name: count for name, count in self._calls.items() if count}:
            self.problems.append(f"{left} calls were not made")

    # -- objects ----------------------------------------------------------------------------------

    def _change(self) -> None:
        """Adds, changes or removes an object; the informer wakes who waits for it."""
        rng = self._rng
        kind, name = rng.choice(("Pod", "Node")), rng.choice("abc")
        key = f"default/{name}" if kind == "Pod" else name
        objects, lister = self._backend.objects[kind], self._listers[kind]
        if key in objects and rng.random() < 0.3:
            obj = objects.pop(key)
            lister.remove(key)
        else:
            labels = {"round": str(rng.randrange(4)), "tier": self._more.choice("xy")}
            make: Any = make_pod if kind == "Pod" else make_node
            obj = objects[key] = make(name, labels=labels)
            lister.put(obj)
        if rng.random() < 0.5:
            self._handle.object_changed(kind, obj)
        else:
            self._handle.changed(kind, key)

    def _list(self) -> None:
        kind = self._rng.choice((*WATCHED, *UNWATCHED))
        name = self._rng.choice((kind, {**WATCHED, **UNWATCHED}[kind]))
        try:
            lister = self._handle.lister(name)
        except PluginError:
            if kind in WATCHED:
                self.problems.append(f"no lister for {name}")
            return
        if {self._offline.lister(it) for it in (kind, name)} != {self._offline.lister(kind)}:
            self.problems.append(f"{kind} and {name} have several listers without a server")
        if lister is not self._listers.get(kind):
            self.problems.append(f"another lister for {name}")
            return
        objects = self._backend.objects.get(kind, {})
        label = {"round": str(self._rng.randrange(4))}
        if self._more.random() < SEVERAL_LABELS:
            label["tier"] = self._more.choice("xy")
        expected = [obj for obj in objects.values() if label.items() <= obj.metadata.labels.items()]
        if {id(obj) for obj in lister.list(labels=label)} != {id(obj) for obj in expected}:
            self.problems.append(f"{name}: {lister.list(labels=label)}, not {expected}")

    # -- waits ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        kind = self._rng.choice(("Pod", "Pod", "Node", "Lease"))
        name = self._rng.choice("abc")
        key = f"default/{name}" if kind == "Pod" else name
        labels = self._rng.choice((None, {"round": "1"}, {"round": "2"}))
        self._tasks.create_task(self._wait_for(kind, key, labels, STEP_S * self._rng.randrange(9)))

    async def _wait_for(self, kind: str, key: str, labels: Any, limit_s: float) -> None:
        """Waits until an object has the labels, or is gone (None)."""
        started_s = self._loop.time()
        satisfied_at_s: list[float] = []

        def is_met(obj: Any) -> bool:
            is_met = (
                obj is None
                if labels is None
                else obj is not None and (labels.items() <= obj.metadata.labels.items())
            )
            if is_met:
                satisfied_at_s.append(self._loop.time())
            return is_met

        objects = self._backend.objects.get(kind)
        try:
            obj = await self._handle.until(kind, key, is_met, limit_s)
        except PluginError:
            waited_s = self._loop.time() - started_s
            if objects is not None and abs(waited_s - limit_s) > STEP_S / 4:
                self.problems.append(f"a wait of {limit_s} s has ended after {waited_s} s")
            return
        if objects is None:
            self.problems.append(f"{kind} is not watched, but waited for")
        elif not satisfied_at_s or satisfied_at_s[-1] != self._loop.time():
            self.problems.append(f"{kind} {key} was waited for, until {satisfied_at_s}")
        elif obj is not objects.get(key):
            self.problems.append(f"{kind} {key} is returned as {obj}")

    # -- writes, reads and calls ------------------------------------------------------------------

    def _patch(self) -> None:
        self._tasks.create_task(self._patch_one())

    async def _patch_one(self) -> None:
        kind = self._rng.choice((*PATCHED, "Pod", "Node"))
        key = self._rng.choice(("a", "default/b", "other/c"))
        try:
            stored = await self._handle.patch(kind, key, {"spec": {}})
        except PluginError:
            if kind in PATCHED:
                self.problems.append(f"{kind} may be patched")
            return
        except ApiError:
            return
        namespace, name = key.split("/") if "/" in key else ("", key)
        if kind not in PATCHED or stored != (kind, name, namespace):
            self.problems.append(f"{kind} {key} is patched as {stored}")

    async def _patched(self, kind: str, name: str, patch: Any, *, namespace: str) -> Any:
        del patch
        await asyncio.sleep(STEP_S)
        if self._rng.random() < 0.3:
            raise ApiError("refused", status=403)
        return kind, name, namespace

    def _read(self) -> None:
        self._tasks.create_task(self._read_one())

    async def _read_one(self) -> None:
        path = self._rng.choice(("/healthz", "/apis"))
        if await self._handle.read(path) != path.encode():
            self.problems.append(f"{path} is read as something else")

    async def _read_path(self, request: Any) -> bytes:
        await asyncio.sleep(STEP_S)
        if request.method != "GET" or not 0 < request.deadline_s <= 10:
            self.problems.append(f"{request.method} with a deadline of {request.deadline_s} s")
        path: str = request.path
        return path.encode()

    def _call_later(self) -> None:
        self._count += 1
        name, delay_s = f"call {self._count}", STEP_S * self._rng.randrange(6)
        self._calls[name] += 1
        due_s = self._loop.time() + delay_s

        def call() -> None:
            self._calls[name] -= 1
            if abs(self._loop.time() - due_s) > STEP_S / 4:
                self.problems.append(f"{name} is made at {self._loop.time()}, not at {due_s}")

        self._handle.call_later(delay_s, call)

    def _activate(self) -> None:
        backend, rng = self._backend, self._rng
        uids = [f"pod-{rng.randrange(5)}" for _ in range(rng.randrange(3))]
        backend.activated.clear()
        self._handle.activate(*uids)
        if backend.activated != uids:
            self.problems.append(f"{backend.activated} are activated, not {uids}")
        backend.preempting = {f"pod-{number}" for number in range(5) if rng.random() < 0.5}
        for number in range(5):
            uid = f"pod-{number}"
            if self._handle.is_preempting(uid) != (uid in backend.preempting):
                self.problems.append(f"whether {uid} is preempting is wrong")
        pod: Pod = make_pod("web", uid="web")
        self._handle.report(PodInfo(pod), "Reason", "Action", "note")
        if backend.reported[-1:] != [("web", "Reason")]:
            self.problems.append("an event is not reported")


def run_handle(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the handle does something else than the model.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            handle = HandleRun(seed, tasks)
            await handle.run()
        await asyncio.sleep(10.0)
        handle.check_end()
        return handle.problems

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
