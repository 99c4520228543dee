"""Pods and nodes as extenders get them: from a watch of their own that lags, or by a read.

Pods are changed, deleted and created again under their name, while the watch is late. What is sent
is the pod that is attempted, and never older than the version that the attempt has; nothing is read
that is cached already, and a pod is missing only if it was deleted, or reads fail.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.client import Request
from mooring.client.informer.replica import ObjectChange
from mooring.clock import seeded_random
from mooring.errors import ExtenderError, NotFound, Unreachable
from mooring.extenders.full_objects import FullNode, FullObjectCache, FullPod
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.virtual_runs import check_run

STEPS: Final = 60
PAST_MAX: Final = 5
NAMES: Final = ("a", "b", "c")


class FullObjectsRun:
    """One run.

    Attributes:
        problems: What must hold, and does not.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        client: Any = SimpleNamespace(read=self._read)
        self._cache = FullObjectCache(
            client, clock=LoopClock(loop), rng=rng, sleep=asyncio.sleep, with_nodes=True
        )
        nodes, pods = self._cache.informers
        # Their tasks do not run: changes are reported by the run.
        self._watched: dict[str, dict[str, Any]] = {
            "pods": pods._reflector.replica.objects,
            "nodes": nodes._reflector.replica.objects,
        }
        pods._reflector.has_synced = nodes._reflector.has_synced = True
        #: Kind -> name -> UID and version, as stored.
        self._stored: dict[str, dict[str, tuple[str, int]]] = {"pods": {}, "nodes": {}}
        #: Name, UID and version of pods, before they were changed last.
        self._past: list[tuple[str, str, int]] = []
        self._count = 0
        self._lag_s = rng.choice((0.0, 0.05, 0.5))
        self._failing = rng.choice((0.0, 0.0, 0.3))
        self._reads: list[str] = []
        self._has_failed = False

    async def run(self) -> None:
        """Changes objects, and asks for them."""
        for _ in range(STEPS):
            for _ in range(self._rng.randrange(4)):
                self._change(self._rng.choice(("pods", "pods", "nodes")))
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.01, 1.0)))
            await self._rng.choice((self._ask_pod, self._ask_pods, self._ask_nodes))()
            if self.problems:
                return

    def _change(self, kind: str) -> None:
        """Creates, changes, replaces or deletes an object; the watch has it later."""
        rng, stored = self._rng, self._stored[kind]
        name = rng.choice(NAMES)
        self._count += 1
        before = stored.get(name)
        if before is not None and kind == "pods":
            self._past = [*self._past[-PAST_MAX:], (name, *before)]
        if before is None or rng.random() < 0.2:
            stored[name] = f"uid-{self._count}", self._count
        elif rng.random() < 0.2:
            del stored[name]
        else:
            stored[name] = before[0], self._count
        after = stored.get(name)
        self._loop.call_later(self._lag_s * rng.random(), lambda: self._report(kind, name, after))

    def _report(self, kind: str, name: str, version: tuple[str, int] | None) -> None:
        """Reports a version, unless a newer one was reported."""
        key = f"default/{name}" if kind == "pods" else name
        watched = self._watched[kind]
        if version is None:
            if name not in self._stored[kind]:
                watched.pop(key, None)
            return
        before = watched.get(key)
        if before is not None and int(before.metadata.resource_version) > version[1]:
            return
        struct = FullPod if kind == "pods" else FullNode
        watched[key] = msgspec.json.decode(_body(kind, name, *version), type=struct)
        if kind == "pods":
            self._cache._wake(ObjectChange(before, watched[key]))

    async def _read(self, request: Request, *, tries: int) -> bytes:
        """Reads an object, or fails."""
        kind, name = request.path.split("/")[-2:]
        assert tries == 1
        self._reads.append(name)
        await asyncio.sleep(0.01 * self._rng.random())
        if self._rng.random() < self._failing:
            self._has_failed = True
            raise Unreachable("refused")
        # At the time of the answer: it may be created while another object is read.
        self._exists[name] = name in self._stored[kind]
        if not self._exists[name]:
            raise NotFound("not found", status=404)
        return _body(kind, name, *self._stored[kind][name])

    def _begin(self) -> None:
        self._reads, self._has_failed = [], False
        self._exists: dict[str, bool] = {}

    async def _ask_pod(self) -> None:
        """Asks for a pod in a version that the scheduler has seen."""
        if (pod := self._any_pod()) is None:
            return
        self._begin()
        uid, version = pod.uid, int(pod.metadata.resource_version)
        cached = self._watched["pods"].get(pod.key)
        is_cached = (
            cached is not None
            and cached.metadata.uid == uid
            and int(cached.metadata.resource_version) >= version
        )
        began_s = self._loop.time()
        try:
            sent = json.loads(await self._cache.pod(pod))
        except ExtenderError as error:
            exists = self._stored["pods"].get(pod.metadata.name, ("", 0))[0] == uid
            if is_cached or (exists and not self._has_failed):
                self.problems.append(f"{pod.key} is not sent: {error}")
            return
        self._check(pod.key, sent, uid, version)
        if is_cached and (self._reads or self._loop.time() > began_s):
            self.problems.append(f"{pod.key} is read, but it is cached")

    def _any_pod(self) -> PodInfo | None:
        """Returns a pod, at times in a version that is not the newest, or one that is gone."""
        pods = [(name, *it) for name, it in self._stored["pods"].items()]
        if self._past and (not pods or self._rng.random() < 0.4):
            pods = self._past
        if not pods:
            return None
        name, uid, version = self._rng.choice(pods)
        metadata = {"resourceVersion": str(version)}
        return PodInfo(make_pod(name, uid=uid, metadata=metadata))

    def _check(self, key: str, sent: Any, uid: str, version: int) -> None:
        metadata = sent["metadata"]
        is_older = int(metadata["resourceVersion"]) < version
        if metadata["uid"] != uid or is_older or "managedFields" in metadata:
            self.problems.append(f"{key} {uid} in version {version} is sent as {metadata}")
        if sent["spec"] != {"of": metadata["resourceVersion"]}:
            self.problems.append(f"{key} is sent with the spec {sent['spec']}")

    async def _ask_pods(self) -> None:
        """Asks for several pods by UID: victims."""
        drawn = [pod for _ in range(3) if (pod := self._any_pod()) is not None]
        victims = list({pod.uid: pod for pod in drawn}.values())
        self._begin()
        before = dict(self._stored["pods"])
        try:
            sent = await self._cache.pods(victims)
        except ExtenderError as error:
            if not self._has_failed:
                self.problems.append(f"pods are not sent: {error}")
            return
        due = {pod.uid for pod in victims if before.get(pod.metadata.name, ("", 0))[0] == pod.uid}
        if set(sent) != due:
            self.problems.append(f"the pods {sorted(sent)} are sent, not {sorted(due)}")
        for uid, body in sent.items():
            self._check(uid, json.loads(body), uid, 0)

    async def _ask_nodes(self) -> None:
        """Asks for nodes by name: those that are cached are not read."""
        self._begin()
        names = self._rng.sample(NAMES, 2)
        watched = self._watched["nodes"]
        before = {name: watched[name] for name in names if name in watched}
        try:
            sent = await self._cache.nodes(names)
        except ExtenderError as error:
            if not self._has_failed:
                self.problems.append(f"nodes are not sent: {error}")
            return
        # A deletion may have been reported meanwhile, and another version after it.
        cached = {name for name, node in before.items() if watched.get(name) is node}
        stored = {name: name in self._stored["nodes"] for name in names} | self._exists
        due = [name for name in names if name in cached or stored[name]]
        sent = {name: it for name, it in sent.items() if name in due}
        if list(sent) != due or cached & set(self._reads):
            self.problems.append(f"the nodes {list(sent)} are sent, not {due}; read: {self._reads}")
        for name, body in sent.items():
            self._check(name, json.loads(body), json.loads(body)["metadata"]["uid"], 0)


def _body(kind: str, name: str, uid: str, version: int) -> bytes:
    metadata: dict[str, Any] = {"name": name, "uid": uid, "resourceVersion": str(version)}
    if kind == "pods":
        metadata["namespace"] = "default"
    metadata["managedFields"] = [{"manager": "kubelet"}]
    return json.dumps({"metadata": metadata, "spec": {"of": str(version)}}).encode()


def run_full_objects(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an extender would get another object, or an older one.
    """
    check_run(FullObjectsRun, seed)
