"""The scenarios of the contract, in process: without a control plane, sockets and waiting.

That they are true of kube-apiserver is tested where both servers run, in integration/contract.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.integration.contract.api import JSON, Answer, Api
from tests.integration.contract.scenario import SCENARIO_FILES, SCENARIOS

for _name in SCENARIO_FILES:
    importlib.import_module(f"tests.integration.contract.scenarios_{_name}")

#: They wait for the end of a watch, are about grace periods, or about the door.
NOT_HERE = {
    "certificates-approving_and_signing_need_the_permission_for_the_signer",
    "certificates-certificates_of_requests_are_validated",
    "certificates-decisions_about_a_certificate_are_final",
    "certificates-the_requester_of_a_certificate_is_the_client",
    "components-components_are_not_public",
    "customs-a_role_allows_custom_resources",
    "lists-a_watch_ends_when_its_time_is_up",
    "paths-a_deprecated_watch_of_nothing_ends",
    "paths-deprecated_paths_are_authorized_as_watches",
    "requests-answers_are_for_one_client_only",
    "requests-long_selectors_are_read",
    "roles-a_binding_of_a_missing_role_is_named",
    "roles-a_role_allows_its_verbs_and_resources",
    "roles-a_rules_review_lists_the_rules",
    "roles-bind_and_escalate_are_verbs",
    "roles-groups_and_accounts_are_subjects",
    "roles-impersonation_is_a_verb",
    "roles-who_may_patch_or_update_creates_only_with_the_right_to_create",
    "roles-nobody_grants_what_he_does_not_have",
}


class LocalWatch:
    """The lines of a watch, taken from the server's own stream."""

    def __init__(self, api: LocalApi, chunks: AsyncIterator[bytes]) -> None:
        self._api = api
        self._chunks = chunks
        self._lines: list[bytes] = []

    def next(self) -> tuple[str, Any]:
        while not self._lines:
            try:
                chunk = self._api.loop.run_until_complete(asyncio.wait_for(anext(self._chunks), 5))
            except StopAsyncIteration:
                raise EOFError from None
            self._lines = chunk.splitlines()
        event = json.loads(self._lines.pop(0))
        return event["type"], event["object"]

    def take(self, count: int) -> list[tuple[str, str]]:
        events = [self.next() for _ in range(count)]
        return [(kind, result.get("metadata", {}).get("name", "")) for kind, result in events]


class LocalApi(Api):
    """An API server in the same process, with the interface of ``Api``."""

    def __init__(self, server: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self.loop = server, loop
        self.notes: list[Any] = []

    def _handle(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> tuple[int, Any, Any]:
        headers = {"accept": accept}
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["content-type"] = content_type
        pairs = list(query.items())
        answer = self.server.handle(method, path, pairs, headers, content)
        return self.loop.run_until_complete(answer)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> Answer:
        code, headers, content = self._handle(method, path, query, body, content_type, accept)
        if not isinstance(content, bytes):
            content = self.loop.run_until_complete(_all_of(content))
        parsed: Any = content.decode("utf-8", "replace")
        if headers.get("content-type", "").startswith("application/json"):
            parsed = json.loads(content)
        self.note(f"{method} {path}", code, parsed)
        return Answer(code, parsed, headers)

    @contextmanager
    def watch(self, path: str, *, accept: str = JSON, **query: str) -> Iterator[Any]:
        watch_query = {"watch": "true", **query}
        code, _, chunks = self._handle("GET", path, watch_query, accept=accept)
        assert code == 200, chunks
        yield LocalWatch(self, chunks)
        self.loop.run_until_complete(chunks.aclose())


async def _all_of(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


@pytest.fixture
def api() -> Iterator[LocalApi]:
    with asyncio.Runner() as runner:
        server = ApiServer(VirtualClock(), seeded_random(0))
        yield LocalApi(server, runner.get_loop())


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in NOT_HERE])
def test_in_process(api: LocalApi, name: str) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "contract"}}
    assert api.post("/api/v1/namespaces", space).code == 201
    api.notes.clear()
    SCENARIOS[name](api, "contract")
