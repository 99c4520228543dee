"""The verdicts of attempts: kept as arrays, and the same as the decision has."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mooring.clock import VirtualClock
from mooring.decision import Decision, Rejection
from mooring.framework import Attempt, Diagnosis, Placement, schedule_pod
from mooring.framework.runtime.attempt_copy import AttemptCopy
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.ui.attempts import AttemptRecord
from mooring.ui.verdicts import VERDICTS_PAGE, VerdictPage, VerdictQuery, verdict_page
from mooring.ui.whole_attempts import WholeAttempts
from tests.helpers.drivers import driver
from tests.helpers.page import Page, node, page_of, pod

COMPARED = ("node", "tied", "rejected", "choice", "prefilter", "scores", "raw", "total")


def decoded(kind: type[Any], raw: dict[str, Any]) -> Any:
    raw["metadata"].setdefault("uid", raw["metadata"]["name"])
    return msgspec.convert(raw, kind)


def attempt_of(schedulers: Driver, raw: dict[str, Any]) -> tuple[Attempt, str, Decision]:
    """Returns an attempt at a pod, its node, and the decision that it makes at once."""
    snapshot = schedulers.cache.snapshot()
    attempt = Attempt(snapshot)
    framework = schedulers.frameworks["default-scheduler"]
    info = schedulers.cache.pending_info(decoded(Pod, raw))
    result = schedule_pod(framework, framework.new_cycle(info, snapshot), attempt)
    if isinstance(result, Placement):
        name = result.node_name
        return attempt, name, attempt.decision("scheduled", node=name, diagnosis=None)
    assert isinstance(result, Diagnosis)
    return attempt, "", attempt.decision("unschedulable", node=None, diagnosis=result)


PODS = {
    "scored": pod("scored"),
    "spread": pod(
        "spread",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ],
    ),
    "one node": pod("one", cpu="7"),
    "no node": pod("none", cpu="9"),
    "excluded": pod(
        "excluded",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                            ]
                        }
                    ]
                }
            }
        },
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_kept_arrays_make_the_same_decision_after_the_cluster_has_changed(name: str) -> None:
    nodes = [node(f"n{number}", cpu="8" if number == 3 else "4", zone="a") for number in range(6)]
    nodes[2]["spec"] = {"unschedulable": True}
    schedulers = driver(decoded(Node, raw) for raw in nodes)
    attempt, selected, decision = attempt_of(schedulers, PODS[name])
    whole = AttemptCopy(attempt, selected, list(schedulers.nodes.names), {})

    for number in range(3):
        other = decoded(Pod, pod(f"other-{number}"))
        schedulers.apply(schedulers.attempt(other))
    schedulers.remove("Node", "", "n4")

    for field in COMPARED:
        assert getattr(whole.decision(), field) == getattr(decision, field), field


def test_scores_below_zero_are_copied_as_they_are() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    objects = [
        decoded(Node, node(f"n{number}", zone=zone)) for number, zone in ((1, "a"), (2, "b"))
    ]
    for number in range(2):
        placed = pod(f"placed-{number}", nodeName="n1")
        placed["metadata"]["labels"] = {"app": "x"}
        objects.append(decoded(Pod, placed))
    attempt, selected, decision = attempt_of(driver(objects), pod("far", affinity=affinity))
    assert decision.raw is not None
    assert decision.raw["InterPodAffinity"] == {"n1": -200, "n2": 0}

    copied = AttemptCopy(attempt, selected, ["n1", "n2"], {}).decision()

    assert copied.raw == decision.raw


def test_only_the_latest_attempts_are_whole() -> None:
    schedulers = driver([decoded(Node, node("n1")), decoded(Node, node("n2"))])
    attempts, weights = WholeAttempts(VirtualClock(), limit=2), {"NodeAffinity": 2}
    for number in (1, 2, 3):
        attempt, selected, _ = attempt_of(schedulers, pod(f"p{number}"))
        attempts.add(number, attempt, selected, weights)

    assert [number in attempts for number in (1, 2, 3)] == [False, True, True]
    kept = attempts.get(3)
    assert kept is not None
    assert kept.weights == {"NodeAffinity": 2}
    assert 0 < kept.size_bytes < 2_000
    assert attempts.get(1) is None


def test_copies_wait_while_they_take_too_much_of_the_time() -> None:
    class Slow(VirtualClock):
        """A clock on which every look takes a millisecond."""

        def monotonic_s(self) -> float:
            self.advance(0.001)
            return super().monotonic_s()

    schedulers = driver([decoded(Node, node("n1"))])
    attempts = WholeAttempts(Slow())
    for number in range(1, 201):
        attempt, selected, _ = attempt_of(schedulers, pod(f"p{number}"))
        attempts.add(number, attempt, selected, {})

    assert [number for number in range(1, 201) if number in attempts] == [1, 101]


DECISION = Decision(
    result="scheduled",
    node="b",
    tied=("b",),
    rejected={
        "d": Rejection("NodeAffinity", "Unschedulable", ("wrong zone",)),
        "e": Rejection("Fit", "Unschedulable", ("Insufficient cpu",)),
    },
    unschedulable_plugins=(),
    pending_plugins=(),
    raw={"Fit": {"a": 7, "b": 5, "c": 6}, "Spread": {"a": 0, "b": 9, "c": 9}},
    scores={"Fit": {"a": 70, "b": 50, "c": 60}, "Spread": {"a": 100, "b": 0, "c": 0}},
    total={"a": 70, "b": 150, "c": 60},
)
RECORD = AttemptRecord(1, "default/p", "u", 0.0, "scheduled")


def asked(**words: Any) -> VerdictPage:
    return verdict_page(RECORD, DECISION, {"Spread": 2}, VerdictQuery(**words))


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        ({}, "bacde"),
        ({"is_descending": False}, "decab"),
        ({"sort": "node", "is_descending": False}, "abcde"),
        ({"sort": "node"}, "edcba"),
        ({"sort": "Fit"}, "acbde"),
        ({"sort": "Fit", "kind": "raw", "is_descending": False}, "debca"),
        ({"sort": "rejection"}, "deabc"),
        ({"plugin": "Fit"}, "bace"),
        ({"plugin": "NodeAffinity"}, "d"),
        ({"text": "CPU"}, "e"),
        ({"text": "nothing"}, ""),
        ({"offset": 3}, "de"),
    ],
)
def test_verdicts_are_sorted_and_filtered(words: dict[str, Any], nodes: str) -> None:
    assert "".join(row.node for row in asked(**words).nodes) == nodes


def test_a_page_has_scores_weights_and_reasons() -> None:
    page = asked()
    assert (page.plugins, page.weights, page.rejecting) == (
        ["Fit", "Spread"],
        [1, 2],
        ["Fit", "NodeAffinity"],
    )
    best, *_, last = page.nodes
    assert (best.total, best.raw, best.scores) == (150, [5, 9], [50, 0])
    assert (last.plugin, last.reasons, last.total) == ("Fit", ("Insufficient cpu",), None)
    many = msgspec.structs.replace(DECISION, node=None, total={f"n{i:03}": i for i in range(500)})
    page = verdict_page(RECORD, many, {}, VerdictQuery(offset=400))
    assert (page.count, len(page.nodes), page.nodes[0].node) == (502, 102, "n099")
    assert len(verdict_page(RECORD, many, {}, VerdictQuery()).nodes) == VERDICTS_PAGE


def test_the_server_keeps_verdicts_only_while_a_page_looks() -> None:
    async def test(page: Page) -> None:
        (before,) = await page.get("attempts?q=default/early")
        assert "isWhole" not in before
        async with page.http.get(f"{page.root}/api/v1/attempts/{before['number']}") as reply:
            assert reply.status == 410
            assert "are not kept" in (await reply.json())["message"]
        state = await page.get("state")
        words = f"generation={state['generation']}&attempt={state['attempt']}"
        stream = f"stream?{words}&resource=cpu&resource=memory"
        async with page.http.get(f"{page.root}/api/v1/{stream}") as reply:
            await reply.content.readline()
            await page.post("apply", {"text": msgspec.json.encode(pod("late")).decode()})
            await page.cluster.settle()
            (after,) = await page.get("attempts?q=default/late")
        verdicts = await page.get(f"attempts/{after['number']}?sort=node&order=ascending")
        assert [row["node"] for row in verdicts["nodes"]] == ["n1", "n2"]
        assert (
            dict(zip(verdicts["plugins"], verdicts["weights"], strict=True))["TaintToleration"] == 3
        )
        for path, status in (
            ("attempts/99", 404),
            ("attempts/x", 400),
            ("attempts/2?offset=-1", 400),
        ):
            async with page.http.get(f"{page.root}/api/v1/{path}") as reply:
                assert reply.status == status, path

    async def run() -> None:
        async with page_of([node("n1"), node("n2"), pod("early")]) as page:
            await page.open()
            await test(page)

    asyncio.run(run())
