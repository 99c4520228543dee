"""What a scenario can do: create nodes and pods, wait, and say what must be so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from mooring.client import Client, Informer
from mooring.errors import AlreadyExists, ConfigError, Forbidden, NotFound
from mooring.learn.event_log import Board
from mooring.objects import Node, ObjectMeta, Pod
from mooring.objects.node import NodeSpec
from mooring.objects.pod import Container, PodSpec

#: Nothing in a scenario takes longer than this, if it happens at all.
LIMIT_S: Final = 30.0
#: How often it is looked whether the scheduler has heard of new nodes.
LOOK_S: Final = 0.01
LOOKS: Final = 3000
#: A new namespace gets its service account from a controller, a moment later.
ACCOUNT_S: Final = 0.2
ACCOUNT_TRIES: Final = 50

IMAGE: Final = "registry.k8s.io/pause:3.10"


class Scheduler(Protocol):
    """What every step's ``Scheduler`` has."""

    @property
    def nodes(self) -> Informer:
        """The nodes that it knows."""
        ...

    @property
    def pods(self) -> Informer:
        """The pods that it knows."""
        ...

    async def run(self) -> None:
        """Schedules until cancelled."""
        ...


class Stage:
    """Where a scenario plays.

    Attributes:
        scheduler: The step's.
        complaints: What was not as it must be.

    Args:
        client: Creates objects.
        scheduler: The step's.
        board: What it tells.
        namespace: The pods'.
        scheduler_name: What pods ask for.
        labels: Every node gets these.
        on_say: Told of what the scenario does.
    """

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        board: Board,
        *,
        namespace: str,
        scheduler_name: str,
        labels: Mapping[str, str],
        on_say: Callable[[float, str], None],
    ) -> None:
        self.complaints: list[str] = []
        self._client = client
        self.scheduler = scheduler
        self._board = board
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._labels = dict(labels)
        self._say = on_say
        self._created: list[tuple[str, str]] = []

    # -- what is done -----------------------------------------------------------------------------

    async def nodes(self, numbers: Iterable[int], *, cordoned: bool = False) -> None:
        """Creates nodes, and returns when the scheduler has heard of all of them.

        Raises:
            ConfigError: there is a node of this name already.
        """
        names = [f"node{number}" for number in numbers]
        kind = "cordoned nodes" if cordoned else "nodes"
        self._say(self._board.time_s(), f"{kind} are created: {runs(names)}")
        for name in names:
            metadata = ObjectMeta(name=name, labels=self._labels)
            await self._create(Node(metadata=metadata, spec=NodeSpec(unschedulable=cordoned)))
        # Pods and nodes come by different watches: without this a pod could be tried in between.
        for _ in range(LOOKS):
            if self.scheduler.nodes.objects.keys() >= set(names):
                return
            await asyncio.sleep(LOOK_S)
        self.complaints.append(f"the scheduler has not heard of {runs(names)}")

    async def pods(self, *names: str) -> None:
        """Creates pods, one after another; each asks for nothing."""
        self._say(self._board.time_s(), f"pods are created: {', '.join(names)}")
        for name in names:
            metadata = ObjectMeta(name=name, namespace=self._namespace)
            container = Container(name="container1", image=IMAGE)
            spec = PodSpec(containers=(container,), scheduler_name=self._scheduler_name)
            await self._create(Pod(metadata=metadata, spec=spec))

    async def wait(self, until_s: float) -> None:
        """Lets time go by, until so many seconds after the beginning."""
        await asyncio.sleep(max(0.0, until_s - self._board.time_s()))

    async def until(self, pod: str, *whats: str) -> None:
        """Waits until the newest thing that happened to the pod is one of these."""
        key = self.key(pod)

        def is_so() -> bool:
            line = self._board.last(key)
            return line is not None and line.what in whats

        if not await self._board.wait_until(is_so, LIMIT_S):
            self.complaints.append(f"{pod} must be {' or '.join(whats)}, and never was")

    async def until_bound(self, *pods: str) -> None:
        """Waits until all these pods are bound."""
        for pod in pods:
            await self.until(pod, "bound")

    # -- what must be so --------------------------------------------------------------------------

    def check_bound(self, pod: str, nodes: Iterable[str]) -> None:
        """The pod must be on one of these nodes by now; on none if there are none."""
        found, allowed = self._board.node_of(self.key(pod)), list(nodes)
        is_so = found in allowed if allowed else not found
        if not is_so:
            must = f"on {runs(allowed)}" if allowed else "without a node"
            now_s = self._board.time_s()
            self.complaints.append(f"{pod} must be {must} after {now_s:.1f} s, not on {found!r}")

    def key(self, pod: str) -> str:
        """Returns the pod's "namespace/name"."""
        return f"{self._namespace}/{pod}"

    # -- what is left behind ----------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Deletes what was created, the last first; what is gone already is fine."""
        while self._created:
            kind, name = self._created.pop()
            namespace = self._namespace if kind == "Pod" else ""
            try:
                # Nobody runs the pods, so nobody would confirm that they have ended.
                await self._client.delete(kind, name, namespace, grace_period_s=0)
            except NotFound:
                continue

    async def _create(self, obj: Any) -> None:
        name = obj.metadata.name
        for tries_left in reversed(range(ACCOUNT_TRIES)):
            # Noted first: if we are interrupted in between, it may be there.
            self._created.append((obj.kind, name))
            try:
                await self._client.create(obj)
                return
            except AlreadyExists as error:
                self._created.pop()
                raise ConfigError(
                    "is there already, and the lesson needs to create it", path=obj.kind, value=name
                ) from error
            except Forbidden as error:
                self._created.pop()
                if not tries_left or "serviceaccount" not in str(error).replace(" ", "").lower():
                    raise
            await asyncio.sleep(ACCOUNT_S)


def runs(names: Iterable[str]) -> str:
    """Names in a few words: "node0..node4, node7"."""
    parts: list[list[str]] = []
    for name in names:
        if parts and _follows(parts[-1][-1], name):
            parts[-1].append(name)
        else:
            parts.append([name])
    told = [part if len(part) < 3 else [f"{part[0]}..{part[-1]}"] for part in parts]
    return ", ".join(name for part in told for name in part)


def _follows(before: str, name: str) -> bool:
    stem, number = _split(before)
    return _split(name) == (stem, number + 1)


def _split(name: str) -> tuple[str, int]:
    """Returns the name without its number, and the number; -2 if it has none."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -2)
