"""The board of a scheduler that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mooring.clock import Clock
from mooring.explain.explain import Options
from mooring.explain.node_rejections import NodeRejections, running_node_rejections
from mooring.explain.running import explain_running
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueueName, profile_of
from mooring.scheduler.service import Service
from mooring.simulation.utilization import Utilization, amounts_text
from mooring.ui.attempts import AttemptLog, AttemptRecord
from mooring.ui.board import (
    Applied,
    Counts,
    NodeDetails,
    PodDetails,
    PodPage,
    PodRow,
    Queue,
    State,
    Tick,
)
from mooring.ui.board_error import BoardError
from mooring.ui.cluster_copy import ClusterCopy, SchedulerSettings
from mooring.ui.node_columns import NodeReader
from mooring.ui.objects import ObjectWriter
from mooring.ui.player import PlayerState
from mooring.ui.queue_reader import QueueReader
from mooring.ui.snapshot import SnapshotWriter
from mooring.ui.verdicts import VerdictPage, VerdictQuery, verdict_page

if TYPE_CHECKING:
    from mooring.client import Client

#: Pods of one page of a list.
PAGE: Final = 200
ATTEMPTS_PAGE: Final = 300
#: Attempts in one tick: the others are only counted.
TICK_ATTEMPTS_MAX: Final = 20
#: Pods that are looked at in one turn of the event loop.
SLICE: Final = 2_000

DEFAULTS: Final = SchedulerSettings()

_BOUND, _BINDING = "bound", "binding"


class LiveBoard:
    """Reads a scheduler's cache and queue; writes through an API server.

    Args:
        service: The scheduler.
        log: Its attempts.
        clock: Its clock.
        client: For reading and writing objects.
        title: Of the cluster.
        kubeconfig: The line that makes kubectl talk to it.
        settings: Of the scheduler, for decisions on a copy of the cluster.
    """

    def __init__(
        self,
        service: Service,
        log: AttemptLog,
        clock: Clock,
        client: Client,
        *,
        title: str = "",
        kubeconfig: str = "",
        settings: SchedulerSettings = DEFAULTS,
    ) -> None:
        self._service = service
        self._log = log
        log.weights_of = self._weights_of
        self._clock = clock
        self._title = title
        self._kubeconfig = kubeconfig
        self._writer = ObjectWriter(client)
        self._snapshot = SnapshotWriter(self._writer)
        self._nodes = NodeReader(service.cache.nodes)
        self._utilization = Utilization()
        self._copy = ClusterCopy(settings)
        self._queue = QueueReader(service)

    # -- everything -------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns everything at this moment."""
        return State(
            title=self._title,
            kubeconfig=self._kubeconfig,
            is_writable=True,
            time_s=self._clock.wall_s(),
            generation=self._service.cache.nodes.log.generation,
            resources=self._nodes.resources(),
            nodes=self._nodes.columns(),
            counts=self._counts(),
            attempt=self._log.last_number,
        )

    def tick(self, generation: int, attempt: int, resources: Sequence[str]) -> Tick:
        """Returns what has changed since a generation and an attempt."""
        return Tick(
            time_s=self._clock.wall_s(),
            nodes=self._nodes.changes(generation, list(resources)),
            counts=self._counts(),
            attempt=self._log.last_number,
            attempts=self._log.since(attempt, TICK_ATTEMPTS_MAX),
        )

    def watched(self, count: int) -> None:
        """Determines runner-ups only while a page is open."""
        self._log.is_watched = count > 0

    def _counts(self) -> Counts:
        service = self._service
        queues, assumed = service.queue.counts(), service.cache.assumed_count()
        return Counts(
            nodes=len(service.cache.nodes),
            bound=len(service.cache.pods) - assumed,
            binding=assumed,
            permit=len(service.handle.waiting),
            active=queues[QueueName.ACTIVE] + queues[QueueName.IN_FLIGHT],
            backoff=queues[QueueName.BACKOFF],
            unschedulable=queues[QueueName.UNSCHEDULABLE],
            gated=queues[QueueName.GATED],
            nominated=len(service.cache.nominator),
            attempts=self._log.last_number,
        )

    def queue(self) -> Queue:
        """Returns the scheduling queue."""
        return self._queue.read(self._counts(), self._clock.monotonic_s())

    # -- lists and details ------------------------------------------------------------------------

    async def pods(self, *, state: str, text: str, after: str) -> PodPage:
        """Returns pods by state and a part of their name."""
        page: list[PodRow] = []
        pods = self._service.informers["Pod"].objects
        for number, name in enumerate(sorted(pods)):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            pod = pods.get(name)
            if name <= after or text not in name or pod is None:
                continue
            row = self._row(pod)
            if state and row.state != state:
                continue
            if len(page) == PAGE:
                return PodPage(page, page[-1].pod)
            page.append(row)
        return PodPage(page)

    async def pod(self, name: str) -> PodDetails:
        """Returns a pod.

        Raises:
            BoardError: there is none.
        """
        pod = self._service.informers["Pod"].objects.get(name)
        if pod is None:
            raise BoardError(f"there is no pod {name}")
        attempts = self._log.of_pod(pod.metadata.uid)
        return PodDetails(self._row(pod), to_builtins(pod), attempts)

    async def explain(self, name: str) -> bytes:
        """Returns the JSON of a pod's state and of the decision about it now.

        Raises:
            BoardError: there is no such pod.
        """
        answer = explain_running(
            self._service, name, self._clock, as_json=True, options=Options(has_all_rejections=True)
        )
        if answer.status != 200:
            raise BoardError(answer.text, answer.status)
        return answer.text.encode()

    async def explain_on_copy(self, name: str) -> bytes:
        """Returns the JSON of the decision on a copy, with the changes that help.

        Raises:
            BoardError: there is no such pod, or the cluster is too large.
        """
        informers = self._service.informers
        pod = informers["Pod"].objects.get(name)
        if pod is None:
            raise BoardError(f"there is no pod {name}")
        objects = [obj for informer in informers.values() for obj in informer.objects.values()]
        return await self._copy.explain(pod, objects)

    async def node(self, name: str) -> NodeDetails:
        """Returns a node.

        Raises:
            BoardError: there is none.
        """
        node = self._service.informers["Node"].objects.get(name)
        if node is None:
            raise BoardError(f"there is no node {name}")
        row, pods = self._service.cache.nodes.row(name), []
        for number, placed in enumerate(list(self._service.cache.pods)):
            if number % (10 * SLICE) == SLICE - 1:
                await asyncio.sleep(0)
            if placed.row == row and placed.info.node_name == name:
                pods.append(placed.info.pod)
        rows = sorted((self._row(pod) for pod in pods), key=lambda row: row.pod)
        return NodeDetails(to_builtins(node), rows)

    async def rejections(self, node: str) -> NodeRejections:
        """Returns the pods that wait, by the reasons why a node rejects them now.

        Raises:
            BoardError: there is no such node.
        """
        rejections = await running_node_rejections(self._service, node)
        if rejections is None:
            raise BoardError(f"there is no node {node}")
        return rejections

    def attempts(self, *, result: str, text: str) -> list[AttemptRecord]:
        """Returns the latest attempts with a result and a part of the pod's name."""
        return list(self._log.matching(result=result, text=text, limit=ATTEMPTS_PAGE))

    def verdicts(self, number: int, query: VerdictQuery) -> VerdictPage:
        """Returns the verdicts on nodes in an attempt.

        Raises:
            BoardError: the attempt, or its verdicts, are not kept.
        """
        record, whole = self._log.get(number), self._log.whole(number)
        if record is None:
            raise BoardError(f"attempt {number} is not kept")
        if whole is None:
            raise BoardError(f"the verdicts of attempt {number} are not kept", 410)
        return verdict_page(record, whole.decision(), whole.weights, query)

    def _weights_of(self, pod: Pod) -> Mapping[str, int]:
        framework = self._service.profiles.get(profile_of(pod))
        return {} if framework is None else framework.profile.weights

    def _row(self, pod: Pod) -> PodRow:
        return PodRow(
            key(pod),
            self._state_of(pod),
            node=pod.spec.node_name or self._service.cache.nominator.node_of(pod.metadata.uid),
            requests=amounts_text(self._utilization.requests(pod)),
            priority=pod.spec.priority or 0,
            created=pod.metadata.creation_timestamp or "",
        )

    def _state_of(self, pod: Pod) -> str:
        if pod.spec.node_name:
            return _BOUND
        uid = pod.metadata.uid
        if self._service.cache.is_assumed(uid):
            return _BINDING
        queue = self._service.queue.queue_of(uid)
        return "not ours" if queue is QueueName.NONE else queue.value

    def play(self, command: Mapping[str, Any]) -> PlayerState:
        """Raises BoardError: this cluster is live."""
        del command
        raise BoardError("this cluster is live: there is nothing to play", 405)

    # -- writes -----------------------------------------------------------------------------------

    async def apply(self, text: str) -> list[Applied]:
        """Applies the objects of a YAML text."""
        return await self._writer.apply(text)

    async def delete(self, reference: Mapping[str, str]) -> str:
        """Deletes an object."""
        return await self._writer.delete(reference)

    async def load(self, text: str, *, replaces: bool) -> list[Applied]:
        """Applies the objects of a snapshot."""
        return await self._snapshot.load(text, replaces=replaces)

    async def reset(self) -> str:
        """Removes all objects."""
        return await self._snapshot.reset()

    async def export(self) -> bytes:
        """Returns the objects of the cluster as one JSON list."""
        return await self._writer.export()
