"""Concurrent requests to the embedded API server have the results of some sequential order.

Tasks send requests about a few objects, and give way to each other at random; the recorded history
is checked against a sequential model of a store with resourceVersions.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import pytest

from mooring.clock import Rng, seeded_random
from tests.helpers.api import CONFIG_MAPS, MERGE, Api
from tests.machines.linearizability import UNKNOWN, Operation, is_linearizable

NAMES = ("x", "y")
TASKS, REQUESTS = 4, 6
METHODS = ("GET", "LIST", "POST", "PUT", "PUT", "PATCH", "DELETE")


class Asked(NamedTuple):
    """A request; ``version`` is the resourceVersion that a PUT requires, 0 = any."""

    method: str
    name: str = ""
    value: str = ""
    version: int = 0


#: (name, value, resourceVersion) of each object, sorted, after the version of the store.
State = tuple[Any, ...]


def sequential(state: State, call: tuple[Asked, int]) -> tuple[State, Hashable]:
    """Returns the next state and the result: a status, or what was read.

    The version of a write is the server's; the model requires that it grows.
    """
    (method, name, value, required), version = call
    latest, objects = state[0], {each[0]: each[1:] for each in state[1:]}
    if method == "LIST":
        return state, (200, tuple(sorted((key, *each) for key, each in objects.items())))
    stored = objects.get(name)
    if method == "POST":
        if stored is not None:
            return state, 409
    elif stored is None:
        return state, 404
    elif method == "GET":
        return state, (200, *stored)
    elif method == "PUT" and required and required != stored[1]:
        return state, 409
    elif method != "DELETE" and stored[0] == value:
        return state, (200, stored[1])  # nothing changes, nothing is written
    if method == "DELETE":
        del objects[name]
        return (latest, *sorted((key, *each) for key, each in objects.items())), 200
    if version <= latest:
        return state, "a version that does not grow"
    objects[name] = value, version
    written = version, *sorted((key, *each) for key, each in objects.items())
    return written, (201 if method == "POST" else 200, version)


class Recorder:
    """Sends requests, and records when they began and ended, and their results."""

    def __init__(self, seed: int) -> None:
        self.api = Api()
        self.rng: Rng = seeded_random(seed)
        self.moments = itertools.count()
        self.history: list[Operation] = []
        self.versions = dict.fromkeys(NAMES, 0)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(self.client())

    async def client(self) -> None:
        for _ in range(REQUESTS):
            method, name = self.rng.choice(METHODS), self.rng.choice(NAMES)
            required = self.versions[name] if self.rng.random() < 0.7 else 0
            version = required if method == "PUT" else 0
            asked = Asked(method, name, self.rng.choice("abc"), version)
            began = next(self.moments)
            await self.pause()
            status, body = await self.send(asked)
            await self.pause()
            result, written = self.result_of(asked, status, body)
            self.history.append(Operation(began, next(self.moments), (asked, written), result))

    async def pause(self) -> None:
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)

    async def send(self, asked: Asked) -> tuple[int, Any]:
        metadata: dict[str, Any] = {"name": asked.name}
        if asked.version:
            metadata["resourceVersion"] = str(asked.version)
        body = {"metadata": metadata, "data": {"value": asked.value}}
        path = CONFIG_MAPS if asked.method in ("LIST", "POST") else f"{CONFIG_MAPS}/{asked.name}"
        method = "GET" if asked.method == "LIST" else asked.method
        kind = {"content_type": MERGE} if method == "PATCH" else {}
        sent = body if method in ("POST", "PUT", "PATCH") else None
        status, _, content = await self.api.handle(method, path, sent, **kind)
        assert isinstance(content, bytes)
        return status, json.loads(content)

    def result_of(self, asked: Asked, status: int, body: Any) -> tuple[Hashable, int]:
        """Returns the result as the model has it, and the version that was written."""
        if status >= 400:
            return status, 0
        if asked.method == "LIST":
            return (200, tuple(sorted(map(_seen, body["items"])))), 0
        if asked.method == "DELETE":
            return status, 0
        name, value, version = _seen(body)
        self.versions[name] = version
        if asked.method == "GET":
            return (200, value, version), 0
        return (status, version), version


def _seen(item: Any) -> tuple[str, str, int]:
    metadata = item["metadata"]
    return metadata["name"], item["data"]["value"], int(metadata["resourceVersion"])


@pytest.mark.parametrize("seed", range(40))
def test_concurrent_requests_are_linearizable(seed: int) -> None:
    recorder = Recorder(seed)
    asyncio.run(recorder.run())

    overlaps = sum(
        first.began < second.ended and second.began < first.ended
        for first, second in itertools.combinations(recorder.history, 2)
    )
    assert overlaps > 20
    # Namespaces and such have been created before.
    assert is_linearizable(recorder.history, (0,), sequential)


def test_a_stale_read_is_no_linearizable_history() -> None:
    recorder = Recorder(3)
    asyncio.run(recorder.run())
    writes = [each for each in recorder.history if each.request[0].method == "POST"]  # type: ignore[index]
    name = writes[0].request[0].name  # type: ignore[index]
    late = Operation(1000, 1001, (Asked("GET", name), 0), (200, "never written", 1))

    assert not is_linearizable([*recorder.history, late], (0,), sequential)


# -- the checker ----------------------------------------------------------------------------------


def register(state: Any, request: Any) -> tuple[Any, Hashable]:
    """Writes or reads a register: a request is ("write", value) or ("read",)."""
    return (request[1], "ok") if request[0] == "write" else (state, state)


def operations(*lines: tuple[int, float, Any, Any]) -> list[Operation]:
    return [Operation(*line) for line in lines]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        # One after another.
        ([(0, 1, ("write", 1), "ok"), (2, 3, ("read",), 1)], True),
        ([(0, 1, ("write", 1), "ok"), (2, 3, ("read",), 0)], False),
        # At the same time: either order.
        ([(0, 3, ("write", 1), "ok"), (1, 2, ("read",), 0)], True),
        ([(0, 3, ("write", 1), "ok"), (1, 2, ("read",), 1)], True),
        # Once read, it stays.
        (
            [(0, 9, ("write", 1), "ok"), (1, 2, ("read",), 1), (3, 4, ("read",), 0)],
            False,
        ),
        # A lost answer: the write may have happened, at any time, or never.
        ([(0, math.inf, ("write", 1), UNKNOWN), (1, 2, ("read",), 1)], True),
        ([(0, math.inf, ("write", 1), UNKNOWN), (1, 2, ("read",), 0)], True),
        ([(5, math.inf, ("write", 1), UNKNOWN), (1, 2, ("read",), 1)], False),
    ],
)
def test_the_checker(history: list[Any], expected: bool) -> None:
    assert is_linearizable(operations(*history), 0, register) is expected
