"""Reads objects and lists from the API server, with retries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from mooring.client.rest.paths import path_of
from mooring.client.rest.requested_waits import RequestedWaits
from mooring.client.rest.responses import check
from mooring.client.retry import RetryPolicy, Sleep, retry
from mooring.client.transport.transport import (
    BODY_BYTES_MAX,
    JSON,
    AnswerTooLong,
    Request,
    Transport,
)
from mooring.clock import Rng
from mooring.errors import (
    ApiError,
    ConfigError,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import DecodedList, decode, decode_list
from mooring.objects.kinds import Kind, kind_named

#: Tries of a request in all (client-go's default is 10 retries).
TRIES_MAX: Final = 10

#: Objects per page, as kubectl and client-go request.
PAGE_SIZE: Final = 500

#: A list in one page: 100 000 pods of 5 kB.
LIST_BYTES_MAX: Final = 512 << 20

READ_S_MAX: Final = 30.0
LIST_S_MAX: Final = 60.0

#: Waits between reads that fail, in seconds: doubled each time, with jitter.
BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 8.0

#: Transient failures of a read.
READ_TRANSIENT: Final = (Unreachable, ServerError, TooManyRequests)


class ReadClient:
    """The read verbs; ``Client`` adds the write verbs."""

    def __init__(self, transport: Transport, *, rng: Rng, sleep: Sleep) -> None:
        self.transport = transport
        self._rng = rng
        self._sleep = sleep
        self._waits = RequestedWaits(sleep)

    async def get(self, kind: Kind | str, name: str, namespace: str = "") -> Any:
        """Returns one object.

        Raises:
            NotFound: there is no such object.
            ConfigError: the object cannot be decoded.
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
        """Returns all objects of a kind at one resourceVersion, read page by page.

        Raises:
            Gone: the server no longer has that resourceVersion; list again.
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
        """Yields the pages of a list.

        Args:
            kind: Or its name.
            namespace: Only objects in it; all by default.
            label_selector: Only objects whose labels match.
            field_selector: Only objects whose fields match.
            page_size: Maximum; reduced for huge objects. 0 for one page with all objects.
            tries: Tries per page.

        Raises:
            Gone: see ``list``.
            ConfigError: a page is no list, or has the token of the one before: it had no end.
        """
        kind = as_kind(kind)
        selectors = non_empty(labelSelector=label_selector, fieldSelector=field_selector)
        token = ""
        while True:
            limit = str(page_size) if page_size else ""
            request = Request(
                "GET",
                path_of(kind, namespace),
                deadline_s=LIST_S_MAX,
                # The token fixes the resourceVersion; the selectors must be repeated.
                query=[*selectors, *non_empty(limit=limit, **{"continue": token})],
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
            token = next_token(page.continue_, token, request.path)
            yield page
            if not token:
                return

    async def read(self, request: Request, *, tries: int = TRIES_MAX) -> bytes:
        """Returns the body of a GET, retried after transient failures.

        Raises:
            ApiError: the server refuses it, or fails at the last try.
            Unreachable: no connection, also at the last try.
            AnswerTooLong: the body is longer than the request allows.
        """
        request = request._replace(headers={"accept": JSON, **request.headers})
        return await retry(
            lambda: self._read_once(request),
            RetryPolicy(tries, BACKOFF_S, max_s=BACKOFF_S_MAX),
            sleep=self._sleep,
            rng=self._rng,
            should_retry=lambda error: isinstance(error, READ_TRANSIENT),
        )

    async def _read_once(self, request: Request) -> bytes:
        await self._waits.wait(request)
        try:
            response = await self.transport.request(request)
        except AnswerTooLong:
            raise
        except OutcomeUnknown as error:  # a read that may have happened changes nothing
            raise Unreachable(str(error)) from error
        try:
            return check(response, f"GET {request.path}")
        except ApiError as error:
            self._waits.note(request, error)
            raise


def as_kind(kind: Kind | str) -> Kind:
    """Returns the kind, looked up if given by name."""
    return kind_named(kind) if isinstance(kind, str) else kind


def next_token(received: str, sent: str, path: str) -> str:
    """Returns the token of the page after one, "" for the last page.

    Args:
        received: The token in the page.
        sent: The token with which the page was requested, "" for the first.
        path: Of the list, for the error.

    Raises:
        ConfigError: it is the token of the page itself: the list had no end.
    """
    if sent and received == sent:
        raise ConfigError("the API server sends the same page again", path=path, value=sent)
    return received


def non_empty(**parameters: str) -> list[tuple[str, str]]:
    """Returns those parameters of a query that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]
