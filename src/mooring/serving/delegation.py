"""Requests to the API server on behalf of a client: TokenReview and SubjectAccessReview.

Source: k8s.io/apiserver pkg/util/webhook (retries), pkg/authentication/token/cache.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.client.rest.responses import MESSAGE_LENGTH_MAX, Status, make_error, retry_after_s
from mooring.client.retry import RetryPolicy, Sleep, retry
from mooring.client.transport.transport import JSON, Pool, Request, Response, Transport
from mooring.clock import Clock, Rng
from mooring.errors import ApiError, OutcomeUnknown, SchedulerError, TooManyRequests

REQUEST_S_MAX: Final = 10.0
RETRIES: Final = RetryPolicy(tries_max=5, initial_s=0.5, factor=1.5, jitter=0.2)

#: Cached answers: more clients than a scheduler will ever have.
CACHE_ENTRIES_MAX: Final = 4096

ReviewResult = TypeVar("ReviewResult")

_HEADERS: Final = {"content-type": JSON, "accept": JSON}

#: Called with the HTTP code of each request ("<error>" without one), and its seconds.
RequestObserver = Callable[[str, float], None]


class Reviews:
    """Posts reviews, which the API server answers and does not store.

    Args:
        transport: To the API server.
        path: Of the kind of review.
        clock: For the durations of requests.
        rng: For jitter.
        sleep: Waits.
        observer: Is called after each request.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        observer: RequestObserver = lambda _code, _seconds: None,
    ) -> None:
        self._transport = transport
        self._path = path
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._observer = observer

    async def post(self, review: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the status of a review.

        Raises:
            SchedulerError: there is none; the message is for people.
        """
        body = msgspec.json.encode(review)
        request = Request(
            "POST",
            self._path,
            deadline_s=REQUEST_S_MAX,
            body=body,
            headers=_HEADERS,
            pool=Pool.READ,
        )
        answer = await retry(
            lambda: self._once(request),
            RETRIES,
            sleep=self._sleep,
            rng=self._rng,
            should_retry=is_transient,
        )
        status = answer.get("status")
        return status if isinstance(status, dict) else {}

    async def _once(self, request: Request) -> dict[str, Any]:
        started_s = self._clock.monotonic_s()
        code = "<error>"
        try:
            response = await self._transport.request(request)
            code = str(response.status)
        finally:
            self._observer(code, self._clock.monotonic_s() - started_s)
        if not 200 <= response.status < 300:
            raise refusal(response)
        try:
            answer = msgspec.json.decode(response.body)
        except msgspec.DecodeError as error:
            raise OutcomeUnknown(f"{self._path}: cannot decode the answer: {error}") from error
        return answer if isinstance(answer, dict) else {}


def refusal(response: Response) -> ApiError:
    """Returns the error in a response, with the server's own message."""
    try:
        status = msgspec.json.decode(response.body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=response.body[:MESSAGE_LENGTH_MAX].decode("utf-8", "replace"))
    return make_error(
        status.message or f"the server returned {response.status}",
        code=response.status,
        status=status,
        wait_s=retry_after_s(response),
    )


def is_transient(error: SchedulerError) -> bool:
    """Returns whether a review is worth another try: a refused connection or a 401 is not."""
    if isinstance(error, ApiError):
        is_failure = error.status in (500, 504) or isinstance(error, TooManyRequests)
        return is_failure or error.retry_after_s is not None
    return isinstance(error, OutcomeUnknown)


class ReviewCache(Generic[ReviewResult]):
    """Answers by key, each for a limited time. Equal questions at the same time are asked once.

    Args:
        clock: Its monotonic reading.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, ReviewResult]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def is_cached(self, key: Hashable) -> bool:
        """Returns whether ``get`` would answer without asking."""
        entry = self._answers.get(key)
        return entry is not None and self._clock.monotonic_s() < entry[0]

    async def get(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[ReviewResult]],
        ttl_s: Callable[[ReviewResult], float],
    ) -> ReviewResult:
        """Returns the answer to ``key``.

        Args:
            key: The question.
            ask: Returns the answer; what it raises is not cached.
            ttl_s: Returns for how long an answer is cached, in seconds; 0 = not at all.
        """
        while True:
            entry = self._answers.get(key)
            if entry is not None and self._clock.monotonic_s() < entry[0]:
                return entry[1]
            pending = self._pending.get(key)
            if pending is None:
                break
            await asyncio.wait([pending])
        done = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await ask()
            self._store(key, answer, ttl_s(answer))
            return answer
        finally:
            del self._pending[key]
            done.set_result(None)

    def _store(self, key: Hashable, answer: ReviewResult, ttl_s: float) -> None:
        self._answers.pop(key, None)
        if ttl_s <= 0:
            return
        while len(self._answers) >= CACHE_ENTRIES_MAX:
            self._answers.popitem(last=False)
        self._answers[key] = (self._clock.monotonic_s() + ttl_s, answer)
