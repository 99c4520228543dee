"""The status of a quota follows the objects of its namespace at once."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

NAMESPACE = "/api/v1/namespaces/default"
QUOTAS, PODS = f"{NAMESPACE}/resourcequotas", f"{NAMESPACE}/pods"


class Api:
    """An API server in this process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, seeded_random(0))

    def ask(self, method: str, path: str, body: Any = None, *, how: str = "json") -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": f"application/{how}"}
        code, _, answer = asyncio.run(self.server.handle(method, path, [], headers, content))
        assert isinstance(answer, bytes)
        assert code in (200, 201), answer
        return json.loads(answer)

    def quota(self, name: str = "q") -> Any:
        return self.ask("GET", f"{QUOTAS}/{name}")["status"]

    def add_quota(self, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
        self.ask("POST", QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})

    def add_pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        resources = {"requests": {"cpu": cpu}} if cpu else {}
        container = {"name": "c", "image": "x", "resources": resources}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.ask("POST", PODS, body)


def test_a_new_quota_counts_what_is_there() -> None:
    api = Api()
    api.add_pod("a")
    api.add_pod("b", "500m")
    hard = {"pods": "5", "requests.cpu": "10", "secrets": "3"}
    api.add_quota(hard)

    used = {"pods": "2", "requests.cpu": "1500m", "secrets": "0"}
    assert api.quota() == {"hard": hard, "used": used}


def test_a_quota_counts_objects_of_a_later_definition() -> None:
    api = Api()
    api.add_pod("a")
    api.add_quota({"pods": "5", "count/widgets.example.com": "5"})
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    for _ in range(2):
        api.ask("POST", definitions, definition)
        for name in ("a", "b"):
            kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
            api.ask("POST", widgets, {**kind, "metadata": {"name": name}})
        api.ask("DELETE", f"{widgets}/a")
        assert api.quota()["used"] == {"pods": "1", "count/widgets.example.com": "1"}
        api.ask("DELETE", f"{definitions}/widgets.example.com")
        assert api.quota()["used"] == {"pods": "1", "count/widgets.example.com": "0"}


def test_deleted_and_finished_pods_count_no_more() -> None:
    api = Api()
    api.add_quota({"pods": "5", "count/pods": "5"})
    for name in ("a", "b", "c"):
        api.add_pod(name)
    api.ask("DELETE", f"{PODS}/a")
    assert api.quota()["used"] == {"pods": "2", "count/pods": "2"}

    finished = {"status": {"phase": "Succeeded"}}
    api.ask("PATCH", f"{PODS}/b/status", finished, how="merge-patch+json")
    assert api.quota()["used"] == {"pods": "1", "count/pods": "2"}


def test_a_changed_quota_has_a_new_status() -> None:
    api = Api()
    api.add_quota({"pods": "5"})
    change = {"spec": {"hard": {"pods": None, "requests.cpu": "4"}}}
    api.ask("PATCH", f"{QUOTAS}/q", change, how="merge-patch+json")

    assert api.quota() == {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "0"}}


def test_scopes_select_what_counts() -> None:
    api = Api()
    api.add_quota({"pods": "5"}, "best", scopes=["BestEffort"])
    api.add_quota({"pods": "5"}, "other", scopes=["NotBestEffort"])
    api.add_pod("a", cpu="")
    api.add_pod("b")
    api.add_pod("c")

    assert api.quota("best")["used"] == {"pods": "1"}
    assert api.quota("other")["used"] == {"pods": "2"}


def test_a_pod_that_ends_later_makes_room_with_its_end() -> None:
    api = Api()
    api.add_quota({"pods": "5"})
    api.add_pod("a", nodeName="n")
    api.ask("DELETE", f"{PODS}/a")
    assert api.quota()["used"] == {"pods": "1"}
    api.clock.advance(31)

    assert api.quota()["used"] == {"pods": "0"}


def test_other_namespaces_do_not_count() -> None:
    api = Api()
    api.add_quota({"configmaps": "5"})
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    for namespace in ("shop", "default"):
        api.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "m"}})

    assert api.quota()["used"] == {"configmaps": "1"}


def test_custom_objects_count() -> None:
    api = Api()
    api.add_quota({"count/widgets.example.com": "5"})
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    definition = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    api.ask("POST", definitions, definition)
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    for name in ("a", "b"):
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
        api.ask("POST", widgets, body)
    assert api.quota()["used"] == {"count/widgets.example.com": "2"}
    api.ask("DELETE", f"{widgets}/a")
    assert api.quota()["used"] == {"count/widgets.example.com": "1"}
    api.ask("DELETE", f"{definitions}/widgets.example.com")
    assert api.quota()["used"] == {"count/widgets.example.com": "0"}


CONFIG_MAPS = f"{NAMESPACE}/configmaps"
NAMES = ("pods", "requests.cpu", "configmaps", "count/resourcequotas")


class Model:
    """A namespace with quotas; what they use is added up anew each time."""

    def __init__(self) -> None:
        self.cpu: dict[str, int] = {}
        self.finished: set[str] = set()
        self.maps: set[str] = set()
        self.quotas: dict[str, tuple[dict[str, str], list[str]]] = {}

    def used(self, quota: str) -> dict[str, str]:
        hard, scopes = self.quotas[quota]
        pods = [name for name in self.cpu if name not in self.finished]
        if scopes:
            pods = [name for name in pods if not self.cpu[name]]
        millis = sum(self.cpu[name] for name in pods)
        amounts = {
            "pods": str(len(pods)),
            "requests.cpu": f"{millis}m" if millis % 1000 else str(millis // 1000),
            "configmaps": "0" if scopes else str(len(self.maps)),
            "count/resourcequotas": "0" if scopes else str(len(self.quotas)),
        }
        return {name: amounts[name] for name in hard}


@pytest.mark.parametrize("seed", range(12))
def test_the_status_is_that_of_a_count_of_all_objects(seed: int) -> None:
    rng, api, model = random.Random(seed), Api(), Model()
    steps = (
        *(_put_quota, _put_quota, _delete_quota, _add_pod, _add_pod, _add_pod),
        *(_finish_pod, _delete_pod, _add_map, _delete_map),
    )
    for number in range(120):
        for _ in range(rng.randint(1, 2)):
            rng.choice(steps)(api, model, rng, f"x{number}-{rng.randrange(1000)}")
        for quota in model.quotas:
            assert api.quota(quota)["used"] == model.used(quota), (number, quota)


def _put_quota(api: Api, model: Model, rng: random.Random, name: str) -> None:
    del name
    name = rng.choice(("p", "q", "r"))
    scopes = ["BestEffort"] if name == "r" else []
    names = ["pods"] if scopes else rng.sample(NAMES, rng.randint(1, len(NAMES)))
    hard = {each: str(rng.randint(1000, 9000)) for each in names}
    spec = {"hard": hard, **({"scopes": scopes} if scopes else {})}
    body = {"metadata": {"name": name}, "spec": spec}
    if name in model.quotas:
        api.ask("PUT", f"{QUOTAS}/{name}", body)
    else:
        api.ask("POST", QUOTAS, body)
    model.quotas[name] = hard, scopes


def _delete_quota(api: Api, model: Model, rng: random.Random, name: str) -> None:
    if model.quotas:
        name = rng.choice(sorted(model.quotas))
        api.ask("DELETE", f"{QUOTAS}/{name}")
        del model.quotas[name]


def _add_pod(api: Api, model: Model, rng: random.Random, name: str) -> None:
    needs_cpu = any("requests.cpu" in hard for hard, _ in model.quotas.values())
    millis = rng.choice((100, 250, 1000) if needs_cpu else (0, 100, 250, 1000))
    api.add_pod(name, f"{millis}m" if millis else "")
    model.cpu[name] = millis


def _finish_pod(api: Api, model: Model, rng: random.Random, name: str) -> None:
    if model.cpu:
        name = rng.choice(sorted(model.cpu))
        patch = {"status": {"phase": "Succeeded"}}
        api.ask("PATCH", f"{PODS}/{name}/status", patch, how="merge-patch+json")
        model.finished.add(name)


def _delete_pod(api: Api, model: Model, rng: random.Random, name: str) -> None:
    if model.cpu:
        name = rng.choice(sorted(model.cpu))
        api.ask("DELETE", f"{PODS}/{name}")
        del model.cpu[name]
        model.finished.discard(name)


def _add_map(api: Api, model: Model, rng: random.Random, name: str) -> None:
    del rng
    api.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    model.maps.add(name)


def _delete_map(api: Api, model: Model, rng: random.Random, name: str) -> None:
    if model.maps:
        name = rng.choice(sorted(model.maps))
        api.ask("DELETE", f"{CONFIG_MAPS}/{name}")
        model.maps.discard(name)
