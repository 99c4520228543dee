"""The actions of a scenario: create nodes and pods, wait, check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from mooring.client import Client, Informer
from mooring.errors import AlreadyExists, ConfigError, Forbidden, NotFound
from mooring.learn.event_log import EventLog
from mooring.objects import Node, ObjectMeta, Pod
from mooring.objects.node import NodeSpec
from mooring.objects.pod import Container, PodSpec

#: Timeout of each wait in a scenario.
LIMIT_S: Final = 30.0
#: Poll interval, and number of polls, until the scheduler sees new nodes.
POLL_INTERVAL_S: Final = 0.01
POLLS_MAX: Final = 3000
#: Retries until a controller has created the service account of a new namespace.
ACCOUNT_S: Final = 0.2
ACCOUNT_TRIES: Final = 50

IMAGE: Final = "registry.k8s.io/pause:3.10"


class Scheduler(Protocol):
    """The interface of every step's ``Scheduler``."""

    @property
    def nodes(self) -> Informer:
        """The informer of nodes."""
        ...

    @property
    def pods(self) -> Informer:
        """The informer of pods."""
        ...

    async def run(self) -> None:
        """Schedules until cancelled."""
        ...


class ScenarioRunner:
    """Runs the actions of a scenario.

    Attributes:
        scheduler: The step's scheduler.
        failures: The failed checks.

    Args:
        client: Creates objects.
        scheduler: The step's scheduler.
        event_log: The scheduler's events.
        namespace: The pods' namespace.
        scheduler_name: The pods' schedulerName.
        labels: The nodes' labels.
        on_say: Called with each action of the scenario.
        on_nodes: Called with the names of new nodes, and whether they are cordoned.
    """

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        event_log: EventLog,
        *,
        namespace: str,
        scheduler_name: str,
        labels: Mapping[str, str],
        on_say: Callable[[float, str], None],
        on_nodes: Callable[[list[str], bool], None] = lambda _names, _cordoned: None,
    ) -> None:
        self.failures: list[str] = []
        self._client = client
        self.scheduler = scheduler
        self._event_log = event_log
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._labels = dict(labels)
        self._say = on_say
        self._on_nodes = on_nodes
        self._created: list[tuple[str, str]] = []

    # -- actions ----------------------------------------------------------------------------------

    async def nodes(self, numbers: Iterable[int], *, cordoned: bool = False) -> None:
        """Creates nodes, and waits until the scheduler sees all of them.

        Raises:
            ConfigError: a node with this name exists already.
        """
        names = [f"node{number}" for number in numbers]
        kind = "cordoned nodes" if cordoned else "nodes"
        self._say(self._event_log.time_s(), f"{kind} are created: {runs(names)}")
        self._on_nodes(names, cordoned)
        for name in names:
            metadata = ObjectMeta(name=name, labels=self._labels)
            await self._create(Node(metadata=metadata, spec=NodeSpec(unschedulable=cordoned)))
        # Pods and nodes have separate watches: without this a pod could be scheduled in between.
        for _ in range(POLLS_MAX):
            if self.scheduler.nodes.objects.keys() >= set(names):
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        self.failures.append(f"the scheduler does not see {runs(names)}")

    async def pods(self, *names: str) -> None:
        """Creates pods without requests, one after another."""
        self._say(self._event_log.time_s(), f"pods are created: {', '.join(names)}")
        for name in names:
            metadata = ObjectMeta(name=name, namespace=self._namespace)
            container = Container(name="container1", image=IMAGE)
            spec = PodSpec(containers=(container,), scheduler_name=self._scheduler_name)
            await self._create(Pod(metadata=metadata, spec=spec))

    async def wait(self, until_s: float) -> None:
        """Waits until so many seconds after the start."""
        await asyncio.sleep(max(0.0, until_s - self._event_log.time_s()))

    async def until(self, pod: str, *whats: str) -> None:
        """Waits until the pod's latest event is one of ``whats``."""
        key = self.key(pod)

        def has_event() -> bool:
            line = self._event_log.last(key)
            return line is not None and line.what in whats

        if not await self._event_log.wait_until(has_event, LIMIT_S):
            self.failures.append(f"{pod} must become {' or '.join(whats)}, but did not")

    async def until_bound(self, *pods: str) -> None:
        """Waits until all these pods are bound."""
        for pod in pods:
            await self.until(pod, "bound")

    # -- checks -----------------------------------------------------------------------------------

    def check_bound(self, pod: str, nodes: Iterable[str]) -> None:
        """Checks that the pod is on one of these nodes, or on none if there are none."""
        node, allowed = self._event_log.node_of(self.key(pod)), list(nodes)
        is_allowed = node in allowed if allowed else not node
        if not is_allowed:
            expected = f"on {runs(allowed)}" if allowed else "without a node"
            now_s = self._event_log.time_s()
            actual = f"not on {node!r}" if node else "but has none"
            self.failures.append(f"{pod} must be {expected} after {now_s:.1f} s, {actual}")

    def check_attempts(self, pod: str, at_least: int, at_most: int | None = None) -> None:
        """Checks how often the pod has been tried so far."""
        lines = self._event_log.lines
        count = sum(line.what == "popped" and line.pod == self.key(pod) for line in lines)
        if count < at_least or (at_most is not None and count > at_most):
            is_exact = at_most == at_least
            expected = f"{at_least} times" if is_exact else f"at least {at_least} times"
            now_s = self._event_log.time_s()
            self.failures.append(f"{pod} must be tried {expected} in {now_s:.1f} s, not {count}")

    def key(self, pod: str) -> str:
        """Returns the pod's "namespace/name"."""
        return f"{self._namespace}/{pod}"

    # -- cleanup ----------------------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Deletes the created objects in reverse order; missing ones are ignored."""
        while self._created:
            kind, name = self._created.pop()
            namespace = self._namespace if kind == "Pod" else ""
            try:
                # There is no kubelet that would confirm the end of the pods.
                await self._client.delete(kind, name, namespace, grace_period_s=0)
            except NotFound:
                continue

    async def _create(self, obj: Any) -> None:
        name = obj.metadata.name
        for retries_left in reversed(range(ACCOUNT_TRIES)):
            # Recorded first: after an interruption the object may exist.
            self._created.append((obj.kind, name))
            try:
                await self._client.create(obj)
                return
            except AlreadyExists as error:
                self._created.pop()
                raise ConfigError(
                    "exists already, but the lesson needs to create it", path=obj.kind, value=name
                ) from error
            except Forbidden as error:
                self._created.pop()
                if not retries_left or "serviceaccount" not in str(error).replace(" ", "").lower():
                    raise
            await asyncio.sleep(ACCOUNT_S)


def runs(names: Iterable[str]) -> str:
    """Returns names in short form: "node0..node4, node7"."""
    parts: list[list[str]] = []
    for name in names:
        if parts and _follows(parts[-1][-1], name):
            parts[-1].append(name)
        else:
            parts.append([name])
    shortened = [part if len(part) < 3 else [f"{part[0]}..{part[-1]}"] for part in parts]
    return ", ".join(name for part in shortened for name in part)


def _follows(before: str, name: str) -> bool:
    stem, number = _split(before)
    return _split(name) == (stem, number + 1)


def _split(name: str) -> tuple[str, int]:
    """Returns the name without its number, and the number; -2 if it has none."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -2)
