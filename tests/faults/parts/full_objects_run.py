"""Pods and nodes as extenders get them: from a watch of their own that lags, or by a read.

Pods are changed, deleted and created again under their name, while the watch is late. What is sent
is the pod that is attempted, and never older than the version that the attempt has; nothing is read
that is cached already, and a pod is missing only if it was deleted, or reads fail. Before a pod is
read, the watch has a tenth of a second to report it, unless it has not listed yet. At most sixteen
objects are read at the same time, and a document has all fields but managedFields.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.client import Request
from mooring.client.informer.replica import ObjectChange
from mooring.clock import seeded_random
from mooring.errors import ExtenderError, NotFound, Unreachable
from mooring.extenders.full_objects import FullNode, FullObject, FullObjectCache, FullPod
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.faults.parts.virtual_runs import check_run

STEPS: Final = 60
PAST_MAX: Final = 5
NAMES: Final = ("a", "b", "c")
LAG_S: Final = 0.1
READS_MAX: Final = 16
READ_S: Final = 5.0
#: Differences of times up to this are rounding.
ROUNDING_S: Final = 1e-6
PENDING: Final = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"
#: What cannot be an object, and a part of the error.
MALFORMED: Final = (
    (b"{", "truncated"),
    (b'{"metadata": {"name": ""}}', "metadata.name: must not be empty"),
    (b'{"metadata": {"name": 5}}', "metadata: Expected"),
    (b'{"spec": {}}', "metadata.name: must not be empty"),
)


class FullObjectsRun:
    """One run.

    Attributes:
        problems: What must hold, and does not.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._loop = loop = asyncio.get_running_loop()
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
        #: Draws what was added to the run later.
        self._more = seeded_random(seed + 1_000_000)
        #: Whether the watch of pods has listed; from such a step on.
        self._synced_at = self._more.choice((0, 0, 0, 20))
        self._pods = pods
        if (pods._field_selector, nodes._field_selector) != (PENDING, ""):
            self.problems.append(f"pods are selected by {pods._field_selector}")
        #: Time, key, UID and version of what the watch has reported.
        self._reports: list[tuple[float, str, str, int]] = []
        #: When reads have begun, and the beginning and a part of each error that was read.
        self._read_at_s, self._errors = list[float](), list[tuple[str, str]]()
        self._reading = self._reading_max = 0
        #: Kind -> name -> UID and version, as stored.
        self._stored: dict[str, dict[str, tuple[str, int]]] = {"pods": {}, "nodes": {}}
        #: Name, UID and version of pods, before they were changed last.
        self._past: list[tuple[str, str, int]] = []
        self._count = 0
        self._lag_s = rng.choice((0.0, 0.05, 0.5))
        self._failing = rng.choice((0.0, 0.0, 0.3))
        self._reads: list[str] = []

    async def run(self) -> None:
        """Changes objects, and asks for them."""
        self.problems += _malformed_problems()
        for step in range(STEPS):
            if step == self._synced_at:
                self._pods._synced.set()
            if self._more.random() < 0.05:
                await self._ask_many()
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
        self._reports.append((self._loop.time(), key, *version))
        watched[key] = msgspec.json.decode(_body(kind, name, *version), type=struct)
        if kind == "pods":
            self._cache._wake(ObjectChange(before, watched[key]))

    async def _read(self, request: Request, *, tries: int) -> bytes:
        """Reads an object, or fails."""
        kind, name = request.path.split("/")[-2:]
        place = "/api/v1/nodes/" if kind == "nodes" else "/api/v1/namespaces/default/pods/"
        real = request.method, request.path, request.deadline_s, tries
        if real != ("GET", f"{place}{name}", READ_S, 1):
            self.problems.append(f"{name} is read by {real}")
        self._reads.append(name)
        self._read_at_s.append(self._loop.time())
        self._reading += 1
        self._reading_max = max(self._reading_max, self._reading)
        try:
            await asyncio.sleep(0.01 * self._rng.random())
        finally:
            self._reading -= 1
        what = "Pod" if kind == "pods" else "Node"
        if self._rng.random() < self._failing:
            if self._more.random() < 0.3:
                body, text = self._more.choice(MALFORMED)
                self._errors.append((f"{what} {name} cannot be read: ", text))
                return body
            self._errors.append((f"{what} {name} cannot be read: ", "refused"))
            raise Unreachable("refused")
        # At the time of the answer: it may be created while another object is read.
        self._exists[name] = name in self._stored[kind]
        if not self._exists[name]:
            raise NotFound("not found", status=404)
        return _body(kind, name, *self._stored[kind][name])

    def _begin(self) -> None:
        self._reads, self._read_at_s, self._errors = [], [], []
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
            if is_cached or (exists and not self._errors):
                self.problems.append(f"{pod.key} is not sent: {error}")
            self._check_error(error, f"pod {pod.key} was deleted")
        else:
            self._check(pod.key, sent, uid, version, "Pod")
        self._check_wait(pod, began_s, is_cached=is_cached)

    def _check_wait(self, pod: PodInfo, began_s: float, *, is_cached: bool) -> None:
        """Checks when the watch has reported the pod, or when it was read instead."""
        uid, version, now_s = pod.uid, int(pod.metadata.resource_version), self._loop.time()
        lag_s = LAG_S if self._pods.has_synced else 0.0
        reported_s = [
            at_s
            for at_s, key, reported_uid, reported_version in self._reports
            if began_s < at_s < began_s + lag_s - ROUNDING_S
            and (key, reported_uid) == (pod.key, uid)
            and reported_version >= version
        ]
        if is_cached or reported_s:
            due_s = began_s if is_cached else reported_s[0]
            if self._reads or abs(now_s - due_s) > ROUNDING_S:
                self.problems.append(f"{pod.key} is read, but cached: {self._reads} {due_s}")
        elif any(abs(it - began_s - lag_s) > ROUNDING_S for it in self._read_at_s):
            self.problems.append(f"{pod.key} is read at {self._read_at_s}, not after {lag_s} s")
        elif len(self._read_at_s) > 1:
            self.problems.append(f"{pod.key} is read more than once")

    def _check_error(self, error: ExtenderError, otherwise: str = "") -> None:
        """Checks that an error is the first of those that were read."""
        text = str(error)
        errors = self._errors or [(otherwise, text)]
        if not any(text.startswith(head) and part in text for head, part in errors):
            self.problems.append(f"an error is {text!r}, not of {self._errors} {otherwise}")
        if self._reading:
            self.problems.append(f"{self._reading} objects are being read after {text!r}")

    async def _ask_many(self) -> None:
        """Asks for many victims, which are gone: few are read at the same time."""
        count = self._more.choice((5, 16, 17, 40))
        names = sorted(f"many-{number}" for number in range(count))
        pods = [PodInfo(make_pod(name, uid=name)) for name in names]
        self._begin()
        self._reading_max = 0
        try:
            sent = await self._cache.pods(pods)
        except ExtenderError as error:
            self._check_error(error)
        else:
            if sent or sorted(self._reads) != names:
                self.problems.append(f"{sent} are sent, {self._reads} are read")
        if self._reading_max != min(count, READS_MAX):
            self.problems.append(f"{self._reading_max} of {count} are read at once")

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

    def _check(self, key: str, sent: Any, uid: str, version: int, kind: str) -> None:
        metadata = sent["metadata"]
        is_older = int(metadata["resourceVersion"]) < version
        if metadata["uid"] != uid or is_older:
            self.problems.append(f"{key} {uid} in version {version} is sent as {metadata}")
        document = _document(
            f"{kind.lower()}s", metadata["name"], uid, int(metadata["resourceVersion"])
        )
        del document["metadata"]["managedFields"]
        document = {"kind": kind, "apiVersion": "v1", "spec": {}, "status": {}} | document
        if sent != document:
            self.problems.append(f"{key} is sent as {sent}, not {document}")

    async def _ask_pods(self) -> None:
        """Asks for several pods by UID: victims."""
        drawn = [pod for _ in range(3) if (pod := self._any_pod()) is not None]
        victims = list({pod.uid: pod for pod in drawn}.values())
        self._begin()
        before = dict(self._stored["pods"])
        try:
            sent = await self._cache.pods(victims)
        except ExtenderError as error:
            self._check_error(error)
            return
        due = {pod.uid for pod in victims if before.get(pod.metadata.name, ("", 0))[0] == pod.uid}
        if set(sent) != due:
            self.problems.append(f"the pods {sorted(sent)} are sent, not {sorted(due)}")
        for uid, body in sent.items():
            self._check(uid, json.loads(body), uid, 0, "Pod")

    async def _ask_nodes(self) -> None:
        """Asks for nodes by name: those that are cached are not read."""
        self._begin()
        names = self._rng.sample(NAMES, 2)
        watched = self._watched["nodes"]
        before = {name: watched[name] for name in names if name in watched}
        try:
            sent = await self._cache.nodes(names)
        except ExtenderError as error:
            self._check_error(error)
            return
        # A deletion may have been reported meanwhile, and another version after it.
        cached = {name for name, node in before.items() if watched.get(name) is node}
        stored = {name: name in self._stored["nodes"] for name in names} | self._exists
        due = [name for name in names if name in cached or stored[name]]
        sent = {name: it for name, it in sent.items() if name in due}
        if list(sent) != due or cached & set(self._reads):
            self.problems.append(f"the nodes {list(sent)} are sent, not {due}; read: {self._reads}")
        for name, body in sent.items():
            self._check(name, json.loads(body), json.loads(body)["metadata"]["uid"], 0, "Node")


def _malformed_problems() -> list[str]:
    """Returns what is no object, and is decoded as if it were one in a list or watch."""
    pairs = itertools.product(MALFORMED, (FullPod, FullNode))
    return [f"{body!r} is decoded" for (body, text), it in pairs if text not in _refusal(body, it)]


def _refusal(body: bytes, struct: type[FullObject]) -> str:
    try:
        msgspec.json.decode(body, type=struct)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


def _document(kind: str, name: str, uid: str, version: int) -> dict[str, Any]:
    """Returns an object as it is stored: some versions lack a field, or have more of them."""
    metadata: dict[str, Any] = {"name": name, "uid": uid, "resourceVersion": str(version)}
    if kind == "pods":
        metadata["namespace"] = "default"
    metadata["managedFields"] = [{"manager": "kubelet"}]
    if version % 3:
        metadata["labels"] = {"of": str(version)}
    document: dict[str, Any] = {"metadata": metadata}
    if version % 4:
        document["spec"] = {"of": str(version), "unknown": [version]}
    if version % 5:
        document["status"] = {"phase": f"phase {version}"}
    return document


def _body(kind: str, name: str, uid: str, version: int) -> bytes:
    return json.dumps(_document(kind, name, uid, version)).encode()


def run_full_objects(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an extender would get another object, or an older one.
    """
    check_run(FullObjectsRun, seed)
