"""Calls of extenders, from the plugin interface to the connection, and every form of an answer.

The pool of connections is one that answers as drawn. The reference says where a call goes, how long
it may take, which document is sent, what an answer means as Go reads it (fields in any case, null
for none), the text of each error, and the metrics. Whole objects are texts that stay as they are.

Source: pkg/scheduler/extender.go (Filter, Prioritize, ProcessPreemption, send); encoding/json.
"""

from __future__ import annotations

import asyncio
import json
import math
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from mooring.client import Client
from mooring.client.transport.transport import AnswerTooLong, Request, Response
from mooring.clock import Rng, seeded_random
from mooring.config.types import Extender, ExtenderManagedResource
from mooring.errors import ExtenderError
from mooring.extenders import Extenders
from mooring.extenders import http as http_module
from mooring.framework.status import Candidate
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from mooring.state import PodInfo
from mooring.virtual_loop import LoopClock
from tests.faults.parts.call_reads import BindingReads
from tests.faults.parts.extender_addresses import address_problems, several_problems
from tests.faults.parts.virtual_runs import check_run

CALLS: Final = 50
USUAL_S: Final = 5.0
NAMES_MAX: Final = 16 * 1024 * 1024
OBJECTS_MAX: Final = 128 * 1024 * 1024
CONNECTIONS: Final = 64
NODES: Final = ("a", "b", "c")
VERBS: Final = ("filter", "prioritize", "preempt", "bind")
#: URL prefix, as it is public, and the credentials in it.
URLS: Final = (
    ("http://one", "http://one", ""),
    ("http://one/root/", "http://one/root/", ""),
    ("http://me:secret@one", "http://me:***@one", "me:secret"),
    ("http://m%40e:s@one:80", "http://m%40e:***@one:80", "m@e:s"),
    ("https://one", "https://one", ""),
    ("ftp://one", "ftp://one", ""),
    ("http://", "http://", ""),
)
UNUSABLE: Final = {
    "ftp://one": 'unsupported protocol scheme "ftp"',
    "http://": "no Host in request URL",
}
BIG: Final = 2**63
#: These may come before the request was sent or after that; so often it is the rarer way.
UNSENT: Final = (TimeoutError, OSError, ValueError)
UNSENT_SHARE: Final = 0.4
#: An answer to a binding, in the longest timeout.
SLOW_S: Final = 6.5


class Pool:
    """A pool whose answers are drawn."""

    def __init__(self, run: CallsRun, url: str, options: dict[str, Any]) -> None:
        self.run, self.url = run, url
        self.is_closed = False
        run.opened(url, options)

    async def request(
        self,
        request: Request,
        headers: Mapping[str, str],
        is_sent: Callable[[], None],
        *,
        due_s: float,
    ) -> Response:
        """Answers a request."""
        return await self.run.answer(request, dict(headers), is_sent, due_s)

    async def close(self) -> None:
        """Notes it."""
        self.is_closed = True
        self.run.closed += 1


class CallDocuments:
    """Draws what is sent, and what is answered; each with its meaning."""

    _rng: Rng
    _gone: set[str]

    def _config(self) -> Extender:
        rng = self._rng
        verbs = {f"{verb}_verb": rng.choice((verb, verb, f"my{verb}", "")) for verb in VERBS}
        resources = rng.choice(((), ("cpu",), ("example.com/a",), ("example.com/a", "memory")))
        return Extender(
            url_prefix=rng.choice(URLS)[0],
            weight=rng.randrange(1, 5),
            http_timeout_s=rng.choice((0.0, 0.5, 7.0)),
            node_cache_capable=rng.random() < 0.5,
            ignorable=rng.random() < 0.5,
            managed_resources=tuple(ExtenderManagedResource(name=name) for name in resources),
            **verbs,  # type: ignore[arg-type]
        )

    async def _whole_pod(self, pod: PodInfo) -> bytes:
        return b'{"whole":"%s"}' % pod.uid.encode()

    async def _whole_nodes(self, names: Sequence[str]) -> dict[str, bytes]:
        return {name: b'{"node":"%s"}' % name.encode() for name in names if name not in self._gone}

    async def _whole_pods(self, pods: Sequence[PodInfo]) -> dict[str, bytes]:
        return {
            pod.uid: b'{"victim":"%s"}' % pod.uid.encode()
            for pod in pods
            if pod.uid not in self._gone
        }

    def _document(
        self, kind: str, config: Extender, pod: PodInfo, names: list[str]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Returns what is sent, and the arguments of the call."""
        rng, whole = self._rng, {"whole": pod.uid}
        document: dict[str, Any]
        if kind == "bind":
            metadata = pod.metadata
            node = rng.choice(NODES)
            document = {
                "PodName": metadata.name,
                "PodNamespace": metadata.namespace,
                "PodUID": metadata.uid,
                "Node": node,
            }
            return document, (node,)
        if kind in ("filter", "prioritize"):
            if config.node_cache_capable:
                return {"Pod": whole, "Nodes": None, "NodeNames": names}, (names,)
            items = [{"node": name} for name in names if name not in self._gone]
            nodes = {"metadata": {}, "items": items}
            return {"Pod": whole, "Nodes": nodes, "NodeNames": None}, (names,)
        victims = {name: rng.sample(("v1", "v2"), rng.randrange(3)) for name in names}
        violations = {name: rng.randrange(3) for name in names}
        candidates = [
            Candidate(name, tuple(PodInfo(_pod({}, uid)) for uid in uids), violations[name])
            for name, uids in victims.items()
        ]
        if config.node_cache_capable:
            by_node: Any = {
                name: {
                    "Pods": [{"UID": uid} for uid in uids],
                    "NumPDBViolations": violations[name],
                }
                for name, uids in victims.items()
            }
            document = {"Pod": whole, "NodeNameToVictims": None, "NodeNameToMetaVictims": by_node}
            return document, (candidates,)
        by_node = {
            name: {
                "Pods": [{"victim": uid} for uid in uids if uid not in self._gone],
                "NumPDBViolations": violations[name],
            }
            for name, uids in victims.items()
        }
        document = {"Pod": whole, "NodeNameToVictims": by_node, "NodeNameToMetaVictims": None}
        return document, (candidates,)

    def _meaning(self, kind: str, names: list[str], *, is_capable: bool) -> tuple[bytes, Any]:
        """Draws an answer; returns it, and what it means: the result, or the text of an error."""
        rng = self._rng
        if kind == "bind":
            error = rng.choice((None, "", "no"))
            return _json(rng, {"Error": error}), error or None
        if kind == "filter":
            return self._filtered(names, is_capable=is_capable)
        if kind == "prioritize":
            return self._prioritized()
        uids = {name: rng.choices(("v1", "v2"), k=rng.randrange(3)) for name in NODES}
        nodes = rng.sample(NODES, rng.randrange(4))
        counts = {name: rng.choice((None, 0, 2)) for name in nodes}
        document: Any = {
            name: _cased(
                rng,
                {
                    "Pods": [_cased(rng, {"UID": uid}) for uid in uids[name]] or None,
                    "NumPDBViolations": counts[name],
                },
            )
            for name in nodes
        }
        body = _json(rng, {"NodeNameToMetaVictims": document or None})
        return body, {name: (tuple(uids[name]), counts[name] or 0) for name in nodes}

    def _filtered(self, names: list[str], *, is_capable: bool) -> tuple[bytes, Any]:
        rng = self._rng
        listed: Any = rng.choice((names, rng.sample(NODES, 2), None))
        nodes = rng.sample(NODES, rng.randrange(3))
        failed: Any = rng.choice((None, {}, {"a": "no", "b": None}))
        unresolvable: Any = rng.choice((None, {"c": "never"}))
        error = rng.choice((None, None, "", "broken"))
        items = [{"metadata": {"name": name, "uid": 5}, "spec": {}} for name in nodes]
        body = _json(
            rng,
            {
                "Nodes": rng.choice(({"items": items}, {"Items": items})) if nodes else None,
                "NodeNames": listed,
                "FailedNodes": failed,
                "FailedAndUnresolvableNodes": unresolvable,
                "Error": error,
            },
        )
        if error:
            return body, error
        result = listed if is_capable and listed is not None else nodes
        texts = {node: text or "" for node, text in (failed or {}).items()}
        return body, (result, texts, unresolvable or {})

    def _prioritized(self) -> tuple[bytes, Any]:
        rng = self._rng
        scores = [rng.choice((0, 5, -3, BIG - 1, -BIG)) for _ in range(rng.randrange(4))]
        hosts = [rng.choice((*NODES, "")) for _ in scores]
        entries: list[Any] = [
            {"Host": host, "Score": score} for host, score in zip(hosts, scores, strict=True)
        ]
        draw = rng.random()
        if draw < 0.2:
            return rng.choice((b"null", b"[]")), ([], [])
        error = ""
        if draw < 0.5:
            entries = [_cased(rng, entry) for entry in entries]
        elif draw < 0.8:
            bad, error = rng.choice(
                (
                    ({"Host": 5, "Score": 1}, "Host: must be a string"),
                    ({"Host": "a", "Score": 1.5}, "Score: must be a whole number"),
                    ({"host": "a", "score": True}, "Score: must be a whole number"),
                    ({"Host": "a", "Score": BIG}, f"Score: {BIG} is not an int64"),
                    ({"Host": "a", "Score": -BIG - 1}, f"Score: {-BIG - 1} is not an int64"),
                    ({"Host": None, "Score": None}, ""),
                    ({}, ""),
                )
            )
            at = rng.randrange(len(entries) + 1)
            entries.insert(at, bad)
            error = f"[{at}].{error}" if error else ""
            hosts.insert(at, "")
            scores.insert(at, 0)
        return json.dumps(entries).encode(), error or (hosts, scores)


class CallsRun(CallDocuments):
    """One run.

    Attributes:
        problems: Differences.
        closed: Pools that were closed.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.closed = 0
        self._rng = rng = seeded_random(seed)
        self._clock = LoopClock(asyncio.get_running_loop())
        self._configs = [self._config() for _ in range(rng.randint(1, 3))]
        #: How long a binding may take by the lease; ``inf`` = there is none.
        self._left_s = math.inf
        self._leases = seeded_random(seed + 1_000_000)
        self._sending = Random(f"{seed} sending")
        self._reads = BindingReads()
        client: Any = Client(None, fence=lambda: self._left_s, rng=rng)  # type: ignore[arg-type]
        self._extenders = Extenders(
            self._configs, client, clock=self._clock, rng=rng, sleep=asyncio.sleep
        )
        self._opened: list[str] = []
        whole = SimpleNamespace(pod=self._whole_pod, nodes=self._whole_nodes, pods=self._whole_pods)
        for extender in self._extenders.asked:
            extender._whole = whole  # type: ignore[assignment]
        #: What the next requests are answered, and what has been sent.
        self._script: list[Any] = []
        self._sent: list[tuple[Request, dict[str, str], float]] = []
        self._gone: set[str] = set()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._check_informers()
        self._check_metrics()

    def _check_informers(self) -> None:
        has_nodes = any(
            not config.node_cache_capable and (config.filter_verb or config.prioritize_verb)
            for config in self._configs
        )
        kinds = [informer.kind.name for informer in self._extenders.informers]
        if kinds != (["Node", "Pod"] if has_nodes else ["Pod"]):
            self.problems.append(f"the informers of {self._configs} are {kinds}")

    # -- the connection ---------------------------------------------------------------------------

    def opened(self, url: str, options: dict[str, Any]) -> None:
        """Compares how a pool is opened."""
        options = dict(options)
        tls, look_up = options.pop("tls"), options.pop("look_up")
        expected = {"server_name": None, "limit": CONNECTIONS, "user_agent": "mooring"}
        if options != expected or tls is None or not callable(look_up):
            self.problems.append(f"opens {url} with {options}")
        self._opened.append(url)

    async def answer(
        self, request: Request, headers: dict[str, str], is_sent: Callable[[], None], due_s: float
    ) -> Response:
        """Answers with the next part of the script."""
        self._sent.append((request, headers, due_s - self._clock.monotonic_s()))
        is_written, after_s, outcome = self._script.pop(0)
        if is_written:
            is_sent()
        await asyncio.sleep(after_s)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, Response)
        return outcome

    # -- calls ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Makes the calls."""
        before = vars(http_module)["Http1Pool"]
        vars(http_module)["Http1Pool"] = lambda url, **options: Pool(self, url, options)
        try:
            for _ in range(CALLS):
                number = self._rng.randrange(len(self._configs))
                self._check_facts(number)
                await self._call(number)
            await self._extenders.close()
        finally:
            vars(http_module)["Http1Pool"] = before
        if self.closed != len(self._opened):
            self.problems.append(f"{self.closed} of {len(self._opened)} pools are closed")
        self._check_metrics()

    def _check_facts(self, number: int) -> None:
        rng, config, extender = self._rng, self._configs[number], self._extenders.asked[number]
        name = rng.choice(("cpu", "memory", "example.com/a", "example.com/b"))
        where = rng.choice(("requests", "limits", "init"))
        resources = {"requests" if where == "init" else where: {name: "1"}}
        containers = [{"name": "a"}, {"name": "b", "resources": resources}]
        kind = "initContainers" if where == "init" else "containers"
        spec = {"containers": [{"name": "a"}]} | {kind: containers}
        pod = PodInfo(_pod(spec))
        managed = {resource.name for resource in config.managed_resources}
        real = (
            extender.is_interested(pod),
            extender.is_ignorable,
            extender.weight,
            extender.has_filter,
            extender.has_prioritize,
            extender.has_preempt,
            extender.has_bind,
            extender.name,
        )
        verbs = [bool(getattr(config, f"{verb}_verb")) for verb in VERBS]
        public = next(public for url, public, _ in URLS if url == config.url_prefix)
        is_interested = not managed or name in managed
        expected = (is_interested, config.ignorable, config.weight, *verbs, public)
        if real != expected:
            self.problems.append(f"an extender is {real}, not {expected}")

    async def _call(self, number: int) -> None:
        rng, config = self._rng, self._configs[number]
        extender: Any = self._extenders.asked[number]
        kind = rng.choice([verb for verb in VERBS if getattr(config, f"{verb}_verb")] or ["filter"])
        verb = getattr(config, f"{kind}_verb")
        if not verb:
            return
        pod = PodInfo(_pod({"containers": [{"name": "a"}]}))
        names = rng.sample(NODES, rng.randrange(4))
        self._gone = {it for it in (*NODES, "v1", "v2") if rng.random() < 0.2}
        document, args = self._document(kind, config, pod, names)
        body, meaning = self._meaning(kind, names, is_capable=config.node_cache_capable)
        is_big = kind == "filter" and not config.node_cache_capable
        bytes_max = OBJECTS_MAX if is_big else NAMES_MAX
        timeout_s = config.http_timeout_s if config.http_timeout_s > 0 else USUAL_S
        expected, tries, lasts_s = self._drawn(kind, config, verb, body, meaning, bytes_max)
        is_sent = bool(self._script) and self._script[0][0]
        self._reads.expect(meaning, expected, is_sent=is_sent)
        self._left_s = (
            self._leases.choice((math.inf, 0.05, 0.2, 2.0, 6.0)) if kind == "bind" else 0.0
        )
        if kind == "bind" and tries and self._left_s < min(timeout_s, lasts_s):
            # It is given up with the lease, whatever would come later.
            lasts_s, name = self._left_s, json.dumps(extender.name)
            expected = f"extender {name}: no answer to {verb} in {lasts_s:g} s"
            self._reads.expect_late()
        self._sent.clear()
        began_s = self._clock.monotonic_s()
        if kind == "bind":
            extender._is_bound_in_the_end = self._reads.read
        try:
            real = await getattr(extender, kind)(pod, *args)
        except ExtenderError as error:
            real = str(error)
            self._counts[extender.name, kind, "errors"] += 1
        lasted_s = self._clock.monotonic_s() - began_s
        self._counts[extender.name, kind, "calls"] += 1
        self._seconds[extender.name, kind] += lasted_s
        what = f"{kind} of {config.url_prefix} after {body[:200]!r}"
        if real != expected or abs(lasted_s - lasts_s) > 1e-6:
            self.problems.append(
                f"{what}: {real} in {lasted_s:.3f} s, not {expected} {lasts_s:.3f}"
            )
        if kind == "bind":
            self.problems += self._reads.problems(what)
        credentials = next(it for url, _, it in URLS if url == config.url_prefix)
        headers = {"content-type": "application/json"}
        if credentials:
            headers["authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
        place = "POST", f"/{verb}", timeout_s, bytes_max
        for request, sent_headers, left_s in self._sent:
            real_place = request.method, request.path, round(left_s, 6), request.bytes_max
            if real_place != place or sent_headers != headers:
                self.problems.append(f"{what} sends {real_place} {sent_headers}, not {place}")
            if json.loads(request.body) != document:
                self.problems.append(f"{what} sends {request.body!r}, not {document}")
        if len(self._sent) != tries:
            self.problems.append(f"{what}: {len(self._sent)} tries, not {tries}")

    def _drawn(
        self, kind: str, config: Extender, verb: str, body: bytes, meaning: Any, bytes_max: int
    ) -> tuple[Any, int, float]:
        """Draws what happens; returns the result, the requests, and the time that it takes."""
        rng = self._rng
        public = next(public for url, public, _ in URLS if url == config.url_prefix).rstrip("/")
        what = f"Post {json.dumps(f'{public}/{verb}')}"
        self._script = []
        if problem := UNUSABLE.get(config.url_prefix):
            return f"Post {json.dumps(f'{public}/{verb}')}: {problem}", 0, 0.0
        after_s = rng.choice((0.0, 0.1, 0.4))
        if kind == "bind" and config.http_timeout_s > SLOW_S and self._leases.random() < 0.4:
            after_s = SLOW_S
        self._script = [(True, after_s, Response(200, {}, body))]
        timeout_s = config.http_timeout_s if config.http_timeout_s > 0 else USUAL_S
        if rng.random() < 0.55:
            return meaning, 1, after_s
        cases: list[tuple[bool, Any, str]] = [
            (True, TimeoutError(), f"{what}: no answer in {timeout_s:g} s"),
            (False, OSError(), f"{what}: OSError"),
            (True, OSError("no route"), f"{what}: no route"),
            (True, AnswerTooLong("x"), f"{what}: its answer is longer than {bytes_max} bytes"),
            (False, ConnectionRefusedError("refused"), f"{what}: refused"),
            (True, ValueError("a line break"), f"{what}: a line break"),
        ]
        for status in (201, 302, 404, 500):
            text = f"failed {verb} with extender at URL {public}/{verb}, code {status}"
            cases.append((True, Response(status, {}, body), text))
        coded = Response(200, {"content-encoding": "gzip"}, body)
        cases.append((True, coded, f'{what}: its answer is encoded as "gzip"'))
        plain = Response(200, {"content-encoding": "identity"}, body)
        cases.append((True, plain, ""))
        is_written, outcome, text = rng.choice(cases)
        if type(outcome) in UNSENT and self._sending.random() < UNSENT_SHARE:
            is_written = not is_written
        result: Any = text or meaning
        self._script = [(is_written, after_s, outcome)]
        tries, lasts_s = 1, after_s
        if rng.random() < 0.4:
            # The connection was closed before the answer: a call without effects is repeated once.
            self._script.insert(0, (True, 0.1, ConnectionResetError("reset")))
            tries, lasts_s = 2, lasts_s + 0.1
            if kind == "bind":
                result, tries, lasts_s = f"{what}: reset", 1, 0.1
        return result, tries, lasts_s

    # -- metrics ----------------------------------------------------------------------------------

    def _check_metrics(self) -> None:
        expected: dict[tuple[str, str, str], float] = {}
        pairs = [
            (public, verb)
            for config in self._configs
            for url, public, _ in URLS
            for verb in VERBS
            if url == config.url_prefix and getattr(config, f"{verb}_verb")
        ]
        for pair in pairs:
            expected |= {(*pair, what): self._counts[*pair, what] for what in ("calls", "errors")}
            expected[*pair, "seconds"] = round(self._seconds[pair], 6)
        names = {
            "scheduler_extender_call_duration_seconds_count": "calls",
            "scheduler_extender_call_duration_seconds_sum": "seconds",
            "scheduler_extender_call_errors_total": "errors",
        }
        real = {
            (sample.labels["extender"], sample.labels["verb"], names[sample.name]): round(
                sample.value, 6
            )
            for family in self._extenders.metrics.registry.collect()
            for sample in family.samples
            if sample.name in names
        }
        if real != expected:
            self.problems.append(f"metrics are {real}, not {expected}")


def _pod(spec: dict[str, Any], uid: str = "1-2") -> Any:
    metadata = {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": "7"}
    return decode(json.dumps({"metadata": metadata, "spec": spec}).encode(), kind_named("Pod"))


def _cased(rng: Rng, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns fields with names in another case, as Go reads them, too."""
    change = rng.choice((str, str.lower, str.upper))
    return {change(name): value for name, value in fields.items()}


def _json(rng: Rng, fields: dict[str, Any]) -> bytes:
    """Returns an object: absent fields are null, or left out."""
    is_left_out = rng.random() < 0.5
    fields = {name: it for name, it in fields.items() if it is not None or not is_left_out}
    return json.dumps(
        _cased(rng, fields), separators=rng.choice(((",", ":"), (", ", ": ")))
    ).encode()


def run_calls(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a call, its result or a metric differs from the reference.
    """
    check_run(CallsRun, seed)
    rng = seeded_random(seed + 1)
    for problem in (*address_problems(rng), *several_problems(rng)):
        raise AssertionError(problem)
