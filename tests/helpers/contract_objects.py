"""The objects that API servers accept in the contract suite, with the other objects they need."""

from __future__ import annotations

import asyncio
import importlib
import json
from functools import cache
from typing import Any, NamedTuple

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from mooring.objects import KINDS
from tests.integration.contract.scenario import SCENARIO_FILES, SCENARIOS
from tests.unit.apiserver.test_contract import NOT_HERE, LocalApi

for _name in SCENARIO_FILES:
    importlib.import_module(f"tests.integration.contract.scenarios_{_name}")

#: The kinds that admission reads.
SURROUNDINGS = (
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/nodes",
)


#: The scenarios that run in process.
NAMES = [name for name in SCENARIOS if name not in NOT_HERE]


class Accepted(NamedTuple):
    """An accepted object: as sent, as stored, and the objects that admission reads."""

    sent: dict[str, Any]
    stored: dict[str, Any]
    surroundings: list[dict[str, Any]]


class RecordingApi(LocalApi):
    """Records created objects."""

    def __init__(self, server: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop)
        self.accepted: list[Accepted] = []

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        is_create = method == "POST" and isinstance(body, dict) and "dryRun" not in more
        before = self._surroundings() if is_create else []
        answer = super().ask(method, path, body, **more)
        if is_create and answer.code == 201 and isinstance(answer.body, dict):
            kind = KINDS.get(answer.body.get("kind", ""))
            if kind is not None and kind.api_version == answer.body["apiVersion"]:
                self.accepted.append(Accepted(body, answer.body, before))
        return answer

    def _surroundings(self) -> list[dict[str, Any]]:
        objects: list[dict[str, Any]] = []
        for path in SURROUNDINGS:
            _, _, content = self._handle("GET", path, {})
            whole = json.loads(content)
            head = {"apiVersion": whole["apiVersion"], "kind": whole["kind"].removesuffix("List")}
            objects += [{**head, **item} for item in whole["items"]]
        return objects


@cache
def accepted_objects(name: str) -> list[Accepted]:
    """Returns the objects that a scenario of the contract suite creates."""
    with asyncio.Runner() as runner:
        api = RecordingApi(ApiServer(VirtualClock(), seeded_random(0)), runner.get_loop())
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "contract"}}
        assert api.post("/api/v1/namespaces", space).code == 201
        SCENARIOS[name](api, "contract")
        return api.accepted


def as_in_a_file(case: Accepted) -> dict[str, Any]:
    """Returns the object as in a file: with its kind and the namespace of the request."""
    stored = case.stored
    metadata = {**case.sent.get("metadata", {}), "name": stored["metadata"]["name"]}
    if "namespace" in stored["metadata"]:
        metadata["namespace"] = stored["metadata"]["namespace"]
    head = {"apiVersion": stored["apiVersion"], "kind": stored["kind"]}
    return {**case.sent, **head, "metadata": metadata}
