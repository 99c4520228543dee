"""Two extenders behind a faulty network, and what each of their answers means.

One is ignorable. A failed ``filter`` fails the attempt, unless the extender is ignorable or only
the nominated node was sent; a failed ``prioritize`` gives no scores. A connection that was cut off
is tried once more, and nothing else is.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes,
evaluateNominatedNode).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.clock import Clock, Rng
from mooring.config.types import Extender
from mooring.extenders.http import NoResponse
from mooring.extenders.http_extender import HTTPExtender
from mooring.state import PodInfo
from tests.faults.parts.cycle_script import ERROR, UNSCHEDULABLE

TIMEOUT_S: Final = 5.0
SCORES: Final = (0, 3, 10)
FAULTS: Final = ("not sent", "lost", "cut off", "late", "500", "nonsense", "error")
NONSENSE: Final = {
    "filter": (b"<html>", b"[]", b"", b'{"NodeNames": 5}', b'{"NodeNames": ["nowhere"]}'),
    "prioritize": (b"<html>", b"{}", b"", b'[{"Host": "a", "Score": "high"}]'),
}


class Attempted:
    """Collects what the extenders answer in one attempt.

    Attributes:
        nodes: Those that all extenders have accepted so far.
        scores: Node -> the sum of its scores.
        is_of_nominated: Whether only the node was sent that the pod is nominated to.
    """

    def __init__(self, nodes: list[str], *, is_of_nominated: bool) -> None:
        self.nodes = nodes
        self.is_of_nominated = is_of_nominated
        self.scores: Counter[str] = Counter()


class FaultyExtenders:
    """The extenders, and the model.

    Attributes:
        extenders: Real ones, over a transport with faults.
        is_passive: All answers are good.

    Args:
        clock: Of the loop.
        rng: Draws all answers.
        causes: UID -> the result of the attempt at a pod, which a failure sets.
        report: Called with each problem.
    """

    def __init__(
        self, clock: Clock, rng: Rng, causes: dict[str, str], report: Callable[[str], None]
    ) -> None:
        self.is_passive = False
        self._rng, self._causes, self._report = rng, causes, report
        #: Called during each call with the UID of its pod: users act meanwhile.
        self.on_call: Callable[[str], None] = lambda _: None
        self._rate, self._accepting = rng.choice((0.0, 0.1, 0.3)), rng.choice((0.4, 0.8))
        self._attempts: dict[str, Attempted] = {}
        #: The call that has to be repeated, since its connection was cut off.
        self._repeated: tuple[str, str, bytes] | None = None
        #: The last call of ``filter``, or of ``prioritize`` of one extender, if it failed; when.
        self._failed: dict[str, tuple[tuple[str, str, bytes], float]] = {}
        self._clock = clock
        self.extenders = [
            self._made(clock, "one", is_ignorable=False),
            self._made(clock, "two", is_ignorable=True),
        ]

    def _made(self, clock: Clock, name: str, *, is_ignorable: bool) -> HTTPExtender:
        config = Extender(
            url_prefix=f"http://{name}",
            filter_verb="filter",
            prioritize_verb="prioritize",
            weight=1,
            node_cache_capable=True,
            ignorable=is_ignorable,
        )

        def post(verb: str, body: bytes, bytes_max: int) -> Awaitable[bytes]:
            del bytes_max
            return self._post(name, verb, body)

        unused: Any = None
        whole: Any = SimpleNamespace(pod=_encoded)
        return HTTPExtender(config, post, whole, client=unused, clock=clock)

    def chosen(self, info: PodInfo, node_name: str) -> None:
        """Checks a placement: all extenders accept the node, and it has the best score."""
        attempt = self._attempts.get(info.uid)
        if attempt is None or node_name not in attempt.nodes:
            self._report(f"{info.key} is placed on {node_name}, but an extender rejects it")
        elif attempt.scores[node_name] < max(attempt.scores[name] for name in attempt.nodes):
            self._report(f"{info.key} is placed on {node_name}, not on the best {attempt.scores}")

    # -- the network and the extenders ------------------------------------------------------------

    async def _post(self, name: str, verb: str, body: bytes) -> bytes:
        """Handles a call, with at most one fault."""
        rng, call = self._rng, (name, verb, body)
        expected, self._repeated = self._repeated, None
        if verb == "filter" and expected not in (None, call):
            self._report("a call whose connection was cut off is not repeated")
        is_repeated = expected == call
        # Of an attempt, all calls of ``filter`` come one after another; others are concurrent.
        stage = verb if verb == "filter" else f"{verb} {name}"
        if self._failed.pop(stage, None) == (call, self._clock.monotonic_s()):
            self._check_repeated(name, verb, json.loads(body))
        await asyncio.sleep(0.5 * rng.randrange(4))
        arguments = json.loads(body)
        self.on_call(arguments["Pod"]["metadata"]["uid"])
        has_fault = not self.is_passive and rng.random() < self._rate
        kind = rng.choice(FAULTS) if has_fault else ""
        if kind == "cut off" and not is_repeated and verb == "filter":
            self._repeated = call
            raise NoResponse("connection reset", is_cut_off=True)
        if kind == "late":
            await asyncio.sleep(TIMEOUT_S)
        if kind:
            self._failed[stage] = call, self._clock.monotonic_s()
        if verb == "filter":
            return self._filter(name, arguments, kind)
        return self._prioritize(arguments, kind)

    def _check_repeated(self, name: str, verb: str, arguments: Any) -> None:
        """Reports a call that is sent anew as soon as it has failed, without a reason."""
        # The only node may be sent once as the nominated one, and once as one of all.
        if verb != "filter" or arguments["NodeNames"] != [arguments["Pod"]["nominated"]]:
            self._report(f"{verb} of {name} is repeated, but its connection was not cut off")

    def _filter(self, name: str, arguments: Any, kind: str) -> bytes:
        pod, names = arguments["Pod"], arguments["NodeNames"]
        uid = pod["metadata"]["uid"]
        if name == "one":
            # The first extender gets all nodes, or only the one that the pod is nominated to.
            is_of_nominated = names == [pod["nominated"]]
            self._attempts[uid] = Attempted(list(names), is_of_nominated=is_of_nominated)
        elif names != self._attempts[uid].nodes:
            self._report(f"{name} gets {names}, not {self._attempts[uid].nodes}")
        if kind:
            if name == "one":
                self._causes[uid] = ERROR
            return self._fail(kind, "filter")
        is_strict = not self.is_passive
        accepted = [node for node in names if not is_strict or self._rng.random() < self._accepting]
        self._attempts[uid].nodes = accepted
        if not accepted:
            # If it is the nominated node alone, all nodes follow, and what they end with counts.
            self._causes[uid] = UNSCHEDULABLE
        return json.dumps({"NodeNames": accepted}).encode()

    def _prioritize(self, arguments: Any, kind: str) -> bytes:
        uid, names = arguments["Pod"]["metadata"]["uid"], arguments["NodeNames"]
        if names != self._attempts[uid].nodes:
            self._report(f"{names} get scores, not {self._attempts[uid].nodes}")
        if kind:
            return self._fail(kind, "prioritize")
        scores = {name: self._rng.choice(SCORES) for name in names}
        self._attempts[uid].scores.update(scores)
        return json.dumps([{"Host": name, "Score": scores[name]} for name in names]).encode()

    def _fail(self, kind: str, verb: str) -> bytes:
        if kind == "nonsense":
            return self._rng.choice(NONSENSE[verb])
        if kind == "error" and verb == "filter":
            return b'{"Error": "cannot tell"}'
        raise NoResponse(f"no response: {kind}", is_sent=kind != "not sent")


async def _encoded(info: PodInfo) -> Any:
    """Returns a pod as it is sent, with the fields that the answers depend on."""
    text = {"metadata": {"uid": info.uid}, "nominated": info.status.nominated_node_name}
    return msgspec.Raw(json.dumps(text).encode())
