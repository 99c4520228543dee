"""A pod on its node: restarts, backoff, phases, conditions, by virtual seconds."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest

from mooring.devcluster.kubelet.pod_run import PodRun
from mooring.devcluster.kubelet.pods import PODS, KubeletPod
from mooring.devcluster.kubelet.programs import Program
from mooring.objects.codec.decode import decode

START_S = 1000.0
WALL_S = 1_767_225_600.0  # the beginning of 2026


def pod(spec: dict[str, Any], conditions: list[dict[str, str]] | None = None) -> KubeletPod:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
        "spec": spec,
        "status": {"conditions": conditions or []},
    }
    found: KubeletPod = decode(json.dumps(raw).encode(), PODS)
    return found


def runs(name: str, script: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **fields}


class Node:
    """Leads a pod through time: ``until`` advances it at each of its instants."""

    def __init__(self, spec: dict[str, Any], program: Program | None = None) -> None:
        self.run = PodRun(pod(spec), program, "10.0.0.1")
        self.now_s = START_S
        self._advance()

    def _advance(self) -> None:
        wall_s = WALL_S + self.now_s - START_S
        self.run.advance(self.now_s, wall_s)
        self.run.status(self.now_s, wall_s)  # as it is written

    def until(self, seconds: float) -> dict[str, Any]:
        """Goes on to so many seconds after the start; returns the status."""
        while self.run.next_s <= START_S + seconds:
            assert self.run.next_s > self.now_s, "nothing is due twice"
            self.now_s = self.run.next_s
            self._advance()
        self.now_s = START_S + seconds
        return self.run.status(self.now_s, WALL_S + seconds)

    def container(self, seconds: float) -> dict[str, Any]:
        (found,) = self.until(seconds)["containerStatuses"]
        assert isinstance(found, dict)
        return found


def state(status: dict[str, Any]) -> str:
    """Returns the state of a container as kubectl prints it."""
    ((name, detail),) = status["state"].items()
    return str(detail.get("reason", name))


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        item["type"]: (item["status"], item.get("reason") or "") for item in status["conditions"]
    }


def test_a_program_that_succeeds_ends_its_pod() -> None:
    node = Node({"restartPolicy": "Never", "containers": [runs("main", "sleep 30")]})
    status = node.until(29)
    assert status["phase"] == "Running"
    assert conditions(status) == dict.fromkeys(
        ("Initialized", "Ready", "ContainersReady"), ("True", "")
    )
    status = node.until(30)
    assert status["phase"] == "Succeeded"
    (container,) = status["containerStatuses"]
    assert container["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:30Z",
    }
    assert conditions(status) == {
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
    }
    assert node.run.next_s == math.inf


def test_a_program_that_fails_fails_a_pod_that_is_not_restarted() -> None:
    node = Node({"restartPolicy": "Never", "containers": [runs("main", "exit 42")]})
    status = node.until(1)
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42
    assert conditions(status)["Ready"] == ("False", "PodFailed")


def test_the_backoff_of_restarts_doubles_up_to_five_minutes() -> None:
    node = Node({"containers": [runs("main", "exit 1")]})
    starts = [0.0]
    for _ in range(9):
        restarts = len(starts) - 1
        while node.container(node.run.next_s - START_S)["restartCount"] == restarts:
            pass
        starts.append(node.now_s - START_S)
    # Each run takes a second; the first restart has no backoff.
    waits = [after - before - 1 for before, after in pairwise(starts)]
    assert waits == [1, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_container_in_backoff_says_so_and_its_pod_is_not_ready() -> None:
    node = Node({"restartPolicy": "OnFailure", "containers": [runs("main", "exit 2")]})
    assert state(node.container(1)) == "Error"
    assert state(node.container(2)) == "running"
    status = node.until(3)
    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    (container,) = status["containerStatuses"]
    text = "back-off 10s restarting failed container=main pod=web_shop(u-1)"
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    assert container["lastState"]["terminated"]["exitCode"] == 2
    assert (container["restartCount"], container["ready"]) == (1, False)


def test_a_long_run_ends_the_backoff() -> None:
    node = Node({"containers": [runs("main", "sleep 601; exit 1")]})
    assert state(node.container(601)) == "Error"
    assert state(node.container(602)) == "running"
    assert state(node.container(602 + 601)) == "Error"
    assert node.container(602 + 602)["restartCount"] == 2


@pytest.mark.parametrize(
    ("policy", "script", "phase"),
    [
        ("Always", "exit 0", "Running"),
        ("OnFailure", "exit 0", "Succeeded"),
        ("OnFailure", "exit 1", "Running"),
        ("Never", "exit 0", "Succeeded"),
        ("Never", "exit 1", "Failed"),
    ],
)
def test_the_policy_of_restarts(policy: str, script: str, phase: str) -> None:
    node = Node({"restartPolicy": policy, "containers": [runs("main", script)]})
    assert node.until(2)["phase"] == phase


def test_rules_of_a_container_come_before_its_policy() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    own = {"restartPolicy": "Never", "restartPolicyRules": rules}
    spec = {"restartPolicy": "Never", "containers": [runs("main", "exit 42", **own)]}
    assert Node(spec).until(2)["containerStatuses"][0]["restartCount"] == 1
    rules[0]["exitCodes"] = {"operator": "NotIn", "values": [42]}
    assert Node(spec).until(2)["phase"] == "Failed"


def test_a_pod_ends_with_its_last_container() -> None:
    containers = [runs("short", "exit 1"), runs("long", "sleep 60")]
    node = Node({"restartPolicy": "Never", "containers": containers})
    status = node.until(30)
    assert status["phase"] == "Running"
    assert [state(item) for item in status["containerStatuses"]] == ["Error", "running"]
    assert node.until(60)["phase"] == "Failed"


def test_init_containers_run_one_after_the_other() -> None:
    inits = [runs("first", "sleep 10"), {"name": "second", "image": "any"}]
    node = Node({"initContainers": inits, "containers": [{"name": "main", "image": "any"}]})
    status = node.until(5)
    assert status["phase"] == "Pending"
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert [state(item) for item in status["initContainerStatuses"]] == [
        "running",
        "PodInitializing",
    ]
    assert state(status["containerStatuses"][0]) == "PodInitializing"
    status = node.until(11)  # an image that is not known takes a second
    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == ("True", "")
    assert [item["ready"] for item in status["initContainerStatuses"]] == [True, True]


def test_an_init_container_that_fails_is_restarted_unless_the_policy_is_never() -> None:
    spec = {
        "initContainers": [runs("first", "exit 1")],
        "containers": [{"name": "main", "image": "any"}],
    }
    node = Node(spec)
    assert node.until(2)["initContainerStatuses"][0]["restartCount"] == 1
    assert node.until(100)["phase"] == "Pending"
    status = Node({**spec, "restartPolicy": "Never"}).until(1)
    assert status["phase"] == "Failed"
    assert state(status["containerStatuses"][0]) == "PodInitializing"


def test_a_sidecar_starts_first_and_ends_with_its_pod() -> None:
    sidecar = {"name": "proxy", "image": "any", "restartPolicy": "Always"}
    node = Node(
        {
            "restartPolicy": "Never",
            "initContainers": [sidecar],
            "containers": [runs("main", "sleep 5")],
        }
    )
    assert node.until(4)["initContainerStatuses"][0]["started"] is True
    status = node.until(5)
    assert status["phase"] == "Succeeded"
    assert state(status["initContainerStatuses"][0]) == "Completed"


def test_a_readiness_probe_delays_ready_or_never_succeeds() -> None:
    delayed = {"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 7}}
    node = Node({"containers": [{"name": "main", "image": "any", **delayed}]})
    assert conditions(node.until(6))["Ready"] == ("False", "ContainersNotReady")
    status = node.until(7)
    assert conditions(status)["Ready"] == ("True", "")
    changed = {item["type"]: item["lastTransitionTime"] for item in status["conditions"]}
    assert changed["Ready"] == "2026-01-01T00:00:07Z"
    assert changed["Initialized"] == "2026-01-01T00:00:00Z"
    failing = {"readinessProbe": {"exec": {"command": ["/bin/false"]}}}
    node = Node({"containers": [{"name": "main", "image": "any", **failing}]})
    assert conditions(node.until(10_000))["Ready"] == ("False", "ContainersNotReady")


def test_readiness_gates() -> None:
    spec = {
        "readinessGates": [{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}],
        "containers": [{"name": "main", "image": "any"}],
    }
    node = Node(spec)
    ready = next(item for item in node.until(1)["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert ready["message"] == (
        'corresponding condition of pod readiness gate "example.com/a" does not exist., '
        'corresponding condition of pod readiness gate "example.com/b" does not exist.'
    )
    node.run.pod = pod(
        spec,
        [
            {"type": "example.com/a", "status": "True"},
            {"type": "example.com/b", "status": "False"},
        ],
    )
    ready = next(item for item in node.until(2)["conditions"] if item["type"] == "Ready")
    assert ready["message"] == (
        'the status of pod readiness gate "example.com/b" is not "True", but False'
    )
    node.run.pod = pod(
        spec, [{"type": f"example.com/{name}", "status": "True"} for name in ("a", "b")]
    )
    ready = next(item for item in node.until(3)["conditions"] if item["type"] == "Ready")
    assert ready["status"] == "True"
    # None deletes what the API server has.
    assert (ready["reason"], ready["message"]) == (None, None)


def test_the_deadline_of_a_pod_kills_its_containers() -> None:
    node = Node({"activeDeadlineSeconds": 60, "containers": [{"name": "main", "image": "any"}]})
    assert node.until(59)["phase"] == "Running"
    status = node.until(60)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_annotations_describe_the_program_of_all_containers() -> None:
    node = Node(
        {"restartPolicy": "Never", "containers": [{"name": "main", "image": "perl"}]},
        Program(20.0, 9),
    )
    assert node.until(19)["phase"] == "Running"
    assert node.container(20)["state"]["terminated"]["exitCode"] == 9


def test_most_pods_simply_run() -> None:
    plain = {"name": "main", "image": "nginx", "command": ["nginx", "-g", "daemon off;"]}
    run = PodRun(pod({"containers": [plain], "initContainers": [plain]}), None, "10.0.0.1")
    step = run.advance(START_S, WALL_S)
    assert [item.is_init for item in step.started] == [True, False]
    assert run.phase == "Running"
    assert run.next_s == math.inf
    status = run.status(START_S, WALL_S)
    assert "terminated" in status["initContainerStatuses"][0]["state"]
    assert "running" in status["containerStatuses"][0]["state"]
    assert {item["status"] for item in status["conditions"]} == {"True"}
