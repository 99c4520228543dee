"""The changes of a scenario, and its cleanup of only its own objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client import Request
from mooring.client.transport.transport import Response
from mooring.errors import ConfigError, Forbidden
from mooring.learn.filtered_transport import FilteredTransport
from mooring.learn.scenario_runner import ACCOUNT_TRIES, ScenarioRunner
from mooring.testing import make_node
from tests.helpers.lesson_fixture import Lab, in_lab

NO_ACCOUNT = 'error looking up service account default/default: serviceaccount "default" not found'


async def names(found: Lab, kind: str) -> list[str]:
    return [each.metadata.name for each in (await found.client.list(kind)).items]


def test_what_was_created_is_deleted_and_nothing_else() -> None:
    async def play(found: Lab) -> None:
        await found.client.create(make_node("theirs"))
        await found.runner.nodes([10, 11])
        await found.runner.pods("pod1", "pod2")
        await found.runner.until_bound("pod1", "pod2")
        await found.client.delete("Pod", "pod2", "default", grace_period_s=0)  # by another client

        await found.runner.clean_up()

        assert await names(found, "Node") == ["theirs"]
        assert await names(found, "Pod") == []

    in_lab(1, play)


def test_a_node_that_is_there_already_is_not_ours() -> None:
    async def play(found: Lab) -> None:
        await found.client.create(make_node("node1"))
        with pytest.raises(ConfigError, match=r"Node: exists already.*got 'node1'"):
            await found.runner.nodes(range(3))
        assert await names(found, "Node") == ["node0", "node1"]

        await found.runner.clean_up()

        assert await names(found, "Node") == ["node1"]

    in_lab(1, play)


def refusing(times: int, message: str) -> Any:
    """Refuses to create pods so many times."""
    left = [times]

    def fault(method: str, path: str) -> Any:
        if method != "POST" or not path.endswith("/pods") or not left[0]:
            return None
        left[0] -= 1
        return 403, {}, b'{"kind": "Status", "message": "%s"}' % message.replace('"', "'").encode()

    return fault


def stage_of_scheduler(found: Lab) -> ScenarioRunner:
    """Returns a stage whose requests go the scheduler's way, where the faults are."""
    return ScenarioRunner(
        found.own_client,
        found.scheduler,
        found.event_log,
        namespace="default",
        scheduler_name="default-scheduler",
        labels={},
        on_say=lambda _time_s, _text: None,
    )


def test_the_account_of_a_new_namespace_is_waited_for() -> None:
    async def play(found: Lab) -> list[str]:
        await stage_of_scheduler(found).pods("pod1")
        return await names(found, "Pod")

    assert in_lab(1, play, fault=refusing(3, NO_ACCOUNT)) == ["pod1"]


@pytest.mark.parametrize(("times", "message"), [(ACCOUNT_TRIES, NO_ACCOUNT), (1, "not you")])
def test_other_refusals_and_endless_ones_are_final(times: int, message: str) -> None:
    async def play(found: Lab) -> None:
        runner = stage_of_scheduler(found)
        with pytest.raises(Forbidden, match=message.replace('"', "'")):
            await runner.pods("pod1")
        await runner.clean_up()
        assert await names(found, "Pod") == []

    in_lab(1, play, fault=refusing(times, message))


def test_a_pod_that_never_gets_there_is_a_complaint() -> None:
    async def play(found: Lab) -> None:
        await found.runner.until_bound("nobody")
        assert found.runner.failures == ["nobody must become bound, but did not"]

    in_lab(1, play)


@pytest.mark.parametrize(
    ("allowed", "failure"),
    [
        (["node10"], None),
        (["node1", "node10"], None),
        (["node1"], "pod1 must be on node1 after 0.0 s, not on 'node10'"),
        ([], "pod1 must be without a node after 0.0 s, not on 'node10'"),
    ],
)
def test_where_a_pod_must_be_is_checked(allowed: list[str], failure: str | None) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([10])
        await found.runner.pods("pod1")
        await found.runner.until_bound("pod1")
        found.runner.check_bound("pod1", allowed)
        assert found.runner.failures == ([failure] if failure else [])

    in_lab(1, play)


# ---- what a lesson's scheduler sees of a cluster of others ----


class Recording:
    """A transport that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.is_closed = False

    async def request(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(200, {}, b"{}")

    def stream(self, request: Request, *, idle_s: float) -> Any:
        self.asked.append(request)

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("method", "path", "query", "expected_path", "expected_query"),
    [
        ("GET", "/api/v1/pods", [], "/api/v1/namespaces/own/pods", []),
        ("GET", "/api/v1/nodes", [], "/api/v1/nodes", [("labelSelector", "a=b")]),
        (
            "GET",
            "/api/v1/nodes",
            [("limit", "5")],
            "/api/v1/nodes",
            [("limit", "5"), ("labelSelector", "a=b")],
        ),
        ("GET", "/api/v1/nodes/n", [], "/api/v1/nodes/n", []),
        ("POST", "/api/v1/nodes", [], "/api/v1/nodes", []),
    ],
)
def test_only_the_lessons_nodes_and_pods_are_listed_and_watched(
    method: str,
    path: str,
    query: list[tuple[str, str]],
    expected_path: str,
    expected_query: list[tuple[str, str]],
) -> None:
    inner = Recording()
    own = FilteredTransport(inner, "own", "a=b")
    request = Request(method, path, deadline_s=1.0, query=query)

    asyncio.run(own.request(request))
    own.stream(request, idle_s=1.0)
    asyncio.run(own.close())

    expected = request._replace(path=expected_path, query=expected_query)
    assert [each._replace(query=list(each.query)) for each in inner.asked] == [expected] * 2
    assert not inner.is_closed  # its owner closes it
