"""Lists that are read page by page, from a server whose pages fail, are too long, or expire.

Some objects cannot be read, and objects change between two pages, which a list at one version does
not show. Each list is the objects of its version that can be read, in order, with the number of the
others; a page that is too long is requested again with half of its objects, and after a 410 there
is no list. Up to sixteen pages in a row may be empty. The lines of watches are read as well
(``watch_lines``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from mooring.client import Client, Request
from mooring.client.rest.reading import PAGE_SIZE
from mooring.client.transport.transport import AnswerTooLong, Response, Stream
from mooring.clock import Rng, seeded_random
from mooring.errors import ConfigError, Gone, SchedulerError, Unreachable
from mooring.objects.codec.decode import DecodedList
from tests.faults.parts.watch_lines import line_problems
from tests.helpers.virtual_loop import run_virtually

LISTS: Final = 6
NAMESPACES: Final = ("default", "team")
#: The deadline and the longest answer of a page, and of a list in one page.
LIST_S: Final = 60.0
PAGE_BYTES_MAX: Final = 64 << 20
LIST_BYTES_MAX: Final = 512 << 20
#: Of so many objects of a page the errors are known.
PAGE_ERRORS_MAX: Final = 8
#: So many empty pages in a row are accepted.
EMPTY_MAX: Final = 16
#: Only before so many pages there are empty ones, since they take as much time.
FIRST_PAGES: Final = 8


class PagingServer:
    """A transport that has pods, some of which cannot be read.

    Attributes:
        problems: Requests that are wrong.
        expected: Of the list that began last: names, number of the others, version.
        errors: How many errors of the others are known: some of each page.
        is_gone: True if that list got 410.
        is_endless: True if more pages of that list in a row were empty than are accepted.
    """

    def __init__(self, rng: Rng, emptying: Rng) -> None:
        self.problems: list[str] = []
        self.expected: tuple[list[str], int, str] = [], 0, ""
        self.errors = 0
        self.is_gone = False
        self._rng = rng
        self._version = 100
        self._count = 0
        #: Name -> the pod as it is sent.
        self._pods: dict[str, dict[str, Any]] = {}
        self._unreadable_rate = rng.choice((0.0, 0.02, 0.3))
        self._long_rate = rng.choice((0.0, 0.1, 0.3))
        self._gone_rate = rng.choice((0.0, 0.1))
        self._failing_rate = rng.choice((0.0, 0.2))
        self._limit = PAGE_SIZE
        self._selectors = "", ""
        #: The pods of the list that is being read, and the index of its next one.
        self._listed: list[dict[str, Any]] = []
        self._token = ""
        self._next = 0
        #: Draws empty pages, of which a few are sent between two others; how many are next.
        self._emptying, self._empty_left, self._pages_left = emptying, 0, -1
        #: How many were sent in a row.
        self._empty_count = 0
        self.is_endless = False
        for _ in range(rng.choice((0, 3, PAGE_SIZE, PAGE_SIZE + 1, 3 * PAGE_SIZE))):
            self._create()

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Answers the request for a page."""
        rng, query = self._rng, dict(request.query)
        token, limit = query.get("continue", ""), int(query.get("limit", "0"))
        # Whether it is read in pages: then a page is not as long as a list may be.
        bytes_max = PAGE_BYTES_MAX if self._limit else LIST_BYTES_MAX
        selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
        real = request.method, request.deadline_s, request.bytes_max, selectors
        if real != ("GET", LIST_S, bytes_max, self._selectors) or ("limit" in query) != bool(limit):
            self.problems.append(f"a page is requested by {real} {query}")
        await asyncio.sleep(rng.choice((0.0, 0.1)))
        if not token:
            self._begin(request.path)
        elif token != self._token:
            self.problems.append(f"the page {token!r} is requested, not {self._token!r}")
        if limit != self._limit:
            self.problems.append(f"{limit} objects are requested, not {self._limit}")
        if rng.random() < self._failing_rate:
            raise Unreachable(f"{request.path}: connection refused")
        if limit > 1 and rng.random() < self._long_rate:
            self._limit = limit // 2
            raise AnswerTooLong(f"{request.path}: the response is too long")
        if token and rng.random() < self._gone_rate:
            self.is_gone = True
            return Response(
                410, {}, msgspec.json.encode({"kind": "Status", "code": 410, "reason": "Expired"})
            )
        return self._page(limit)

    def _begin(self, path: str) -> None:
        namespace = path.split("/")[4] if "/namespaces/" in path else ""
        pods = [
            pod for pod in self._pods.values() if namespace in ("", pod["metadata"]["namespace"])
        ]
        readable = [pod["metadata"]["name"] for pod in pods if isinstance(pod["spec"], dict)]
        self.expected = readable, len(pods) - len(readable), str(self._version)
        self.errors = 0
        self.is_gone, self._next, self._token, self._listed = False, 0, "", pods
        # In a few lists too many are empty before one of the first pages.
        self._pages_left = self._emptying.choice((-1, -1, -1, -1, -1, 1, 2, 3))
        self.is_endless, self._empty_count, self._empty_left = False, 0, self._drawn_empty()

    def begin_list(self, rng: Rng) -> tuple[int, str, str]:
        """Notes that a new list begins, and with how many objects its first page.

        Returns that number, 0 for all, and the selectors of labels and of fields.
        """
        self._limit = rng.choice((PAGE_SIZE, PAGE_SIZE, PAGE_SIZE, 0, 7))
        self._selectors = rng.choice((("", ""), ("a=b", ""), ("", "spec.nodeName="), ("a", "b")))
        return self._limit, *self._selectors

    def _drawn_empty(self) -> int:
        """Returns how many empty pages are sent before the next one."""
        self._pages_left -= 1
        if not self._pages_left:
            return EMPTY_MAX + 1
        if self._pages_left < -FIRST_PAGES:
            return 0
        return self._emptying.choice((*[0] * 9, 1, 10, EMPTY_MAX))

    def _page(self, limit: int) -> Response:
        count = limit or len(self._listed)
        if limit and self._empty_left and self._next < len(self._listed):
            count = 0
            self._empty_left -= 1
            self._empty_count += 1
            self.is_endless |= self._empty_count > EMPTY_MAX
        else:
            self._empty_count, self._empty_left = 0, self._drawn_empty()
        items = self._listed[self._next : self._next + count]
        self._next += count
        unreadable = sum(not isinstance(pod["spec"], dict) for pod in items)
        self.errors += min(unreadable, PAGE_ERRORS_MAX)
        is_last = self._next >= len(self._listed)
        self._count += 1
        self._token = "" if is_last else f"token-{self._count}"
        metadata = {"resourceVersion": self.expected[2], "continue": self._token}
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        if self._rng.random() < 0.5:
            self._create()
        return Response(200, {}, msgspec.json.encode(body))

    def _create(self) -> None:
        rng = self._rng
        self._version += 1
        self._count += 1
        name = f"pod-{self._count}"
        is_readable = rng.random() >= self._unreadable_rate
        self._pods[name] = {
            "metadata": {
                "name": name,
                "namespace": rng.choice(NAMESPACES),
                "uid": name,
                "resourceVersion": str(self._version),
            },
            "spec": {"containers": []} if is_readable else "none",
        }


async def _by_pages(
    client: Client, namespace: str, size: int, label: str, field: str
) -> DecodedList:
    pages = client.pages(
        "Pod", namespace, label_selector=label, field_selector=field, page_size=size
    )
    read = [page async for page in pages]
    items = tuple(pod for page in read for pod in page.items)
    errors = tuple(error for page in read for error in page.errors)
    malformed = sum(page.malformed for page in read)
    return DecodedList(items, read[-1].resource_version, "", malformed, errors)


async def _lists(seed: int, paths: Counter[str]) -> list[str]:
    """Reads lists one after another; returns the problems."""
    rng = seeded_random(seed)
    server = PagingServer(rng, seeded_random(seed + 3))
    client = Client(server, rng=seeded_random(seed + 1))
    selecting = seeded_random(seed + 2)
    for _ in range(LISTS):
        size, label, field = server.begin_list(selecting)
        namespace = rng.choice(("", *NAMESPACES))
        try:
            if size == PAGE_SIZE:
                result = await client.list(
                    "Pod", namespace, label_selector=label, field_selector=field
                )
            else:
                result = await _by_pages(client, namespace, size, label, field)
        except SchedulerError as error:
            paths["failed"] += 1
            if isinstance(error, Gone) is not server.is_gone:
                server.problems.append(f"the list ends with {error!r}; 410: {server.is_gone}")
            if isinstance(error, ConfigError) is not server.is_endless:
                server.problems.append(f"{error!r}; too many empty pages: {server.is_endless}")
        else:
            names = [pod.metadata.name for pod in result.items]
            actual = names, result.malformed, result.resource_version
            paths["read"] += 1
            paths["unreadable"] += result.malformed
            if server.is_endless:
                server.problems.append("a list is read, but has too many empty pages")
            if actual != server.expected:
                server.problems.append(f"the list is {actual}, not {server.expected}")
            if len(result.errors) != server.errors:
                server.problems.append(f"{len(result.errors)} errors, not {server.errors}")
        if server.problems:
            break
    return server.problems


def run_lists(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a list differs from what is stored.
    """
    problems = run_virtually(_lists(seed, Counter()))
    problems += line_problems(seeded_random(seed + 4))
    assert not problems, problems[0]
