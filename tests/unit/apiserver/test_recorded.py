"""The embedded API server answers what kube-apiserver answered to the same requests."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.answers import Answer, Normalizer, reduced
from tests.helpers.paths import UNIT_DATA
from tests.helpers.scenarios.base import Step
from tests.helpers.scenarios.everything import SCENARIOS

FILE = UNIT_DATA / "apiserver_answers.jsonl.gz"
#: Any date that no request of the scenarios names.
NOW_S = 1_800_000_000.0


def recorded() -> dict[str, list[Answer]]:
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    items = [json.loads(line) for line in lines]
    return {each["scenario"]: each["answers"] for each in items}


RECORDED = recorded()


async def ask(server: ApiServer, step: Step, namespace: str) -> tuple[int, bytes, str | None]:
    path, _, query = step.path.replace("NS", namespace).partition("?")
    headers = {"accept": step.accept}
    payload = (step.payload or "").replace("NS", namespace)
    if step.payload is not None:
        headers["content-type"] = step.content_type
    pairs = parse_qsl(query, keep_blank_values=True)
    status, answer_headers, body = await server.handle(
        step.method, unquote(path), pairs, headers, payload.encode()
    )
    assert isinstance(body, bytes)
    return status, body, answer_headers.get("warning")


async def replay(name: str) -> list[Answer]:
    server = ApiServer(VirtualClock(wall_s=NOW_S), seeded_random(1))
    namespace = "recorded-" + name.replace(" ", "-")
    body: Any = json.dumps({"metadata": {"name": namespace}})
    await ask(server, Step("POST", "/api/v1/namespaces", body), namespace)
    normalizer = Normalizer(namespace)
    return [normalizer.answer(*await ask(server, step, namespace)) for step in SCENARIOS[name]]


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_those_of_kube_apiserver(name: str) -> None:
    answers = asyncio.run(replay(name))
    assert len(RECORDED[name]) == len(SCENARIOS[name]), "record the scenarios anew"
    for step, real, ours in zip(SCENARIOS[name], RECORDED[name], answers, strict=True):
        step_text = f"{step.method} {step.path} {step.payload}"
        if step.differs:
            assert reduced(ours) == reduced(real), step_text
        else:
            assert ours == real, step_text


def test_few_answers_differ_on_purpose() -> None:
    steps = [step for each in SCENARIOS.values() for step in each]
    assert sum(bool(step.differs) for step in steps) <= 9
    assert len(steps) >= 380
