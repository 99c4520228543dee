"""The checkers: each invariant is violated once by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.apiserver import ApiServer
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.objects import Node, Pod
from mooring.scheduler.service import Service, ServiceOptions
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.faults.harness.checkers import SCHEDULER, Bound, Decisions, Findings, StoreChecker
from tests.faults.harness.reference_fit import blocking_taint, fit_error, overcommitted, requests_of
from tests.faults.harness.scheduler_checker import (
    SchedulerChecker,
    cache_problems,
    leaks,
    queue_problems,
)
from tests.faults.harness.trace import InvariantBroken, Trace
from tests.helpers.virtual_loop import run_virtually

PODS = "/api/v1/namespaces/default/pods"


class Scene:
    """An API server, its clients and the checker of its writes."""

    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.rng = seeded_random(1)
        self.findings = Findings(Trace())
        self.decisions = Decisions()
        self.api = ApiServer(self.clock, self.rng)
        self.store = StoreChecker(self.api, self.findings, self.decisions)
        self.user = self.client("user")
        self.scheduler = self.client(SCHEDULER)

    def client(self, actor: str) -> Client:
        return Client(InProcessTransport(self.store.handler(actor)), rng=self.rng)

    @property
    def rules(self) -> list[str]:
        return [violation.rule for violation in self.findings.violations]

    async def node(self, name: str = "a", **allocatable: str) -> None:
        amounts = {"cpu": "1", "memory": "1Gi", "pods": "3", **allocatable}
        await self.post("/api/v1/nodes", name, status={"allocatable": amounts, "capacity": amounts})

    async def pod(self, name: str, **spec: Any) -> Pod:
        resources = {"requests": {"cpu": "400m"}}
        container = {"name": "c", "image": "i", "resources": resources}
        await self.post(PODS, name, spec={"containers": [container], **spec})
        pod: Pod = await self.user.get("Pod", name, "default")
        return pod

    async def post(self, path: str, name: str, **parts: Any) -> None:
        import msgspec

        kind = "Pod" if path == PODS else "Node"
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **parts}
        await self.user.write("POST", path, msgspec.json.encode(body))


def on_scene(work: Callable[[Scene], Awaitable[None]]) -> Scene:
    async def run() -> Scene:
        scene = Scene()
        await work(scene)
        scene.store.close()
        return scene

    return run_virtually(run())


def test_a_decided_binding_is_allowed() -> None:
    async def work(scene: Scene) -> None:
        await scene.node()
        pod = await scene.pod("p")
        scene.decisions.note(pod.metadata.uid, "a")
        await scene.scheduler.bind(pod, "a")

    scene = on_scene(work)
    assert scene.rules == []
    assert list(scene.store.bindings.values()) == [Bound(SCHEDULER, "a")]
    assert scene.store.pending() == []
    assert any("node=a by=scheduler" in line for line in scene.findings.trace.lines)


def test_s1_a_pod_on_a_node_that_was_not_chosen_for_it() -> None:
    async def work(scene: Scene) -> None:
        await scene.node("a")
        await scene.node("b")
        pod = await scene.pod("p")
        scene.decisions.note(pod.metadata.uid, "a")
        await scene.scheduler.bind(pod, "b")

    assert on_scene(work).rules == ["S1"]


def test_s2_one_pod_too_many() -> None:
    async def work(scene: Scene) -> None:
        await scene.node()
        for name in ("p", "q", "r"):
            assert scene.rules == []
            pod = await scene.pod(name)
            scene.decisions.note(pod.metadata.uid, "a")
            await scene.scheduler.bind(pod, "a")

    scene = on_scene(work)
    assert scene.rules == ["S2"]
    assert "cpu: 1200 of 1000" in scene.findings.violations[0].message


def test_s2_is_not_checked_where_others_bind_or_nodes_shrink() -> None:
    async def work(scene: Scene) -> None:
        await scene.node("a")
        await scene.node("b")
        await scene.user.bind(await scene.pod("theirs"), "a")
        less = {"allocatable": {"cpu": "500m"}, "capacity": {"cpu": "500m"}}
        await scene.user.patch("Node", "b", {"status": less}, subresource="status")
        for name, node in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b")):
            pod = await scene.pod(name)
            scene.decisions.note(pod.metadata.uid, node)
            await scene.scheduler.bind(pod, node)

    scene = on_scene(work)
    assert scene.rules == []
    assert list(scene.store.exempt) == ["a", "b"]


def test_s7_a_pod_of_another_scheduler() -> None:
    async def work(scene: Scene) -> None:
        await scene.node()
        pod = await scene.pod("p", schedulerName="theirs")
        scene.decisions.note(pod.metadata.uid, "a")
        await scene.scheduler.bind(pod, "a")

    assert on_scene(work).rules == ["S7"]


def test_raise_first_raises_the_first_violation() -> None:
    async def work(scene: Scene) -> None:
        scene.findings.raise_first()
        scene.findings.report("S0", "violated")
        with pytest.raises(InvariantBroken, match=r"S0 at 0\.000 s: violated"):
            scene.findings.raise_first()

    on_scene(work)


def test_two_traces_are_equal_only_line_by_line() -> None:
    traces = [Trace(), Trace(), Trace()]
    for trace, words in zip(traces, ("ab", "ab", "ba"), strict=True):
        for word in words:
            trace.add(1.0, word)

    assert traces[0].digest == traces[1].digest != traces[2].digest
    assert len(traces[0]) == 2


# -- the scheduler's side ------------------------------------------------------------------------


def with_service(break_it: Callable[[Service, Pod], None]) -> tuple[list[str], list[str]]:
    """Returns violations of L1 and S3 after ``break_it``, with a bound and an unschedulable pod."""

    async def run() -> tuple[list[str], list[str]]:
        scene = Scene()
        checker = SchedulerChecker(scene.findings, scene.decisions)
        options = ServiceOptions(observer=checker)
        service = Service(scene.scheduler, clock=scene.clock, rng=scene.rng, options=options)
        checker.service = service
        await scene.node(pods="1")
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(service.run())
            await scene.pod("bound")
            await asyncio.sleep(5)
            await scene.pod("pending")
            await asyncio.sleep(5)
            checker.on_step()
            assert list(leaks(service)) == []
            break_it(service, service.informers["Pod"].objects["default/pending"])
            problems = list(queue_problems(service)), list(cache_problems(service))
            service.stop()
            await work
        return problems

    return run_virtually(run())


def test_an_idle_scheduler_has_no_problems() -> None:
    assert with_service(lambda service, pod: None) == ([], [])


def test_l1_a_pod_that_is_not_queued() -> None:
    places, counts = with_service(lambda service, pod: service.queue.delete(pod.metadata.uid))

    assert len(places) == 1
    assert "default/pending" in places[0]
    assert counts == []


def test_l1_a_pod_that_is_queued_and_assumed() -> None:
    def hold(service: Service, pod: Pod) -> None:
        service.cache.assume(PodInfo(pod).on_node("a"), "a").keep()

    places, _ = with_service(hold)
    assert "queued: True, assumed: True" in places[0]


def test_l1_a_queued_pod_that_does_not_exist() -> None:
    ghost = PodInfo(make_pod("ghost"))
    places, _ = with_service(lambda service, pod: service.queue.add(ghost))

    assert places == ["default/ghost (pod-default-ghost) is queued, but does not exist"]


def test_s3_a_pod_that_is_not_counted() -> None:
    def forget(service: Service, pod: Pod) -> None:
        bound = service.informers["Pod"].objects["default/bound"]
        service.cache.remove_pod(bound.metadata.uid)

    _, counts = with_service(forget)
    assert counts == ["default/bound is on a, but counted on no node"]


def test_s3_a_counted_pod_that_does_not_exist() -> None:
    def count(service: Service, pod: Pod) -> None:
        service.cache.put_pod(make_pod("ghost", node="a"))

    _, counts = with_service(count)
    assert counts == ["default/ghost (pod-default-ghost) is counted, but does not exist"]


# -- the reference ---------------------------------------------------------------------------------

NODE = make_node("a", allocatable={"cpu": "1", "pods": "2"}, labels={"zone": "a"})


@pytest.mark.parametrize(
    ("pod", "node", "why"),
    [
        (make_pod(requests={"cpu": "1"}), NODE, ""),
        (make_pod(requests={"cpu": "1001m"}), NODE, "cpu: 0 and 1001 of 1000"),
        (make_pod(requests={"example.com/gpu": "1"}), NODE, "example.com/gpu: 0 and 1 of 0"),
        (make_pod(node_selector={"zone": "a"}), NODE, ""),
        (make_pod(node_selector={"zone": "b"}), NODE, "label zone is not b"),
        (make_pod(), make_node(unschedulable=True), "cordoned"),
        (make_pod(), make_node(taints=["k=v:NoSchedule"]), "taint k=v:NoSchedule"),
        (make_pod(), make_node(taints=["k=v:PreferNoSchedule"]), ""),
        (make_pod(tolerations=["k=v:NoSchedule"]), make_node(taints=["k=v:NoSchedule"]), ""),
        (make_pod(tolerations=["k=w:NoSchedule"]), make_node(taints=["k=v:NoSchedule"]), "taint"),
        (make_pod(tolerations=["k"]), make_node(taints=["k=v:NoExecute"]), ""),
    ],
)
def test_the_reference_check_of_one_pod(pod: Pod, node: Node, why: str) -> None:
    error = fit_error(pod, node, [])

    assert error.startswith(why) if why else not error
    assert bool(blocking_taint(pod, node)) <= bool(error)


def test_the_reference_counts_pods_and_ports() -> None:
    web = make_pod("web", requests={"cpu": "300m"}, host_ports=[80])
    other = make_pod("other", requests={"cpu": "300m"})

    assert requests_of(web) == {"pods": 1, "cpu": 300}
    assert fit_error(web, NODE, [other]) == ""
    assert fit_error(web, NODE, [web]) == "ports [('TCP', 80)] are in use"
    assert fit_error(web, NODE, [other, other]) == "pods: 2 and 1 of 2"
    # A port conflict of two other pods is irrelevant to a pod without host ports.
    assert fit_error(other, make_node(), [web, web]) == ""
    assert overcommitted(make_node(), [web, web]) == "port 80/TCP twice"
