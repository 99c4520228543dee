"""The tables of a run's results as arrays, with times in whole microseconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.errors import ConfigError, SchedulerError
from mooring.experiments.result_folders import StoredRun, read_run_to_play
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.scenario.results import Columns, request_column
from mooring.scenario.tables.events import NODE, NODE_REMOVED
from mooring.simulation.utilization import ResourceNames, group_name
from mooring.state.tables.nodes import node_allocatable

Ints = NDArray[np.int64]
#: Position units of a second.
US: Final = 1_000_000
#: A time that never comes.
NEVER: Final = 1 << 62
#: The longest run: 100 years.
_SECONDS_MAX: Final = 3_200_000_000
_PODS: Final = "pods"


class ResultPods:
    """The pods of a run, one row for each life of a pod.

    Attributes:
        names: "namespace/name".
        groups: The groups of the workload.
        final_states: The states at the end.
        priorities: The priorities.
        nodes: Rows of ``ResultNodes``; -1 = never bound.
        submitted_us: int64, when they were created.
        bound_us: int64, when they were bound; ``NEVER`` if they were not.
        finished_us: int64, when they ended; ``NEVER`` if they did not.
        requests: int64, shape (n_resources, n_pods), in scheduler units.
        lives: Name -> its rows, ascending by time.
        by_name: int64, the rows in the order of the names.
    """

    def __init__(self, table: Columns, nodes: ResultNodes, resources: dict[str, str]) -> None:
        for column in ("priority", "final_state", "starting_time_s", "finish_time_s"):
            if column not in table:
                raise ConfigError(f"has no column {column}", path=_PODS)
        self.names: list[str] = list(table["pod"])
        self.groups: list[str] = list(table["group"])
        self.final_states: list[str] = list(table["final_state"])
        self.priorities = _integers(table["priority"], "priority")
        rows = [nodes.row_of.get(name, -1) for name in table["node"]]
        self.nodes = np.array(rows, np.int64)
        self.submitted_us = times_us(table["submission_time_s"], "submission_time_s", _PODS)
        self.finished_us = times_us(table["finish_time_s"], "finish_time_s", _PODS, missing=NEVER)
        self.bound_us = times_us(table["starting_time_s"], "starting_time_s", _PODS, missing=NEVER)
        columns = [request_column(short) for short in resources.values()]
        missing = next((column for column in columns if column not in table), None)
        if missing is not None:
            raise ConfigError(f"has no column {missing}", path=_PODS)
        self.requests = np.zeros((len(columns), len(self.names)), np.int64)
        for number, column in enumerate(columns):
            self.requests[number] = _integers(table[column], column)
        self.lives: dict[str, list[int]] = {}
        for row in np.argsort(self.submitted_us, kind="stable").tolist():
            self.lives.setdefault(self.names[row], []).append(row)
        rows = [row for name in sorted(self.lives) for row in self.lives[name]]
        self.by_name = np.array(rows, np.int64)

    def row_at(self, name: str, position: int) -> int:
        """Returns the row of a pod's life at a time, else of the first one; -1 = there is none."""
        rows = self.lives.get(name)
        if not rows:
            return -1
        count = bisect_right(rows, position, key=self._submitted_of)
        return rows[max(0, count - 1)]

    def _submitted_of(self, row: int) -> int:
        return int(self.submitted_us[row])


class NodeVersion(NamedTuple):
    """A node as it was from one change to the next.

    Attributes:
        node: The fields that are kept.
        group: The name of its group.
        allowed_pods: The most pods.
        allocatable: Per resource, in scheduler units.
    """

    node: Node
    group: str
    allowed_pods: int
    allocatable: tuple[int, ...]


class ResultNodes:
    """The nodes of a run, one row for each name.

    Attributes:
        names: By row, in the order in which they came.
        row_of: Name -> row.
        resources: The resources that some node has.
        times_us: int64, ascending: when a node was added, changed or removed.
        rows: int64, which one.
        versions: The node from then on; None = it is gone.
    """

    def __init__(self, events: Columns, resources: Sequence[str]) -> None:
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        times, rows, nodes = [], [], list[Node | None]()
        every_us = times_us(events["time_s"], "time_s", "events")
        for index, (event, name) in enumerate(zip(events["event"], events["object"], strict=True)):
            if event not in (NODE, NODE_REMOVED):
                continue
            if name not in self.row_of:
                self.row_of[name] = len(self.names)
                self.names.append(name)
            times.append(every_us[index])
            rows.append(self.row_of[name])
            nodes.append(_node_of(events["text"][index], index + 2) if event == NODE else None)
        self.times_us = np.array(times, np.int64)
        self.rows = np.array(rows, np.int64)
        amounts = [node_allocatable(node) if node is not None else {} for node in nodes]
        self.resources = [name for name in resources if any(own.get(name) for own in amounts)]
        names = ResourceNames(self.resources)
        self.versions = [
            None if node is None else self._version(node, own, names)
            for node, own in zip(nodes, amounts, strict=True)
        ]

    def _version(self, node: Node, amounts: dict[str, int], names: ResourceNames) -> NodeVersion:
        return NodeVersion(
            node,
            group_name(node, amounts, names=names),
            amounts.get("pods", 0),
            tuple(amounts.get(name, 0) for name in self.resources),
        )


class ResultTables:
    """The results of a run.

    Attributes:
        title: The name of the scenario, and the seed.
        end_us: The length of the run.
        nodes: Its nodes.
        pods: Its pods.
        events: The table of events.
        events_us: int64, ascending: their times.
        stops_us: int64, ascending: the distinct instants of all that happened, 0 and the end.

    Args:
        folder: The folder.

    Raises:
        ConfigError: it has no results of a run, they are damaged, or cannot be played back.
    """

    def __init__(self, folder: str) -> None:
        stored = read_run_to_play(folder)
        try:
            self._read(stored)
        except ConfigError as error:
            raise error.located(file=folder) from None

    def _read(self, stored: StoredRun) -> None:
        result = stored.result
        self.title = f"{result.name}, seed {result.seed}"
        assert result.events is not None
        self.events = result.events
        self.events_us = times_us(self.events["time_s"], "time_s", "events")
        if (np.diff(self.events_us) < 0).any():
            raise ConfigError("must be in the order of time", path="events")
        self.nodes = ResultNodes(self.events, list(result.resources))
        resources = {name: result.resources[name] for name in self.nodes.resources}
        self.pods = pods = ResultPods(result.tables["pods"], self.nodes, resources)
        length = times_us([result.summary.get("length", 0.0)], "summary.length", "run.json")
        instants = [pods.submitted_us, pods.bound_us, pods.finished_us, self.events_us]
        every = np.unique(np.concatenate([*instants, length, np.zeros(1, np.int64)]))
        self.stops_us = every[every < NEVER]
        self.end_us = int(self.stops_us[-1])
        if not self.nodes.names and not pods.names:
            raise ConfigError("has neither nodes nor pods: there is nothing to play back")


def times_us(values: Sequence[Any], column: str, table: str, *, missing: int | None = None) -> Ints:
    """Returns seconds as microseconds.

    Raises:
        ConfigError: a value is missing and must not, or is not a time of a run.
    """
    try:
        seconds = np.array([np.nan if value is None else value for value in values], np.float64)
    except (TypeError, ValueError):
        raise ConfigError("must be numbers", path=f"{table}.{column}") from None
    is_missing = np.array([value is None for value in values], bool)
    bad = ~is_missing & ~((seconds >= 0) & (seconds <= _SECONDS_MAX))
    if missing is None:
        bad |= is_missing
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        problem = "must be seconds from the start of the run"
        raise ConfigError(f"row {row + 1}: {problem}", path=f"{table}.{column}", value=values[row])
    result = np.full(len(values), NEVER if missing is None else missing, np.int64)
    result[~is_missing] = np.round(seconds[~is_missing] * US).astype(np.int64)
    return result


def _integers(values: Sequence[Any], column: str) -> Ints:
    try:
        return np.array([int(value) for value in values], np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError("must be integers", path=f"{_PODS}.{column}") from None


def _node_of(text: str, line: int) -> Node:
    try:
        node: Node = convert(msgspec.json.decode(text), "Node")
        node_allocatable(node)
    except (msgspec.MsgspecError, SchedulerError, ValueError, TypeError) as error:
        raise ConfigError(f"is no node: {error}", path="events.text", line=line) from error
    return node
