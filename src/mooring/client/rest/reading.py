"""Reads objects and lists from the API server, with retries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import blake2b
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

#: Pages of a list: 50 million objects, if they have few enough bytes for whole pages.
PAGES_MAX: Final = 100_000

#: Empty pages in sequence, each with a token for the next one.
EMPTY_PAGES_MAX: Final = 16

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
            ConfigError: a page is no list, or the list has no end: see ``PageTokens``.
        """
        kind = as_kind(kind)
        selectors = non_empty(labelSelector=label_selector, fieldSelector=field_selector)
        token, tokens = "", PageTokens(path_of(kind, namespace))
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
            first = page.items[0].metadata if page.items else None
            name = "" if first is None else f"{first.namespace}/{first.name}"
            token = tokens.next_token(page.continue_, len(page.items) + page.malformed, name)
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


class PageTokens:
    """Ends a list whose pages have no end.

    kube-apiserver's pages with a token are full, and each has the objects after those of the page
    before. Other servers may send a few empty ones, which client-go accepts, too.

    Args:
        path: Of the list, for the errors.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._received: set[bytes] = set()
        self._first_objects: set[bytes] = set()
        self._empty = 0

    def next_token(self, token: str, count: int, first: str) -> str:
        """Returns the token of the next page, "" after the last.

        Args:
            token: The one in the page.
            count: The number of objects in the page.
            first: The name of its first object; "" if it has none with a name.

        Raises:
            ConfigError: the list has no end: a token or a page comes again, or the pages are empty.
        """
        if not token:
            return ""
        self._empty = 0 if count else self._empty + 1
        if self._empty > EMPTY_PAGES_MAX:
            raise self._error(f"sends more than {EMPTY_PAGES_MAX} empty pages of a list", token)
        self._add(self._received, token, "sends the same page again", token)
        if first:
            self._add(self._first_objects, first, "sends an object on two pages of a list", first)
        if len(self._received) > PAGES_MAX:
            raise self._error(f"sends more than {PAGES_MAX} pages of a list", token)
        return token

    def _add(self, texts: set[bytes], text: str, problem: str, value: str) -> None:
        # Tokens may be long, and many: their hashes are as good.
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        if digest in texts:
            raise self._error(problem, value)
        texts.add(digest)

    def _error(self, problem: str, value: str) -> ConfigError:
        return ConfigError(f"the API server {problem}", path=self._path, value=value)


def non_empty(**parameters: str) -> list[tuple[str, str]]:
    """Returns those parameters of a query that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]
