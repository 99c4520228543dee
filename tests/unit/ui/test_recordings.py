"""The board of a recording, and its player."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.recordings.format import RecordingReader
from mooring.simulation.build import configuration_of, driver_of
from mooring.simulation.replay import RecordedOutcomes
from mooring.ui.board_error import BoardError
from mooring.ui.player import Player
from mooring.ui.recorded.board import RecordingBoard
from mooring.ui.verdicts import VerdictQuery

DATA = Path(__file__).parents[2] / "parity" / "data"
PREEMPTION = DATA / "preemption-4.json.gz"


def board(file: Path = PREEMPTION) -> RecordingBoard:
    return RecordingBoard(str(file), VirtualClock())


def test_a_player_plays_pauses_and_stops_at_the_end() -> None:
    clock = VirtualClock()
    player = Player(clock, 30)
    assert (player.state().position, player.state().is_playing) == (0, False)
    player.command({"isPlaying": True})
    clock.advance(3.5)
    assert player.state().position == 3
    player.command({"speed": 10})
    clock.advance(1)
    assert (player.state().position, player.state().speed) == (13, 10)
    player.command({"isPlaying": False})
    clock.advance(60)
    assert player.state().position == 13
    player.command({"position": 29, "isPlaying": True})
    clock.advance(60)
    assert (player.state().position, player.state().is_playing) == (30, False)
    player.command({"isPlaying": True})
    assert (player.state().position, player.state().is_playing) == (0, True)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ({"position": 31}, "position must be from 0 to 30, got 31"),
        ({"position": True}, "position must be from 0 to 30, got True"),
        ({"speed": 3}, "speed must be one of (1, 10, 100, 1000), got 3"),
        ({"isPlaying": 1}, "isPlaying must be true or false, got 1"),
        ({"sped": 1}, 'unknown field "sped"'),
    ],
)
def test_wrong_commands_are_refused(command: dict[str, Any], problem: str) -> None:
    with pytest.raises(BoardError) as caught:
        Player(VirtualClock(), 30).command(command)
    assert problem in str(caught.value)
    assert caught.value.status == 400


@pytest.mark.parametrize("name", ["preemption-4", "mixed-4", "gates-priority-4", "dra-4"])
def test_the_cluster_is_that_of_a_replay_at_every_step_forwards_and_backwards(name: str) -> None:
    file = DATA / f"{name}.json.gz"
    shown = board(file)
    with RecordingReader(file) as reader:
        header, steps = reader.header, list(reader)
    driver = driver_of(header, config=configuration_of(header))
    outcomes = RecordedOutcomes(driver, header.objects)
    counts, pods = [], []
    for position in range(len(steps) + 1):
        nodes = driver.nodes
        rows = nodes.order.rows()
        pods.append({nodes.names[row]: int(nodes.pod_count[row]) for row in rows})
        counts.append(len(driver.cache.pods))
        if position < len(steps):
            outcomes.apply(steps[position])

    for position in [*range(len(steps) + 1), *range(len(steps), -1, -3)]:
        shown.play({"position": position})
        state = shown.state()
        assert dict(zip(state.nodes.names, state.nodes.pods, strict=True)) == pods[position]
        assert (state.counts.bound, state.attempt) == (counts[position], position)


def test_ticks_have_the_changes_and_end_when_time_goes_back() -> None:
    shown = board()
    state = shown.state()
    shown.play({"position": 5})
    tick = shown.tick(state.generation, state.attempt, state.resources)
    assert tick.nodes.is_complete
    assert [record.number for record in tick.attempts] == [1, 2, 3, 4, 5]
    shown.play({"position": 2})
    assert not shown.tick(tick.nodes.generation, tick.attempt, state.resources).nodes.is_complete


def test_markers_are_the_refused_and_preempting_steps() -> None:
    shown = board()
    timeline = shown.state().timeline
    assert timeline is not None
    with RecordingReader(PREEMPTION) as reader:
        steps = list(reader)
    victims = {
        number
        for number, step in enumerate(steps, 1)
        if step.decision.preemption is not None and step.decision.preemption.victims
    }
    refused = {
        number for number, step in enumerate(steps, 1) if step.decision.result == "unschedulable"
    }
    assert {mark.position for mark in timeline.markers if mark.kind == "preempts"} == victims
    assert {mark.position for mark in timeline.markers} == refused | victims
    assert victims


def test_verdicts_are_those_of_the_file_in_any_order() -> None:
    shown = board()
    with RecordingReader(PREEMPTION) as reader:
        steps = list(reader)
    for number in (1, 2, 3, 50, 7, 7, 8):
        page = shown.verdicts(number, VerdictQuery())
        decision = steps[number - 1].decision
        assert page.count == len(decision.rejected) + (
            len(decision.total) if decision.total is not None else len(decision.tied)
        )
        assert page.attempt.pod == steps[number - 1].pod_key
        assert {row.node for row in page.nodes if row.plugin} == set(decision.rejected)
    with pytest.raises(BoardError, match="there is no attempt 51: there are 50"):
        shown.verdicts(51, VerdictQuery())


def test_lists_and_details_follow_the_position() -> None:
    async def run() -> None:
        shown = board()
        first = shown.state().nodes.names[0]
        before = await shown.pods(state="active", text="", after="")
        assert before.pods
        assert len(shown.queue().active) == len(before.pods)
        assert json.loads(await shown.explain(before.pods[0].pod))["note"].startswith(
            "The recording has no attempt"
        )
        shown.play({"position": 50})
        assert not (await shown.pods(state="active", text="", after="")).pods
        refused = shown.attempts(result="unschedulable", text="")
        assert refused
        assert all(record.result == "unschedulable" for record in refused)
        reasons = shown.queue().reasons
        assert sum(reason.count for reason in reasons) == shown.state().counts.unschedulable
        details = await shown.pod(reasons[0].pods[0])
        assert details.row.state == "unschedulable"
        assert details.attempts[-1].message == reasons[0].message
        explained = json.loads(await shown.explain(details.row.pod))
        assert explained["note"] == f"This is the decision of step {details.attempts[-1].number}."
        assert explained["explanation"]["nodes"]
        node = await shown.node(first)
        assert all(row.node == first for row in node.pods)

    asyncio.run(run())


def test_nothing_can_be_written_and_unknown_names_are_errors() -> None:
    shown = board()
    assert not shown.state().is_writable
    for call in (shown.apply("{}"), shown.delete({}), shown.export()):
        with pytest.raises(BoardError, match="a recording is read-only"):
            asyncio.run(call)
    with pytest.raises(BoardError, match="there is no pod default/none"):
        asyncio.run(shown.explain("default/none"))
    with pytest.raises(BoardError, match="there is no node none"):
        asyncio.run(shown.node("none"))
