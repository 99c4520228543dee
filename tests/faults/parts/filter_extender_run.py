"""Attempts with several extenders that reject nodes in every form, and what is left of them.

Extenders leave nodes out, say why in ``FailedNodes`` or ``FailedAndUnresolvableNodes`` or not at
all, contradict themselves, and fail. The node that is selected, the nodes where a preemption may
help, and the reasons are those of plain rules.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, evaluateNominatedNode,
prioritizeNodes), extender.go (Filter).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import SystemClock, seeded_random
from mooring.config.types import Extender, ExtenderManagedResource
from mooring.errors import ExtenderError
from mooring.extenders.http import NoResponse
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework import Code, Diagnosis, NodeInfo, Reject, Status, per_node
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.with_extenders import schedule_pod
from mooring.scheduler.with_extenders import drive_extender_calls
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.virtual_loop import run_virtually

NODES: Final = ("a", "b", "c", "d", "e")
ATTEMPTS: Final = 12
MESSAGES: Final = ("no licence", "no disk")
#: In such seeds, modulo five, extenders reject some nodes with an empty reason.
SILENT: Final = 3
#: In such seeds, modulo five, extenders give few different scores: many nodes tie. In half of them
#: the plugin scores all nodes alike.
TIED: Final = 1
#: In such seeds, modulo seven, no plugin scores nodes.
UNSCORED: Final = 3
#: In such seeds, modulo five, scores are so large that their sums wrap around.
LARGE: Final = 4
LARGE_SCORES: Final = (0, 5, 2**62, -(2**62), 2**63 - 1, -(2**63))
NONSENSE: Final = (
    b"<html>",
    b"[]",
    b'{"NodeNames": 5, "Nodes": 5}',
    b'{"Error": "out of order", "NodeNames": ["a"]}',
    b'{"NodeNames": ["nowhere"], "Nodes": {"items": [{"metadata": {"name": "nowhere"}}]}}',
)
#: Node -> whether a preemption may help there, and the reason.
Rejections = dict[str, tuple[bool, str]]


def as_int64(value: int) -> int:
    """Returns what Go's int64 has after an overflow."""
    return (value + 2**63) % 2**64 - 2**63


class Unscored:
    """A plugin that rejects nodes as the run has drawn.

    Attributes:
        rejections: What it rejects.
        scores: Node -> its score, from 0 to 100; 0 if it scores none.
    """

    name = "Scripted"

    def __init__(self) -> None:
        self.rejections: Rejections = {}
        self.scores: dict[str, int] = {}

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Rejects a node."""
        del pod
        if node.name not in self.rejections:
            return None
        is_resolvable, reason = self.rejections[node.name]
        return Reject(reason, resolvable=is_resolvable)


class Scored(Unscored):
    """The same with scores."""

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        """Scores a node."""
        del pod
        return self.scores[node.name]


class Play:
    """An extender, and what it makes of the nodes that it is sent."""

    def __init__(self, run: FilterExtenderRun, name: str) -> None:
        rng = run.rng
        self.is_ignorable = rng.random() < 0.4
        self.is_interested = rng.random() < 0.85
        self.is_capable = rng.random() < 0.6
        self.has_filter = rng.random() < 0.9
        self.has_prioritize = rng.random() < 0.7
        self.weight = rng.choice((1, 1, 3))
        is_for_all = self.is_interested and rng.random() < 0.6
        resource = "cpu" if self.is_interested else "example.com/fpga"
        config = Extender(
            url_prefix=f"http://{name}",
            filter_verb="filter" if self.has_filter else "",
            prioritize_verb="prioritize" if self.has_prioritize else "",
            weight=self.weight,
            node_cache_capable=self.is_capable,
            ignorable=self.is_ignorable,
            managed_resources=() if is_for_all else (ExtenderManagedResource(name=resource),),
        )

        def post(verb: str, body: bytes, bytes_max: int) -> Awaitable[bytes]:
            del bytes_max
            return run.post(self, verb, body)

        whole: Any = SimpleNamespace(pod=_whole_pod, nodes=_whole_nodes)
        unused: Any = None
        self.extender = HTTPExtender(config, post, whole, client=unused, clock=SystemClock())


class FilterExtenderRun:
    """One run.

    Attributes:
        rng: Draws everything.
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = seeded_random(seed)
        self._scores: Sequence[int] = (0, 0, 5, 10) if seed % 5 == TIED else range(11)
        self._is_tied = seed % 10 == TIED
        if seed % 5 == LARGE:
            self._scores = LARGE_SCORES
        self._silent = seeded_random(seed + 1_000_000) if seed % 5 == SILENT else None
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._has_scores = seed % 7 != UNSCORED
        self._plugin = Scored() if self._has_scores else Unscored()
        self._harness = Harness([make_node(name) for name in NODES], [self._plugin])
        self._plays = [Play(self, name) for name in ("one", "two", "three")[: rng.randint(1, 3)]]
        framework = self._harness.framework
        #: What draws in a tie: the first, or the last of the nodes.
        self._share = 0.0
        framework.set_extenders([play.extender for play in self._plays], lambda: self._share)
        #: As in upstream's list of extenders, those that are ignorable come last.
        self._order = sorted(
            (play for play in self._plays if play.is_interested), key=lambda it: it.is_ignorable
        )
        self._fault_rate = rng.choice((0.0, 0.1, 0.3))
        self._accepting = rng.choice((0.3, 0.7))
        #: Of the attempt: the nodes that are left, the rejections, the sums of the scores.
        self._left: list[str] = []
        self._rejections: Rejections = {}
        self._sums: Counter[str] = Counter()
        #: The nodes that some extender has scored.
        self._scored: set[str] = set()
        self._due: list[Play] = []
        self._is_nominated = self._is_error = False
        self._nominated = ""
        #: Where the next attempt has to begin.
        self._next_start = 0

    def run(self) -> None:
        """Makes all attempts."""
        for number in range(ATTEMPTS):
            self._attempt(f"pod-{number}")
            if self.problems:
                return

    def _attempt(self, name: str) -> None:
        rng, plugin = self.rng, self._plugin
        plugin.rejections = {
            node: (rng.random() < 0.5, rng.choice(MESSAGES)) for node in NODES if rng.random() < 0.2
        }
        scores = {node: rng.choice((0, 50, 100)) for node in NODES}
        if self._is_tied:
            scores = dict.fromkeys(NODES, 50)
        plugin.scores = scores if self._has_scores else dict.fromkeys(NODES, 0)
        self._nominated = nominated = rng.choice(("", "", *NODES))
        pod = make_pod(name, requests={"cpu": "1"}, nominated_node=nominated)
        self._rejections, self._sums = dict(plugin.rejections), Counter()
        self._scored = set()
        self._share = 0.999 if len(self.paths) % 2 else 0.0
        self._left = [node for node in NODES if node not in plugin.rejections]
        self._is_nominated, self._is_error = nominated in self._left, False
        self._next_start = 0
        if self._is_nominated:
            self._left = [nominated]
        self._due = [play for play in self._order if play.has_filter]
        snapshot, framework = self._harness.cache.snapshot(), self._harness.framework
        cycle = framework.new_cycle(PodInfo(pod), snapshot)
        attempt = Attempt(snapshot)
        calls = schedule_pod(framework, cycle, attempt)
        try:
            result = run_virtually(drive_extender_calls(calls, lambda: None))
        except ExtenderError as error:
            self.paths["error"] += 1
            if not self._is_error:
                self.problems.append(f"{name} fails: {error}")
            return
        finally:
            self._begin_all()
            if (start := attempt.next_start_index(0)) != self._next_start:
                self.problems.append(f"after {name} begins node {start}, not {self._next_start}")
        if self._is_error or (self._due and self._left):
            self.problems.append(f"{name}: {result}, but an extender failed or is not called")
        elif isinstance(result, Placement):
            if result.feasible_count != len(self._left):
                counts = result.feasible_count, result.evaluated_count
                self.problems.append(f"{name} fits {counts}, not {len(self._left)} nodes")
            self._check_placement(name, result.node_name, attempt)
        else:
            self._check_diagnosis(name, result)

    def _begin_all(self) -> None:
        """Begins with all nodes, if the nominated one was rejected."""
        if self._is_nominated and not self._left:
            self._is_nominated = False
            # All nodes are visited now. As upstream, that one is counted twice if it has a reason.
            self._next_start = int(self._nominated in self._rejections)
            self._left = [node for node in NODES if node not in self._plugin.rejections]
            self._due = [play for play in self._order if play.has_filter]

    def _check_placement(self, name: str, node: str, attempt: Attempt) -> None:
        self.paths["placed"] += 1
        totals = {it: as_int64(self._plugin.scores[it] + 10 * self._sums[it]) for it in self._left}
        is_drawn = self._is_nominated or len(self._left) == 1
        if node not in totals or (not is_drawn and totals[node] < max(totals.values())):
            self.problems.append(f"{name} is placed on {node}, of {totals}")
        elif not is_drawn:
            self._check_tie(name, node, totals)
            assert attempt.rows is not None
            assert attempt.total is not None
            names = [attempt.snapshot.nodes.names[row] for row in attempt.rows.tolist()]
            actual = dict(zip(names, attempt.total.tolist(), strict=True))
            if actual != totals:
                self.problems.append(f"{name} has the totals {actual}, not {totals}")

    def _check_tie(self, name: str, node: str, totals: dict[str, int]) -> None:
        """Checks that a tie is drawn among the nodes that some extender has scored, if any."""
        tied = [it for it in totals if totals[it] == max(totals.values())]
        is_all = any(not play.has_prioritize for play in self._order)
        drawn = tied if is_all else [it for it in tied if it in self._scored]
        self.paths["drawn"] += 0 < len(drawn) < len(tied)
        if drawn and node != (drawn[-1] if self._share else drawn[0]):
            self.problems.append(f"{name} is placed on {node}; a draw is among {drawn} of {tied}")

    def _check_diagnosis(self, name: str, diagnosis: Diagnosis) -> None:
        self.paths["rejected"] += 1
        if self._left:
            self.problems.append(f"{name} has no node, but {self._left} are left")
        nodes = self._harness.cache.nodes
        helped = {nodes.names[row] for row in diagnosis.rows_of(Code.UNSCHEDULABLE, nodes).tolist()}
        expected = {node for node, (is_resolvable, _) in self._rejections.items() if is_resolvable}
        if helped != expected:
            self.problems.append(f"{name} may preempt on {sorted(helped)}, not {sorted(expected)}")
        for node, (is_resolvable, reason) in self._rejections.items():
            status = diagnosis.status_of(node)
            code = Code.UNSCHEDULABLE if is_resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            if status is None or (status.code, status.message) != (code, reason):
                self.problems.append(f"{name} has on {node} the status {status}, not {reason!r}")
        reasons = Counter(reason for _, reason in self._rejections.values())
        if diagnosis.reasons != reasons:
            self.problems.append(f"{name} has the reasons {diagnosis.reasons}, not {reasons}")
        # The nodes that the plugin left were rejected by extenders.
        plugins = {"Extender"} if len(self._plugin.rejections) < len(NODES) else set()
        plugins |= {self._plugin.name} if self._plugin.rejections else set()
        if diagnosis.unschedulable_plugins != plugins:
            by = diagnosis.unschedulable_plugins
            self.problems.append(f"{name} was rejected by {by}, not {plugins}")

    # -- the extenders ----------------------------------------------------------------------------

    async def post(self, play: Play, verb: str, body: bytes) -> bytes:
        """Handles a call, with at most one fault."""
        rng, arguments = self.rng, json.loads(body)
        names = arguments["NodeNames"] if play.is_capable else _names_in(arguments["Nodes"])
        kind = rng.choice(("lost", "nonsense")) if rng.random() < self._fault_rate else ""
        if verb == "filter":
            self._begin_all()
            if not self._due or self._due.pop(0) is not play:
                self.problems.append("an extender is called out of turn")
        if names != self._left:
            self.problems.append(f"{verb} gets {names}, not {self._left}")
        self.paths[f"{verb} {kind}"] += 1
        if kind and verb == "filter":
            self._fail(play)
        if kind == "lost":
            raise NoResponse("no response")
        if kind:
            return rng.choice(NONSENSE)
        return self._filter(play, names) if verb == "filter" else self._prioritize(play, names)

    def _fail(self, play: Play) -> None:
        """Ends the attempt, unless the extender is ignorable, or only one node was sent."""
        if play.is_ignorable:
            return
        if self._is_nominated:
            self._left = []
        else:
            self._is_error, self._due = True, []

    def _filter(self, play: Play, names: Sequence[str]) -> bytes:
        rng = self.rng
        accepted = [name for name in names if rng.random() < self._accepting]
        if rng.random() < 0.3:
            rng.shuffle(accepted)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for name in (*names, "nowhere"):
            is_wrong = name in accepted or name == "nowhere"
            if rng.random() < (0.05 if is_wrong else 0.4):
                failed[name] = rng.choice(MESSAGES)
            if rng.random() < (0.05 if is_wrong else 0.3):
                unresolvable[name] = rng.choice(MESSAGES)
        if self._silent is not None:
            failed = {name: self._silent.choice(("", it)) for name, it in failed.items()}
        for messages, is_resolvable in ((failed, True), (unresolvable, False)):
            for name in [name for name in messages if name in names]:
                self._rejections[name] = is_resolvable, messages[name]
        self._left = accepted
        body: dict[str, Any] = {"FailedNodes": failed, "FailedAndUnresolvableNodes": unresolvable}
        for field in [field for field, messages in body.items() if not messages]:
            if rng.random() < 0.5:
                del body[field]
        if play.is_capable and rng.random() < 0.8:
            body["NodeNames"] = accepted
        else:
            body["Nodes"] = {"items": [{"metadata": {"name": name}} for name in accepted]}
        return json.dumps(body).encode()

    def _prioritize(self, play: Play, names: Sequence[str]) -> bytes:
        rng = self.rng
        listed = [(name, rng.choice(self._scores)) for name in names if rng.random() < 0.8]
        if listed and rng.random() < 0.2:
            listed.append((listed[0][0], rng.choice(self._scores)))
        for name, score in listed:
            self._sums[name] = as_int64(self._sums[name] + score * play.weight)
            self._scored.add(name)
        return json.dumps([{"Host": name, "Score": score} for name, score in listed]).encode()


def _names_in(nodes: Any) -> list[str]:
    return [node["metadata"]["name"] for node in nodes["items"]]


async def _whole_pod(info: PodInfo) -> bytes:
    return json.dumps({"metadata": {"uid": info.uid}}).encode()


async def _whole_nodes(names: Sequence[str]) -> dict[str, bytes]:
    return {name: json.dumps({"metadata": {"name": name}}).encode() for name in names}


def run_filter_extender(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod gets another node, or other reasons, than by the rules.
    """
    run = FilterExtenderRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
