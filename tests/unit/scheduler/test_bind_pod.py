"""The three outcomes of a binding: done, refused, and unknown until the API server says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client import Client
from mooring.client.bound_node import ARRIVES_WITHIN_S
from mooring.client.transport.transport import Request, Response
from mooring.clock import seeded_random
from mooring.errors import (
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import encode
from mooring.scheduler.bind_pod import (
    GIVE_UP_AFTER_S,
    READ_AFTER_S,
    RETRY_POLICY,
    bind_pod,
)
from mooring.scheduler.reporting import error_text
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import Script, answer, refusal
from tests.helpers.running_scheduler import virtually

POD = make_pod("web", uid="u1")
DONE = answer(201, {})
LOST = OutcomeUnknown("no answer")
CUT = Unreachable("cut off")
TAKEN = refusal(409, "Conflict", "pod web is already assigned to node")


def there(node: str, *, uid: str = "u1") -> Any:
    """Returns the pod, as the API server shows it."""
    return answer(200, encode(make_pod("web", uid=uid, node=node)))


class Try:
    """Binds the pod to node a over prepared answers."""

    def __init__(self, *answers: Any) -> None:
        self.script = Script(*answers)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)

    def run(self) -> None:
        @virtually
        async def main() -> None:
            rng = seeded_random(0)
            client = Client(self.script, rng=rng, sleep=asyncio.sleep)
            clock = LoopClock(asyncio.get_running_loop())
            await bind_pod(client, POD, "a", clock=clock, rng=rng, sleep=self.sleep)

        main()

    @property
    def asked(self) -> str:
        """Returns the requests as letters: B = binding, G = GET."""
        return "".join("B" if each.method == "POST" else "G" for each in self.script.requests)


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([DONE], "B"),
        # The response was lost, and the pod is bound.
        ([LOST, there("a")], "BG"),
        # The request was lost: it is retried.
        ([LOST, there(""), DONE], "BGB"),
        # Whether it was done shows only in the refusal of the second try.
        ([LOST, there(""), TAKEN, there("a")], "BGBG"),
        # Another scheduler bound it to the same node.
        ([TAKEN, there("a")], "BG"),
        # A 429 was not applied, but the first request may still be in progress.
        ([LOST, there(""), CUT, there(""), DONE], "BGBGB"),
        ([LOST, there(""), CUT, there("a")], "BGBG"),
        # A server that fails may have done it.
        ([refusal(500, "InternalError"), there("a")], "BG"),
        # Reading the pod fails for a while.
        ([LOST, CUT, refusal(403, "Forbidden"), there("a")], "BGGG"),
    ],
)
def test_it_returns_when_the_pod_is_surely_bound(answers: list[Any], asked: str) -> None:
    tried = Try(*answers)
    tried.run()
    assert tried.asked == asked


@pytest.mark.parametrize(
    ("answers", "asked", "error"),
    [
        ([CUT], "B", Unreachable),
        ([refusal(403, "Forbidden")], "B", Forbidden),
        ([refusal(404, "NotFound")], "B", NotFound),
        ([refusal(429, "TooManyRequests")], "B", TooManyRequests),
        # On no node: then it was refused for another reason, such as being deleted.
        ([TAKEN, there("")], "BG", Conflict),
        ([TAKEN, there("b")], "BG", Conflict),
        ([TAKEN, there("a", uid="u2")], "BG", NotFound),
        ([LOST, there("b")], "BG", Conflict),
        ([LOST, there("a", uid="u2")], "BG", NotFound),
        ([LOST, refusal(404, "NotFound")], "BG", NotFound),
        # The server failed, and the pod is not bound: as upstream the attempt has failed.
        ([refusal(500, "InternalError"), there("")], "BG", ServerError),
        ([refusal(504, "Timeout"), CUT, there("")], "BGG", ServerError),
        # A refusal counts once it is known that the first try has done nothing.
        (
            [LOST, there(""), refusal(403, "Forbidden"), *[there("")] * 26],
            "BGB" + "G" * 26,
            Forbidden,
        ),
        ([LeaseLost("over")], "B", LeaseLost),
    ],
)
def test_it_raises_when_the_pod_is_surely_not_bound_by_us(
    answers: list[Any], asked: str, error: type[Exception]
) -> None:
    tried = Try(*answers)
    with pytest.raises(error):
        tried.run()
    assert tried.asked == asked


def test_it_says_which_pod_by_its_uid() -> None:
    tried = Try(DONE)
    tried.run()
    (request,) = tried.script.requests
    assert request.path == "/api/v1/namespaces/default/pods/web/binding"
    assert request.body["metadata"]["uid"] == "u1"
    assert request.body["target"]["name"] == "a"


def test_a_pod_that_was_created_again_is_not_found() -> None:
    with pytest.raises(NotFound, match="was deleted and created again"):
        Try(TAKEN, there("a", uid="u2")).run()


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        # The server's own words, as upstream reports them.
        ([TAKEN, there("b")], "pod web is already assigned to node"),
        (
            [LOST, there("b")],
            'Operation cannot be fulfilled on pods/binding "web": '
            'pod web is already assigned to node "b"',
        ),
    ],
)
def test_a_conflict_has_the_message_of_the_api_server(answers: list[Any], message: str) -> None:
    with pytest.raises(Conflict) as caught:
        Try(*answers).run()
    assert error_text(caught.value) == message
    assert caught.value.status == 409


def test_a_request_that_arrives_late_has_bound_the_pod() -> None:
    tried = Try(LOST, there(""), refusal(500, "InternalError"), *[there("")] * 20, there("a"))
    tried.run()
    assert tried.asked == "BGB" + "G" * 21


class Slow:
    """An API server that answers a binding after some time, or loses its connection then."""

    def __init__(self, seconds: float, *, is_bound: bool, is_lost: bool = False) -> None:
        self.seconds = seconds
        self.is_bound = is_bound
        self.is_lost = is_lost
        self.requests: list[tuple[float, str]] = []

    async def request(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        self.requests.append((loop.time(), request.method))
        if request.method == "GET":
            found: Response = there("a" if self.is_bound else "")
            return found
        try:
            async with asyncio.timeout(request.deadline_s):
                await asyncio.sleep(self.seconds)
        except TimeoutError as error:
            raise OutcomeUnknown("no answer") from error
        if self.is_lost:
            raise LOST
        return DONE

    def bind(self) -> float:
        """Binds the pod; returns the seconds that it took."""

        @virtually
        async def main() -> None:
            loop, rng = asyncio.get_running_loop(), seeded_random(0)
            client = Client(self, rng=rng)  # type: ignore[arg-type]
            await bind_pod(client, POD, "a", clock=LoopClock(loop), rng=rng, sleep=asyncio.sleep)
            self.took_s = loop.time()

        main()
        return self.took_s


def test_a_webhook_may_take_its_time() -> None:
    server = Slow(28.0, is_bound=False)
    assert server.bind() == pytest.approx(28.0)
    assert [method for _, method in server.requests] == ["POST", "GET"]


@pytest.mark.parametrize("lost_after_s", [0.001, 1000.0])
def test_a_binding_without_an_answer_fails_when_it_cannot_arrive_any_more(
    lost_after_s: float,
) -> None:
    server = Slow(lost_after_s, is_bound=False, is_lost=True)
    with pytest.raises(OutcomeUnknown):
        server.bind()
    posts = [at_s for at_s, method in server.requests if method == "POST"]
    reads = [at_s for at_s, method in server.requests if method == "GET"]
    assert posts[-1] < GIVE_UP_AFTER_S + 2 * RETRY_POLICY.max_s
    assert posts[-1] + ARRIVES_WITHIN_S <= reads[-1] < posts[-1] + ARRIVES_WITHIN_S + 10


def test_an_answer_that_is_lost_is_not_waited_for() -> None:
    server = Slow(1000.0, is_bound=True)
    assert server.bind() == pytest.approx(READ_AFTER_S)


def test_a_read_that_is_not_answered_ends_with_the_binding() -> None:
    class Deaf(Slow):
        """Answers the binding, and no read."""

        async def request(self, request: Request) -> Response:
            if request.method == "GET":
                await asyncio.sleep(1000.0)
            return await super().request(request)

    server = Deaf(READ_AFTER_S + 1.0, is_bound=False)
    tasks: list[int] = []

    @virtually
    async def main() -> None:
        loop, rng = asyncio.get_running_loop(), seeded_random(0)
        client = Client(server, rng=rng)  # type: ignore[arg-type]
        await bind_pod(client, POD, "a", clock=LoopClock(loop), rng=rng, sleep=asyncio.sleep)
        await asyncio.sleep(0)
        tasks.append(len(asyncio.all_tasks()))

    main()
    assert tasks == [1]


def are_doubled(slept: list[float]) -> bool:
    """Returns whether each wait is twice the one before, with jitter, up to the longest."""
    steps = [
        min(RETRY_POLICY.initial_s * 2**number, RETRY_POLICY.max_s) for number in range(len(slept))
    ]
    return all(step <= each < 2 * step for step, each in zip(steps, slept, strict=True))


def test_it_waits_longer_and_longer_between_questions_but_not_too_long() -> None:
    tried = Try(LOST, *[refusal(403, "Forbidden")] * 9, there("a"))
    tried.run()
    assert len(tried.slept) == 9
    assert are_doubled(tried.slept)


def test_it_waits_longer_and_longer_between_tries() -> None:
    tried = Try(LOST, there(""), LOST, there(""), LOST, there(""), DONE)
    tried.run()
    assert tried.asked == "BGBGBGB"
    assert len(tried.slept) == 3
    assert are_doubled(tried.slept)


def test_a_binding_that_was_sent_late_arrives_late() -> None:
    class Busy(Slow):
        async def request(self, request: Request) -> Response:
            if request.method == "POST" and not self.requests:
                self.requests.append((asyncio.get_running_loop().time(), "POST"))
                busy: Response = refusal(429, "TooManyRequests", **{"retry-after": "120"})
                return busy
            return await super().request(request)

    server = Busy(1000.0, is_bound=False)
    with pytest.raises(OutcomeUnknown):
        server.bind()
    posts = [at_s for at_s, method in server.requests if method == "POST"]
    assert posts[-1] >= 120
    assert server.requests[-1][0] >= posts[-1] + ARRIVES_WITHIN_S


def test_a_request_may_arrive_while_the_answer_of_the_last_read_is_on_its_way() -> None:
    """The read begins before the request can have got lost, and is answered after that."""

    class Behind(Slow):
        async def request(self, request: Request) -> Response:
            answered = await super().request(request)
            posts = [at_s for at_s, method in self.requests if method == "POST"]
            lost_at_s = posts[-1] + ARRIVES_WITHIN_S
            now_s = asyncio.get_running_loop().time()
            if request.method == "GET" and lost_at_s - 6 < now_s < lost_at_s:
                self.is_bound = True  # it arrives now, after this read
                await asyncio.sleep(lost_at_s - now_s + 1)
            return answered

    server = Behind(1000.0, is_bound=False)
    server.bind()
    assert server.is_bound
