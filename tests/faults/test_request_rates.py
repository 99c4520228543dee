"""No cause sends more than its share: requests and attempts per pod and minute, by path.

A cause is a pod whose binding, eviction or status fails; the paths of all its requests name it, or
its victim. A pod's backoff is at least a second after its first attempt and ten after its fourth,
so one that fails for ever makes at most ten attempts in its first minute, six in each later one.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from tests.faults.fault_fixture import Lab, run_in_lab, small_node, small_pod

URGENT = {"priorityClassName": "urgent"}

#: Attempts of one pod in its first minute, and in a later one.
ATTEMPTS_FIRST_MINUTE_MAX = 10
ATTEMPTS_MINUTE_MAX = 7
#: Requests of one path in a minute: one a second.
REQUESTS_MINUTE_MAX = 60


def busiest(lab: Lab, from_s: float, to_s: float) -> tuple[str, int]:
    """Returns the path with most requests in a time, watches and lists included."""
    counts = Counter(what for at_s, what in lab.transport.sent if from_s <= at_s < to_s)
    return counts.most_common(1)[0] if counts else ("", 0)


def is_evicted(lab: Lab, name: str) -> bool:
    pods = {pod.metadata.name: pod for pod in lab.store.pods.values()}
    return name not in pods or pods[name].metadata.deletion_timestamp is not None


async def with_preemptors(lab: Lab, count: int) -> None:
    """Fills the nodes with pods of low priority, and adds a pod of high priority for each."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await lab.user.write("POST", path, msgspec.json.encode(body))
    for number in range(count):
        await lab.add(small_node(f"n{number}"), small_pod(f"low{number}"))
    await lab.wait_until(lambda: all(lab.node_of(f"low{n}") for n in range(count)))


@pytest.mark.parametrize(
    "forbidden", ["DELETE /api/v1/namespaces/default/pods/low", "PATCH", "DELETE"]
)
def test_an_eviction_that_is_refused_for_ever_waits_for_the_backoff(forbidden: str) -> None:
    async def work(lab: Lab) -> None:
        async with lab.running():
            await with_preemptors(lab, 1)
            lab.transport.forbidden = (forbidden,)
            before, begun_s = lab.checker.attempts, asyncio.get_running_loop().time()
            await lab.add(small_pod("high", spec=URGENT))
            await asyncio.sleep(60)
            first = lab.checker.attempts - before
            await asyncio.sleep(60)
            second = lab.checker.attempts - before - first

            assert 3 <= first <= ATTEMPTS_FIRST_MINUTE_MAX
            assert 1 <= second <= ATTEMPTS_MINUTE_MAX
            for minute in (0, 60):
                what, most = busiest(lab, begun_s + minute, begun_s + minute + 60)
                assert most <= REQUESTS_MINUTE_MAX, what
            lab.transport.forbidden = ()
            await lab.wait_until(lambda: is_evicted(lab, "low0"), within_s=90)

    run_in_lab(work)


@pytest.mark.parametrize("preemptors", [1, 5, 20])
def test_a_server_that_is_down_is_not_stormed_by_preemptors(preemptors: int) -> None:
    async def work(lab: Lab) -> None:
        async with lab.running():
            await with_preemptors(lab, preemptors)
            for number in range(preemptors):
                await lab.add(small_pod(f"high{number}", spec=URGENT))
            # The pods are known, and nothing is evicted yet.
            begun_s, before = asyncio.get_running_loop().time(), lab.checker.attempts
            lab.network.restart(60.0)
            await asyncio.sleep(60)
            sent = [what for at_s, what in lab.transport.sent if at_s >= begun_s]

            attempts = lab.checker.attempts - before
            assert attempts <= ATTEMPTS_FIRST_MINUTE_MAX * preemptors
            what, most = busiest(lab, begun_s, begun_s + 60)
            assert most <= REQUESTS_MINUTE_MAX, what
            assert len(sent) <= 60 * (preemptors + 20), Counter(sent).most_common(5)

    run_in_lab(work)


def test_a_binding_that_is_refused_for_ever_waits_for_the_backoff() -> None:
    async def work(lab: Lab) -> None:
        async with lab.running():
            await lab.add(small_node(pods=5))
            lab.transport.forbidden = ("POST /api/v1/namespaces/default/pods/p/binding",)
            begun_s = asyncio.get_running_loop().time()
            await lab.add(small_pod("p"), small_pod("q"))
            await asyncio.sleep(60)

            assert lab.node_of("q")
            bindings = [s for s in lab.transport.times_s("pods/p/binding") if s >= begun_s]
            assert 3 <= len(bindings) <= ATTEMPTS_FIRST_MINUTE_MAX
            what, most = busiest(lab, begun_s, begun_s + 60)
            assert most <= REQUESTS_MINUTE_MAX, what

    run_in_lab(work)
