"""Reading from the API server: objects and lists, repeated while that may help."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from mooring.client.rest.paths import path_of
from mooring.client.rest.responses import check, retry_after_s
from mooring.client.transport.transport import (
    BODY_BYTES_MAX,
    JSON,
    AnswerTooLong,
    Request,
    Transport,
)
from mooring.clock import Rng
from mooring.errors import ConfigError, OutcomeUnknown, Unreachable
from mooring.objects.codec.decode import DecodedList, decode, decode_list
from mooring.objects.kinds import Kind, kind_named

#: A request is tried this often in all (client-go's default is 10 retries).
TRIES_MAX: Final = 10

#: Objects of one page; what kubectl and client-go ask for.
PAGE_SIZE: Final = 500

#: A list in one page: 100 000 pods of 5 kB.
LIST_BYTES_MAX: Final = 512 << 20

READ_S_MAX: Final = 30.0
LIST_S_MAX: Final = 60.0

#: Waits between reads that fail, in seconds: doubled each time, with jitter.
BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 8.0

Sleep = Callable[[float], Awaitable[None]]


class Reader:
    """What only reads; ``Client`` writes too."""

    def __init__(self, transport: Transport, *, rng: Rng, sleep: Sleep) -> None:
        self.transport = transport
        self._rng = rng
        self._sleep = sleep

    async def get(self, kind: Kind | str, name: str, namespace: str = "") -> Any:
        """Returns one object.

        Raises:
            NotFound: there is none of this name.
            ConfigError: it cannot be read.
        """
        kind = as_kind(kind)
        path = path_of(kind, namespace, name)
        return decode(await self.read(Request("GET", path, deadline_s=READ_S_MAX)), kind)

    async def list(
        self,
        kind: Kind | str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> DecodedList:
        """Returns all objects of a kind, read page by page, as of one moment.

        Raises:
            Gone: reading took so long that the server forgot that moment; begin again.
        """
        items: list[Any] = []
        errors: list[ConfigError] = []
        malformed, version = 0, ""
        async for page in self.pages(
            kind, namespace, label_selector=label_selector, field_selector=field_selector
        ):
            items += page.items
            malformed += page.malformed
            errors += page.errors
            version = page.resource_version
        return DecodedList(tuple(items), version, "", malformed, tuple(errors))

    async def pages(
        self,
        kind: Kind | str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        tries: int = TRIES_MAX,
    ) -> AsyncIterator[DecodedList]:
        """Returns the pages of a list, each as it comes.

        Args:
            kind: Or its name.
            namespace: Only objects in it; all by default.
            label_selector: Only objects whose labels match.
            field_selector: Only objects whose fields match.
            page_size: At most; smaller where objects are huge. 0 for one page with everything.
            tries: How often each page is tried.

        Raises:
            Gone: see ``list``.
        """
        kind = as_kind(kind)
        selectors = given(labelSelector=label_selector, fieldSelector=field_selector)
        token = ""
        while True:
            limit = str(page_size) if page_size else ""
            request = Request(
                "GET",
                path_of(kind, namespace),
                deadline_s=LIST_S_MAX,
                # The token remembers the moment; the selectors must be said again.
                query=[*selectors, *given(limit=limit, **{"continue": token})],
                bytes_max=BODY_BYTES_MAX if page_size else LIST_BYTES_MAX,
            )
            try:
                body = await self.read(request, tries=tries)
            except AnswerTooLong as error:
                if page_size < 2:
                    raise Unreachable(str(error)) from error
                page_size //= 2
                continue
            page = decode_list(body, kind)
            yield page
            token = page.continue_
            if not token:
                return

    async def read(self, request: Request, *, tries: int = TRIES_MAX) -> bytes:
        """Returns the body of a GET, which is repeated while that may help.

        Raises:
            ApiError: the server says no, or still fails after the last try.
            Unreachable: it could not be reached, not even at the last try.
            AnswerTooLong: there is more than was asked for.
        """
        request = request._replace(headers={"accept": JSON, **request.headers})
        wait_s = BACKOFF_S
        for tries_left in reversed(range(tries)):
            asked_s = None
            try:
                response = await self.transport.request(request)
            except AnswerTooLong:
                raise
            except (Unreachable, OutcomeUnknown) as error:
                if not tries_left:
                    raise Unreachable(str(error)) from error
            else:
                if not tries_left or (response.status < 500 and response.status != 429):
                    return check(response, f"GET {request.path}")
                asked_s = retry_after_s(response)
            jittered_s = wait_s * (1 + self._rng.random())
            await self._sleep(jittered_s if asked_s is None else max(asked_s, jittered_s))
            wait_s = min(2 * wait_s, BACKOFF_S_MAX)
        raise AssertionError("the last try returns or raises")


def as_kind(kind: Kind | str) -> Kind:
    """Returns the kind, if it is given by its name."""
    return kind_named(kind) if isinstance(kind, str) else kind


def given(**parameters: str) -> list[tuple[str, str]]:
    """Returns those parameters of a query that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]
