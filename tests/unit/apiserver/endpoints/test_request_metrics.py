"""/metrics: requests by verb, resource and code, under kube-apiserver's names."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

MAPS = "/api/v1/namespaces/default/configmaps"


class Api:
    """An API server in this process."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(0))

    def ask(
        self, method: str, path: str, body: Any = None, how: str = "json", **query: str
    ) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": f"application/{how}"}
        pairs = list(query.items())
        code, _, answer = asyncio.run(self.server.handle(method, path, pairs, headers, content))
        return code, answer

    def requests(self, resource: str = "configmaps") -> dict[str, int]:
        """Returns the counts: the labels that differ -> number."""
        _, text = self.ask("GET", "/metrics")
        found = {}
        for line in text.decode().splitlines():
            if line.startswith("apiserver_request_total{") and f'resource="{resource}"' in line:
                labels, number = line.split("{")[1].rsplit("} ", 1)
                pairs = dict(pair.split("=") for pair in labels.split(","))
                names = ("verb", "code", "scope", "subresource", "dry_run")
                found[" ".join(pairs[name].strip('"') for name in names).strip()] = int(number)
        return found


def test_requests_are_counted_by_verb_and_code() -> None:
    api = Api()
    body = {"metadata": {"name": "m"}}
    api.ask("POST", MAPS, body)
    api.ask("POST", MAPS, body)
    api.ask("POST", MAPS, {"metadata": {"name": "n"}}, dryRun="All")
    api.ask("GET", MAPS)
    api.ask("GET", "/api/v1/configmaps")
    api.ask("GET", f"{MAPS}/m")
    api.ask("GET", f"{MAPS}/none")
    api.ask("GET", MAPS, watch="true")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    api.ask("PATCH", f"{MAPS}/m", applied, "apply-patch+yaml", fieldManager="t")
    api.ask("DELETE", f"{MAPS}/m")

    assert api.requests() == {
        "POST 201 resource": 1,
        "POST 409 resource": 1,
        "POST 201 resource  All": 1,
        "LIST 200 namespace": 1,
        "LIST 200 cluster": 1,
        "GET 200 resource": 1,
        "GET 404 resource": 1,
        "WATCH 200 namespace": 1,
        "APPLY 200 resource": 1,
        "DELETE 200 resource": 1,
    }


def test_texts_of_clients_make_no_series() -> None:
    api = Api()
    for number in range(3):
        api.ask("GET", f"{MAPS}/m/odd{number}")
        api.ask("BREW", f"{MAPS}/m{number}")
        api.ask("GET", f"/apis/odd{number}/v1/things")

    counts = api.requests()
    assert set(counts) == {"GET 404 resource", "other 405 resource"}
    assert counts["GET 404 resource"] == 3


def test_stored_objects_are_counted() -> None:
    api = Api()
    _, text = api.ask("GET", "/metrics")

    assert b'apiserver_storage_objects{resource="namespaces"} 4\n' in text
