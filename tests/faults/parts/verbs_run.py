"""Every verb of the client: what it sends, and what it makes of each form of an answer.

Names may need quoting, options are drawn; answers are objects, Statuses of each code and reason,
pages of a proxy, or nothing that can be read. The reference writes each request down as a path, a
query and plain JSON, and each error as a type with its fields.

Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go; the API reference of the verbs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import msgspec

from mooring.client import Client
from mooring.client.rest.client import Patch
from mooring.client.rest.responses import error_in_stream
from mooring.client.transport.transport import Pool, Request, Response
from mooring.clock import Rng, seeded_random
from mooring.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from tests.faults.parts.virtual_runs import check_run

CALLS: Final = 60
TEXT_MAX: Final = 1024
WAIT_S_MAX: Final = 120.0
JSON: Final = "application/json"
#: Kind -> the root of its paths, its resource, and whether it has a namespace.
KINDS: Final = {
    "Pod": ("/api/v1", "pods", True),
    "Node": ("/api/v1", "nodes", False),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
}
#: Names, and how they are written in a path.
NAMES: Final = (("web-0", "web-0"), ("a.b", "a.b"), ("a b", "a%20b"), ("a/b?c", "a%2Fb%3Fc"))
TYPES: Final = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    500: ServerError,
    503: ServerError,
    504: ServerError,
}
REASONS: Final = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Gone": Gone}
OTHER_REASONS: Final = ("", "", "NotFound", "Invalid", "Nonsense")
FORMATS: Final = {
    Patch.JSON: "application/json-patch+json",
    Patch.MERGE: "application/merge-patch+json",
    Patch.STRATEGIC: "application/strategic-merge-patch+json",
    Patch.APPLY: "application/apply-patch+yaml",
}
_WAIT: Final = "retry_after_s"


class Answers:
    """Draws answers, and what the client makes of them."""

    _rng: Rng
    _answer: Response | SchedulerError

    def _drawn(self, what: str, kind: str, *, is_read: bool) -> tuple[Any, int]:
        """Draws an answer; returns the result, and how often the request is sent."""
        rng = self._rng
        draw = rng.random()
        if draw < 0.3:
            body = b'{"metadata":{"name":"stored","resourceVersion":"8"}}'
            self._answer = Response(rng.choice((200, 201)), {}, body)
            return (body if kind == "bytes" else ("stored", "8") if kind else None), 1
        if draw < 0.38:
            self._answer = Response(200, {}, b"<html>")
            if not kind or kind == "bytes":
                return (b"<html>" if kind else None), 1
            return ("undecodable" if is_read else (OutcomeUnknown, "undecodable")), 1
        if draw < 0.5:
            self._answer = error = rng.choice((Unreachable("away"), OutcomeUnknown("lost")))
            if is_read:
                return (Unreachable, str(error)), 10
            return (type(error), str(error)), 1
        return self._refused(what, is_read=is_read)

    def _refused(self, what: str, *, is_read: bool) -> tuple[Any, int]:
        rng = self._rng
        code = rng.choice(tuple(TYPES))
        self._answer, facts = self._refusal(what, code)
        error_type, wait_s = facts[0], facts[-2]
        if is_read:
            transient = issubclass(error_type, ServerError | TooManyRequests)
            return facts, 10 if transient else 1
        tries = 10 if code in (429, 503) and wait_s is not None else 1
        if code >= 500:
            return (OutcomeUnknown, facts[1]), tries
        return facts, tries

    def _refusal(self, what: str, code: int) -> tuple[Response, tuple[Any, ...]]:
        """Returns the answer that refuses a request, and the facts of its error."""
        rng = self._rng
        message = rng.choice(("no", "", "größer", "x" * 3000))
        reason = rng.choice((*REASONS, *OTHER_REASONS))
        causes = [{"field": "spec.a", "message": "bad", "reason": "FieldValueInvalid"}]
        header, header_s = self._header()
        headers = {"retry-after": header, "date": _date(0.0)} if header else {}
        if header and rng.random() < 0.2 and not header.strip().isdigit():
            del headers["date"]
            header_s = None
        form = rng.choice(("status", "status", "text", "nothing"))
        if form != "status":
            text = b"  a proxy says no\n" + b"y" * rng.choice((0, 2000)) if form == "text" else b""
            text_sent = text[:TEXT_MAX].decode().strip() or "no message"
            cls = TYPES[code]
            message = f"{what}: {text_sent}"[:TEXT_MAX]
            return Response(code, headers, text), (cls, message, code, "", (), header_s, "")
        status: dict[str, Any] = {"kind": "Status", "code": code}
        status |= {"message": message} if message else {}
        status |= {"reason": reason} if reason else {}
        details: dict[str, Any] = {}
        if rng.random() < 0.4:
            details["causes"] = causes
        if rng.random() < 0.3:
            details["retryAfterSeconds"] = asked_s = rng.choice((0, 5, 500, -3))
            if header_s is None:
                header_s = float(min(asked_s, WAIT_S_MAX)) if asked_s > 0 else None
        if details:
            status["details"] = details
        body = json.dumps(status, ensure_ascii=False).encode()
        cls = REASONS.get(reason, TYPES[code])
        text_sent = message or body[:TEXT_MAX].decode("utf-8", "replace")
        text_causes: tuple[str, ...] = ("spec.a: bad",) if "causes" in details else ()
        text_ = f"{what}: {text_sent}"[:TEXT_MAX]
        facts = (cls, text_, code, reason, text_causes, header_s, message[:TEXT_MAX])
        return Response(code, headers, body), facts

    def _header(self) -> tuple[str, float | None]:
        """Returns a Retry-After, and the seconds that it asks for."""
        seconds = self._rng.choice((0.0, 4.0, 119.0, 121.0, 4000.0))
        asked_s = min(seconds, WAIT_S_MAX)
        return self._rng.choice(
            (
                ("", None),
                ("", None),
                (f"{int(seconds)}", asked_s),
                (f" {int(seconds)} ", asked_s),
                (_date(seconds), asked_s),
                (_date(-50.0), 0.0),
                ("soon", None),
                ("-5", None),
                ("1.5", None),
                ("²", None),
            )
        )


class ComparedCalls(Answers):
    """Compares the requests and the result of a call."""

    problems: list[str]
    _sent: list[Request]
    _client: Client
    _on_send: int
    _allowed_s: float

    async def _check(
        self,
        call: Callable[[], Any],
        expected: Request,
        kind: str,
        *,
        body: Any = None,
        is_noted: bool = False,
        is_once: bool = False,
    ) -> None:
        """Makes a call, and compares its requests and its result.

        Args:
            call: Makes it.
            expected: The request but for its body.
            kind: Of the object that it returns; "bytes" for the body, "" for nothing.
            body: Of the request.
            is_noted: Each try is noted.
            is_once: It is not sent again, whatever the server asks for.
        """
        rng, is_read = self._rng, expected.method == "GET"
        self._sent.clear()
        self._client._waits._waits.clear()
        self._on_send, self._allowed_s = 0, rng.choice((1e9, 1e9, 1e9, 2.0, 0.0))
        outcome = self._drawn(f"{expected.method} {expected.path}", kind, is_read=is_read)
        if not is_read and self._allowed_s <= 0:
            outcome = (LeaseLost, "the lease is lost"), 0
        try:
            result = await call()
            real: Any = result if kind == "bytes" else _plain(result)
        except SchedulerError as error:
            real = _facts(error)
        result, tries = outcome
        if is_once:
            tries = min(tries, 1)
        if real != result:
            self.problems.append(f"{expected.method} {expected.path}: {real}, not {result}")
        seconds = expected.deadline_s if is_read else min(expected.deadline_s, self._allowed_s)
        expected = expected._replace(deadline_s=seconds)
        for request in self._sent:
            text = json.loads(request.body) if request.body else None
            plain = request._replace(
                body=b"", query=tuple(request.query), headers=dict(request.headers)
            )
            if plain != expected or text != body:
                self.problems.append(f"sends {plain} {text}, not {expected} {body}")
        noted = len(self._sent) + (not is_read and self._allowed_s <= 0)
        if len(self._sent) != tries or (is_noted and self._on_send != noted):
            self.problems.append(f"{len(self._sent)} tries, not {tries}, {self._on_send} noted")

    def _check_stream(self) -> None:
        """Compares the error in an event of a watch."""
        code = self._rng.choice((*TYPES, 0))
        response, facts = self._refusal("watch", code or 500)
        try:
            status = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            status = None
        # The headers are not of this event, and its text is that of the Status alone.
        if status is None:
            facts = ServerError, "watch: no message", 500, "", (), None, ""
        else:
            if not code:
                del status["code"]
            asked_s = status.get("details", {}).get("retryAfterSeconds", 0)
            wait_s = float(min(asked_s, WAIT_S_MAX)) if asked_s > 0 else None
            text = f"watch: {status.get('message') or 'no message'}"[:TEXT_MAX]
            facts = (facts[0], text, *facts[2:5], wait_s, facts[6])
        line = response.body if status is None else json.dumps(status).encode()
        real = _facts(error_in_stream(line))
        if real != facts:
            self.problems.append(f"the event {line!r} is {real}, not {facts}")

    def _written(
        self,
        method: str,
        path: str,
        content_type: str = JSON,
        *,
        query: tuple[tuple[str, str], ...] = (),
        seconds: float = 10.0,
    ) -> Request:
        headers = {"content-type": content_type, "accept": JSON}
        return Request(method, path, seconds, query=query, headers=headers, pool=Pool.WRITE)


class VerbsRun(ComparedCalls):
    """One run.

    Attributes:
        problems: Differences.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._sent: list[Request] = []
        self._answer: Response | SchedulerError = Response(200, {}, b"{}")
        self._allowed_s = 1e9
        self._on_send = 0
        self._client = Client(self, rng=self._rng, fence=self._fence, sleep=_no_wait)

    def _fence(self) -> float:
        if self._allowed_s <= 0:
            raise LeaseLost("the lease is lost")
        return self._allowed_s

    # -- the transport ----------------------------------------------------------------------------

    async def request(self, request: Request) -> Response:
        """Answers as drawn."""
        self._sent.append(request)
        if isinstance(self._answer, SchedulerError):
            raise self._answer
        return self._answer

    def stream(self, *_: Any, **__: Any) -> Any:
        """Is not called."""
        raise AssertionError("nothing is watched")

    async def close(self) -> None:
        """Has nothing to close."""

    # -- calls ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Makes the calls."""
        verbs = (
            self._get,
            self._create,
            self._replace,
            self._patch,
            self._delete,
            self._bind,
            self._evict,
            self._status,
            self._write,
        )
        for _ in range(CALLS):
            await self._rng.choice(verbs)()
            self._check_stream()

    def _place(self, *, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[str, str, str, str, str]:
        """Returns a kind, a namespace, a name, and the paths of the collection and the object."""
        rng = self._rng
        kind, (namespace, quoted_namespace), (name, quoted) = (
            rng.choice(kinds),
            rng.choice(NAMES),
            rng.choice(NAMES),
        )
        root, resource, is_namespaced = KINDS[kind]
        path = f"{root}/{resource}"
        if is_namespaced:
            path = f"{root}/namespaces/{quoted_namespace}/{resource}"
        else:
            namespace = rng.choice(("", namespace))
        return kind, namespace, name, path, f"{path}/{quoted}"

    def _object(self, kind: str, namespace: str, name: str) -> Any:
        metadata = {"name": name, "namespace": namespace, "uid": "1-2", "resourceVersion": "7"}
        return decode(json.dumps({"metadata": metadata}).encode(), kind_named(kind))

    def _noted(self) -> None:
        self._on_send += 1

    async def _get(self) -> None:
        kind, namespace, name, _, path = self._place()
        expected = Request("GET", path, 30.0, headers={"accept": JSON})
        await self._check(lambda: self._client.get(kind, name, namespace), expected, kind)

    async def _create(self) -> None:
        kind, namespace, name, path, _ = self._place()
        obj = self._object(kind, namespace, name)
        manager = self._rng.choice(("mooring", "other", ""))
        query = (("fieldManager", manager),) if manager else ()
        await self._check(
            lambda: self._client.create(obj, field_manager=manager),
            self._written("POST", path, query=query),
            kind,
            body=_document(kind, namespace, name),
        )

    async def _replace(self) -> None:
        kind, namespace, name, _, path = self._place()
        obj, part = self._object(kind, namespace, name), self._rng.choice(("", "status"))
        await self._check(
            lambda: self._client.replace(obj, subresource=part, on_send=self._noted),
            self._written("PUT", f"{path}/{part}" if part else path),
            kind,
            body=_document(kind, namespace, name),
            is_noted=True,
        )

    async def _patch(self) -> None:
        rng = self._rng
        kind, namespace, name, _, path = self._place()
        how, part = rng.choice(tuple(Patch)), rng.choice(("", "status"))
        manager, force, pool = (
            rng.choice(("mooring", "")),
            rng.random() < 0.5,
            rng.choice((Pool.WRITE, Pool.LEASE)),
        )
        query = [("fieldManager", manager)] if manager else []
        if force and how is Patch.APPLY:
            query.append(("force", "true"))
        patch: Any = rng.choice(({"spec": {"a": [1]}}, b'{"spec":{"a":[1]}}'))
        await self._check(
            lambda: self._client.patch(
                kind,
                name,
                patch,
                namespace=namespace,
                how=how,
                subresource=part,
                field_manager=manager,
                force=force,
                pool=pool,
                on_send=self._noted,
            ),
            self._written(
                "PATCH", f"{path}/{part}" if part else path, FORMATS[how], query=tuple(query)
            )._replace(pool=pool),
            kind,
            body={"spec": {"a": [1]}},
            is_noted=True,
        )

    async def _delete(self) -> None:
        rng = self._rng
        kind, namespace, name, _, path = self._place()
        uid, version = rng.choice(("", "1-2")), rng.choice(("", "7"))
        grace_s, how = rng.choice((None, 0, 30)), rng.choice(("", "Background"))
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or version:
            body["preconditions"] = {}
            body["preconditions"] |= {"uid": uid} if uid else {}
            body["preconditions"] |= {"resourceVersion": version} if version else {}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if how:
            body["propagationPolicy"] = how
        await self._check(
            lambda: self._client.delete(
                kind,
                name,
                namespace,
                uid=uid,
                resource_version=version,
                grace_period_s=grace_s,
                propagation=how,
            ),
            self._written("DELETE", path),
            "",
            body=body,
        )

    async def _bind(self) -> None:
        kind, namespace, name, _, path = self._place(kinds=("Pod",))
        pod, seconds = self._object(kind, namespace, name), self._rng.choice((10.0, 3.0))
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": "1-2"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
        }
        await self._check(
            lambda: self._client.bind(pod, "a", deadline_s=seconds, on_send=self._noted),
            self._written("POST", f"{path}/binding", seconds=seconds),
            "",
            body=body,
            is_noted=True,
        )

    async def _evict(self) -> None:
        kind, namespace, name, _, path = self._place(kinds=("Pod",))
        pod, grace_s = self._object(kind, namespace, name), self._rng.choice((None, 0, 30))
        options: dict[str, Any] = {"preconditions": {"uid": "1-2"}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        await self._check(
            lambda: self._client.evict(pod, grace_period_s=grace_s),
            self._written("POST", f"{path}/eviction", seconds=30.0),
            "",
            body=body,
            is_once=True,
        )

    async def _status(self) -> None:
        kind, namespace, name, _, path = self._place(kinds=("Pod",))
        pod = self._object(kind, namespace, name)
        await self._check(
            lambda: self._client.patch_pod_status(pod, {"nominatedNodeName": "a"}),
            self._written(
                "PATCH",
                f"{path}/status",
                FORMATS[Patch.STRATEGIC],
                query=(("fieldManager", "mooring"),),
            ),
            kind,
            body={"metadata": {"uid": "1-2"}, "status": {"nominatedNodeName": "a"}},
        )

    async def _write(self) -> None:
        expected = self._written("POST", "/any", "a/b", query=(("a", "b"),), seconds=7.0)
        await self._check(
            lambda: self._client.write(
                "POST",
                "/any",
                b'{"a":1}',
                content_type="a/b",
                query=(("a", "b"),),
                deadline_s=7.0,
                pool=Pool.LEASE,
                tries=1,
                on_send=self._noted,
            ),
            expected._replace(pool=Pool.LEASE),
            "bytes",
            body={"a": 1},
            is_noted=True,
            is_once=True,
        )

    # -- comparison -------------------------------------------------------------------------------


def _plain(result: Any) -> Any:
    if result is None:
        return None
    return result.metadata.name, result.metadata.resource_version


def _facts(error: SchedulerError) -> Any:
    text = str(error)
    if isinstance(error, OutcomeUnknown) and "cannot decode" in text:
        text = "undecodable"
    if isinstance(error, ApiError):
        wait_s = getattr(error, _WAIT)
        return (
            type(error),
            text,
            error.status,
            error.reason,
            error.causes,
            wait_s,
            error.server_message,
        )
    others = LeaseLost, OutcomeUnknown, Unreachable
    return (type(error), text) if isinstance(error, others) else "undecodable"


def _document(kind: str, namespace: str, name: str) -> dict[str, Any]:
    root = KINDS[kind][0].removeprefix("/apis/").removeprefix("/api/")
    metadata = {"name": name, "uid": "1-2", "resourceVersion": "7"}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": root, "kind": kind, "metadata": metadata}


def _date(after_s: float) -> str:
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=after_s)  # noqa: UP017
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


async def _no_wait(_: float) -> None:
    """Waits no time."""
    await asyncio.sleep(0)


def run_verbs(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a request or a result differs from the reference.
    """
    check_run(VerbsRun, seed)
