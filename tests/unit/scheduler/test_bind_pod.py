"""The three outcomes of a binding: done, refused, and unknown until the API server says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client import Client
from mooring.clock import seeded_random
from mooring.errors import (
    ApiError,
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import encode
from mooring.scheduler.bind_pod import RETRY_POLICY, bind_pod
from mooring.testing import make_pod
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

    def run(self) -> None:
        @virtually
        async def main() -> None:
            rng = seeded_random(0)
            client = Client(self.script, rng=rng, sleep=asyncio.sleep)
            await bind_pod(client, POD, "a", rng=rng, sleep=self.sleep)

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
        # A refusal counts once it is known that the first try has done nothing.
        ([LOST, there(""), refusal(403, "Forbidden"), there("")], "BGBG", Forbidden),
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


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (there("b"), "is bound to node b already"),
        (there("a", uid="u2"), "was deleted and created again"),
    ],
)
def test_a_conflict_says_what_is_there_instead(found: Any, told: str) -> None:
    with pytest.raises(ApiError, match=told):
        Try(TAKEN, found).run()


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
