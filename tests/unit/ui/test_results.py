"""The board of a scenario's results, against the objects of the same run at every instant."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mooring.client import ObjectChange
from mooring.clock import VirtualClock
from mooring.errors import ConfigError
from mooring.experiments.playback.tables import ResultTables
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.scenario.hooks import RunHooks
from mooring.scenario.results import Columns, Result, write_results
from mooring.scenario.run import ScenarioRun, group_nodes
from mooring.ui.board_error import BoardError
from mooring.ui.player import Marker
from mooring.ui.results.board import ResultBoard
from mooring.ui.results.markers import markers_of
from mooring.ui.verdicts import VerdictQuery
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import Spec, deployment, node, nodes, pod, read, run

US = 1_000_000

#: Arrivals, a preemption, a drain, a crash, a removal, a group that grows, a gate.
SPEC: Spec = {
    "end": {"at": "2h"},
    "cluster": {
        "nodes": [nodes(3)],
        "groups": [{"name": "g", "max": 2, "template": node(cpu="16")}],
    },
    "workload": [
        {
            "name": "small",
            "arrive": {"interval": {"every": "90s", "count": 12}},
            "object": pod("900m"),
            "duration": "10m",
        },
        {"name": "urgent", "at": "5m", "create": {**pod("3500m", priority=1000)}},
        {"name": "web", "at": "1m", "create": deployment("web", 2)},
        {"name": "gated", "at": "2m", "create": pod(schedulingGates=[{"name": "example.com/g"}])},
        {"name": "large", "at": "20m", "create": {**pod("12")}},
        {"name": "huge", "at": "25m", "create": {**pod("99")}},
        {"name": "drain", "at": "30m", "drain": {"node": "node-1"}},
        {"name": "crash", "at": "40m", "fail": {"node": "node-0", "duration": "10m"}},
        {"name": "remove", "at": "70m", "delete": {"kind": "Node", "name": "node-2"}},
    ],
}

Snapshot = dict[str, tuple[int, int, bool, bool]]


class Follower:
    """The nodes of a run after each of its instants: pods, milli cpu, unschedulable, not ready."""

    def __init__(self, objects: list[Any]) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {obj.metadata.name: obj for obj in objects}
        self.snapshots: dict[int, tuple[Snapshot, int]] = {}
        self._at_us = 0

    def on_instant(self, now_s: float) -> None:
        self.note()
        self._at_us = round(now_s * US)

    def note(self) -> None:
        live = [
            pod for pod in self.pods.values() if pod.status.phase not in ("Succeeded", "Failed")
        ]
        placed = [pod for pod in live if pod.spec.node_name]
        count = Counter(pod.spec.node_name for pod in placed)
        cpu: Counter[str] = Counter()
        for own in placed:
            cpu[own.spec.node_name] += milli(own)
        nodes = {
            name: (count[name], cpu[name], node.spec.unschedulable, is_away(node))
            for name, node in self.nodes.items()
        }
        self.snapshots[self._at_us] = nodes, len(live) - len(placed)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        by_kind: dict[str, dict[str, Any]] = {"Pod": self.pods, "Node": self.nodes}
        objects = by_kind.get(kind, {})
        if change.new is None:
            objects.pop(key(change.old) if kind == "Pod" else change.old.metadata.name, None)
        else:
            objects[key(change.new) if kind == "Pod" else change.new.metadata.name] = change.new


def milli(pod: Pod) -> int:
    requests = (container.resources.requests for container in pod.spec.containers)
    texts = (str(own["cpu"]) for own in requests if "cpu" in own)
    return sum(int(text[:-1]) if text.endswith("m") else 1000 * int(text) for text in texts)


def is_away(node: Node) -> bool:
    return any(own.type == "Ready" and own.status != "True" for own in node.status.conditions)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, Follower]:
    folder = tmp_path_factory.mktemp("result")
    scenario = read(folder, SPEC)
    objects = [*scenario.objects, *group_nodes(scenario)]
    follower = Follower([obj for obj in objects if isinstance(obj, Node)])
    hooks = RunHooks(on_instant=follower.on_instant, on_change=follower.on_change)
    result = ScenarioRun(scenario, hooks).run()
    follower.note()
    write_results(result, str(folder / "out"))
    return folder / "out", result, follower


def board(folder: Path) -> ResultBoard:
    return ResultBoard(str(folder), VirtualClock())


def test_the_cluster_is_that_of_the_run_at_every_instant(
    followed: tuple[Path, Result, Follower],
) -> None:
    shown, follower = board(followed[0]), followed[2]
    assert len(follower.snapshots) > 30
    order = [*follower.snapshots, *reversed(follower.snapshots)]
    for position in order:
        shown.play({"position": position})
        state = shown.state()
        columns, cpu = state.nodes, state.resources.index("cpu")
        nodes = {
            name: (pods, requested, bool(flags & 1), bool(flags & 2))
            for name, pods, requested, flags in zip(
                columns.names, columns.pods, columns.requested[cpu], columns.flags, strict=True
            )
        }
        assert (nodes, pending(state.counts)) == follower.snapshots[position], position
        assert state.counts.nodes == len(nodes)
        assert state.counts.bound == sum(own[0] for own in nodes.values())


def pending(counts: Any) -> int:
    return int(counts.active + counts.unschedulable + counts.gated)


def test_ticks_bring_a_page_to_the_state_of_a_new_one(
    followed: tuple[Path, Result, Follower],
) -> None:
    shown, follower = board(followed[0]), followed[2]
    first = shown.state()
    page = table(first.nodes)
    generation, attempt, seen = first.generation, first.attempt, 0
    for position in list(follower.snapshots)[::3]:
        shown.play({"position": position})
        tick = shown.tick(generation, attempt, first.resources)
        assert tick.nodes.is_complete
        if tick.nodes.nodes is not None:
            page |= table(tick.nodes.nodes)
        if tick.nodes.usage is not None:
            usage = tick.nodes.usage
            for index, row in enumerate(usage.rows):
                numbers = [column[index] for column in usage.requested]
                page[row] = (*page[row][:-2], usage.pods[index], numbers)
        generation, attempt = tick.nodes.generation, tick.attempt
        seen += len(tick.attempts)
        there = {row: own for row, own in page.items() if own[0]}
        assert there == table(shown.state().nodes)
    assert seen > 20
    shown.play({"position": 0})
    assert not shown.tick(generation, attempt, first.resources).nodes.is_complete


def table(columns: Any) -> dict[int, tuple[Any, ...]]:
    return {
        row: (
            columns.names[index],
            columns.groups[index],
            columns.zones[index],
            columns.flags[index],
            columns.allowed_pods[index],
            [column[index] for column in columns.allocatable],
            columns.pods[index],
            [column[index] for column in columns.requested],
        )
        for index, row in enumerate(columns.rows)
    }


def test_markers_are_combined_by_second_and_kind(followed: tuple[Path, Result, Follower]) -> None:
    shown, result = board(followed[0]), followed[1]
    timeline = shown.state().timeline
    assert timeline is not None
    by_kind: dict[str, list[int]] = {}
    for marker in timeline.markers:
        by_kind.setdefault(marker.kind, []).append(marker.position)
    assert by_kind["node-failed"] == [2400 * US]
    assert 4200 * US in by_kind["node-removed"]
    assert by_kind["scale-up"]
    assert by_kind["node-added"][0] > by_kind["scale-up"][0]
    assert len(by_kind["preempted"]) == 1
    assert result.summary["evictions"] > 0
    for kind, positions in by_kind.items():
        seconds = [position // US for position in positions]
        assert len(set(seconds)) == len(seconds), kind
    texts = [marker.text for marker in timeline.markers if marker.kind == "node-failed"]
    assert texts == ["node failed: node-0"]
    preempted = next(marker.text for marker in timeline.markers if marker.kind == "preempted")
    assert preempted.startswith(f"{result.summary['preemptions']:.0f} pods preempted: default/")


def test_of_too_many_markers_the_intervals_are_longer(
    followed: tuple[Path, Result, Follower],
) -> None:
    tables = ResultTables(str(followed[0]))
    every, few = markers_of(tables), markers_of(tables, count_max=8)
    assert len(every) > 12 >= 8 >= len(few)
    assert {marker.kind for marker in few} == {marker.kind for marker in every}
    assert [marker.position for marker in few] == sorted(marker.position for marker in few)
    # Each is at an instant of its kind, and none of the refusals is lost.
    instants = {(marker.kind, marker.position) for marker in every}
    assert {(marker.kind, marker.position) for marker in few} <= instants
    assert refusals(few) == refusals(every) > 8


def refusals(markers: list[Marker]) -> int:
    texts = [marker.text for marker in markers if marker.kind == "refused"]
    return sum(int(text.split()[0]) if text[0].isdigit() else 1 for text in texts)


def test_the_queue_has_every_pending_pod_once(followed: tuple[Path, Result, Follower]) -> None:
    shown, follower = board(followed[0]), followed[2]
    nominated = 0
    for position in follower.snapshots:
        shown.play({"position": position})
        queue = shown.queue()
        refused = [name for reason in queue.reasons for name in reason.pods]
        counts = [reason.count for reason in queue.reasons]
        assert counts == sorted(counts, reverse=True)
        assert sum(counts) == len(set(refused)) == queue.counts.unschedulable
        pods = [*refused, *(row.pod for row in (*queue.active, *queue.gated))]
        assert len(set(pods)) == len(pods) == pending(queue.counts)
        assert len(queue.nominated) == queue.counts.nominated
        nominated = max(nominated, queue.counts.nominated)
    assert nominated == 1


def test_steps_go_to_the_next_instant(followed: tuple[Path, Result, Follower]) -> None:
    shown = board(followed[0])
    assert shown.play({"step": -1}).position == 0
    assert shown.play({"step": 1}).position == 60 * US
    assert shown.play({"step": 1}).position == 90 * US
    assert shown.play({"position": 61 * US}).position == 61 * US
    assert shown.play({"step": -1}).position == 60 * US
    assert shown.play({"position": 7200 * US}).end == 7200 * US
    assert shown.play({"step": 1}).position == 7200 * US
    for step in (0, 2, True, "1"):
        with pytest.raises(BoardError, match="step must be 1 or -1"):
            shown.play({"step": step})


def test_a_speed_is_in_virtual_seconds(followed: tuple[Path, Result, Follower]) -> None:
    clock = VirtualClock()
    shown = ResultBoard(str(followed[0]), clock)
    shown.play({"speed": 600, "isPlaying": True})
    clock.advance(2.5)
    assert player_of(shown) == (1500 * US, True)
    clock.advance(60)
    assert player_of(shown) == (7200 * US, False)


def player_of(shown: ResultBoard) -> tuple[int, bool]:
    player = shown.state().player
    assert player is not None
    return player.position, player.is_playing


def test_lists_and_details_follow_the_time(followed: tuple[Path, Result, Follower]) -> None:
    async def check() -> None:
        shown = board(followed[0])
        shown.play({"position": 1510 * US})
        queue = shown.queue()
        assert [row.pod for row in queue.gated] == ["default/gated"]
        reasons = {name: reason for reason in queue.reasons for name in reason.pods}
        assert "Insufficient cpu" in reasons["default/huge"].message
        assert reasons["default/huge"].plugins == ("NodeResourcesFit",)
        refused = shown.attempts(result="unschedulable", text="huge")
        assert refused
        assert all(record.time_s <= 1510 for record in refused)

        details = await shown.pod("default/urgent")
        assert details.row.state == "bound"
        assert [record.result for record in details.attempts] == ["preempts", "scheduled"]
        assert details.attempts[0].victims
        assert details.attempts[0].node == details.attempts[1].node == details.row.node
        own = await shown.node(details.row.node)
        assert "default/urgent" in [row.pod for row in own.pods]
        assert own.object["status"]["allocatable"]["cpu"] == "4"
        explained = json.loads(await shown.explain("default/urgent"))
        assert "no specs of pods" in explained["note"]
        assert "explanation" not in explained

        ended = details.attempts[0].victims[0]
        assert (await shown.pod(ended)).row.state == "preempted"
        listed = await shown.pods(state="", text="", after="")
        assert ended not in [row.pod for row in listed.pods]
        assert len(listed.pods) == shown.state().counts.bound + pending(shown.state().counts)
        shown.play({"position": 0})
        assert (await shown.pod("default/urgent")).row.state == "not created yet"
        listed = await shown.pods(state="", text="", after="")
        assert [row.pod for row in listed.pods] == ["default/small-0"]

    asyncio.run(check())


def test_nothing_can_be_written_and_unknown_names_are_errors(
    followed: tuple[Path, Result, Follower],
) -> None:
    shown = board(followed[0])
    assert not shown.state().is_writable
    with pytest.raises(BoardError, match="a result is read-only"):
        asyncio.run(shown.apply("{}"))
    with pytest.raises(BoardError, match="there is no pod default/none"):
        asyncio.run(shown.pod("default/none"))
    with pytest.raises(BoardError, match="there is no node g-0 at this time"):
        asyncio.run(shown.node("g-0"))
    with pytest.raises(BoardError, match="no verdicts"):
        shown.verdicts(1, VerdictQuery())
    rejections = asyncio.run(shown.rejections("g-0"))
    assert (rejections.groups, rejections.looked_at) == ([], 0)
    assert rejections.note == "Results have no verdicts on nodes. A recording has them."


@pytest.mark.parametrize("table_format", ["csv", "arrow", "parquet"])
def test_events_are_read_from_every_format(tmp_path: Path, table_format: str) -> None:
    result = run(tmp_path, SPEC)
    write_results(result, str(tmp_path / "out"), table_format=table_format)
    assert len((board(tmp_path / "out").state()).nodes.names) == 3


def test_a_result_without_events_says_how_to_make_one(tmp_path: Path) -> None:
    write_results(run(tmp_path, SPEC)._replace(events=None), str(tmp_path / "out"))
    with pytest.raises(ConfigError) as caught:
        board(tmp_path / "out")
    assert "has no table events" in str(caught.value)
    assert "mooring simulate SCENARIO --out DIR" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("events", "time_s\n1\n", "has no column event"),
        ("events", "{head}\nx,node,a,,{{}},\n", "must be a number"),
        ("events", "{head}\n-1,node,a,,{{}},\n", "must be seconds from the start of the run"),
        ("events", "{head}\nnan,node,a,,{{}},\n", "must be a number"),
        ("events", "{head}\n,node,a,,{{}},\n", "must be seconds from the start of the run"),
        ("events", "{head}\n2,refused,a,,x,\n1,refused,a,,x,\n", "in the order of time"),
        ("events", "{head}\n1,node,a,,soon,\n", "line 2: events.text: is no node"),
        (
            "events",
            '{head}\n1,node,a,,"{{""status"": {{""allocatable"": {{""cpu"": ""x""}}}}}}",\n',
            "x",
        ),
        ("pods", "pod,group,node,attempts,submission_time_s,waiting_time_s,stretch\n", "priority"),
    ],
)
def test_a_damaged_table_is_an_error(
    tmp_path: Path, followed: tuple[Path, Result, Follower], name: str, text: str, problem: str
) -> None:
    write_results(followed[1], str(tmp_path / "out"))
    head = "time_s,event,object,on_node,text,plugins"
    with gzip.open(tmp_path / "out" / f"{name}.csv.gz", "wt") as file:
        file.write(text.format(head=head))
    with pytest.raises(ConfigError) as caught:
        board(tmp_path / "out")
    assert problem in str(caught.value)
    assert str(tmp_path / "out") in str(caught.value)


def test_an_empty_result_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, SPEC)
    tables: dict[str, Columns]
    tables = {name: {column: [] for column in own} for name, own in result.tables.items()}
    events: Columns = {column: [] for column in result.events or ()}
    write_results(result._replace(tables=tables, events=events), str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="there is nothing to play back"):
        board(tmp_path / "out")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (None, "out: is no folder"),
        ({}, "out: has no results: neither run.json nor runs.jsonl"),
        ({"runs.jsonl": ""}, "out: has the results of a sweep, not of a run"),
        ({"run.json": "{"}, "run.json"),
        ({"run.json": "{}"}, "is not the run.json of a run"),
    ],
)
def test_the_command_refuses_folders_without_a_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str] | None,
    problem: str,
) -> None:
    if files is not None:
        (tmp_path / "out").mkdir()
        for name, text in files.items():
            (tmp_path / "out" / name).write_text(text)
    code, out, error = run_command(capsys, "ui", f"--result={tmp_path / 'out'}")
    assert (code, out) == (2, "")
    assert problem in error
