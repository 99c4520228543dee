"""Asks a real kube-apiserver the questions of tests/unit/scenarios.

The answers go to ``tests/unit/data/apiserver_answers.jsonl.gz``, one scenario a line, with UIDs,
times and versions replaced by names. Needs the control plane (``make controlplane``)::

    python tools/record_answers.py
"""

from __future__ import annotations

import gzip
import json
import ssl
import sys
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from mooring.testing.controlplane import ControlPlane  # noqa: E402
from tests.helpers.answers import Answer, Normalizer  # noqa: E402
from tests.helpers.scenarios.base import Step  # noqa: E402
from tests.helpers.scenarios.everything import SCENARIOS  # noqa: E402

TARGET = ROOT / "tests/unit/data/apiserver_answers.jsonl.gz"
DEADLINE_S = 30


def ask(connection: HTTPSConnection, step: Step, namespace: str) -> tuple[int, bytes, str | None]:
    """One request."""
    headers = {"accept": step.accept}
    payload = step.payload
    if payload is not None:
        headers["content-type"] = step.content_type
        payload = payload.replace("NS", namespace)
    connection.request(step.method, step.path.replace("NS", namespace), payload, headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.getheader("Warning")


def record(connection: HTTPSConnection, name: str, steps: list[Step]) -> list[Answer]:
    """The answers of one scenario, in a namespace of its own."""
    namespace = "recorded-" + name.replace(" ", "-")
    body = json.dumps({"metadata": {"name": namespace}})
    ask(connection, Step("POST", "/api/v1/namespaces", body), namespace)
    normalizer = Normalizer(namespace)
    return [normalizer.answer(*ask(connection, step, namespace)) for step in steps]


def main() -> None:
    """Record all scenarios."""
    with ControlPlane() as plane:
        context = ssl.create_default_context(cafile=str(plane.authority))
        pair = plane.certificate("admin")
        context.load_cert_chain(pair.certificate, pair.key)
        server = urlsplit(plane.url)
        connection = HTTPSConnection(
            server.hostname or "", server.port, context=context, timeout=DEADLINE_S
        )
        lines = [
            json.dumps({"scenario": name, "answers": record(connection, name, steps)})
            for name, steps in SCENARIOS.items()
        ]
        connection.close()
    text = "\n".join(lines) + "\n"
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{sum(map(len, SCENARIOS.values()))} answers, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
