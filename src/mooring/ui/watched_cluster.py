"""The board of a cluster elsewhere: it watches nodes and pods, and asks a mooring to explain.

Nothing is written. Queues and attempts are the scheduler's own: of them only what the conditions
of pods say is shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.client import Client, ObjectChange
from mooring.client.informer.informer import Informer
from mooring.client.transport.kubeconfig import Access
from mooring.clock import Clock, Rng
from mooring.errors import SchedulerError
from mooring.explain.explain import Options
from mooring.explain.node_rejections import NodeRejections
from mooring.explain.remote import (
    SchedulerAddress,
    SchedulerNotAsked,
    fetch,
    fetch_node_rejections,
)
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import KubernetesObject, key
from mooring.objects.pod import Pod
from mooring.simulation.cluster import Cluster
from mooring.simulation.inputs.live_cluster import list_objects
from mooring.simulation.utilization import Utilization, amounts_text
from mooring.ui.attempts import AttemptRecord
from mooring.ui.board import (
    Counts,
    NodeDetails,
    PodDetails,
    PodPage,
    PodRow,
    Queue,
    QueuedPodRow,
    Reason,
    State,
    Tick,
)
from mooring.ui.board_error import BoardError
from mooring.ui.cluster_copy import ClusterCopy, SchedulerSettings
from mooring.ui.live_board import PAGE, SLICE
from mooring.ui.node_columns import NodeReader
from mooring.ui.player import PlayerState
from mooring.ui.queue_reader import QUEUE_ROWS_MAX, REASON_PODS_MAX
from mooring.ui.read_only import ReadOnly
from mooring.ui.verdicts import VerdictPage, VerdictQuery

#: Pods that have not ended.
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
_REASONS: Final = {"Unschedulable": "unschedulable", "SchedulingGated": "gated"}


class RemoteCluster(NamedTuple):
    """A cluster, and the mooring that schedules it.

    Attributes:
        client: For lists and watches.
        access: The address and the identity.
        scheduler: Where a mooring is asked, if none is behind the API server.
    """

    client: Client
    access: Access
    scheduler: SchedulerAddress


class WatchedClusterBoard(ReadOnly):
    """Follows a cluster.

    Args:
        remote: The cluster.
        clock: Real time.
        rng: For the jitter of retries.
    """

    def __init__(self, remote: RemoteCluster, clock: Clock, rng: Rng) -> None:
        super().__init__("the page of another cluster")
        self._remote = remote
        self._clock = clock
        self._rng = rng
        self._cluster = Cluster(())
        self._cache = self._cluster.cache
        self._states: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        more: dict[str, Any] = {"clock": clock, "rng": rng}
        self._node_informer = Informer(
            remote.client, "Node", lambda change: self._on_change("Node", change), **more
        )
        self._pod_informer = Informer(
            remote.client,
            "Pod",
            lambda change: self._on_change("Pod", change),
            field_selector=LIVING,
            **more,
        )
        self._nodes = NodeReader(self._cache.nodes)
        self._utilization = Utilization()
        self._copy = ClusterCopy(SchedulerSettings())

    async def run(self) -> None:
        """Follows the cluster until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._node_informer.run())
            tasks.create_task(self._pod_informer.run())

    async def wait_until_synced(self) -> None:
        """Waits until all objects are listed."""
        await self._node_informer.wait_until_synced()
        await self._pod_informer.wait_until_synced()

    @property
    def last_error(self) -> SchedulerError | None:
        """The error of the last list or watch; None = there was none."""
        return self._node_informer.last_error or self._pod_informer.last_error

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if change.new is not None:
            self._cluster.update(change.new)
        else:
            metadata = change.old.metadata
            self._cluster.remove(kind, metadata.namespace, metadata.name)
        if kind != "Pod":
            return
        name = key(change.new if change.new is not None else change.old)
        self._counts[self._states.pop(name, "")] -= 1
        if change.new is not None:
            state = self._states[name] = _state_of(change.new)
            self._counts[state] += 1

    # -- everything -------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns everything at this moment."""
        return State(
            title=self._remote.access.server,
            kubeconfig="",
            is_writable=False,
            time_s=self._clock.wall_s(),
            generation=self._cache.nodes.log.generation,
            resources=self._nodes.resources(),
            nodes=self._nodes.columns(),
            counts=self._numbers(),
            attempt=0,
        )

    def tick(self, generation: int, attempt: int, resources: Sequence[str]) -> Tick:
        """Returns what has changed since a generation."""
        del attempt
        return Tick(
            time_s=self._clock.wall_s(),
            nodes=self._nodes.changes(generation, list(resources)),
            counts=self._numbers(),
            attempt=0,
            attempts=[],
        )

    def _numbers(self) -> Counts:
        counts = self._counts
        return Counts(
            nodes=len(self._cache.nodes),
            bound=counts["bound"],
            binding=0,
            permit=0,
            active=counts["active"],
            backoff=0,
            unschedulable=counts["unschedulable"],
            gated=counts["gated"],
            nominated=0,
            attempts=0,
        )

    def queue(self) -> Queue:
        """Returns the pods without a node, as their conditions say."""
        pods: dict[str, list[Pod]] = defaultdict(list)
        for name, state in self._states.items():
            if state != "bound":
                pods[state].append(self._pods[name])
        groups: dict[str, list[str]] = defaultdict(list)
        for pod in pods["unschedulable"]:
            groups[_condition(pod)[1]].append(key(pod))
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))[:QUEUE_ROWS_MAX]
        nominated = [pod for pod in pods["unschedulable"] if pod.status.nominated_node_name]
        return Queue(
            counts=self._numbers(),
            active=_queued(pods["active"]),
            backoff=[],
            gated=_queued(pods["gated"]),
            permit=[],
            nominated=_queued(nominated),
            reasons=[
                Reason(message, (), (), len(names), names[:REASON_PODS_MAX])
                for message, names in ordered
            ],
        )

    # -- lists and details ------------------------------------------------------------------------

    @property
    def _pods(self) -> Mapping[str, Pod]:
        return self._pod_informer.objects

    async def pods(self, *, state: str, text: str, after: str) -> PodPage:
        """Returns pods by state and a part of their name."""
        page: list[PodRow] = []
        for number, name in enumerate(sorted(self._states)):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            own = self._states.get(name)
            if name <= after or text not in name or own is None or (state and own != state):
                continue
            if len(page) == PAGE:
                return PodPage(page, page[-1].pod)
            page.append(self._row(self._pods[name]))
        return PodPage(page)

    async def pod(self, name: str) -> PodDetails:
        """Returns a pod.

        Raises:
            BoardError: there is none.
        """
        pod = self._pod(name)
        return PodDetails(self._row(pod), to_builtins(pod), [])

    async def node(self, name: str) -> NodeDetails:
        """Returns a node.

        Raises:
            BoardError: there is none.
        """
        node = self._node_informer.objects.get(name)
        if node is None:
            raise BoardError(f"there is no node {name}")
        placed = self._cache.pods.on_row(self._cache.nodes.row(name))
        rows = sorted((self._row(item.info.pod) for item in placed), key=lambda row: row.pod)
        return NodeDetails(to_builtins(node), rows)

    async def explain(self, name: str) -> bytes:
        """Returns the JSON of a running mooring's explanation; without one, decides on a copy.

        Raises:
            BoardError: there is no such pod, or it cannot be decided.
        """
        pod = self._pod(name)
        try:
            remote = await fetch(
                self._remote.access,
                name,
                scheduler=self._remote.scheduler,
                as_json=True,
                options=Options(has_all_rejections=True),
                clock=self._clock,
                rng=self._rng,
            )
        except SchedulerError as error:
            raise BoardError(str(error), 409) from None
        if remote.explanation is not None:
            return remote.explanation.encode()
        objects = remote.workload.objects if remote.workload is not None else ()
        return await self._copy.explain(pod, [*objects])

    async def explain_on_copy(self, name: str) -> bytes:
        """Returns the JSON of the decision on a copy, with the changes that help.

        Raises:
            BoardError: there is no such pod, or the cluster cannot be listed.
        """
        return await self._copy.explain(self._pod(name), await self._list_objects())

    async def _list_objects(self) -> Sequence[KubernetesObject]:
        try:
            listed = await list_objects(
                self._remote.access, clock=self._clock, rng=self._rng, kinds=(), workloads=()
            )
        except SchedulerError as error:
            raise BoardError(str(error), 409) from None
        return listed.objects

    async def rejections(self, node: str) -> NodeRejections:
        """Returns the rejections of a running mooring; without one, decides on a copy.

        Raises:
            BoardError: there is no such node, or the pods cannot be decided.
        """
        rejections = await _ask_about_node(self._remote, node, self._clock, self._rng)
        if rejections is not None:
            return rejections
        return await self._copy.rejections(node, await self._list_objects(), self._states)

    def attempts(self, *, result: str, text: str) -> list[AttemptRecord]:
        """Returns no attempts: they are not in the API."""
        del result, text
        return []

    def verdicts(self, number: int, query: VerdictQuery) -> VerdictPage:
        """Raises BoardError: attempts are not in the API."""
        del query
        raise BoardError(f"attempt {number} is not kept here")

    def play(self, command: Mapping[str, Any]) -> PlayerState:
        """Raises BoardError: this cluster is live."""
        del command
        raise BoardError("this cluster is live: there is nothing to play", 405)

    def _pod(self, name: str) -> Pod:
        pod = self._pods.get(name)
        if pod is None:
            raise BoardError(f"there is no pod {name}")
        return pod

    def _row(self, pod: Pod) -> PodRow:
        return PodRow(
            key(pod),
            _state_of(pod),
            node=pod.spec.node_name or pod.status.nominated_node_name,
            requests=amounts_text(self._utilization.requests(pod)),
            priority=pod.spec.priority or 0,
            created=pod.metadata.creation_timestamp or "",
        )


async def _ask_about_node(
    remote: RemoteCluster, node: str, clock: Clock, rng: Rng
) -> NodeRejections | None:
    """Returns the rejections of the mooring that schedules a cluster; None = none answers.

    Raises:
        BoardError: the named mooring does not answer, or there is no such node.
    """
    try:
        text = await fetch_node_rejections(
            remote.access, node, scheduler=remote.scheduler, clock=clock, rng=rng
        )
        return msgspec.json.decode(text, type=NodeRejections)
    except SchedulerNotAsked as error:
        if remote.scheduler.url is not None:
            raise BoardError(str(error), 409) from None
        return None
    except (SchedulerError, msgspec.DecodeError) as error:
        raise BoardError(str(error), 409) from None


def _state_of(pod: Pod) -> str:
    return "bound" if pod.spec.node_name else _REASONS.get(_condition(pod)[0], "active")


def _condition(pod: Pod) -> tuple[str, str]:
    """Returns reason and message of the condition PodScheduled; "" = there is none."""
    conditions = [item for item in pod.status.conditions if item.type == "PodScheduled"]
    return (conditions[0].reason, conditions[0].message) if conditions else ("", "")


def _queued(pods: Sequence[Pod]) -> list[QueuedPodRow]:
    ordered = sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), key(pod)))
    return [
        QueuedPodRow(key(pod), pod.spec.priority or 0, node=pod.status.nominated_node_name)
        for pod in ordered[:QUEUE_ROWS_MAX]
    ]
