"""The board of a recording: the recorded cluster at one of its steps.

There is one position for all pages. Nothing is decided but what a page asks to explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mooring.clock import Clock
from mooring.decision import GATED
from mooring.errors import ConfigError
from mooring.explain.document import document_of
from mooring.explain.explain import Explained, Options
from mooring.explain.from_recording import explain_recording
from mooring.explain.node_rejections import NodeRejections
from mooring.explain.pod_state import PodState, encoded
from mooring.objects.codec.decode import to_builtins
from mooring.queue import profile_of
from mooring.simulation.build import configuration_of
from mooring.simulation.utilization import amounts_text
from mooring.simulation.weights import score_weights
from mooring.ui.attempts import AttemptRecord
from mooring.ui.board import (
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
from mooring.ui.live_board import ATTEMPTS_PAGE, PAGE, TICK_ATTEMPTS_MAX
from mooring.ui.node_columns import NodeChanges, NodeReader
from mooring.ui.player import MARKERS_MAX, SPEEDS, Marker, Player, PlayerState, Timeline
from mooring.ui.read_only import ReadOnly
from mooring.ui.recorded.attempts import MARKED, RecordedAttempts
from mooring.ui.recorded.cluster import ACTIVE, BOUND, UNSCHEDULABLE, RecordedCluster
from mooring.ui.recorded.queue import recorded_queue
from mooring.ui.recorded.rejections import recorded_rejections
from mooring.ui.verdicts import VerdictPage, VerdictQuery, verdict_page

#: The generations of a cluster that was built anew begin at a multiple of this.
_EPOCH: Final = 1 << 32


class RecordingBoard(ReadOnly):
    """Shows a recording.

    Args:
        file: The recording.
        clock: Real time, for the player.

    Raises:
        ConfigError: the file is no recording, or its cluster cannot be built.
    """

    def __init__(self, file: str, clock: Clock) -> None:
        super().__init__("a recording")
        self._clock = clock
        self._attempts = RecordedAttempts(file)
        self._config = configuration_of(self._attempts.header, file=file)
        self._recorded = RecordedCluster(self._attempts)
        self._player = Player(clock, len(self._attempts.steps))
        self._nodes = (0, NodeReader(self._recorded.cluster.nodes))

    # -- time -------------------------------------------------------------------------------------

    def play(self, command: Mapping[str, Any]) -> PlayerState:
        """Plays, pauses or seeks: see ``Player.command``.

        Raises:
            BoardError: the command is invalid.
        """
        self._player.command(command)
        return self._follow()

    def _follow(self) -> PlayerState:
        """Brings the cluster to the player's position."""
        state = self._player.state()
        self._recorded.seek(state.position)
        return state

    def _reader(self) -> NodeReader:
        epoch = self._recorded.epoch
        if self._nodes[0] != epoch:
            self._nodes = epoch, NodeReader(self._recorded.cluster.nodes)
        return self._nodes[1]

    @property
    def _generation(self) -> int:
        return self._recorded.epoch * _EPOCH + self._recorded.cluster.nodes.log.generation

    # -- everything -------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns everything at this moment."""
        player, reader = self._follow(), self._reader()
        return State(
            title=self._attempts.header.name or Path(self._attempts.file).name,
            kubeconfig="",
            is_writable=False,
            time_s=self._clock.wall_s(),
            generation=self._generation,
            resources=reader.resources(),
            nodes=reader.columns(),
            counts=self._counts(),
            attempt=player.position,
            player=player,
            timeline=Timeline("step", SPEEDS, self._markers()),
        )

    def tick(self, generation: int, attempt: int, resources: Sequence[str]) -> Tick:
        """Returns what has changed since a generation and an attempt."""
        player = self._follow()
        epoch, own = divmod(generation, _EPOCH)
        nodes = NodeChanges(self._generation, is_complete=False)
        if epoch == self._recorded.epoch:
            nodes = self._reader().changes(own, list(resources))
            nodes.generation = self._generation
        first = max(attempt, player.position - TICK_ATTEMPTS_MAX)
        return Tick(
            time_s=self._clock.wall_s(),
            nodes=nodes,
            counts=self._counts(),
            attempt=player.position,
            attempts=self._attempts.records[first : player.position],
            player=player,
        )

    def _markers(self) -> list[Marker]:
        marked = [record for record in self._attempts.records if record.result in MARKED]
        return [
            Marker(record.number, record.result, f"{record.pod}: {record.result}")
            for record in marked[:MARKERS_MAX]
        ]

    def _counts(self) -> Counts:
        states, cluster = self._recorded.state_counts(), self._recorded.cluster
        return Counts(
            nodes=len(cluster.nodes),
            bound=len(cluster.cache.pods),
            binding=0,
            permit=0,
            active=states[ACTIVE],
            backoff=0,
            unschedulable=states[UNSCHEDULABLE],
            gated=states[GATED],
            nominated=len(cluster.cache.nominator),
            attempts=self._recorded.position,
        )

    # -- lists and details ------------------------------------------------------------------------

    def queue(self) -> Queue:
        """Returns the pods of the next steps, and the others without a node."""
        self._follow()
        return recorded_queue(self._recorded, self._counts())

    async def pods(self, *, state: str, text: str, after: str) -> PodPage:
        """Returns pods by state and a part of their name."""
        self._follow()
        page: list[PodRow] = []
        for name in sorted(self._recorded.pods):
            if name <= after or text not in name or (state and self._state_of(name) != state):
                continue
            if len(page) == PAGE:
                return PodPage(page, page[-1].pod)
            page.append(self._row(name))
        return PodPage(page)

    async def pod(self, name: str) -> PodDetails:
        """Returns a pod.

        Raises:
            BoardError: there is none.
        """
        self._follow()
        pod = self._recorded.pods.get(name)
        if pod is None:
            raise BoardError(f"there is no pod {name}")
        attempts = [record for record in self._so_far() if record.pod == name]
        return PodDetails(self._row(name), to_builtins(pod), attempts)

    async def explain(self, name: str) -> bytes:
        """Returns the JSON of the explanation of the pod's latest attempt.

        Raises:
            BoardError: there is no such pod, or it cannot be explained.
        """
        self._follow()
        pod = self._recorded.pods.get(name)
        if pod is None:
            raise BoardError(f"there is no pod {name}")
        state = PodState(pod=name, scheduler=profile_of(pod), node=self._recorded.node_of(name))
        latest = self._recorded.latest(name)
        if latest is None:
            state.note = "The recording has no attempt at this pod before this step."
            return encoded(state).encode()
        state.note = f"This is the decision of step {latest.number}."

        def render(explained: Explained) -> str:
            state.explanation = document_of(explained)
            return ""

        number = self._attempts.steps[latest.number - 1].attempt
        options = Options(has_all_rejections=True)
        try:
            explain_recording(
                self._attempts.file, name, attempt=number, options=options, render=render
            )
        except ConfigError as error:
            raise BoardError(str(error), 409) from None
        return encoded(state).encode()

    async def explain_on_copy(self, name: str) -> bytes:
        """Returns the same as ``explain``: what would help is searched there."""
        return await self.explain(name)

    async def node(self, name: str) -> NodeDetails:
        """Returns a node.

        Raises:
            BoardError: there is none.
        """
        self._follow()
        cluster = self._recorded.cluster
        row = cluster.nodes.live_row(name)
        if row < 0:
            raise BoardError(f"there is no node {name}")
        names = sorted(placed.info.key for placed in cluster.cache.pods.on_row(row))
        return NodeDetails(
            to_builtins(cluster.nodes.objects[row]),
            [self._row(name) for name in names if name in self._recorded.pods],
        )

    async def rejections(self, node: str) -> NodeRejections:
        """Returns the pods that wait, by the rejection of a node in their latest attempt.

        Raises:
            BoardError: there is no such node, or the file has changed.
        """
        self._follow()
        return await recorded_rejections(self._recorded, node)

    def attempts(self, *, result: str, text: str) -> list[AttemptRecord]:
        """Returns the latest attempts with a result and a part of the pod's name."""
        self._follow()
        matches: list[AttemptRecord] = []
        for record in reversed(list(self._so_far())):
            if (not result or record.result == result) and text in record.pod:
                matches.append(record)
                if len(matches) == ATTEMPTS_PAGE:
                    break
        return matches

    def verdicts(self, number: int, query: VerdictQuery) -> VerdictPage:
        """Returns the verdicts on nodes in an attempt.

        Raises:
            BoardError: there is no such attempt.
        """
        step = self._attempts.whole(number)
        record = self._attempts.records[number - 1]
        scheduler = str((step.pod.get("spec") or {}).get("schedulerName", ""))
        return verdict_page(record, step.decision, score_weights(self._config, scheduler), query)

    def _so_far(self) -> Iterator[AttemptRecord]:
        yield from self._attempts.records[: self._recorded.position]

    def _state_of(self, name: str) -> str:
        return self._recorded.state_of(name)

    def _row(self, name: str) -> PodRow:
        pod, state = self._recorded.pods[name], self._state_of(name)
        nominated = self._recorded.cluster.cache.nominator.node_of(pod.metadata.uid)
        return PodRow(
            name,
            state,
            node=self._recorded.node_of(name) if state == BOUND else nominated,
            requests=amounts_text(self._recorded.utilization.requests(pod)),
            priority=pod.spec.priority or 0,
            created=pod.metadata.creation_timestamp or "",
        )
