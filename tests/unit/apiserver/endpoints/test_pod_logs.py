"""Logs of pods with simulated kubelets: one line, and upstream's refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.apiserver.endpoints.pod_logs import LINE
from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

PODS = "/api/v1/namespaces/default/pods"
STARTED = "2026-01-01T00:00:00Z"
RUNNING = {"running": {"startedAt": STARTED}}


class Api:
    """An API server with one pod on a node."""

    def __init__(self, *containers: str, with_kubelets: bool = True, node: str = "a") -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(0), with_kubelets=with_kubelets)
        spec = {
            "nodeName": node,
            "containers": [{"name": name, "image": "i"} for name in containers],
            "initContainers": [{"name": "first", "image": "i"}],
        }
        pod = {"metadata": {"name": "web"}, "spec": spec}
        assert self.ask("POST", PODS, pod)[0] == 201

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, str]:
        content = b"" if body is None else json.dumps(body).encode()
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"content-type": f"application/{kind}"}
        answer = self.server.handle(method, path, list(query.items()), headers, content)
        code, _, text = asyncio.run(answer)
        assert isinstance(text, bytes)
        return code, text.decode()

    def has_state(self, state: Any, last: Any = None, *, name: str = "c") -> None:
        status = {"name": name, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        status |= {"state": state, "lastState": last or {}}
        body = {"status": {"containerStatuses": [status]}}
        assert self.ask("PATCH", f"{PODS}/web/status", body)[0] == 200

    def log(self, **query: str) -> str:
        code, text = self.ask("GET", f"{PODS}/web/log", **query)
        assert code == 200, text
        return text

    def refusal(self, **query: str) -> tuple[int, str]:
        code, text = self.ask("GET", f"{PODS}/web/log", **query)
        return code, json.loads(text)["message"]


def test_a_running_container_has_one_line() -> None:
    api = Api("c")
    api.has_state(RUNNING)
    assert api.log() == LINE
    assert api.log(container="c", follow="true", tailLines="5") == LINE
    assert api.log(timestamps="true") == f"{STARTED} {LINE}"
    assert api.log(tailLines="0") == ""
    assert api.log(limitBytes="7") == LINE[:7]


def test_a_container_that_has_ended_has_a_log_and_so_has_the_run_before() -> None:
    api = Api("c")
    ended = {"terminated": {"exitCode": 0, "startedAt": STARTED}}
    api.has_state(ended)
    assert api.log() == LINE
    assert api.refusal(previous="true") == (
        400,
        'previous terminated container "c" in pod "web" not found',
    )
    api.has_state({"waiting": {"reason": "CrashLoopBackOff"}}, ended)
    assert api.log() == api.log(previous="true") == LINE


def test_a_container_that_has_not_started_says_why() -> None:
    api = Api("c")
    assert api.refusal() == (400, 'container "c" in pod "web" is not available')
    api.has_state({"waiting": {"reason": "ContainerCreating"}})
    assert api.refusal() == (
        400,
        'container "c" in pod "web" is waiting to start: ContainerCreating',
    )


def test_the_container_must_be_clear() -> None:
    api = Api("c", "d")
    api.has_state(RUNNING, name="d")
    assert api.refusal() == (
        400,
        "a container name must be specified for pod web, choose one of: [first c d]",
    )
    assert api.refusal(container="x") == (400, "container x is not valid for pod web")
    assert api.log(container="d") == LINE


def test_a_pod_without_a_node_has_an_empty_log() -> None:
    assert Api("c", node="").log() == ""


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("tailLines", "-1", "must be greater than or equal to 0"),
        ("limitBytes", "0", "must be greater than 0"),
    ],
)
def test_invalid_options(name: str, value: str, problem: str) -> None:
    assert Api("c").refusal(**{name: value}) == (
        422,
        f'PodLogOptions "web" is invalid: {name}: Invalid value: {value}: {problem}',
    )


def test_nothing_else_of_a_kubelet_is_served() -> None:
    code, text = Api("c").ask("POST", f"{PODS}/web/exec")
    message = "pods/exec is not served: kubelets are simulated, and nothing runs in containers"
    assert (code, json.loads(text)["message"]) == (501, message)
    assert Api("c").ask("GET", f"{PODS}/none/log")[0] == 404
    without = Api("c", with_kubelets=False)
    message = "pods/log is not served: no kubelet runs the pods of this server"
    assert without.refusal() == (501, message)
