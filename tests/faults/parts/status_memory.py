"""The memory of a status writer: requests without an answer, and pods as they were stored.

Both are limited; beyond that the oldest pod is forgotten. Versions may be no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from mooring.clock import Rng, VirtualClock
from mooring.errors import OutcomeUnknown, Unreachable
from mooring.objects.pod import Pod
from mooring.scheduler import status_writer
from mooring.scheduler.status_writer import StatusWriter, _Requests
from mooring.testing import make_pod

#: Beginnings and ends of requests at the same time.
REQUEST_STEPS: Final = 60
STORED_STEPS: Final = 60
LIMITS: Final = (1, 2, 3, 1_000)
UIDS: Final = ("a", "b", "c", "d")
#: A version that is no number counts as older than all numbers.
VERSIONS: Final = {"": 0, "x": 0, "1.5": 0, "٣": 0, "0": 0, "1": 1, "2": 2, "9": 9, "10": 10}


def memory_problems(rng: Rng) -> Iterator[str]:
    """Yields what is remembered wrongly, with drawn limits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_writer, "STORED_MAX", rng.choice(LIMITS))
        yield from _request_problems(rng)
        yield from _stored_problems(rng)


def _request_problems(rng: Rng) -> Iterator[str]:
    """Begins and ends requests for pods at random.

    All is known of a pod if none is open, and after each that ended without an answer another one
    began that was answered.
    """
    requests = _Requests()
    opened: list[tuple[int, str, Any]] = []
    #: UID -> when requests ended without an answer, in the order of their first one.
    unknown: dict[str, list[int]] = {}
    for step in range(REQUEST_STEPS):
        if len(opened) < 3 and rng.random() < 0.5:
            uid = rng.choice(UIDS)
            block = requests.sending(uid)
            block.__enter__()
            opened.append((step, uid, block))
        elif opened:
            began, uid, block = opened.pop(rng.randrange(len(opened)))
            error = rng.choice((None, None, OutcomeUnknown("lost"), Unreachable("refused")))
            with suppress(OutcomeUnknown, Unreachable):
                block.__exit__(type(error) if error is not None else None, error, None)
            if isinstance(error, OutcomeUnknown):
                unknown.setdefault(uid, []).append(step)
            elif error is None and all(ended < began for ended in unknown.get(uid, ())):
                unknown.pop(uid, None)
            if len(unknown) > status_writer.STORED_MAX:
                del unknown[next(iter(unknown))]
        elif rng.random() < 0.1:
            uid = rng.choice(UIDS)
            requests.forget(uid)
            unknown.pop(uid, None)
        for uid in UIDS:
            is_known = uid not in unknown and all(uid != other for _, other, _ in opened)
            if requests.are_known(uid) != is_known:
                yield f"what is stored of {uid} counts as known: {not is_known}, at step {step}"


def _stored_problems(rng: Rng) -> Iterator[str]:
    """Stores and reads pods at random: the newer version counts."""
    unused: Any = None
    writer = StatusWriter(unused, clock=VirtualClock(), rng=rng)
    stored: dict[str, Pod] = {}
    for step in range(STORED_STEPS):
        uid, version = rng.choice(UIDS), rng.choice(list(VERSIONS))
        metadata = {"resourceVersion": version, "generation": step}
        phase = "Pending" if step % 2 else "Running"
        pod = make_pod(uid, uid=uid, metadata=metadata, status={"phase": phase}, labels={"a": "b"})
        before = stored.get(uid)
        is_older = before is None or _number(before) <= VERSIONS[version]
        newer = pod if is_older or before is None else before
        match rng.choice(("remember", "remember", "newer", "newest", "forget")):
            case "remember":
                writer._remember(pod)
                stored[uid] = newer
                if len(stored) > status_writer.STORED_MAX:
                    del stored[next(iter(stored))]
            case "forget":
                writer.forget(uid)
                stored.pop(uid, None)
            case "newer" if _facts(real := writer._newer(pod)) != _facts(newer):
                yield f"version {real.metadata.resource_version!r} is newer than {version!r}"
            case "newest":
                if _facts(real := writer._newest(pod)) != _facts(newer):
                    yield f"version {real.metadata.resource_version!r} is newer than {version!r}"
                if newer is pod:
                    stored.pop(uid, None)
        facts = {uid: _facts(pod) for uid, pod in writer._stored.items()}
        if list(facts.items()) != [(uid, _facts(pod)) for uid, pod in stored.items()]:
            yield f"the pods {facts} are remembered, not {list(stored)}"
        if any(pod.spec.containers or pod.metadata.labels for pod in writer._stored.values()):
            yield "more than the status of a pod is remembered"


def _facts(pod: Pod) -> tuple[object, ...]:
    """Returns what a later write needs of a pod."""
    metadata = pod.metadata
    names = metadata.name, metadata.namespace, metadata.uid
    return (*names, metadata.resource_version, metadata.generation, pod.status)


def _number(pod: Pod) -> int:
    return VERSIONS[pod.metadata.resource_version]
