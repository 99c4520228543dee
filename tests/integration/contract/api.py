"""A plain HTTP client for the contract suite: it hides nothing, and notes every answer.

What differs from server to server though both are right (UIDs, versions, times) is replaced by
tokens in the notes, so that the notes of two servers can be compared word by word.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

#: Longer than any answer takes; a watch that stays silent for so long has failed its test.
ANSWER_S_MAX = 30.0
_STARTING_CACHE_S = 0.1

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Answer(NamedTuple):
    """A code and what came with it; ``text`` if that is not JSON."""

    code: int
    body: Any
    headers: dict[str, str]

    @property
    def reason(self) -> str | None:
        return self.body.get("reason") if isinstance(self.body, dict) else None

    @property
    def message(self) -> str:
        return str(self.body.get("message")) if isinstance(self.body, dict) else str(self.body)


def _is_of_a_starting_cache(answer: Answer) -> bool:
    return answer.code == 429 and "storage is (re)initializing" in answer.message


class Watch:
    """The events of a watch, in order."""

    def __init__(self, api: Api, response: http.client.HTTPResponse) -> None:
        self._api = api
        self._response = response

    def next(self) -> tuple[str, Any]:
        """Returns type and object of the next event.

        Raises:
            EOFError: the server has ended the watch.
        """
        line = self._response.readline()
        if not line:
            raise EOFError
        event = json.loads(line)
        self._api.note("event", event["type"], event["object"])
        return event["type"], event["object"]

    def take(self, count: int) -> list[tuple[str, str]]:
        """Returns type and object name of the next ``count`` events."""
        events = [self.next() for _ in range(count)]
        return [(kind, obj.get("metadata", {}).get("name", "")) for kind, obj in events]


class Api:
    """One API server, as one identity."""

    def __init__(
        self, url: str, context: ssl.SSLContext, *, headers: dict[str, str] | None = None
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._context = context
        self._headers = headers or {}
        self._impersonated_groups: tuple[str, ...] = ()
        self.notes: list[Any] = []

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
        """Sends a request; ``body`` is dumped as JSON unless it is bytes.

        kube-apiserver answers 429 while the cache of a kind starts, which happens anew after
        each change of a definition; such a request is sent again, as client-go does.
        """
        deadline = time.monotonic() + ANSWER_S_MAX
        while True:
            answer = self._ask(method, path, body, content_type, accept, query)
            if not _is_of_a_starting_cache(answer) or time.monotonic() > deadline:
                break
            time.sleep(_STARTING_CACHE_S)
        self.note(f"{method} {path} {sorted(query.items())}", answer.code, answer.body)
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        accept: str,
        query: dict[str, str],
    ) -> Answer:
        connection = self._connect()
        try:
            response = self._send(connection, method, path, body, content_type, accept, query)
            content = response.read()
        finally:
            connection.close()
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            before = headers.get(name.lower())
            headers[name.lower()] = value if before is None else f"{before}, {value}"
        parsed: Any = content.decode("utf-8", "replace")
        if headers.get("content-type", "").startswith("application/json"):
            parsed = json.loads(content)
        return Answer(response.status, parsed, headers)

    def get(self, path: str, **query: str) -> Answer:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("POST", path, body, **query)

    def put(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("PUT", path, body, **query)

    def patch(self, path: str, body: Any, how: str = MERGE, **query: str) -> Answer:
        return self.ask("PATCH", path, body, content_type=how, **query)

    def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return self.ask("DELETE", path, body, **query)

    @contextmanager
    def watch(self, path: str, *, accept: str = JSON, **query: str) -> Iterator[Watch]:
        """Opens a watch; ``with api.watch(path, resourceVersion=...) as watch: watch.next()``."""
        connection = self._connect()
        try:
            asked = {"watch": "true", **query}
            response = self._send(connection, "GET", path, None, JSON, accept, asked)
            assert response.status == 200, response.read()
            yield Watch(self, response)
        finally:
            connection.close()

    def note(self, what: str, code: Any, body: Any) -> None:
        """Keeps an answer for the comparison."""
        self.notes.append((what, code, body))

    def acting_as(self, user: str, *groups: str) -> Api:
        """Returns the same server for another user; the answers are noted here."""
        other = Api.__new__(Api)
        other.__dict__.update(self.__dict__)
        other._headers = {**self._headers, "impersonate-user": user}
        other._impersonated_groups = groups
        return other

    def eventually(self, ask: Callable[[], Answer], code: int) -> Answer:
        """Asks until the code of the answer is ``code``; notes the last answer only.

        kube-apiserver decides by a cache of the roles, which follows a write some milliseconds
        later.
        """
        deadline = time.monotonic() + ANSWER_S_MAX
        while True:
            noted = len(self.notes)
            answer = ask()
            if answer.code == code or time.monotonic() > deadline:
                return answer
            del self.notes[noted:]

    def transcript(self) -> list[Any]:
        """Returns all answers so far, with tokens for what may differ."""
        notes: list[Any] = Tokens().replaced(self.notes)
        return notes

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._host, self._port, context=self._context, timeout=ANSWER_S_MAX
        )

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        accept: str,
        query: dict[str, str],
    ) -> http.client.HTTPResponse:
        url = f"{path}?{urlencode(query)}" if query else path
        headers = {"accept": accept, **self._headers}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["content-type"] = content_type
        connection.putrequest(method, url, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        for group in self._impersonated_groups:
            connection.putheader("impersonate-group", group)
        if data is not None:
            connection.putheader("content-length", str(len(data)))
        connection.endheaders(data)
        return connection.getresponse()


class Tokens:
    """Replaces what each server makes up by itself: equal values get equal tokens."""

    _UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
    _TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
    _AGE = re.compile(r"\d{1,2}s")
    _VERSION_IN_TEXT = re.compile(r"\b\d{2,}\b|(?<=selfType)\d+")  # or the number of a type

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}

    def replaced(self, value: Any, field: str = "") -> Any:
        """Returns ``value`` with tokens, without fields that are irrelevant for behaviour."""
        if isinstance(value, dict):
            return {
                name: self.replaced(below, name)
                for name, below in value.items()
                if name != "selfLink"
            }
        if field == "managedFields" and isinstance(value, list):
            # They stand in the order of their times, whose second may be another one by chance.
            value = sorted(
                value, key=lambda entry: json.dumps({**entry, "time": ""}, sort_keys=True)
            )
        if isinstance(value, list | tuple):
            return [self.replaced(below, field) for below in value]
        if not isinstance(value, str):
            return value
        if field in ("resourceVersion", "continue"):
            return f"<{field}>" if value else value
        if field == "message":
            value = self._VERSION_IN_TEXT.sub("<n>", self._UID.sub("<uid>", value))
        if field == "cells" and self._AGE.fullmatch(value):
            return "<age>"  # a slow answer may come a second later
        value = self._UID.sub(lambda found: self._uid(found.group()), value)
        return self._TIME.sub("<time>", value)

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids)}>")
