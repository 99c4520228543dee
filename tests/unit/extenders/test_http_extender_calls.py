"""One extender of the configuration: which document each call sends, its verb, limit and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.config import Extender
from mooring.errors import ExtenderError
from mooring.extenders import ExtenderMetrics, HTTPExtender
from mooring.extenders.http import NoResponse
from mooring.framework.status import Candidate
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually
from tests.unit.extenders.test_full_objects import WEB, Cluster, document, pod

NAMES, OBJECTS = 16 << 20, 128 << 20


class Calls:
    """An extender that records its calls, and takes ``wait_s`` for each."""

    def __init__(self, cluster: Cluster, *, fence_s: float = 60.0, **parts: Any) -> None:
        self.calls: list[tuple[str, Any, int]] = []
        self.response: Any = {}
        self.failures: list[NoResponse] = []
        self.wait_s = 0.0
        self.metrics = ExtenderMetrics()
        verbs = {
            f"{verb}_verb": f"my{verb}" for verb in ("filter", "prioritize", "preempt", "bind")
        }
        rng, clock = seeded_random(0), LoopClock(asyncio.get_running_loop())
        transport = InProcessTransport(cluster._handle)
        client = Client(transport, rng=rng, fence=lambda: fence_s, sleep=asyncio.sleep)
        self.extender = HTTPExtender(
            Extender(url_prefix="http://me:pw@one", **verbs, **parts),  # type: ignore[arg-type]
            self._post,
            cluster.cache,
            client=client,
            clock=clock,
            metrics=self.metrics,
        )

    def counted(self) -> dict[str, tuple[float, float, float]]:
        """Returns calls, failures and seconds by verb, without verbs that were not called."""
        value = self.metrics.registry.get_sample_value
        seconds, errors = "scheduler_extender_call_duration_seconds", "scheduler_extender_call"
        counted = {}
        for verb in ("filter", "prioritize", "preempt", "bind"):
            labels = {"extender": "http://me:***@one", "verb": verb}
            if count := value(f"{seconds}_count", labels):
                failed, sum_s = (
                    value(f"{errors}_errors_total", labels),
                    value(f"{seconds}_sum", labels),
                )
                assert failed is not None
                assert sum_s is not None
                counted[verb] = (count, failed, sum_s)
        return counted

    async def _post(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        self.calls.append((verb, json.loads(body), bytes_max))
        await asyncio.sleep(self.wait_s)
        if self.failures:
            raise self.failures.pop(0)
        return json.dumps(self.response).encode()


def cluster_with_nodes() -> Cluster:
    cluster = Cluster()
    cluster.observe(document("web"))
    for name in "ab":
        cluster.observe({"kind": "Node", "metadata": {"name": name, "uid": name}})
    return cluster


def candidates() -> list[Candidate]:
    return [Candidate("a", (pod("x"), pod("gone"), pod("y")), 2), Candidate("b", (), 0)]


@pytest.mark.parametrize(("is_capable", "limit"), [(True, NAMES), (False, OBJECTS)])
@virtually
async def test_nodes_are_sent_by_name_or_whole(is_capable: bool, limit: int) -> None:
    calls = Calls(cluster_with_nodes(), node_cache_capable=is_capable)
    calls.response = {"NodeNames": ["b"], "Nodes": {"items": [{"metadata": {"name": "a"}}]}}
    result = await calls.extender.filter(pod("web"), ["a", "b"])
    assert list(result.names) == (["b"] if is_capable else ["a"])
    calls.response = [{"Host": "a", "Score": 3}]
    scores = await calls.extender.prioritize(pod("web"), ["b", "a"])
    assert [list(column) for column in scores] == [["a"], [3]]
    assert [(verb, most) for verb, _, most in calls.calls] == [
        ("myfilter", limit),
        ("myprioritize", NAMES),
    ]
    for (_, body, _), names in zip(calls.calls, (["a", "b"], ["b", "a"]), strict=True):
        assert body["Pod"]["metadata"]["uid"] == "uid-web"
        if is_capable:
            assert (body["NodeNames"], body["Nodes"]) == (names, None)
        else:
            items = body["Nodes"]["items"]
            assert [item["metadata"]["name"] for item in items] == names
            assert body["NodeNames"] is None


@virtually
async def test_other_names_are_other_names() -> None:
    calls = Calls(cluster_with_nodes(), node_cache_capable=True)
    names = ["a", "b"]
    for listed in (names, names, ["b"], names):
        await calls.extender.filter(pod("web"), listed)
    assert [body["NodeNames"] for _, body, _ in calls.calls] == [names, names, ["b"], names]


@virtually
async def test_victims_are_sent_by_uid() -> None:
    cluster = cluster_with_nodes()
    calls = Calls(cluster, node_cache_capable=True)
    calls.response = {"NodeNameToMetaVictims": {"b": {"NumPDBViolations": 1}}}
    victims = await calls.extender.preempt(pod("web"), candidates())
    assert [(node, it.uids, it.violations) for node, it in victims.items()] == [("b", (), 1)]
    [(verb, body, most)] = calls.calls
    assert (verb, most) == ("mypreempt", NAMES)
    assert body["NodeNameToVictims"] is None
    assert body["NodeNameToMetaVictims"] == {
        "a": {
            "Pods": [{"UID": "uid-x"}, {"UID": "uid-gone"}, {"UID": "uid-y"}],
            "NumPDBViolations": 2,
        },
        "b": {"Pods": [], "NumPDBViolations": 0},
    }
    assert cluster.paths == []


@virtually
async def test_victims_are_sent_whole_without_those_that_were_deleted() -> None:
    cluster = cluster_with_nodes()
    for name in "xy":
        cluster.stored[WEB.replace("web", name)] = document(name)
    calls = Calls(cluster)
    await calls.extender.preempt(pod("web"), candidates())
    [(verb, body, most)] = calls.calls
    assert (verb, most) == ("mypreempt", NAMES)
    assert body["NodeNameToMetaVictims"] is None
    by_node = {
        node: ([it["metadata"]["uid"] for it in victims["Pods"]], victims["NumPDBViolations"])
        for node, victims in body["NodeNameToVictims"].items()
    }
    assert by_node == {"a": (["uid-x", "uid-y"], 2), "b": ([], 0)}


@virtually
async def test_a_binding_names_pod_and_node() -> None:
    calls = Calls(cluster_with_nodes())
    await calls.extender.bind(pod("web"), "a")
    names = {"PodName": "web", "PodNamespace": "shop", "PodUID": "uid-web", "Node": "a"}
    assert calls.calls == [("mybind", names, NAMES)]


@pytest.mark.parametrize(
    ("fence_s", "timeout_s", "expected_s"),
    [(2.0, 7.0, 2.0), (7.0, 3.0, 100.0), (4.0, 0.0, 4.0), (2.0, 0.5, 100.0)],
)
@virtually
async def test_a_binding_lasts_no_longer_than_the_lease(
    fence_s: float, timeout_s: float, expected_s: float
) -> None:
    """Its transport has the timeout of the configuration; here it has none."""
    cluster = cluster_with_nodes()
    cluster.stored[WEB] = document("web", spec={"nodeName": "b"})
    calls = Calls(cluster, fence_s=fence_s, http_timeout_s=timeout_s)
    calls.wait_s = 100.0
    loop = asyncio.get_running_loop()
    if expected_s == 100.0:
        await calls.extender.bind(pod("web"), "a")
    else:
        with pytest.raises(
            ExtenderError, match="pod shop/web is bound to node b already"
        ) as caught:
            await calls.extender.bind(pod("web"), "a")
        text = f'extender "http://me:***@one": no answer to mybind in {expected_s:g} s'
        assert str(caught.value.__context__) == text
    assert loop.time() == expected_s


async def call(extender: HTTPExtender, verb: str) -> None:
    """Sends a call of this verb, whatever its result."""
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "filter": lambda: extender.filter(pod("web"), ["a"]),
        "prioritize": lambda: extender.prioritize(pod("web"), ["a"]),
        "preempt": lambda: extender.preempt(pod("web"), candidates()),
        "bind": lambda: extender.bind(pod("web"), "a"),
    }
    await calls[verb]()


VERBS = ["filter", "prioritize", "preempt", "bind"]
CUT_OFF = NoResponse("cut off", is_cut_off=True)


@pytest.mark.parametrize("verb", VERBS)
@virtually
async def test_a_call_that_was_cut_off_is_repeated_once_but_no_binding_is(verb: str) -> None:
    cluster = cluster_with_nodes()
    cluster.stored[WEB] = document("web", spec={"nodeName": "a"})
    calls = Calls(cluster, node_cache_capable=True)
    calls.response = [] if verb == "prioritize" else {}
    calls.failures = [CUT_OFF]
    await call(calls.extender, verb)
    is_repeated = verb != "bind"
    assert [sent for sent, _, _ in calls.calls] == [f"my{verb}"] * (1 + is_repeated)
    assert cluster.paths == ([] if is_repeated else [WEB])
    if is_repeated:
        assert calls.calls[0] == calls.calls[1]
        calls.failures = [CUT_OFF] * 2
        with pytest.raises(NoResponse, match="cut off"):
            await call(calls.extender, verb)


@pytest.mark.parametrize("verb", VERBS)
@virtually
async def test_calls_are_counted_and_measured_by_verb(verb: str) -> None:
    cluster = cluster_with_nodes()
    cluster.stored[WEB] = document("web")
    calls = Calls(cluster, node_cache_capable=True)
    calls.wait_s = 0.5
    responses: list[Any] = [[] if verb == "prioritize" else {}, "no object"]
    for response in responses:
        calls.response = response
        with suppress(ExtenderError):
            await call(calls.extender, verb)
    assert calls.counted() == {verb: (2, 1, 1.0)}


@virtually
async def test_a_binding_without_an_answer_that_was_done_is_no_failure_and_takes_its_time() -> None:
    cluster = cluster_with_nodes()
    cluster.stored[WEB] = document("web", spec={"nodeName": "a"})
    cluster.delay_s = 2.0
    calls = Calls(cluster)
    calls.failures = [NoResponse("no answer")]
    await calls.extender.bind(pod("web"), "a")
    assert calls.counted() == {"bind": (1, 0, 2.0)}


@virtually
async def test_a_refused_binding_is_read_once_if_the_pod_is_not_bound() -> None:
    cluster = cluster_with_nodes()
    cluster.stored[WEB] = document("web")
    calls = Calls(cluster)
    calls.response = {"Error": "not today"}
    with pytest.raises(ExtenderError, match="not today"):
        await calls.extender.bind(pod("web"), "a")
    assert cluster.paths == [WEB]


def test_what_is_configured() -> None:
    @virtually
    async def check() -> None:
        extender = Calls(Cluster(), weight=7, ignorable=True).extender
        assert (extender.name, extender.weight) == ("http://me:***@one", 7)
        assert extender.is_ignorable
        flags = (extender.has_filter, extender.has_prioritize)
        assert (*flags, extender.has_preempt, extender.has_bind) == (True,) * 4

    check()
