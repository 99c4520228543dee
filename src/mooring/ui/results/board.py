"""The board of a scenario's results: the cluster at a virtual time.

There is one position for all pages, in microseconds from the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.clock import Clock
from mooring.experiments.playback.attempts import PlayedAttempt, ResultAttempts
from mooring.experiments.playback.cluster import (
    ACTIVE,
    BOUND,
    GATED,
    UNSCHEDULABLE,
    ResultCluster,
)
from mooring.experiments.playback.tables import ResultTables
from mooring.explain.node_rejections import NodeRejections, node_rejections
from mooring.explain.pod_state import PodState, encoded
from mooring.objects.codec.decode import to_builtins
from mooring.simulation.utilization import amounts_text
from mooring.ui.attempts import AttemptRecord
from mooring.ui.board import Counts, NodeDetails, PodDetails, PodPage, PodRow, Queue, State, Tick
from mooring.ui.board_error import BoardError
from mooring.ui.live_board import ATTEMPTS_PAGE, PAGE, TICK_ATTEMPTS_MAX
from mooring.ui.node_columns import NodeChanges
from mooring.ui.player import TIME, Player, PlayerState, Timeline
from mooring.ui.read_only import ReadOnly
from mooring.ui.results.columns import ResultColumns
from mooring.ui.results.markers import markers_of
from mooring.ui.results.queue import result_queue
from mooring.ui.verdicts import VerdictPage, VerdictQuery

#: The note of every pod.
NO_SPECS: Final = (
    "Results have no specs of pods, no scores and no verdicts on nodes, so a decision cannot be "
    "explained. The messages of the failed attempts are below."
)
#: The note of every node.
NO_VERDICTS: Final = "Results have no verdicts on nodes. A recording has them."


class ResultBoard(ReadOnly):
    """Shows the results of a run.

    Args:
        folder: The folder that ``mooring simulate SCENARIO --out`` has written.
        clock: Real time, for the player.

    Raises:
        ConfigError: the folder has no results of a run, or they cannot be played back.
    """

    def __init__(self, folder: str, clock: Clock) -> None:
        super().__init__("a result")
        self._clock = clock
        self._tables = ResultTables(folder)
        self._attempts = ResultAttempts(self._tables)
        self._cluster = ResultCluster(self._tables, self._attempts)
        self._columns = ResultColumns(self._cluster)
        self._markers = markers_of(self._tables)
        stops = self._tables.stops_us.tolist()
        self._player = Player(clock, self._tables.end_us, stops)

    def play(self, command: Mapping[str, Any]) -> PlayerState:
        """Plays, pauses or seeks: see ``Player.command``.

        Raises:
            BoardError: the command is invalid.
        """
        return self._player.command(command)

    @property
    def _position(self) -> int:
        return self._player.state().position

    # -- everything -------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns everything at this moment."""
        player = self._player.state()
        position = player.position
        return State(
            title=self._tables.title,
            kubeconfig="",
            is_writable=False,
            time_s=self._clock.wall_s(),
            generation=position,
            resources=self._tables.nodes.resources,
            nodes=self._columns.columns(position),
            counts=self._counts(position),
            attempt=self._attempts.count(position),
            player=player,
            timeline=Timeline(TIME, self._player.speeds, self._markers),
        )

    def tick(self, generation: int, attempt: int, resources: Sequence[str]) -> Tick:
        """Returns what has changed since a generation, which is a position, and an attempt."""
        player = self._player.state()
        position, count = player.position, self._attempts.count(player.position)
        nodes = NodeChanges(position, is_complete=False)
        if 0 <= generation <= position and list(resources) == self._tables.nodes.resources:
            nodes = self._columns.changes(generation, position)
        first = max(attempt, count - TICK_ATTEMPTS_MAX)
        return Tick(
            time_s=self._clock.wall_s(),
            nodes=nodes,
            counts=self._counts(position),
            attempt=count,
            attempts=[attempt_record(own) for own in self._attempts.records(first, count)],
            player=player,
        )

    def _counts(self, position: int) -> Counts:
        pods = self._cluster.counts(position)
        return Counts(
            nodes=len(self._cluster.node_rows(position)),
            bound=pods[BOUND],
            binding=0,
            permit=0,
            active=pods[ACTIVE],
            backoff=0,
            unschedulable=pods[UNSCHEDULABLE],
            gated=pods[GATED],
            nominated=self._cluster.nominated_count(position),
            attempts=self._attempts.count(position),
        )

    # -- lists and details ------------------------------------------------------------------------

    def queue(self) -> Queue:
        """Returns the pending pods."""
        position = self._position
        return result_queue(self._cluster, position, self._counts(position))

    async def pods(self, *, state: str, text: str, after: str) -> PodPage:
        """Returns pods by state and a part of their name; those that have ended are in no list."""
        position, names = self._position, self._tables.pods.names
        page: list[PodRow] = []
        for row in self._cluster.listed(position, state):
            if names[row] <= after or text not in names[row]:
                continue
            if len(page) == PAGE:
                return PodPage(page, page[-1].pod)
            page.append(self._row(row, position))
        return PodPage(page)

    async def pod(self, name: str) -> PodDetails:
        """Returns a pod.

        Raises:
            BoardError: there is none.
        """
        position = self._position
        row = self._row_of(name, position)
        attempts = self._attempts.of_pod(name, self._attempts.count(position))
        namespace, _, own = name.partition("/")
        metadata = {"namespace": namespace, "name": own}
        records = [attempt_record(own) for own in attempts]
        return PodDetails(self._row(row, position), {"kind": "Pod", "metadata": metadata}, records)

    async def explain(self, name: str) -> bytes:
        """Returns the JSON of a pod's state, with a note: results do not explain decisions.

        Raises:
            BoardError: there is no such pod.
        """
        position = self._position
        row = self._row(self._row_of(name, position), position)
        node = row.node if row.state == BOUND else ""
        return encoded(PodState(pod=name, scheduler="", node=node, note=NO_SPECS)).encode()

    async def explain_on_copy(self, name: str) -> bytes:
        """Returns the same as ``explain``."""
        return await self.explain(name)

    async def node(self, name: str) -> NodeDetails:
        """Returns a node.

        Raises:
            BoardError: there is none now.
        """
        position = self._position
        nodes = self._tables.nodes
        row = nodes.row_of.get(name, -1)
        index = self._cluster.versions(position, [row])[0] if row >= 0 else -1
        version = nodes.versions[index] if index >= 0 else None
        if version is None:
            raise BoardError(f"there is no node {name} at this time")
        own = self._cluster.pods_on(position, row)
        rows = sorted((self._row(pod, position) for pod in own), key=lambda pod_row: pod_row.pod)
        return NodeDetails(to_builtins(version.node), rows)

    async def rejections(self, node: str) -> NodeRejections:
        """Returns no pods, with a note: results have no verdicts."""
        counts = self._cluster.counts(self._position)
        pending = counts[ACTIVE] + counts[UNSCHEDULABLE]
        return node_rejections(node, (), pending=pending, looked_at=0, note=NO_VERDICTS)

    def attempts(self, *, result: str, text: str) -> list[AttemptRecord]:
        """Returns the latest attempts with a result and a part of the pod's name."""
        matches: list[AttemptRecord] = []
        count = self._attempts.count(self._position)
        for record in self._attempts.latest_first(count, result):
            if text in record.pod:
                matches.append(attempt_record(record))
                if len(matches) == ATTEMPTS_PAGE:
                    break
        return matches

    def verdicts(self, number: int, query: VerdictQuery) -> VerdictPage:
        """Raises BoardError: results have no verdicts."""
        del number, query
        raise BoardError("results have no verdicts on nodes")

    def _row_of(self, name: str, position: int) -> int:
        row = self._tables.pods.row_at(name, position)
        if row < 0:
            raise BoardError(f"there is no pod {name}")
        return row

    def _row(self, row: int, position: int) -> PodRow:
        pods, nodes = self._tables.pods, self._tables.nodes
        state, node = self._cluster.state_of(row, position), ""
        if pods.nodes[row] >= 0 and pods.bound_us[row] <= position:
            node = nodes.names[int(pods.nodes[row])]
        elif state == UNSCHEDULABLE:
            latest = self._cluster.last_failure(position, row)
            node = latest.node if latest is not None else ""
        amounts = dict(zip(nodes.resources, pods.requests[:, row].tolist(), strict=True))
        return PodRow(
            pods.names[row],
            state,
            node=node,
            requests=amounts_text(amounts),
            priority=int(pods.priorities[row]),
        )


def attempt_record(own: PlayedAttempt) -> AttemptRecord:
    """Returns an attempt as the page lists it; its time is from the start of the run."""
    return AttemptRecord(
        own.number,
        own.pod,
        "",
        own.time_s,
        own.result,
        node=own.node,
        message=own.message,
        plugins=own.plugins,
        victims=own.victims,
    )
