"""Reading from the API server: objects and lists, repeated while that may help."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from mooring.client.answers import check, retry_after_s
from mooring.client.paths import path_of
from mooring.client.transport import JSON, Pool, Query, Transport
from mooring.clock import Rng
from mooring.errors import ConfigError, OutcomeUnknown, Unreachable
from mooring.objects.decode import DecodedList, decode, decode_list
from mooring.objects.kinds import Kind, kind_named

#: A request is tried this often in all (client-go's default is 10 retries).
TRIES_MAX: Final = 10

#: Objects of one page; what kubectl and client-go ask for.
PAGE_SIZE: Final = 500

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
        """One object.

        Raises:
            NotFound: there is none of this name.
            ConfigError: it cannot be read.
        """
        kind = as_kind(kind)
        path = path_of(kind, namespace, name)
        return decode(await self.read(path), kind)

    async def list(
        self,
        kind: Kind | str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> DecodedList:
        """All objects of a kind, read page by page, as of one moment.

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
    ) -> AsyncIterator[DecodedList]:
        """The pages of a list, each as it comes.

        Raises:
            Gone: see ``list``.
        """
        selectors = given(labelSelector=label_selector, fieldSelector=field_selector)
        pages = self.raw_pages(kind, namespace, selectors=selectors, page_size=page_size)
        async for _, page in pages:
            yield page

    async def raw_pages(
        self,
        kind: Kind | str,
        namespace: str = "",
        *,
        selectors: Query = (),
        page_size: int = PAGE_SIZE,
        tries: int = TRIES_MAX,
    ) -> AsyncIterator[tuple[bytes, DecodedList]]:
        """As ``pages``, each with the text that it was read from.

        Args:
            kind: Or its name.
            namespace: Only objects in it; all by default.
            selectors: As query parameters.
            page_size: 0 for one page with everything.
            tries: How often each page is tried.
        """
        kind = as_kind(kind)
        limit = [("limit", str(page_size))] if page_size else []
        token = ""
        while True:
            # The token remembers the moment; the selectors must be said again.
            onwards = [("continue", token)] if token else []
            body = await self.read(
                path_of(kind, namespace),
                query=[*selectors, *limit, *onwards],
                deadline_s=LIST_S_MAX,
                tries=tries,
            )
            page = decode_list(body, kind)
            yield body, page
            token = page.continue_
            if not token:
                return

    async def read(
        self,
        path: str,
        *,
        query: Query = (),
        deadline_s: float = READ_S_MAX,
        pool: Pool = Pool.READ,
        tries: int = TRIES_MAX,
    ) -> bytes:
        """The body of a GET, which is repeated while that may help.

        Raises:
            ApiError: the server says no, or still fails after the last try.
            Unreachable: it could not be reached, not even at the last try.
        """
        wait_s = BACKOFF_S
        for tries_left in reversed(range(tries)):
            asked_s = None
            try:
                response = await self.transport.request(
                    "GET",
                    path,
                    query=query,
                    headers={"accept": JSON},
                    deadline_s=deadline_s,
                    pool=pool,
                )
            except (Unreachable, OutcomeUnknown) as error:
                if not tries_left:
                    raise Unreachable(str(error)) from error
            else:
                if not tries_left or (response.status < 500 and response.status != 429):
                    return check(response, f"GET {path}")
                asked_s = retry_after_s(response)
            jittered_s = wait_s * (1 + self._rng.random())
            await self._sleep(jittered_s if asked_s is None else max(asked_s, jittered_s))
            wait_s = min(2 * wait_s, BACKOFF_S_MAX)
        raise AssertionError("the last try returns or raises")


def as_kind(kind: Kind | str) -> Kind:
    """The kind, if it is given by its name."""
    return kind_named(kind) if isinstance(kind, str) else kind


def given(**parameters: str) -> list[tuple[str, str]]:
    """Those parameters of a query that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]
