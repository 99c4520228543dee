"""One extender of the configuration: whom it wants to see, and what becomes of its bindings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import VirtualClock, seeded_random
from mooring.config import Extender
from mooring.config.types import ExtenderManagedResource
from mooring.errors import ExtenderError, LeaseLost
from mooring.extenders import FullObjectCache, HTTPExtender
from mooring.extenders.http import NoResponse
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.helpers.running_scheduler import virtually

WEB = make_pod("web")
UID = WEB.metadata.uid


def pod_json(node: str = "", uid: str = UID) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", "uid": uid, "managedFields": [{}]},
        "spec": {"nodeName": node, "hostname": "h"},
        "status": {},
    }


class Server:
    """Answers GETs of the pod with one version after another; the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.gets = 0
        #: Of the extender that reads the pod.
        self.clock = VirtualClock()

    async def handle(self, method: str, path: str, *_: Any) -> tuple[int, dict[str, str], bytes]:
        assert (method, path) == ("GET", "/api/v1/namespaces/default/pods/web")
        self.gets += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, int):
            status = {"kind": "Status", "code": found, "reason": "NotFound", "message": "gone"}
            return found, {}, json.dumps(status).encode()
        return 200, {}, json.dumps(found).encode()


class Clock(VirtualClock):
    """A clock that advances with each sleep."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


def extender(
    server: Server, post: Any, *, fence: Callable[[], float] = lambda: 10.0, **parts: Any
) -> HTTPExtender:
    clock, rng = Clock(), seeded_random(0)
    server.clock = clock
    transport = InProcessTransport(server.handle)
    client = Client(transport, rng=rng, fence=fence, sleep=clock.sleep)
    whole = FullObjectCache(client, clock=clock, rng=rng, sleep=clock.sleep, with_nodes=False)
    config = Extender(
        url_prefix="http://x", bind_verb="bind", filter_verb="filter", node_cache_capable=True,
        **parts,
    )  # fmt: skip
    return HTTPExtender(config, post, whole, client=client, clock=clock, sleep=clock.sleep)


def says(*answers: Any) -> Any:
    """Returns a way to an extender with these answers."""
    waiting = iter(answers)

    async def post(verb: str, body: bytes, bytes_max: int) -> bytes:
        answer = next(waiting)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    return post


# ---- whom it wants to see ----


def test_without_resources_of_its_own_it_wants_to_see_all_pods() -> None:
    assert extender(Server(404), says()).is_interested(PodInfo(WEB))


@pytest.mark.parametrize("where", ["requests", "limits"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_otherwise_those_that_ask_for_one_of_them(where: str, kind: str) -> None:
    managed = (ExtenderManagedResource(name="example.com/chip"),)
    judge = extender(Server(404), says(), managed_resources=managed)
    assert not judge.is_interested(PodInfo(make_pod("other", requests={"cpu": "1"})))
    wants = {"name": "c", "resources": {where: {"example.com/chip": "0"}}}
    spec = {kind: [wants], **({"containers": [{"name": "d"}]} if kind != "containers" else {})}
    assert judge.is_interested(PodInfo(make_pod("chip", spec=spec)))


def test_any_of_its_resources_in_any_container_is_enough() -> None:
    managed = tuple(ExtenderManagedResource(name=f"example.com/{name}") for name in ("a", "b"))
    judge = extender(Server(404), says(), managed_resources=managed)
    second = {"name": "d", "resources": {"requests": {"example.com/b": "1"}}}

    pod = make_pod("chip", spec={"containers": [{"name": "c"}, second]})

    assert judge.is_interested(PodInfo(pod))


# ---- questions ----


@virtually
async def test_a_pod_that_is_not_known_yet_is_fetched_whole() -> None:
    server = Server(pod_json())
    sent: list[Any] = []

    async def post(verb: str, body: bytes, bytes_max: int) -> bytes:
        sent.append(json.loads(body))
        return b"{}"

    await extender(server, post).filter(PodInfo(WEB), ["a"])
    expected = pod_json()
    del expected["metadata"]["managedFields"]
    assert sent[0]["Pod"] == expected


@virtually
async def test_nodes_that_are_not_known_yet_are_fetched_and_those_that_are_gone_left_out() -> None:
    async def handle(_: str, path: str, *__: Any) -> tuple[int, dict[str, str], bytes]:
        name = path.rpartition("/")[2]
        if name == "gone":
            return 404, {}, b'{"kind": "Status", "code": 404, "reason": "NotFound"}'
        node = {"metadata": {"name": name}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {}}
        return 200, {}, json.dumps(node).encode()

    clock, rng = Clock(), seeded_random(0)
    client = Client(InProcessTransport(handle), rng=rng, sleep=clock.sleep)
    whole = FullObjectCache(client, clock=clock, rng=rng, sleep=clock.sleep, with_nodes=True)
    found = await whole.nodes(["b", "gone", "a"])
    assert list(found) == ["b", "a"]
    sent = json.loads(found["a"])
    assert (sent["kind"], sent["apiVersion"], sent["spec"]["podCIDR"]) == (
        "Node",
        "v1",
        "10.0.0.0/24",
    )


@pytest.mark.parametrize("answer", [404, pod_json(uid="another")])
def test_a_pod_that_is_gone_is_nothing_to_ask_about(answer: Any) -> None:
    @virtually
    async def ask() -> None:
        with pytest.raises(ExtenderError, match="pod default/web was deleted"):
            await extender(Server(answer), says()).filter(PodInfo(WEB), ["a"])

    ask()


@virtually
async def test_a_connection_that_was_idle_too_long_is_tried_once_more() -> None:
    lost = NoResponse("cut off", is_cut_off=True)
    post = says(lost, {"NodeNames": ["a"]})
    found = await extender(Server(pod_json()), post).filter(PodInfo(WEB), ["a"])
    assert list(found.names) == ["a"]
    with pytest.raises(NoResponse, match="cut off"):
        await extender(Server(pod_json()), says(lost, lost)).filter(PodInfo(WEB), ["a"])


@virtually
async def test_a_call_that_was_not_answered_in_time_is_not_repeated() -> None:
    # It would take as long again, and the extender may still be busy with the first one.
    post = says(NoResponse("no answer in 5 s"), {"NodeNames": ["a"]})

    with pytest.raises(NoResponse, match="no answer in 5 s"):
        await extender(Server(pod_json()), post).filter(PodInfo(WEB), ["a"])


# ---- bindings ----


@virtually
async def test_a_binding_is_done_when_the_extender_says_so() -> None:
    server = Server(pod_json("a"))
    await extender(server, says({"Error": ""})).bind(PodInfo(WEB), "a")
    assert server.gets == 0


@virtually
async def test_whether_an_unanswered_binding_was_done_the_api_server_knows() -> None:
    lost = NoResponse("no answer in 5 s")
    server = Server(pod_json(), pod_json(), pod_json("a"))
    await extender(server, says(lost)).bind(PodInfo(WEB), "a")
    assert server.gets == 3


@virtually
async def test_if_it_does_not_happen_as_long_as_it_may_arrive_it_has_failed() -> None:
    server = Server(pod_json())
    judge = extender(server, says(NoResponse("no answer in 2 s")), http_timeout_s=2.0)
    with pytest.raises(NoResponse, match="no answer in 2 s"):
        await judge.bind(PodInfo(WEB), "a")
    assert server.gets == 30  # after 0, 1/4, 1/2, 1, 2, 4 s, then every 5 s for two minutes


class SlowServer(Server):
    """Each read takes a while, in which a binding may arrive after the server has looked."""

    async def handle(self, method: str, path: str, *rest: Any) -> tuple[int, dict[str, str], bytes]:
        answer = await super().handle(method, path, *rest)
        self.clock.advance(100.0)
        return answer


@virtually
async def test_the_last_read_begins_when_the_binding_cannot_arrive_any_more() -> None:
    # The second read ends too late, but has begun in time: it may have missed the binding.
    server = SlowServer(pod_json(), pod_json(), pod_json("a"))
    judge = extender(server, says(NoResponse("no answer in 5 s")))
    await judge.bind(PodInfo(WEB), "a")
    assert server.gets == 3


@virtually
async def test_if_nobody_was_told_nobody_is_asked() -> None:
    server = Server(pod_json("a"))
    with pytest.raises(NoResponse, match="refused"):
        await extender(server, says(NoResponse("refused", is_sent=False))).bind(PodInfo(WEB), "a")
    assert server.gets == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (pod_json("b"), "pod default/web is bound to node b already"),
        (pod_json("a", uid="another"), "pod default/web was deleted"),
        (404, "pod default/web was deleted"),
        (pod_json(), "not today"),
    ],
)
def test_what_an_extender_refuses_may_have_its_reasons(answer: Any, told: str) -> None:
    @virtually
    async def ask() -> None:
        with pytest.raises(ExtenderError, match=told):
            await extender(Server(answer), says({"Error": "not today"})).bind(PodInfo(WEB), "a")

    ask()


@virtually
async def test_an_error_for_what_was_done_before_is_none() -> None:
    await extender(Server(pod_json("a")), says({"Error": "conflict"})).bind(PodInfo(WEB), "a")


@virtually
async def test_an_error_counts_only_once_the_pod_could_be_read() -> None:
    server = Server(*[500] * 8, pod_json("a"))
    await extender(server, says({"Error": "timeout"})).bind(PodInfo(WEB), "a")
    assert server.gets == 9


@virtually
async def test_an_unanswered_binding_fails_only_once_the_pod_could_be_read() -> None:
    # The API server is away for longer than the binding may take to arrive.
    server = Server(*[500] * 33, pod_json("a"))
    await extender(server, says(NoResponse("no answer in 5 s"))).bind(PodInfo(WEB), "a")
    assert server.gets == 34

    server = Server(*[500] * 33, pod_json())
    with pytest.raises(NoResponse, match="no answer in 5 s"):
        await extender(server, says(NoResponse("no answer in 5 s"))).bind(PodInfo(WEB), "a")
    assert server.gets == 34


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (pod_json("b"), "pod default/web is bound to node b already"),
        (pod_json("a", uid="another"), "pod default/web was deleted"),
        (404, "pod default/web was deleted"),
    ],
)
@virtually
async def test_an_unanswered_binding_that_cannot_arrive_any_more_fails_at_once(
    answer: Any, text: str
) -> None:
    server = Server(pod_json(), answer)
    with pytest.raises(ExtenderError, match=text):
        await extender(server, says(NoResponse("no answer in 5 s"))).bind(PodInfo(WEB), "a")
    assert server.gets == 2


@virtually
async def test_the_reads_of_an_unanswered_binding_end_with_the_lease() -> None:
    server = Server(pod_json())
    passes = iter([10.0, 10.0, 10.0])

    def fence() -> float:
        allowed_s = next(passes, None)
        if allowed_s is None:
            raise LeaseLost("the lease ran out")
        return allowed_s

    with pytest.raises(LeaseLost):
        await extender(server, says(NoResponse("no answer")), fence=fence).bind(PodInfo(WEB), "a")
    assert server.gets == 2


@virtually
async def test_without_the_lease_no_extender_binds_for_us() -> None:
    def lost() -> float:
        raise LeaseLost("the lease ran out")

    with pytest.raises(LeaseLost):
        await extender(Server(404), says(), fence=lost).bind(PodInfo(WEB), "a")
